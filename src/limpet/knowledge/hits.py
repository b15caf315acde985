"""Hits of a recall: which state anything, the lines of MEMORY.md among them, and why each was found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from limpet.knowledge.outdated import find_doubt
from limpet.knowledge.prominence import DOUBTED_BY
from limpet.knowledge.similarity import is_near_duplicate
from limpet.model.chunk import Hit, Signal, Source, SourceKind
from limpet.model.dataclass import replace
from limpet.model.late import load_modules
from limpet.model.message import Role
from limpet.model.note import MEMORY_FILE
from limpet.model.record import Record
from limpet.model.scope import Partition
from limpet.providers.encoder import embed_text
from limpet.search import english
from limpet.search.analysis import (
    Question,
    TextFlag,
    count_shared_terms,
    find_terms,
    flag_message,
    only_requests,
    says_nothing,
)
from limpet.search.recipes import WORDS
from limpet.search.search import SearchRequest, search
from limpet.store.tx import Tx

_VERBS = frozenset("likes dislikes prefers owns eats drinks uses wants speaks plays".split())
_SAID = 5  # of these signals, the first are about what a text says
_SIGNALS = {
    "claim": "it states what is asked",
    "exact": "it has nearly all words of the question",
    "words": "it has words of the question",
    "vectors": "it means something similar",
    "known": "it is known about whom the question is about",
    "time": "it is from the time that the question names",
    "entity": "it names what the question names",
    "community": "it is about the surroundings of what the question names",
    "session": "it was said beside what answers the question",
    "speaker": "it was said by whom the question is about",
}
_BY_WORDS = ("exact", "words")
_LAST = 1 << 62  # behind every rank
_PLACES = {name: place for place, name in enumerate(_SIGNALS)}
_ANSWERS = 0.5  # share of the question's words that a line of MEMORY.md has to hold
_MOST_LINES = 3
_SHORT = 160  # characters of a wish at most
_NEAR = 0.28  # similarity to the question from which it may be about it in other words
_COMPARED = 400  # characters of a hit: to embed a long one takes long
_NOT_FAR = 0.1  # the same of what a user states, and of a number where one is asked for


def explain_hit(signals: Mapping[str, Signal], claim: Record | None = None, *, shared: bool, holds: bool = True) -> str:
    """One sentence for people. ``shared``: whether it has words of the question."""
    by = _find_reason(signals, shared=shared)
    what = "" if claim is None else _describe(claim)
    if not holds:
        return f"Found because {by}{what}, and no longer holds."
    doubt = "" if claim is None or DOUBTED_BY not in claim.metadata else ", and perhaps no longer holds"
    return f"Found because {by}{what}{doubt}."


def _find_reason(signals: Mapping[str, Signal], *, shared: bool) -> str:
    """What a text says explains a hit better than where and by whom it was said."""
    best, reason = (_LAST, _LAST), "nothing fits better"
    for name, signal in signals.items():
        place = _PLACES.get(name)
        if place is None or not signal.score > 0 or not (shared or name not in _BY_WORDS):
            continue
        found = (signal.rank if place < _SAID else _LAST, place)
        if found < best:
            best, reason = found, _SIGNALS[name]
    return reason


def _describe(claim: Record) -> str:
    """Whose what a claim states, in words: "(Tom's birthday)"."""
    attribute = (claim.attribute or "").partition(":")[0].replace("_", " ")
    role = (claim.subject or "").rpartition("/")[2]
    if not attribute or role in ("", "project", "somebody"):
        return ""
    whose = "the user" if role == "user" else f"the user's {role}" if "/" in (claim.subject or "") else role.title()
    return f" (what {whose} {attribute})" if attribute in _VERBS else f" ({whose}'s {attribute})"


def is_no_evidence(hit: Hit, question: Question) -> bool:
    """Whether it is a question of the user's, or a reply that only takes notice: neither states anything."""
    if hit.source.kind is not SourceKind.MESSAGE or hit.source.name is not None:  # people ask each other
        return False
    if hit.source.role == "user":
        return "?" in hit.text and bool(flag_message(hit.text) & TextFlag.ONLY_ASKS) and not question.asks_back
    return hit.source.role == "assistant" and says_nothing(hit.text)


def only_asks_for(hit: Hit, question: Question) -> bool:
    """Whether it is a request of the user's: it states nothing, unless something was learned from it."""
    if hit.source.kind is not SourceKind.MESSAGE or hit.source.name is not None or hit.source.role != Role.USER:
        return False
    return not (question.asks_back or question.about_assistant) and only_requests(hit.text)


def names_unknown(tx: Tx, partition: Partition, wanted: SearchRequest) -> bool:
    """Whether it names someone or something that nothing stored contains: "What's the weather in Nairobi?"."""
    load_modules("limpet.knowledge.graph.names")
    from limpet.knowledge.graph.names import find_entities  # late: it has many patterns

    names = " ".join(entity.name for entity in find_entities(wanted.question.text))
    named = replace(wanted, question=Question.parse(names, wanted.question.at), recipe=WORDS, k=1, meaning=None)
    return bool(names) and not search(tx, partition, named)


def doubt_message(hit: Hit, question: str, claims: Iterable[Record]) -> Hit:
    """Name what was said since in the hit of a user's message that taught nothing: it may be untrue by now."""
    source = hit.source
    if source.kind is not SourceKind.MESSAGE or source.role != Role.USER:
        return hit
    later = find_doubt(question, hit.text, source.created_at, claims)
    return hit if later is None else replace(hit, metadata={**hit.metadata, DOUBTED_BY: later})


def is_off_topic(hit: Hit, question: Question) -> bool:
    """Return whether it is a reply, a wish or long past, and has nothing to do with the question."""
    if question.about_assistant or question.asks_back or not (least := _find_least(hit, question)):
        return False
    asked = [term for term, weight in question.weigh_terms(0.0).items() if weight]
    return find_terms(hit.text).isdisjoint(asked) and bool(
        embed_text(hit.text[:_COMPARED]) @ embed_text(question.text) < least
    )


def _find_least(hit: Hit, question: Question) -> float:
    """How near the question a hit without words of it has to be. What is past, asks or answers needs most."""
    source, text = hit.source, hit.text.strip()
    if not hit.holds:
        return _NEAR
    if source.kind is not SourceKind.MESSAGE or source.name is not None:
        return 0.0  # people who have names talk to each other
    if source.role == Role.ASSISTANT:
        is_amount = any(map(str.isdigit, text)) and english.ASKS_AMOUNT.search(question.text) is not None
        return _NOT_FAR if is_amount else _NEAR
    is_wish = len(text) <= _SHORT and english.ASKS_FOR.match(text) is not None
    return _NEAR if is_wish else _NOT_FAR


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
    lines = [_to_hit(line, match, written_at) for match, line in best if not _is_said(line.text, hits)][:_MOST_LINES]
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
