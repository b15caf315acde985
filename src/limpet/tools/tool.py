"""What a tool is, and the tools of one user for a program that calls a model itself.

A function with ``@tool`` is one in a shape of its own for a model. Any other operation that names a tool in the table
becomes one as it is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, TypeVar, get_type_hints

from limpet import Limpet
from limpet.api.wire import Answer, get_arguments, invoke, make_answer
from limpet.errors import InvalidInput, LimpetError
from limpet.model.constraints import Codec, Definitions, Mode
from limpet.model.dataclass import dataclass
from limpet.model.late import lazy_property
from limpet.model.schema import ObjectCodec, codec, fields_of_call
from limpet.providers.schema import Schema
from limpet.security.operation import OPERATIONS

F = TypeVar("F", bound=Callable[..., Any])

_OWNERS = ("user", "agent", "session", "scope", "session_id", "idempotency_key")


@dataclass(frozen=True, slots=True)
class ToolContext:
    """Whose memory a tool works on. A model cannot name another user: it is never asked who it is."""

    memory: Limpet
    user: str
    session: str | None = None
    agent: str | None = None
    caller: str = ""  # what let them in, such as the id of an API key: nobody else continues what it began

    @property
    def identity(self) -> str:
        """The same for the same caller only: store, tenant, who acts, and for whom."""
        return json.dumps([self.caller, repr(self.memory), self.user, self.session, self.agent])


@dataclass(frozen=True)
class ToolDefinition:
    name: str
    title: str
    doc: str  # for a model: what it does, and when to use it
    input: Codec
    output: Codec
    run: Callable[..., Any]  # with the context, and the arguments by name
    reads_only: bool = False
    destroys: bool = False  # what it takes away does not come back
    repeatable: bool = False  # a second call with the same arguments changes nothing more

    @lazy_property
    def arguments(self) -> Schema:
        return self.input.schema(None, "tool")

    @lazy_property
    def result(self) -> Schema:
        return self.output.schema(None, "output")


SHAPED: dict[str, ToolDefinition] = {}  # the functions with @tool, by the tool's name


def tool(name: str, title: str, doc: str, **flags: bool) -> Callable[[F], F]:
    """Make a tool of a function. Its arguments behind the context are the model's; its types are the JSON Schema."""

    def decorate(function: F) -> F:
        hints = get_type_hints(function, include_extras=True)
        fields = fields_of_call(function, hints, skip=1)
        arguments = ObjectCodec(name, lambda: fields)
        SHAPED[name] = ToolDefinition(name, title, doc, arguments, codec(hints["return"]), function, **flags)
        return function

    return decorate


@cache
def derive_tool(name: str) -> ToolDefinition:
    """A tool made from an operation alone, without the arguments that say whose memory it is."""
    operation = OPERATIONS[name]
    fields = [each for each in get_arguments(operation) if each.name not in _OWNERS]
    answer = _AnswerCodec(make_answer(operation.returns, operation.answer), operation.name)

    def run(whose: ToolContext, **arguments: Any) -> Any:
        named = {"user": whose.user, "session_id": whose.session}
        owner = {key: value for key, value in named.items() if key in operation.arguments and value is not None}
        return invoke(whose.memory, operation, {**owner, **arguments})

    return ToolDefinition(
        operation.tool,
        operation.summary.rstrip("."),
        operation.doc,
        ObjectCodec(operation.tool, lambda: fields),
        answer,
        run,
        reads_only=not operation.writes,
        destroys=operation.audited,
    )


class _AnswerCodec(Codec):
    """What the operation returns, as HTTP would answer it."""

    def __init__(self, answer: Answer, name: str) -> None:
        self._answer, self._name = answer, name

    def write(self, value: Any) -> Any:
        return self._answer.write(value, {})

    def schema(self, definitions: Definitions | None = None, mode: Mode = "output") -> dict[str, Any]:
        return self._answer.schema(self._name, definitions)


class _ToolTable(Mapping[str, ToolDefinition]):
    """Every tool that the operation table names: those with a shape of their own for a model, and the others."""

    def __getitem__(self, name: str) -> ToolDefinition:
        return self._read()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())

    def _read(self) -> dict[str, ToolDefinition]:
        others = {each.tool: each.name for each in OPERATIONS.values() if each.tool and each.tool not in SHAPED}
        return {**SHAPED, **{tool: derive_tool(name) for tool, name in others.items()}}


TOOLS: Mapping[str, ToolDefinition] = _ToolTable()


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool came to. ``text`` is for the model; ``data`` is the same as typed JSON, None for an error."""

    text: str
    data: Mapping[str, Any] | None = None

    @property
    def is_error(self) -> bool:
        return self.data is None


class Toolbox:
    """``openai()`` or ``anthropic()`` goes into the call of the model, ``call`` answers what it asks for."""

    def __init__(
        self,
        memory: Limpet,
        user: str,
        *,
        session: str | None = None,
        agent: str | None = None,
        only: Iterable[str] | None = None,
    ) -> None:
        self._whose = ToolContext(memory, user, session, agent)
        self.tools = [get_tool(name) for name in only] if only is not None else list(TOOLS.values())

    def openai(self) -> list[dict[str, Any]]:
        """For ``tools=`` of a chat completion."""
        return [
            {
                "type": "function",
                "function": {"name": tool.name, "description": tool.doc, "parameters": dict(tool.arguments)},
            }
            for tool in self.tools
        ]

    def anthropic(self) -> list[dict[str, Any]]:
        """For ``tools=`` of a message."""
        return [
            {"name": tool.name, "description": tool.doc, "input_schema": dict(tool.arguments)} for tool in self.tools
        ]

    def call(self, name: str, arguments: str | Mapping[str, Any]) -> ToolResult:
        """Arguments as the model gave them, JSON text included. What is wrong with them is told to the model."""
        try:
            tool = next((each for each in self.tools if each.name == name), None)
            if tool is None:
                raise InvalidInput(f"there is no tool {name}; there are {', '.join(each.name for each in self.tools)}")
            given = tool.input.read(_parse_arguments(arguments), "")
            data = tool.output.write(tool.run(self._whose, **given))
        except LimpetError as error:
            return ToolResult(f"{error.code}: {error}")
        return ToolResult(json.dumps(data, ensure_ascii=False, separators=(",", ":")), data)


def get_tool(name: str) -> ToolDefinition:
    try:
        return TOOLS[name]
    except KeyError:
        raise InvalidInput(f"there is no tool {name}; there are {', '.join(TOOLS)}") from None


def _parse_arguments(arguments: str | Mapping[str, Any]) -> object:
    if not isinstance(arguments, str):
        return arguments
    try:
        return json.loads(arguments or "{}")
    except (json.JSONDecodeError, RecursionError) as error:
        raise InvalidInput(f"the arguments are not JSON: {error}") from None
