"""Checks of the search index: words match the text, and every chunk has a vector or a pending job."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from functools import partial

from limpet.model.chunk import SourceKind
from limpet.model.job import EMBED, Finding
from limpet.model.values import from_micros
from limpet.search import word_index
from limpet.search.analysis import ANALYZER_VERSION, add_words, analyse, format_index_text, pack_terms
from limpet.search.chunk_repository import PartitionRow
from limpet.search.embed import MODEL
from limpet.store import jobs
from limpet.store.encryption import RowLayout
from limpet.store.store import Store
from limpet.store.tables import CHUNKS
from limpet.store.tx import Cipher, Db, Row, Tx, partition_key

log = logging.getLogger("limpet.search")

_ANALYSIS = "analysis"
_CHUNK = RowLayout(CHUNKS, "ordinal word_count terms text kind name created_at")


def record_analyzer(store: Store) -> None:
    """Store the analysis version in a new store; warn if it differs."""
    stored_version = store.read(lambda tx: tx.db.get_property(_ANALYSIS))
    if stored_version is None:
        store.write(_save_analyzer)
    elif stored_version != ANALYZER_VERSION:
        log.warning(
            "words were indexed as %s, this program reads %s: run `limpet doctor --repair`",
            stored_version,
            ANALYZER_VERSION,
        )


def _save_analyzer(tx: Tx) -> None:
    tx.db.set_property(_ANALYSIS, ANALYZER_VERSION)


def check_index(store: Store, *, repair: bool) -> Iterator[Finding]:
    stale = store.read(lambda tx: tx.db.get_property(_ANALYSIS)) != ANALYZER_VERSION
    for (partition_id,) in store.read(lambda tx: tx.db.all("partitions.ids", {})):
        check = partial(_check_words, partition_id=partition_id, stale=stale, repair=repair)
        yield store.run_check("words", check, repair=repair)
    if repair:
        store.write(_save_analyzer)
    yield store.run_check("vectors", lambda tx: _check_vectors(tx.db, repair=repair), repair=repair)


def _check_words(tx: Tx, *, partition_id: int, stale: bool, repair: bool) -> Finding:
    """Rebuild the index from the text and compare."""
    db = tx.db
    found = db.one("partitions.counters", partition_key(partition_id), order=db.for_update if repair else "")
    if found is None:
        return Finding("words", ok=True, detail="a partition that is gone by now")
    tenant, level, owner, *counters = found
    if owner.startswith(" "):
        return Finding("words", ok=True, detail=f"a partition of tenant {tenant!r} that is purged")
    cipher = tx.encryption.find_cipher(tenant)
    if cipher is None:
        return Finding("words", ok=True, detail=f"{level} {owner}: not looked at, tenant {tenant!r} has no key here")
    row = PartitionRow(partition_id, *counters)
    chunks = db.all("chunks.analysed", row.key)
    expected = _analyse_chunks(cipher, row, chunks)
    faults = [
        f"chunk {ordinal} has other words than its text"
        for (ordinal, length, packed, *_), right in zip(chunks, expected, strict=True)
        if (ordinal, length, bytes(packed)) != right
    ]
    stored: dict[int, bytes] = {}
    for term, _, data in db.all("postings.all", row.key):
        stored[term] = stored.get(term, b"") + bytes(data)
    merged_chunks = [chunk for chunk in expected if chunk[0] < row.merged_ordinal]
    if stored != word_index.build_postings(merged_chunks):
        faults.append("the postings differ from the chunks")
    totals = (len(merged_chunks), sum(length for _, length, _ in merged_chunks))
    if totals != (row.chunk_count, row.word_count):
        faults.append(f"counts {row.chunk_count, row.word_count} should be {totals}")
    if repair and (faults or stale):
        _write_index(db, PartitionRow(partition_id, row.next_ordinal, 0, 0, 0, row.removals), expected)
    where = f"{level} {owner}".strip()
    if not faults and stale:
        return Finding("words", repair, f"{where}: indexed by another analysis", repaired=repair)
    detail = f"{where}: " + ("; ".join(faults[:5]) if faults else f"{len(expected)} chunks agree with their text")
    return Finding("words", not faults, detail, repaired=repair and bool(faults))


def _analyse_chunks(cipher: Cipher, partition: PartitionRow, chunks: Sequence[Row]) -> list[Row]:
    """Yield the ordinal, length and terms of each chunk, computed from its text."""
    expected = []
    for row in chunks:
        ordinal, _, _, text, kind, name, created_at = cipher.decrypt_row(_CHUNK, (partition.id, row[0]), row)
        said = kind == SourceKind.MESSAGE.value
        terms = analyse(format_index_text(text, name, from_micros(created_at)) if said else add_words(text, name))
        expected.append((ordinal, terms.length, pack_terms(cipher.hash_terms(terms))))
    return expected


def rebuild_index(db: Db, partition_id: int, cipher: Cipher) -> None:
    found = db.one("partitions.counters", partition_key(partition_id), order=db.for_update)
    assert found is not None
    _, _, _, next_ordinal, _, _, _, removals = found
    row = PartitionRow(partition_id, next_ordinal, 0, 0, 0, removals)
    _write_index(db, row, _analyse_chunks(cipher, row, db.all("chunks.analysed", row.key)))


def _write_index(db: Db, row: PartitionRow, expected: list[Row]) -> None:
    rows = [
        {**row.key, "ordinal": ordinal, "word_count": length, "terms": packed} for ordinal, length, packed in expected
    ]
    db.run_many("chunks.set_terms", rows)
    db.run("postings.delete_all", row.key)
    row.removals += 1  # nobody may use what was cached of the old index
    if expected:
        row.next_ordinal = max(row.next_ordinal, expected[-1][0] + 1)
    word_index.merge_tail(db, row)
    db.run("partitions.advance", row.counter_params())


def _check_vectors(db: Db, *, repair: bool) -> Finding:
    """Check that every chunk has a vector of the current model or a pending job, and that no others are left."""
    models = {name: (model_id, count) for model_id, name, _, count in db.all("models.counts", {})}
    current, total = db.get_property(MODEL), db.one("chunks.count", {})
    chunks = total[0] if total else 0
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
        jobs.make_due(db, EMBED)
    elif repair:
        for model_id, _ in old.values():
            db.run("vectors.delete_model", {"model_id": model_id})
    detail = f"{here} of {chunks} chunks have a vector of {current}" + (f", {waiting} jobs at work" if waiting else "")
    return Finding("vectors", not faults, "; ".join([detail, *faults]), repaired=repair and bool(faults))
