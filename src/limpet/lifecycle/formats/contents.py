"""What is found in another program's files, in our words."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import field
from datetime import datetime
from typing import Any

from limpet.errors import InvalidInput
from limpet.model.dataclass import dataclass
from limpet.model.message import FilePart, ImagePart, Message, Part, TextPart, ToolCall
from limpet.model.transfer import ImportSkip
from limpet.model.values import check_metadata, check_name, from_micros, refuse_constant, replace_unstorable
from limpet.store.files import parse_timestamp

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
    """Text that every backend can keep; empty if it is not text."""
    return replace_unstorable(value) if isinstance(value, str) else ""


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
    return clean_text(json.dumps(value, ensure_ascii=False, default=str))


def try_parse_time(value: object) -> datetime | None:
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


# Seconds stay below this for three thousand years; milliseconds passed it in 1973.
_MILLISECONDS_FROM = 1e11


@contextmanager
def error_location(where: str) -> Iterator[None]:
    """Put the place in front of whatever is wrong there."""
    try:
        yield
    except InvalidInput as error:
        raise InvalidInput(f"{where}: {error}") from None


@dataclass(frozen=True, slots=True)
class Fields:
    values: Mapping[str, Any]

    @classmethod
    def of(cls, value: object) -> Fields:
        if not isinstance(value, Mapping):
            raise InvalidInput(f"must be an object, not {json_type_name(value)}")
        return cls(value)

    def find(self, *names: str) -> tuple[str, Any]:
        """The first field that says anything, with its name; null and "" say nothing."""
        for name in names:
            if (value := self.values.get(name)) not in (None, ""):
                return name, value
        return names[0], None

    def name(self, *names: str) -> str | None:
        """A short text; numbers are taken too, because that is what many channels' ids are."""
        field, value = self.find(*names)
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        return None if value is None else check_name(value, field)

    def time(self, *names: str) -> datetime | None:
        field, value = self.find(*names)
        with error_location(field):
            return None if value is None else read_time(value)

    def metadata(self, *names: str) -> dict[str, Any]:
        field, value = self.find(*names)
        return check_metadata(value, field)

    def items(self, *names: str) -> list[Any]:
        field, value = self.find(*names)
        if value is None:
            return []
        if not isinstance(value, list):
            raise InvalidInput(f"{field}: must be a list, not {json_type_name(value)}")
        return value


def read_time(value: object) -> datetime:
    """ISO text (no zone means UTC), or a number of seconds or milliseconds since 1970."""
    if isinstance(value, str):
        try:
            return parse_timestamp(value)
        except ValueError:
            raise InvalidInput(f"{value[:80]!r} is not an ISO 8601 time") from None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidInput(f"must be an ISO 8601 time or a number, not {json_type_name(value)}")
    try:
        return from_micros(round(value * (1_000 if abs(value) >= _MILLISECONDS_FROM else 1_000_000)))
    except OverflowError:
        raise InvalidInput(f"{str(value)[:40]} is outside the years 1 to 9999") from None


