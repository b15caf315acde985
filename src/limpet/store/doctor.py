"""What must hold in any store: counters agree with rows, the word index with the text, labels with their records."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

from limpet.errors import KeyMissing, StorageError
from limpet.model.chunk import SourceKind
from limpet.model.job import EMBED
from limpet.model.times import from_micros
from limpet.search import word_index
from limpet.search.analysis import ANALYZER_VERSION, analyse, format_index_text
from limpet.search.word_index import PartitionRow
from limpet.store import jobs
from limpet.store.base import Finding
from limpet.store.db import Db, Row
from limpet.store.encrypted_columns import CHUNKS, RECORD_METADATA, RECORD_TAGS, RECORDS
from limpet.store.encryption import Cipher, RowLayout
from limpet.store.tx import Tx
from limpet.store.writer import TransactionConnection

T = TypeVar("T")

log = logging.getLogger("limpet.store")


_LABELLED = RowLayout(RECORDS, "id tags metadata inputs")
_CHUNK = RowLayout(CHUNKS, "id word_count terms text kind name created_at")


class InspectableStore(Protocol):
    def write(self, work: Callable[[Tx], T]) -> T: ...
    def read(self, work: Callable[[Tx], T]) -> T: ...


def count_rows(tx: Tx) -> dict[str, int]:
    row = tx.db.one("stats.counts", {})
    assert row is not None
    names = ("sessions", "messages", "records", "documents", "chunks", "vectors", "users")
    return dict(zip(names, row, strict=True))


def record_analyzer(connection: TransactionConnection) -> None:
    """Note in a new store which analysis cuts its words."""
    found = connection.tx.db.one("properties.get", {"name": "analysis"})
    if found is not None:
        if found[0] != ANALYZER_VERSION:
            log.warning(
                "words were indexed as %s, this program reads %s: run `limpet doctor --repair`",
                found[0],
                ANALYZER_VERSION,
            )
        return
    connection.begin()
    try:
        connection.tx.db.run("properties.set", {"name": "analysis", "value": ANALYZER_VERSION})
        connection.commit()
    finally:
        connection.rollback()


def run_checks(store: InspectableStore, *, repair: bool) -> Iterator[Finding]:
    """Each check in a transaction of its own: what it compares is of one moment, and so is its repair."""

    def run_check(name: str, check: Callable[[Tx], Finding]) -> Finding:
        try:
            return (store.write if repair else store.read)(check)
        except StorageError as error:
            return Finding(
                name, ok=False, detail=str(error)
            )  # a damaged table is a finding; the rest is looked at still

    yield run_check("sessions", lambda tx: _check_sessions(tx.db, repair=repair))
    yield run_check("summaries", lambda tx: _check_summaries(tx.db))
    yield run_check("labels", lambda tx: _check_labels(tx, repair=repair))
    yield run_check("graph", lambda tx: _check_graph(tx.db, repair=repair))
    stale = store.read(lambda tx: tx.db.one("properties.get", {"name": "analysis"})) != (ANALYZER_VERSION,)
    for (space_id,) in store.read(lambda tx: tx.db.all("doctor.spaces", {})):
        yield run_check("words", partial(_check_words, space_id=space_id, stale=stale, repair=repair))
    if repair:
        store.write(lambda tx: tx.db.run("properties.set", {"name": "analysis", "value": ANALYZER_VERSION}))
    yield run_check("vectors", lambda tx: _check_vectors(tx.db, repair=repair))


def _check_sessions(db: Db, *, repair: bool) -> Finding:
    wrong = db.all("doctor.session_counts", {})
    if repair:
        fixes = [{"session": row[0], "message_count": row[3], "last_sequence": max(row[1], row[4])} for row in wrong]
        db.run_many("doctor.fix_session", fixes)
    detail = f"{len(wrong)} sessions miscount their messages" if wrong else "every session counts its messages right"
    return Finding("sessions", not wrong, detail, repaired=repair and bool(wrong))


def _check_summaries(db: Db) -> Finding:
    wrong = db.all("doctor.summaries", {})
    detail = (
        f"{len(wrong)} summaries cover messages that do not exist" if wrong else "no summary claims more than there is"
    )
    return Finding("summaries", not wrong, detail)


class _LabelQueries(NamedTuple):
    """The queries on the rows of one kind of label, and what a row holds."""

    read: str
    delete: str
    add: str
    columns: tuple[str, ...]


_LABELS = {
    "tags": _LabelQueries("doctor.tags", "records.delete_tags", "records.add_tag", ("id", "tag")),
    "metadata": _LabelQueries(
        "doctor.metadata", "records.delete_metadata", "records.add_metadata", ("id", "key", "value")
    ),
    "inputs": _LabelQueries("doctor.inputs", "records.delete_inputs", "records.add_input", ("id", "input")),
}


def _check_labels(tx: Tx, *, repair: bool) -> Finding:
    """Tags, metadata and inputs stand twice: in the record, and as rows to search by."""
    db = tx.db
    expected: dict[str, set[Row]] = {kind: set() for kind in _LABELS}
    unread: set[str] = set()
    for tenant, *rest in db.all("doctor.records", {}):
        box = _find_cipher(tx, tenant)
        if box is None:
            unread.add(rest[0])
            continue
        record_id, tags, metadata, inputs = box.decrypt_row(_LABELLED, rest[0], tuple(rest))
        expected["tags"] |= {
            (record_id, box.encrypt_deterministic(RECORD_TAGS["tag"], tag)) for tag in json.loads(tags)
        }
        expected["metadata"] |= {
            (
                record_id,
                box.encrypt_deterministic(RECORD_METADATA["key"], key),
                box.encrypt_deterministic(RECORD_METADATA["value"], value),
            )
            for key, value in json.loads(metadata).items()
        }
        expected["inputs"] |= {(record_id, input_) for input_ in json.loads(inputs or "[]")}
    found = {row[0] for kind, rows in expected.items() for row in rows ^ set(map(tuple, db.all(f"doctor.{kind}", {})))}
    wrong = found - unread
    if repair:
        for kind, label in _LABELS.items():
            db.run_many(label.delete, [{"id": record_id} for record_id in sorted(wrong)])
            rows = [dict(zip(label.columns, row, strict=True)) for row in expected[kind] if row[0] in wrong]
            db.run_many(label.add, rows)
    detail = (
        f"{len(wrong)} records are labelled otherwise than they say" if wrong else "labels agree with their records"
    )
    return Finding("labels", not wrong, detail, repaired=repair and bool(wrong))


def _find_cipher(tx: Tx, tenant: str) -> Cipher | None:
    """None where the tenant's key is not there: on purpose, it may be, and no fault of the store."""
    try:
        return tx.seals.cipher_for(tenant)
    except KeyMissing:
        return None


