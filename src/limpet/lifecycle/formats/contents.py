"""What is found in another program's files, in our words."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import field
from datetime import datetime
from typing import Any

from limpet.errors import InvalidInput
from limpet.lifecycle.formats.snapshot_fields import read_time
from limpet.model.dataclass import dataclass
from limpet.model.message import Message
from limpet.model.transfer import ImportSkip

_MAX_LABEL = 1024
_MAX_NAME = 256


@dataclass(frozen=True, slots=True)
class ForeignSession:
    """A conversation under the name it has there. Every message has a key that a newer export gives it, too."""

    id: str
    messages: tuple[Message, ...]
    created_at: datetime | None = None
    last_active_at: datetime | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ForeignRecord:
    id: str
    content: str
    user: str | None = None  # as it is called there
    title: str | None = None
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    created_at: datetime | None = None
    updated_at: datetime | None = None
    subject: str | None = None
    attribute: str | None = None
    value: str | None = None
    external_id: str | None = None  # what the other program calls it, where that is an id and says nothing


@dataclass(frozen=True, slots=True)
class ForeignDocument:
    uri: str
    text: str
    title: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)


ForeignItem = ForeignSession | ForeignRecord | ForeignDocument | ImportSkip


def clean_text(value: object) -> str:
    """Text that every backend can keep: what is not a character is shown as U+FFFD."""
    if not isinstance(value, str):
        return ""
    whole = value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # halves that belong together join
    return whole.replace("\x00", "\ufffd")


def clean_name(value: object) -> str | None:
    """A short name on one line, or None where there is none."""
    text = " ".join(clean_text(str(value) if isinstance(value, int) else value).split())
    text = "".join(letter for letter in text if letter.isprintable())
    return text.encode()[:_MAX_NAME].decode(errors="ignore").strip() or None


def clean_label(value: object) -> str:
    return clean_text(value if isinstance(value, str) else str(value)).encode()[:_MAX_LABEL].decode(errors="ignore")


def flatten_metadata(value: object) -> dict[str, str]:
    """Metadata of any shape as text by text."""
    if not isinstance(value, Mapping):
        return {}
    return {
        clean_label(key): _flatten_value(item) for key, item in value.items() if clean_label(key) and item is not None
    }


def _flatten_value(value: object) -> str:
    if isinstance(value, str):
        return clean_text(value)
    import json

    return clean_text(json.dumps(value, ensure_ascii=False, default=str))


def try_parse_time(value: object) -> datetime | None:
    """The time in a field, or None."""
    if value is None or value == "":
        return None
    with suppress(InvalidInput):
        return read_time(value)
    return None


def iter_objects(value: object) -> Iterator[Mapping[str, Any]]:
    """The objects of a list, whatever else is in it."""
    yield from (item for item in value if isinstance(item, Mapping)) if isinstance(value, list) else ()


def make_key(*parts: object) -> str:
    """A key made of names of any length."""
    text = ":".join(map(str, parts))
    if len(text.encode("utf-8", "replace")) <= _MAX_NAME and text.isprintable() and text == text.strip():
        return text
    return f"{parts[0]}:{hashlib.blake2b(text.encode('utf-8', 'replace'), digest_size=16).hexdigest()}"
