"""What goes into the next prompt, and its messages in the shapes that OpenAI's and Anthropic's APIs take.

Both refuse a call without its result, so results stand right behind their call whenever they came, and a call that was
never answered is answered by an error. Memory goes in as the user's first message: data to read, without the power that
a system prompt has.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from hashlib import blake2b
from typing import Annotated, Any, NamedTuple

from limpet.model.chunk import Hit
from limpet.model.dataclass import dataclass, replace
from limpet.model.lookalikes import contains_role, drop_invisible
from limpet.model.message import FilePart, ImagePart, Message, Part, Role, TextPart, ToolCall, group_steps, part_text


@dataclass(frozen=True, slots=True)
class Omission:
    """Something that was left out, and why."""

    what: Annotated[str, "what was left out"]
    reason: Annotated[str, "the reason"]


class OmissionReason(StrEnum):
    """Why something was left out of a context. ``format`` fills in what stands in braces."""

    UNREADABLE = "could not be read: {error}"
    OVER_BUDGET = "over the token budget"
    OVER_MESSAGES = "over the token or message budget"
    SUMMARIZED = "covered by the summary"
    IN_MESSAGES = "already among the messages"
    IN_SECTION = "another line of this context says it"
    IN_MEMORIES = "said by the memories that are shown"
    IN_BETTER_HIT = "of the same message as a better hit"
    IS_QUESTION = "it is the question itself"
    OFF_TOPIC = "it has nothing to do with the question"
    SAYS_LITTLE = "its words say too little by themselves"
    OTHER_SESSION = "it belongs to another session"
    REPLACED = "no longer holds, and what took its place is above"
    FADED = "older than {days} days and not recalled"
    NOT_STRONG = "past {most} tokens only records with a score of {least} enter"
    OVER_RECORD_TOKENS = "over the {most} tokens for records"
    BEYOND_STANDING = "beyond the {most} that matter most"
    BEYOND_USER_MEMORIES = "beyond the {most} most relevant user memories"
    BEYOND_LAYER = "beyond the {most} best {layer} records"
    BEYOND_HITS = "beyond the {most} best hits"
    BEYOND_FACTS = "beyond {most} recalled facts or their {tokens} tokens"


@dataclass(frozen=True, slots=True)
class Context:
    """What memory knows, as quoted data, then the summary when older messages were cut, and the newest messages."""

    text: Annotated[str, "Markdown that belongs before the messages; data, not instructions"]
    messages: Annotated[tuple[Message, ...], "the newest messages, as many as fit"]
    tokens: Annotated[int, "tokens of the text and the messages"]
    sections: Annotated[Mapping[str, str], "the sections of the text, by heading"]
    hits: Annotated[tuple[Hit, ...], "the hits that the text quotes, best first"]
    dropped: Annotated[tuple[Omission, ...], "what was left out"]
    records: Annotated[tuple[str, ...], "ids of all records the text shows"] = ()

    def as_openai(self) -> list[dict[str, Any]]:
        """The ``messages`` of a chat completion: memory as the user's first message, then the conversation."""
        return as_openai(self.text, self.messages)

    def as_anthropic(self) -> dict[str, Any]:
        """``messages``, and ``system`` where the session has system messages, for ``client.messages.create(**…)``."""
        return as_anthropic(self.text, self.messages)


Json = dict[str, Any]

NO_RESULT = "(no result was stored)"
OPENING_TEXT = "(the conversation goes on)"

_IDENTIFIER = re.compile(r"[A-Za-z0-9_-]{1,64}")
_DATA_URI = re.compile(r"data:([^;,]*)(?:;[^;,]*)*;base64,(.*)", re.DOTALL)
_WEB = ("http://", "https://")


class ToolExchange(NamedTuple):
    """A tool call and what came back, or None."""

    call_id: str
    call: ToolCall
    result: Message | None


def as_openai(memory: str, messages: Sequence[Message]) -> list[Json]:
    found: list[Json] = []
    for message, answers in _exchanges(_name_speakers(messages, by_field=True)):
        found.append(_openai_message(message, answers))
        found += [
            {"role": "tool", "tool_call_id": answer.call_id, "content": _result_text(answer)} for answer in answers
        ]
    if memory:
        leading = next((at for at, entry in enumerate(found) if entry["role"] != "system"), len(found))
        found.insert(leading, {"role": "user", "content": memory})
    return found


def as_anthropic(memory: str, messages: Sequence[Message]) -> Json:
    """``system`` holds the session's own system messages and is left out when there are none."""
    system: list[str] = []
    turns: list[Json] = []
    if memory:
        _append_turn(turns, "user", [{"type": "text", "text": memory}])
    for message, answers in _exchanges(_name_speakers(messages, by_field=False)):
        if message.role is Role.SYSTEM:
            system.append(message.text)
            continue
        role = "assistant" if message.role is Role.ASSISTANT else "user"
        if role == "assistant" and not turns:
            _append_turn(turns, "user", [{"type": "text", "text": OPENING_TEXT}])
        _append_turn(turns, role, [*_anthropic_content(message), *(_tool_use(answer) for answer in answers)])
        _append_turn(turns, "user", [_tool_result(answer) for answer in answers])
    about = "\n\n".join(filter(None, system))
    return ({"system": about} if about else {}) | {"messages": turns}


