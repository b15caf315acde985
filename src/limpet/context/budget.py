"""Divide the tokens of a context among its parts."""

from __future__ import annotations

from collections.abc import Mapping

from limpet.config import ContextSettings
from limpet.errors import BudgetTooSmall


def compute_budget(max_tokens: int, model_window: int | None, limits: ContextSettings) -> int:
    """Return the token budget, leaving room in the model's window for the reply."""
    budget = max_tokens if model_window is None else min(max_tokens, model_window - limits.reply_reserve)
    if budget < 1:
        raise BudgetTooSmall(
            f"max_tokens must be at least 1, not {max_tokens}"
            if model_window is None
            else f"a window of {model_window} tokens has no room after the {limits.reply_reserve} kept for the reply"
        )
    return budget


def allot(budget: int, wants: Mapping[str, int], shares: Mapping[str, float]) -> dict[str, int]:
    """Give each its share, or less if it needs less; divide the rest among the others in proportion."""
    given = dict.fromkeys(wants, 0)
    remaining, hungry = max(0, budget), {name: want for name, want in wants.items() if want > 0}
    while hungry and remaining > 0:
        whole = sum(shares[name] for name in hungry)
        portions = {
            name: int(remaining * shares[name] / whole) if whole else remaining // len(hungry) for name in hungry
        }
        sated = {name: want for name, want in hungry.items() if want <= portions[name]}
        given |= sated or portions
        if not sated:
            break
        remaining -= sum(sated.values())
        hungry = {name: want for name, want in hungry.items() if name not in sated}
    return given
