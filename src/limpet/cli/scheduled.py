"""What ``limpet worker --schedules`` does with a goal: it asks the model of the chat, with the user's memory."""

from __future__ import annotations

from collections.abc import Callable, MutableSequence
from typing import TYPE_CHECKING, Any

from limpet.cli import show
from limpet.cli.chat.loop import Limits, usage_of
from limpet.cli.chat.prompt import messages_of
from limpet.errors import ProviderError
from limpet.model.schedule import MARK, Notify

if TYPE_CHECKING:
    from limpet import Firing, Limpet, Notification, Outcome

CHANNEL = "schedule"  # each schedule has a conversation of its own there
WAITING = (
    "schedules wait: there is no language model to hand them to; name one in the setting llm.model, or run them from"
    " a program with hf.run_schedules"
)
_ASKED = "This is a scheduled task. Nobody is there to answer questions: do it, and say what came of it."
_ONLY_IF = f"If, and only if, the user needs to hear of it now, begin your answer with {MARK}."


def has_model(hf: Limpet) -> bool:
    from limpet.api.runtime import chosen_llm

    return chosen_llm(None, hf.config) is not None


def turn(firing: Firing) -> Outcome:
    """One turn of the schedule's own conversation."""
    from limpet.api.runtime import chosen_llm
    from limpet.model.schedule import Outcome
    from limpet.providers.llm import LlmRequest
    from limpet.providers.watched import WatchedLlm

    hf, schedule = firing.hf, firing.schedule
    llm = chosen_llm(None, hf.config)
    if llm is None:
        raise ProviderError(WAITING)
    llm = WatchedLlm(llm, hf._agents.observers)  # noqa: SLF001 - whoever listens hears of this request, too
    session = hf.session(CHANNEL, schedule.id, user=schedule.user, agent=schedule.agent)
    wishes = [_ASKED, *([_ONLY_IF] if schedule.notify is Notify.CONDITIONAL else [])]
    limits = Limits.of(hf.config, None, None)
    asked = f"{' '.join(wishes)}\n\n{schedule.goal}"
    with session.turn(asked, max_tokens=limits.max_tokens, model_window=limits.model_window) as held:
        request = LlmRequest(messages_of(held.context), max_tokens=limits.reply, timeout=hf.config.llm.timeout_s)
        whole = llm.complete(request)
        if not whole.text.strip():
            raise ProviderError(f"{llm.name} answered without a word")
        held.reply(whole.text, usage=usage_of(llm, whole))
    return Outcome(whole.text, turns=1, cost=whole.usage.cost or 0.0)


def teller(told: MutableSequence[dict[str, Any]], *, aloud: bool) -> Callable[[Notification], None]:
    """Notifications go to the output: there is no other channel here."""

    def tell(given: Notification) -> None:
        told.append(
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
            print(f"{show.one_line(to)}: {show.visible(given.text)}", flush=True)

    return tell
