"""What must hold of knowledge: labels agree with their records, and the graph has its sources."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

from limpet.model.finding import Finding
from limpet.store.db import Db, Row
from limpet.store.doctor import find_cipher, run_check
from limpet.store.encrypted_columns import RECORD_METADATA, RECORD_TAGS, RECORDS
from limpet.store.encryption import RowLayout
from limpet.store.store import Store
from limpet.store.tx import Tx

_LABELLED = RowLayout(RECORDS, "id tags metadata inputs")


def check_knowledge(store: Store, *, repair: bool) -> Iterator[Finding]:
    yield run_check(store, "labels", lambda tx: _check_labels(tx, repair=repair), repair=repair)
    yield run_check(store, "graph", lambda tx: _check_graph(tx.db, repair=repair), repair=repair)


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
        box = find_cipher(tx, tenant)
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
