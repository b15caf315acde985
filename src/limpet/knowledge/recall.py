"""Recall that knows what holds.

A claim and the message it was learned from are one hit. What holds comes before what it replaced; a question about the
past reverses that. A user's question is not evidence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from limpet.knowledge import english
from limpet.knowledge.attributes import get_attribute
from limpet.knowledge.hits import (
    HitClaims,
    Item,
    describe_claim,
    doubt_message,
    explain_hit,
    find_later,
    get_quote,
    is_no_evidence,
    is_off_topic,
    names_unknown,
    only_asks_for,
    place_hit,
    to_claim_hit,
)
from limpet.knowledge.outdated import MessageDoubts, mark_outdated
from limpet.knowledge.prominence import DOUBT, DOUBTED_BY, FOLLOWS, PASSED, find_standing, is_doubtful, is_rule
from limpet.knowledge.repository import Records
from limpet.knowledge.similarity import find_content_stems, is_near_duplicate
from limpet.model.chunk import ChunkQuery, Hit, Signal, Source, SourceKind
from limpet.model.dataclass import replace
from limpet.model.message import Message
from limpet.model.record import Origin, Record
from limpet.model.scope import Partition, Scope
from limpet.providers.encoder import embed_text
from limpet.search.analysis import Question, count_shared_terms, find_terms
from limpet.search.search import PartitionSignals, SearchRequest, SearchSources, SignalCache, search
from limpet.sessions.repository import Messages
from limpet.store.tx import Params, Query, Tx

_SPARE = 10  # hits read beyond those asked for: some become one, some are left out
_ECHO = 0.5  # share of a message that only says again what a claim was learned from
_ANSWERS = 0.5  # share of the question's words that a claim has to hold to come first
_MOST_AHEAD = 3  # claims that come first for holding what is asked
_ENOUGH = 5  # hits, up to which what is known about the user is added
_KEYWORDS = 3  # words, up to which a query is not taken for a question
_KNOWN = 60  # claims among which the likeliest are chosen
_UNFOUND = 0.2  # score of what is added where search found nothing
_MOST_ADDED = 1  # successors that search did not find, or far below
_FARTHEST = 4  # places that a later statement moves up
_NEAR = 0.5  # of an earlier statement's similarity to the question, which a later one needs to come before it


def recall(
    tx: Tx,
    partition: Partition,
    wanted: SearchRequest,
    known: SignalCache | None = None,
    *,
    with_standing: bool = False,
) -> list[Hit]:
    """The best hits for a question, each statement once, what holds before what does not.

    ``with_standing``: where they are few, and the query is more than keywords, add what is known about the user.
    """
    if wanted.query.as_of is not None or wanted.recipe.record_recipe is not None:
        return search(tx, partition, wanted, known)
    extra = 2 * wanted.k if wanted.recipe.newer else 0
    reads: list[Query] = []

    def read_along(key: Params, ordinals: object) -> None:
        reads.append(Records.chunks_query(key, ordinals))
        tx.db.prefetch(reads[-1:])

    asked = replace(wanted, spare=_SPARE, spare_for_records=extra, read_along=read_along)
    known = {} if known is None else known
    found = search(tx, partition, asked, known)
    only_messages = wanted.query.kinds == (SourceKind.MESSAGE,)
    if not only_messages:
        found = [hit for hit in found if not is_no_evidence(hit, wanted.question)]
    claims = HitClaims(tx, partition, reads, wanted)
    if not only_messages:
        found = [hit for hit in found if claims.has_taught(hit) or not only_asks_for(hit, wanted.question)]
    if only_messages or not wanted.recipe.newer:  # the caller chose how to rank: only mark what does not hold
        return _finish([*claims.attach(found)][: wanted.k], wanted)
    if claims.by_id:
        items = _merge(_drop_unasked(_score(claims.replace_messages(found), wanted.question), known[partition]))
        items = _rank(items, claims, back=wanted.question.asks_back)
    else:  # nothing was learned from any of them
        items = [Item(hit) for hit in sorted(found, key=lambda hit: -hit.score)]
    items = _sort_scores(sorted(items, key=lambda item: is_off_topic(item.hit, wanted.question)))[: wanted.k]
    if with_standing and (more := _find_standing_claims(tx, partition, wanted, items, claims)[: wanted.k - len(items)]):
        claims.add(item.claim for item in more)
        items = _place_successors([*items, *more], claims, back=False)[: wanted.k]
    if not wanted.question.asks_back:
        doubts = MessageDoubts(wanted.question.text, claims.by_id.values())
        for item in items:
            if not item.is_learned:
                item.hit = doubt_message(item.hit, doubts)
        items = _sort_scores(_promote_later(items, claims, wanted.question))
    return _finish(items, wanted)


def _find_standing_claims(
    tx: Tx, partition: Partition, wanted: SearchRequest, found: Sequence[Item], claims: HitClaims
) -> list[Item]:
    """What is known about the user, where search found little for a question: the likeliest first.

    "Which tyres do I need?" shares no word with "The user drives a Dacia", and yet that is what it is about.
    """
    if len(found) >= _ENOUGH or wanted.query != ChunkQuery() or wanted.question.asks_back:
        return []
    asked = english.find_asked_subjects(wanted.question.text)
    if not asked and len(wanted.question.text.split()) <= _KEYWORDS:
        return []
    stated = (claims.find_stated(item) if item.says_more else [item.claim] for item in found)
    shown = {each.id for several in stated for each in several if each is not None}
    known = mark_outdated(wanted.question.text, find_standing(tx, partition, "", _KNOWN, wanted.now))
    said = {item.place: item for item in found if item.says_more}
    standing = [record for record in known if record.id not in shown and _find_message(record, said) is None]
    if not standing or (not english.speaks_of_user(wanted.question.text) and names_unknown(tx, partition, wanted)):
        return []
    question, terms = embed_text(wanted.question.text), frozenset(wanted.question.terms)
    scored = [(float(embed_text(each.content) @ question) + _match(each, terms, asked), each) for each in standing]
    least = min((item.score for item in found), default=_UNFOUND)
    items = []
    for score, record in sorted(scored, key=lambda pair: -pair[0])[:_ENOUGH]:
        source = Source(SourceKind.RECORD, record.id, record.created_at or wanted.now)
        hit = Hit(record.content, least * min(1.0, max(0.0, score)), {"known": Signal(1, score)}, source)
        items.append(Item(place_hit(hit, record), record))
    return items


def _drop_unasked(items: Sequence[Item], searched: PartitionSignals | None) -> list[Item]:
    """Rank by messages: a claim that search found by itself counts only where it holds what is asked.

    Where its message is gone, by retention or with its session, it stands for the message.
    """
    if searched is None or not any(item.found_alone for item in items):
        return list(items)
    said, catalogue = {item.identity for item in items if not item.found_alone}, searched.index.catalogue
    return [
        item
        for item in items
        if item.claim is None
        or not item.found_alone
        or item.match >= _ANSWERS
        or item.identity in said
        or not catalogue.has_message(item.claim.source.session_id, item.claim.source.sequences)
    ]


def _merge(items: Sequence[Item]) -> list[Item]:
    """Each message once, at its best place: by the claim that is asked for, else by what says most of it.

    A rule of the same message stands behind it: "I have two kids, Bram is allergic to nuts".
    """
    groups: dict[object, list[Item]] = {}
    for item in items:
        groups.setdefault(item.identity, []).append(item)
    best = [item for group in groups.values() for item in _choose(group)]
    claims = [item.claim for item in best if item.claim is not None and item.claim.source.sequences]
    stated = {text for claim in claims for text in (get_quote(claim), claim.content)}
    return [
        item
        for item in sorted(best, key=lambda each: -each.score)
        if item.is_learned or item.hit.source.kind is not SourceKind.MESSAGE or not _says_any(item.hit.text, stated)
    ]


def _choose(group: Sequence[Item]) -> list[Item]:
    if len(group) == 1:
        return [*group]
    chosen = max(group, key=_rate)
    chosen.score = max([item.score for item in group if not item.found_alone] or [chosen.score])
    if chosen.says_more or chosen.claim is None:
        return [chosen]
    beside = {item.claim.id: item for item in group if item.claim is not None and _is_rule(item.claim, chosen.claim)}
    for item in beside.values():
        item.score = chosen.score
    return [chosen, *beside.values()]


def _is_rule(claim: Record, chosen: Record) -> bool:
    """Whether a claim is a rule that the words of the chosen one do not say."""
    said, other = get_quote(claim), get_quote(chosen)
    return is_rule(claim) and not is_doubtful(claim) and said not in other and other not in said


def _rate(item: Item) -> tuple[float, bool, bool, float]:
    """What is asked for first, by a claim that names a value; else what search found best."""
    answers = item.match >= _ANSWERS
    names_value = answers and item.claim is not None and item.claim.value is not None
    return item.match if answers else 0.0, item.says_more, names_value, item.score


def _says_any(text: str, stated: Iterable[str]) -> bool:
    """Whether a message says what a claim does, perhaps with few words more: "You told me: …"."""
    return any(is_near_duplicate(text, each) or _makes_up(each.rstrip(".!"), text) for each in stated)


def _makes_up(part: str, text: str) -> bool:
    return len(part) >= _ECHO * len(text) and part in text


def _score(items: Sequence[Item], question: Question) -> Sequence[Item]:
    """How much of the question each claim holds, by its words and by those people use for its attribute."""
    terms = frozenset(question.terms)
    asked = english.find_asked_subjects(question.text)
    for item in items:
        if item.claim is not None:
            item.match = _match(item.claim, terms, asked)
    return items


def _match(claim: Record, terms: frozenset[int], asked: frozenset[str]) -> float:
    if not terms or claim.origin is Origin.TURN or (claim.subject is not None and claim.subject not in asked):
        return 0.0
    words = f"{claim.content} {claim.key or ''} {get_attribute(claim.attribute).words if claim.attribute else ''}"
    return count_shared_terms(terms, words) / len(terms)


def _rank(items: Sequence[Item], claims: HitClaims, *, back: bool) -> list[Item]:
    """By score, with the claims that hold what is asked first, and each past one below what took its place."""
    ahead = sorted((item for item in items if item.match >= _ANSWERS), key=lambda item: (-item.match, -item.score))
    first = [item for item in ahead if item.claim is not None and (back or claims.holds(item.claim))][:_MOST_AHEAD]
    chosen = {id(item) for item in first}
    ordered = first + [item for item in items if id(item) not in chosen]
    return _sort_scores(_place_successors(ordered, claims, back=back))


def _place_successors(items: Sequence[Item], claims: HitClaims, *, back: bool) -> list[Item]:
    """Put what holds now before what it took the place of, or behind it where the past is asked for.

    Few come from far below or were not found: each of them takes a place from what answers the question better.
    """
    by_claim = {item.claim.id: item for item in items if item.claim is not None}
    by_message = {item.place: item for item in items if item.claim is None and item.says_more}
    places = {id(item): at for at, item in enumerate(items)}
    placed: list[Item] = []
    used: set[int] = set()
    added = 0
    for at, item in enumerate(items):
        if id(item) in used:
            continue
        successor = None if item.claim is None else claims.find_successor(item.claim)
        newer = None if successor is None else by_claim.get(successor.id) or _find_message(successor, by_message)
        if successor is not None and (newer is None or places[id(newer)] - at > _FARTHEST):
            if added >= _MOST_ADDED:
                newer = None
            elif newer is None:
                newer = Item(_to_successor(item, successor), successor)
                by_claim[successor.id] = newer
                places[id(newer)] = at
            added += 1
        if newer is not None and item.claim is not None and item.claim.superseded_by is None:
            claims.show_whole(newer)
        if newer is None:
            placed.append(item)
        elif id(newer) in used:  # it came before
            placed.insert(placed.index(newer) if back else len(placed), item)
        else:
            placed += [item, newer] if back else [newer, item]
        used |= {id(item), id(newer or item)}
    return placed


def _find_message(claim: Record, items: Mapping[tuple[str | None, int | None], Item]) -> Item | None:
    """The message that a claim was learned from, where it was found too: it stands for the claim."""
    places = ((claim.source.session_id, sequence) for sequence in claim.source.sequences)
    return next((items[place] for place in places if place in items), None)


def _promote_later(items: Sequence[Item], claims: HitClaims, question: Question) -> list[Item]:
    """Move what was said later on the same subject before what was said earlier; the hits stay the same."""
    if not claims.follows and not any(DOUBTED_BY in item.hit.metadata for item in items):
        return list(items)
    ordered: list[tuple[Item, dict[str, Record]]] = []
    for item in items:
        stated = {each.id: each for each in claims.find_stated(item)}
        first = max(0, len(ordered) - _FARTHEST)
        places = (at for at in range(first, len(ordered)) if _comes_before(item, stated, *ordered[at], question))
        ordered.insert(next(places, len(ordered)), (item, stated))
    return [item for item, _ in ordered]


def _comes_before(
    item: Item, stated: Mapping[str, Record], other: Item, earlier: Mapping[str, Record], question: Question
) -> bool:
    """Whether a later statement takes an earlier one's place, or is as much about what is asked."""
    if other.hit.metadata.get(DOUBTED_BY) in stated:
        return True
    if not _follows(stated.values(), earlier):
        return False
    return any(find_later(each) in stated for each in earlier.values()) or _is_asked(item, other, question)


