"""Where the chat stands: ``/status``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from limpet.cli import show
from limpet.cli.render_memory import dropped_lines, speaker
from limpet.model.chunk import Hit
from limpet.model.context import Context
from limpet.model.session import Summary, Usage
from limpet.model.tokens import estimate_tokens

if TYPE_CHECKING:
    from limpet.cli.chat.loop import ChatLoop

_HITS = 3  # hits that are shown, of those in the last context


def status_lines(chat: ChatLoop) -> list[str]:
    info, summary = chat.session.refresh(), chat.session.summary()
    window = chat.limits.window
    lines = show.format_fields(
        [
            ("session", f"{info.id} ({info.key}, {info.state.value.lower()})"),
            ("user", info.user),
            ("agent", info.agent),
            ("model", "none" if chat.llm is None else chat.llm.name),
            ("window", "not known; --window N says it" if window is None else f"{window:,} tokens"),
            ("messages", f"{info.message_count:,}"),
            ("summary", _summary(summary)),
            ("usage", _usage(chat.session.usage())),
        ]
    )
    if chat.context is None:
        return [*lines, "context  none yet: nothing was said in this session since the chat began"]
    return [*lines, *_context(chat.context, chat.limits.budget)]


def _summary(summary: Summary | None) -> str:
    if summary is None:
        return "none"
    covers = show.pluralize(summary.message_count, "message")
    return f"epoch {summary.epoch}, covers {covers} up to #{summary.upper_sequence}"


def _usage(usage: Usage) -> str:
    if not usage.models:
        return "none"
    calls = show.pluralize(sum(entry.calls for entry in usage.models), "call")
    cached = f" ({usage.cached_tokens:,} cached)" if usage.cached_tokens else ""
    cost = f"cost {usage.cost:.4f}" if usage.cost else "cost not known"
    return f"{calls}, {usage.input_tokens:,} tokens in{cached}, {usage.output_tokens:,} out, {cost}"


def _context(context: Context, budget: int) -> list[str]:
    messages = show.pluralize(len(context.messages), "message")
    lines = [f"context  {context.tokens:,} of {budget:,} tokens, {messages}"]
    lines += [f"  {name}: about {estimate_tokens(body):,} tokens" for name, body in context.sections.items()]
    if context.hits:
        lines.append(f"  {show.pluralize(len(context.hits), 'hit')}:")
        lines += [f"    {_hit(hit)}" for hit in context.hits[:_HITS]]
    return lines + [f"  {line}" for line in dropped_lines(context.dropped)]


def _hit(hit: Hit) -> str:
    source = hit.source
    where = f"#{source.first_sequence} of {source.session_id}" if source.session_id else source.id
    line = show.one_line(f"{hit.score:.3f} {source.kind.value} {where}, {speaker(hit)}: {hit.text}")
    return show.truncate(line, show.screen_width() - 4)
