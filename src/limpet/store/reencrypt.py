"""Encrypting a tenant that holds text already, and encrypting one again with another key.

In batches, each a transaction that also notes how far it has come: stopped anywhere, it goes on from there. Until it is
done nobody else reads or writes the tenant, since half of its values would not be found. The word index is made
again from the text at the end, partition by partition: its terms cannot be turned back.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple, Protocol

from limpet.errors import DecryptionFailed, KeyMissing, StorageError
from limpet.model.job import Finding
from limpet.security.telemetry import Progress
from limpet.store.encryption import EncryptionMode, RowLayout, check_value
from limpet.store.encryption_keys import (
    STATE_ENCRYPTED,
    STATE_ENCRYPTING,
    STATE_PLAINTEXT,
    STATE_ROTATING,
    EncryptionRegistry,
    EncryptionState,
    get_state,
    list_states,
    put_state,
)
from limpet.store.store import Store
from limpet.store.tables import TABLES, Table
from limpet.store.tx import PLAINTEXT, Cipher, Db, Row, Tx

_BATCH = 500
_WORDS = "words"
_TABLES = {table.name: table for table in TABLES if table.bound_to}
_STEPS = (*_TABLES, _WORDS)
# Whose a row is, by the first of these columns that its table has.
_TENANT_FILTERS = {
    "tenant": "tenant = :tenant",
    "partition_id": "(bucket, partition_id) IN (SELECT p.bucket, p.id FROM partitions p WHERE p.tenant = :tenant)",
}
_DETERMINISTIC = (EncryptionMode.SAME, EncryptionMode.SAME_BYTES, EncryptionMode.KEY)
_NONDETERMINISTIC = (EncryptionMode.TEXT, EncryptionMode.SOURCE, EncryptionMode.BYTES)


class RebuildIndex(Protocol):
    """Makes a partition's word index again from its text: search knows how."""

    def __call__(self, db: Db, partition_id: int, cipher: Cipher) -> None: ...


class _Checkpoint(NamedTuple):
    """The step that is at work, and the last key of it that is done."""

    step: str
    after: list[Any] | None


def reencrypt_tenant(store: Store, tenant: str, rebuild_index: RebuildIndex, progress: Progress | None = None) -> bool:
    """Encrypt the tenant with the first of its keys, or go on with that. False when it is so already."""
    if not store.write(lambda tx: _begin(tx, store.encryption, tenant), exclusive=True):
        return False
    counts = dict.fromkeys(_STEPS, 0)
    run_batch = partial(_run_batch, registry=store.encryption, tenant=tenant, rebuild_index=rebuild_index)
    while (done := store.write(run_batch, exclusive=True)) is not None:
        step, rows = done
        counts[step] += rows
        if progress is not None:
            progress(step, counts[step], counts[step])
    return True


def _begin(tx: Tx, registry: EncryptionRegistry, tenant: str) -> bool:
    keys = registry.get_keys(tenant)
    if not keys:
        raise KeyMissing(f"there is no key for tenant {tenant!r}; set encryption.key_env or encryption.key_file")
    current, wanted = get_state(tx.db, tenant), check_value(keys[0], tenant)
    if current is None or current.state == STATE_PLAINTEXT:
        put_state(tx.db, tenant, EncryptionState(STATE_ENCRYPTING, 1, wanted, b"", ""))
    elif current.state == STATE_ENCRYPTED:
        if current.check == wanted:
            return False
        registry.make_cipher(tenant, current)  # without the old key there is nothing to begin
        put_state(tx.db, tenant, EncryptionState(STATE_ROTATING, current.version + 1, wanted, current.check, ""))
    return True


def _run_batch(
    tx: Tx, registry: EncryptionRegistry, tenant: str, rebuild_index: RebuildIndex
) -> tuple[str, int] | None:
    current = get_state(tx.db, tenant)
    if current is None or current.state not in (STATE_ENCRYPTING, STATE_ROTATING):
        return None
    new: Cipher = registry.make_cipher(tenant, current)
    old: Cipher = (
        PLAINTEXT
        if current.state == STATE_ENCRYPTING
        else registry.make_cipher(tenant, current, check=current.old_check, version=current.version - 1)
    )
    reached = _Checkpoint(*json.loads(current.progress)) if current.progress else _Checkpoint(_STEPS[0], None)
    if reached.step == _WORDS:
        rows, after = _rebuild_next(tx.db, tenant, reached, partial(rebuild_index, cipher=new))
    else:
        rows, after = _run_step(tx.db, tenant, reached, old, new)
    if after is None:
        following = _STEPS.index(reached.step) + 1
        if following == len(_STEPS):
            put_state(tx.db, tenant, current._replace(state=STATE_ENCRYPTED, old_check=b"", progress=""))
            return reached.step, rows
        reached = _Checkpoint(_STEPS[following], None)
    else:
        reached = reached._replace(after=after)
    tx.db.run("encryption.save_progress", {"tenant": tenant, "progress": json.dumps(reached)})
    return reached.step, rows


def _run_step(db: Db, tenant: str, reached: _Checkpoint, old: Cipher, new: Cipher) -> tuple[int, list[Any] | None]:
    """How many rows, and up to which key; None when the step is done."""
    table = _TABLES[reached.step]
    rows, after = _read_page(db, table, tenant, reached.after)
    _reencrypt_rows(db, table, rows, old, new)
    return len(rows), after


