"""What ``limpet worker --schedules`` does with a goal: it asks the model of the chat, with the user's memory."""

from __future__ import annotations

from collections.abc import Callable, MutableSequence
from typing import TYPE_CHECKING, Any

from limpet.cli import show
from limpet.cli.chat.loop import Limits, to_usage
from limpet.cli.chat.prompt import build_messages
from limpet.cli.chat.tool_use import ask_with_tools, open_toolbox
from limpet.errors import ProviderError
from limpet.model.schedule import NOTIFY_MARK, NotifyPolicy

if TYPE_CHECKING:
    from limpet import Firing, Limpet, Notification, RunResult

CHANNEL = "schedule"  # each schedule has a conversation of its own there
NO_LLM = (
    "schedules wait: there is no language model to hand them to; name one in the setting llm.model, or run them from"
    " a program with memory.schedules.run"
)
_TASK_PROMPT = "This is a scheduled task. Nobody is there to answer questions: do it, and say what came of it."
_NOTIFY_PROMPT = f"If, and only if, the user needs to hear of it now, begin your answer with {NOTIFY_MARK}."


def has_llm(memory: Limpet) -> bool:
    from limpet.api.runtime import select_llm

    return select_llm(None, memory.config) is not None


def run_turn(firing: Firing) -> RunResult:
    """One turn of the schedule's own conversation."""
    from limpet.api.runtime import limit_llm, select_llm
    from limpet.model.schedule import RunResult
    from limpet.providers.llm import LlmRequest, TelemetryLlm

    memory, schedule = firing.memory, firing.schedule
    llm = select_llm(None, memory.config)
    if llm is None:
        raise ProviderError(NO_LLM)
    view = memory._view  # noqa: SLF001 - observers hear of this request, and it counts
    llm = TelemetryLlm(llm, view.agents.observers)
    llm = limit_llm(llm, memory.config, view.runtime.store, view.runtime.clock) or llm
    session = memory.session(CHANNEL, schedule.id, user=schedule.user, agent=schedule.agent)
    wishes = [_TASK_PROMPT, *([_NOTIFY_PROMPT] if schedule.notify is NotifyPolicy.CONDITIONAL else [])]
    limits = Limits.of(memory.config, None, None)
    asked = f"{' '.join(wishes)}\n\n{schedule.goal}"
    with session.turn(asked, max_tokens=limits.max_tokens, model_window=limits.model_window) as held:
        request = LlmRequest(build_messages(held.context), max_tokens=limits.reply, timeout=memory.config.llm.timeout_s)
        box = open_toolbox(memory, session, limits.window)
        whole = ask_with_tools(llm.complete, request, box, held)
        if not whole.text.strip():
            raise ProviderError(f"{llm.name} answered without a word")
        held.reply(whole.text, usage=to_usage(llm, whole))
    return RunResult(whole.text, turns=1, cost=whole.usage.cost or 0.0)


def make_notifier(notifications: MutableSequence[dict[str, Any]], *, aloud: bool) -> Callable[[Notification], None]:
    """Notifications go to the output: there is no other channel here."""

    def notify(given: Notification) -> None:
        notifications.append(
            {
                "schedule": given.schedule.id,
                "run": given.run.id,
                "user": given.schedule.user,
                "channel": given.channel,
                "chat": given.chat,
                "thread": given.thread,
                "text": given.text,
            }
        )
        if aloud:
            to = " ".join(filter(None, (given.schedule.user, given.channel, given.chat, given.thread)))
            print(f"{show.one_line(to)}: {show.escape(given.text)}", flush=True)

    return notify
