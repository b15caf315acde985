"""What goes into a context, decided without a store."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limpet.config import ContextSettings
from limpet.context.compose import Composer
from limpet.context.select import ContextInputs
from limpet.model.context import Context
from limpet.model.message import Message, ToolCall, message_tokens
from limpet.model.record import Layer, Origin
from limpet.model.scope import Level
from limpet.model.session import Summary
from limpet.model.tokens import estimate_tokens
from tests.unit.context.builders import ELSEWHERE, HERE, NOW, built, headings, hit, items, record, record_hit, said


def reasons(context: Context, word: str) -> list[str]:
    return [dropped.reason for dropped in context.dropped if word in dropped.what]


SUMMARY = Summary("They met.", 1, 5, 5, NOW)


def test_context_orders_sections_by_how_rarely_they_change() -> None:
    context = built(
        query="dog",
        history=said("hello"),
        message_count=6,
        summary=SUMMARY,
        long_term="- likes tea",
        today="[10:00] User: hi",
        recent="yesterday",
        working_memory="sorting photos",
        hits=(hit("my dog barks"),),
        records=(
            record("p", "pinned fact", pinned=True),
            record("k", "Biscuit", key="dog_name"),
            *(record(layer.value, f"a {layer} thing", layer=layer) for layer in Layer),
        ),
    )
    assert headings(context.text) == [
        "# Memory",
        "## Long-term Memory",
        "## User Memories",
        "## Working Memory",
        "## Semantic Memory",
        "## Procedural Memory",
        "## Episodic Memory",
        "## Today's Notes",
        "## Recent Context",
        "## Relevant Memory",
        "## Summary",
    ]
    assert context.sections == {
        "Long-term Memory": "- likes tea\n- pinned fact",
        "User Memories": "- dog_name: Biscuit",
        "Working Memory": "sorting photos\n- a working thing",
        "Semantic Memory": "- a semantic thing",
        "Procedural Memory": "- a procedural thing",
        "Episodic Memory": "- 2026-03-10: a episodic thing",
        "Today's Notes": "[10:00] User: hi",
        "Recent Context": "yesterday",
        "Relevant Memory": "2026-03-10\n- user: my dog barks",
        "Summary": "They met.",
    }
    assert [message.text for message in context.messages] == ["hello"]


def test_context_is_empty_without_inputs() -> None:
    assert built() == Context("", (), 0, {}, (), ())
    assert built(history=said("hello")).text == ""


SWITCHES = {
    "show_long_term": "Long-term Memory",
    "show_user_memories": "User Memories",
    "show_working": "Working Memory",
    "show_semantic": "Semantic Memory",
    "show_procedural": "Procedural Memory",
    "show_episodic": "Episodic Memory",
    "show_today": "Today's Notes",
    "show_recent": "Recent Context",
    "show_relevant": "Relevant Memory",
    "show_summary": "Summary",
}


@pytest.mark.parametrize("switch", SWITCHES)
def test_context_setting_disables_its_section(switch: str) -> None:
    def all_but(**off: bool) -> set[str]:
        context = built(
            query="dog",
            limits=ContextSettings(layout="golemcore", **off),
            history=said("hello"),
            message_count=6,
            summary=SUMMARY,
            long_term="tea",
            today="today",
            recent="yesterday",
            working_memory="photos",
            hits=(hit("my dog barks"),),
            records=(
                record("k", "Biscuit", key="dog_name"),
                *(record(layer.value, "a thing", layer=layer) for layer in Layer),
            ),
        )
        return set(context.sections)

    assert all_but() - all_but(**{switch: False}) == {SWITCHES[switch]}


def test_lean_context_leaves_out_stated_memories_where_settings_say_so() -> None:
    known = (record("k", "Biscuit", key="dog_name"), record("p", "tea", key="drink", pinned=True))
    shown = built(limits=ContextSettings(), records=known).text
    assert "Biscuit" in shown
    assert "tea" in shown
    hidden = built(limits=ContextSettings(show_user_memories=False), records=known).text
    assert "Biscuit" not in hidden
    assert "tea" in hidden


# Hits


def test_context_hits_exclude_messages_already_shown() -> None:
    context = built(query="dog", history=said("my dog barks", "ok"), hits=(hit("my dog barks", 1, HERE),))
    assert context.hits == ()
    assert reasons(context, "my dog barks") == ["already among the messages"]


def test_context_hit_may_repeat_message_that_did_not_fit() -> None:
    context = built(query="dog", history=said("ok", "fine")[1:], message_count=2, hits=(hit("ok", 1, HERE),))
    assert [found.text for found in context.hits] == ["ok"]


def test_context_keeps_hit_with_same_sequence_in_other_session() -> None:
    context = built(query="dog", history=said("my dog barks"), hits=(hit("a dog bit me", 1, ELSEWHERE),))
    assert len(context.hits) == 1


def test_context_excludes_repeated_text_if_one_message_is_shown() -> None:
    history = said("thanks", "no", "thanks")[2:]
    context = built(query="q", history=history, message_count=3, hits=(hit("thanks", 1, HERE, last_sequence=3),))
    assert reasons(context, "thanks") == ["already among the messages"]
    between = built(query="q", history=said("thanks", "no"), hits=(hit("thanks", 7, HERE, last_sequence=9),))
    assert len(between.hits) == 1


def test_context_keeps_one_hit_per_message() -> None:
    context = built(query="q", hits=(hit("first half", 4), hit("second half", 4, score=0.5), hit("next", 5)))
    assert [found.text for found in context.hits] == ["first half", "next"]
    assert reasons(context, "second half") == ["of the same message as a better hit"]


def test_context_hit_spanning_messages_does_not_hide_hits_between() -> None:
    context = built(query="q", hits=(hit("ok", 1, last_sequence=90), hit("the answer", 40)))
    assert len(context.hits) == 2


def test_context_hits_exclude_the_query_itself() -> None:
    context = built(query=" Where is my dog? ", hits=(hit("Where is my dog?", 8), hit("My dog is at home")))
    assert [found.text for found in context.hits] == ["My dog is at home"]
    assert reasons(context, "Where is my dog?") == ["it is the question itself"]


def test_context_hits_exclude_records_shown_in_other_sections() -> None:
    stated = record("k", "Biscuit is the dog", key="dog_name")
    context = built(query="dog", records=(stated,), hits=(record_hit(stated),))
    assert context.hits == ()
    assert context.text.count("Biscuit is the dog") == 1


def test_context_excludes_record_of_another_session() -> None:
    secret = record("s", "a secret of that chat", level=Level.SESSION, session=ELSEWHERE)
    own = record("o", "known in this chat", level=Level.SESSION, session=HERE)
    context = built(query="secret", records=(secret, own), hits=(record_hit(secret),))
    assert "a secret of that chat" not in repr(context)
    assert "known in this chat" in context.text
    assert reasons(context, "another session") == ["it belongs to another session"]


def test_context_limits_number_and_tokens_of_record_hits() -> None:
    facts = [record(f"{at:02}", f"fact number {at}", layer=Layer.SEMANTIC) for at in range(30)]
    hits = tuple(record_hit(fact) for fact in facts)
    context = built(query="zzz", hits=hits)
    assert len(context.hits) == 10
    assert len(reasons(context, "fact number")) == 20
    few = built(query="zzz", hits=hits, limits=ContextSettings(layout="golemcore", facts_tokens=20))
    assert 1 <= len(few.hits) < 4


def test_context_groups_hits_by_day_in_message_order() -> None:
    context = built(
        query="q",
        hits=(hit("b", 3), hit("z", 9, days=2, name="Ana"), hit("a", 2, role="assistant"), hit("y", 8, days=2)),
    )
    assert context.sections["Relevant Memory"].split("\n") == [
        "2026-03-08",
        "- user: y",
        "- Ana: z",
        "2026-03-10",
        "- assistant: a",
        "- user: b",
    ]
    assert [found.text for found in context.hits] == ["b", "z", "a", "y"]


# Records


def test_user_memories_rank_by_relevance_not_only_recency() -> None:
    old = NOW - timedelta(days=300)
    stated = [record(f"{at:03}", f"the colour of thing {at}", key=f"thing_{at}") for at in range(60)]
    dog = record("dog", "Biscuit", key="dog_name", updated_at=old, created_at=old)
    met = record("met", "in a bakery", key="how_they_met", updated_at=old, created_at=old)
    context = built(query="what is my dog called?", records=(*stated, dog, met), relevance={"met": 0.9})
    assert len(items(context.sections["User Memories"])) == 50
    assert "- dog_name: Biscuit" in context.text
    assert "- how_they_met: in a bakery" in context.text
    assert len(reasons(context, "colour")) == 12


def test_user_memories_contain_only_explicit_keyed_user_records() -> None:
    context = built(
        records=(
            record("a", "stated", key="a"),
            record("b", "learned", key="b", origin=Origin.EXTRACTED),
            record("c", "of the agent", key="c", level=Level.AGENT),
            record("d", "no key"),
        )
    )
    assert context.sections["User Memories"] == "- a: stated"
    assert len(items(context.sections["Semantic Memory"])) == 3


def test_context_shows_best_records_of_each_layer() -> None:
    records = [
        record(f"{layer}{at}", f"{layer} {at}", layer=layer, salience=at / 20) for layer in Layer for at in range(12)
    ]
    context = built(records=tuple(records))
    shown = {name: len(items(body)) for name, body in context.sections.items()}
    assert shown == {"Working Memory": 6, "Semantic Memory": 6, "Procedural Memory": 4, "Episodic Memory": 8}
    assert "semantic 11" in context.text
    assert "semantic 5" not in context.text
    assert reasons(context, "semantic 5") == ["beyond the 6 best semantic records"]


def test_context_pack_admits_only_strong_records_past_soft_budget() -> None:
    long = "word " * 40
    weak = [record(f"w{at}", f"{long} weak {at}", salience=0.1, confidence=0.1) for at in range(4)]
    strong = record("s", f"{long} strong dog", salience=1.0, confidence=1.0)
    also = record("t", f"{long} other strong dog", salience=1.0, confidence=1.0)
    limits = ContextSettings(layout="golemcore", pack_soft=60, pack_hard=120)
    context = built(query="dog", records=(*weak, strong, also), limits=limits)
    assert len(items(context.sections["Semantic Memory"])) == 2
    assert "weak" not in context.text
    assert all("past 60 tokens" in reason or "120 tokens" in reason for reason in reasons(context, "word"))


def test_context_omits_old_episodes_unless_recalled() -> None:
    old = NOW - timedelta(days=22)
    records = [
        record(name, f"{name} event", layer=Layer.EPISODIC, updated_at=old, created_at=old)
        for name in ("faded", "kept")
    ]
    context = built(query="q", records=tuple(records), relevance={"kept": 0.6})
    assert context.sections["Episodic Memory"] == "- 2026-02-16: kept event"
    assert reasons(context, "faded") == ["older than 21 days and not recalled"]


def test_context_record_order_does_not_depend_on_query() -> None:
    records = (record("a", "about cats", key="cats"), record("b", "about dogs", key="dogs"), record("c", "third"))
    about_dogs, about_cats = (built(query=query, records=records).text for query in ("dogs", "cats"))
    assert about_dogs == about_cats


# Budget

long_texts = st.lists(st.integers(1, 120).map(lambda words: "word " * words), max_size=12)


@given(st.integers(1, 900), long_texts, long_texts, long_texts, st.integers(0, 80), st.booleans())
def test_context_budget_counts_rendered_text(
    budget: int, spoken: list[str], recalled: list[str], kept: list[str], summed: int, more: bool
) -> None:
    history = said(*spoken)
    summary = Summary("sum " * summed, 1, 1, 1, NOW) if summed else None
    context = built(
        budget,
        query="q",
        history=history,
        message_count=len(history) + 5 * more,
        summary=summary,
        hits=tuple(hit(f"{text}{at}", at, days=at % 3) for at, text in enumerate(recalled)),
        records=tuple(record(f"{at}", text, key=f"k{at}" if at % 2 else None) for at, text in enumerate(kept)),
        long_term="\n".join(kept[:3]),
    )
    assert context.tokens == estimate_tokens(context.text) + sum(message.tokens for message in context.messages)
    never_cut = history[-1].tokens if history else 0
    if "Summary" in context.sections:
        assert context.sections["Summary"] == "sum " * summed
        never_cut += built(10**6, message_count=1, summary=summary).tokens
    assert context.tokens <= max(budget, never_cut)
    assert not history or context.messages[-1] == history[-1]
    assert len(context.hits) + len([0 for entry in context.dropped if entry.what.startswith("hit ")]) == len(recalled)


@given(st.integers(50, 900), long_texts)
def test_context_obeys_token_counter_that_is_not_additive(budget: int, recalled: list[str]) -> None:
    def uneven(text: str) -> int:
        return estimate_tokens(text) + len(text) ** 2 // 20_000

    hits = tuple(hit(f"{text}{at}", at) for at, text in enumerate(recalled))
    context = built(budget, query="q", hits=hits, count=uneven)
    assert context.tokens == uneven(context.text)
    assert context.tokens <= budget
    assert len(context.hits) + len(context.dropped) == len(hits)


def test_context_trimming_keeps_summary_and_newest_message() -> None:
    history = said(*(f"message {at} " + "word " * 30 for at in range(20)))
    context = built(300, query="q", history=history, message_count=90, summary=SUMMARY, hits=(hit("evidence " * 50),))
    assert "They met." in context.text
    assert context.messages[-1] == history[-1]
    assert list(context.messages) == list(history[-len(context.messages) :])


def test_context_trimming_keeps_tool_call_with_result() -> None:
    call = Message.new("assistant", "", tool_calls=[ToolCall("c", "look", {})])
    result = Message.new("tool", "word " * 60, tool_call_id="c")
    turn = [Message.new("user", "look"), call, result, Message.new("user", "and?")]
    history = tuple(replace(message, sequence=at) for at, message in enumerate(turn, start=1))
    for budget in range(1, 120, 7):
        kept = [message.sequence for message in built(budget, history=history).messages]
        assert (2 in kept) == (3 in kept)
        assert kept[-1] == 4


def test_context_hits_use_most_of_budget_but_keep_newest_turns() -> None:
    history = said(*("word " * 50 for _ in range(20)))
    hits = tuple(hit("evidence " * 40 + str(at), at) for at in range(100))
    context = built(2000, query="q", history=history, hits=hits)
    quoted = sum(estimate_tokens(found.text) for found in context.hits)
    assert quoted >= 2000 * 0.55
    assert len(context.messages) >= 8


def test_context_gives_unused_memory_budget_to_messages() -> None:
    history = said(*("word " * 50 for _ in range(20)))
    context = built(1500, query="q", history=history, hits=(hit("short"),))
    assert len(context.messages) == 20
    assert len(context.hits) == 1


def test_context_records_leave_budget_for_hits() -> None:
    stated = tuple(record(f"{at}", "word " * 30, key=f"k{at}") for at in range(50))
    hits = tuple(hit("evidence " * 30 + str(at), at) for at in range(50))
    context = built(2000, query="q", records=stated, hits=hits)
    assert sum(estimate_tokens(found.text) for found in context.hits) >= 1000
    assert len(items(context.sections["User Memories"])) >= 10


def test_context_cuts_long_term_at_end_and_daily_notes_at_start() -> None:
    lines = "\n".join(f"line {at} " + "word " * 10 for at in range(100))
    context = built(300, query="q", long_term=lines)
    assert "line 0 " in context.text
    assert "line 99 " not in context.text
    assert reasons(context, "a line of MEMORY.md: line 99") == ["over the token budget"]
    notes = built(300, query="q", today=lines)
    assert "line 99 " in notes.text
    assert "line 0 " not in notes.text
    assert notes.sections["Today's Notes"].index("line 98 ") < notes.sections["Today's Notes"].index("line 99 ")


def test_context_reports_everything_over_budget() -> None:
    context = built(
        60,
        query="q",
        history=said("hello"),
        hits=(hit("long " * 60), hit("short", 2)),
        records=(record("r", "kept " * 70),),
    )
    assert [found.text for found in context.hits] == ["short"]
    assert reasons(context, "long long") == reasons(context, "kept kept") == ["over the token budget"]


@given(
    st.integers(20, 600),
    st.integers(0, 25),
    st.integers(0, 40),
    st.integers(0, 30),
    st.sampled_from(("", "sum " * 5, "sum " * 80)),
)
def test_context_composed_once_equals_context_composed_twice(
    budget: int, spoken: int, older: int, told: int, text: str
) -> None:
    history = said(*(f"message {at} " + "word " * (at % 7) for at in range(spoken)))
    hits = tuple(hit(f"evidence {at} " + "word " * (at % 5), at) for at in range(12))
    records = tuple(record(f"r{at}", f"fact {at} evidence") for at in range(9))
    summary = Summary(text, 1, told, told, NOW)
    material = ContextInputs(
        HERE, NOW, "evidence", history, spoken + older, summary, history[told:], records=records, hits=hits
    )
    desk = Composer(material, ContextSettings(layout="golemcore"), budget, estimate_tokens, message_tokens)
    expected = desk.compose(None, history)
    if len(expected.messages) != material.message_count and text.strip():
        expected = desk.compose(summary, history[told:])
    assert desk.assemble() == expected


def test_statement_saved_twice_is_shown_once_and_the_other_is_named() -> None:
    twice = tuple(record(key, "The dog is Rex", key=key, origin=Origin.EXPLICIT) for key in ("dog", "pet"))
    context = built(records=twice, limits=ContextSettings())
    assert context.text.count("Rex") == 1
    assert reasons(context, "Rex") == ["said by the memories that are shown"]
