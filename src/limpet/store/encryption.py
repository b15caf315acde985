"""What an encrypted tenant's text goes through on its way to the database and back.

A tenant's key gives three others: one for values that are only read (AES-256-GCM, a nonce each), one for values the
database compares (AES-SIV: the same text gives the same value), one for the terms of the word index (keyed BLAKE2b).
Every encrypted value begins with the number of its key, and is bound to its table, column and, where it is only read,
to its row: put elsewhere it cannot be decrypted.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache, lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple

from limpet.errors import DecryptionFailed, Unsupported
from limpet.model.chunk import Terms
from limpet.model.columns import RowCodec
from limpet.model.late import lazy_property, load_modules
from limpet.store.tx import Cipher, Params, Row

KEY_BYTES = 32
_NONCE = 12
_READING, _COMPARING, _TERMS, _CHECK = 32, 64, 32, 16
_TERM_CACHE_SIZE = 1 << 16
# What says nothing stays as it is: that a field is empty could be told from its length anyway.
_EMPTY = frozenset({"", "[]", "{}", "[null,[],null,null]"})
# Keys of what the engine keeps for itself. The database tells these from others by how they begin.
INTERNAL = "internal_"


class EncryptionMode(Enum):
    TEXT = "text"  # read only: every encryption gives another value
    SAME = "same"  # compared: the same text gives the same value
    SAME_BYTES = "same_bytes"
    KEY = "key"  # the same, and whether it is one of the engine's own stays readable
    SOURCE = "source"  # read only, but for the session it begins with
    TERMS = "terms"  # numbers of the word index, one way
    BYTES = "bytes"  # the same as text


class EncryptedColumn(NamedTuple):
    name: str
    kind: EncryptionMode
    place: bytes


EncryptedColumns = Mapping[str, EncryptedColumn]


def declare_columns(table: str, **names: str) -> EncryptedColumns:
    """``text="content title", same="key"``: the encrypted columns of a table, by what is to become of them."""
    return {
        name: EncryptedColumn(name, EncryptionMode(kind), f"{table}.{name}\0".encode())
        for kind, listed in names.items()
        for name in listed.split()
    }


class RowLayout:
    """The order in which a query answers columns of a table; ``-`` stands for one that is not that table's."""

    def __init__(self, encrypted: EncryptedColumns, order: str | RowCodec[Any]) -> None:
        self._encrypted, self._order = encrypted, order

    @lazy_property
    def places(self) -> list[tuple[int, EncryptedColumn]]:
        """Where the encrypted columns stand. Only an encrypted tenant needs it."""
        names = self._order.split() if isinstance(self._order, str) else self._order.names
        return [(at, self._encrypted[name]) for at, name in enumerate(names) if name in self._encrypted]


