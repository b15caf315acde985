"""The cipher that an encrypted tenant's values go through, and where its keys come from."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from limpet.config import EncryptionSettings
from limpet.errors import ConfigError, DecryptionFailed, Unsupported
from limpet.model.chunk import Terms
from limpet.store import encryption
from limpet.store.encryption import RowLayout, TenantCipher, check_value, declare_columns
from limpet.store.encryption_keys import EncryptionKeys, encode_key, key_file, parse_keys, read_keys, write_keys
from limpet.store.tx import PLAINTEXT

KEY, OTHER = bytes(range(32)), bytes(32)
NOTES = declare_columns("notes", text="body", same="name", same_bytes="hash", key="key", source="source", terms="terms")
SHAPE = RowLayout(NOTES, "id body name hash key source terms")


def box(key: bytes = KEY, tenant: str = "t", version: int = 1) -> TenantCipher:
    return TenantCipher(tenant, key, version, os.urandom)


def row(**values: Any) -> dict[str, Any]:
    return {"id": 1, "body": None, "name": None, "hash": None, "key": None, "source": None, "terms": None} | values


def opened(encrypted: Any, stored: dict[str, Any], at: object = 1, by: TenantCipher | None = None) -> dict[str, Any]:
    return dict(zip(stored, (by or encrypted).decrypt_row(SHAPE, at, tuple(stored.values())), strict=True))


def test_encrypted_row_decrypts_to_original():
    encrypted = box()
    plain = row(
        body="zebra 日本語 \x00", name="zebra", hash=b"\0" * 16, key="zebra", source='["s1",[2],"user","a zebra"]'
    )
    stored = dict(encrypted.encrypt_params(NOTES, 1, plain))
    assert all("zebra" not in str(value) for value in stored.values())
    assert stored["id"] == 1
    assert opened(encrypted, stored) == plain


def test_encryption_is_random_unless_column_is_compared():
    encrypted = box()
    one, two = (encrypted.encrypt_params(NOTES, 1, row(body="zebra", name="zebra", hash=b"zebra")) for _ in range(2))
    assert one["body"] != two["body"]
    assert (one["name"], one["hash"]) == (two["name"], two["hash"])
    assert encrypted.encrypt_deterministic(NOTES["name"], "zebra") == one["name"]
    assert encrypted.encrypt_deterministic(NOTES["key"], "zebra") != one["name"], (
        "the same text in two columns must not look alike"
    )


def test_encryption_leaves_empty_values_empty():
    encrypted = box()
    plain = row(body="", name="", source="[null,[],null,null]")
    assert dict(encrypted.encrypt_params(NOTES, 1, plain)) == plain
    assert opened(encrypted, plain) == plain


def test_encryption_keeps_internal_prefix_and_session_id_visible():
    stored = box().encrypt_params(NOTES, 1, row(key="internal_profile", source='["s1",[2],"user","a zebra"]'))
    assert stored["key"].startswith("internal_")
    assert stored["source"].startswith('["s1",')
    assert not box().encrypt_params(NOTES, 1, row(key="profile"))["key"].startswith("internal_")


@pytest.mark.parametrize(
    "by", [box(OTHER), box(tenant="another"), box(version=2)], ids=["another key", "another tenant", "another version"]
)
@pytest.mark.parametrize("column", ["body", "name"])
def test_decrypt_fails_with_wrong_key_tenant_or_version(by: TenantCipher, column: str):
    stored = dict(box().encrypt_params(NOTES, 1, row(**{column: "zebra"})))
    with pytest.raises(DecryptionFailed, match=rf"notes\.{column} of row 1 "):
        opened(None, stored, by=by)


def test_decrypt_rejects_value_moved_to_other_row_or_column():
    encrypted = box()
    stored = dict(encrypted.encrypt_params(NOTES, 1, row(body="zebra", name="zebra")))
    with pytest.raises(DecryptionFailed, match="row 2"):
        opened(encrypted, stored, at=2)
    with pytest.raises(DecryptionFailed):
        opened(encrypted, row(name=stored["body"]))
    with pytest.raises(DecryptionFailed):
        opened(encrypted, row(key=stored["name"]))


@pytest.mark.parametrize("at", [0, 1, 20, -1])
@pytest.mark.parametrize("column", ["body", "name"])
def test_decrypt_rejects_modified_value(column: str, at: int):
    import base64

    encrypted = box()
    value = bytearray(base64.b64decode(encrypted.encrypt_params(NOTES, 1, row(**{column: "zebra"}))[column]))
    value[at] ^= 1
    with pytest.raises(DecryptionFailed):
        opened(encrypted, row(**{column: base64.b64encode(value).decode()}))


@pytest.mark.parametrize("text", ["zebra", "AQ==", "!", "Zebra zebra zebra zebra zebra"])
@pytest.mark.parametrize("column", ["body", "name", "key", "source"])
def test_decrypt_rejects_plaintext_in_encrypted_column(column: str, text: str):
    with pytest.raises(DecryptionFailed):
        opened(box(), row(**{column: text}))


def test_hash_terms_hides_terms_and_their_order():
    terms = Terms({5: 1, 3: 2, -9: 1}, 4)
    hidden = box().hash_terms(terms)
    assert hidden.length == 4
    assert sorted(hidden.counts.values()) == [1, 1, 2]
    assert list(hidden.counts) == sorted(hidden.counts)
    assert not hidden.counts.keys() & terms.counts.keys()
    assert hidden == box().hash_terms(terms)
    assert hidden != box(OTHER).hash_terms(terms)
    assert hidden != box(tenant="another").hash_terms(terms)


def test_plaintext_tenant_is_not_encrypted():
    plain = row(body="AQ==", name="zebra")
    assert PLAINTEXT.encrypt_params(NOTES, 1, plain) is plain
    assert PLAINTEXT.decrypt_row(SHAPE, 1, (1, "zebra")) == (1, "zebra")


def test_check_value_differs_by_key_and_tenant():
    assert len({check_value(KEY, "t"), check_value(OTHER, "t"), check_value(KEY, "u")}) == 3


def test_encryption_without_cryptography_names_extra(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers", None)
    encryption._load_aead.cache_clear()
    encryption.derive_keys.cache_clear()
    try:
        with pytest.raises(Unsupported, match=r"limpet\[encryption\]"):
            box()
    finally:
        encryption._load_aead.cache_clear()


# Keys


def test_master_key_from_environment_serves_every_tenant():
    keys = EncryptionKeys(EncryptionSettings(key_env="K"), {"K": encode_key(KEY)}, os.urandom)
    assert keys.get_keys("a") == keys.get_keys("b") == (KEY,)


def test_parse_keys_reads_several_keys_in_order(tmp_path: Path):
    assert parse_keys(f"{encode_key(KEY)},\n{encode_key(OTHER)} ", "there") == (KEY, OTHER)


@pytest.mark.parametrize("text", ["", "secret-secret", encode_key(KEY)[:-4], encode_key(KEY) + " x"])
def test_parse_keys_error_does_not_contain_the_key(text: str):
    with pytest.raises(ConfigError, match="limpet encryption new") as error:
        parse_keys(text, "THERE")
    assert "secret" not in str(error.value)
    assert "THERE" in str(error.value)


def test_missing_key_variable_is_config_error():
    with pytest.raises(ConfigError, match="HERE"):
        EncryptionKeys(EncryptionSettings(key_env="HERE"), {}, os.urandom)


def test_key_folder_holds_one_key_per_tenant(tmp_path: Path):
    write_keys(key_file(tmp_path, "Åsa/1"), (KEY,))
    keys = EncryptionKeys(EncryptionSettings(key_file=str(tmp_path)), {}, os.urandom)
    assert keys.get_keys("Åsa/1") == (KEY,)
    assert keys.get_keys("nobody") == ()
    write_keys(key_file(tmp_path, "nobody"), (OTHER,))
    assert keys.get_keys("nobody") == (OTHER,), "a key that comes later is found"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such modes")
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_key_file_readable_by_others_is_rejected(tmp_path: Path, mode: int):
    file = tmp_path / "k"
    write_keys(file, (KEY,))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.chmod(mode)
    with pytest.raises(ConfigError, match="chmod 600"):
        read_keys(file)


def test_encryption_settings_reject_two_key_sources():
    with pytest.raises(ConfigError, match="set one"):
        EncryptionSettings(key_env="A", key_file="b")
