"""What is kept about a user as text: the notes of MEMORY.md, and the profile."""

from __future__ import annotations

from typing import Annotated, TypedDict

from pydantic import Field

from holdfast.server.door import Caller
from holdfast.server.given import Body, Query, Text, User
from holdfast.server.operation import Operations

operations = Operations("notes")


class Notes(TypedDict):
    text: Annotated[str, "Markdown; empty: there is nothing yet"]


class NotesQuery(Query):
    user: User | None = None


class WriteNotes(Body):
    text: Annotated[Text, Field(max_length=100_000, description="Markdown, all of it")]
    user: User | None = None


@operations.get("/v1/notes")
def get_notes(who: Caller, query: NotesQuery) -> Notes:
    """A user's MEMORY.md"""
    return {"text": who.hf.long_term(who.own(query.user)).read()}


@operations.put("/v1/notes")
def put_notes(who: Caller, body: WriteNotes) -> Notes:
    """Write a user's MEMORY.md anew"""
    notes = who.hf.long_term(who.own(body.user))
    notes.write(body.text)
    return {"text": notes.read()}


@operations.get("/v1/profile")
def get_profile(who: Caller, query: NotesQuery) -> Notes:
    """A short text about a user, made of what is known"""
    return {"text": who.hf.profile(who.own(query.user)).text}
