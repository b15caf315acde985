"""The messages of a snapshot, from the shapes chat bots and model APIs write them in."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from limpet.errors import InvalidInput
from limpet.lifecycle.formats.snapshot_fields import Fields, error_location, json_type_name
from limpet.model.message import ImagePart, Message, Part, Role, TextPart, ToolCall, part_from_json

SESSION_MESSAGES = ("messages", "conversation", "history")

_ROLES = {
    **{role.value: role for role in Role},
    "human": Role.USER,
    "ai": Role.ASSISTANT,
    "bot": Role.ASSISTANT,
    "model": Role.ASSISTANT,
    "developer": Role.SYSTEM,
    "function": Role.TOOL,
}
_ROLE = ("role", "message_type", "type")
_TIME = ("created_at", "timestamp", "ts")
_SEQUENCE = ("seq_order", "sequence")
_KNOWN = {*_ROLE, *_TIME, *_SEQUENCE, "content", "name", "tool_calls", "tool_call_id", "is_error", "metadata"}


def read_messages(session: Fields, skipped: Counter[str]) -> tuple[Message, ...]:
    """In the order of their sequence numbers where they have them, else as listed. A message may be without a time."""
    found = []
    for position, value in enumerate(session.items(*SESSION_MESSAGES)):
        with error_location(f"messages[{position}]"):
            fields = _unwrap_tag(Fields.of(value))
            skipped.update(f"message field {name!r}" for name in fields.values.keys() - _KNOWN)
            found.append((_parse_sequence(fields), _parse_message(fields)))
    return _sort_messages(found)


def fill_missing_times(messages: tuple[Message, ...], moment: datetime) -> tuple[Message, ...]:
    """The messages, those without a time at the moment given."""
    return tuple(message if message.created_at else replace(message, created_at=moment) for message in messages)


def _parse_message(fields: Fields) -> Message:
    calls = [_parse_tool_call(position, call) for position, call in enumerate(fields.items("tool_calls"))]
    return Message.new(
        _parse_role(fields),
        _parse_content(fields, optional=bool(calls)),
        name=fields.name("name"),
        tool_calls=calls,
        tool_call_id=fields.name("tool_call_id"),
        is_error=_parse_flag(fields, "is_error"),
        metadata=fields.metadata("metadata"),
        created_at=fields.time(*_TIME),
    )


def _unwrap_tag(fields: Fields) -> Fields:
    """``{"User": {"content": …}}`` as ``{"role": "User", "content": …}``."""
    if len(fields.values) != 1:
        return fields
    [(tag, inner)] = fields.values.items()
    if tag.casefold() not in _ROLES or not isinstance(inner, Mapping):
        return fields
    return Fields({**inner, "role": tag})


def _parse_role(fields: Fields) -> Role:
    field, value = fields.find(*_ROLE)
    role = _ROLES.get(value.casefold()) if isinstance(value, str) else None
    if role is None:
        raise InvalidInput(f"{field}: must be one of {', '.join(_ROLES)}; not {value!r}")
    return role


def _parse_content(fields: Fields, *, optional: bool) -> str | list[Part]:
    value = fields.values.get("content")
    if value is None and optional:
        return ""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise InvalidInput(f"content: must be text or a list of parts, not {json_type_name(value)}")
    parts: list[Part] = []
    for position, part in enumerate(value):
        with error_location(f"content[{position}]"):
            parts.append(_parse_part(part))
    return parts


def _parse_part(value: object) -> Part:
    """Our own shape, or one of those in which model APIs write text and images."""
    match value:
        case str() as text:
            return TextPart(text)
        case {"type": "input_text" | "output_text", "text": text}:
            return TextPart(text)
        case {"type": "image_url", "image_url": {"url": uri} | uri}:
            return ImagePart(uri)
        case {"type": "image", "source": {"type": "url", "url": uri}}:
            return ImagePart(uri)
        case {"type": "image", "source": {"type": "base64", "media_type": media, "data": data}}:
            return ImagePart(f"data:{media};base64,{data}", media)
    return part_from_json(Fields.of(value).values)


def _parse_tool_call(position: int, value: object) -> ToolCall:
    """Ours (id, name, arguments), or the same with name and arguments under ``function``."""
    with error_location(f"tool_calls[{position}]"):
        outer = Fields.of(value)
        function = outer.values.get("function")
        inner = outer if function is None else Fields.of(function)
        name = inner.name("name")
        if name is None:
            raise InvalidInput("name: is missing")
        return ToolCall(outer.name("id") or "", name, _parse_arguments(inner))


def _parse_arguments(fields: Fields) -> dict[str, Any]:
    _, value = fields.find("arguments")
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise InvalidInput(f"arguments: the text is not JSON: {error}") from None
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidInput(f"arguments: must be an object, not {json_type_name(value)}")
    return value


def _parse_flag(fields: Fields, name: str) -> bool:
    value = fields.values.get(name)
    if value is not None and not isinstance(value, bool):
        raise InvalidInput(f"{name}: must be true or false, not {json_type_name(value)}")
    return bool(value)


def _parse_sequence(fields: Fields) -> int | None:
    field, value = fields.find(*_SEQUENCE)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**62 - 1):
        raise InvalidInput(f"{field}: must be a whole number from 0, not {value!r}")
    return value


def _sort_messages(found: list[tuple[int | None, Message]]) -> tuple[Message, ...]:
    numbers = [number for number, _ in found if number is not None]
    if not numbers:
        return tuple(message for _, message in found)
    if len(numbers) < len(found):
        bare = next(position for position, (number, _) in enumerate(found) if number is None)
        raise InvalidInput(f"messages[{bare}]: sequence: is missing, while other messages have one")
    if repeated := [number for number, times in Counter(numbers).items() if times > 1]:
        raise InvalidInput(f"messages: sequence: {repeated[0]} is there {numbers.count(repeated[0])} times")
    # Ours begin at 1; a bot that counts from 0 keeps its distances.
    shift = 1 if min(numbers) == 0 else 0
    ordered = sorted(zip(numbers, (message for _, message in found), strict=True), key=lambda pair: pair[0])
    return tuple(replace(message, sequence=number + shift) for number, message in ordered)
