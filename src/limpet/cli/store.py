"""copy and encryption, by hand: they work on the rows of stores, below the operations."""

from __future__ import annotations

import secrets
from argparse import Namespace
from contextlib import closing
from typing import TYPE_CHECKING, Any

from limpet.cli import show
from limpet.cli.options import (
    MEMORY,
    add_command,
    check_location,
    has_store,
    load_config,
    resolve_location,
    store_not_found,
)
from limpet.cli.show import ProgressLine
from limpet.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from limpet.config import Config
    from limpet.notes.user_notes import UserNotes
    from limpet.store.encryption_keys import EncryptionState
    from limpet.store.store import Store


_LEFT_BEHIND = (
    "What it was before may still be in freed pages, in the write-ahead log and in backups: VACUUM the database"
    " (VACUUM FULL on PostgreSQL), and make new backups."
)


def _open(where: str, config: Config) -> closing[Store]:
    """The rows themselves: an engine would begin its background work on a tenant that is half encrypted."""
    from limpet.api.runtime import open_store
    from limpet.model.values import system_clock

    return closing(open_store(where, config, system_clock)[0])


def _open_notes(store: Store, config: Config) -> UserNotes:
    from pathlib import Path

    from limpet.api.runtime import create_notes, find_notes_folder
    from limpet.model.values import system_clock
    from limpet.notes.files import is_bound

    folder = Path(store.location).parent if store.backend == "sqlite" else find_notes_folder(store, config)
    if store.backend != "sqlite" and folder is not None and not is_bound(store, folder):
        folder = None
    return create_notes(store, folder, config, system_clock)


def _open_given(args: Namespace, config: Config) -> closing[Store]:
    where = resolve_location(args)
    if not has_store(where):
        raise store_not_found(where)
    return _open(where, config)


# Copy


def add_copy(commands: Any, summary: str) -> None:
    parser = add_command(commands, "copy", summary, copy)
    parser.add_argument("source", metavar="SRC", help="a folder, a .db file or postgresql://…")
    parser.add_argument("target", metavar="DST", help="a folder, a .db file or postgresql://…, new or empty")


def copy(args: Namespace) -> int:
    from limpet.cli.data import find_file_folders, not_copied_lines
    from limpet.notes.files import unbind_folder
    from limpet.store.copy import copy_store

    source, target = check_location(args.source, "SRC"), check_location(args.target, "DST")
    if MEMORY in (source, target):
        raise InvalidInput("a store in memory is gone when the command ends; name a folder or a postgresql:// address")
    if not has_store(source):
        raise InvalidInput(f"there is no store at {source}")
    config = load_config(args)
    with _open(source, config) as reading, _open(target, config) as writing, ProgressLine() as progress:
        _open_notes(reading, config).read_files()
        rows = copy_store(reading, writing, progress)
        unbind_folder(writing)
        _open_notes(writing, config).write_files()
        places = [store.location for store in (reading, writing)]
    said = f"Copied {show.pluralize(sum(rows.values()), 'row')} from {places[0]} to {places[1]}."
    beside = find_file_folders(places[0])
    value = {"source": places[0], "target": places[1], "rows": rows, "not_in_it": beside}
    show.print_result(args, value, [show.one_line(said), *not_copied_lines(beside)])
    return 0


# Encryption


def add_encryption(commands: Any, summary: str) -> None:
    noun = add_command(commands, "encryption", summary, show_status)
    verbs = noun.add_subparsers(title="verbs", metavar="VERB")
    add_command(verbs, "status", "which tenants are encrypted, and whether their key is here", show_status)
    making = add_command(
        verbs, "new", "make an encryption key: print it, or write it to a file that only you may read", create_key
    )
    making.add_argument("--out", metavar="FILE", help="a new file to write it to")
    making.add_argument(
        "--for-tenant", action="store_true", help="write it to the tenant's file in the folder encryption.key_file"
    )
    add_command(
        verbs, "encrypt", "encrypt a tenant that has text already; if interrupted, run it again to continue", encrypt
    )
    add_command(verbs, "rotate", "encrypt a tenant with the first of its keys, or with a new one in its file", rotate)


def show_status(args: Namespace) -> int:
    from limpet.store.encryption_keys import list_states

    with _open_given(args, load_config(args)) as store:
        tenants = store.list_tenants()
        states = store.read(lambda tx: list_states(tx.db))
        found = [_describe_state(store, tenant, states) for tenant in sorted({*tenants, *states})]
    lines = [show.one_line(f"{each['tenant']}: {_format_state(each)}") for each in found] or ["No tenants yet."]
    show.print_result(args, found, lines)
    return 0


