"""Shared SQL clauses for record filters and pages."""

from __future__ import annotations

from typing import Any

from limpet.model.record import RecordFilter
from limpet.model.values import PageCursor, to_micros
from limpet.store.encryption import Cipher
from limpet.store.tables import RECORD_METADATA, RECORD_TAGS


def build_record_clauses(wanted: RecordFilter, cipher: Cipher) -> tuple[list[str], dict[str, Any]]:
    """Return clauses on records ``r`` and their parameters. Values are parameters; only constants are composed."""
    clauses: list[str] = []
    params: dict[str, Any] = {}
    for column, values in (("layer", wanted.layers), ("type", wanted.types)):
        if values:
            names = [f"{column}_{at}" for at in range(len(values))]
            clauses.append(f"r.{column} IN ({', '.join(':' + name for name in names)})")
            params |= {name: str(value) for name, value in zip(names, values, strict=True)}
    for at, tag in enumerate(wanted.tags):
        name = f"tag_{at}"
        clauses.append(
            "EXISTS (SELECT 1 FROM record_tags t WHERE t.bucket = r.bucket AND t.partition_id = r.partition_id"
            f" AND t.record_id = r.id AND t.tag = :{name})"
        )
        params[name] = cipher.encrypt_deterministic(RECORD_TAGS["tag"], tag)
    for at, (key, value) in enumerate(wanted.metadata.items()):
        key_name, value_name = f"meta_key_{at}", f"meta_value_{at}"
        clauses.append(
            "EXISTS (SELECT 1 FROM record_metadata d "
            "WHERE d.bucket = r.bucket AND d.partition_id = r.partition_id "
            f"AND d.record_id = r.id AND d.key = :{key_name} AND d.value = :{value_name})"
        )
        params[key_name] = cipher.encrypt_deterministic(RECORD_METADATA["key"], key)
        params[value_name] = cipher.encrypt_deterministic(RECORD_METADATA["value"], value)
    return clauses, params


def build_keyset_clause(place: PageCursor | None, time: str, id: str) -> tuple[str, dict[str, Any]]:
    """Return the clause that continues a list after a position, latest first."""
    if place is None:
        return "", {}
    clause = f" AND ({time} < :end_at OR ({time} = :end_at AND {id} < :end_id))"
    return clause, {"end_at": to_micros(place.at), "end_id": place.id}
