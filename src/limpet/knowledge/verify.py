"""What must hold of knowledge: labels agree with their records, and the graph has its sources."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from limpet.model.job import Finding
from limpet.store.encryption import RowLayout
from limpet.store.store import Store
from limpet.store.tables import RECORD_METADATA, RECORD_TAGS, RECORDS
from limpet.store.tx import Db, Row, Tx

_LABELLED = RowLayout(RECORDS, "id tags metadata inputs")
_KEY = ("bucket", "partition_id", "id")


def check_knowledge(store: Store, *, repair: bool) -> Iterator[Finding]:
    yield store.run_check("labels", lambda tx: _check_labels(tx, repair=repair), repair=repair)
    yield store.run_check("graph", lambda tx: _check_graph(tx.db, repair=repair), repair=repair)


class _LabelQueries(NamedTuple):
    """The queries on the rows of one kind of label, and what a row holds."""

    read: str
    delete: str
    add: str
    columns: tuple[str, ...]


_LABELS = {
    "tags": _LabelQueries("records.all_tags", "records.delete_tags", "records.add_tag", (*_KEY, "tag")),
    "metadata": _LabelQueries(
        "records.all_metadata", "records.delete_metadata", "records.add_metadata", (*_KEY, "key", "value")
    ),
    "inputs": _LabelQueries("records.all_inputs", "records.delete_inputs", "records.add_input", (*_KEY, "input")),
}


def _check_labels(tx: Tx, *, repair: bool) -> Finding:
    """Tags, metadata and inputs stand twice: in the record, and as rows to search by."""
    db = tx.db
    expected: dict[str, set[Row]] = {kind: set() for kind in _LABELS}
    unread: set[Row] = set()
    for tenant, bucket, partition_id, *rest in db.all("records.labels", {}):
        cipher, key = tx.encryption.find_cipher(tenant), (bucket, partition_id, rest[0])
        if cipher is None:
            unread.add(key)
            continue
        _, tags, metadata, inputs = cipher.decrypt_row(_LABELLED, rest[0], tuple(rest))
        expected["tags"] |= {(*key, cipher.encrypt_deterministic(RECORD_TAGS["tag"], tag)) for tag in json.loads(tags)}
        expected["metadata"] |= {
            (
                *key,
                cipher.encrypt_deterministic(RECORD_METADATA["key"], name),
                cipher.encrypt_deterministic(RECORD_METADATA["value"], value),
            )
            for name, value in json.loads(metadata).items()
        }
        expected["inputs"] |= {(*key, input_) for input_ in json.loads(inputs or "[]")}
    found = {
        row[:3] for kind, rows in expected.items() for row in rows ^ set(map(tuple, db.all(_LABELS[kind].read, {})))
    }
    wrong = found - unread
    if repair:
        keys = _to_keys(sorted(wrong))
        for kind, label in _LABELS.items():
            db.run_many(label.delete, keys)
            rows = [dict(zip(label.columns, row, strict=True)) for row in expected[kind] if row[:3] in wrong]
            db.run_many(label.add, rows)
    detail = (
        f"{len(wrong)} records are labelled otherwise than they say" if wrong else "labels agree with their records"
    )
    return Finding("labels", not wrong, detail, repaired=repair and bool(wrong))


def _check_graph(db: Db, *, repair: bool) -> Finding:
    """Whatever the graph says came from a message or a record that is there, and no name is left over."""
    mentions, relations = db.all("mentions.find_lost", {}), db.all("relations.find_lost", {})
    if repair:
        db.run_many("relations.delete", _to_keys(relations))
        db.run_many("mentions.delete", _to_keys(mentions))
    idle = db.all("entities.find_unmentioned", {})
    if repair:
        db.run_many("relations.delete_of_entity", _to_keys(idle))
        db.run_many("entities.delete", _to_keys(idle))
    faults = {
        "mentions of what is not there": len(mentions),
        "relations that nothing states": len(relations),
        "names that nothing mentions": len(idle),
    }
    found = "; ".join(f"{count} {what}" for what, count in faults.items() if count)
    detail = found or "every name, mention and relation has its source"
    return Finding("graph", not found, detail, repaired=repair and bool(found))


def _to_keys(rows: Sequence[Row]) -> list[dict[str, Any]]:
    return [dict(zip(_KEY, row, strict=True)) for row in rows]
