"""Encrypting what is there already, and encrypting it again."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from limpet import Config, Limpet
from limpet.errors import KeyMissing
from limpet.search.verify import rebuild_index
from limpet.store.copy import copy_store
from limpet.store.encryption_keys import key_file, read_keys, write_keys
from limpet.store.reencrypt import reencrypt_tenant
from limpet.testing import FakeClock
from tests.conftest import ENCRYPTED as BY_HAND
from tests.contract.rows import every_row, faults, sql
from tests.contract.test_encryption import MARK, PLAIN, config, contents, keys, memory, write_everywhere

pytestmark = [
    pytest.mark.every_backend,
    pytest.mark.skipif(BY_HAND, reason="these say themselves what is encrypted"),
]


__all__ = ["config", "keys", "memory"]  # fixtures


# Encrypting what is there already, and encrypting it again


def test_tenant_with_plaintext_stays_plain_until_encrypted(
    durable_url: str, config: Config, caplog: pytest.LogCaptureFixture, clock: FakeClock
):
    with Limpet.open(durable_url, config=PLAIN, clock=clock) as memory:
        write_everywhere(memory)
    with Limpet.open(durable_url, config=config, clock=clock) as memory:
        expected = contents(memory)
        assert "stays plain text" in caplog.text
        before = every_row(memory)
        assert reencrypt_tenant(memory._runtime.store, "default", rebuild_index)
        assert not reencrypt_tenant(memory._runtime.store, "default", rebuild_index)
        assert MARK in str(before)
        assert MARK not in str(every_row(memory))
        assert contents(memory) == expected
        assert faults(memory) == []


class Stopped(Exception):
    pass


def test_encryption_of_tenant_resumes_after_interruption(
    durable_url: str, config: Config, monkeypatch: pytest.MonkeyPatch, clock: FakeClock
):
    monkeypatch.setattr("limpet.store.reencrypt._BATCH", 2)
    with Limpet.open(durable_url, config=PLAIN, clock=clock) as memory:
        write_everywhere(memory)
        expected = contents(memory)
    steps = stops = 0
    with Limpet.open(durable_url, config=config, clock=clock) as memory:

        def stop(*_: object) -> None:
            nonlocal steps
            steps += 1
            if steps % 4 == 0:
                raise Stopped

        while True:
            try:
                reencrypt_tenant(memory._runtime.store, "default", rebuild_index, stop)
                break
            except Stopped:
                stops += 1
                halves = sql(memory, "SELECT count(*) FROM tenant_encryption WHERE state = 'encrypting'")[0][0]
                with pytest.raises(KeyMissing, match="being encrypted") if halves else nullcontext():
                    memory.recall(MARK, user="u")
        assert stops > 5
        assert contents(memory) == expected
        assert MARK not in str(every_row(memory))
        assert faults(memory) == []


def test_encryption_key_rotation_reencrypts_tenant(durable_url: str, config: Config, keys: Path, clock: FakeClock):
    file = key_file(keys, "default")
    with Limpet.open(durable_url, config=config, clock=clock) as memory:
        write_everywhere(memory)
        expected = contents(memory)
    old = read_keys(file)
    fresh = os.urandom(32)
    write_keys(file, (fresh, *old))
    with Limpet.open(durable_url, config=config, clock=clock) as memory:
        assert contents(memory) == expected, "the old key still opens it"
        assert reencrypt_tenant(memory._runtime.store, "default", rebuild_index)
        assert contents(memory) == expected
    write_keys(file, (fresh,))
    with Limpet.open(durable_url, config=config, clock=clock) as memory:
        assert contents(memory) == expected
        assert faults(memory) == []
    write_keys(file, old)
    with Limpet.open(durable_url, config=config) as memory, pytest.raises(KeyMissing, match="another key"):
        memory.recall(MARK, user="u")


@pytest.mark.slow
def test_copy_of_encrypted_tenant_stays_encrypted(
    memory: Limpet, config: Config, tmp_path: Path, postgres_url: str, clock: FakeClock
):
    write_everywhere(memory)
    write_everywhere(memory.tenant("third"))
    expected, rows = contents(memory), every_row(memory)
    is_postgres = memory._runtime.store.backend == "postgres"
    places = [str(tmp_path / "copy"), *([] if is_postgres else [postgres_url])]
    source: Any = memory._runtime.store
    for place in places:
        with Limpet.open(place, config=PLAIN, clock=clock) as keyless:  # who copies needs no key
            copy_store(source, keyless._runtime.store)
            assert every_row(keyless) == rows
            with pytest.raises(KeyMissing):
                keyless.recall(MARK, user="u")
        with Limpet.open(place, config=config, clock=clock) as copied:
            assert contents(copied) == expected
            assert faults(copied) == []


def test_backup_of_encrypted_tenant_stays_encrypted(memory: Limpet, config: Config, tmp_path: Path, clock: FakeClock):
    write_everywhere(memory)
    memory.admin.backup(tmp_path / "backup.db")
    assert MARK.encode() not in (tmp_path / "backup.db").read_bytes().lower()
    expected = contents(memory)
    with Limpet.open(tmp_path / "backup.db", config=config, clock=clock) as restored:
        assert contents(restored) == expected
