"""A model with tools: what it calls is done, and it is asked again, until it answers in words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from limpet.model.message import Message
from limpet.providers.llm import Completion, LlmRequest, TokenUsage, ToolSpec

if TYPE_CHECKING:
    from limpet import Limpet, Session, Turn
    from limpet.model.message import ToolCall
    from limpet.tools import Toolbox

_MOST_ROUNDS = 6  # in which tools are called, before words are wanted
_SMALL_WINDOW = 8192  # in tokens: the tools would take too much of it

Ask = Callable[[LlmRequest], Completion]


def open_toolbox(memory: Limpet, session: Session, window: int | None) -> Toolbox | None:
    """The tools on the session's user; None where the agent has no memory, or the model too small a window."""
    if not memory.config.memory.enabled or (window is not None and window < _SMALL_WINDOW):
        return None
    from limpet.tools import Toolbox  # late: not every chat has a model

    return Toolbox(memory, session.user, session=session.id, agent=session.agent)


def ask_with_tools(
    ask: Ask, request: LlmRequest, box: Toolbox | None, turn: Turn, note: Callable[[str], object] = lambda _: None
) -> Completion:
    """The answer in words, with the usage of all rounds. Calls and results are kept with the turn's reply."""
    specs = () if box is None else tuple(ToolSpec(tool.name, tool.doc, tool.arguments) for tool in box.tools)
    usage, number, left = TokenUsage(cost=0.0), 0, _MOST_ROUNDS
    while True:
        whole = ask(replace(request, tools=specs if left else ()))
        usage = usage + whole.usage
        if box is None or not whole.tool_calls or not left:
            return replace(whole, usage=usage, tool_calls=())
        left -= 1
        calls = tuple(
            call if call.id else replace(call, id=f"call_{number + place}")
            for place, call in enumerate(whole.tool_calls)
        )
        number += len(calls)
        said = [_add_call(turn, whole.text, calls), *(_add_result(turn, box, call, note) for call in calls)]
        request = replace(request, messages=(*request.messages, *said))


def _add_call(turn: Turn, text: str, calls: tuple[ToolCall, ...]) -> Message:
    turn.add("assistant", text, tool_calls=calls)
    return Message.new("assistant", text, tool_calls=calls)


def _add_result(turn: Turn, box: Toolbox, call: ToolCall, note: Callable[[str], object]) -> Message:
    done = box.call(call.name, call.arguments)
    note(f"({call.name}{' failed' if done.is_error else ''})")
    turn.add("tool", done.text, name=call.name, tool_call_id=call.id, is_error=done.is_error)
    return Message.new("tool", done.text, name=call.name, tool_call_id=call.id, is_error=done.is_error)
