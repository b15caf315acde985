"""The turns of a day in one record: what was asked and answered, shortened. By rules, or as a model tells it. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta, tzinfo
from typing import NamedTuple

from limpet.model.record import Layer, Origin, Record, RecordSource, RecordType, fingerprint
from limpet.model.scope import Owner
from limpet.model.shorten import DigestLine, fit_lines
from limpet.model.tokens import TokenCounter

_MOST_LABELS = 100
_LONGEST = 600  # characters of a turn that are looked at


class Day(NamedTuple):
    """The turns one owner had on one day, the first first. What a chat alone may know stays that chat's."""

    home: Owner
    day: date
    turns: tuple[Record, ...]


def group_by_day(turns: Iterable[Record], now: datetime, older_than: int, zone: tzinfo) -> list[Day]:
    """Days that are over for so many days, the oldest first."""
    last = (now.astimezone(zone) - timedelta(days=older_than)).date()
    found: dict[tuple[Owner, date], list[Record]] = defaultdict(list)
    for turn in turns:
        if turn.origin is Origin.TURN and turn.archived_at is None and not turn.pinned and turn.created_at is not None:
            day = turn.created_at.astimezone(zone).date()
            if day < last:
                found[turn.home, day].append(turn)
    order = sorted(found.items(), key=lambda item: (item[0][1], item[0][0].owner))
    return [Day(home, day, tuple(sorted(each, key=_sort_key))) for (home, day), each in order]


def _sort_key(turn: Record) -> tuple[datetime, str]:
    assert turn.created_at is not None
    return turn.created_at, turn.id


def format_turn(turn: Record) -> str:
    return " ".join(" | ".join(filter(None, (turn.title, turn.content[:_LONGEST]))).split())


def digest_day(day: Day, most_tokens: int, count: TokenCounter) -> str:
    """A line for each turn, all of them within the tokens."""
    return fit_lines([DigestLine(format_turn(turn), of="turns") for turn in day.turns], most_tokens, count)


def build_day_record(day: Day, text: str, id: str, now: datetime) -> Record:
    """The record that stands for the day. It is dated as its last turn is: that is when it happened."""
    turns = day.turns
    sessions = {turn.source.session_id for turn in turns}
    sequences = {sequence for turn in turns for sequence in turn.source.sequences} if len(sessions) == 1 else set()
    return Record(
        id=id,
        home=day.home,
        layer=Layer.EPISODIC,
        type=RecordType.TASK_STATE,
        content=text,
        title=day.day.isoformat(),
        tags=_merge_labels(turn.tags for turn in turns),
        metadata={"day": day.day.isoformat(), "turns": str(len(turns))},
        confidence=min(turn.confidence for turn in turns),
        salience=max(turn.salience for turn in turns),
        references=_merge_labels(turn.references for turn in turns),
        fingerprint=fingerprint(RecordType.TASK_STATE, text),
        source=RecordSource(sessions.pop() if len(sessions) == 1 else None, tuple(sorted(sequences))),
        origin=Origin.CONDENSED,
        created_at=turns[-1].created_at,
        updated_at=now,
        valid_from=turns[0].valid_from or turns[0].created_at,
        inputs=tuple(turn.id for turn in turns),
    )


def _merge_labels(lists: Iterable[Sequence[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(label for labels in lists for label in labels))[:_MOST_LABELS]
