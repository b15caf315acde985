"""MEMORY.md is searched, and is cut by relevance in a context."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from limpet import Config, Limpet
from limpet.model.chunk import SourceKind

QUIET = {"jobs.worker": False, "embedding.model": "none"}
NOTES = "## Kiln\n- fires at 1240 degrees\n\n## Garden\n- The tomatoes stand in the north bed\n- water: Monday\n"


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Limpet]:
    with Limpet.open(tmp_path, config=Config.load(overrides=QUIET)) as opened:
        yield opened


def test_recall_finds_line_of_memory_file_and_names_it(memory: Limpet) -> None:
    memory.notes.long_term(user="alice").write(NOTES)
    [hit] = memory.recall("Where are my tomatoes?", user="alice")
    assert hit.text == "- The tomatoes stand in the north bed"
    assert (hit.source.kind, hit.source.uri, hit.rank, hit.holds) == (SourceKind.DOCUMENT, "MEMORY.md", 1, True)
    assert NOTES[hit.source.offset : hit.source.end_offset] == hit.text
    assert "MEMORY.md" in hit.why


def test_recall_finds_line_by_its_heading(memory: Limpet) -> None:
    memory.notes.long_term(user="alice").write(NOTES)
    assert [hit.text for hit in memory.recall("kiln", user="alice")] == ["- fires at 1240 degrees"]


def test_recall_sees_an_edit_of_the_file_at_once(memory: Limpet, tmp_path: Path) -> None:
    memory.notes.long_term(user="alice").write("- tea")
    assert memory.recall("tomatoes", user="alice") == []
    [file] = tmp_path.rglob("MEMORY.md")
    file.write_text("- tea\n- tomatoes in the north bed\n")
    assert [hit.text for hit in memory.recall("tomatoes", user="alice")] == ["- tomatoes in the north bed"]


def test_recall_leaves_notes_to_their_user_and_to_filters(memory: Limpet) -> None:
    memory.notes.long_term(user="alice").write(NOTES)
    session = memory.session(user="alice")
    session.append("user", "I bought tomatoes")
    assert memory.recall("tomatoes", user="bob") == []
    narrowed: list[dict[str, Any]] = [{"kinds": ["message"]}, {"session": session.id}, {"types": ["fact"]}]
    for filters in narrowed:
        hits = memory.recall("tomatoes", user="alice", **filters)
        assert all(hit.source.kind is not SourceKind.DOCUMENT for hit in hits)
    assert len(memory.recall("tomatoes", user="alice", k=1)) == 1
    assert [hit.source.uri for hit in memory.recall("tomatoes", user="alice", kinds=["document"])] == ["MEMORY.md"]
    with Limpet.open(":memory:", config=Config.load(overrides=QUIET)) as other:
        assert other.recall("tomatoes", user="alice") == []


def test_recall_does_not_repeat_a_record_that_notes_say_too(memory: Limpet) -> None:
    memory.remember("The tomatoes stand in the north bed", user="alice")
    memory.notes.long_term(user="alice").write(NOTES)
    [hit] = memory.recall("Where are my tomatoes?", user="alice")
    assert hit.source.kind is SourceKind.RECORD


def test_context_cuts_memory_file_by_relevance_and_not_from_its_end(memory: Limpet) -> None:
    filler = "".join(f"- Item {number} of the shed is a wooden box with nails\n" for number in range(400))
    memory.notes.long_term(user="alice").write(f"{filler}- The tomatoes stand in the north bed\n")
    context = memory.context("Where are my tomatoes?", user="alice", max_tokens=300)
    assert context.text.count("tomatoes") == 1
    assert "Item 399" not in context.text
    assert any("Item 399" in dropped.what for dropped in context.dropped)
