"""A message: one entry of a session. And where a conversation of them can be cut."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, fields
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal, Union

from limpet.errors import InvalidInput
from limpet.model import constraints as limits
from limpet.model.columns import NULL_IF_EMPTY, Encrypted, Stored
from limpet.model.constraints import REFERENCE, Codec, Definitions, Mode
from limpet.model.containers import JsonObject
from limpet.model.dataclass import dataclass, replace
from limpet.model.schema import OMIT_FALSE, JsonName, codec, to_json
from limpet.model.tokens import estimate_tokens
from limpet.model.types import Metadata, Moment, Name
from limpet.model.values import (
    MAX_CONTENT_BYTES,
    check_choice,
    check_flag,
    check_json,
    check_metadata,
    check_optional_name,
    check_text,
    check_time,
    short_repr,
    take_at_most,
)

MAX_PARTS = 1_000


class Role(StrEnum):
    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


@dataclass(frozen=True, slots=True)
class TextPart:
    text: Annotated[str, "what it says"]
    kind: Annotated[Literal["text"], JsonName("type"), "the kind of part"] = "text"


@dataclass(frozen=True, slots=True)
class ImagePart:
    """An image by reference: a URL, a path or a data URI."""

    uri: Annotated[str, "where it is"]
    media_type: Annotated[str | None, "such as image/png; null: unknown"] = None
    alt: Annotated[str, "what it shows"] = ""
    kind: Annotated[Literal["image"], JsonName("type"), "the kind of part"] = "image"


@dataclass(frozen=True, slots=True)
class FilePart:
    uri: Annotated[str, "where it is"]
    media_type: Annotated[str | None, "such as application/pdf; null: unknown"] = None
    name: Annotated[str, "name of the file"] = ""
    kind: Annotated[Literal["file"], JsonName("type"), "the kind of part"] = "file"


Part = Union[TextPart, ImagePart, FilePart]
Content = Union[str, Sequence[Union[Part, Mapping[str, Any]]]]


class ContentCodec(Codec):
    """What a message says: text, or a list of parts."""

    def accepts(self, value: object) -> bool:
        return isinstance(value, (str, list, tuple))

    def check(self, value: Any, name: str) -> str | tuple[Part, ...]:
        return check_content(value)

    def write(self, value: str | tuple[Part, ...]) -> str | list[dict[str, Any]]:
        return value if isinstance(value, str) else [part_to_json(part) for part in value]

    def schema(self, definitions: Definitions | None = None, mode: Mode = "input") -> dict[str, Any]:
        if mode != "input":
            kinds = [codec(kind).schema(definitions, mode) for kind in (TextPart, ImagePart, FilePart)]
            return {"anyOf": [{"type": "string"}, {"type": "array", "items": {"anyOf": kinds}}]}
        kinds = [_describe_part(kind, definitions) for kind in (TextPart, ImagePart, FilePart)]
        return {"anyOf": [limits.Text().schema(), {"type": "array", "items": {"anyOf": kinds}, "maxItems": MAX_PARTS}]}


def _describe_part(kind: Any, definitions: Definitions | None) -> dict[str, Any]:
    """A part that somebody gives says of which kind it is, and where what it links to is."""
    whole = codec(kind).schema(None, "input")
    properties = dict(whole["properties"])
    if "uri" in properties:
        properties["uri"] = {**properties["uri"], "minLength": 1}
    kinds = {"description": "the kind of part", "const": kind.__dataclass_fields__["kind"].default}
    properties["type"] = kinds
    whole |= {"properties": properties, "required": [*whole.get("required", ()), "type"]}
    if definitions is None:
        return whole
    definitions[kind.__name__] = whole
    return {"$ref": REFERENCE.format(kind.__name__)}


Arguments = Annotated[Mapping[str, Any], JsonObject(MAX_CONTENT_BYTES)]


def _split_content(content: str | tuple[Part, ...]) -> tuple[str, str | None]:
    """Text has a column of its own; parts are JSON beside it."""
    if isinstance(content, str):
        return content, None
    return "", json.dumps([part_to_json(part) for part in content], ensure_ascii=False, separators=(",", ":"))


def _join_content(content: str, parts: str | None) -> str | tuple[Part, ...]:
    return content if parts is None else tuple(part_from_json(part) for part in json.loads(parts))


_CONTENT_COLUMNS = Stored(("content", "parts"), _split_content, _join_content, "text")
Body = Annotated[Union[str, tuple[Part, ...]], ContentCodec()]


class ToolCallsCodec(Codec):
    """What the assistant asks tools to do: a list of tool calls, or of mappings."""

    def accepts(self, value: object) -> bool:
        return isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping))

    def check(self, value: Any, name: str) -> tuple[ToolCall, ...]:
        return _check_calls(value)

    def write(self, value: Iterable[ToolCall]) -> list[dict[str, Any]]:
        return [to_json(call) for call in value]

    def schema(self, definitions: Definitions | None = None, mode: Mode = "input") -> dict[str, Any]:
        if mode != "input":
            return {"type": "array", "items": codec(ToolCall).schema(definitions, mode)}
        arguments = JsonObject().schema(definitions, mode)
        properties = {
            "id": {**limits.Text(1024).schema(), "description": "what the result refers to"},
            "name": {**limits.Text(1024, blank=False).schema(), "description": "name of the tool"},
            "arguments": {
                "anyOf": [arguments, {"type": "null"}],
                "description": "the arguments, as the model gave them",
            },
        }
        entry = {"type": "object", "properties": properties, "required": ["name"], "additionalProperties": False}
        return {"type": "array", "items": entry, "maxItems": MAX_PARTS}


@dataclass(frozen=True, slots=True)
class ToolCall:
    id: Annotated[str, limits.Text(1024), "the id that a result refers to; empty: none was given"]
    name: Annotated[str, limits.Text(1024, blank=False), "name of the tool"]
    arguments: Annotated[Arguments, "the arguments, as the model gave them"] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Message:
    """``sequence`` is 0 until the store has given the message its number."""

    role: Annotated[Role, "who speaks"]
    content: Annotated[Body, _CONTENT_COLUMNS, "text, or parts: text, image, file"]
    name: Annotated[Name | None, "the speaker's name; null: none was given"] = None
    tool_calls: Annotated[tuple[ToolCall, ...], NULL_IF_EMPTY, "what the assistant asks tools to do"] = ()
    tool_call_id: Annotated[Name | None, "of a tool's result: the call it answers"] = None
    is_error: Annotated[bool, OMIT_FALSE, "whether a tool's result is an error"] = False
    metadata: Annotated[Metadata, NULL_IF_EMPTY, "any JSON of the program's own"] = field(default_factory=dict)
    created_at: Annotated[Moment | None, "when it was said; by default, when it was stored"] = None
    sequence: Annotated[int, "its number in the session; only increases, with gaps; 0: not stored yet"] = 0
    idempotency_key: Annotated[Name | None, Encrypted("same"), "its idempotency key; null: none"] = None
    tokens: Annotated[int, "its estimated length in tokens"] = 0

    @classmethod
    def new(
        cls,
        role: str,
        content: Content,
        *,
        name: str | None = None,
        tool_calls: Iterable[ToolCall | Mapping[str, Any]] = (),
        tool_call_id: str | None = None,
        is_error: bool = False,
        metadata: Mapping[str, Any] | None = None,
        created_at: datetime | None = None,
        sequence: int | None = None,
        idempotency_key: str | None = None,
    ) -> Message:
        """Check and normalise everything a caller may give. Raises InvalidInput; stores nothing."""
        return cls.from_checked(
            check_choice(Role, role, "role"),
            check_content(content),
            check_optional_name(name, "name"),
            _check_calls(tool_calls),
            check_optional_name(tool_call_id, "tool_call_id"),
            check_flag(is_error, "is_error"),
            check_metadata(metadata) if metadata else {},
            None if created_at is None else check_time(created_at, "created_at"),
            None if sequence is None else _check_sequence(sequence),
            check_optional_name(idempotency_key, "idempotency_key"),
        )

    @classmethod
    def from_checked(
        cls,
        role: Any,
        content: Any,
        name: str | None = None,
        tool_calls: Any = (),
        tool_call_id: str | None = None,
        is_error: bool = False,
        metadata: Mapping[str, Any] | None = None,
        created_at: datetime | None = None,
        sequence: int | None = None,
        idempotency_key: str | None = None,
    ) -> Message:
        """A new message of values that were checked, such as the arguments of an operation."""
        return cls(
            role,
            content,
            name,
            tool_calls,
            tool_call_id,
            is_error,
            metadata or {},
            created_at,
            sequence or 0,
            idempotency_key,
            estimate_tokens(_searchable_text(content, tool_calls)),
        )

    @classmethod
    def validate(cls, message: object) -> Message:
        """A message somebody made without ``new``, checked as if it had been."""
        if not isinstance(message, Message):
            raise InvalidInput(f"extend takes messages made with Message.new, not {type(message).__name__}")
        given = {each.name: getattr(message, each.name) for each in fields(cls) if each.name != "tokens"}
        return cls.new(**given | {"sequence": message.sequence or None})

    def with_sequence(self, sequence: int, created_at: datetime) -> Message:
        return replace(self, sequence=sequence, created_at=created_at)

    def has_same_content(self, given: Message) -> bool:
        """Whether this tells the same, whatever is noted beside it."""
        return _content_fields(self) == _content_fields(given)

    def is_duplicate_of(self, given: Message) -> bool:
        """Whether this is what was kept of it; where a caller gives no time, it has the store's."""
        same = self.has_same_content(given) and self.metadata == given.metadata
        return same and given.created_at in (None, self.created_at)

    @property
    def text(self) -> str:
        """The words of the message, with references in Markdown."""
        return _text(self.content)

    @property
    def searchable(self) -> str:
        """What search sees: the text, then each tool call's name and arguments."""
        return _searchable_text(self.content, self.tool_calls)


