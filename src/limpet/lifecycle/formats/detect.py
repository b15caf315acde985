"""Which program wrote it: found out from the first thing it holds."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from limpet.documents.files import printable_path
from limpet.errors import LimpetError, Unsupported
from limpet.lifecycle import SNAPSHOT
from limpet.lifecycle.export_folder import FORMAT
from limpet.lifecycle.formats import chat_api, chatgpt, claude, markdown, mcp_memory, mem0
from limpet.lifecycle.formats.contents import ForeignItem
from limpet.lifecycle.formats.source import ImportSource
from limpet.model.document import DocumentKind, detect_kind
from limpet.model.values import short_repr

AUTO = "auto"
_READERS: Mapping[str, Callable[[ImportSource], Iterator[ForeignItem]]] = {
    **{each.NAME: each.read for each in (chatgpt, claude, mem0, mcp_memory)},
    **dict.fromkeys((chat_api.OPENAI, chat_api.ANTHROPIC), chat_api.read),
}
FOREIGN = (*_READERS, markdown.NAME)
FORMATS = (FORMAT, *FOREIGN, SNAPSHOT)
_START = 65_536


def checked_format(value: object) -> str:
    if not isinstance(value, str) or value not in (AUTO, *FORMATS):
        raise Unsupported(f"{short_repr(value)} is not a format; use one of {', '.join((AUTO, *FORMATS))}")
    return value


def detect(source: ImportSource) -> str:
    """InvalidInput for what is broken, Unsupported for what is nothing we know."""
    found = _detect_file(source, source.names[0]) if source.kind == "file" else _detect_folder(source)
    if found is None:
        name = printable_path(str(source.path))
        raise Unsupported(f"{name} is in none of the formats that can be imported: {', '.join(FORMATS)}")
    return found


def _detect_folder(source: ImportSource) -> str | None:
    chats = source.find_json("conversations")
    for name in chats or source.find_json("memories", "projects", "sessions"):
        return _detect_file(source, name)
    if source.kind == "folder" and any(detect_kind(name) is DocumentKind.MARKDOWN for name in source.names):
        return markdown.NAME
    return None


def _detect_file(source: ImportSource, name: str) -> str | None:
    if detect_kind(name) is DocumentKind.MARKDOWN:
        return markdown.NAME
    start = source.read_start(name, _START).removeprefix(b"\xef\xbb\xbf").lstrip()
    if start[:1] not in (b"[", b"{"):
        return None
    line = _first_line(start)
    if isinstance(line, Mapping) and line.get("type") in ("entity", "relation"):
        return mcp_memory.NAME
    if name.endswith(".jsonl"):
        return chat_api.detect_flavour(line.get("messages"), line) if isinstance(line, Mapping) else None
    try:
        return _detect_value(next((value for _, value in source.iter_values(name)), None), source, name)
    except LimpetError:
        return SNAPSHOT  # whose reader says what is wrong


def _first_line(start: bytes) -> Any:
    try:
        return json.loads(start.splitlines()[0])
    except (ValueError, RecursionError):
        return None


def _detect_value(value: object, source: ImportSource, name: str) -> str | None:
    if not isinstance(value, Mapping):
        return SNAPSHOT
    if isinstance(value.get("mapping"), Mapping):
        return chatgpt.NAME
    if isinstance(value.get("chat_messages"), list) or "conversations_memory" in value or "prompt_template" in value:
        return claude.NAME
    if any(isinstance(value.get(listed), list) for listed in ("results", "memories")) or (
        isinstance(value.get("memory"), str) and "id" in value
    ):
        return mem0.NAME
    if isinstance(value.get("role"), str):
        return chat_api.detect_flavour([each for _, each in source.iter_values(name)])
    if "id" not in value and "channel" not in value:
        return chat_api.detect_flavour(value.get("messages"), value) or SNAPSHOT
    return SNAPSHOT


def read(source: ImportSource, format: str, max_document_bytes: int) -> Iterator[ForeignItem]:
    return markdown.read(source, max_document_bytes) if format == markdown.NAME else _READERS[format](source)
