"""The rows of a purge, in transactions of a bounded size, each of which may be the last that happens for a while."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from limpet.config import Config
from limpet.documents.repository import Documents
from limpet.knowledge import remember
from limpet.knowledge.delete_session import delete_session, remove_slice
from limpet.knowledge.remember import find_learned_sentences
from limpet.knowledge.repository import Records
from limpet.lifecycle.purge_repository import PurgeRequest, Purges
from limpet.model.privacy import PurgeTarget
from limpet.model.record import Origin, Record, RecordSource
from limpet.model.scope import Level, Partition, Scope
from limpet.model.tokens import TokenCounter
from limpet.search.chunk_repository import Chunks
from limpet.security.mask import make_mask
from limpet.sessions.messages import index_message, prepare_entries
from limpet.sessions.repository import DeletedSessions, Messages, Sessions, Summaries
from limpet.sessions.summary import build_quoted_summary, localize_message, mask_message
from limpet.store.tx import Tx

LIMIT = 4000  # rows of one transaction, about: others wait that long
_RECORDS, _MESSAGES = 50, 500
# What a promoted record has of the one it was made from.
_COPIED_FIELDS = "content title tags metadata references fingerprint source subject attribute value polarity".split()


@dataclass(slots=True)
class PurgeTransaction:
    tx: Tx
    order: PurgeRequest
    config: Config
    count_tokens: TokenCounter
    now: datetime
    counts: Counter[str] = field(default_factory=Counter)
    records: list[str] = field(default_factory=list)  # ids of those that went, whose lines stand in files, too

    def run(self) -> bool:
        """Whether all rows are gone now."""
        if self.order.what is PurgeTarget.USER:
            return self._delete_user()
        if self.order.what is PurgeTarget.SESSION:
            assert self.order.session is not None
            return self.drop_session(self.order.session)
        assert self.order.before is not None
        return self._delete_older(self.order.before)

    def _delete_user(self) -> bool:
        if (
            not Purges(self.tx).hide_partition(self.order.space, self.order, LIMIT)
            or not self._delete_derived_elsewhere()
        ):
            return False
        counts, done = Purges(self.tx).delete_partition(self.order.space, self.order, LIMIT)
        self.counts.update(counts)
        return done

    def _delete_derived_elsewhere(self) -> bool:
        """Records for the whole tenant that were made of this user's. Whether none is left."""
        anywhere = Scope(self.order.space.tenant)
        ids = Purges(self.tx).find_derived_elsewhere(self.order.space, self.order, _RECORDS)
        for record in filter(None, (Records(self.tx).get(anywhere, id) for id in ids)):
            inputs = [Records(self.tx).get(anywhere, id) for id in record.inputs]
            gone = {each.id: each for each in inputs if each is not None and each.home.space == self.order.space}
            if _is_derived_only_from(record, gone):
                self._delete([record])
            else:
                self._remove_inputs(record, gone)
        return len(ids) < _RECORDS

    def drop_session(self, session: str) -> bool:
        """A slice of a session with everything that came of it; whether it was the last."""
        space, scope = self.order.space, self.order.session_scope(session)
        if not self._drop_learned(session):
            return False
        if not DeletedSessions(self.tx).exists(space, session):
            self.counts["versions"] += Purges(self.tx).drop_versions_naming(space, session)
        visible = Sessions(self.tx).get(scope) is not None
        gone = (
            delete_session(self.tx, scope, self.cutter, self.now)
            if visible
            else remove_slice(self.tx, space, session, self.cutter, self.now)
        )
        self.counts.update(gone.counts)
        self.records += gone.records
        return gone.done

    def _drop_learned(self, session: str) -> bool:
        """A slice of what came of a session; whether it was the last."""
        ids = Purges(self.tx).find_records_from_session(self.order.space, session)
        for start in range(0, len(ids), _RECORDS):
            learned = Records(self.tx).get_many(self.order.space, ids[start : start + _RECORDS])
            kept = {record.id: record for record in learned if self._stays(record) or _is_saved_for_user(record)}
            named = [record for record in kept.values() if record.source != RecordSource()]
            for record in named:  # the session it came up in is gone
                remember.rewrite(self.tx, record, replace(record, source=RecordSource()), self.cutter, self.now)
            self._delete_with_derived(record for record in learned if record.id not in kept)
            if (named or len(kept) < len(learned)) and start + _RECORDS < len(ids):
                return False
        return True

    # Older

    def _delete_older(self, before: datetime) -> bool:
        space, purges = self.order.space, Purges(self.tx)
        for session in purges.find_deleted_sessions(space):
            if not self.drop_session(session) or self._is_full():
                return False
        for session in purges.find_sessions_before(space, before):
            over = purges.is_over(self.order.session_scope(session), self.order)
            if not (self.drop_session(session) if over else self._drop_messages(session, before)) or self._is_full():
                return False
        while ids := purges.find_records_before(space, before, _RECORDS, explicit=self.order.takes_explicit):
            self._delete_with_derived(Records(self.tx).get_many(space, ids))
            if self._is_full():
                return False
        while self.order.takes_explicit and (ids := purges.find_documents_before(space, before, _RECORDS)):
            for id in ids:
                gone = Documents(self.tx).delete(space, id)
                self.counts.update(gone.counts)
                if not gone.done or self._is_full():
                    return False
        counts, done = purges.drop_entries_before(space, before, LIMIT, explicit=self.order.takes_explicit)
        self.counts.update(counts)
        return done

    def _stays(self, record: Record) -> bool:
        """What somebody saved or pinned, where only what was said is to go."""
        return not self.order.takes_explicit and (record.pinned or record.origin is Origin.EXPLICIT)

    def _drop_messages(self, session: str, before: datetime) -> bool:
        """Whether all of them went. What was learned from those alone goes, too."""
        sequences, last = self.take_messages(session, before)
        if sequences:
            self.forget_messages(session, sequences, last=last)
        return last

    def take_messages(self, session: str, before: datetime) -> tuple[Sequence[int], bool]:
        """Messages of a session from before a moment that one transaction may drop; and whether there are no more."""
        scope = self.order.session_scope(session)
        found = Purges(self.tx).find_messages_before(scope, before, _MESSAGES + 1)
        taken = Chunks(self.tx).take_messages(scope, found[:_MESSAGES])
        return taken, len(taken) == len(found)

    def forget_messages(self, session: str, sequences: Sequence[int], *, last: bool = True) -> None:
        gone, space = set(sequences), self.order.space
        learned = Records(self.tx).get_many(space, Purges(self.tx).find_records_from_session(space, session))
        sources = [record for record in learned if record.source.session_id == session and record.source.sequences]
        only = [record for record in sources if gone.issuperset(record.source.sequences)]
        self.drop_messages(session, sequences, last=last)
        self._delete_with_derived(record for record in only if not self._stays(record))
        others = {record.id for record in only if not self._stays(record)}
        for record in sources:
            if record.id not in others and gone.intersection(record.source.sequences):
                kept = tuple(number for number in record.source.sequences if number not in gone)
                self._rewrite(record, replace(record, source=replace(record.source, sequences=kept)))

    def drop_messages(self, session: str, sequences: Sequence[int], *, last: bool = True) -> None:
        """Without what was learned from them. With the last ones the summary is written again from what is left."""
        scope = self.order.session_scope(session)
        Sessions(self.tx).lock(scope)
        counts, ranges = Purges(self.tx).drop_messages(scope, sequences)
        self.counts.update(counts)
        self._reindex_range(scope, ranges)
        if last:
            self._rewrite_summary(scope)

    def _reindex_range(self, scope: Scope, ranges: Mapping[bytes, tuple[int, int]]) -> None:
        """Messages that stay and say the same."""
        if not ranges:
            return
        low, high = min(one for one, _ in ranges.values()), max(two for _, two in ranges.values())
        kept = Messages(self.tx).range(scope, low - 1, high + 1, None)
        for entry in prepare_entries(kept, self.config.chunks, self.now):
            drafts = [draft for draft in entry.chunks if draft.hash in ranges]
            if drafts:
                index_message(self.tx, scope, entry.message, drafts)

    def _rewrite_summary(self, scope: Scope) -> None:
        summary = Summaries(self.tx).get(scope)
        if summary is None:
            return
        told = Messages(self.tx).range(scope, None, summary.upper_sequence + 1, None)
        if not told:
            self.counts["summaries"] += Purges(self.tx).drop_summary(scope)
            return
        most, learned = self.config.compact.summary_tokens, find_learned_sentences(self.tx, scope, self.now)
        mask = make_mask(enabled=self.config.learn.secrets)
        zone = self.config.notes.find_zone(scope.user)
        masked = [localize_message(mask_message(message, mask), zone) for message in told]
        made = build_quoted_summary(self.tx, scope, masked, most, self.count_tokens, learned, self.now)
        if made is not None:
            Summaries(self.tx).put(scope, made)

    # Records

    def _delete_with_derived(self, records: Iterable[Record]) -> None:
        """These records, and what was made of nothing else."""
        going = {record.id: record for record in records}
        changed: dict[str, Record] = {}
        waiting = list(going)
        everybody = Partition(self.order.space.tenant, Level.GLOBAL, "")
        while waiting:
            page, waiting = waiting, []
            for space in (self.order.space, everybody):
                for made in Records(self.tx).find_derived_from(space, page):
                    if made.id in going or self._stays(made):
                        continue
                    if _is_derived_only_from(made, going):
                        going[made.id] = made
                        waiting.append(made.id)
                    else:
                        changed[made.id] = made
        self._delete(going.values())
        for record in changed.values():
            if record.id not in going:
                self._remove_inputs(record, going)

    def _delete(self, records: Iterable[Record]) -> None:
        """What was summarized together with them, and stays, is summarized again."""
        gone = remember.delete_records(self.tx, list(records), self.cutter, self.now)
        self.counts.update(gone.counts)
        self.records += gone.ids

    def _remove_inputs(self, record: Record, gone: Mapping[str, Record]) -> None:
        """A record that others said too, as they said it."""
        anywhere = Scope(self.order.space.tenant)
        rest = tuple(id for id in record.inputs if id not in gone)
        first = next((found for id in rest if (found := Records(self.tx).get(anywhere, id)) is not None), None)
        if record.origin is Origin.PROMOTED and first is not None:
            changed = replace(record, inputs=rest, **{name: getattr(first, name) for name in _COPIED_FIELDS})
        else:
            tags = {tag for each in gone.values() for tag in each.tags}
            references = {reference for each in gone.values() for reference in each.references}
            changed = replace(
                record,
                inputs=rest,
                tags=tuple(tag for tag in record.tags if tag not in tags),
                references=tuple(each for each in record.references if each not in references),
            )
        self._rewrite(record, changed)

    def _rewrite(self, record: Record, changed: Record) -> None:
        """Its history says what it said before, and goes."""
        remember.rewrite(self.tx, record, changed, self.cutter, self.now)
        self.counts["versions"] += Records(self.tx).drop_versions(record.home.space, record.id)

    @property
    def cutter(self) -> remember.RecordChunker:
        return remember.RecordChunker.of(self.config)

    def _is_full(self) -> bool:
        return sum(self.counts.values()) >= LIMIT


def _is_saved_for_user(record: Record) -> bool:
    """What the user saved for themselves while the session went on. It is theirs, not the session's."""
    return record.origin is Origin.EXPLICIT and record.home.level is not Level.SESSION


def _is_derived_only_from(record: Record, gone: Mapping[str, Record]) -> bool:
    """Summaries contain each of their inputs; a promoted copy stays if another user said the same."""
    if record.origin is Origin.CONDENSED:
        return True
    return record.origin is Origin.PROMOTED and set(record.inputs) <= gone.keys()
