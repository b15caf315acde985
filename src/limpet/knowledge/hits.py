"""Hits of a recall: which state anything, the claims and lines of MEMORY.md among them, and why each was found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from typing import NamedTuple

from limpet.knowledge.outdated import MessageDoubts, mark_outdated
from limpet.knowledge.prominence import DOUBTED_BY, FOLLOWS, is_doubtful
from limpet.knowledge.repository import Records
from limpet.knowledge.similarity import is_near_duplicate
from limpet.model.chunk import Hit, Signal, Source, SourceKind
from limpet.model.dataclass import dataclass, replace
from limpet.model.late import load_modules
from limpet.model.message import Role
from limpet.model.note import MEMORY_FILE
from limpet.model.record import Origin, Record
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
from limpet.sessions.repository import Messages
from limpet.store.tx import Query, Tx

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
_COVERED = 0.6  # share of a message that its claims quote, from which they stand for it
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


def doubt_message(hit: Hit, doubts: MessageDoubts) -> Hit:
    """Name what was said since in the hit of a user's message that taught nothing: it may be untrue by now."""
    source = hit.source
    if source.kind is not SourceKind.MESSAGE or source.role != Role.USER:
        return hit
    later = doubts.find(hit.text, source.created_at)
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


@dataclass(slots=True)
class Item:
    """A hit, and the claim it states. The hit is changed once, when it is among those that are returned."""

    hit: Hit
    claim: Record | None = None
    match: float = 0.0  # how much of the question its claim holds
    taught: bool = False  # a message that something was learned from
    found_alone: bool = False  # a learned claim that search found, and not its message
    replaced: bool = False  # a message in whose place the claim is returned
    score: float = field(init=False)

    def __post_init__(self) -> None:
        self.score = self.hit.score

    @property
    def identity(self) -> object:
        """The message it is from, or what else it is: a claim and its message are one hit."""
        source = self.hit.source
        if source.session_id is not None and source.first_sequence is not None and self.is_learned:
            return source.session_id, source.first_sequence
        if self.claim is not None:
            return self.claim.id
        return source.kind, source.id, source.first_sequence, source.offset, self.hit.text

    @property
    def place(self) -> tuple[str | None, int | None]:
        return self.hit.source.session_id, self.hit.source.first_sequence

    @property
    def is_learned(self) -> bool:
        return self.claim is not None or self.taught

    @property
    def says_more(self) -> bool:
        """Whether it is a message of which its claims tell only a part."""
        return self.hit.source.kind is SourceKind.MESSAGE and not self.replaced


