"""Three chats to look at, for whoever opens the page on an empty store."""

from __future__ import annotations

from datetime import timedelta
from threading import Lock
from typing import Annotated, TypedDict

from limpet.api import sample
from limpet.errors import WrongState
from limpet.model.values import system_clock
from limpet.server.auth import Caller
from limpet.server.route import Routes

routes = Routes()

_LOADING = Lock()


class Sample(TypedDict):
    user: Annotated[str, "whose it is"]
    sessions: Annotated[int, "how many were made"]
    messages: Annotated[int, "how many were stored"]
    question: Annotated[str, "one that it answers"]


@routes.add("POST /v1/sample", status=201)
def load_sample(who: Caller, /) -> Sample:
    """Load three chats between Mara and her assistant, and a fact that changed; the last chat was yesterday"""
    with _LOADING:  # two clicks at once load it once
        return _load(who)


def _load(who: Caller) -> Sample:
    if who.memory.sessions(sample.USER, limit=1):
        raise WrongState(f"{sample.USER} has sessions already: the sample is for a store that does not know her")
    # As if it were recent: retention removes what is old.
    later = system_clock() - timedelta(days=1) - max(chat.at for chat in sample.CHATS)
    sample.load(who.memory, later=later)
    _, planned, moved = sample.CHATS
    for text, chat in ((sample.BEFORE, planned), (sample.AFTER, moved)):
        who.memory.remember(text, user=sample.USER, key=sample.KEY, valid_from=chat.at + later)
    return {
        "user": sample.USER,
        "sessions": len(sample.CHATS),
        "messages": sum(len(chat.lines) for chat in sample.CHATS),
        "question": sample.QUESTION,
    }
