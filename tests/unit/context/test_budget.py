from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limpet.config import ContextSettings
from limpet.context.compose import allot, compute_budget
from limpet.errors import BudgetTooSmall, ConfigError

SHARES = {"messages": 0.25, "standing": 0.25, "hits": 0.5}
wants = st.fixed_dictionaries(dict.fromkeys(SHARES, st.integers(0, 5000)))


@given(st.integers(0, 6000), wants)
def test_nobody_gets_more_than_wanted_and_nothing_more_than_there_is(budget: int, wanted: dict[str, int]) -> None:
    given_ = allot(budget, wanted, SHARES)
    assert all(0 <= given_[name] <= wanted[name] for name in wanted)
    assert sum(given_.values()) <= budget


@given(st.integers(0, 6000), wants)
def test_what_one_leaves_the_others_get(budget: int, wanted: dict[str, int]) -> None:
    assert sum(allot(budget, wanted, SHARES).values()) >= min(budget, sum(wanted.values())) - len(wanted)


@given(st.integers(0, 6000), wants)
def test_everybody_has_their_share_if_they_want_it(budget: int, wanted: dict[str, int]) -> None:
    given_ = allot(budget, wanted, SHARES)
    assert all(given_[name] >= min(wanted[name], int(budget * SHARES[name])) for name in wanted)


def test_shares_of_nothing_are_equal() -> None:
    assert allot(10, {"a": 10, "b": 10}, {"a": 0.0, "b": 0.0}) == {"a": 5, "b": 5}
    assert allot(-3, {"a": 10}, {"a": 1.0}) == {"a": 0}


def test_a_model_keeps_room_for_its_reply() -> None:
    assert compute_budget(4000, None, ContextSettings()) == 4000
    assert compute_budget(4000, 8000, ContextSettings()) == 4000
    assert compute_budget(4000, 4000, ContextSettings()) == 4000 - 1024
    with pytest.raises(BudgetTooSmall, match="1024"):
        compute_budget(4000, 1024, ContextSettings())
    with pytest.raises(BudgetTooSmall, match="at least 1"):
        compute_budget(0, None, ContextSettings())


def test_settings_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ConfigError, match="together"):
        ContextSettings(history_share=0.6, standing_share=0.5)
    with pytest.raises(ConfigError, match="pack_hard"):
        ContextSettings(pack_soft=100, pack_hard=99)
