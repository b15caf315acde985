"""What a turn counts as used."""

from __future__ import annotations

from datetime import UTC, datetime

from limpet.api.turn import select_used_records
from limpet.context.build import Recalled
from limpet.model.chunk import Hit, Source, SourceKind
from limpet.model.record import Layer, Record, RecordSource, RecordType
from limpet.model.scope import Level, Owner, Scope

NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)
HOME = Owner(Scope("default", user="alice"), Level.USER)


def message(sequence: int, session: str = "s") -> Hit:
    return Hit(
        "said", 1.0, {}, Source(SourceKind.MESSAGE, session, NOON, session, sequence, sequence, "user", None), {}
    )


def found(id: str) -> Hit:
    return Hit("known", 0.5, {}, Source(SourceKind.RECORD, id, NOON), {})


def record(id: str, *sequences: int, session: str = "s") -> Record:
    return Record(id, HOME, Layer.SEMANTIC, RecordType.FACT, "known", source=RecordSource(session, sequences))


def known(hits: list[Hit], *records: Record) -> Recalled:
    relevance = {hit.source.id: hit.score for hit in hits if hit.source.kind is SourceKind.RECORD}
    return Recalled(tuple(hits), records, relevance)


def test_used_records_include_only_top_hits():
    hits = [found("a"), message(1), found("b")]
    assert select_used_records(known(hits, record("a"), record("b")), 2) == {"a"}


def test_used_records_include_records_learned_from_top_messages():
    hits = [message(3), message(4), found("a"), found("b"), found("c")]
    records = record("a", 3), record("b", 5), record("c", 3, session="another")
    assert select_used_records(known(hits, *records), 2) == {"a"}


def test_used_records_exclude_records_that_were_not_recalled():
    assert select_used_records(known([message(3)], record("a", 3)), 10) == frozenset()