class TenantCipher(Cipher):
    """Safe to share between threads."""

    is_encrypted = True

    def __init__(self, tenant: str, key: bytes, version: int, nonce: Callable[[int], bytes]) -> None:
        aead = _load_aead()
        made = derive_keys(key, tenant)
        self._tenant = tenant
        self._version = version % 256
        self._mark = bytes([self._version])
        self._nonce = nonce
        self._reading = aead.AESGCM(made[:_READING])
        self._comparing = aead.AESSIV(made[_READING : _READING + _COMPARING])
        secret = made[_READING + _COMPARING :][:_TERMS]
        self._hash_term = lru_cache(_TERM_CACHE_SIZE)(lambda term: _hash_term(secret, term))

    def encrypt_params(self, encrypted: EncryptedColumns, row: object, values: Params) -> Params:
        found = dict(values)
        for name, column in encrypted.items():
            value = found.get(name)
            if value is not None:
                found[name] = self._encrypt(column, row, value)
        return found

    def decrypt_row(self, shape: RowLayout, row: object, values: Row) -> Row:
        found = list(values)
        for at, column in shape.places:
            value = found[at]
            if value is not None:
                found[at] = self._decrypt(column, row, value)
        return tuple(found)

    def encrypt_deterministic(self, column: EncryptedColumn, text: str) -> str:
        encrypted: str = self._encrypt(column, None, text)
        return encrypted

    def hash_term(self, term: int) -> int:
        return self._hash_term(term)

    def hash_terms(self, terms: Terms) -> Terms:
        # In the order of their new numbers: the old one is that of the text.
        return Terms(dict(sorted((self._hash_term(term), count) for term, count in terms.counts.items())), terms.length)

    def _encrypt(self, column: EncryptedColumn, row: object, value: Any) -> Any:
        kind = column.kind
        if kind is EncryptionMode.SAME_BYTES:
            return self._mark + self._comparing.encrypt(value, [column.place])
        if kind is EncryptionMode.BYTES:
            return self._encrypt_bytes(column, row, value)
        if kind is EncryptionMode.TERMS or value in _EMPTY:
            return value
        if kind is EncryptionMode.TEXT:
            return _encode_base64(self._encrypt_bytes(column, row, value.encode()))
        if kind is EncryptionMode.SOURCE:
            return f"{value[: value.index(',')]},{_encode_base64(self._encrypt_bytes(column, row, value.encode()))}]"
        begin = INTERNAL if kind is EncryptionMode.KEY and value.startswith(INTERNAL) else ""
        return begin + _encode_base64(self._mark + self._comparing.encrypt(value.encode(), [column.place]))

    def _decrypt(self, column: EncryptedColumn, row: object, value: Any) -> Any:
        kind = column.kind
        if kind is EncryptionMode.SAME_BYTES:
            return self._decrypt_deterministic(column, row, bytes(value))
        if kind is EncryptionMode.BYTES:
            return self._decrypt_bytes(column, row, bytes(value))
        if kind is EncryptionMode.TERMS or value in _EMPTY:
            return value
        if kind is EncryptionMode.TEXT:
            return self._decrypt_bytes(column, row, self._decode_base64(column, row, value)).decode()
        if kind is EncryptionMode.SOURCE:
            return self._decrypt_bytes(
                column, row, self._decode_base64(column, row, value[value.find(",") + 1 : -1])
            ).decode()
        if kind is EncryptionMode.KEY:
            value = value.removeprefix(INTERNAL)
        return self._decrypt_deterministic(column, row, self._decode_base64(column, row, value)).decode()

    def _encrypt_bytes(self, column: EncryptedColumn, row: object, value: bytes) -> bytes:
        nonce = self._nonce(_NONCE)
        encrypted: bytes = self._reading.encrypt(nonce, value, column.place + str(row).encode())
        return self._mark + nonce + encrypted

    def _decrypt_bytes(self, column: EncryptedColumn, row: object, stored: bytes) -> bytes:
        self._check_key_version(column, row, stored)
        try:
            nonce, rest = stored[1 : _NONCE + 1], stored[_NONCE + 1 :]
            found: bytes = self._reading.decrypt(nonce, rest, column.place + str(row).encode())
        except (_invalid_tag(), ValueError) as error:
            raise self._decryption_error(column, row) from error
        return found

    def _decrypt_deterministic(self, column: EncryptedColumn, row: object, stored: bytes) -> bytes:
        self._check_key_version(column, row, stored)
        try:
            found: bytes = self._comparing.decrypt(stored[1:], [column.place])
        except (_invalid_tag(), ValueError) as error:
            raise self._decryption_error(column, row) from error
        return found

    def _decode_base64(self, column: EncryptedColumn, row: object, value: str) -> bytes:
        try:
            return binascii.a2b_base64(value, strict_mode=True)
        except (ValueError, TypeError) as error:
            raise self._decryption_error(column, row) from error

    def _check_key_version(self, column: EncryptedColumn, row: object, stored: bytes) -> None:
        if stored[:1] != self._mark:
            raise self._decryption_error(column, row)

    def _decryption_error(self, column: EncryptedColumn, row: object) -> DecryptionFailed:
        where = column.place.rstrip(b"\0").decode()
        return DecryptionFailed(
            f"{where} of row {format_row_key(row)} in tenant {self._tenant!r} cannot be decrypted:"
            " it was altered, moved from another row, or encrypted with another key; restore it from a backup"
        )


def format_row_key(row: object) -> str:
    return "/".join(map(str, row)) if isinstance(row, tuple) else str(row)


def _encode_base64(value: bytes) -> str:
    return binascii.b2a_base64(value, newline=False).decode()


def _hash_term(secret: bytes, term: int) -> int:
    packed = term.to_bytes(8, "big", signed=True)
    return int.from_bytes(blake2b(packed, key=secret, digest_size=8).digest(), "big", signed=True)


@lru_cache(256)
def derive_keys(key: bytes, tenant: str) -> bytes:
    """What a tenant's encryption is made of; the last bytes are the check value, which tells keys apart and no more."""
    _load_aead()
    load_modules("cryptography.hazmat.primitives.hashes")
    from cryptography.hazmat.primitives.hashes import SHA256

    load_modules("cryptography.hazmat.primitives.kdf.hkdf")
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    length = _READING + _COMPARING + _TERMS + _CHECK
    return HKDF(SHA256(), length, salt=None, info=b"limpet encrypted tenant 1\0" + tenant.encode()).derive(key)


def check_value(key: bytes, tenant: str) -> bytes:
    return derive_keys(key, tenant)[-_CHECK:]


@cache
def _load_aead() -> Any:
    load_modules("cryptography.hazmat.primitives.ciphers.aead")
    try:
        from cryptography.hazmat.primitives.ciphers import aead
    except ImportError:
        raise Unsupported('encryption needs its library: pip install "limpet[encryption]"') from None
    return aead


@cache
def _invalid_tag() -> type[Exception]:
    from cryptography.exceptions import InvalidTag

    return InvalidTag
