"""Long-term records: saved, changed and removed, each in one transaction with its history and its chunks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from datetime import datetime, timedelta

from limpet.config import ChunkSettings, Config, LearningSettings
from limpet.errors import InvalidInput, RecordNotFound, WrongState
from limpet.knowledge.attributes import get_attribute
from limpet.knowledge.repository import Records
from limpet.model.chunk import ChunkDraft, ChunkSource, SourceKind, Vector
from limpet.model.dataclass import dataclass, replace
from limpet.model.job import CONSOLIDATE, DECAY, EXTRACT, GRAPH, GRAPH_RECORD
from limpet.model.record import Forgotten, Origin, Record, RecordChanges, RecordQuery
from limpet.model.scope import Level, Owner, Partition, Scope
from limpet.model.session import SessionInfo
from limpet.model.types import MAX_TAGS
from limpet.model.values import from_micros, is_internal, split_pages
from limpet.search.analysis import add_words, analyse, extract_terms
from limpet.search.chunk_repository import Chunks
from limpet.search.embed import ChunkEmbedder, chunk_text
from limpet.sessions.extract import LearnedSentence
from limpet.sessions.repository import Sessions
from limpet.store.jobs import Jobs
from limpet.store.tx import Tx

DAY = timedelta(days=1)
REPLY_TIME = timedelta(minutes=1)  # then a message is learned from without a reply
_SUBJECT = re.compile(r"\b[Tt]he user(?:['’]s)?\b")
_TURN_LABEL = re.compile(r"(?:^|\| )(?:Asked|Answered): ")  # in the record of a turn
# How a reply begins that takes notice of what was said, and says nothing itself.
_ACKNOWLEDGEMENT = re.compile(
    r"(?:^|(?<=[.!?:] ))(?:(?:duly )?noted|ok(?:ay)?|sure|got it|understood|thanks|thank you|all ?right|great|done"
    r"|i see|will do|i(?:['’]ll| will) (?:remember|note)(?: that)?"
    r"|i(?:['’]ve| have) (?:noted|saved)(?: that)?)\b[.!,:]*",
    re.IGNORECASE,
)
# They repeat messages, which search finds already.
_COPIES_PAGE = 500  # records whose copies are looked for at once
_DERIVED_ORIGINS = (Origin.TURN, Origin.CONDENSED)


@dataclass(frozen=True, slots=True)
class RecordChunker:
    """How a record becomes chunks, with the vectors of those texts whose are known; others get theirs later."""

    config: ChunkSettings
    vectors: Mapping[str, Vector] = field(default_factory=dict)
    for_graph: bool = True  # whether the graph reads the record

    @classmethod
    def of(cls, config: Config) -> RecordChunker:
        return cls(config.chunks, for_graph=config.graph.enabled)

    def build_drafts(self, record: Record) -> list[ChunkDraft]:
        drafts = chunk_text(searchable_text(record), self.config.max_chars, self.config.overlap)
        words = find_words(record)
        if words:
            drafts = [draft._replace(terms=analyse(add_words(draft.text, words))) for draft in drafts]
        return [draft._replace(vector=self.vectors.get(draft.text)) for draft in drafts]

    def with_vectors(self, embedder: ChunkEmbedder, *records: Record) -> RecordChunker:
        """Made before the transaction, for the texts of one owner's records if nothing else is known of them yet."""
        if not records:
            return self
        wanted = [draft for record in records for draft in self.build_drafts(record)]
        drafts = embedder.embed_drafts(records[0].home.space, wanted)
        return replace(self, vectors={draft.text: draft.vector for draft in drafts if draft.vector is not None})


def find_words(record: Record) -> str | None:
    """What people call the attribute of a claim: "Where do I live?" finds a home."""
    return get_attribute(record.attribute).words or None if record.attribute else None


