"""What another program wrote, stored: each conversation, memory and document under an id made of the one it has there.

So the same file again adds nothing, and a newer one adds what is new. A call that was interrupted is simply repeated.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import field, replace
from datetime import datetime
from functools import partial

from limpet.config import Config
from limpet.documents.add import DocumentIngester
from limpet.errors import InvalidInput
from limpet.knowledge import remember
from limpet.knowledge.repository import Records
from limpet.lifecycle.formats import mem0
from limpet.lifecycle.formats.contents import ForeignDocument, ForeignItem, ForeignRecord, ForeignSession
from limpet.lifecycle.formats.detect import read
from limpet.lifecycle.formats.snapshot import fill_missing_times
from limpet.lifecycle.formats.source import ImportSource
from limpet.model.dataclass import dataclass
from limpet.model.document import DocumentStatus
from limpet.model.record import Layer, Origin, Record, RecordChanges, RecordType, fingerprint
from limpet.model.scope import Level, Owner, Partition, Scope, SessionKey
from limpet.model.session import SessionInfo, SessionStatus
from limpet.model.telemetry import Progress
from limpet.model.transfer import MAX_LISTED_SKIPS, ImportResult, ImportSkip
from limpet.model.types import MAX_URI_BYTES
from limpet.model.values import from_micros, uuid7, with_bucket
from limpet.search.embed import ChunkEmbedder
from limpet.sessions.messages import MessageWithChunks, prepare_entries, store_entries
from limpet.sessions.repository import Sessions
from limpet.store.store import Store
from limpet.store.tx import Tx

_MESSAGES = 200  # stored in one transaction
_IMPORTED_ID = "imported_id"
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
            sessions=counts["sessions"],
            messages=counts["messages"],
            records=counts["records"],
            documents=counts["documents"],
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
            self._count("records", taken, added=self.dry_run or self._import_record(found, user))
        else:
            self._count("documents", taken, added=self.dry_run or self._import_document(found, user))

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

    @staticmethod
    def _count(noun: str, taken: _ImportTally, *, added: bool) -> None:
        taken.counts[noun] += added
        taken.here += not added

    # Conversations

    def _import_session(self, found: ForeignSession, user: str, taken: _ImportTally) -> None:
        if not found.messages:
            raise InvalidInput("it has no messages")
        if self.dry_run:
            taken.counts.update(sessions=1, messages=len(found.messages))
            return
        info = self._build_session_info(found, user)
        config = self.config.chunks
        for start in range(0, len(found.messages), _MESSAGES):
            page = fill_missing_times(found.messages[start : start + _MESSAGES], info.created_at)
            entries = prepare_entries(page, config, self.now)
            new, added = self.store.write(partial(self._store_messages, info=info, entries=entries))
            taken.counts.update(sessions=new, messages=added)
            if added and self.learns:
                taken.learning.add(info.id)
            taken.here += len(page) - added

    def _store_messages(self, tx: Tx, info: SessionInfo, entries: Sequence[MessageWithChunks]) -> tuple[int, int]:
        """Store messages, with a job to learn from them. Whether the session is new, and how many of them are."""
        new, added = _store_messages(tx, info, entries, self.now)
        if added and self.learns:
            remember.enqueue_learning(tx, info, self.config, self.now, self.now)
        return new, added

    def _build_session_info(self, found: ForeignSession, user: str) -> SessionInfo:
        agent = self.config.session.default_agent
        said = [message.created_at for message in found.messages if message.created_at]
        created = found.created_at or min(said, default=self.now)
        return SessionInfo(
            id=self._derive_id(user, found.id, found.created_at),
            tenant=self.scope.tenant,
            user=user,
            agent=agent,
            key=SessionKey.of(self.format, found.id),
            state=SessionStatus.TERMINATED,  # it is over, or goes on elsewhere
            metadata={**found.metadata, _IMPORTED_ID: found.id},
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
        space = Partition(self.scope.tenant, Level.USER, user)
        uri = " ".join(found.uri.split())
        if len(uri.encode()) > MAX_URI_BYTES:
            raise InvalidInput(f"its name is longer than {MAX_URI_BYTES:,} bytes")
        labels = found.title, found.metadata or None
        document = self.documents.add(space, uri, found.text, lambda *_: None, *labels)
        assert not isinstance(document, list)
        return document.status is not DocumentStatus.UNCHANGED


def _store_messages(tx: Tx, info: SessionInfo, entries: Sequence[MessageWithChunks], now: datetime) -> tuple[int, int]:
    """Whether the session is new, and how many of the messages are."""
    scope, new = info.scope, 0
    if Sessions(tx).get(scope) is None:
        if not Sessions(tx).add(scope, info):
            raise InvalidInput("its id belongs to another user's session here")
        new = 1
    before = Sessions(tx).get_head(scope).message_count
    store_entries(tx, scope, entries, now, any_state=True)
    return new, Sessions(tx).get_head(scope).message_count - before


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