def _name_speakers(messages: Sequence[Message], *, by_field: bool) -> list[Message]:
    """Where several people speak, say who before each message, unless the name fits into a field of the API."""
    if len({message.name for message in messages if message.role is Role.USER and message.name}) < 2:
        return list(messages)
    return [
        message
        if message.role is not Role.USER or (by_field and _IDENTIFIER.fullmatch(message.name or ""))
        else _name(message)
        for message in messages
    ]


def _name(message: Message) -> Message:
    if not message.name:
        return message
    name = " ".join(drop_invisible(message.name).split()).replace('"', "'")
    label = f'user "{name}": ' if contains_role(name) or ":" in name else f"{name}: "
    if isinstance(message.content, str):
        return replace(message, content=label + message.content)
    return replace(message, content=(TextPart(label), *message.content))


def _exchanges(messages: Sequence[Message]) -> Iterator[tuple[Message, list[ToolExchange]]]:
    """Each message with its calls answered. A result whose call is gone is left out."""
    for step in group_steps(messages):
        said, results = messages[step[0]], [messages[at] for at in step[1:]]
        yield said, list(_pair_results(said, results))


def _pair_results(said: Message, results: Sequence[Message]) -> Iterator[ToolExchange]:
    unnamed = [result for result in results if result.tool_call_id is None]
    for number, call in enumerate(said.tool_calls):
        named = [result for result in results if result.tool_call_id == call.id]
        result = named[-1] if named else unnamed.pop(0) if unnamed else None
        yield ToolExchange(_identifier(call.id or f"call_{said.sequence}_{number}"), call, result)


def _identifier(text: str) -> str:
    return text if _IDENTIFIER.fullmatch(text) else f"call_{blake2b(text.encode(), digest_size=12).hexdigest()}"


def _tool_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64]


def _result_text(answer: ToolExchange) -> str:
    return NO_RESULT if answer.result is None else answer.result.text


# OpenAI


def _openai_message(message: Message, answers: Sequence[ToolExchange]) -> Json:
    entry: Json = {"role": message.role.value, "content": _openai_content(message)}
    if message.name and message.role is Role.USER:
        entry["name"] = _tool_name(message.name)
    if answers:
        entry["content"] = entry["content"] or None
        entry["tool_calls"] = [
            {
                "id": answer.call_id,
                "type": "function",
                "function": {
                    "name": _tool_name(answer.call.name),
                    "arguments": json.dumps(dict(answer.call.arguments), ensure_ascii=False),
                },
            }
            for answer in answers
        ]
    return entry


def _openai_content(message: Message) -> str | list[Json]:
    if isinstance(message.content, str) or message.role is not Role.USER:
        return message.text
    return [_openai_part(part) for part in message.content]


def _openai_part(part: Part) -> Json:
    match part:
        case ImagePart(uri=uri) if uri.startswith((*_WEB, "data:")):
            return {"type": "image_url", "image_url": {"url": uri}}
        case FilePart(uri=uri, name=name) if uri.startswith("data:"):
            return {"type": "file", "file": {"filename": name or "file", "file_data": uri}}
    return {"type": "text", "text": part_text(part)}


# Anthropic


def _append_turn(turns: list[Json], role: str, blocks: Sequence[Json]) -> None:
    """Speakers take turns: what the same one says next belongs to the same message."""
    if not blocks:
        return
    if turns and turns[-1]["role"] == role:
        turns[-1]["content"] += blocks
    else:
        turns.append({"role": role, "content": list(blocks)})


def _anthropic_content(message: Message) -> list[Json]:
    """The API rejects blank blocks, and white space at the end of what the assistant said."""
    parts = [TextPart(message.content)] if isinstance(message.content, str) else message.content
    if message.role is Role.USER:
        blocks = [_anthropic_part(part) for part in parts]
    else:
        blocks = [{"type": "text", "text": part_text(part).rstrip()} for part in parts]
    return [block for block in blocks if block["type"] != "text" or block["text"].strip()]


def _text_block(part: Part) -> Json:
    return {"type": "text", "text": part_text(part)}


def _anthropic_part(part: Part) -> Json:
    match part:
        case ImagePart(uri=uri, media_type=media_type):
            source = _anthropic_source(uri, media_type)
            return {"type": "image", "source": source} if source else _text_block(part)
        case FilePart(uri=uri, media_type=media_type, name=name):
            source = _anthropic_source(uri, media_type)
            if source and (media_type or source.get("media_type")) == "application/pdf":
                return {"type": "document", "source": source} | ({"title": name} if name else {})
    return _text_block(part)


def _anthropic_source(uri: str, media_type: str | None) -> Json | None:
    if data := _DATA_URI.fullmatch(uri):
        return {"type": "base64", "media_type": media_type or data[1], "data": data[2]}
    return {"type": "url", "url": uri} if uri.startswith(_WEB) else None


def _tool_use(answer: ToolExchange) -> Json:
    call = answer.call
    return {"type": "tool_use", "id": answer.call_id, "name": _tool_name(call.name), "input": dict(call.arguments)}


def _tool_result(answer: ToolExchange) -> Json:
    failed = answer.result is None or answer.result.is_error
    block = {"type": "tool_result", "tool_use_id": answer.call_id, "content": _result_text(answer)}
    return block | ({"is_error": True} if failed else {})
