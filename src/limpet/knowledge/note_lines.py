"""MEMORY.md in recall: lines that hold what is asked, found by their words and those of their heading."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from limpet.knowledge.similarity import is_near_duplicate
from limpet.model.chunk import Hit, Signal, Source, SourceKind
from limpet.model.dataclass import replace
from limpet.model.note import MEMORY_FILE
from limpet.search.analysis import Question, count_shared_terms
from limpet.search.search import SearchRequest

_ANSWERS = 0.5  # share of the question's words that a line has to hold
_MOST = 3  # lines at most


class _Line(NamedTuple):
    text: str
    offset: int
    heading: str


def wants_notes(wanted: SearchRequest) -> bool:
    """Return whether a search may answer with lines of MEMORY.md: they have no session, time or labels."""
    query, recipe = wanted.query, wanted.recipe
    filters = (query.session, query.since, query.until, query.as_of, query.records)
    kinds = not query.kinds or SourceKind.DOCUMENT in query.kinds
    return kinds and recipe.words > 0 and recipe.record_recipe is None and all(each is None for each in filters)


def add_note_lines(hits: list[Hit], text: str, question: Question, written_at: datetime, k: int) -> list[Hit]:
    """The hits with the lines of the file that answer, behind what answers better. A line that repeats a hit is not."""
    terms = frozenset(question.terms)
    if not terms:
        return hits
    found = [(count_shared_terms(terms, f"{line.heading} {line.text}") / len(terms), line) for line in _split(text)]
    best = sorted((pair for pair in found if pair[0] >= _ANSWERS), key=lambda pair: (-pair[0], pair[1].offset))
    lines = [_to_hit(line, match, written_at) for match, line in best if not _is_said(line.text, hits)][:_MOST]
    if not lines:
        return hits
    least = lines[0].score
    at = next((at for at, hit in enumerate(hits) if _match(hit) < least), len(hits))
    score = hits[at].score if at < len(hits) else hits[-1].score if hits else None
    placed = [line if score is None else replace(line, score=score) for line in lines]
    return [*hits[:at], *placed, *hits[at:]][:k]


def _split(text: str) -> Iterator[_Line]:
    heading, offset = "", 0
    for line in text.splitlines(keepends=True):
        said = line.strip()
        if said.startswith("#"):
            heading = said.lstrip("# ")
        elif said:
            yield _Line(said, offset + line.index(said), heading)
        offset += len(line)


def _match(hit: Hit) -> float:
    """How much of the question a hit holds, where recall ranked it by that."""
    return hit.signals["claim"].score if "claim" in hit.signals else 0.0


def _is_said(line: str, hits: Sequence[Hit]) -> bool:
    return any(is_near_duplicate(line.lstrip("-* "), hit.text) for hit in hits)


def _to_hit(line: _Line, match: float, written_at: datetime) -> Hit:
    end = line.offset + len(line.text)
    source = Source(SourceKind.DOCUMENT, MEMORY_FILE, written_at, uri=MEMORY_FILE, offset=line.offset, end_offset=end)
    why = f"Found by its words: a line of {MEMORY_FILE}."
    return Hit(line.text, match, {"words": Signal(1, match)}, source, why=why)
