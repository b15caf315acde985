"""Comparing every chunk with the message or record it was cut from, by cutting again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import partial
from itertools import count

from limpet.config import ChunkSettings
from limpet.errors import KeyMissing, SessionNotFound, StorageError
from limpet.knowledge import remember
from limpet.knowledge.repository import Records
from limpet.model.chunk import ChunkDraft
from limpet.model.dataclass import dataclass
from limpet.model.job import Finding
from limpet.model.record import Record, RecordQuery
from limpet.model.scope import Scope
from limpet.model.session import SessionInfo, SessionQuery
from limpet.model.values import Clock
from limpet.search.chunk_repository import Chunks, ChunkText
from limpet.sessions.messages import index_message, prepare_entries
from limpet.sessions.repository import Messages, Sessions
from limpet.store.store import Store
from limpet.store.tx import Tx

_PAGE = 200

Check = Callable[[Tx], bool]


@dataclass(frozen=True, slots=True)
class ChunkChecker:
    """Cuts every text again and compares."""

    store: Store
    settings: ChunkSettings
    clock: Clock

    def check(self, *, repair: bool) -> Finding:
        """Whether the chunks are what the texts would be cut into now; with ``repair``, the others are cut again."""
        run = self.store.write if repair else self.store.read
        try:
            right = [run(check) for check in self._iter_checks(repair=repair)]
        except StorageError as error:
            return Finding("chunks", ok=False, detail=str(error))
        wrong = right.count(False)
        if not wrong:
            return Finding("chunks", ok=True, detail=f"{len(right)} sessions and records are cut as their text is")
        detail = f"{wrong} of {len(right)} sessions and records are cut otherwise than their text"
        return Finding("chunks", ok=False, detail=detail, repaired=repair)

    def _iter_checks(self, *, repair: bool) -> Iterator[Check]:
        for tenant in self.store.list_tenants():
            scope = Scope(tenant)
            if not self._is_readable(scope):
                continue  # its key is elsewhere, or gone on purpose; other checks say so
            for session in self._iter_sessions(scope):
                yield partial(self._check_session, session=session, repair=repair)
            for record in self._iter_records(scope):
                yield partial(self._check_record, record=record, repair=repair)

    def _is_readable(self, scope: Scope) -> bool:
        try:
            self.store.read(partial(_find_sessions, scope=scope, query=SessionQuery(limit=1)))
            self.store.read(lambda tx: Records(tx).find(scope, RecordQuery(include_past=True, limit=1), self.clock()))
        except KeyMissing:
            return False
        return True

    def _iter_sessions(self, scope: Scope) -> Iterator[SessionInfo]:
        for offset in count(step=_PAGE):
            query = SessionQuery(limit=_PAGE, offset=offset)
            page = self.store.read(partial(_find_sessions, scope=scope, query=query))
            yield from page
            if len(page) < _PAGE:
                return

    def _iter_records(self, scope: Scope) -> Iterator[Record]:
        now = self.clock()
        for offset in count(step=_PAGE):
            query = RecordQuery(include_past=True, limit=_PAGE, offset=offset)
            page = self.store.read(partial(_find_records, scope=scope, query=query, now=now))
            yield from page
            if len(page) < _PAGE:
                return

    def _check_session(self, tx: Tx, *, session: SessionInfo, repair: bool) -> bool:
        if repair:
            try:
                Sessions(tx).lock(session.scope)  # no append between the two reads below
            except SessionNotFound:
                return True
        messages = Messages(tx).range(session.scope, None, None, None)
        entries = prepare_entries(messages, self.settings, self.clock())
        expected: dict[bytes, ChunkText] = {}
        for entry in entries:
            for draft in entry.chunks:
                first = expected.get(draft.hash)
                since = first.first_sequence if first else entry.message.sequence
                expected[draft.hash] = ChunkText(draft.hash, since, entry.message.sequence, draft.text)
        if {cut.hash: cut for cut in Chunks(tx).load_session_chunks(session.scope)} == expected:
            return True
        if repair:
            Chunks(tx).drop_session(session.scope)
            for entry in entries:
                index_message(tx, session.scope, entry.message, entry.chunks)
        return False

    def _check_record(self, tx: Tx, *, record: Record, repair: bool) -> bool:
        cut = remember.RecordChunker(self.settings)
        find = Records(tx).lock if repair else Records(tx).get
        current = find(record.home.scope, record.id)
        if current is None:
            return True
        if _cut_texts(Chunks(tx).load_record_chunks(record.home.space, record.id)) == _draft_texts(
            cut.build_drafts(current)
        ):
            return True
        if repair:
            Chunks(tx).drop_record(record.home.space, record.id)
            remember.index(tx, current, cut)
        return False


def _find_sessions(tx: Tx, scope: Scope, query: SessionQuery) -> list[SessionInfo]:
    return Sessions(tx).find(scope, query)


def _find_records(tx: Tx, scope: Scope, query: RecordQuery, now: datetime) -> list[Record]:
    return Records(tx).find(scope, query, now)


def _cut_texts(cuts: Sequence[ChunkText]) -> list[tuple[bytes, str]]:
    return [(cut.hash, cut.text) for cut in cuts]


def _draft_texts(drafts: Sequence[ChunkDraft]) -> list[tuple[bytes, str]]:
    return [(draft.hash, draft.text) for draft in drafts]
