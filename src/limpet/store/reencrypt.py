"""Sealing a tenant that holds text already, and sealing one anew with another key.

In batches, each a transaction that also notes how far it has come: stopped anywhere, it goes on from there. Until it is
done nobody else reads or writes the tenant, since half of its values would not be found. The word index is made anew
from the text at the end, space by space: its terms cannot be turned back.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

from limpet.errors import KeyMissing, SealBroken, StorageError
from limpet.search.vector_repository import packed
from limpet.store import doctor
from limpet.store.base import Finding, Progress
from limpet.store.db import Db, Row
from limpet.store.encrypted_columns import BOUND_TO, SEALED
from limpet.store.encryption import OPEN, Box, Kind, Shape, check_value
from limpet.store.encryption_state import IS_OPEN, IS_SEALED, ROTATING, SEALING, Seal, Seals
from limpet.store.tables import TABLES, Table
from limpet.store.tx import Tx

T = TypeVar("T")

_BATCH = 500
_WORDS = "words"
_STEPS = (*(table.name for table in TABLES if table.name in SEALED), _WORDS)
_BY_NAME = {table.name: table for table in TABLES}
# Whose a row is, by the first of these columns that its table has.
_OF_TENANT = {
    "tenant": "tenant = :tenant",
    "space_id": "space_id IN (SELECT id FROM spaces WHERE tenant = :tenant)",
    "chunk_id": "chunk_id IN (SELECT c.id FROM chunks c JOIN spaces s ON s.id = c.space_id WHERE s.tenant = :tenant)",
    "record_id": "record_id IN (SELECT id FROM records WHERE tenant = :tenant)",
    "schedule_id": "schedule_id IN (SELECT id FROM schedules WHERE tenant = :tenant)",
    "session_id": "session_id IN (SELECT id FROM sessions WHERE tenant = :tenant)",
}
_COMPARED = (Kind.SAME, Kind.SAME_BYTES, Kind.KEY)
_READ = (Kind.TEXT, Kind.SOURCE)


class Sealable(Protocol):
    """What this needs of a store."""

    seals: Seals

    def write(self, work: Callable[[Tx], T]) -> T: ...
    def read(self, work: Callable[[Tx], T]) -> T: ...


class _Reached(NamedTuple):
    """The step that is at work, and the last key of it that is done."""

    step: str
    after: list[Any] | None


def reseal(store: Sealable, tenant: str, progress: Progress | None = None) -> bool:
    """Seal the tenant with the first of its keys, or go on with that. False when it is so already."""
    if not store.write(lambda tx: _begin(tx, store.seals, tenant)):
        return False
    counts = dict.fromkeys(_STEPS, 0)
    while (done := store.write(lambda tx: _batch(tx, store.seals, tenant))) is not None:
        step, rows = done
        counts[step] += rows
        if progress is not None:
            progress(step, counts[step], counts[step])
    return True


def _begin(tx: Tx, seals: Seals, tenant: str) -> bool:
    keys = () if seals.keyring is None else seals.keyring.keys(tenant)
    if not keys:
        raise KeyMissing(f"there is no key for tenant {tenant!r}; set encryption.key_env or encryption.key_file")
    seal, wanted = tx.seals.get(tenant), check_value(keys[0], tenant)
    if seal is None or seal.state == IS_OPEN:
        tx.seals.put(tenant, Seal(SEALING, 1, wanted, b"", ""))
    elif seal.state == IS_SEALED:
        if seal.check == wanted:
            return False
        seals.box(tenant, seal)  # without the old key there is nothing to begin
        tx.seals.put(tenant, Seal(ROTATING, seal.version + 1, wanted, seal.check, ""))
    return True


def _batch(tx: Tx, seals: Seals, tenant: str) -> tuple[str, int] | None:
    seal = tx.seals.get(tenant)
    if seal is None or seal.state not in (SEALING, ROTATING):
        return None
    new: Box = seals.box(tenant, seal)
    old: Box = (
        OPEN if seal.state == SEALING else seals.box(tenant, seal, check=seal.old_check, version=seal.version - 1)
    )
    reached = _Reached(*json.loads(seal.progress)) if seal.progress else _Reached(_STEPS[0], None)
    rows, after = _step(tx.db, tenant, reached, old, new)
    if after is None:
        following = _STEPS.index(reached.step) + 1
        if following == len(_STEPS):
            tx.seals.put(tenant, seal._replace(state=IS_SEALED, old_check=b"", progress=""))
            return reached.step, rows
        reached = _Reached(_STEPS[following], None)
    else:
        reached = reached._replace(after=after)
    tx.db.run("seals.progress", {"tenant": tenant, "progress": json.dumps(reached)})
    return reached.step, rows


def _step(db: Db, tenant: str, reached: _Reached, old: Box, new: Box) -> tuple[int, list[Any] | None]:
    """How many rows, and up to which key; None when the step is done."""
    if reached.step == _WORDS:
        spaces = db.composed(
            "SELECT id FROM spaces WHERE tenant = :tenant AND id > :after ORDER BY id LIMIT 1",
            {"tenant": tenant, "after": reached.after[0] if reached.after else 0},
        )
        for (space_id,) in spaces:
            doctor.reindex(db, space_id, new)
        return len(spaces), [spaces[0][0]] if spaces else None
    table = _BY_NAME[reached.step]
    rows, after = _page(db, table, tenant, reached.after)
    if table.name == "vectors":
        _vectors(db, rows, old, new)
    else:
        _rewrite(db, table, rows, old, new)
    return len(rows), after


def _fixed_key(table: Table) -> tuple[str, ...]:
    """The first columns of the key that sealing does not change."""
    sealed = SEALED[table.name]
    changing = [at for at, name in enumerate(table.key) if name in sealed]
    return table.key[: changing[0]] if changing else table.key


def _page(db: Db, table: Table, tenant: str, after: list[Any] | None) -> tuple[list[Row], list[Any] | None]:
    """A few rows more. Where sealing changes the key, all that have the rest of it in common."""
    key = _fixed_key(table)
    names, listed = ", ".join(table.columns), ", ".join(key)
    slots = [f"after_{at}" for at in range(len(key))]
    clauses = [next(clause for column, clause in _OF_TENANT.items() if column in table.columns)]
    params: dict[str, Any] = {"tenant": tenant}
    if after is not None:
        clauses.append(f"({listed}) > ({', '.join(':' + slot for slot in slots)})")
        params |= dict(zip(slots, after, strict=True))
    where, end = " AND ".join(clauses), f"ORDER BY {listed} LIMIT {_BATCH}"
    if key == table.key:
        rows = db.composed(f"SELECT {names} FROM {table.name} WHERE {where} {end}", params)
        return rows, list(rows[-1][: len(key)]) if rows else None
    groups = db.composed(f"SELECT DISTINCT {listed} FROM {table.name} WHERE {where} {end}", params)
    one = " AND ".join(f"{name} = :{slot}" for name, slot in zip(key, slots, strict=True))
    select = f"SELECT {names} FROM {table.name} WHERE {one}"
    rows = [row for group in groups for row in db.composed(select, dict(zip(slots, group, strict=True)))]
    return rows, list(groups[-1]) if groups else None


def _bound(table: str, values: dict[str, Any]) -> object:
    columns = BOUND_TO[table]
    return values[columns[0]] if len(columns) == 1 else tuple(values[name] for name in columns)


def _rewrite(db: Db, table: Table, rows: list[Row], old: Box, new: Box) -> None:
    sealed = SEALED[table.name]
    shape = Shape(sealed, " ".join(table.columns))
    compared = {name: column for name, column in sealed.items() if column.kind in _COMPARED}
    read = {name: column for name, column in sealed.items() if column.kind in _READ}
    changes = []
    for row in rows:
        stored = dict(zip(table.columns, row, strict=True))
        plain = dict(zip(table.columns, old.opened(shape, _bound(table.name, stored), row), strict=True))
        values = dict(new.params(compared, None, plain))
        values = dict(new.params(read, _bound(table.name, values), values))
        change = {f"new_{name}": values[name] for name in (*compared, *read)}
        changes.append(change | {f"old_{name}": stored[name] for name in table.key})
    if changes:
        sets = ", ".join(f"{name} = :new_{name}" for name in (*compared, *read))
        where = " AND ".join(f"{name} = :old_{name}" for name in table.key)
        db.composed_many(f"UPDATE {table.name} SET {sets} WHERE {where}", changes)


def _vectors(db: Db, rows: list[Row], old: Box, new: Box) -> None:
    changes = []
    for model_id, chunk_id, vector, sealed in rows:
        bound = (model_id, chunk_id)
        plain = packed(db.unpack_vector(vector)) if sealed is None else old.opened_vector(bound, bytes(sealed))
        at = {"model_id": model_id, "chunk_id": chunk_id}
        changes.append({**at, "vector": db.no_vector, "sealed": new.vector(bound, plain)})
    if changes:
        statement = "UPDATE vectors SET vector = :vector, sealed = :sealed"
        db.composed_many(f"{statement} WHERE model_id = :model_id AND chunk_id = :chunk_id", changes)


def examine(store: Sealable) -> Iterator[Finding]:
    """Whether every sealed value opens where it stands."""
    try:
        seals = store.read(lambda tx: tx.seals.all())
    except StorageError as error:
        yield Finding("sealed", ok=False, detail=str(error))
        return
    for tenant, seal in seals.items():
        if seal.state == IS_OPEN:
            continue
        if seal.state != IS_SEALED:
            detail = f"tenant {tenant!r} is half sealed: limpet --tenant {tenant} key seal goes on with it"
            yield Finding("sealed", ok=False, detail=detail)
            continue
        try:
            yield store.read(partial(_examined, tenant=tenant))
        except KeyMissing as error:
            # Gone on purpose, perhaps: not a fault of the store.
            yield Finding("sealed", ok=True, detail=f"not looked at: {error}")
        except StorageError as error:  # a damaged table is a finding; the rest is looked at still
            yield Finding("sealed", ok=False, detail=str(error))


def _examined(tx: Tx, tenant: str) -> Finding:
    box, looked_at, faults = tx.seals.of(tenant), 0, []
    for table in (_BY_NAME[name] for name in _STEPS if name != _WORDS):
        shape, after = Shape(SEALED[table.name], " ".join(table.columns)), None
        while True:
            rows, after = _page(tx.db, table, tenant, after)
            if after is None:
                break
            for row in rows:
                looked_at += 1
                try:
                    _open(box, table, shape, row)
                except SealBroken as error:
                    faults.append(str(error))
    if not faults:
        return Finding("sealed", ok=True, detail=f"tenant {tenant!r}: {looked_at} rows open with their key")
    return Finding("sealed", ok=False, detail=f"{len(faults)} values do not open; {'; '.join(faults[:3])}")


def _open(box: Box, table: Table, shape: Shape, row: Row) -> None:
    if table.name == "vectors":
        model_id, chunk_id, _, sealed = row
        box.opened_vector((model_id, chunk_id), bytes(sealed or b""))
    else:
        box.opened(shape, _bound(table.name, dict(zip(table.columns, row, strict=True))), row)
