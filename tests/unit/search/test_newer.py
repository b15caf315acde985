"""What has changed is found as it is now; what was asked of the past, or said by others, stays in its place."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from limpet import Limpet

START = datetime(2026, 1, 1, tzinfo=UTC)
OLD, NEW = (
    "My marathon record is 25 minutes over five kilometres",
    "My marathon record over five kilometres is 23 minutes",
)


def asked(question: str, role: str = "user", name: str | None = None) -> list[str]:
    with Limpet.open(":memory:") as memory:
        for number, text in enumerate((NEW, "the weather was fine", "we talked about soup", OLD)):
            at = START + timedelta(days=10 - number)
            session = memory.session("test", str(number), user="alice")
            session.append(role, text, created_at=at, name=name)
        return [hit.text for hit in memory.recall(question, user="alice", k=3)]


def test_recall_ranks_newer_of_two_similar_messages_first() -> None:
    assert asked("What is my marathon record over five kilometres?")[:2] == [NEW, OLD]


@pytest.mark.parametrize(
    "question",
    ["What was my first marathon record over five kilometres?", "When was my marathon record over five kilometres?"],
)
def test_question_about_the_past_is_not_reordered(question: str) -> None:
    from limpet.search.analysis import Question

    read = Question.parse(question, None)
    assert read.asks_back or read.asks_when


def test_recall_marks_promoted_newer_hit_and_keeps_scores_sorted() -> None:
    with Limpet.open(":memory:") as memory:
        session = memory.session("test", "1", user="alice")
        session.append("user", OLD + " and that is all", created_at=START)
        session.append("assistant", "ok", created_at=START)
        session.append("user", NEW + " after a long and hard year of training", created_at=START + timedelta(days=9))
        hits = memory.recall("What is my marathon record over five kilometres?", user="alice")
        assert hits[0].text.startswith(NEW)
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        assert "newer" in hits[0].signals