class HitClaims:
    """What the messages among the hits taught, with what took its place since."""

    def __init__(self, tx: Tx, partition: Partition, reads: Sequence[Query], wanted: SearchRequest) -> None:
        self._tx, records = tx, Records(tx)
        found = records.find_of_chunks(partition, reads) if reads else []
        later = {id_ for record in found if (id_ := find_later(record)) is not None}
        missing = sorted(later - {record.id for record in found})
        known = [*found, *records.get_many(partition, missing)]
        if not wanted.question.asks_back:
            known = mark_outdated(wanted.question.text, known)
        self.by_id = {record.id: record for record in known}
        self.follows = any(FOLLOWS in record.metadata for record in self.by_id.values())
        self._by_message: dict[tuple[str, int], list[Record]] = {}
        for record in known[: len(found)]:
            for sequence in record.source.sequences:
                self._by_message.setdefault((record.source.session_id or "", sequence), []).append(record)
        self._said: dict[tuple[str, int], str] = {}  # what the messages among the hits say
        self._now = wanted.now

    def add(self, records: Iterable[Record | None]) -> None:
        self.by_id |= {record.id: record for record in records if record is not None}
        self.follows = any(FOLLOWS in record.metadata for record in self.by_id.values())

    def attach(self, hits: Iterable[Hit]) -> Iterable[Item]:
        """The hits as they are, each with the claim that tells whether it holds."""
        for hit in hits:
            if hit.source.kind is SourceKind.RECORD:
                yield Item(hit, self.by_id.get(hit.source.id))
            else:
                yield Item(hit, self._find_past(self._find_taught(hit)))

    def _find_past(self, claims: Sequence[Record]) -> Record | None:
        """One of the claims of a message: half of them were taken back, or all have expired."""
        past = [each for each in claims if not self.holds(each) or DOUBTED_BY in each.metadata]
        ended = [each for each in past if find_later(each) is not None or each.valid_to is not None]
        if ended and 2 * len(ended) >= len(claims):
            return ended[0]
        return past[0] if past and len(past) == len(claims) else None

    def replace_messages(self, hits: Iterable[Hit]) -> list[Item]:
        """The hits as items: a message that its claims cover becomes those claims."""
        items: list[Item] = []
        for hit in hits:
            if hit.source.kind is SourceKind.RECORD:
                claim = self.by_id.get(hit.source.id)
                alone = claim is not None and claim.origin is Origin.EXTRACTED
                items.append(Item(hit if claim is None else place_hit(hit, claim), claim, found_alone=alone))
                continue
            self._said[hit.source.session_id or "", hit.source.first_sequence or 0] = hit.text
            claims = self._find_taught(hit)
            if not claims:
                items.append(Item(hit))
                continue
            quoted = sum(len(quote) for quote in {get_quote(each) for each in claims})
            if quoted >= _COVERED * len(hit.text.strip()):
                items += [Item(hit, each, replaced=True) for each in claims]
            else:
                items.append(Item(hit, self._find_past(claims), taught=True))
        return items

    def holds(self, record: Record) -> bool:
        return record.superseded_by is None and record.is_valid_at(self._now)

    def find_successor(self, record: Record) -> Record | None:
        """The record that holds in the place of this one, or may."""
        seen: set[str] = set()
        while (later := find_later(record)) is not None and later not in seen:
            seen.add(later)
            successor = self.by_id.get(later)
            if successor is None:
                return None
            record = successor
        return record if seen and self.holds(record) else None

    def show_whole(self, item: Item) -> None:
        """Show all that was said: which part of it changes what is known is not sure."""
        item.replaced = False
        claim, kind = item.claim, item.hit.source.kind
        if claim is not None and kind is SourceKind.RECORD and claim.source.sequences:
            place = claim.source.session_id, claim.source.sequences
            beside = [
                each
                for each in self.by_id.values()
                if (each.source.session_id, each.source.sequences) == place and self.holds(each)
            ]
            quotes = {text for each in beside if (text := get_quote(each))}
            said = self._read_said(claim) if len(quotes) > 1 else ""
            parts = sorted(quotes, key=lambda part: (said.find(part), part))
            whole = [part for part in parts if not any(part != each and part in each for each in parts)]
            item.hit = replace(item.hit, text=" ".join(whole))

    def _read_said(self, claim: Record) -> str:
        """The message a claim is from, which is read only where search did not find it."""
        session, sequence = claim.source.session_id or "", claim.source.sequences[0]
        if (said := self._said.get((session, sequence))) is None:
            scope = replace(claim.home.scope, session=session)
            found = Messages(self._tx).range(scope, sequence - 1, sequence + 1, 1)
            said = " ".join(each.searchable for each in found)
        return said

    def has_taught(self, hit: Hit) -> bool:
        return bool(self._find_at(hit.source))

    def find_stated(self, item: Item) -> list[Record]:
        """The claim of an item, and all that was learned from its message."""
        return [*([item.claim] if item.claim is not None else []), *self._find_at(item.hit.source)]

    def _find_at(self, source: Source) -> list[Record]:
        if not self._by_message:
            return []
        places = {(source.session_id or "", at) for at in (source.first_sequence, source.last_sequence) if at}
        return [record for place in sorted(places) for record in self._by_message.get(place, ())]

    def _find_taught(self, hit: Hit) -> list[Record]:
        taught = [
            record
            for record in self._find_at(hit.source)
            if not is_doubtful(record) or not self.holds(record) or DOUBTED_BY in record.metadata
        ]
        quoted = [(at, record) for record in taught if (at := hit.text.find(get_quote(record))) >= 0]
        return [record for _, record in sorted(quoted, key=lambda pair: (pair[0], pair[1].content))]


def find_later(record: Record) -> str | None:
    """The id of what took its place, or may have."""
    return record.superseded_by or record.metadata.get(DOUBTED_BY)


def get_quote(record: Record) -> str:
    return record.source.sentence or record.content


def to_claim_hit(hit: Hit, claim: Record) -> Hit:
    source = replace(hit.source, kind=SourceKind.RECORD, id=claim.id)
    return replace(hit, text=claim.content, source=source, metadata=describe_claim(claim))


def describe_claim(claim: Record) -> dict[str, str]:
    about = {"layer": claim.layer.value, "type": claim.type.value} | ({"key": claim.key} if claim.key else {})
    return {**claim.metadata, **about}


def place_hit(hit: Hit, claim: Record) -> Hit:
    """A record's hit with the message it was learned from. A doubtful one stands as it was said."""
    if is_doubtful(claim):
        hit = replace(hit, text=get_quote(claim))
    if claim.source.session_id is None or not claim.source.sequences or hit.source.session_id is not None:
        return hit
    first, last = claim.source.sequences[0], claim.source.sequences[-1]
    source: Source = replace(
        hit.source,
        session_id=claim.source.session_id,
        first_sequence=first,
        last_sequence=last,
        role="user",
        name=claim.source.speaker,
        created_at=claim.valid_from or hit.source.created_at,
    )
    return replace(hit, source=source)
