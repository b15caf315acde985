"""What a model may call, defined once: for tool schemas of OpenAI and Anthropic, for MCP and for HTTP."""

from limpet.tools import memory, schedules  # noqa: F401 - each of their functions is a tool
from limpet.tools.tool import TOOLS, Toolbox, ToolContext, ToolDefinition, ToolResult, get_tool

__all__ = ["TOOLS", "ToolContext", "ToolDefinition", "ToolResult", "Toolbox", "get_tool"]
