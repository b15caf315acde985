"""Purges, usage, and the sample: what is done to memory as a whole."""

from __future__ import annotations

from datetime import timedelta
from threading import Lock
from typing import Annotated, Literal, TypedDict

from pydantic import Field, RootModel

from limpet.api import sample
from limpet.errors import WrongState
from limpet.model.receipt import Receipt
from limpet.model.session import Usage
from limpet.model.times import system_clock
from limpet.server.auth import Caller
from limpet.server.operation import Operations
from limpet.server.pages import Page, make_offset_page
from limpet.server.params import Body, Counted, Id, Name, OfAgent, OfSession, OfUser, Query

operations = Operations("keeping")

_ASKED_BY = "http"  # a key may be called after its user, and a receipt names nobody
_LOADING = Lock()
_Purged = Annotated[Name, Field(description="the user")]
_Confirmed = Annotated[str, Field(description="the user's name again; without it only counted")]


class UsageQuery(Query):
    user: OfUser | None = None
    agent: OfAgent | None = None
    session: OfSession | None = None


class PurgeSession(Body):
    what: Annotated[Literal["session"], Field(description="one session with all that came of it")]
    session: Annotated[Id, Field(description="its id")]
    confirm: Annotated[str, Field(description="the session's id again; without it only counted")] | None = None


class PurgeUser(Body):
    what: Annotated[Literal["user"], Field(description="everything of a user")]
    user: _Purged
    confirm: _Confirmed | None = None


class PurgeOlder(Body):
    what: Annotated[Literal["older"], Field(description="everything of a user that is older")]
    user: _Purged
    days: Annotated[float, Field(ge=0, le=36_500, allow_inf_nan=False, description="how old, in days")]
    confirm: _Confirmed | None = None


class Purge(RootModel[Annotated[PurgeSession | PurgeUser | PurgeOlder, Field(discriminator="what")]]):
    """Which of the three, and the confirmation."""


class Purged(TypedDict):
    done: Annotated[bool, "false: it was not confirmed, and the receipt only counts"]
    receipt: Annotated[Receipt, "what was removed, or would be"]


class Sample(TypedDict):
    user: Annotated[str, "whose it is"]
    sessions: Annotated[int, "how many were made"]
    messages: Annotated[int, "how many were kept"]
    question: Annotated[str, "one that it answers"]


@operations.get("/v1/usage")
def get_usage(who: Caller, query: UsageQuery) -> Usage:
    """What models took: of a session, a user, or all you may see"""
    return who.hf.admin.usage(query.user, query.agent, query.session)


@operations.post("/v1/purge")
def purge(who: Caller, body: Purge) -> Purged:
    """Remove a session, a user, or all of a user that is older, without a trace

    `confirm` must repeat the user's name or the session's id. Otherwise nothing is removed, `done` is false, and the
    receipt says what would be.
    """
    wanted = body.root
    if isinstance(wanted, PurgeSession):  # an id is the same in large letters
        done = (wanted.confirm or "").lower() == wanted.session.lower()
    else:
        done = wanted.confirm == wanted.user
    return {"done": done, "receipt": _purged(who, wanted, dry_run=not done)}


@operations.get("/v1/purge")
def list_receipts(who: Caller, query: Counted) -> Page[Receipt]:
    """What was purged, the latest first, without names and content"""
    offset = int(query.cursor or 0)
    return make_offset_page(who.hf.privacy.receipts(query.limit + 1, offset), query.limit, offset)


@operations.post("/v1/sample", 201)
def load_sample(who: Caller) -> Sample:
    """Three chats between Mara and her assistant, and a fact that changed, to look at; the last chat was yesterday"""
    with _LOADING:  # by two clicks at once, too, it comes once
        return _sample(who)


def _sample(who: Caller) -> Sample:
    if who.hf.sessions(sample.USER, limit=1):
        raise WrongState(f"{sample.USER} has sessions already: the sample goes into a store that does not know her")
    # Told as if it were recent: retention takes what is old.
    later = system_clock() - timedelta(days=1) - max(chat.at for chat in sample.CHATS)
    sample.load(who.hf, later=later)
    _, planned, moved = sample.CHATS
    for said, chat in ((sample.BEFORE, planned), (sample.AFTER, moved)):
        who.hf.remember(said, user=sample.USER, key=sample.KEY, valid_from=chat.at + later)
    return {
        "user": sample.USER,
        "sessions": len(sample.CHATS),
        "messages": sum(len(chat.lines) for chat in sample.CHATS),
        "question": sample.QUESTION,
    }


def _purged(who: Caller, wanted: PurgeSession | PurgeUser | PurgeOlder, *, dry_run: bool) -> Receipt:
    match wanted:
        case PurgeSession():
            return who.hf.privacy.purge_session(wanted.session, asked_by=_ASKED_BY, dry_run=dry_run)
        case PurgeUser():
            return who.hf.privacy.purge_user(wanted.user, asked_by=_ASKED_BY, dry_run=dry_run)
        case PurgeOlder():
            return who.hf.privacy.purge_older(wanted.user, wanted.days, asked_by=_ASKED_BY, dry_run=dry_run)