def _check_graph(db: Db, *, repair: bool) -> Finding:
    """Whatever the graph says came from a message or a record that is there, and no name is left over."""
    mentions, relations = db.all("doctor.lost_mentions", {}), db.all("doctor.lost_relations", {})
    if repair:
        db.run_many("doctor.drop_relation", [{"id": number} for (number,) in relations])
        db.run_many("doctor.drop_mention", [{"id": number} for number, _ in mentions])
    idle = db.all("doctor.idle_entities", {})
    if repair:
        db.run_many("doctor.drop_relations_of", [{"id": number} for (number,) in idle])
        db.run_many("doctor.drop_entity", [{"id": number} for (number,) in idle])
    faults = {
        "mentions of what is not there": len(mentions),
        "relations that nothing states": len(relations),
        "names that nothing mentions": len(idle),
    }
    found = "; ".join(f"{count} {what}" for what, count in faults.items() if count)
    detail = found or "every name, mention and relation has its source"
    return Finding("graph", not found, detail, repaired=repair and bool(found))


def _check_words(tx: Tx, *, space_id: int, stale: bool, repair: bool) -> Finding:
    """Rebuild the index from the text and compare."""
    db = tx.db
    found = db.one("doctor.space", {"id": space_id}, order=db.for_update if repair else "")
    if found is None:
        return Finding("words", ok=True, detail="a space that is gone by now")
    tenant, level, owner, *counters = found
    box = _find_cipher(tx, tenant)
    if box is None:
        return Finding("words", ok=True, detail=f"{level} {owner}: not looked at, tenant {tenant!r} has no key here")
    row = PartitionRow(space_id, *counters)
    chunks = db.all("doctor.space_chunks", row.id_range(0))
    expected = _analyse_chunks(box, chunks)
    faults = [
        f"chunk {word_index.to_ordinal(chunk_id)} has other words than its text"
        for (chunk_id, length, packed, *_), right in zip(chunks, expected, strict=True)
        if (chunk_id, length, bytes(packed)) != right
    ]
    stored: dict[int, bytes] = {}
    for term, _, data in db.all("words.everything", {"space_id": space_id}):
        stored[term] = stored.get(term, b"") + bytes(data)
    merged_chunks = [chunk for chunk in expected if chunk[0] < row.chunk_id(row.merged_ordinal)]
    if stored != word_index.build_postings(merged_chunks):
        faults.append("the postings differ from the chunks")
    totals = (len(merged_chunks), sum(length for _, length, _ in merged_chunks))
    if totals != (row.chunk_count, row.word_count):
        faults.append(f"counts {row.chunk_count, row.word_count} should be {totals}")
    if repair and (faults or stale):
        _rebuild_index(db, PartitionRow(space_id, row.next_ordinal, 0, 0, 0, row.removals), expected)
    where = f"{level} {owner}".strip()
    if not faults and stale:
        return Finding("words", repair, f"{where}: indexed by another analysis", repaired=repair)
    detail = f"{where}: " + ("; ".join(faults[:5]) if faults else f"{len(expected)} chunks agree with their text")
    return Finding("words", not faults, detail, repaired=repair and bool(faults))