def merge_labels(lists: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """All of them, each once, as many as a record may have."""
    return tuple(dict.fromkeys(label for labels in lists for label in labels))[:MAX_TAGS]


def full_text(record: Record) -> str:
    return f"{record.title}\n{record.content}" if record.title else record.content


def searchable_text(record: Record) -> str:
    """What search finds of it: nothing of an archived record, nor of one that repeats messages."""
    silent = record.archived_at is not None or record.origin in _DERIVED_ORIGINS or is_internal(record.key)
    return "" if silent else full_text(record)


def save(
    tx: Tx, draft: Record, changes: RecordChanges, cut: RecordChunker, now: datetime, *, anonymous: bool = False
) -> Record:
    """Insert the record, or change the one that has its id or its key already.

    One that the caller gave neither id nor key (``anonymous``) is the explicit record that says the same, if there is.
    """
    home = draft.home
    if home.scope.session is not None:
        Sessions(tx).lock(home.scope)
    old = Records(tx).lock(home.scope, draft.id)
    if old is not None and old.home != home:
        raise WrongState(f"record {draft.id} belongs to its {old.level}; saving it elsewhere would move or share it")
    if old is None and "key" in changes.values:
        old = Records(tx).find_by_key(home, changes.values["key"])
    if old is not None:
        source = draft.source if draft.source.session_id is not None else old.source
        return rewrite(tx, old, changes.apply_to(replace(_clear_end(old, now), source=source)), cut, now)
    wanted = changes.apply_to(draft)
    if anonymous:
        Chunks(tx).lock(home.space)  # else two callers insert the same at once
        if (same := _find_same(tx, wanted, changes, now)) is not None:
            return _count_repeat(tx, same, changes, cut, now)
    return insert(tx, wanted, cut)


def _find_same(tx: Tx, wanted: Record, changes: RecordChanges, now: datetime) -> Record | None:
    """The oldest explicit record of the owner that states the same, holds, and differs in no label."""
    found = Records(tx).find_by_fingerprint(wanted.home.space, wanted.fingerprint)
    same = [
        record
        for record in found
        if record.home == wanted.home and record.origin is Origin.EXPLICIT and not is_internal(record.key)
        # Another caller may have taken its time later, and written first.
        if record.layer is wanted.layer and record.is_current_at(max(now, record.created_at or now))
        if _agrees(record, changes)
    ]
    return min(same, key=lambda record: record.id, default=None)


def _agrees(record: Record, changes: RecordChanges) -> bool:
    """Whether a repetition can be counted to the record without taking anything from it."""
    return all(
        changes.values.get(name) in (None, getattr(record, name)) for name in ("title", "metadata", "valid_from")
    )


def _count_repeat(tx: Tx, old: Record, changes: RecordChanges, cut: RecordChunker, now: datetime) -> Record:
    """Said again: counted. What the repetition adds, such as a tag, is a change with its history."""
    Records(tx).update_confidence(old.home.space, old.id, old.confidence, 1, now)
    current = Records(tx).lock(old.home.scope, old.id) or old
    added = dict(changes.values)
    added["content"] = old.content
    for name in ("tags", "references"):
        added[name] = merge_labels((getattr(old, name), added.get(name, ())))
    ends = old.expires_at, added.pop("expires_at", None)
    added["expires_at"] = max(end for end in ends if end) if all(ends) else None  # it lasts as long as any of them
    return rewrite(tx, current, RecordChanges(added).apply_to(current), cut, now)


def insert(tx: Tx, record: Record, cut: RecordChunker, external_id: str | None = None) -> Record:
    """Store a new record. ``external_id``: what another program called it; it is found by that too."""
    Records(tx).insert(record.home, record, external_id)
    index(tx, record, cut)
    _enqueue_graph(tx, record, cut)
    return record


def _clear_end(old: Record, now: datetime) -> Record:
    """What is said again is true again: the end an earlier saying came to must not swallow the new one."""
    expired = old.expires_at is not None and old.expires_at <= now
    ended = old.valid_to is not None and old.valid_to <= now
    return replace(
        old,
        expires_at=None if expired else old.expires_at,
        valid_to=None if ended else old.valid_to,
        superseded_by=None,
        archived_at=None,
    )


def update(tx: Tx, scope: Scope, record_id: str, changes: RecordChanges, cut: RecordChunker, now: datetime) -> Record:
    old = Records(tx).lock(scope, record_id)
    if old is None:
        raise RecordNotFound(f"no record {record_id} here")
    return rewrite(tx, old, changes.apply_to(old), cut, now)


def rewrite(tx: Tx, old: Record, wanted: Record, cut: RecordChunker, now: datetime) -> Record:
    """Make a record say what is wanted; what it said goes to its history. The same again changes nothing."""
    # A clock that was set back must not make a version end before it began.
    updated_at = max(now, old.updated_at or now)
    record = replace(wanted, updated_at=updated_at, version=old.version + 1)
    if record == replace(old, updated_at=updated_at, version=old.version + 1):
        return old
    Records(tx).replace(old.home, record)
    if searchable_text(record) != searchable_text(old):
        Chunks(tx).drop_record(old.home.space, old.id)
        index(tx, record, cut)
    if _graph_fields(record) != _graph_fields(old):
        _enqueue_graph(tx, record, cut)
    return record


def _graph_fields(record: Record) -> tuple[object, ...]:
    return searchable_text(record), record.subject, record.attribute, record.value, record.polarity


def _enqueue_graph(tx: Tx, record: Record, cut: RecordChunker) -> None:
    """Due since ever, whatever clock looks."""
    if cut.for_graph and searchable_text(record):
        due = from_micros(0)
        Jobs(tx).enqueue(record.home.space, GRAPH_RECORD, record.id, record.updated_at or due, due)


def index(tx: Tx, record: Record, cut: RecordChunker) -> None:
    """Store what search will find of a stored record."""
    assert record.created_at is not None
    source = ChunkSource(
        kind=SourceKind.RECORD,
        id=record.id,
        created_at=record.created_at,
        session_id=record.session_id,
        worded_at=record.updated_at,
        name=find_words(record),
    )
    Chunks(tx).add(record.home.space, source, cut.build_drafts(record))


def find_with_copies(tx: Tx, scope: Scope, record_ids: Sequence[str]) -> list[Record]:
    """These records with every copy of what they say: promoted ones and their origins, twins, what was made of them.

    Ids that are not there do not count. What somebody stated for themselves is no copy of anything.
    """
    chosen = [record for id in record_ids if (record := Records(tx).get(scope, id)) is not None]
    # A day that is forgotten is so with all its turns; one that goes for the sake of one turn leaves the others.
    waiting = [*chosen, *(turn for day in chosen if _is_condensed(day) for turn in _load_inputs(tx, day))]
    found: dict[str, Record] = {}
    while waiting:
        new = {record.id: record for record in waiting if record.id not in found}
        found |= new
        waiting = [copy for page in split_pages(list(new.values()), _COPIES_PAGE) for copy in _find_copies(tx, page)]
    return list(found.values())


def _find_copies(tx: Tx, records: Sequence[Record]) -> list[Record]:
    """Of all of them at once: a question for each would look through the owner's records each time."""
    copies: list[Record] = []
    for space in dict.fromkeys(record.home.space for record in records):
        here = {record.id: record for record in records if record.home.space == space}
        everybody = Partition(space.tenant, Level.GLOBAL, "")
        made = [other for each in {space, everybody} for other in Records(tx).find_derived_from(each, list(here))]
        copies += [
            other
            for other in made
            if other.origin in (Origin.PROMOTED, Origin.CONDENSED)
            or any(_has_absorbed(other, here[id]) for id in other.inputs if id in here)
        ]
        said = {(each.home, each.fingerprint) for each in here.values() if each.origin is not Origin.CONDENSED}
        twins = Records(tx).find_by_fingerprints(space, sorted({fingerprint for _, fingerprint in said}))
        twins = [twin for twin in twins if (twin.home, twin.fingerprint) in said]
        copies += [twin for twin in twins if not twin.pinned and twin.origin is not Origin.EXPLICIT]
    return copies + [each for record in records for each in _load_replaced(tx, record)]


def _load_replaced(tx: Tx, record: Record) -> list[Record]:
    """Of what it was merged with, what gave way to it says the same; of a promoted one, all."""
    if record.origin is Origin.CONDENSED:
        return []
    promoted = record.origin is Origin.PROMOTED
    return [each for each in _load_inputs(tx, record) if promoted or each.superseded_by == record.id]


def _has_absorbed(record: Record, twin: Record) -> bool:
    """Whether the twin was merged into the record and is not explicit itself."""
    return twin.superseded_by == record.id and not record.pinned and record.origin is not Origin.EXPLICIT


def _load_inputs(tx: Tx, record: Record) -> list[Record]:
    anywhere = Scope(record.home.scope.tenant)
    return [each for id in record.inputs if (each := Records(tx).get(anywhere, id)) is not None]


def _is_condensed(record: Record) -> bool:
    return record.origin is Origin.CONDENSED and not is_internal(record.key)


def delete_records(tx: Tx, records: Sequence[Record], cut: RecordChunker, now: datetime) -> Forgotten:
    """Remove records. What was condensed into one of them, and stays, comes back to be condensed again."""
    totals: Counter[str] = Counter()
    for space in dict.fromkeys(record.home.space for record in records):
        ids = [record.id for record in records if record.home.space == space]
        totals["chunks"] += Chunks(tx).drop_records(space, ids) if len(ids) > 1 else 0
    for record in records:
        totals.update(Records(tx).delete(Scope(record.home.scope.tenant), record.id))
    for left in (turn for day in records if _is_condensed(day) for turn in _load_inputs(tx, day)):
        if left.archived_at is not None:
            rewrite(tx, left, replace(left, archived_at=None), cut, now)
    return Forgotten(totals, tuple(record.id for record in records))


RecordSelector = Callable[[Tx], list[str]]


def select_by_id(scope: Scope, record_id: str) -> RecordSelector:
    def choose(tx: Tx) -> list[str]:
        if Records(tx).get(scope, record_id) is None:
            raise RecordNotFound(f"no record {record_id} here; nothing was forgotten")
        return [record_id]

    return choose


def select_by_key(home: Owner, key: str) -> RecordSelector:
    def choose(tx: Tx) -> list[str]:
        found = Records(tx).find_by_key(home, key, lock=False)
        if found is None:
            raise RecordNotFound(f"no memory with the key {key!r} here; nothing was forgotten")
        return [found.id]

    return choose


def select_by_words(home: Owner, words: str, now: datetime) -> RecordSelector:
    """The owner's records that hold every word of the text, in whatever form, and of which a word of it was said."""
    wanted = set(extract_terms(words))
    if not wanted:
        raise InvalidInput("the query has no word to look for; nothing was forgotten")

    def choose(tx: Tx) -> list[str]:
        records = Records(tx).find(home.scope, RecordQuery(include_past=True, limit=None), now)
        # A scope does not say which level is meant: the tenant's own memories are not everybody's.
        own = [record for record in records if record.home.space == home.space]
        return [record.id for record in own if _holds_words(record, wanted)]

    return choose


def find_learned_sentences(tx: Tx, scope: Scope, now: datetime) -> list[LearnedSentence]:
    """Return the sentences of a session from which something was learned, and whether that still holds."""
    assert scope.session is not None
    return [
        LearnedSentence(sequence, record.source.sentence, record.superseded_by is None and record.is_valid_at(now))
        for record in Records(tx).find_learned_from(scope.partition, scope.session)
        if record.source.sentence is not None
        for sequence in record.source.sequences
    ]


def _holds_words(record: Record, wanted: set[int]) -> bool:
    """A learned sentence has words of the engine: "I'm 34" is "34 years old", and a name is what one "is called"."""
    if not wanted <= analyse(_spoken_text(record)).counts.keys():
        return False
    said = None if record.origin is Origin.EXPLICIT else record.source.sentence
    return said is None or not wanted.isdisjoint(analyse(said).counts)


def _spoken_text(record: Record) -> str:
    """What a record says, without the words that the engine puts around what was said."""
    if record.origin is Origin.CONDENSED:  # made of turns, which say it themselves
        return ""
    if record.origin is Origin.TURN:
        asked, _, answered = full_text(record).partition("| Answered: ")
        return _TURN_LABEL.sub(" ", f"{asked} {_ACKNOWLEDGEMENT.sub(' ', answered)}")
    return full_text(record) if record.origin is Origin.EXPLICIT else strip_subject(full_text(record))


def strip_subject(text: str) -> str:
    """The text without "the user", which the engine puts there for whom it is about."""
    return _SUBJECT.sub(" ", text)


def enqueue_learning(tx: Tx, info: SessionInfo, config: Config, now: datetime, run_at: datetime) -> None:
    """Jobs to learn from what the session has by then, and to read it for the graph."""
    if config.learn.extractor != "none":
        Jobs(tx).enqueue(info.partition, EXTRACT, info.id, now, run_at)
    if config.graph.enabled:
        Jobs(tx).enqueue(info.partition, GRAPH, info.id, now, run_at)


def enqueue_maintenance(tx: Tx, space: Partition, limits: LearningSettings, now: datetime) -> None:
    """After something was learned: consolidation and decay run some time later."""
    if limits.consolidate or limits.promote or limits.profile:
        Jobs(tx).enqueue(space, CONSOLIDATE, "", now, now + timedelta(hours=limits.consolidate_hours))
    if limits.decay:
        Jobs(tx).enqueue(space, DECAY, "", now, now + DAY)