def _rebuild_next(
    db: Db, tenant: str, reached: _Checkpoint, rebuild: Callable[[Db, int], None]
) -> tuple[int, list[Any] | None]:
    """The word index of one partition more."""
    found = db.execute_sql(
        "SELECT id FROM partitions WHERE tenant = :tenant AND id > :after ORDER BY id LIMIT 1",
        {"tenant": tenant, "after": reached.after[0] if reached.after else 0},
    )
    for (partition_id,) in found:
        rebuild(db, partition_id)
    return len(found), [found[0][0]] if found else None


def _fixed_key(table: Table) -> tuple[str, ...]:
    """The first columns of the key that encryption does not change."""
    changing = [at for at, name in enumerate(table.key) if name in table]
    return table.key[: changing[0]] if changing else table.key


def _read_page(db: Db, table: Table, tenant: str, after: list[Any] | None) -> tuple[list[Row], list[Any] | None]:
    """A few rows more. Where encryption changes the key, all that have the rest of it in common."""
    key = _fixed_key(table)
    names, listed = ", ".join(table.columns), ", ".join(key)
    slots = [f"after_{at}" for at in range(len(key))]
    clauses = [next(clause for column, clause in _TENANT_FILTERS.items() if column in table.columns)]
    params: dict[str, Any] = {"tenant": tenant}
    if after is not None:
        clauses.append(f"({listed}) > ({', '.join(':' + slot for slot in slots)})")
        params |= dict(zip(slots, after, strict=True))
    where, end = " AND ".join(clauses), f"ORDER BY {listed} LIMIT {_BATCH}"
    if key == table.key:
        rows = db.execute_sql(f"SELECT {names} FROM {table.name} WHERE {where} {end}", params)
        return rows, list(rows[-1][: len(key)]) if rows else None
    groups = db.execute_sql(f"SELECT DISTINCT {listed} FROM {table.name} WHERE {where} {end}", params)
    one = " AND ".join(f"{name} = :{slot}" for name, slot in zip(key, slots, strict=True))
    select = f"SELECT {names} FROM {table.name} WHERE {one}"
    rows = [row for group in groups for row in db.execute_sql(select, dict(zip(slots, group, strict=True)))]
    return rows, list(groups[-1]) if groups else None


def _associated_data(table: Table, values: dict[str, Any]) -> object:
    columns = table.bound_to
    return values[columns[0]] if len(columns) == 1 else tuple(values[name] for name in columns)


def _reencrypt_rows(db: Db, table: Table, rows: list[Row], old: Cipher, new: Cipher) -> None:
    shape = RowLayout(table, " ".join(table.columns))
    compared = {name: column for name, column in table.items() if column.kind in _DETERMINISTIC}
    read = {name: column for name, column in table.items() if column.kind in _NONDETERMINISTIC}
    changes = []
    for row in rows:
        stored = dict(zip(table.columns, row, strict=True))
        plain = dict(zip(table.columns, old.decrypt_row(shape, _associated_data(table, stored), row), strict=True))
        values = dict(new.encrypt_params(compared, None, plain))
        values = dict(new.encrypt_params(read, _associated_data(table, values), values))
        change = {f"new_{name}": values[name] for name in (*compared, *read)}
        changes.append(change | {f"old_{name}": stored[name] for name in table.key})
    if changes:
        sets = ", ".join(f"{name} = :new_{name}" for name in (*compared, *read))
        where = " AND ".join(f"{name} = :old_{name}" for name in table.key)
        db.execute_sql_many(f"UPDATE {table.name} SET {sets} WHERE {where}", changes)


def check_encryption(store: Store) -> Iterator[Finding]:
    """Whether every encrypted value can be decrypted where it stands."""
    try:
        states = store.read(lambda tx: list_states(tx.db))
    except StorageError as error:
        yield Finding("encryption", ok=False, detail=str(error))
        return
    for tenant, current in states.items():
        if current.state == STATE_PLAINTEXT:
            continue
        if current.state != STATE_ENCRYPTED:
            detail = f"tenant {tenant!r} is half encrypted: limpet --tenant {tenant} encryption encrypt continues it"
            yield Finding("encryption", ok=False, detail=detail)
            continue
        try:
            yield store.read(partial(_check_tenant, tenant=tenant))
        except KeyMissing as error:
            # Gone on purpose, perhaps: not a fault of the store.
            yield Finding("encryption", ok=True, detail=f"not looked at: {error}")
        except StorageError as error:  # a damaged table is a finding; the rest is looked at still
            yield Finding("encryption", ok=False, detail=str(error))


def _check_tenant(tx: Tx, tenant: str) -> Finding:
    cipher, looked_at, faults = tx.encryption.cipher_for(tenant), 0, []
    for table in _TABLES.values():
        shape, after = RowLayout(table, " ".join(table.columns)), None
        while True:
            rows, after = _read_page(tx.db, table, tenant, after)
            if after is None:
                break
            for row in rows:
                looked_at += 1
                try:
                    cipher.decrypt_row(shape, _associated_data(table, dict(zip(table.columns, row, strict=True))), row)
                except DecryptionFailed as error:
                    faults.append(str(error))
    if not faults:
        return Finding("encryption", ok=True, detail=f"tenant {tenant!r}: {looked_at} rows open with their key")
    return Finding("encryption", ok=False, detail=f"{len(faults)} values do not open; {'; '.join(faults[:3])}")