def _is_asked(item: Item, other: Item, question: Question) -> bool:
    """Whether an item has words in common with the question or the other item, or is about as near the question."""
    said, compared = item.hit.text, other.hit.text
    if not find_terms(said).isdisjoint(question.terms) or find_content_stems(said) & find_content_stems(compared):
        return True
    asked = embed_text(question.text)
    return bool(embed_text(said) @ asked >= _NEAR * (embed_text(compared) @ asked))


def _follows(later: Iterable[Record], earlier: Mapping[str, Record]) -> bool:
    """Whether one of the later claims is about the same as an earlier one, and not about another attribute."""
    return any(
        before.attribute is None or each.attribute is None or before.attribute == each.attribute
        for each in later
        for id_ in each.metadata.get(FOLLOWS, "").split()
        if (before := earlier.get(id_)) is not None
    )


def _sort_scores(items: Sequence[Item]) -> list[Item]:
    for item, score in zip(items, sorted((item.score for item in items), reverse=True), strict=True):
        item.score = score
    return list(items)


def _to_successor(item: Item, claim: Record) -> Hit:
    source = Source(SourceKind.RECORD, claim.id, claim.created_at or item.hit.source.created_at)
    signals = {"claim": Signal(1, item.score)}
    return place_hit(Hit(claim.content, item.score, signals, source, describe_claim(claim)), claim)


