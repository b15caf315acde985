"""What was learned in an episode and holds beyond it: which records are promoted, where to, and as what. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Literal

from limpet.errors import WrongState
from limpet.model.record import Layer, Origin, Record, RecordType
from limpet.model.scope import Level, Owner, Scope

PromotionScope = Literal["user", "global"]

LAYERS = dict.fromkeys(
    (RecordType.CONSTRAINT, RecordType.PREFERENCE, RecordType.FACT, RecordType.DECISION), Layer.SEMANTIC
) | dict.fromkeys((RecordType.FAILURE, RecordType.FIX, RecordType.COMMAND_RESULT), Layer.PROCEDURAL)
_DERIVED_ORIGINS = (Origin.TURN, Origin.CONDENSED, Origin.PROMOTED)  # what happened, or was made of others


def is_due(record: Record, now: datetime, confidence: float) -> bool:
    """Whether a record is promoted by itself: sure enough, true now, and of a type that holds beyond its episode."""
    return (
        record.layer is Layer.EPISODIC
        and record.confidence >= confidence
        and record.type in LAYERS
        and record.origin not in _DERIVED_ORIGINS
        and record.archived_at is None
        and record.superseded_by is None
        and record.is_valid_at(now)
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


def choose_owner(record: Record, scope: PromotionScope | None) -> Owner:
    """The record's own place, unless a wider one is named. Nothing becomes visible to others by itself."""
    if scope is None or scope == record.level:
        return record.home
    if scope == "global":
        return Owner(Scope(record.home.scope.tenant), Level.GLOBAL)
    if record.home.level is Level.SESSION:
        return Owner(Scope(record.home.scope.tenant, user=record.user), Level.USER)
    raise WrongState(f"scope='user' is for a session's record; record {record.id} belongs to its {record.level}")


def build_promotion(record: Record, home: Owner, id: str, now: datetime) -> Record:
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


def find_equal(copy: Record, others: Iterable[Record], now: datetime) -> Record | None:
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
            and other.is_valid_at(now)
        ),
        None,
    )


def merge_into(target: Record, record: Record) -> Record:
    """The record that says so already, with what the episode adds. Its own words stay."""
    return replace(
        target,
        tags=_merge_labels(target.tags, record.tags),
        references=_merge_labels(target.references, record.references),
        confidence=max(target.confidence, record.confidence),
        said=target.said + record.said,
        inputs=tuple(dict.fromkeys((*target.inputs, record.id))),
    )


def _merge_labels(one: tuple[str, ...], other: tuple[str, ...], most: int = 100) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*one, *other)))[:most]
