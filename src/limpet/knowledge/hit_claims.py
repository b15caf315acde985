"""Hits, each with the claim that it states, and all that their messages taught."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field

from limpet.knowledge.outdated import mark_outdated
from limpet.knowledge.prominence import DOUBTED_BY, FOLLOWS, is_doubtful
from limpet.knowledge.repository import Records
from limpet.model.chunk import Hit, Source, SourceKind
from limpet.model.dataclass import dataclass, replace
from limpet.model.record import Origin, Record
from limpet.model.scope import Partition
from limpet.search.search import SearchRequest
from limpet.sessions.repository import Messages
from limpet.store.tx import Query, Tx

_COVERED = 0.6  # share of a message that its claims quote, from which they stand for it


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
        """What the words of this hit taught, in their order."""
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
    """The claim's sentence, with the message as its source."""
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
