"""What was said since stands beside what it may change, once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from limpet.config import ContextSettings
from limpet.model.record import Origin, Record, RecordSource, RecordType
from tests.unit.context.builders import ELSEWHERE, HERE, NOW, built, items, record, said

LEAN = ContextSettings(layout="lean")


def claim(id: str, content: str, days: int = 0, session: str = ELSEWHERE, **values: Any) -> Record:
    source = RecordSource(session, (40 - days,), None, content)
    said_at = NOW - timedelta(days=days)
    return record(id, content, source=source, valid_from=said_at, origin=Origin.EXTRACTED, **values)


def show(*records: Record, budget: int = 4000, **material: Any) -> list[str]:
    material.setdefault("later", {each.id: each for each in records})
    context = built(budget, limits=LEAN, records=records, **material)
    return [line for body in context.sections.values() for line in items(body)]


BEES = claim("a", "The user keeps bees.", 30, metadata={"doubted_by": "b"})
FROST = claim("b", "Frost has killed the last hive.", 3)


def test_newer_statement_comes_first_and_what_it_may_change_stands_behind_it() -> None:
    (line,) = show(BEES, FROST)
    assert line == (
        "- Frost has killed the last hive. (7 Mar 2026)"
        " Said before, 8 Feb 2026: “The user keeps bees.” (perhaps no longer true)"
    )


def test_claims_that_one_statement_may_change_share_its_line() -> None:
    honey = claim("c", "The user sells honey.", 20, metadata={"doubted_by": "b"})
    (line,) = show(BEES, FROST, honey)
    assert line.count("hive") == 1
    assert line.endswith(
        " Said before, 8 Feb 2026: “The user keeps bees.” (perhaps no longer true)"
        " Said before, 18 Feb 2026: “The user sells honey.” (perhaps no longer true)"
    )


def test_statement_that_has_ended_itself_says_so_beside_what_it_may_have_changed() -> None:
    ended = claim("b", "Frost has killed the last hive.", 3, valid_to=NOW)
    (line,) = show(BEES, later={"b": ended})
    assert line.endswith(" Said since, 7 Mar 2026: “Frost has killed the last hive.” (perhaps no longer true)")


def test_words_of_two_claims_are_printed_once() -> None:
    source = RecordSource(ELSEWHERE, (10,), None, "I keep bees and sell honey")
    said_at = NOW - timedelta(days=30)
    bees, honey = (
        record(id, content, source=source, valid_from=said_at, origin=Origin.EXTRACTED, metadata={"doubted_by": "b"})
        for id, content in (("a", "The user keeps bees."), ("c", "The user sells honey."))
    )
    (line,) = show(bees, honey, FROST)
    assert line.count("I keep bees and sell honey") == 1
    (alone,) = show(bees, honey, later={"b": FROST})
    assert "I keep bees" not in alone


def test_rule_keeps_its_line_and_its_section() -> None:
    rule = claim("b", "Never mention bees again.", 3, type=RecordType.INSTRUCTION)
    (line,) = show(BEES, rule)
    assert line == (
        "- Never mention bees again. (7 Mar 2026)"
        " Said before, 8 Feb 2026: “The user keeps bees.” (perhaps no longer true)"
    )


def test_long_statement_keeps_its_line() -> None:
    assert len(show(BEES, claim("b", "Frost. " * 100, 3))) == 2


def test_statement_among_the_messages_is_not_printed_again() -> None:
    here = claim("b", "Frost has killed the last hive.", 39, session=HERE)
    lines = show(BEES, here, history=said("Frost has killed the last hive."))
    assert lines == ["- The user keeps bees. (8 Feb 2026, perhaps no longer true)"]


def test_statement_without_an_entry_is_added_where_there_is_room() -> None:
    context = built(4000, limits=LEAN, records=(BEES,), later={"b": FROST})
    assert "Said since, 7 Mar 2026: “Frost" in context.text
    tight = built(context.tokens - 2, limits=LEAN, records=(BEES,), later={"b": FROST})
    assert "keeps bees" in tight.text
    assert "Frost" not in tight.text
