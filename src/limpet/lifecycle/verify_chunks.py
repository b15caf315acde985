"""Comparing every chunk with the message or record it was cut from, by cutting again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import partial
from itertools import count

from limpet.api.runtime import Runtime
from limpet.errors import KeyMissing, SessionNotFound, StorageError
from limpet.knowledge import remember
from limpet.knowledge.repository import Records
from limpet.model.chunk import ChunkDraft
from limpet.model.finding import Finding
from limpet.model.record import Record, RecordQuery
from limpet.model.scope import Scope
from limpet.model.session import SessionInfo, SessionQuery
from limpet.search.chunk_repository import Chunks, ChunkText
from limpet.sessions import append
from limpet.sessions.repository import Messages, Sessions
from limpet.store.tx import Tx

_PAGE = 200

Check = Callable[[Tx], bool]


def check_chunks(runtime: Runtime, *, repair: bool) -> Finding:
    """Whether the chunks are what the texts would be cut into now; with ``repair``, the others are cut again."""
    run = runtime.store.write if repair else runtime.store.read
    try:
        right = [run(check) for check in _iter_checks(runtime, repair=repair)]
    except StorageError as error:
        return Finding("chunks", ok=False, detail=str(error))
    wrong = right.count(False)
    if not wrong:
        return Finding("chunks", ok=True, detail=f"{len(right)} sessions and records are cut as their text is")
    detail = f"{wrong} of {len(right)} sessions and records are cut otherwise than their text"
    return Finding("chunks", ok=False, detail=detail, repaired=repair)


def _iter_checks(runtime: Runtime, *, repair: bool) -> Iterator[Check]:
    for tenant in runtime.store.list_tenants():
        scope = Scope(tenant)
        if not _is_readable(runtime, scope):
            continue  # its key is elsewhere, or gone on purpose; other checks say so
        for session in _iter_sessions(runtime, scope):
            yield partial(_check_session, runtime=runtime, session=session, repair=repair)
        for record in _iter_records(runtime, scope):
            yield partial(_check_record, runtime=runtime, record=record, repair=repair)


def _is_readable(runtime: Runtime, scope: Scope) -> bool:
    try:
        runtime.store.read(partial(_find_sessions, scope=scope, query=SessionQuery(limit=1)))
        runtime.store.read(lambda tx: Records(tx).find(scope, RecordQuery(include_past=True, limit=1), runtime.clock()))
    except KeyMissing:
        return False
    return True


def _iter_sessions(runtime: Runtime, scope: Scope) -> Iterator[SessionInfo]:
    for offset in count(step=_PAGE):
        query = SessionQuery(limit=_PAGE, offset=offset)
        page = runtime.store.read(partial(_find_sessions, scope=scope, query=query))
        yield from page
        if len(page) < _PAGE:
            return


def _find_sessions(tx: Tx, scope: Scope, query: SessionQuery) -> list[SessionInfo]:
    return Sessions(tx).find(scope, query)


def _iter_records(runtime: Runtime, scope: Scope) -> Iterator[Record]:
    now = runtime.clock()
    for offset in count(step=_PAGE):
        query = RecordQuery(include_past=True, limit=_PAGE, offset=offset)
        page = runtime.store.read(partial(_find_records, scope=scope, query=query, now=now))
        yield from page
        if len(page) < _PAGE:
            return


def _find_records(tx: Tx, scope: Scope, query: RecordQuery, now: datetime) -> list[Record]:
    return Records(tx).find(scope, query, now)


def _check_session(tx: Tx, *, runtime: Runtime, session: SessionInfo, repair: bool) -> bool:
    if repair:
        try:
            Sessions(tx).lock(session.scope)  # nobody may append between the two readings below
        except SessionNotFound:
            return True
    messages = Messages(tx).range(session.scope, None, None, None)
    entries = append.prepare(messages, runtime.config.chunks, runtime.clock())
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
            append.index(tx, session.scope, entry.message, entry.chunks)
    return False


def _check_record(tx: Tx, *, runtime: Runtime, record: Record, repair: bool) -> bool:
    cut = remember.RecordChunker(runtime.config.chunks)
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


def _cut_texts(cuts: Sequence[ChunkText]) -> list[tuple[bytes, str]]:
    return [(cut.hash, cut.text) for cut in cuts]


def _draft_texts(drafts: Sequence[ChunkDraft]) -> list[tuple[bytes, str]]:
    return [(draft.hash, draft.text) for draft in drafts]