def _content_fields(message: Message) -> tuple[object, ...]:
    return (message.role, message.content, message.name, message.tool_calls, message.tool_call_id, message.is_error)


def _text(content: str | tuple[Part, ...]) -> str:
    return content if isinstance(content, str) else "\n".join(filter(None, map(part_text, content)))


def _searchable_text(content: str | tuple[Part, ...], calls: tuple[ToolCall, ...]) -> str:
    if not calls:
        return _text(content)
    described = (f"{call.name} {json.dumps(dict(call.arguments), ensure_ascii=False)}" for call in calls)
    return "\n".join(filter(None, (_text(content), *described)))


def part_text(part: Part) -> str:
    match part:
        case TextPart(text=text):
            return text
        case ImagePart(uri=uri, alt=alt):
            return f"![{alt}]({_shorten_uri(uri)})"
        case FilePart(uri=uri, name=name):
            return f"[{name}]({_shorten_uri(uri)})"


def _shorten_uri(uri: str) -> str:
    """A data URI is kept in the part, but it is not readable text."""
    return uri.split(",", 1)[0] if uri.startswith("data:") else uri


def check_content(content: object) -> str | tuple[Part, ...]:
    if isinstance(content, str):
        return check_text(content, "content")
    if not isinstance(content, Iterable) or isinstance(content, (bytes, Mapping)):
        raise InvalidInput(f"content must be text or a list of parts, not {type(content).__name__}")
    return tuple(_check_part(part) for part in take_at_most(MAX_PARTS, content, "content has too many parts"))


