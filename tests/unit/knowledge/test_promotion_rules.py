"""Which records are promoted, as what, and to whom."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from limpet.errors import InvalidInput
from limpet.knowledge.promote import build_promotion, choose_owner, find_equal, is_due, is_outdated, merge_into
from limpet.model.record import Layer, Origin, RecordSource
from limpet.model.scope import Level, Owner, Scope
from tests.extracted_records import NOW, record

SESSION = Owner(Scope("default", user="alice", session="01890000-0000-7000-8000-00000000000a"), Level.SESSION)


@pytest.mark.parametrize(
    ("type", "layer"),
    [
        *((type_, Layer.SEMANTIC) for type_ in ("constraint", "preference", "fact", "decision")),
        *((type_, Layer.PROCEDURAL) for type_ in ("failure", "fix", "command_result")),
    ],
)
def test_promote_copies_confident_episode_to_lasting_layer(type: str, layer: Layer) -> None:
    episode = record("Use tabs", type=type, layer="episodic", confidence=0.75, source=RecordSource("s", (3,), "alice"))
    assert is_due(episode, NOW, 0.75)
    copy = build_promotion(episode, episode.home, "new", NOW + timedelta(days=1))
    assert (copy.layer, copy.origin, copy.inputs, copy.source) == (
        layer,
        Origin.PROMOTED,
        (episode.id,),
        episode.source,
    )
    assert (copy.home, copy.valid_from, copy.version, copy.key) == (episode.home, NOW, 1, None)


@pytest.mark.parametrize(
    "fields",
    [
        {"confidence": 0.74},
        {"type": "note"},
        {"type": "task_state", "origin": "turn"},
        {"layer": "semantic"},
        {"archived_at": NOW},
        {"superseded_by": "x"},
        {"valid_to": NOW},
        {"origin": "condensed"},
        {"origin": "promoted"},
    ],
)
def test_promote_is_not_due_for_unsuitable_records(fields: dict[str, Any]) -> None:
    assert not is_due(record(**{"layer": "episodic", "confidence": 0.9, **fields}), NOW, 0.75)


def test_choose_owner_keeps_scope_unless_wider_one_is_given() -> None:
    episode = record(layer="episodic", home=SESSION)
    assert choose_owner(episode, None) == SESSION
    assert choose_owner(episode, "user") == Owner(Scope("default", user="alice"), Level.USER)
    assert choose_owner(episode, "global") == Owner(Scope("default"), Level.GLOBAL)
    agents = record(layer="episodic", home=Owner(Scope("default", agent="coder"), Level.AGENT))
    with pytest.raises(InvalidInput, match="agent"):
        choose_owner(agents, "user")


def test_promote_skips_episode_with_outdated_value() -> None:
    old = record("lives in Porto", layer="episodic", subject="user", attribute="home", value="Porto")
    later = NOW + timedelta(days=1)
    new = record("lives in Lisbon", subject="user", attribute="home", value="Lisbon", at=later)
    assert is_outdated(old, [old, new])
    assert not is_outdated(old, [old, replace(new, valid_from=NOW)])
    assert not is_outdated(replace(old, attribute=None), [new])


def test_promote_merges_into_equal_record() -> None:
    episode = record("Use tabs", layer="episodic", tags=("b",), confidence=0.9)
    copy = build_promotion(episode, episode.home, "new", NOW)
    there = record("use  TABS", tags=("a",), confidence=0.8)
    assert find_equal(copy, [there], NOW) == there
    for other in (
        replace(there, home=SESSION),
        replace(there, archived_at=NOW),
        replace(there, valid_to=NOW),
        replace(there, layer=Layer.WORKING),
        replace(there, polarity=False),
    ):
        assert find_equal(copy, [other], NOW) is None
    both = merge_into(there, episode)
    assert (both.content, both.tags, both.confidence, both.said) == ("use  TABS", ("a", "b"), 0.9, 2)
    assert both.inputs == (episode.id,)
