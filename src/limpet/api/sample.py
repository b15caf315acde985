"""A sample to look at: three chats between Mara and her assistant Pip."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from limpet.api.limpet import Limpet
    from limpet.api.session import Session

USER = "mara"
AGENT = "pip"
CHANNEL, CHAT = "demo", "boathouse"


class SampleChat(NamedTuple):
    at: datetime
    lines: tuple[tuple[str, str], ...]  # speaker and text, a minute apart


def _read_chats() -> tuple[SampleChat, ...]:
    chats = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))["chat"]
    return tuple(SampleChat(chat["at"], tuple((who, text) for who, text in chat["lines"])) for chat in chats)


CHATS = _read_chats()
QUESTION = "What does the goose on the jetty want?"
KEY = "regatta_date"
BEFORE, AFTER = "Regatta is on 13 June", "Regatta is on 20 June"


def load(
    memory: Limpet, *, later: timedelta = timedelta(0), at: Callable[[datetime], None] = lambda _: None
) -> Session:
    """Every chat a session of its own under the same key; the last one is still open.

    The chats were in spring 2026, or so much ``later``; ``at`` is told when each begins and ends.
    """
    from limpet.model.message import Message

    session = memory.session(CHANNEL, CHAT, user=USER, agent=AGENT)
    for number, chat in enumerate(CHATS):
        begins = chat.at + later
        at(begins)
        if number:
            session = session.new()
        at(begins + timedelta(minutes=len(chat.lines) - 1))
        session.extend(
            Message.new(
                "user" if speaker == "Mara" else "assistant",
                text,
                name=speaker,
                created_at=begins + timedelta(minutes=minute),
            )
            for minute, (speaker, text) in enumerate(chat.lines)
        )
    return session