def _describe_state(store: Store, tenant: str, states: Mapping[str, EncryptionState]) -> dict[str, Any]:
    from limpet.errors import KeyMissing
    from limpet.store.encryption_keys import STATE_PLAINTEXT

    found = states.get(tenant)
    if found is None or found.state == STATE_PLAINTEXT:
        return {"tenant": tenant, "state": STATE_PLAINTEXT, "key": None, "version": 0}
    try:
        store.encryption.make_cipher(tenant, found)
        here = True
    except KeyMissing:
        here = False
    return {"tenant": tenant, "state": found.state, "key": here, "version": found.version}


def _format_state(found: Mapping[str, Any]) -> str:
    if found["key"] is None:
        return "not encrypted"
    return f"{found['state']}, key {found['version']} is {'here' if found['key'] else 'not here'}"


def create_key(args: Namespace) -> int:
    from pathlib import Path

    from limpet.store.encryption import KEY_BYTES
    from limpet.store.encryption_keys import encode_key, write_keys

    key = secrets.token_bytes(KEY_BYTES)
    if args.out is None and not args.for_tenant:
        show.print_result(args, {"key": encode_key(key)}, [encode_key(key)])
        return 0
    file = _tenant_key_file(args, load_config(args)) if args.for_tenant else Path(args.out).expanduser()
    if file.exists():
        raise InvalidInput(f"{file} exists already, and may encrypt data; name a new file, or use encryption rotate")
    write_keys(file, (key,))
    said = f"A new key is in {file}. Keep a copy elsewhere: without it nobody can read what it encrypts."
    show.print_result(args, {"file": str(file)}, [show.one_line(said)])
    return 0


def encrypt(args: Namespace) -> int:
    return _reencrypt(args, load_config(args))


def rotate(args: Namespace) -> int:
    """With a key folder a fresh key is put first in the tenant's file; else the first of the keys that are given."""
    from limpet.store.encryption import KEY_BYTES
    from limpet.store.encryption_keys import STATE_ENCRYPTED, STATE_PLAINTEXT, get_state, write_keys

    config, tenant = load_config(args), _tenant(args)
    with _open_given(args, config) as store:
        known = store.read(lambda tx: get_state(tx.db, tenant))
        if known is None or known.state == STATE_PLAINTEXT:
            raise InvalidInput(f"tenant {tenant!r} is not encrypted; limpet encryption encrypt does that")
        keys = store.encryption.get_keys(tenant)
        if known.state == STATE_ENCRYPTED:
            store.encryption.make_cipher(tenant, known)  # says what is missing before anything is made
        folder = getattr(store.encryption.keyring, "folder", None)
    if folder is not None and known.state == STATE_ENCRYPTED and _is_current_key(keys, tenant, known):
        write_keys(_tenant_key_file(args, config), (secrets.token_bytes(KEY_BYTES), *keys))
    return _reencrypt(args, config)


def _is_current_key(keys: Sequence[bytes], tenant: str, known: EncryptionState) -> bool:
    from limpet.store.encryption import check_value

    return bool(keys) and check_value(keys[0], tenant) == known.check


def _reencrypt(args: Namespace, config: Config) -> int:
    from limpet.search.verify import rebuild_index
    from limpet.store.reencrypt import reencrypt_tenant

    tenant = _tenant(args)
    with _open_given(args, config) as store, ProgressLine() as progress:
        _open_notes(store, config).read_files()  # later they are not read any more
        done = reencrypt_tenant(store, tenant, rebuild_index, progress)
    if done:
        lines = [f"Tenant {tenant!r} is encrypted.", _LEFT_BEHIND]
    else:
        lines = [f"Tenant {tenant!r} is encrypted with this key already; nothing was changed."]
    show.print_result(args, {"tenant": tenant, "changed": done}, list(map(show.one_line, lines)))
    return 0


def _tenant(args: Namespace) -> str:
    from limpet.model.scope import DEFAULT_TENANT
    from limpet.model.values import check_name

    return DEFAULT_TENANT if args.tenant is None else check_name(args.tenant, "tenant")


def _tenant_key_file(args: Namespace, config: Config) -> Path:
    from pathlib import Path

    from limpet.store.encryption_keys import key_file

    folder = Path(config.encryption.key_file).expanduser()
    if config.encryption.key_file == "none" or not folder.is_dir():
        raise InvalidInput("encryption.key_file names no folder; make one (chmod 700) and set it, or use --out FILE")
    return key_file(folder, _tenant(args))
