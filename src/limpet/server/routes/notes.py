"""What is kept about a user as text: the notes of MEMORY.md, and the profile."""

from __future__ import annotations

from typing import Annotated, TypedDict

from pydantic import Field

from limpet.notes.long_term import ANY_VERSION, compute_version
from limpet.server.auth import Caller
from limpet.server.operation import Operations
from limpet.server.params import Body, Query, Text, User

operations = Operations("notes")


class Notes(TypedDict):
    text: Annotated[str, "Markdown; empty: there is nothing yet"]
    version: Annotated[str, "of this text, for writing it"]


class Profile(TypedDict):
    text: Annotated[str, "empty: nothing is known yet"]


class NotesQuery(Query):
    user: User | None = None


class WriteNotes(Body):
    text: Annotated[Text, Field(max_length=100_000, description="Markdown, all of it")]
    version: (
        Annotated[
            Text, Field(min_length=1, max_length=100, description="that was read; left out: whatever is there goes")
        ]
        | None
    ) = None
    user: User | None = None


@operations.get("/v1/notes")
def get_notes(who: Caller, query: NotesQuery) -> Notes:
    """A user's MEMORY.md"""
    return _notes(who.hf.notes.long_term(who.resolve_user(query.user)).read())


@operations.put("/v1/notes")
def put_notes(who: Caller, body: WriteNotes) -> Notes:
    """Write a user's MEMORY.md anew

    With a `version` only if it is still that one: what somebody else wrote meanwhile is not lost.
    """
    notes = who.hf.notes.long_term(who.resolve_user(body.user))
    return _notes(notes.write(body.text, version=body.version or ANY_VERSION).text)


@operations.get("/v1/profile")
def get_profile(who: Caller, query: NotesQuery) -> Profile:
    """A short text about a user, made of what is known"""
    return {"text": who.hf.profile(who.resolve_user(query.user)).text}


def _notes(text: str) -> Notes:
    return {"text": text, "version": compute_version(text)}
