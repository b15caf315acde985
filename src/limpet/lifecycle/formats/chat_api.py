"""Lists of messages as programs hand them to the APIs of OpenAI and Anthropic, alone or a list a line."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from limpet.errors import InvalidInput
from limpet.lifecycle.formats.contents import (
    ForeignItem,
    ForeignSession,
    MessageDraft,
    clean_name,
    make_key,
    parse_tool_calls,
    split_messages,
    try_parse_time,
)
from limpet.lifecycle.formats.source import ImportSource
from limpet.model.message import Message
from limpet.model.transfer import ImportSkip

OPENAI, ANTHROPIC = "openai", "anthropic"
_ROLES = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
_TIMES = ("created_at", "timestamp", "created")
_OF_ANTHROPIC = {"tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use"}


def read(source: ImportSource) -> Iterator[ForeignItem]:
    for name in source.names:
        stem = PurePosixPath(name).stem
        for place, number, value in _iter_conversations(source, name):
            yield from _read_conversation(place, stem if number is None else f"{stem}:{number}", value)


def _iter_conversations(source: ImportSource, name: str) -> Iterator[tuple[str, int | None, Any]]:
    """Each with its number in the file, where there are several."""
    if name.endswith(".jsonl"):
        for number, (place, value, problem) in enumerate(source.iter_lines(name)):
            yield place, number, problem or value
        return
    found = list(source.iter_values(name))
    if len(found) == 1 and isinstance(found[0][1], Mapping) and "messages" in found[0][1]:
        yield name, None, found[0][1]
    elif all(isinstance(value, Mapping) and isinstance(value.get("messages"), list) for _, value in found):
        yield from ((place, number, value) for number, (place, value) in enumerate(found))
    else:
        yield name, None, {"messages": [value for _, value in found]}


def detect_flavour(messages: object, value: Mapping[str, Any] | None = None) -> str | None:
    """Whose list it is; None for anything but a list of messages."""
    if not isinstance(messages, list) or not messages:
        return None
    if not all(isinstance(one, Mapping) and isinstance(one.get("role"), str) for one in messages):
        return None
    if value is not None and isinstance(value.get("system"), (str, list)):
        return ANTHROPIC
    blocks = [block for one in messages if isinstance(one.get("content"), list) for block in one["content"]]
    of_anthropic = any(
        isinstance(block, Mapping) and (block.get("type") in _OF_ANTHROPIC or isinstance(block.get("source"), Mapping))
        for block in blocks
    )
    return ANTHROPIC if of_anthropic else OPENAI


def _read_conversation(place: str, id_: str, value: object) -> Iterator[ForeignItem]:
    if not isinstance(value, Mapping) or not isinstance(value.get("messages"), list):
        yield ImportSkip(place, value if isinstance(value, str) else "it is not a list of messages")
        return
    entries: list[Any] = list(value["messages"])
    if isinstance(value.get("system"), (str, list)):
        entries.insert(0, {"role": "system", "content": value["system"]})
    messages: list[Message] = []
    for number, entry in enumerate(entries):
        where = f"{place}, messages[{number}]"
        if not isinstance(entry, Mapping) or str(entry.get("role")) not in _ROLES:
            yield ImportSkip(where, "it has no role that is known")
            continue
        notes: list[str] = []
        for part, one in enumerate(_parse_entry(entry, notes)):
            try:
                messages.append(_build_message(entry, one, number, part))
            except InvalidInput as error:
                yield ImportSkip(where, f"it cannot be kept: {error}")
        yield from (ImportSkip(where, note) for note in notes)
    yield ForeignSession(clean_name(id_) or "messages", tuple(messages))


def _parse_entry(entry: Mapping[str, Any], notes: list[str]) -> list[MessageDraft]:
    role, content = _ROLES[str(entry["role"])], entry.get("content")
    found = list(split_messages(role, content, notes))
    calls = parse_tool_calls(entry)
    if calls:
        found = found or [MessageDraft(role)]
        found[-1].calls += calls
    if role == "tool":
        found = found or [MessageDraft(role)]
        for one in found:
            one.call_id, one.name = clean_name(entry.get("tool_call_id")), clean_name(entry.get("name"))
    elif found and clean_name(entry.get("name")):
        found[0].name = clean_name(entry.get("name"))
    if not found and not notes:
        notes.append("it says nothing")
    return found


def _build_message(entry: Mapping[str, Any], one: MessageDraft, number: int, part: int) -> Message:
    """Known again by its place and its words: the same list, grown at its end, adds what is new."""
    words = json.dumps([one.role, str(one.content), [call.name for call in one.calls]], ensure_ascii=False)
    digest = hashlib.blake2b(words.encode("utf-8", "replace"), digest_size=8).hexdigest()
    created = next((moment for name in _TIMES if (moment := try_parse_time(entry.get(name)))), None)
    return one.build(make_key("messages", number, part, digest), created)
