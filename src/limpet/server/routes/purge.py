"""Purging with a confirmation: nothing goes because a request was sent by mistake."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypedDict

from limpet.api import parameters as given
from limpet.api.wire import describe_choice
from limpet.errors import InvalidInput
from limpet.model.constraints import Number
from limpet.model.privacy import Receipt
from limpet.model.types import Text
from limpet.server.auth import Caller
from limpet.server.route import ASKED_BY, Routes

routes = Routes()

_Days = Annotated[float, Number(0, 36_500), "how old, in days; for older"]
_NEEDED = {"session": ("session",), "user": ("user",), "older": ("user", "days")}


class PurgeAnswer(TypedDict):
    done: Annotated[bool, "false: it was not confirmed, and the receipt only counts"]
    receipt: Annotated[Receipt, "what was removed, or would be"]


def _describe(what: str, needed: tuple[str, ...]) -> dict[str, Any]:
    choice = describe_choice(needed, ("session", "user", "days"))
    return {**choice, "properties": {"what": {"const": what}, **choice["properties"]}}


@routes.add("POST /v1/purge", rules={"oneOf": [_describe(*each) for each in _NEEDED.items()]})
def purge(
    who: Caller,
    /,
    *,
    what: Annotated[Literal["session", "user", "older"], "a session, everything of a user, or what is older"],
    session: Annotated[given.SessionId, "its id; for session"] | None = None,
    user: Annotated[given.OneUser, "the user; for user and older"] | None = None,
    days: _Days | None = None,
    confirm: Annotated[Text, "the user's name or the session's id again; without it only counted"] | None = None,
) -> PurgeAnswer:
    """Remove a session, a user, or everything of a user that is older, without a trace

    `confirm` must repeat the user's name or the session's id. Otherwise nothing is removed, `done` is false, and the
    receipt says what would be.
    """
    _check_fields(what, {"session": session, "user": user, "days": days})
    privacy = who.memory.privacy
    if session is not None:  # an id is the same in capital letters
        done = (confirm or "").lower() == session.lower()
        receipt = privacy.purge_session(session, asked_by=ASKED_BY, dry_run=not done)
    elif days is not None:
        assert user is not None
        done = confirm == user
        receipt = privacy.purge_older(user, days, asked_by=ASKED_BY, dry_run=not done)
    else:
        assert user is not None
        done = confirm == user
        receipt = privacy.purge_user(user, asked_by=ASKED_BY, dry_run=not done)
    return {"done": done, "receipt": receipt}


def _check_fields(what: str, fields: dict[str, object]) -> None:
    for name, value in fields.items():
        if value is None and name in _NEEDED[what]:
            raise InvalidInput(f"body.{name}: to purge {what}, {name} is needed")
        if value is not None and name not in _NEEDED[what]:
            raise InvalidInput(f"body.{name}: to purge {what}, leave out {name}")