def _finish(items: Sequence[Item], wanted: SearchRequest) -> list[Hit]:
    terms = frozenset(wanted.question.terms)
    return [_mark(item, wanted.now, terms) for item in items]


def _mark(item: Item, now: datetime, terms: frozenset[int]) -> Hit:
    claim, hit = item.claim, item.hit
    if claim is None:
        why = explain_hit(hit.signals, shared=bool(terms & find_terms(hit.text)))
        return Hit(hit.text, item.score, hit.signals, hit.source, hit.metadata, hit.neighbours, why=why)
    if item.replaced:
        hit = to_claim_hit(hit, claim)
    ends = [end for end in (claim.valid_to, claim.expires_at) if end is not None and end <= now]
    until = min(ends, default=None)
    holds = until is None and claim.superseded_by is None
    metadata, signals = hit.metadata, hit.signals
    if holds and DOUBTED_BY in claim.metadata:
        metadata = {**metadata, **{name: each for name, each in claim.metadata.items() if name in (DOUBTED_BY, DOUBT)}}
    if until is not None and until == claim.expires_at and claim.superseded_by is None:
        metadata = {**metadata, PASSED: until.isoformat()}
    if item.match >= _ANSWERS:
        signals = {**signals, "claim": Signal(1, item.match)}
    return replace(
        hit,
        score=item.score,
        signals=signals,
        metadata=metadata,
        holds=holds,
        until=until,
        superseded_by=claim.superseded_by,
        why=explain_hit(signals, claim, holds=holds, shared=bool(terms & find_terms(f"{hit.text} {get_quote(claim)}"))),
    )


def _read_records(tx: Tx, partition: Partition, ids: Sequence[str]) -> Sequence[Record]:
    return Records(tx).get_many(partition, list(ids))


def _read_around(tx: Tx, scope: Scope, sequence: int, count: int) -> tuple[Message, ...]:
    """Compare by position, not by number: numbers may have gaps."""
    messages = Messages(tx)
    return (*messages.recent(scope, count, sequence), *messages.range(scope, sequence, None, count))


SEARCH_SOURCES = SearchSources(_read_records, _read_around)
