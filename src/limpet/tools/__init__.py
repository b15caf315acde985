"""What a model may call, defined once: for tool schemas of OpenAI and Anthropic, for MCP and for HTTP."""

from limpet.tools.tool import Tool, Whose
from limpet.tools.toolbox import TOOLS, Outcome, Toolbox, named

__all__ = ["TOOLS", "Outcome", "Tool", "Toolbox", "Whose", "named"]
