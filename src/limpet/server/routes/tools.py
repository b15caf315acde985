"""The tools of a model, for programs that call a model themselves."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypedDict

from pydantic import Field

from limpet.server.auth import Caller
from limpet.server.operation import Operations
from limpet.server.params import Arguments, Body, Id, Query, User
from limpet.tools import Toolbox

operations = Operations("tools")


class ToolSchemas(TypedDict):
    tools: Annotated[list[dict[str, Any]], "for a request to the provider, as they are"]


class Outcome(TypedDict):
    text: Annotated[str, "for the model"]
    data: Annotated[dict[str, Any] | None, "the same as JSON; null: it is an error"]
    is_error: Annotated[bool, "whether the text tells the model what went wrong"]


class ToolsQuery(Query):
    form: Annotated[Literal["openai", "anthropic"], Field(description="whose shape the schemas have")] = "openai"


class CallTool(Body):
    arguments: Annotated[Arguments, Field(description="as the model gave them")] = Field(default_factory=dict)
    user: User | None = None
    session: Annotated[Id | None, Field(description="the session the model is in")] = None


@operations.get("/v1/tools")
def list_tools(who: Caller, query: ToolsQuery) -> ToolSchemas:
    """The tools, as a model's provider wants them"""
    box = Toolbox(who.hf, who.user or "nobody")
    return {"tools": box.openai() if query.form == "openai" else box.anthropic()}


@operations.post("/v1/tools/{tool}")
def call_tool(who: Caller, tool: str, body: CallTool) -> Outcome:
    """Do what a model asked for"""
    outcome = Toolbox(who.hf, who.resolve_user(body.user), session=body.session, agent=who.agent).call(
        tool, body.arguments
    )
    return {
        "text": outcome.text,
        "data": None if outcome.data is None else dict(outcome.data),
        "is_error": outcome.is_error,
    }
