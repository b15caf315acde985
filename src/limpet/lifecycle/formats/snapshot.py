"""A ``sessions.json`` snapshot: the sessions of a chat bot in one file, read whole or refused whole.

Three shapes are taken: a list of sessions, ``{"sessions": …}`` around a list or an object, and an object of sessions by
id. Whatever is malformed raises InvalidInput with its place; fields without a counterpart here are named in
``skipped``.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from limpet.errors import InvalidInput
from limpet.lifecycle.formats.contents import Fields, error_location, json_type_name
from limpet.model.dataclass import dataclass, replace
from limpet.model.message import ImagePart, Message, Part, Role, TextPart, ToolCall, part_from_json
from limpet.model.scope import SessionKey, default_user_id
from limpet.model.session import SessionStatus
from limpet.model.values import check_text, check_time
from limpet.store.files import parse_json_file

FILE_CHANNEL = "file"

_MESSAGES = ("messages", "conversation", "history")

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
_MESSAGE_FIELDS = {*_ROLE, *_TIME, *_SEQUENCE, "content", "name", "tool_calls", "tool_call_id", "is_error", "metadata"}

_STATES = {
    "active": SessionStatus.ACTIVE,
    "idle": SessionStatus.ACTIVE,
    "awaitingpermission": SessionStatus.ACTIVE,
    "paused": SessionStatus.PAUSED,
    "suspended": SessionStatus.PAUSED,
    "terminated": SessionStatus.TERMINATED,
    "closed": SessionStatus.TERMINATED,
    "ended": SessionStatus.TERMINATED,
}
_CHANNEL = ("channel", "channel_type")
_CHAT = ("chat", "chat_id", "channel_id")
_THREAD = ("thread", "thread_id")
_USER = ("user", "user_id")
_AGENT = ("agent", "agent_id")
_STATE = ("state", "state_json")
_ACTIVE = ("last_active", "last_active_at", "updated_at")
_OTHERS = ("id", "created_at", "metadata", "summary", "store_types")
_SESSION_FIELDS = {*_CHANNEL, *_CHAT, *_THREAD, *_USER, *_AGENT, *_STATE, *_ACTIVE, *_OTHERS, *_MESSAGES}


@dataclass(frozen=True, slots=True)
class SnapshotSession:
    original_id: str
    key: SessionKey
    user: str
    agent: str | None
    state: SessionStatus
    metadata: Mapping[str, Any]
    created_at: datetime
    last_active_at: datetime
    summary: str | None
    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Snapshot:
    sessions: tuple[SnapshotSession, ...]
    skipped: tuple[str, ...]
    digest: str


def parse_snapshot(data: bytes, *, now: datetime) -> Snapshot:
    """``now`` dates a session that has no time at all, neither its own nor that of a message."""
    now = check_time(now, "now")
    try:
        document = parse_json_file(data)
    except ValueError as error:
        raise InvalidInput(f"the snapshot is not JSON: {error}") from error
    skipped: Counter[str] = Counter()
    sessions: dict[str, SnapshotSession] = {}
    for where, entry in _iter_entries(document, skipped):
        with error_location(where):
            session = _parse_session(Fields.of(entry), now, skipped)
            if session.original_id in sessions:
                raise InvalidInput(f"id: {session.original_id!r} appears twice")
            sessions[session.original_id] = session
    notes = tuple(f"{what} ({times} times)" if times > 1 else what for what, times in sorted(skipped.items()))
    return Snapshot(tuple(sessions.values()), notes, hashlib.sha256(data).hexdigest())


def _iter_entries(document: object, skipped: Counter[str]) -> Iterator[tuple[str, Any]]:
    """Each session with its place; in the object form it gets the name it stands under as its id, unless it has one."""
    if isinstance(document, Mapping) and isinstance(document.get("sessions"), (list, Mapping)):
        skipped.update(f"top-level field {name!r}" for name in document if name != "sessions")
        document = document["sessions"]
    if isinstance(document, list):
        yield from ((f"sessions[{position}]", entry) for position, entry in enumerate(document))
    elif isinstance(document, Mapping):
        for name, entry in document.items():
            named = {**entry, "id": entry.get("id") or name} if isinstance(entry, Mapping) else entry
            yield f"sessions[{name!r}]", named
    else:
        raise InvalidInput(f"a snapshot is a list or an object of sessions, not {json_type_name(document)}")


def _parse_session(fields: Fields, now: datetime, skipped: Counter[str]) -> SnapshotSession:
    skipped.update(f"session field {name!r}" for name in fields.values.keys() - _SESSION_FIELDS)
    key = _parse_key(fields)
    messages = read_messages(fields, skipped)
    created, active = _parse_times(fields, messages, now)
    return SnapshotSession(
        original_id=fields.name("id") or str(key),
        key=key,
        user=fields.name(*_USER) or default_user_id(key),
        agent=fields.name(*_AGENT),
        state=_parse_state(fields, skipped),
        metadata=fields.metadata("metadata"),
        created_at=created,
        last_active_at=active,
        summary=_parse_summary(fields),
        messages=fill_missing_times(messages, created),
    )


def _parse_key(fields: Fields) -> SessionKey:
    """By channel and chat. Without a channel the id says it (``telegram:42``), or it is a session kept in files."""
    name, channel, chat = fields.name("id"), fields.name(*_CHANNEL), fields.name(*_CHAT)
    if channel is None and chat is None and name is not None and name.count(":") in (1, 2):
        return SessionKey.parse(name)
    chat = chat or name
    if chat is None:
        raise InvalidInput("id: is missing, and so is the chat")
    return SessionKey.of(channel or FILE_CHANNEL, chat, fields.name(*_THREAD))


def _parse_times(fields: Fields, messages: tuple[Message, ...], now: datetime) -> tuple[datetime, datetime]:
    spoken = [message.created_at for message in messages if message.created_at]
    created, active = fields.time("created_at"), fields.time(*_ACTIVE)
    created = created or min(spoken, default=active or now)
    return created, active or max(spoken, default=created)


def _parse_state(fields: Fields, skipped: Counter[str]) -> SessionStatus:
    field, value = fields.find(*_STATE)
    with error_location(field):
        if isinstance(value, str) and value[0] in '"{':
            value = _parse_nested(value)
        if isinstance(value, Mapping):
            word = _find_state_word(value)
            if word is None and value:
                skipped[f"session field {field!r}"] += 1
            value = word
        if value is None:
            return SessionStatus.ACTIVE
        if not isinstance(value, str) or _normalize(value) not in _STATES:
            raise InvalidInput(f"must be one of {', '.join(_STATES)}; not {value!r}")
        return _STATES[_normalize(value)]


def _find_state_word(value: Mapping[str, Any]) -> object:
    """``{"state": "Active"}``, or ``{"AwaitingPermission": {…}}``; None when the object is about something else."""
    if "state" in value:
        return value["state"]
    return next((name for name in value if len(value) == 1 and _normalize(name) in _STATES), None)


def _parse_nested(text: str) -> object:
    try:
        value: object = parse_json_file(text.encode())
    except ValueError as error:
        raise InvalidInput(f"the text is not JSON: {error}") from None
    return value


def _normalize(word: str) -> str:
    return word.casefold().replace("_", "").replace("-", "").replace(" ", "")


def _parse_summary(fields: Fields) -> str | None:
    _, value = fields.find("summary")
    if isinstance(value, Mapping):
        _, value = Fields(value).find("text", "summary", "content")
    return check_text(value, "summary") or None if value is not None else None


def read_messages(session: Fields, skipped: Counter[str]) -> tuple[Message, ...]:
    """In the order of their sequence numbers where they have them, else as listed. A message may be without a time."""
    found = []
    for position, value in enumerate(session.items(*_MESSAGES)):
        with error_location(f"messages[{position}]"):
            fields = _unwrap_tag(Fields.of(value))
            skipped.update(f"message field {name!r}" for name in fields.values.keys() - _MESSAGE_FIELDS)
            found.append((_parse_sequence(fields), _parse_message(fields)))
    return _sort_messages(found)


def fill_missing_times(messages: Sequence[Message], moment: datetime) -> tuple[Message, ...]:
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
        is_error=fields.values.get("is_error") or False,
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
    with error_location("arguments"):
        value = _parse_nested(value) if isinstance(value, str) else value
        if value is not None and not isinstance(value, dict):
            raise InvalidInput(f"must be an object, not {json_type_name(value)}")
    return value or {}


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
