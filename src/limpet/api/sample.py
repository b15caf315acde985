"""A sample to look at: three chats between Mara and her assistant Pip."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
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


CHATS = (
    SampleChat(
        datetime(2026, 5, 2, 9, 30, tzinfo=UTC),
        (
            ("Mara", "I did it. I bought the old rowing boat at the boathouse auction! I'm calling her Marzipan."),
            ("Pip", "Congratulations to you and Marzipan. Does she float?"),
            ("Mara", "Mostly. There is a leak under the second plank, about one teacup an hour."),
            ("Pip", "A teacup an hour is a hobby, not a shipwreck. Pine tar and oakum should close it."),
            ("Mara", "A goose named Admiral guards the jetty, though. He lets nobody pass without oat biscuits."),
            ("Pip", "Noted: oat biscuits for the Admiral. Bread would be bad for him anyway."),
        ),
    ),
    SampleChat(
        datetime(2026, 5, 16, 17, 5, tzinfo=UTC),
        (
            ("Mara", "The leak is closed! I used pine tar like you said, and my brother Tomek held the lantern."),
            ("Pip", "Well done, both of you. What is next for Marzipan?"),
            ("Mara", "The lake regatta on 13 June. I have to sign up by the first, and I want to paint her yellow."),
            ("Pip", "Yellow she will be. Three thin coats, a dry day between each of them."),
        ),
    ),
    SampleChat(
        datetime(2026, 6, 6, 8, 15, tzinfo=UTC),
        (
            ("Mara", "Change of plan: the regatta moved to 20 June. The Admiral is nesting on the finish line."),
            ("Pip", "He outranks everybody. A week more for the third coat of paint, then."),
            ("Mara", "Tomek will row with me. He gets seasick, even on lakes."),
            ("Pip", "Ginger biscuits for Tomek, oat biscuits for the Admiral. Do not mix them up."),
            ("Mara", "What else should I bring on the day?"),
        ),
    ),
)

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
