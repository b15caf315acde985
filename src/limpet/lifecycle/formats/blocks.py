"""Messages in the shapes model APIs write them: text, or blocks of text, pictures, calls and their results.

One entry there may be several messages here: what a tool answered is a message of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from limpet.lifecycle.formats.contents import clean, dicts, name_of
from limpet.model.message import FilePart, ImagePart, Part, TextPart, ToolCall

THOUGHTS = ("thinking", "redacted_thinking", "reasoning")


class Spoken:
    """A message as it is put together from blocks."""

    def __init__(self, role: str) -> None:
        self.role = role
        self.parts: list[Part] = []
        self.calls: list[ToolCall] = []
        self.call_id: str | None = None
        self.name: str | None = None
        self.is_error = False

    @property
    def empty(self) -> bool:
        said = any(not isinstance(part, TextPart) or part.text.strip() for part in self.parts)
        return not said and not self.calls and self.role != "tool"

    @property
    def content(self) -> Any:
        if all(isinstance(part, TextPart) for part in self.parts):
            return "\n".join(part.text for part in self.parts if isinstance(part, TextPart))
        return self.parts


def spoken(role: str, content: object, left: list[str]) -> Iterator[Spoken]:
    """The messages of one entry, in order. What no message can have goes to ``left``."""
    now = Spoken(role)
    for block in [content] if isinstance(content, str) else content if isinstance(content, list) else []:
        kind = block.get("type") if isinstance(block, Mapping) else None
        if isinstance(block, Mapping) and kind in ("tool_result", "web_search_tool_result", "mcp_tool_result"):
            if not now.empty:
                yield now
            yield _result(block)
            now = Spoken(role)
        elif isinstance(block, Mapping) and kind in ("tool_use", "server_tool_use", "mcp_tool_use"):
            now.calls.append(_call(block.get("id"), block.get("name"), block.get("input")))
        elif kind in THOUGHTS:
            left.append("the model's thoughts")
        elif (part := part_of(block)) is not None:
            if now.calls and role == "assistant":  # said after the call: another message
                yield now
                now = Spoken(role)
            now.parts.append(part)
        else:
            left.append(f"a block of the unknown kind {str(kind)[:40]!r}")
    if not now.empty:
        yield now


def _result(block: Mapping[str, Any]) -> Spoken:
    answer, content = Spoken("tool"), block.get("content")
    given = [content] if isinstance(content, str) else content if isinstance(content, list) else []
    answer.parts = [part for one in given if (part := part_of(one)) is not None]
    answer.call_id = name_of(block.get("tool_use_id"))
    answer.name = name_of(block.get("name"))
    answer.is_error = block.get("is_error") is True
    return answer


def part_of(block: Any) -> Part | None:
    match block:
        case str() as text:
            return TextPart(clean(text))
        case {"type": "text" | "input_text" | "output_text", "text": str() as text}:
            return TextPart(clean(text))
        case {"type": "refusal", "refusal": str() as text}:
            return TextPart(clean(text))
        case {"type": "image_url", "image_url": {"url": str() as uri} | (str() as uri)} if uri:
            return ImagePart(clean(uri))
        case {"type": "input_image", "image_url": str() as uri} if uri:
            return ImagePart(clean(uri))
        case {"type": "image", "source": {"type": "url", "url": str() as uri}} if uri:
            return ImagePart(clean(uri))
        case {"type": "image", "source": {"type": "base64", "media_type": str() as media, "data": str() as data}}:
            return ImagePart(clean(f"data:{media};base64,{data}"), media[:200])
        case {"type": "document", "source": {"type": "text", "data": str() as text}}:
            return TextPart(clean(text))
        case {"type": "document", "source": {"type": "base64", "media_type": str() as media, "data": str() as data}}:
            return FilePart(clean(f"data:{media};base64,{data}"), media[:200], clean(block.get("title"))[:1000])
        case {"type": "document", "source": {"type": "url", "url": str() as uri}} if uri:
            return FilePart(clean(uri))
        case {"type": "file" | "input_file" | "input_audio"}:
            inner = block.get("file") or block.get("input_audio") or block
            inner = inner if isinstance(inner, Mapping) else block
            uri = clean(inner.get("file_data") or inner.get("data")) or f"openai-file:{clean(inner.get('file_id'))}"
            return FilePart(uri, name=clean(inner.get("filename"))[:1000])
    return None


def calls_of(message: Mapping[str, Any]) -> list[ToolCall]:
    """``tool_calls`` as OpenAI writes them, and the ``function_call`` of before."""
    found = [
        _call(call.get("id"), inner.get("name"), inner.get("arguments", inner.get("input")))
        for call in dicts(message.get("tool_calls"))
        for inner in (call.get("function") or call.get("custom") or call,)
        if isinstance(inner, Mapping)
    ]
    old = message.get("function_call")
    return [*found, _call("", old.get("name"), old.get("arguments"))] if isinstance(old, Mapping) else found


def _call(id_: object, name: object, given: object) -> ToolCall:
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except (ValueError, RecursionError):
            given = {"input": given}
    arguments = given if isinstance(given, dict) else {} if given is None else {"input": given}
    return ToolCall(clean(id_)[:256], name_of(name) or "unknown", plain(arguments))


def plain(value: Any, depth: int = 60) -> Any:
    """A JSON value with nothing in it that cannot be kept."""
    if isinstance(value, str):
        return clean(value)
    if depth == 0:
        return "…"
    if isinstance(value, dict):
        return {clean(key): plain(item, depth - 1) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item, depth - 1) for item in value]
    return value
