"""Taking in a ``sessions.json`` that another program left: once, in one transaction, or not at all."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from os import PathLike
from pathlib import Path

from limpet.config import Config
from limpet.errors import InvalidInput, InvalidKey, LimpetError, StorageError
from limpet.knowledge.remember import enqueue_learning
from limpet.lifecycle import SNAPSHOT
from limpet.lifecycle.formats.snapshot import SnapshotSession, parse_snapshot
from limpet.lifecycle.transfer_repository import Imports
from limpet.model.dataclass import dataclass
from limpet.model.message import Message
from limpet.model.scope import Level, Partition, Scope
from limpet.model.session import SessionInfo, SessionQuery, SessionStatus
from limpet.model.transfer import ImportResult, ImportSkip
from limpet.model.values import Clock, IdFactory, check_id, with_bucket
from limpet.search.embed import ChunkEmbedder
from limpet.security.redact import make_mask
from limpet.sessions.messages import MessageWithChunks, prepare_entries, store_entries
from limpet.sessions.repository import Sessions
from limpet.sessions.summary import SummaryDraft, swap_summary
from limpet.store.store import Store
from limpet.store.tx import Tx

log = logging.getLogger("limpet.import")

IMPORTED_SUFFIX = ".migrated"
IMPORTED_ID = "imported_id"
_ALL = 1 << 31

PreparedSession = tuple[SnapshotSession, list[MessageWithChunks]]


@dataclass(frozen=True, slots=True)
class SnapshotImporter:
    """Takes in a ``sessions.json``."""

    store: Store
    config: Config
    embedder: ChunkEmbedder
    clock: Clock
    new_id: IdFactory

    def import_pending(self, scope: Scope, path: Path) -> ImportResult | None:
        """Import the snapshot that lies in the data folder. A bad one stays untouched and stops nothing."""
        try:
            done = self.import_file(scope, path, learn=self.config.learn.enabled, once=True)
            os.replace(path, path.with_name(path.name + IMPORTED_SUFFIX))
        except (LimpetError, OSError) as error:
            log.error("%s was not imported and stays as it is: %s", path, error)  # noqa: TRY400 - the line says it all
            return None
        log.info("imported %d sessions with %d messages from %s", done.sessions, done.messages, path)
        return done

    def import_file(
        self, scope: Scope, path: str | PathLike[str], *, learn: bool, dry_run: bool = False, once: bool = False
    ) -> ImportResult:
        """For the users in the file, unless the scope names one. A second import brings back users who were purged
        since, unless it is to come in once and never again: a file that lies there asks for nothing."""
        now = self.clock()
        try:
            data = Path(path).read_bytes()
        except OSError as error:
            raise InvalidInput(f"{path} cannot be read: {error.strerror}") from error
        snapshot = parse_snapshot(data, now=now)
        if scope.user is not None:
            snapshot = replace(snapshot, sessions=tuple(replace(one, user=scope.user) for one in snapshot.sessions))
        if dry_run:
            messages = sum(len(session.messages) for session in snapshot.sessions)
            return _build_report(str(path), len(snapshot.sessions), messages, snapshot.skipped, dry_run=True)
        prepared = [(session, self._prepare_entries(session)) for session in snapshot.sessions]

        def store(tx: Tx) -> ImportResult:
            seen = Imports(tx).has_digest(scope, snapshot.digest)
            wanted = prepared if not seen else [] if once else _find_purged(tx, scope, prepared)
            if seen and not wanted:
                return ImportResult(SNAPSHOT, already=True)
            stored = self._store_sessions(tx, scope, snapshot.skipped, wanted, str(path), now, learn=learn)
            if not seen:
                Imports(tx).record_import(scope, snapshot.digest, str(path), stored.sessions, stored.messages, now)
            return stored

        imported = self.store.write(store)
        self.embedder.request_missing(chunk for _, entries in prepared for entry in entries for chunk in entry.chunks)
        return imported

    def _prepare_entries(self, session: SnapshotSession) -> list[MessageWithChunks]:
        """Their vectors come later: an import of years would else wait for hours."""
        return prepare_entries(_normalize_sequences(session.messages), self.config.chunks, session.last_active_at)

    def _store_sessions(
        self,
        tx: Tx,
        scope: Scope,
        known_skips: Sequence[str],
        prepared: list[PreparedSession],
        name: str,
        now: datetime,
        *,
        learn: bool,
    ) -> ImportResult:
        skipped = list(known_skips)
        sessions = messages = learning = 0
        default_agent = self.config.session.default_agent
        for session, entries in prepared:
            info = _build_session_info(tx, scope, session, default_agent, self.new_id)
            if Sessions(tx).get(Scope(scope.tenant, session=info.id)) is not None:
                skipped.append(f"session {session.original_id}: it is here already")
                continue
            if not Sessions(tx).add(info.scope, info):
                raise StorageError(f"session {session.original_id} could not be added; nothing was imported")
            stored = store_entries(tx, info.scope, entries, info.last_active_at, any_state=True)
            if session.summary and stored:
                last = stored[-1].sequence
                summary = make_mask(enabled=self.config.learn.secrets)(session.summary)
                swap_summary(tx, info.scope, SummaryDraft(summary, last), last, None, now)
            if stored and learn:
                enqueue_learning(tx, info, self.config, now, now)
                learning += 1
            sessions += 1
            messages += len(stored)
        return replace(_build_report(name, sessions, messages, skipped), learning=learning)


def _normalize_sequences(messages: tuple[Message, ...]) -> list[Message]:
    """Numbers the other program gave, if they grow; else the order in the file decides."""
    numbers = [message.sequence for message in messages]
    if all(first < second for first, second in zip([0, *numbers], numbers, strict=False)):
        return list(messages)
    return [replace(message, sequence=0) for message in messages]


def _find_purged(tx: Tx, scope: Scope, prepared: list[PreparedSession]) -> list[PreparedSession]:
    """The sessions of users of whose sessions none is here any more."""
    here = set()
    for user in {session.user for session, _ in prepared}:
        found = Sessions(tx).find(Scope(scope.tenant, user=user), SessionQuery(limit=_ALL))
        here |= {(user, info.metadata.get(IMPORTED_ID)) for info in found}
    stay = {session.user for session, _ in prepared if (session.user, session.original_id) in here}
    return [one for one in prepared if one[0].user not in stay]


def _build_report(
    name: str, sessions: int, messages: int, skipped: Sequence[str], *, dry_run: bool = False
) -> ImportResult:
    told = tuple(ImportSkip(Path(name).name, note) for note in skipped)
    return ImportResult(
        SNAPSHOT, sessions=sessions, messages=messages, left_out=len(told), skipped=told, dry_run=dry_run
    )


def _build_session_info(
    tx: Tx, scope: Scope, session: SnapshotSession, default_agent: str, new_id: IdFactory
) -> SessionInfo:
    """The session as ours. One whose chat has a live session here comes in ended: a key has one live session."""
    try:
        session_id = check_id(session.original_id, "session id")
    except InvalidKey:
        session_id = with_bucket(new_id(), Partition(scope.tenant, Level.USER, session.user).bucket)
    owner = Scope(scope.tenant, session.user, session.agent or default_agent)
    taken = (
        session.state is not SessionStatus.TERMINATED and Sessions(tx).find_open(owner, str(session.key)) is not None
    )
    return SessionInfo(
        id=session_id,
        tenant=owner.tenant,
        user=session.user,
        agent=session.agent or default_agent,
        key=session.key,
        state=SessionStatus.TERMINATED if taken else session.state,
        metadata={**session.metadata, IMPORTED_ID: session.original_id},
        created_at=session.created_at,
        last_active_at=session.last_active_at,
    )