def _check_part(part: object) -> Part:
    if isinstance(part, Mapping):
        part = part_from_json(part)
    if isinstance(part, TextPart):
        check_text(part.text, "a text part")
    elif isinstance(part, (ImagePart, FilePart)):
        check_text(part.uri, f"the uri of {part.kind} part", max_bytes=MAX_CONTENT_BYTES)
        for extra in (part.media_type or "", part.alt if isinstance(part, ImagePart) else part.name):
            check_text(extra, f"a field of {part.kind} part", max_bytes=4096)
        if not part.uri:
            raise InvalidInput(f"the uri of a part of kind {part.kind} is empty")
    else:
        raise InvalidInput(f"a part must be TextPart, ImagePart or FilePart, not {type(part).__name__}")
    return part


def part_to_json(part: Part) -> dict[str, Any]:
    written = to_json(part)
    return {"type": written.pop("type"), **written}


def part_from_json(value: Mapping[str, Any]) -> Part:
    match value.get("type"):
        case "text":
            return TextPart(value.get("text", ""))
        case "image":
            return ImagePart(value.get("uri", ""), value.get("media_type"), value.get("alt") or "")
        case "file":
            return FilePart(value.get("uri", ""), value.get("media_type"), value.get("name") or "")
        case other:
            raise InvalidInput(f"a part's type is text, image or file, not {short_repr(other)}")


def _check_sequence(sequence: object) -> int:
    if isinstance(sequence, bool) or not isinstance(sequence, int):
        raise InvalidInput(f"sequence must be a whole number, not {type(sequence).__name__}")
    if not 1 <= sequence < 2**62:
        raise InvalidInput(f"sequence must be between 1 and 2**62, not {short_repr(sequence)}")
    return sequence


def _check_calls(calls: object) -> tuple[ToolCall, ...]:
    if not isinstance(calls, Iterable) or isinstance(calls, (str, bytes, Mapping)):
        raise InvalidInput(f"tool_calls must be a list of tool calls, not {type(calls).__name__}")
    return tuple(_check_call(call) for call in take_at_most(MAX_PARTS, calls, "there are too many tool calls"))