def _analyse_chunks(box: Cipher, chunks: Sequence[Row]) -> list[Row]:
    """The id, length and terms of each chunk as its text says."""
    expected = []
    for row in chunks:
        chunk_id, _, _, text, kind, name, created_at = box.decrypt_row(_CHUNK, row[0], row)
        said = kind == SourceKind.MESSAGE.value
        terms = analyse(format_index_text(text, name, from_micros(created_at)) if said else text)
        expected.append((chunk_id, terms.length, word_index.pack_terms(box.hash_terms(terms))))
    return expected


def reindex(db: Db, space_id: int, box: Cipher) -> None:
    """Make a space's word index anew from its text."""
    found = db.one("doctor.space", {"id": space_id}, order=db.for_update)
    assert found is not None
    _, _, _, next_ordinal, _, _, _, removals = found
    space = PartitionRow(space_id, next_ordinal, 0, 0, 0, removals)
    _rebuild_index(db, space, _analyse_chunks(box, db.all("doctor.space_chunks", space.id_range(0))))


def _rebuild_index(db: Db, space: PartitionRow, expected: list[Row]) -> None:
    rows = [{"id": chunk_id, "word_count": length, "terms": packed} for chunk_id, length, packed in expected]
    db.run_many("doctor.reword", rows)
    db.run("words.drop_space", {"space_id": space.id})
    if expected:
        space.next_ordinal = max(space.next_ordinal, word_index.to_ordinal(expected[-1][0]) + 1)
    word_index.merge_tail(db, space)
    params = {"id": space.id, "next_ordinal": space.next_ordinal, "merged_ordinal": space.merged_ordinal}
    db.run(
        "spaces.advance",
        {**params, "chunk_count": space.chunk_count, "word_count": space.word_count, "removals": space.removals},
    )


def _check_vectors(db: Db, *, repair: bool) -> Finding:
    """Every chunk has a vector of the model in use, or is waiting for it; no other model's vectors are left over."""
    models = {name: (model_id, count) for model_id, name, _, count in db.all("doctor.models", {})}
    found, total = db.one("properties.get", {"name": "model"}), db.one("doctor.chunk_count", {})
    current, chunks = found[0] if found else None, total[0] if total else 0
    if current is None:
        counted = ", ".join(f"{name}: {count}" for name, (_, count) in models.items())
        return Finding("vectors", ok=True, detail=counted or "no vectors stored")
    here = models.get(current, (0, 0))[1]
    waiting = jobs.count_jobs(db, [(EMBED, current)])
    old = {name: found for name, found in models.items() if name != current and found[1]}
    faults = [f"{chunks - here} wait for nothing"] if here < chunks and not waiting else []
    faults += [f"{count} vectors of {name} are no longer used" for name, (_, count) in old.items()]
    if repair and here < chunks:
        jobs.enqueue_for_all_partitions(db, EMBED, current, from_micros(0))
        jobs.make_due_now(db, EMBED)
    elif repair:
        for model_id, _ in old.values():
            db.run("vectors.drop_model", {"model_id": model_id})
    detail = f"{here} of {chunks} chunks have a vector of {current}" + (f", {waiting} jobs at work" if waiting else "")
    return Finding("vectors", not faults, "; ".join([detail, *faults]), repaired=repair and bool(faults))
