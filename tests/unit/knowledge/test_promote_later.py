"""What was said later comes before what it may have changed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from limpet.knowledge.hits import HitClaims, Item
from limpet.knowledge.prominence import DOUBTED_BY
from limpet.knowledge.recall import _promote_later
from limpet.model.chunk import Hit, Source, SourceKind
from limpet.search.analysis import Question

NOW = datetime(2026, 3, 1, 9, tzinfo=UTC)


def make_item(text: str, day: int, kind: SourceKind = SourceKind.MESSAGE, doubted_by: str = "") -> Item:
    metadata = {DOUBTED_BY: doubted_by} if doubted_by else {}
    return Item(Hit(text, 0.5, {}, Source(kind, text, NOW + timedelta(days=day), role="user"), metadata))


@pytest.mark.parametrize(("doubted_by", "first"), [("bike", "bike"), ("cat", "train")])
def test_message_that_taught_nothing_comes_after_what_may_have_changed_it(doubted_by: str, first: str) -> None:
    train = make_item("what do I read on the train to work", 1, doubted_by=doubted_by)
    bike = make_item("It's the e-bike and me", 20, SourceKind.RECORD)
    claims: Any = SimpleNamespace(
        follows=False, find_stated=lambda item: [SimpleNamespace(id="bike", metadata={})] if item is bike else []
    )
    ordered = _promote_later([train, bike], cast("HitClaims", claims), Question.parse("How do I get to work?", NOW))
    assert first in ordered[0].hit.text
