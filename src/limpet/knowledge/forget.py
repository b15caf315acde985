"""Forgetting: records with every copy of what they say, also in the messages, summaries and notes they came from.

The sentence a record was learned from is taken out of its message, and the message is cut, indexed and read again.
What goes is chosen in a read, and removed in slices, so that nobody waits long; each slice looks whether it is still
what was chosen, and in the end it is chosen again until nothing is left. The user's notes come first, then summaries
and messages, and the records last: if the process is killed in between, they lead to the words when they are forgotten
again. Afterwards a search looks for what may still say it.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from datetime import date, datetime, timedelta
from functools import partial

from limpet.config import Config
from limpet.errors import ConfigError, MigrationError, RecordNotFound, StorageError
from limpet.knowledge import redact, remember
from limpet.knowledge.redact import OneTransaction, SessionRedactor, Transactions, find_masked
from limpet.knowledge.remaining import FORGOTTEN_MARK, Place, RemainingFinder, find_turns
from limpet.knowledge.remember import RecordChunker, RecordSelector
from limpet.knowledge.repository import Records
from limpet.model.chunk import ChunkQuery, SourceKind
from limpet.model.dataclass import dataclass, replace
from limpet.model.job import GRAPH_RECORD
from limpet.model.late import load_modules
from limpet.model.note import day_name, describe_note, redact_lines
from limpet.model.record import Forgotten, Origin, Record, RecordQuery
from limpet.model.scope import Partition, Scope, user_partition
from limpet.model.tokens import TokenCounter
from limpet.model.values import Clock, split_pages
from limpet.notes.user_notes import UserNotes
from limpet.search import recipes
from limpet.search.analysis import Question
from limpet.search.graph_repository import GraphTables
from limpet.search.search import SearchRequest, search
from limpet.security.mask import has_mark
from limpet.sessions.repository import Messages
from limpet.store.jobs import Jobs
from limpet.store.store import Store
from limpet.store.tx import Tx

log = logging.getLogger("limpet.forget")

_Line = tuple[Partition, str, int]  # a line of a note
_MAX_PLACES = 100  # places that still say it, named at most; of more it is said how many
_MAX_MENTIONS = 1000  # passages among which the same is looked for once more
_MAX_ROUNDS = 5  # while others go on writing what is forgotten


@dataclass(slots=True)
class Provenance:
    """Where records came from: for each message, the words that are to go."""

    said: dict[tuple[str, str], dict[int, set[str]]] = field(default_factory=lambda: defaultdict(dict))
    days: dict[str, set[date]] = field(default_factory=lambda: defaultdict(set))
    secrets: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))  # of each user, masked in the words

    def add(self, record: Record) -> None:
        source, user = record.source, record.user
        if source.session_id is None or source.sentence is None or user is None:
            return
        for sequence in source.sequences:
            self.add_words(user, source.session_id, sequence, {source.sentence})

    def add_words(self, user: str, session: str, sequence: int, words: set[str]) -> None:
        if words:
            self.said[user, session].setdefault(sequence, set()).update(words)

    def add_all(self, other: Provenance) -> None:
        for (user, session), said in other.said.items():
            for sequence, words in said.items():
                self.add_words(user, session, sequence, words)
        for user, days in other.days.items():
            self.days[user] |= days
        for user, secrets in other.secrets.items():
            self.secrets[user] |= secrets

    def is_source_of(self, record: Record) -> bool:
        said = self.said.get((record.user or "", record.source.session_id or ""), {})
        return any(record.source.sentence in said.get(sequence, ()) for sequence in record.source.sequences)

    def sentences(self, user: str) -> set[str]:
        found = [each.values() for (owner, _), each in self.said.items() if owner == user]
        return {sentence for values in found for many in values for sentence in many}


@dataclass(frozen=True, slots=True)
class ForgetPlan:
    """The records that go, those beside them that were learned from the same words and stay, and the words."""

    records: list[Record]
    beside: list[Record]
    trail: Provenance
    others: list[Record]  # records about somebody else, whatever they have in common with those that go

    def merge(self, later: ForgetPlan) -> ForgetPlan:
        """Both plans as one, to look for what is left of either."""
        trail = Provenance()
        trail.add_all(self.trail)
        trail.add_all(later.trail)
        return ForgetPlan([*self.records, *later.records], [*self.beside, *later.beside], trail, later.others)


@dataclass(frozen=True, slots=True)
class Forgetter:
    """Removes records with every copy of what they say."""

    store: Store
    config: Config
    notes: UserNotes
    mask: Callable[[str], str]
    count: TokenCounter
    clock: Clock
    # What a user's schedules are to do and documents are called, each with its place.
    list_beside: Callable[[Tx, Scope], Iterable[tuple[str, str]]]

    def plan(self, tx: Tx, owner: Scope, choose: RecordSelector) -> ForgetPlan:
        """The chosen records, their copies, records in the same words, and the turns in which it was said."""
        trail, tenant = Provenance(), Scope(owner.tenant)
        found = {record.id: record for record in remember.find_with_copies(tx, owner, choose(tx))}
        for record in found.values():
            trail.add(record)
        self._collect_mentions(tx, list(found.values()), trail)
        beside = [record for record in _find_siblings(tx, owner.tenant, trail, self.clock()) if record.id not in found]
        for record in remember.find_with_copies(tx, tenant, [each.id for each in beside if _is_verbatim(each)]):
            found[record.id] = record
            trail.add(record)
        for (user, session), said in trail.said.items():
            turns = find_turns(tx, owner.tenant, user, session, said)
            found |= {
                record.id: record for record in remember.find_with_copies(tx, tenant, [each.id for each in turns])
            }
            scope = Scope(owner.tenant, user=user, session=session)
            trail.days[user].update(self._find_note_days(tx, scope, said))
            trail.secrets[user].update(self._find_secrets(tx, scope, said))
        going = list(found.values())
        beside = [record for record in beside if record.id not in found]
        return ForgetPlan(going, beside, trail, _find_others(tx, owner.tenant, going, self.clock()))

    def _find_note_days(self, tx: Tx, scope: Scope, sequences: Iterable[int]) -> Iterator[date]:
        """Those whose notes may tell of these messages: a turn's line stands where its reply came."""
        for sequence in sequences:
            for message in Messages(tx).range(scope, sequence - 1, sequence + 1, None):
                assert message.created_at is not None
                day = self.notes.local_day(message.created_at, scope.user or "")
                yield from (day, day + timedelta(days=1))

    def _find_secrets(self, tx: Tx, scope: Scope, said: Mapping[int, set[str]]) -> Iterator[str]:
        for sequence, gone in said.items():
            if any(map(has_mark, gone)):
                for message in Messages(tx).range(scope, sequence - 1, sequence + 1, None):
                    yield from find_masked(message, gone, self.mask)

    def _collect_mentions(self, tx: Tx, records: Sequence[Record], trail: Provenance) -> None:
        """A fact that was said five times is one record, and its words stand in five messages, and in replies."""
        load_modules("limpet.knowledge.mentions")
        from limpet.knowledge.mentions import find_mentions  # late: the rules have many patterns

        learned: dict[Partition, list[Record]] = defaultdict(list)
        for record in records:
            if record.user is not None and record.source.sentence is not None:
                learned[user_partition(record.home.scope.tenant, record.user)].append(record)
        now = self.clock()
        for space, told in learned.items():
            texts = {text for record in told for text in (record.value, record.source.sentence) if text}
            masked = set(filter(has_mark, texts))
            places = {
                (hit.source.session_id, hit.source.first_sequence, hit.source.last_sequence)
                for text in sorted(texts)
                for hit in search(
                    tx, space, self.build_word_search(text, _MAX_MENTIONS, ChunkQuery(kinds=(SourceKind.MESSAGE,)))
                )
            }
            for session, first, last in places:
                if session is None or first is None:
                    continue
                scope = Scope(space.tenant, user=space.owner, session=session)
                for message in Messages(tx).range(scope, first - 1, (last or first) + 1, None):
                    words = find_mentions(message, told, message.created_at or now)
                    if masked:
                        plain = self.mask(message.text)
                        words |= {sentence for sentence in masked if sentence in plain}
                    trail.add_words(space.owner, session, message.sequence, words)

    def forget(
        self,
        tenant: str,
        owner: Scope,
        choose: RecordSelector,
        cut: RecordChunker,
        query: str | None = None,
        *,
        everywhere: bool = False,
        dry_run: bool = False,
        others: Iterable[tuple[str, Callable[[], Forgetter]]] = (),
    ) -> Forgotten:
        """Remove the chosen records with every copy, and say where the same is still said.

        ``query``: the words by which the records were chosen. ``everywhere``: also from the messages, summaries and
        notes that still say it. ``dry_run``: everything is computed in a transaction of which nothing stays.
        ``others``: of agents with their own stores, where it is only looked for.
        """
        left: list[str] = []
        lines: set[_Line] = set()
        going = self.store.read(lambda tx: self.plan(tx, owner, choose))
        finder = RemainingFinder(self, owner, going, query)
        if dry_run:
            load_modules("numpy", "numpy.ma", "limpet.search.rank")  # a search in the transaction needs them
            gone, found = self.store.rehearse(partial(self._rehearse, going, finder, cut, everywhere))
        else:
            lines |= self._redact_files(tenant, going, left)
            gone, going = self._remove_all(going, owner, choose, query, cut, everywhere=everywhere)
            finder = RemainingFinder(self, owner, going, query)
            found = self.store.read(finder.find_stored)
        lines |= self._redact_files(tenant, going, left, dry_run=dry_run)
        if everywhere:
            lines |= self._redact_notes_everywhere(finder, left, dry_run=dry_run)
        counts = Counter({**gone.counts, "note lines": len(lines)})
        left += [place.name for place in found] + finder.find_written(left, everywhere=everywhere)
        if gone.counts and not dry_run:
            if everywhere:  # more was removed after the records
                self.store.write(_count_removal)
            self.store.forget_texts()
        for agent, other in others:
            with _report_unreadable(left, f"the store of agent {agent}"):
                places = RemainingFinder(other(), owner, going, query).list_places()
                left += [f"{place}, in the store of agent {agent}" for place in places]
        said = going.trail.sentences
        sentences = tuple(sorted({text for user, _ in going.trail.said for text in said(user)})) if dry_run else ()
        named = [*dict.fromkeys(left)]
        if len(named) > _MAX_PLACES:
            named[_MAX_PLACES:] = [f"{len(named) - _MAX_PLACES} more places"]
        told = {kind: number for kind, number in counts.items() if number or kind in gone.counts}
        return Forgotten(told, gone.ids, tuple(named), sentences)

    def _rehearse(
        self, going: ForgetPlan, finder: RemainingFinder, cut: RecordChunker, everywhere: bool, tx: Tx
    ) -> tuple[Forgotten, list[Place]]:
        """Remove everything in one transaction, to see what goes and what is left."""
        gone = self._remove(OneTransaction(tx), going, finder, cut, everywhere=everywhere)
        return gone, finder.find_stored(tx)

    def _remove_all(
        self,
        going: ForgetPlan,
        owner: Scope,
        choose: RecordSelector,
        query: str | None,
        cut: RecordChunker,
        *,
        everywhere: bool,
    ) -> tuple[Forgotten, ForgetPlan]:
        """Remove what was planned, and then what others have written or changed meanwhile."""
        counts, ids, whole = Counter[str](), dict[str, None](), going
        for _ in range(_MAX_ROUNDS):
            finder = RemainingFinder(self, owner, going, query)
            gone = self._remove(self.store, going, finder, cut, everywhere=everywhere)
            counts.update(gone.counts)
            ids |= dict.fromkeys(gone.ids)
            try:
                going = self.store.read(lambda tx: self.plan(tx, owner, choose))
            except RecordNotFound:
                break
            if not going.records:
                break
            whole = whole.merge(going)
        return Forgotten(counts, tuple(ids)), whole

    def _remove(
        self, store: Transactions, going: ForgetPlan, finder: RemainingFinder, cut: RecordChunker, *, everywhere: bool
    ) -> Forgotten:
        tenant, counts = finder.owner.tenant, Counter[str]()
        counts["messages"] += self._redact_sessions(store, tenant, going.trail)
        for page in split_pages(going.beside, redact.PAGE):
            counts["versions"] += store.write(partial(self._redact_sources, records=page, cut=cut))
        counts = +counts
        gone = self._delete_pages(
            store, sorted(going.records, key=lambda record: record.origin is Origin.CONDENSED), cut
        )
        counts.update(gone.counts)
        if not everywhere:
            return Forgotten(counts, gone.ids)
        more = self._redact_places(store, tenant, finder, going, cut)
        counts.update(more.counts)
        return Forgotten(counts, gone.ids + more.ids)

    def _delete_pages(self, store: Transactions, records: Sequence[Record], cut: RecordChunker) -> Forgotten:
        counts, ids = Counter[str](), list[str]()
        for page in split_pages(records, redact.PAGE):
            gone = store.write(partial(self._delete_page, records=page, cut=cut))
            counts.update(gone.counts)
            ids += gone.ids
        return Forgotten(counts, tuple(ids))

    def _delete_page(self, tx: Tx, *, records: Sequence[Record], cut: RecordChunker) -> Forgotten:
        """Delete those that are still what was chosen. One that was changed meanwhile is looked at again."""
        same = [record for record in records if _is_unchanged(tx, record)]
        if same:
            _count_removal(tx)
        return remember.delete_records(tx, same, cut, self.clock())

    def _redact_sources(self, tx: Tx, *, records: Sequence[Record], cut: RecordChunker) -> int:
        return sum(self._redact_source(tx, record, cut) for record in records if _is_unchanged(tx, record))

    def _redact_sessions(self, store: Transactions, tenant: str, trail: Provenance) -> int:
        """How many messages were changed."""
        return sum(
            self._redactor(store, Scope(tenant, user=user, session=session)).redact_messages(said)
            for (user, session), said in sorted(trail.said.items())
        )

    def _redactor(self, store: Transactions, scope: Scope) -> SessionRedactor:
        return SessionRedactor(store, scope, self.config, self.mask, self.count, self.clock)

    def _redact_places(
        self, store: Transactions, tenant: str, finder: RemainingFinder, going: ForgetPlan, cut: RecordChunker
    ) -> Forgotten:
        """Remove from messages and summaries what still says it, and the records of those turns. Adds to the plan."""
        more, turns = store.read(partial(_collect_places, finder=finder))
        counts = Counter(messages=self._redact_sessions(store, tenant, more))
        for place in store.read(finder.find_summaries):
            self._redactor(store, Scope(tenant, user=place.user, session=place.session)).rebuild_summary({})
            counts["summaries"] += 1
        gone = self._delete_pages(store, turns, cut)
        counts.update(gone.counts)
        going.trail.add_all(more)
        going.records.extend(turns)
        return Forgotten(+counts, gone.ids)

    def _redact_notes_everywhere(self, finder: RemainingFinder, left: list[str], *, dry_run: bool) -> set[_Line]:
        """Remove the lines of MEMORY.md and mark those of the daily notes that say it. Returns which they are."""
        changed: set[_Line] = set()
        for partition, name in finder.list_notes():
            clean = partial(finder.clean_text, partition, name)
            changed |= self._redact_note(partition, name, clean, left, dry_run=dry_run)
        return changed

    def _redact_note(
        self,
        partition: Partition,
        name: str,
        clean: Callable[[str], list[tuple[str, str]]],
        left: list[str],
        *,
        dry_run: bool,
    ) -> set[_Line]:
        """Change the lines of a note: ``clean`` returns each with what becomes of it. Returns which were changed."""
        lines: list[tuple[str, str]] = []

        def change(text: str) -> str:
            lines[:] = clean(text)
            return "".join(after for _, after in lines)

        with _report_unreadable(left, describe_note(name)):
            note = self.notes.get(partition, name)
            if note is not None and change(note.text) != note.text and not dry_run:
                self.notes.edit(partition, name, change)
        return {(partition, name, at) for at, (before, after) in enumerate(lines) if before != after}

    def _redact_files(self, tenant: str, going: ForgetPlan, left: list[str], *, dry_run: bool = False) -> set[_Line]:
        """Which lines of notes were changed; item lines belong to the records and go with them."""
        ids, trail = [record.id for record in going.records], going.trail
        cleaned: set[_Line] = set()
        for user in sorted({record.user for record in going.records if record.user is not None}):
            if not dry_run:
                with _report_unreadable(left, f"lines of items of {user}"):
                    self.notes.delete_item_lines(tenant, user, ids)
            space = user_partition(tenant, user)
            cleaned |= self._redact_notes(space, trail.days[user], trail.sentences(user), left, dry_run=dry_run)
        return cleaned

    def _redact_source(self, tx: Tx, record: Record, cut: RecordChunker) -> int:
        """Remove from a record that stays the words it shares with one that goes. Returns how many versions went."""
        now = self.clock()
        remember.rewrite(tx, record, replace(record, source=replace(record.source, sentence=None)), cut, now)
        GraphTables(tx).drop_record(record.home.space, record.id)
        if self.config.graph.enabled:
            Jobs(tx).enqueue(record.home.space, GRAPH_RECORD, record.id, now)
        return Records(tx).drop_versions(record.home.space, record.id)

    def _redact_notes(
        self, space: Partition, days: Iterable[date], gone: Iterable[str], left: list[str], *, dry_run: bool
    ) -> set[_Line]:
        """Mark the words in the daily notes. An edit of the file at that moment is kept."""
        cleaned: set[_Line] = set()
        clean = partial(redact_lines, gone=sorted(gone, key=len, reverse=True), mark=FORGOTTEN_MARK)
        for day in sorted(days):
            cleaned |= self._redact_note(space, day_name(day), clean, left, dry_run=dry_run)
        return cleaned

    def build_word_search(self, text: str, k: int, query: ChunkQuery) -> SearchRequest:
        now = self.clock()
        return SearchRequest(Question.parse(text, now), query, recipes.WORDS, k, self.config.search, now)


