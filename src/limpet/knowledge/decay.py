"""How a record loses strength with time, and what that means for it. Pure; somebody else acts.

A record that nobody uses, says again or changes has half its strength after its *life*, and fades then:

    strength = 0.5 ** (time since it was last touched / life)
    life     = fade_days x (0.5 + worth) x (1 + log2(said + uses))
    worth    = (confidence + salience) / 2

A record of middling worth, said once and never used, lives ``fade_days``; the surest and most salient one lives one
and a half times as long, the least half as long. Each doubling of how often it was said or used adds one more life.
Using it or saying it again begins the time anew. What a user stated outright or pinned does not fade, and neither does
a copy of it. What is no longer true is history: it does not fade, and has a rule of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto
from math import log2

from limpet.model.naming import is_internal
from limpet.model.record import Origin, Record

FADE_THRESHOLD = 0.5  # below this strength a record is archived
_SHORTEST = 0.5  # of fade_days: nothing fades before
_DAY = timedelta(days=1)


class DecayOutcome(Enum):
    STAYS = auto()
    ARCHIVED = auto()
    DELETED = auto()


@dataclass(frozen=True, slots=True)
class DecayRules:
    """In days; 0 for never."""

    fade: int = 30
    delete_archived: int = 180
    delete_past: int = 0


def is_protected(record: Record) -> bool:
    """What somebody stated outright or pinned is theirs to remove, and a text made of memories has its own rule."""
    return record.pinned or record.origin is Origin.EXPLICIT or is_internal(record.key)


def last_activity(record: Record) -> datetime | None:
    """When it was last used, said again or changed."""
    moments = (record.created_at, record.updated_at, record.last_used_at)
    return max((moment for moment in moments if moment is not None), default=None)


def half_life(record: Record, fade_days: float) -> timedelta:
    worth = (record.confidence + record.salience) / 2
    return fade_days * (0.5 + worth) * (1 + log2(max(1, record.said + record.uses))) * _DAY


def strength(record: Record, now: datetime, fade_days: float) -> float:
    """From 1 for a record that was touched just now, or never fades, towards 0."""
    since = last_activity(record)
    if is_protected(record) or fade_days <= 0 or since is None or since >= now:
        return 1.0
    return float(0.5 ** ((now - since) / half_life(record, fade_days)))


def min_fade_age(rules: DecayRules) -> timedelta:
    """Whatever was touched since is not worth a look."""
    spans = [days for days in (rules.fade * _SHORTEST, rules.delete_past) if days > 0]
    return min(spans) * _DAY if spans else timedelta.max


def decide_outcome(record: Record, now: datetime, rules: DecayRules, inputs: Iterable[Record] = ()) -> DecayOutcome:
    """``inputs``: the records it was made from, as far as they are there."""
    if is_protected(record):
        return DecayOutcome.STAYS
    if record.archived_at is not None:
        return (
            DecayOutcome.DELETED if _is_overdue(record.archived_at, rules.delete_archived, now) else DecayOutcome.STAYS
        )
    ended = _end_time(record, now)
    if ended is not None:
        return DecayOutcome.DELETED if _is_overdue(ended, rules.delete_past, now) else DecayOutcome.STAYS
    # The copy of what was stated outright was stated outright, too.
    copied = record.origin is Origin.PROMOTED and any(is_protected(origin) for origin in inputs)
    if copied or strength(record, now, rules.fade) >= FADE_THRESHOLD:
        return DecayOutcome.STAYS
    return DecayOutcome.ARCHIVED


def _end_time(record: Record, now: datetime) -> datetime | None:
    """When it stopped being true. What was superseded without saying when ended with its last change."""
    ends = [end for end in (record.valid_to, record.expires_at) if end is not None and end <= now]
    if record.superseded_by is not None and not ends and record.updated_at is not None:
        ends.append(record.updated_at)
    return min(ends, default=None)


def _is_overdue(since: datetime, days: int, now: datetime) -> bool:
    return days > 0 and now - since >= days * _DAY
