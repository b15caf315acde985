"""key: make a key, seal a tenant with it, seal it anew with another, and see which tenants are sealed.

API keys are ``limpet keys``.
"""

from __future__ import annotations

import secrets
from argparse import Namespace
from typing import TYPE_CHECKING, Any, cast

from limpet.cli import place, show
from limpet.cli.ask import Progress
from limpet.cli.options import command
from limpet.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from limpet.config import Config
    from limpet.store.encryption_state import Seal
    from limpet.store.sql_store import SqlStore


_LEFT_BEHIND = (
    "What it was before may still be in freed pages, in the write-ahead log and in backups: VACUUM the database"
    " (VACUUM FULL on PostgreSQL), and make new backups."
)


def add(commands: Any) -> None:
    noun = command(
        commands,
        "key",
        "encryption keys of sealed tenants (API keys: limpet keys); without a verb: which are sealed",
        status,
    )
    verbs = noun.add_subparsers(title="verbs", metavar="VERB")
    command(verbs, "status", "which tenants are sealed, and whether their key is here", status)
    making = command(
        verbs, "new", "make an encryption key: print it, or write it to a file that only you may read", new
    )
    making.add_argument("--out", metavar="FILE", help="a new file to write it to")
    making.add_argument(
        "--for-tenant", action="store_true", help="write it to the tenant's file in the folder encryption.key_file"
    )
    command(verbs, "seal", "seal a tenant that has text already; interrupted, it goes on where it stopped", seal)
    command(verbs, "rotate", "seal a tenant anew with the first of its keys, or with a fresh one in its file", rotate)


def status(args: Namespace) -> int:
    store = _store(args)
    try:
        tenants = store.tenants()
        seals = store.read(lambda tx: tx.seals.all())
        found = [_state(store, tenant, seals) for tenant in sorted({*tenants, *seals})]
    finally:
        store.close()
    lines = [show.one_line(f"{each['tenant']}: {_told(each)}") for each in found] or ["No tenants yet."]
    show.answer(args, found, lines)
    return 0


def _state(store: SqlStore, tenant: str, seals: Mapping[str, Seal]) -> dict[str, Any]:
    from limpet.errors import KeyMissing

    found = seals.get(tenant)
    if found is None or found.state == "open":
        return {"tenant": tenant, "state": "open", "key": None, "version": 0}
    try:
        store.seals.box(tenant, found)
        here = True
    except KeyMissing:
        here = False
    return {"tenant": tenant, "state": found.state, "key": here, "version": found.version}


def _told(found: Mapping[str, Any]) -> str:
    if found["state"] == "open":
        return "open"
    return f"{found['state']}, key {found['version']} is {'here' if found['key'] else 'not here'}"


def new(args: Namespace) -> int:
    from pathlib import Path

    from limpet.store.encryption import KEY_BYTES
    from limpet.store.encryption_keys import spelled, write_keys

    key = secrets.token_bytes(KEY_BYTES)
    if args.out is None and not args.for_tenant:
        show.answer(args, {"key": spelled(key)}, [spelled(key)])
        return 0
    file = _tenant_file(args, place.settings(args)) if args.for_tenant else Path(args.out).expanduser()
    if file.exists():
        raise InvalidInput(f"{file} exists already, and what it sealed would be lost; name a new file, or key rotate")
    write_keys(file, (key,))
    said = f"A new key is in {file}. Keep a copy elsewhere: without it nobody can read what it seals."
    show.answer(args, {"file": str(file)}, [show.one_line(said)])
    return 0


def seal(args: Namespace) -> int:
    return _reseal(args, place.settings(args))


def rotate(args: Namespace) -> int:
    """With a key folder a fresh key is put first in the tenant's file; else the first of the keys that are given."""
    from limpet.store.encryption_state import IS_SEALED

    config, tenant, store = place.settings(args), _tenant(args), _store(args)
    try:
        known = store.read(lambda tx: tx.seals.get(tenant))
        if known is None or known.state == "open":
            raise InvalidInput(f"tenant {tenant!r} is not sealed; key seal seals it")
        keys = () if store.seals.keyring is None else store.seals.keyring.keys(tenant)
        if known.state == IS_SEALED:
            store.seals.box(tenant, known)  # says what is missing before anything is made
        folder = getattr(store.seals.keyring, "folder", None)
    finally:
        store.close()
    if folder is not None and known.state == IS_SEALED and _is_first(keys, tenant, known):
        from limpet.store.encryption import KEY_BYTES
        from limpet.store.encryption_keys import write_keys

        write_keys(_tenant_file(args, config), (secrets.token_bytes(KEY_BYTES), *keys))
    return _reseal(args, config)


def _is_first(keys: Sequence[bytes], tenant: str, known: Seal) -> bool:
    from limpet.store.encryption import check_value

    return bool(keys) and check_value(keys[0], tenant) == known.check


def _reseal(args: Namespace, config: Config) -> int:
    from limpet.store.reencrypt import reseal

    tenant, progress, store = _tenant(args), Progress(), _store(args, config)
    try:
        done = reseal(store, tenant, progress)
    finally:
        progress.end()
        store.close()
    if done:
        lines = [f"Tenant {tenant!r} is sealed.", _LEFT_BEHIND]
    else:
        lines = [f"Tenant {tenant!r} is sealed with this key already; nothing was changed."]
    show.answer(args, {"tenant": tenant, "changed": done}, list(map(show.one_line, lines)))
    return 0


def _tenant(args: Namespace) -> str:
    from limpet.model.scope import DEFAULT_TENANT
    from limpet.model.text import checked_name

    return DEFAULT_TENANT if args.tenant is None else checked_name(args.tenant, "tenant")


def _tenant_file(args: Namespace, config: Config) -> Path:
    from pathlib import Path

    from limpet.store.encryption_keys import key_file

    folder = Path(config.encryption.key_file).expanduser()
    if config.encryption.key_file == "none" or not folder.is_dir():
        raise InvalidInput("encryption.key_file names no folder; make one (chmod 700) and set it, or use --out FILE")
    return key_file(folder, _tenant(args))


def _store(args: Namespace, config: Config | None = None) -> SqlStore:
    """The rows themselves: an engine would begin its background work on a tenant that is half sealed."""
    from limpet.api.runtime import open_store
    from limpet.model.times import system_clock

    where = place.location(args)
    if not place.is_store(where):
        raise place.missing(where)
    store, _ = open_store(where, config or place.settings(args), system_clock)
    # Every store of ours keeps its rows in SQL; the port does not promise it.
    return cast("SqlStore", store)
