"""What a tool is: what a model may call, with its arguments and its result."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from limpet import Limpet
from limpet.model.constraints import Codec
from limpet.model.dataclass import dataclass
from limpet.model.schema import codec
from limpet.providers.schema import Schema

A = TypeVar("A")
R = TypeVar("R")


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


@dataclass(frozen=True, slots=True)
class ToolDefinition(Generic[A, R]):
    name: str
    title: str
    doc: str  # for a model: what it does, and when to use it
    takes: type[A] | Codec
    gives: type[R] | Codec
    run: Callable[[ToolContext, A], R]
    reads_only: bool = False
    destroys: bool = False  # what it takes away does not come back
    repeatable: bool = False  # a second call with the same arguments changes nothing more

    @property
    def input(self) -> Codec:
        return self.takes if isinstance(self.takes, Codec) else codec(self.takes)

    @property
    def output(self) -> Codec:
        return self.gives if isinstance(self.gives, Codec) else codec(self.gives)

    @property
    def arguments(self) -> Schema:
        return self.input.schema(None, "tool")

    @property
    def result(self) -> Schema:
        return self.output.schema(None, "output")


AnyTool = ToolDefinition[Any, Any]
