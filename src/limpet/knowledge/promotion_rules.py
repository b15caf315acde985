"""What was learned in an episode and holds beyond it: which records are promoted, where to, and as what. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Literal

from limpet.errors import WrongState
from limpet.model.record import Layer, Origin, Record, RecordType
from limpet.model.scope import Home, Level, Scope

Wider = Literal["user", "global"]

LAYERS = dict.fromkeys(
    (RecordType.CONSTRAINT, RecordType.PREFERENCE, RecordType.FACT, RecordType.DECISION), Layer.SEMANTIC
) | dict.fromkeys((RecordType.FAILURE, RecordType.FIX, RecordType.COMMAND_RESULT), Layer.PROCEDURAL)
_MADE = (Origin.TURN, Origin.CONDENSED, Origin.PROMOTED)  # what happened, or was made of others


def is_due(record: Record, now: datetime, confidence: float) -> bool:
    """Whether a record is promoted by itself: sure enough, true now, and of a type that holds beyond its episode."""
    return (
        record.layer is Layer.EPISODIC
        and record.confidence >= confidence
        and record.type in LAYERS
        and record.origin not in _MADE
        and record.archived_at is None
        and record.superseded_by is None
        and record.true_at(now)
    )


def is_outdated(record: Record, about: Iterable[Record]) -> bool:
    """Whether something newer is known about the same attribute: an old episode must not bring the old value back."""
    if record.attribute is None or record.valid_from is None:
        return False
    return any(
        other.id != record.id
        and other.home == record.home
        and other.layer is not Layer.EPISODIC
        and (other.value, other.polarity) != (record.value, record.polarity)
        and other.valid_from is not None
        and other.valid_from > record.valid_from
        for other in about
    )


def home_for(record: Record, scope: Wider | None) -> Home:
    """The record's own place, unless a wider one is named. Nothing becomes visible to others by itself."""
    if scope is None or scope == record.level:
        return record.home
    if scope == "global":
        return Home(Scope(record.home.scope.tenant), Level.GLOBAL)
    if record.home.level is Level.SESSION:
        return Home(Scope(record.home.scope.tenant, user=record.user), Level.USER)
    raise WrongState(f"scope='user' is for a session's record; record {record.id} belongs to its {record.level}")


def promoted(record: Record, home: Home, id: str, now: datetime) -> Record:
    """The copy, linked to its origin. It keeps the source, and since when it is true."""
    return replace(
        record,
        id=id,
        home=home,
        layer=LAYERS.get(record.type, Layer.SEMANTIC),
        key=None,  # belongs to the origin
        origin=Origin.PROMOTED,
        created_at=now,
        updated_at=now,
        last_used_at=None,
        uses=0,
        superseded_by=None,
        archived_at=None,
        version=1,
        inputs=(record.id,),
    )


def equal(copy: Record, others: Iterable[Record], now: datetime) -> Record | None:
    """A record of the same place and layer that says the same and is true now."""
    return next(
        (
            other
            for other in others
            if other.fingerprint == copy.fingerprint
            and other.home == copy.home
            and other.layer is copy.layer
            and other.polarity == copy.polarity
            and other.superseded_by is None
            and other.archived_at is None
            and other.true_at(now)
        ),
        None,
    )


def merged(target: Record, record: Record) -> Record:
    """The record that says so already, with what the episode adds. Its own words stay."""
    return replace(
        target,
        tags=_united(target.tags, record.tags),
        references=_united(target.references, record.references),
        confidence=max(target.confidence, record.confidence),
        said=target.said + record.said,
        inputs=tuple(dict.fromkeys((*target.inputs, record.id))),
    )


def _united(one: tuple[str, ...], other: tuple[str, ...], most: int = 100) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*one, *other)))[:most]
