from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limpet.config import ContextSettings
from limpet.context.budget import allot, compute_budget
from limpet.errors import BudgetTooSmall, ConfigError

SHARES = {"messages": 0.25, "standing": 0.25, "hits": 0.5}
wants = st.fixed_dictionaries(dict.fromkeys(SHARES, st.integers(0, 5000)))


@given(st.integers(0, 6000), wants)
def test_allot_never_exceeds_demand_or_budget(budget: int, wanted: dict[str, int]) -> None:
    given_ = allot(budget, wanted, SHARES)
    assert all(0 <= given_[name] <= wanted[name] for name in wanted)
    assert sum(given_.values()) <= budget


@given(st.integers(0, 6000), wants)
def test_allot_gives_unused_share_to_others(budget: int, wanted: dict[str, int]) -> None:
    assert sum(allot(budget, wanted, SHARES).values()) >= min(budget, sum(wanted.values())) - len(wanted)


@given(st.integers(0, 6000), wants)
def test_allot_guarantees_each_share(budget: int, wanted: dict[str, int]) -> None:
    given_ = allot(budget, wanted, SHARES)
    assert all(given_[name] >= min(wanted[name], int(budget * SHARES[name])) for name in wanted)


def test_allot_splits_equally_when_shares_are_zero() -> None:
    assert allot(10, {"a": 10, "b": 10}, {"a": 0.0, "b": 0.0}) == {"a": 5, "b": 5}
    assert allot(-3, {"a": 10}, {"a": 1.0}) == {"a": 0}


def test_compute_budget_reserves_tokens_for_reply() -> None:
    assert compute_budget(4000, None, ContextSettings()) == 4000
    assert compute_budget(4000, 8000, ContextSettings()) == 4000
    assert compute_budget(4000, 4000, ContextSettings()) == 4000 - 1024
    with pytest.raises(BudgetTooSmall, match="1024"):
        compute_budget(4000, 1024, ContextSettings())
    with pytest.raises(BudgetTooSmall, match="at least 1"):
        compute_budget(0, None, ContextSettings())


def test_context_settings_reject_contradictory_values() -> None:
    with pytest.raises(ConfigError, match="together"):
        ContextSettings(history_share=0.6, standing_share=0.5)
    with pytest.raises(ConfigError, match="pack_hard"):
        ContextSettings(pack_soft=100, pack_hard=99)
