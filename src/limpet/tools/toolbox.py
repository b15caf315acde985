"""The tools of one user, for a program that calls a model itself."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from limpet import Limpet
from limpet.errors import InvalidInput, LimpetError
from limpet.model.dataclass import dataclass
from limpet.security.operation import OPERATIONS
from limpet.tools.tool import SHAPED, ToolContext, ToolDefinition, derive_tool


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
        raise InvalidInput(f"the arguments are no JSON: {error}") from None
