"""The tools of a model, for programs that call a model themselves."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypedDict

from limpet.api import parameters as given
from limpet.model.constraints import Choice
from limpet.model.types import Metadata
from limpet.server.auth import Caller
from limpet.server.route import Routes
from limpet.tools import TOOLS, Toolbox

routes = Routes()


class ToolSchemas(TypedDict):
    tools: Annotated[list[dict[str, Any]], "for a request to the provider, as they are"]


class ToolOutcome(TypedDict):
    text: Annotated[str, "for the model"]
    data: Annotated[dict[str, Any] | None, "the same as JSON; null: it is an error"]
    is_error: Annotated[bool, "whether the text tells the model what went wrong"]


@routes.add("GET /v1/tools")
def list_tools(
    who: Caller, /, *, form: Annotated[Literal["openai", "anthropic"], "whose format the schemas have"] = "openai"
) -> ToolSchemas:
    """The tools, as a model's provider wants them"""
    box = Toolbox(who.memory, who.user or "nobody")
    return {"tools": box.openai() if form == "openai" else box.anthropic()}


@routes.add("POST /v1/tools/{tool}")
def call_tool(
    who: Caller,
    /,
    tool: Annotated[str, Choice(tuple(TOOLS)), "which one"],
    *,
    arguments: Annotated[Metadata, "as the model gave them"] = {},  # noqa: B006 - never changed
    user: given.User | None = None,
    session: Annotated[given.SessionId, "the session the model is in"] | None = None,
) -> ToolOutcome:
    """Do what a model asked for"""
    box = Toolbox(who.memory, who.resolve_user(user), session=session, agent=who.agent)
    outcome = box.call(tool, arguments)
    data = None if outcome.data is None else dict(outcome.data)
    return {"text": outcome.text, "data": data, "is_error": outcome.is_error}
