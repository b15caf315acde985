"""Messages in the shapes model APIs write them: text, or blocks of text, pictures, calls and their results.

One entry there may be several messages here: what a tool answered is a message of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from limpet.lifecycle.formats.contents import clean_name, clean_text, iter_objects
from limpet.model.message import FilePart, ImagePart, Part, TextPart, ToolCall

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
        return not said and not self.calls and self.role != "tool"

    @property
    def content(self) -> Any:
        if all(isinstance(part, TextPart) for part in self.parts):
            return "\n".join(part.text for part in self.parts if isinstance(part, TextPart))
        return self.parts


def split_messages(role: str, content: object, left: list[str]) -> Iterator[MessageDraft]:
    """The messages of one entry, in order. What no message can have goes to ``left``."""
    now = MessageDraft(role)
    for block in [content] if isinstance(content, str) else content if isinstance(content, list) else []:
        kind = block.get("type") if isinstance(block, Mapping) else None
        if isinstance(block, Mapping) and kind in ("tool_result", "web_search_tool_result", "mcp_tool_result"):
            if not now.is_empty:
                yield now
            yield _parse_result(block)
            now = MessageDraft(role)
        elif isinstance(block, Mapping) and kind in ("tool_use", "server_tool_use", "mcp_tool_use"):
            now.calls.append(_parse_call(block.get("id"), block.get("name"), block.get("input")))
        elif kind in THOUGHTS:
            left.append("the model's thoughts")
        elif (part := parse_part(block)) is not None:
            if now.calls and role == "assistant":  # said after the call: another message
                yield now
                now = MessageDraft(role)
            now.parts.append(part)
        else:
            left.append(f"a block of the unknown kind {str(kind)[:40]!r}")
    if not now.is_empty:
        yield now


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
        _parse_call(call.get("id"), inner.get("name"), inner.get("arguments", inner.get("input")))
        for call in iter_objects(message.get("tool_calls"))
        for inner in (call.get("function") or call.get("custom") or call,)
        if isinstance(inner, Mapping)
    ]
    old = message.get("function_call")
    return [*found, _parse_call("", old.get("name"), old.get("arguments"))] if isinstance(old, Mapping) else found


def _parse_call(id_: object, name: object, given: object) -> ToolCall:
    if isinstance(given, str):
        try:
            given = json.loads(given)
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