def json_type_name(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


THOUGHTS = ("thinking", "redacted_thinking", "reasoning")


class MessageDraft:
    """A message as it is put together from blocks."""

    def __init__(self, role: str) -> None:
        self.role = role
        self.parts: list[Part] = []
        self.calls: list[ToolCall] = []
        self.call_id: str | None = None
        self.name: str | None = None
        self.is_error = False

    @property
    def is_empty(self) -> bool:
        said = any(not isinstance(part, TextPart) or part.text.strip() for part in self.parts)
        return not said and not self.calls

    @property
    def content(self) -> Any:
        if all(isinstance(part, TextPart) for part in self.parts):
            return join_texts(self.parts)
        return self.parts

    def build(self, key: str, created_at: datetime | None, metadata: dict[str, Any] | None = None) -> Message:
        """Raises InvalidInput for what cannot be kept."""
        return Message.new(
            self.role,
            self.content,
            name=self.name,
            tool_calls=self.calls,
            tool_call_id=self.call_id,
            is_error=self.is_error,
            metadata=metadata,
            created_at=created_at,
            idempotency_key=key,
        )


def join_texts(parts: Iterable[Part]) -> str:
    return "\n".join(part.text for part in parts if isinstance(part, TextPart))


def split_messages(role: str, content: object, left: list[str]) -> Iterator[MessageDraft]:
    """The messages of one entry, in order. What no message can have goes to ``left``."""
    now = MessageDraft(role)
    for block in [content] if isinstance(content, str) else content if isinstance(content, list) else []:
        kind = block.get("type") if isinstance(block, Mapping) else None
        if isinstance(block, Mapping) and kind in ("tool_result", "web_search_tool_result", "mcp_tool_result"):
            if not _says_nothing(now):
                yield now
            yield _parse_result(block)
            now = MessageDraft(role)
        elif isinstance(block, Mapping) and kind in ("tool_use", "server_tool_use", "mcp_tool_use"):
            now.calls.append(make_call(block.get("id"), block.get("name"), block.get("input")))
        elif kind in THOUGHTS:
            left.append("the model's thoughts")
        elif (part := parse_part(block)) is not None:
            if now.calls and role == "assistant":  # said after the call: another message
                yield now
                now = MessageDraft(role)
            now.parts.append(part)
        else:
            left.append(f"a block of the unknown kind {str(kind)[:40]!r}")
    if not _says_nothing(now):
        yield now


def _says_nothing(draft: MessageDraft) -> bool:
    return draft.is_empty and draft.role != "tool"


def _parse_result(block: Mapping[str, Any]) -> MessageDraft:
    answer, content = MessageDraft("tool"), block.get("content")
    given = [content] if isinstance(content, str) else content if isinstance(content, list) else []
    answer.parts = [part for one in given if (part := parse_part(one)) is not None]
    answer.call_id = clean_name(block.get("tool_use_id"))
    answer.name = clean_name(block.get("name"))
    answer.is_error = block.get("is_error") is True
    return answer


def parse_part(block: Any) -> Part | None:
    match block:
        case str() as text:
            return TextPart(clean_text(text))
        case {"type": "text" | "input_text" | "output_text", "text": str() as text}:
            return TextPart(clean_text(text))
        case {"type": "refusal", "refusal": str() as text}:
            return TextPart(clean_text(text))
        case {"type": "image_url", "image_url": {"url": str() as uri} | (str() as uri)} if uri:
            return ImagePart(clean_text(uri))
        case {"type": "input_image", "image_url": str() as uri} if uri:
            return ImagePart(clean_text(uri))
        case {"type": "image", "source": {"type": "url", "url": str() as uri}} if uri:
            return ImagePart(clean_text(uri))
        case {"type": "image", "source": {"type": "base64", "media_type": str() as media, "data": str() as data}}:
            return ImagePart(clean_text(f"data:{media};base64,{data}"), media[:200])
        case {"type": "document", "source": {"type": "text", "data": str() as text}}:
            return TextPart(clean_text(text))
        case {"type": "document", "source": {"type": "base64", "media_type": str() as media, "data": str() as data}}:
            return FilePart(
                clean_text(f"data:{media};base64,{data}"), media[:200], clean_text(block.get("title"))[:1000]
            )
        case {"type": "document", "source": {"type": "url", "url": str() as uri}} if uri:
            return FilePart(clean_text(uri))
        case {"type": "file" | "input_file" | "input_audio"}:
            inner = block.get("file") or block.get("input_audio") or block
            inner = inner if isinstance(inner, Mapping) else block
            uri = (
                clean_text(inner.get("file_data") or inner.get("data"))
                or f"openai-file:{clean_text(inner.get('file_id'))}"
            )
            return FilePart(uri, name=clean_text(inner.get("filename"))[:1000])
    return None


def parse_tool_calls(message: Mapping[str, Any]) -> list[ToolCall]:
    """``tool_calls`` as OpenAI writes them, and the ``function_call`` of before."""
    found = [
        make_call(call.get("id"), inner.get("name"), inner.get("arguments", inner.get("input")))
        for call in iter_objects(message.get("tool_calls"))
        for inner in (call.get("function") or call.get("custom") or call,)
        if isinstance(inner, Mapping)
    ]
    old = message.get("function_call")
    return [*found, make_call("", old.get("name"), old.get("arguments"))] if isinstance(old, Mapping) else found


def make_call(id_: object, name: object, given: object) -> ToolCall:
    if isinstance(given, str):
        try:
            given = json.loads(given, parse_constant=refuse_constant)
        except (ValueError, RecursionError):
            given = {"input": given}
    arguments = given if isinstance(given, dict) else {} if given is None else {"input": given}
    return ToolCall(clean_text(id_)[:256], clean_name(name) or "unknown", sanitize_json(arguments))


def sanitize_json(value: Any, depth: int = 60) -> Any:
    """A JSON value with nothing in it that cannot be kept."""
    if isinstance(value, str):
        return clean_text(value)
    if depth == 0:
        return "…"
    if isinstance(value, dict):
        return {clean_text(key): sanitize_json(item, depth - 1) for key, item in value.items()}
    if isinstance(value, list):
        return [sanitize_json(item, depth - 1) for item in value]
    return value