def _check_call(call: object) -> ToolCall:
    if isinstance(call, Mapping):
        unknown = set(call) - {"id", "name", "arguments"}
        if unknown:
            raise InvalidInput(f"a tool call has id, name and arguments; not {', '.join(sorted(map(str, unknown)))}")
        given = call.get("arguments")
        call = ToolCall(call.get("id", ""), call.get("name", ""), {} if given is None else given)
    if not isinstance(call, ToolCall):
        raise InvalidInput(f"a tool call must be ToolCall or a mapping, not {type(call).__name__}")
    check_text(call.id, "a tool call's id", max_bytes=1024)
    check_text(call.name, "a tool call's name", max_bytes=1024)
    if not call.name:
        raise InvalidInput("a tool call needs a name")
    if not isinstance(call.arguments, Mapping):
        raise InvalidInput(f"a tool call's arguments must be a mapping, not {type(call.arguments).__name__}")
    # A copy, and as it will be read back: what the caller does to its own afterwards is not what was said.
    arguments = check_json(dict(call.arguments), "a tool call's arguments", max_bytes=MAX_CONTENT_BYTES)
    return ToolCall(call.id, call.name, json.loads(arguments))


# Positions of messages that must stay together: a message alone, or tool calls with their results.
Step = list[int]
Cost = Callable[[Message], int]


def message_tokens(message: Message) -> int:
    return message.tokens


def fit_history(
    history: Sequence[Message], max_tokens: int, max_messages: int | None = None, cost: Cost = message_tokens
) -> list[Message]:
    """Whole turns from the end while they fit; when not even the last one does, its user message and newest steps."""
    turns = group_turns(history)
    room = HistoryBudget(history, max_tokens, max_messages, cost)
    kept: list[Step] = []
    for turn in reversed(turns):
        if not room.take(turn):
            break
        kept += turn
    if turns and not kept:
        kept = _fit_last_turn(history, turns[-1], room)
    return [history[at] for at in sorted(at for step in kept for at in step)]


class HistoryBudget:
    """What is left of a budget."""

    def __init__(
        self, history: Sequence[Message], tokens: int, messages: int | None, cost: Cost = message_tokens
    ) -> None:
        self._history = history
        self._cost = cost
        self._tokens = tokens
        self._messages = len(history) if messages is None else messages

    def take(self, steps: Sequence[Step], *, always: bool = False) -> bool:
        tokens = sum(self._cost(self._history[at]) for step in steps for at in step)
        messages = sum(map(len, steps))
        if not always and (tokens > self._tokens or messages > self._messages):
            return False
        self._tokens -= tokens
        self._messages -= messages
        return True


def _fit_last_turn(history: Sequence[Message], turn: Sequence[Step], room: HistoryBudget) -> list[Step]:
    kept: list[Step] = []
    if history[turn[0][0]].role is Role.USER:
        opening, *turn = turn
        room.take([opening], always=True)
        kept.append(opening)
    for step in reversed(turn):
        if not room.take([step]):
            break
        kept.append(step)
    return kept


def find_cuts(history: Sequence[Message]) -> list[int]:
    """How many of the oldest messages can be told apart from the rest: whole steps, and none that may still go on.

    A call of the newest turn whose result is not there yet may get it with the next message.
    """
    steps = group_steps(history)
    inside = {at for step in steps for at in range(step[0] + 1, step[-1] + 1)}
    newest = max((at for at, message in enumerate(history) if message.role is Role.USER), default=0)
    waiting = (step[0] for step in steps if step[-1] >= newest and len(history[step[0]].tool_calls) > len(step) - 1)
    end = min(waiting, default=len(history))
    return [at for at in range(1, end + 1) if at not in inside]


def is_turn_start(history: Sequence[Message], at: int) -> bool:
    return at >= len(history) or history[at].role is Role.USER


def group_turns(history: Sequence[Message]) -> list[list[Step]]:
    """A turn begins at each user message; what stands before the first is one too."""
    turns: list[list[Step]] = []
    for step in group_steps(history):
        if history[step[0]].role is Role.USER or not turns:
            turns.append([])
        turns[-1].append(step)
    return turns


def group_steps(history: Sequence[Message]) -> list[Step]:
    """A result belongs to its call, also when the user spoke in between. One whose call is gone is left out."""
    steps: list[Step] = []
    calling: dict[str | None, Step] = {}
    for at, message in enumerate(history):
        if message.role is Role.TOOL:
            if (step := calling.get(message.tool_call_id)) is not None:
                step.append(at)
            continue
        steps.append([at])
        if message.tool_calls:
            # A result that names no call belongs to the latest one.
            calling |= dict.fromkeys((None, *(call.id for call in message.tool_calls)), steps[-1])
    return steps