def _count_removal(tx: Tx) -> None:
    """Every process on the store empties its caches of texts, as after a purge."""
    tx.db.run_later("purge.count", {})


def _find_siblings(tx: Tx, tenant: str, trail: Provenance, now: datetime) -> list[Record]:
    """A sentence may have taught two things: both keep it."""
    records = _find_all(tx, tenant, {user for user, _ in trail.said}, now)
    return [record for record in records if record.source.sentence is not None and trail.is_source_of(record)]


def _find_others(tx: Tx, tenant: str, going: Sequence[Record], now: datetime) -> list[Record]:
    """Claims about other subjects: that a sister lives in Porto, too, is not the same."""
    subjects = {record.subject for record in going if record.value}
    found = _find_all(tx, tenant, {record.user for record in going if record.value and record.user is not None}, now)
    return [record for record in found if record.subject is not None and record.subject not in subjects]


def _find_all(tx: Tx, tenant: str, users: set[str], now: datetime) -> list[Record]:
    everything = RecordQuery(include_past=True, limit=None)
    return [record for user in sorted(users) for record in Records(tx).find(Scope(tenant, user=user), everything, now)]


def _is_verbatim(record: Record) -> bool:
    """Whether it says just those words. Explicit and pinned records stay, and are listed as left."""
    kept = record.pinned or record.origin is Origin.EXPLICIT
    return not kept and (record.source.sentence or "") in remember.full_text(record)


@contextmanager
def _report_unreadable(left: list[str], place: str) -> Iterator[None]:
    """The records are gone by then: a file that cannot be read is listed, and is not a failure."""
    try:
        yield
    except (StorageError, MigrationError, ConfigError) as error:
        log.warning("what was forgotten may still be in %s: %s", place, error)
        left.append(f"{place}, which cannot be read")


def _is_unchanged(tx: Tx, record: Record) -> bool:
    current = Records(tx).lock(Scope(record.home.scope.tenant), record.id)
    return current is not None and current.version == record.version


def _collect_places(tx: Tx, *, finder: RemainingFinder) -> tuple[Provenance, list[Record]]:
    """The sentences of messages that still say it, and the records of the turns that quote them."""
    found, tenant = Provenance(), finder.owner.tenant
    for place in finder.find_stored(tx):
        for message in place.read_messages(tx):
            words = finder.select_sentences(message.text, answers=place.answers)
            found.add_words(place.user, place.session, message.sequence, words)
    said = found.said.items()
    ids = [turn.id for (user, session), each in said for turn in find_turns(tx, tenant, user, session, each)]
    return found, remember.find_with_copies(tx, Scope(tenant), ids)
