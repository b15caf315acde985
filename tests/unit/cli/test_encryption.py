"""limpet encryption."""

from __future__ import annotations

import base64
import stat
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Run


@pytest.fixture
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "keys"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("LIMPET_ENCRYPTION_KEY_FILE", str(folder))
    return folder


def test_encryption_key_is_printed_or_written_to_private_file(run: Run, tmp_path: Path):
    one, two = (run("encryption", "new", "--json").json["key"] for _ in range(2))
    assert one != two
    assert len(base64.b64decode(one)) == 32
    file = tmp_path / "k"
    assert run("encryption", "new", "--out", str(file)).status == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    before = file.read_text()
    refused = run("encryption", "new", "--out", str(file), "--json")
    assert (refused.status, refused.error["code"]) == (1, "invalid_input")
    assert file.read_text() == before


def test_encryption_key_for_tenant_requires_key_folder(run: Run):
    assert "names no folder" in run("encryption", "new", "--for-tenant").err


def test_encrypting_rotating_and_losing_a_key(run: Run, keys: Path, data: Path):
    place = ("--data", str(data))
    assert run(*place, "remember", "The heron is back", "--user", "ana").status == 0
    [found] = run(*place, "encryption", "--json").json
    assert found == {"tenant": "default", "state": "plaintext", "key": None, "version": 0}
    assert run(*place, "encryption", "encrypt", "--json").error["code"] == "key_missing"
    assert run("encryption", "new", "--for-tenant").status == 0
    assert run(*place, "encryption", "rotate", "--json").error["code"] == "invalid_input"
    assert run(*place, "encryption", "encrypt", "--json").json == {"tenant": "default", "changed": True}
    assert run(*place, "encryption", "encrypt", "--json").json == {"tenant": "default", "changed": False}
    assert "The heron is back" in run(*place, "recall", "heron", "--user", "ana").out
    assert run(*place, "encryption", "rotate").status == 0
    assert run(*place, "encryption").out == "default: encrypted, key 2 is here\n"
    assert len((keys / "default.key").read_text().split()) == 2
    assert "The heron is back" in run(*place, "recall", "heron", "--user", "ana").out
    assert run(*place, "doctor").status == 0
    (keys / "default.key").unlink()
    assert run(*place, "recall", "heron", "--user", "ana", "--json").error["code"] == "key_missing"
    assert run(*place, "encryption").out == "default: encrypted, key 2 is not here\n"
    assert run(*place, "encryption", "rotate", "--json").error["code"] == "key_missing"
    assert run(*place, "doctor").status == 0


def test_encryption_status_fails_without_store(run: Run, data: Path):
    assert "there is no store" in run("--data", str(data), "encryption").err
