"""A tool made from an operation alone: for those that need no shape of their own for a model."""

from __future__ import annotations

from functools import cache
from typing import Any

from limpet.api.wire import Answer, get_arguments, invoke, make_answer
from limpet.model.constraints import Codec, Definitions, Mode
from limpet.model.schema import ObjectCodec
from limpet.security.operation import OPERATIONS, Operation
from limpet.tools.tool import AnyTool, ToolContext, ToolDefinition

_OWNERS = ("user", "agent", "session", "scope", "session_id", "idempotency_key")


@cache
def derive_tool(name: str) -> AnyTool:
    """Its arguments without those that say whose memory it is: a model works on one user's."""
    operation = OPERATIONS[name]
    fields = [each for each in get_arguments(operation) if each.name not in _OWNERS]
    answer = make_answer(operation.returns, operation.answer)

    def run(whose: ToolContext, arguments: dict[str, Any]) -> Any:
        return invoke(whose.memory, operation, {**_get_owner(operation, whose), **arguments})

    return ToolDefinition(
        operation.tool,
        operation.summary.rstrip("."),
        operation.doc,
        ObjectCodec(operation.tool, lambda: fields),
        _AnswerCodec(answer, operation.name),
        run,
        reads_only=not operation.writes,
        destroys=operation.audited,
    )


def _get_owner(operation: Operation, whose: ToolContext) -> dict[str, Any]:
    named = {"user": whose.user, "session_id": whose.session}
    return {key: value for key, value in named.items() if key in operation.arguments and value is not None}


class _AnswerCodec(Codec):
    """What the operation returns, as HTTP would answer it."""

    __slots__ = ("_answer", "_name")

    def __init__(self, answer: Answer, name: str) -> None:
        self._answer, self._name = answer, name

    def write(self, value: Any) -> Any:
        return self._answer.write(value, {})

    def schema(self, definitions: Definitions | None = None, mode: Mode = "output") -> dict[str, Any]:
        return self._answer.schema(self._name, definitions)
