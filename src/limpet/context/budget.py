"""Dividing a budget among those who want a part of it."""

from __future__ import annotations

from collections.abc import Mapping


def allot(budget: int, wants: Mapping[str, int], shares: Mapping[str, float]) -> dict[str, int]:
    """Everybody's share, or less if less is wanted; what is left over goes to the others in proportion."""
    given = dict.fromkeys(wants, 0)
    left = max(0, budget)
    hungry = [name for name, want in wants.items() if want > 0]
    while hungry and left > 0:
        whole = sum(shares[name] for name in hungry)
        portions = {name: _portion(left, shares[name], whole, len(hungry)) for name in hungry}
        sated = [name for name in hungry if wants[name] - given[name] <= portions[name]]
        if not sated:
            for name, portion in portions.items():
                given[name] += portion
            break
        for name in sated:
            left -= wants[name] - given[name]
            given[name] = wants[name]
        hungry = [name for name in hungry if name not in sated]
    return given


def _portion(left: int, share: float, whole: float, among: int) -> int:
    return int(left * share / whole) if whole else left // among
