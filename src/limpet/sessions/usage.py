"""The token usage and cost of a session, and what models cost today."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from limpet.errors import InvalidInput
from limpet.model.dataclass import dataclass, replace
from limpet.model.scope import Scope
from limpet.model.session import ModelUsage, Usage
from limpet.model.values import Clock, check_name, check_number, short_repr
from limpet.providers.llm import TokenUsage
from limpet.sessions.repository import Sessions, UsageEntries
from limpet.store.store import Store
from limpet.store.tx import Tx

log = logging.getLogger("limpet.sessions")

# Limits of one call: sums of thousands of the largest still fit a 64-bit integer, the cost in billionths.
_MAX_TOKENS = 10**12
_MAX_COST = 1_000_000
UNKNOWN = "unknown"  # a model without a name
_SPENDING = "llm_spending"  # the property: a day of UTC, a space, and what was spent on it in billionths
_NANO = 1_000_000_000


def checked_usage(
    model: str, input_tokens: object, output_tokens: object, cached_tokens: object, cost: object
) -> ModelUsage:
    if isinstance(cost, bool) or not isinstance(cost, (int, float)) or not 0 <= cost <= _MAX_COST:
        raise InvalidInput(f"cost must be a number from 0 to {_MAX_COST:,}, not {short_repr(cost)}")
    return ModelUsage(
        check_name(model, "model"),
        calls=1,
        input_tokens=_checked_tokens(input_tokens, "input_tokens"),
        output_tokens=_checked_tokens(output_tokens, "output_tokens"),
        cached_tokens=_checked_tokens(cached_tokens, "cached_tokens"),
        cost=float(cost),
    )


def parse_usage(value: object) -> ModelUsage | None:
    """Parse the usage of a reply: our type, or a mapping with our names, OpenAI's or Anthropic's."""
    if value is None or isinstance(value, ModelUsage):
        return value
    if not isinstance(value, Mapping):
        raise InvalidInput(
            f"usage is a mapping such as {{'model': …, 'input_tokens': …, 'output_tokens': …}}, not {short_repr(value)}"
        )
    details = value.get("prompt_tokens_details")
    cached = value.get("cached_tokens", details.get("cached_tokens") if isinstance(details, Mapping) else None)
    read, written = value.get("cache_read_input_tokens"), value.get("cache_creation_input_tokens")
    beside = [_checked_tokens(tokens or 0, "cached tokens") for tokens in (read, written)]
    fresh = _checked_tokens(value.get("input_tokens", value.get("prompt_tokens")) or 0, "input_tokens")
    return checked_usage(
        value.get("model") or UNKNOWN,
        fresh + sum(beside),  # Anthropic counts cached tokens separately
        value.get("output_tokens", value.get("completion_tokens")) or 0,
        cached or beside[0],
        value.get("cost") or 0.0,
    )


def _checked_tokens(value: object, what: str) -> int:
    tokens = check_number(value, what)
    if tokens > _MAX_TOKENS:
        raise InvalidInput(f"{what} of one call cannot be {tokens:,}; the limit is {_MAX_TOKENS:,}")
    return tokens


def build_llm_usage(model: str, calls: int, used: TokenUsage) -> ModelUsage:
    """Record our own calls. An unknown price counts as 0, and so do invalid numbers."""
    try:
        entry = checked_usage(model, used.input_tokens, used.output_tokens, used.cached_tokens, used.cost or 0.0)
    except InvalidInput as error:
        log.warning("the usage of %s is not counted: %s", short_repr(model), error)
        entry = ModelUsage(UNKNOWN)
    return replace(entry, calls=calls)


def add(tx: Tx, scope: Scope, entry: ModelUsage) -> None:
    Sessions(tx).lock(scope)
    UsageEntries(tx).add(scope, entry)


def read(tx: Tx, scope: Scope) -> Usage:
    return Usage(tuple(UsageEntries(tx).find(scope)))


@dataclass(frozen=True, slots=True)
class DailySpending:
    """In one place for all programs on a store."""

    store: Store
    clock: Clock

    def read(self) -> float:
        """What was spent since midnight, UTC."""
        return self.store.read(self._read)

    def add(self, cost: float) -> None:
        """The database adds: two programs that add at once lose nothing."""
        params = {"name": _SPENDING, "day": self._today(), "nanos": round(cost * _NANO)}
        self.store.write(lambda tx: tx.db.run("properties.add_spending", params))

    def _read(self, tx: Tx) -> float:
        row = tx.db.one("properties.get", {"name": _SPENDING})
        day, _, nanos = ("" if row is None else str(row[0])).partition(" ")
        return int(nanos) / _NANO if day == self._today() else 0.0

    def _today(self) -> str:
        return self.clock().date().isoformat()
