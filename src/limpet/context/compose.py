"""Putting a context together: who gets how much of the budget, and what that buys."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cache
from typing import NamedTuple

from limpet.config import ContextSettings
from limpet.context.always_included import standing
from limpet.context.budget import allot
from limpet.context.inputs import Choice, Entry, Material, Section
from limpet.context.prompt_builder import OVER_BUDGET, Sheet, text_of
from limpet.context.quote import quoted_document
from limpet.context.relevant import Passage, Sifted, passages, sifted
from limpet.errors import BudgetTooSmall
from limpet.model.context import Context, Dropped
from limpet.model.message import Message
from limpet.model.session import Summary
from limpet.model.tokens import TokenCounter
from limpet.model.turns import Cost, fit, turns_of


def budget_of(max_tokens: int, model_window: int | None, limits: ContextSettings) -> int:
    """Within the model's window a reply must have room too."""
    budget = max_tokens if model_window is None else min(max_tokens, model_window - limits.reply_reserve)
    if budget < 1:
        raise BudgetTooSmall(
            f"max_tokens must be at least 1, not {max_tokens}"
            if model_window is None
            else f"a window of {model_window} tokens has no room beside the {limits.reply_reserve} kept for the reply"
        )
    return budget


class Offered(NamedTuple):
    """What memory offers to a context, quoted and counted, whatever the conversation is."""

    standing: Choice
    passages: list[Passage]

    @classmethod
    def of(cls, material: Material, limits: ContextSettings, count: TokenCounter) -> Offered:
        return cls(standing(material, limits, count), passages(material, limits, count))


def assemble(
    material: Material,
    limits: ContextSettings,
    budget: int,
    count: TokenCounter,
    cost: Cost,
    offered: Offered | None = None,
) -> Context:
    """As if nothing had to be cut; if something has, again with the summary, which then is never cut itself.

    What the summary tells is not told again in full then: its room is for what no summary tells. What is ``offered``
    spares whoever lays the same memory beside a conversation that has changed to have it counted again.
    """
    desk = Desk(material, limits, budget, count, cost, offered)
    summary = material.summary if limits.show_summary else None
    if summary is not None and not summary.text.strip():
        summary = None
    if summary is None or len(material.history) >= material.message_count:  # else it is cut already
        context = desk.lay(None, material.history)
        if summary is None or len(context.messages) == material.message_count:
            return context
    return desk.lay(summary, material.history if material.unsummarised is None else material.unsummarised)


class Desk:
    """Everything that may go in, with its price."""

    def __init__(
        self,
        material: Material,
        limits: ContextSettings,
        budget: int,
        count: TokenCounter,
        cost: Cost,
        offered: Offered | None = None,
    ) -> None:
        self._material = material
        self._limits = limits
        self._budget = budget
        self._count = count
        self._count_ours = cache(count)  # headings and days are the same again and again
        self._cost = cost
        self._standing, self._passages = offered or Offered.of(material, limits, count)

    def lay(self, summary: Summary | None, history: Sequence[Message]) -> Context:
        told, most = self._told(summary), self._limits.recent_messages
        room = self._budget - self._begun(told).tokens
        messages = fit(history, self._for_messages(room, history), most, self._cost)
        sheet, dropped = self._write(told, messages)
        unused = self._budget - sheet.tokens - self._price(messages)
        more = fit(history, self._price(messages) + unused, most, self._cost)
        if len(more) > len(messages):  # what memory did not need is the conversation's again
            messages = more
            sheet, dropped = self._write(told, messages)
        return self._context(sheet, messages, [*self._older(summary, messages), *dropped])

    def _for_messages(self, room: int, history: Sequence[Message]) -> int:
        """Their share, all that memory leaves, and for the newest turn up to half: what was just said counts most."""
        limits = self._limits
        hits = self._relevant(history).entries
        wants = {
            "messages": self._price(history),
            "standing": self._demand(self._standing.entries, room),
            "hits": self._demand(hits, room),
        }
        shares = {"messages": limits.history_share, "standing": limits.standing_share}
        shares["hits"] = max(0.0, 1.0 - sum(shares.values()))
        newest = turns_of(history)[-1:]
        least = sum(self._cost(history[at]) for turn in newest for step in turn for at in step)
        return max(allot(room, wants, shares)["messages"], min(least, room // 2), 1)

    def _write(self, told: Entry | None, messages: Sequence[Message]) -> tuple[Sheet, list[Dropped]]:
        sheet = self._begun(told)
        dropped = list(self._standing.dropped)
        room = self._budget - sheet.tokens - self._price(messages)
        sheet.fill(self._standing.entries, self._for_standing(room, messages), dropped)
        records = {entry.record for entry in sheet.taken if entry.record is not None}
        hits = self._relevant(messages, records)
        dropped += [Dropped(what(), reason) for what, reason in hits.left]
        sheet.fill(hits.entries, self._budget - sheet.tokens - self._price(messages), dropped)
        return sheet, dropped

    def _for_standing(self, room: int, messages: Sequence[Message]) -> int:
        wanted = self._demand(self._standing.entries, room)
        if not wanted:
            return 0
        hits = self._relevant(messages).entries
        wants = {"standing": wanted, "hits": self._demand(hits, room)}
        share = self._limits.standing_share / max(1e-9, 1.0 - self._limits.history_share)
        return allot(room, wants, {"standing": share, "hits": max(0.0, 1.0 - share)})["standing"]

    def _relevant(self, messages: Sequence[Message], records: Collection[str] = ()) -> Sifted:
        return sifted(self._passages, messages, records, self._limits)

    def _told(self, summary: Summary | None) -> Entry | None:
        if summary is None:
            return None
        text = quoted_document(summary.text)
        return Entry(Section.SUMMARY, text, self._count, lambda: "the summary")

    def _begun(self, told: Entry | None) -> Sheet:
        sheet = Sheet(self._count_ours)
        if told is not None:
            sheet.put(told)
        return sheet

    def _context(self, sheet: Sheet, messages: Sequence[Message], dropped: list[Dropped]) -> Context:
        spoken = self._price(messages)
        # A tokenizer may spend more on the whole than on its lines; then the least important goes.
        while (written := self._count(text := text_of(sections := sheet.sections()))) + spoken > self._budget:
            last = sheet.drop_last()
            if last is None:
                break
            dropped.append(Dropped(last.what(), OVER_BUDGET))
        return Context(
            text,
            tuple(messages),
            written + spoken,
            sections,
            tuple(entry.hit for entry in sheet.taken if entry.hit is not None),
            (*self._material.failed, *dropped),
            tuple(dict.fromkeys(id for entry in sheet.taken if (id := entry.shows) is not None)),
        )

    def _older(self, summary: Summary | None, messages: Sequence[Message]) -> Iterator[Dropped]:
        cut = self._material.message_count - len(messages)
        told = 0
        if summary is not None:
            shown = sum(message.sequence <= summary.upper_sequence for message in messages)
            told = min(cut, summary.message_count - shown)
        for number, reason in ((told, "told by the summary"), (cut - told, "over the token or message budget")):
            if number > 0:
                yield Dropped(f"{number} older message{'s' * (number != 1)}", reason)

    def _demand(self, entries: Sequence[Entry], room: int) -> int:
        """What the entries would cost, headings included, as far as it matters."""
        sheet = Sheet(self._count_ours)
        for entry in entries:
            sheet.put(entry)
            if sheet.tokens > room:
                break
        return sheet.tokens

    def _price(self, messages: Sequence[Message]) -> int:
        return sum(map(self._cost, messages))
