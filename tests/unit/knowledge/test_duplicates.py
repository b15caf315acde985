"""Which records are one statement, which of them stays, and what becomes of the others."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limpet import Record
from limpet.knowledge.consolidate import find_merges
from limpet.model.scope import Level, Owner, Scope
from tests.extracted_records import NOW, record

LATER = NOW + timedelta(days=1)


def test_find_merges_keeps_newest_text_and_all_labels() -> None:
    old = record("The user really loves oat milk in coffee", tags=("a",), references=("x",), said=2, uses=3)
    new = record("The user loves oat milk in coffee", tags=("b",), at=LATER, confidence=0.9)
    [merge] = find_merges([old, new], LATER)
    assert (merge.stays.id, merge.stays.content) == (new.id, new.content)
    assert [twin.id for twin in merge.gone] == [old.id]
    assert (merge.stays.tags, merge.stays.references) == (("b", "a"), ("x",))
    assert (merge.stays.said, merge.stays.uses, merge.stays.confidence, merge.stays.inputs) == (3, 3, 0.9, (old.id,))


@pytest.mark.parametrize("fields", [{"origin": "explicit"}, {"pinned": True}])
def test_find_merges_keeps_explicit_or_pinned_record_unchanged(fields: dict[str, Any]) -> None:
    stated = record("I enjoy oat milk", tags=("mine",), **fields)
    learned = record("The user enjoys oat milk", tags=("theirs",), at=LATER)
    [merge] = find_merges([stated, learned], LATER)
    assert (merge.stays.content, merge.stays.tags, merge.stays.said) == ("I enjoy oat milk", ("mine",), 2)
    assert find_merges([stated, record("I enjoy oat milk", **fields)], LATER) == []


@pytest.mark.parametrize(
    "fields",
    [
        {"content": "The user loves oat milk not"},
        {"content": "The user loves soy milk"},
        {"type": "preference"},
        {"layer": "episodic"},
        {"polarity": False},
        {"subject": "bob"},
        {"attribute": "likes", "value": "soy"},
        {"home": Owner(Scope("default", user="alice", session="s"), Level.SESSION)},
        {"archived_at": NOW},
        {"valid_to": NOW},
        {"origin": "turn"},
    ],
)
def test_find_merges_keeps_different_statements_apart(fields: dict[str, Any]) -> None:
    one = record("The user loves oat milk", subject="user", attribute="likes", value="oat milk")
    other = record(**{"content": "The user loves oat milk", **fields})
    assert find_merges([one, other], LATER) == []


def test_find_merges_uses_vectors_unless_numbers_differ() -> None:
    one, other = record("The user adores cats"), record("The user is fond of felines", at=LATER)
    assert find_merges([one, other], LATER) == []
    near = {frozenset((one.id, other.id)): 0.98}
    assert [merge.stays.id for merge in find_merges([one, other], LATER, near)] == [other.id]
    three, four = record("The user has 3 cats"), record("The user keeps 4 felines")
    assert find_merges([three, four], LATER, {frozenset((three.id, four.id)): 0.99}) == []


words = st.lists(st.sampled_from("oat milk cats lisbon piano not 3 4 user loves".split()), min_size=1, max_size=6)


@given(st.lists(words, max_size=12))
def test_find_merges_is_stable_and_preserves_counts(texts: list[list[str]]) -> None:
    records = [record(" ".join(text), at=NOW + timedelta(minutes=at)) for at, text in enumerate(texts)]
    found = find_merges(records, LATER)
    gone = [twin.id for merge in found for twin in merge.gone]
    staying = [merge.stays.id for merge in found]
    assert len(set(gone) | set(staying)) == len(gone) + len(staying)
    assert sum(merge.stays.said for merge in found) == len(gone) + len(staying)
    left: dict[str, Record] = {each.id: each for each in records if each.id not in gone}
    left |= {merge.stays.id: merge.stays for merge in found}
    assert sum(each.said for each in left.values()) == len(records)
