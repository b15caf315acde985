"""UUIDv7 (RFC 9562): ids that sort by the time they were made."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime

from limpet.errors import InvalidKey
from limpet.model.times import to_micros

IdFactory = Callable[[], str]

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def uuid7(now: datetime, randomness: bytes) -> str:
    """48 bits of milliseconds, then 74 of the ten random bytes given."""
    milliseconds = max(0, to_micros(now) // 1000) & ((1 << 48) - 1)
    noise = int.from_bytes(randomness, "big")
    value = milliseconds << 80 | 0x7 << 76 | (noise >> 62 & 0xFFF) << 64 | 0b10 << 62 | noise & ((1 << 62) - 1)
    digits = f"{value:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def with_bucket(id: str, bucket: int) -> str:
    """The id with its partition's bucket in the 12 bits after the version: who has only the id knows the bucket."""
    return f"{id[:15]}{bucket:03x}{id[18:]}"


def bucket_of_id(id: str) -> int:
    """The bucket an id of ours says. Of an id that somebody else made, any number."""
    return int(id[15:18], 16)


def check_id(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise InvalidKey(f"{what} must be text, not {type(value).__name__}")
    lowered = value.lower()
    if not _UUID.fullmatch(lowered):
        raise InvalidKey(f"{what} is not a UUID: {value[:80]!r}")
    return lowered
