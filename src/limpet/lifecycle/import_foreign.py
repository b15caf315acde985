"""What another program wrote, stored: conversations, memories and documents, and a whole ``sessions.json``.

Each is stored under an id made of the one it has there. So the same file again adds nothing, and a newer one adds what
is new. A call that was interrupted is simply repeated.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import field
from datetime import datetime
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

from limpet.config import Config
from limpet.documents.add import DocumentIngester
from limpet.errors import InvalidInput, InvalidKey, LimpetError, StorageError
from limpet.knowledge import remember
from limpet.knowledge.repository import Records
from limpet.lifecycle import SNAPSHOT
from limpet.lifecycle.formats import mem0
from limpet.lifecycle.formats.contents import ForeignDocument, ForeignItem, ForeignRecord, ForeignSession
from limpet.lifecycle.formats.detect import read
from limpet.lifecycle.formats.snapshot import SnapshotSession, fill_missing_times, parse_snapshot
from limpet.lifecycle.formats.source import ImportSource
from limpet.lifecycle.transfer_repository import Imports
from limpet.model.dataclass import dataclass, replace
from limpet.model.document import DocumentStatus
from limpet.model.message import Message
from limpet.model.record import Layer, Origin, Record, RecordChanges, RecordType, fingerprint
from limpet.model.scope import Level, Owner, Scope, SessionKey, user_partition
from limpet.model.session import SessionInfo, SessionQuery, SessionStatus
from limpet.model.transfer import MAX_LISTED_SKIPS, ImportResult, ImportSkip
from limpet.model.types import MAX_URI_BYTES
from limpet.model.values import Clock, IdFactory, check_id, from_micros, split_pages, uuid7, with_bucket
from limpet.search.embed import ChunkEmbedder
from limpet.security.mask import make_mask
from limpet.security.telemetry import Progress
from limpet.sessions.messages import MessageWithChunks, prepare_entries, store_entries
from limpet.sessions.repository import Sessions
from limpet.sessions.summary import SummaryDraft, swap_summary
from limpet.store.store import Store
from limpet.store.tx import Tx

log = logging.getLogger("limpet.import")

IMPORTED_SUFFIX = ".migrated"
IMPORTED_ID = "imported_id"
_MESSAGES = 200  # stored in one transaction
_ALL = 1 << 31
_NO_OWNER = "it does not say whose it is; import it with a user"


@dataclass(slots=True)
class _ImportTally:
    """What was taken in so far."""

    counts: Counter[str] = field(default_factory=Counter)
    here: int = 0
    left_out: int = 0
    renamed: str | None = None  # the user there whose memory becomes that of the user who was named
    skipped: list[ImportSkip] = field(default_factory=list)
    learning: set[str] = field(default_factory=set)  # sessions to learn from

    def count(self, noun: str, *, added: bool) -> None:
        self.counts[noun] += added
        self.here += not added

    def skip(self, skipped: ImportSkip) -> None:
        self.left_out += 1
        if len(self.skipped) < MAX_LISTED_SKIPS:
            self.skipped.append(skipped)


@dataclass(frozen=True, slots=True)
class ForeignImporter:
    store: Store
    config: Config
    documents: DocumentIngester
    embedder: ChunkEmbedder
    scope: Scope  # the tenant, and the user it all becomes the memory of, if one was named
    format: str
    now: datetime
    dry_run: bool
    learns: bool

    def run(self, source: ImportSource, progress: Progress) -> ImportResult:
        if self.scope.user is None and self.format != mem0.NAME:
            raise InvalidInput(f"a {self.format} export does not say whose memory it is here; name a user")
        taken = _ImportTally()
        limit = self.config.documents.max_file_bytes
        total = 0
        for total, _ in enumerate(read(source, self.format, limit), start=1):
            progress(f"reading {self.format}", total, total)  # what breaks off in the middle is not taken in by half
        for number, found in enumerate(read(source, self.format, limit), start=1):
            try:
                self._import_item(found, taken)
            except InvalidInput as error:
                taken.skip(ImportSkip(_describe_place(found), str(error)))
            progress(self.format, number, max(number, total))
        counts = taken.counts
        if counts.total() and not self.dry_run:
            self.embedder.request_all()
        return ImportResult(
            self.format,
            **counts,
            already=bool(taken.here) and not counts.total(),
            left_out=taken.left_out + taken.here,
            skipped=tuple(taken.skipped),
            dry_run=self.dry_run,
            learning=len(taken.learning),
        )

    def _import_item(self, found: ForeignItem, taken: _ImportTally) -> None:
        if isinstance(found, ImportSkip):
            taken.skip(found)
            return
        user = self._resolve_user(found, taken)
        if isinstance(found, ForeignSession):
            self._import_session(found, user, taken)
        elif isinstance(found, ForeignRecord):
            taken.count("records", added=self.dry_run or self._import_record(found, user))
        else:
            taken.count("documents", added=self.dry_run or self._import_document(found, user))

    def _resolve_user(self, found: ForeignSession | ForeignRecord | ForeignDocument, taken: _ImportTally) -> str:
        """Whose it becomes. A user that is named takes the place of one there, not of several: two people stay two."""
        told = found.user if isinstance(found, ForeignRecord) else None
        if self.scope.user is None:
            if told is None:
                raise InvalidInput(_NO_OWNER)
            return told
        taken.renamed = taken.renamed or told
        if told not in (None, taken.renamed):
            reason = f"it is of {told!r}, and not of {taken.renamed!r}"
            raise InvalidInput(f"{reason}; without a user everybody keeps their own")
        return self.scope.user

    # Conversations

    def _import_session(self, found: ForeignSession, user: str, taken: _ImportTally) -> None:
        if not found.messages:
            raise InvalidInput("it has no messages")
        if self.dry_run:
            taken.counts.update(sessions=1, messages=len(found.messages))
            return
        info = self._build_session_info(found, user)
        for some in split_pages(found.messages, _MESSAGES):
            page = fill_missing_times(some, info.created_at)
            entries = prepare_entries(page, self.config.chunks, self.now)
            new, added = self.store.write(partial(self._store_messages, info=info, entries=entries))
            taken.counts.update(sessions=new, messages=added)
            if added and self.learns:
                taken.learning.add(info.id)
            taken.here += len(page) - added

    def _store_messages(self, tx: Tx, info: SessionInfo, entries: Sequence[MessageWithChunks]) -> tuple[int, int]:
        """Store messages, with a job to learn from them. Whether the session is new, and how many of them are."""
        scope, new = info.scope, Sessions(tx).get(info.scope) is None
        if new and not Sessions(tx).add(scope, info):
            raise InvalidInput("its id belongs to another user's session here")
        before = Sessions(tx).lock_head(scope).message_count
        store_entries(tx, scope, entries, self.now, any_state=True)
        added = Sessions(tx).lock_head(scope).message_count - before
        if added and self.learns:
            remember.enqueue_learning(tx, info, self.config, self.now, self.now)
        return int(new), added

    def _build_session_info(self, found: ForeignSession, user: str) -> SessionInfo:
        said = [message.created_at for message in found.messages if message.created_at]
        created = found.created_at or min(said, default=self.now)
        return SessionInfo(
            id=self._derive_id(user, found.id, found.created_at),
            tenant=self.scope.tenant,
            user=user,
            agent=self.config.session.default_agent,
            key=SessionKey.of(self.format, found.id),
            state=SessionStatus.TERMINATED,  # it is over, or goes on elsewhere
            metadata={**found.metadata, IMPORTED_ID: found.id},
            created_at=created,
            last_active_at=min(self.now, max([created, *said, found.last_active_at or created])),
        )

    def _derive_id(self, user: str, name: str, created: datetime | None) -> str:
        text = f"{self.scope.tenant}\n{user}\n{self.format}\n{name}"
        return uuid7(created or from_micros(0), hashlib.blake2b(text.encode(), digest_size=10).digest())

    # Memories

    def _import_record(self, found: ForeignRecord, user: str) -> bool:
        home = Owner(Scope(self.scope.tenant, user=user), Level.USER)
        given = {"content": found.content, "title": found.title, "tags": found.tags, "metadata": dict(found.metadata)}
        changes = RecordChanges.validate(given, self.now)
        created = found.created_at or self.now
        draft = Record(
            id=with_bucket(self._derive_id(user, found.id, found.created_at), home.space.bucket),
            home=home,
            layer=Layer.SEMANTIC,
            type=RecordType.FACT,
            content=found.content,
            origin=Origin.EXPLICIT,  # imported memories must not fade because they are old
            created_at=created,
            updated_at=max(created, found.updated_at or created),
            valid_from=created,
            subject=found.subject,
            attribute=found.attribute,
            value=found.value,
        )
        record = changes.apply_to(draft)
        cut = remember.RecordChunker(self.config.chunks, for_graph=self.config.graph.enabled)
        return self.store.write(lambda tx: _store_record(tx, record, cut, self.now, found.external_id))

    # Documents

    def _import_document(self, found: ForeignDocument, user: str) -> bool:
        space = user_partition(self.scope.tenant, user)
        uri = " ".join(found.uri.split())
        if len(uri.encode()) > MAX_URI_BYTES:
            raise InvalidInput(f"its name is longer than {MAX_URI_BYTES:,} bytes")
        labels = found.title, found.metadata or None
        document = self.documents.add(space, uri, found.text, lambda *_: None, *labels)
        assert not isinstance(document, list)
        return document.status is not DocumentStatus.UNCHANGED


def _store_record(tx: Tx, record: Record, cut: remember.RecordChunker, now: datetime, external_id: str | None) -> bool:
    """Whether it was not here, or said something else."""
    old = Records(tx).lock(Scope(record.home.scope.tenant), record.id)
    if old is None:
        taken = external_id is not None and Records(tx).get(record.home.scope, external_id) is not None
        remember.insert(tx, record, cut, None if taken else external_id)
        return True
    if old.home != record.home:
        raise InvalidInput("its id belongs to another user's record here")
    if old.content == record.content:
        return False
    wanted = replace(old, content=record.content, fingerprint=fingerprint(old.type, record.content))
    remember.rewrite(tx, old, wanted, cut, now)
    return True


def _describe_place(found: ForeignItem) -> str:
    if isinstance(found, ImportSkip):
        return found.place
    return found.uri if isinstance(found, ForeignDocument) else f"{type(found).__name__[7:].lower()} {found.id[:80]}"


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
        name, skipped = Path(path).name, snapshot.skipped
        if dry_run:
            counts = Counter(sessions=len(snapshot.sessions), messages=sum(len(s.messages) for s in snapshot.sessions))
            return _build_report(name, counts, skipped, dry_run=True)
        # Their vectors come later: an import of years would else wait for hours.
        prepared = [
            (one, prepare_entries(_normalize_sequences(one.messages), self.config.chunks, one.last_active_at))
            for one in snapshot.sessions
        ]

        def store(tx: Tx) -> ImportResult:
            seen = Imports(tx).has_digest(scope, snapshot.digest)
            wanted = prepared if not seen else [] if once else _find_purged(tx, scope, prepared)
            if seen and not wanted:
                return ImportResult(SNAPSHOT, already=True)
            counts: Counter[str] = Counter()
            present = [one for one in wanted if not self._store_session(tx, scope, one, counts, learn=learn)]
            if not seen:
                totals = counts["sessions"], counts["messages"]
                Imports(tx).record_import(scope, snapshot.digest, str(path), *totals, now)
            known = [f"session {one.original_id}: it is here already" for one, _ in present]
            return _build_report(name, counts, [*skipped, *known])

        imported = self.store.write(store)
        self.embedder.request_missing(chunk for _, entries in prepared for entry in entries for chunk in entry.chunks)
        return imported

    def _store_session(
        self, tx: Tx, scope: Scope, prepared: PreparedSession, counts: Counter[str], *, learn: bool
    ) -> bool:
        """Whether it was not here."""
        session, entries = prepared
        now, info = self.clock(), self._build_session_info(tx, scope, session)
        if Sessions(tx).get(Scope(scope.tenant, session=info.id)) is not None:
            return False
        if not Sessions(tx).add(info.scope, info):
            raise StorageError(f"session {session.original_id} could not be added; nothing was imported")
        stored = store_entries(tx, info.scope, entries, info.last_active_at, any_state=True)
        if session.summary and stored:
            last = stored[-1].sequence
            summary = make_mask(enabled=self.config.learn.secrets)(session.summary)
            swap_summary(tx, info.scope, SummaryDraft(summary, last), last, None, now)
        if stored and learn:
            remember.enqueue_learning(tx, info, self.config, now, now)
            counts["learning"] += 1
        counts.update(sessions=1, messages=len(stored))
        return True

    def _build_session_info(self, tx: Tx, scope: Scope, session: SnapshotSession) -> SessionInfo:
        """The session as ours. One whose chat has a live session here comes in ended: a key has one live session."""
        try:
            session_id = check_id(session.original_id, "session id")
        except InvalidKey:
            session_id = with_bucket(self.new_id(), user_partition(scope.tenant, session.user).bucket)
        agent = session.agent or self.config.session.default_agent
        owner = Scope(scope.tenant, session.user, agent)
        taken = (
            session.state is not SessionStatus.TERMINATED
            and Sessions(tx).find_open(owner, str(session.key)) is not None
        )
        return SessionInfo(
            id=session_id,
            tenant=owner.tenant,
            user=session.user,
            agent=agent,
            key=session.key,
            state=SessionStatus.TERMINATED if taken else session.state,
            metadata={**session.metadata, IMPORTED_ID: session.original_id},
            created_at=session.created_at,
            last_active_at=session.last_active_at,
        )


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


def _build_report(name: str, counts: Counter[str], skipped: Sequence[str], *, dry_run: bool = False) -> ImportResult:
    told = tuple(ImportSkip(name, note) for note in skipped)
    return ImportResult(SNAPSHOT, **dict[str, Any](counts), left_out=len(told), skipped=told, dry_run=dry_run)
