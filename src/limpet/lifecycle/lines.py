"""Every kind of line an export has: how its lines are found, written, read and put back.

To add one: a ``LineKind`` here, and an instance of it in ``KINDS`` at the end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple, TypeVar

from limpet.documents.repository import Documents
from limpet.errors import InvalidInput
from limpet.knowledge import remember
from limpet.knowledge.prominence import RECORD_IDS
from limpet.knowledge.repository import Records
from limpet.lifecycle.line_kind import (
    ADDED,
    IDS,
    NO_SESSION,
    PAGE,
    PRESENT,
    ImportTarget,
    LineKind,
    LineOutcome,
    SessionLineKind,
    iter_ids,
    iter_pages,
    iter_session_scopes,
    require_fields,
)
from limpet.lifecycle.transfer_repository import Transfers
from limpet.model.chunk import ChunkDraft, ChunkSource, SourceKind
from limpet.model.dataclass import replace
from limpet.model.graph import GraphDraft, GraphSource
from limpet.model.job import EXTRACT, GRAPH, GRAPH_RECORD
from limpet.model.message import Message
from limpet.model.note import check_note_name
from limpet.model.record import Record, fingerprint
from limpet.model.schedule import Schedule
from limpet.model.scope import Level, Owner, Partition, Scope, SessionKey, user_partition
from limpet.model.session import MAX_VALUE_BYTES, SessionStatus
from limpet.model.tokens import estimate_tokens
from limpet.model.transfer import (
    DocumentState,
    KvState,
    MessageState,
    NoteState,
    PieceState,
    RecordState,
    RunState,
    SessionState,
)
from limpet.model.values import MAX_CONTENT_BYTES, check_json, load_timezone
from limpet.notes.repository import Notes
from limpet.schedules.cadence import parse_cadence
from limpet.schedules.repository import Schedules
from limpet.search.chunk_repository import Chunks
from limpet.search.embed import make_draft
from limpet.search.graph_repository import GraphTables
from limpet.sessions.messages import MessageWithChunks, index_message, prepare_entries
from limpet.sessions.repository import KeyValueEntries, Messages, Sessions, UsageEntries
from limpet.store.tx import Tx

T = TypeVar("T")

_MENTIONS = 2_000
_ALL = 1 << 31  # what a setting hides today, another one shows tomorrow
_HASH = re.compile(r"[0-9a-f]{32}")


class _SessionLines(LineKind[SessionState]):
    """Put back without messages first, and settled when those are there."""

    name, about = "sessions", "a conversation, with its summary and its bill"
    noun: str | None = "sessions"

    def find(self, tx: Tx, scope: Scope) -> Iterator[SessionState]:
        return map(Transfers(tx).get_session, iter_session_scopes(tx, scope))

    def read(self, value: dict[str, Any], into: ImportTarget) -> SessionState:
        user = into.map_user(value.get("user"))
        into.register_id(value.get("id"), user_partition(into.tenant, user))
        state = super().read(value, into)
        key = state.info.key
        info = replace(state.info, user=user, key=SessionKey.of(key.channel, key.chat, key.thread))
        waiting = tuple(kind for kind in (EXTRACT, GRAPH) if kind in state.waiting)
        return replace(state, info=info, waiting=waiting, external_id=into.external_id(info.id, state.external_id))

    def put_one(self, tx: Tx, state: SessionState, into: ImportTarget) -> LineOutcome:
        info, sessions = state.info, Sessions(tx)
        scope, external = info.scope, state.external_id
        if sessions.get(scope) is not None:
            return PRESENT
        owner = Scope(info.tenant, info.user, info.agent)
        taken = info.state is not SessionStatus.TERMINATED and sessions.find_open(owner, str(info.key)) is not None
        if taken:
            info = replace(info, state=SessionStatus.TERMINATED)
        if external is not None and sessions.get(replace(scope, session=external)) is not None:
            external = None  # another one of theirs is found by it
        if not sessions.add(scope, info, external_id=external, cleared_through=state.cleared_through):
            return LineOutcome(False, "its id belongs to somebody else's session here")
        for entry in state.usage:
            UsageEntries(tx).add(scope, entry)
        return LineOutcome(True, "its chat has a live session here, so it came in ended" if taken else "")

    def owner(self, state: SessionState) -> tuple[str, str] | None:
        return state.info.id, state.info.user


class _SessionStateLines(_SessionLines):
    """The same lines once more, when the messages are there that the summary and the cursors speak of."""

    noun = None

    def put_one(self, tx: Tx, state: SessionState, into: ImportTarget) -> LineOutcome:
        if Sessions(tx).get(state.info.scope) is not None:
            Transfers(tx).restore_session_state(state.info.scope, state)
        return LineOutcome(False)


class _KvLines(SessionLineKind[KvState]):
    """The oldest first. Working memory is one of them."""

    name, about = "kv", "a key-value entry of a session"

    def find(self, tx: Tx, scope: Scope) -> Iterator[KvState]:
        for one in iter_session_scopes(tx, scope):
            yield from (KvState(str(one.session), entry) for entry in KeyValueEntries(tx).items(one, _ALL))

    def read(self, value: dict[str, Any], into: ImportTarget) -> KvState:
        state = super().read(value, into)
        checked = check_json(state.entry.value, "a value", max_bytes=MAX_VALUE_BYTES)
        return replace(state, entry=replace(state.entry, value=checked))

    def put_in(self, tx: Tx, scope: Scope, items: Sequence[KvState]) -> list[LineOutcome]:
        Sessions(tx).lock_head(scope)
        known = {entry.key for entry in KeyValueEntries(tx).items(scope, _ALL)}
        for entry in (item.entry for item in items if item.entry.key not in known):
            KeyValueEntries(tx).set(scope, entry.key, entry.value, entry.updated_at, _ALL)
        return [PRESENT if item.entry.key in known else ADDED for item in items]


class _PreparedMessage(NamedTuple):
    session_id: str
    entry: MessageWithChunks


class _MessageLines(SessionLineKind[MessageState]):
    """In the order of their sessions and sequence numbers, which they keep."""

    name, about, noun = "messages", "one entry of a conversation", "messages"
    required = ("sequence", "created_at")

    def find(self, tx: Tx, scope: Scope) -> Iterator[MessageState]:
        for one in iter_session_scopes(tx, scope):
            read = partial(Messages(tx).range, one, before=None, limit=PAGE)
            for message in iter_pages(read, 0, lambda message: message.sequence):
                yield MessageState(str(one.session), message)

    def write(self, state: MessageState) -> dict[str, Any]:
        line = super().write(state)
        if not isinstance(state.message.content, str):
            parts: list[dict[str, Any]] = line["content"]
            line["content"] = [{name: value for name, value in part.items() if value is not None} for part in parts]
        return line

    def read(self, value: dict[str, Any], into: ImportTarget) -> MessageState:
        state = super().read(value, into)
        message = state.message
        if message.sequence < 1:
            raise InvalidInput(f"sequence must be a whole number from 1 up, not {message.sequence}")
        if "tokens" not in value:
            state = replace(state, message=replace(message, tokens=estimate_tokens(message.searchable)))
        return state

    def prepare(self, state: MessageState, into: ImportTarget) -> _PreparedMessage:
        assert state.message.created_at is not None
        [entry] = prepare_entries([state.message], into.config.chunks, state.message.created_at)
        return _PreparedMessage(state.session_id, entry)

    def put_in(self, tx: Tx, scope: Scope, items: Sequence[_PreparedMessage]) -> list[LineOutcome]:
        head = Sessions(tx).lock_head(scope)
        last, outcomes = head.last_sequence, []
        for _, entry in items:
            outcome = _find_obstacle(tx, scope, entry.message, last)
            if outcome is None:
                Messages(tx).insert(scope, entry.message)
                index_message(tx, scope, entry.message, entry.chunks)
                last = entry.message.sequence
            outcomes.append(outcome or ADDED)
        added = outcomes.count(ADDED)
        if added:
            oldest = min(item.entry.message.created_at or head.last_active_at for item in items)
            Sessions(tx).advance(scope, head, last, added, head.last_active_at, oldest)
        return outcomes


def _find_obstacle(tx: Tx, scope: Scope, message: Message, last: int) -> LineOutcome | None:
    """Why a message cannot be put behind the last one."""
    if message.sequence <= last:
        here = Transfers(tx).has_message(scope, message.sequence)
        return PRESENT if here else LineOutcome(False, "it was removed here since")
    key = message.idempotency_key
    if key is not None and Messages(tx).find_by_idempotency_key(scope, key) is not None:
        return LineOutcome(False, f"{PRESENT.reason}, under another number")
    return None


class _RecordLines(LineKind[RecordState]):
    """With what they said before; the engine's own ones, such as a profile, too."""

    name, about, noun = "records", "a long-term memory", "records"
    _OWNER = ("level", "user", "agent", "session_id")  # a version is where its record is

    def find(self, tx: Tx, scope: Scope) -> Iterator[RecordState]:
        for page in iter_ids(lambda after: Transfers(tx).record_ids(scope, after, IDS)):
            yield from Transfers(tx).records(scope, page)

    def write(self, state: RecordState) -> dict[str, Any]:
        line = super().write(state)
        for version in line.get("versions", ()):
            for name in self._OWNER:
                version.pop(name, None)
        return line

    def read(self, value: dict[str, Any], into: ImportTarget) -> RecordState:
        owner = {name: value[name] for name in self._OWNER if name in value}
        versions = value.get("versions")
        if isinstance(versions, list):
            value = value | {"versions": [each | owner if isinstance(each, dict) else each for each in versions]}
        home = into.map_owner(self.line.read(value, {"tenant": into.tenant}).record.home)
        into.register_id(value.get("id"), home.space)
        state = super().read(value, into)
        home = into.map_owner(state.record.home)
        if any(version.record.id != state.record.id for version in state.versions):
            raise InvalidInput("versions: a version has another id than its record")
        return RecordState(
            _complete(state.record, home, into),
            tuple(replace(version, record=_complete(version.record, home, into)) for version in state.versions),
            (GRAPH_RECORD,) if GRAPH_RECORD in state.waiting else (),
            into.external_id(state.record.id, state.external_id),
        )

    def put_one(self, tx: Tx, state: RecordState, into: ImportTarget) -> LineOutcome:
        record, records = state.record, Records(tx)
        home, tenant = record.home, record.home.scope.tenant
        if records.get(Scope(tenant), record.id) is not None:
            return PRESENT
        owner = Scope(tenant, user=home.scope.user, session=home.scope.session)
        if home.level is Level.SESSION and Sessions(tx).get(owner) is None:
            return NO_SESSION
        if record.key is not None and (holder := records.find_by_key(home, record.key)) is not None:
            return LineOutcome(False, f"its key {record.key!r} belongs to record {holder.id} here")
        if state.external_id is not None and records.get(home.scope, state.external_id) is not None:
            state = replace(state, external_id=None)  # another one of theirs is found by it
        Transfers(tx).put_record(home, state)
        remember.index(tx, record, remember.RecordChunker(into.config.chunks))
        return ADDED

    def owner(self, state: RecordState) -> tuple[str, str] | None:
        return state.record.id, state.record.user or ""


def _complete(record: Record, home: Owner, into: ImportTarget) -> Record:
    if missing := [name for name in ("created_at", "updated_at", "valid_from") if getattr(record, name) is None]:
        raise InvalidInput(f"{', '.join(missing)} is missing")
    named = {name: into.map_ids(record.metadata[name]) for name in RECORD_IDS if name in record.metadata}
    return replace(
        record,
        home=home,
        metadata={**record.metadata, **named},
        fingerprint=record.fingerprint or fingerprint(record.type, record.content),
    )


class _DocumentLines(LineKind[DocumentState]):
    name, about, noun = "documents", "a text somebody gave to be remembered", "documents"

    def find(self, tx: Tx, scope: Scope) -> Iterator[DocumentState]:
        read = partial(Transfers(tx).documents, scope, limit=PAGE)
        return iter_pages(read, "", lambda state: state.document.id)

    def read(self, value: dict[str, Any], into: ImportTarget) -> DocumentState:
        state = super().read(value, into)
        if not _HASH.fullmatch(state.document.content_hash):
            raise InvalidInput("content_hash must be 32 hexadecimal digits")
        return replace(state, space=into.map_partition(state.space))

    def put_one(self, tx: Tx, state: DocumentState, into: ImportTarget) -> LineOutcome:
        document = state.document
        there = Documents(tx).lock(state.space, document.uri)
        if there is not None and there.id != document.id:
            return LineOutcome(False, f"another document is here under {document.uri}")
        if there is not None:
            return PRESENT
        if Transfers(tx).document(Scope(state.space.tenant), document.id) is not None:
            return LineOutcome(False, "its id belongs to another document here")
        if Documents(tx).find_hidden(state.space, document.uri) is not None:
            return LineOutcome(False, f"{document.uri} is being written or removed; import it again")
        Documents(tx).insert(state.space, document)
        return ADDED

    def owner(self, state: DocumentState) -> tuple[str, str] | None:
        return state.document.id, f"{state.space.level.value}:{state.space.owner}"


class _PreparedPiece(NamedTuple):
    state: PieceState
    draft: ChunkDraft | None


class _PieceLines(LineKind[PieceState]):
    name = "pieces"
    about = "a piece of a document's text, as it is searched; two neighbours share a few words"

    def find(self, tx: Tx, scope: Scope) -> Iterator[PieceState]:
        for state in DOCUMENTS.find(tx, scope):
            read = partial(Transfers(tx).pieces, state.space, state.document.id, limit=PAGE)
            for _, piece in iter_pages(read, -1, lambda numbered: numbered[0]):
                yield PieceState(state.document.id, piece)

    def prepare(self, state: PieceState, into: ImportTarget) -> _PreparedPiece:
        return _PreparedPiece(state, make_draft(state.piece.text, state.piece.offset))

    def put(self, tx: Tx, items: Sequence[_PreparedPiece], into: ImportTarget) -> list[LineOutcome]:
        outcomes: list[LineOutcome] = []
        for document_id, group in groupby(items, key=lambda item: item.state.document_id):
            outcomes += self._put_text(tx, into, document_id, list(group))
        return outcomes

    @staticmethod
    def _put_text(tx: Tx, into: ImportTarget, document_id: str, texts: Sequence[_PreparedPiece]) -> list[LineOutcome]:
        state = Transfers(tx).document(into.scope, document_id)
        if state is None:
            return [LineOutcome(False, "its document is not here")] * len(texts)
        last, version = Transfers(tx).last_piece(state.space, document_id)
        kind, made, changed = SourceKind.DOCUMENT, state.document.created_at, state.document.updated_at
        source = ChunkSource(kind, document_id, created_at=made, worded_at=changed, version=version)
        new = [text for text in texts if text.state.piece.offset > last]
        Chunks(tx).add(state.space, source, [text.draft for text in new if text.draft is not None])
        return [ADDED if text.state.piece.offset > last else PRESENT for text in texts]


class _GraphLines(LineKind[GraphDraft]):
    """By the messages and records it was read from: a model's reading cannot be had again."""

    name, about = "graph", "what one message or record says for the graph"

    def find(self, tx: Tx, scope: Scope) -> Iterator[GraphDraft]:
        for one in iter_session_scopes(tx, scope):
            if (info := Sessions(tx).get(one)) is not None:
                read = partial(Transfers(tx).find_graph_by_session, info.scope, limit=_MENTIONS)
                yield from iter_pages(read, 0, lambda told: told.source.sequence or 0)
        for state in RECORDS.find(tx, scope):
            told = Transfers(tx).get_graph_of_record(state.record.home.space, state.record.id)
            if told is not None:
                yield told

    def read(self, value: dict[str, Any], into: ImportTarget) -> GraphDraft:
        told = super().read(value, into)
        if not told.entities:
            raise InvalidInput("entities is missing")
        named = {found.id for found in told.entities}
        for stated in told.relations:
            if stated.subject not in named or (stated.object is not None and stated.object not in named):
                raise InvalidInput("a relation is between entities of its own line")
        if told.source.record_id is not None:
            return replace(told, source=GraphSource(told.source.at, record_id=told.source.record_id))
        require_fields(value, "session_id", "sequence")
        return told

    def put_one(self, tx: Tx, state: GraphDraft, into: ImportTarget) -> LineOutcome:
        space = self._find_partition(tx, state.source, into)
        if space is None:
            return LineOutcome(False, "what it was read from is not here")
        if Transfers(tx).has_graph_source(space, state.source):
            return PRESENT
        GraphTables(tx).add(space, [state])
        return ADDED

    @staticmethod
    def _find_partition(tx: Tx, source: GraphSource, into: ImportTarget) -> Partition | None:
        if source.record_id is not None:
            record = Records(tx).get(into.scope, source.record_id)
            return None if record is None else record.home.space
        info = Sessions(tx).get(Scope(into.tenant, user=into.user, session=source.session_id))
        if info is None or not Transfers(tx).has_message(info.scope, source.sequence or 0):
            return None
        return info.partition


class _NoteLines(LineKind[NoteState]):
    name, about, noun = "notes", "a user's MEMORY.md, or the notes of a day", "notes"
    required = ("name", "text", "updated_at")

    def find(self, tx: Tx, scope: Scope) -> Iterator[NoteState]:
        for space in Transfers(tx).find_partitions(scope):
            for name in Notes(tx).list_names(space):
                note = Notes(tx).get(space, name)
                assert note is not None
                yield NoteState(space, note)

    def read(self, value: dict[str, Any], into: ImportTarget) -> NoteState:
        state = super().read(value, into)
        check_note_name(state.note.name)
        return replace(state, space=into.map_partition(state.space))

    def put_one(self, tx: Tx, state: NoteState, into: ImportTarget) -> LineOutcome:
        note, there = state.note, Notes(tx).get(state.space, state.note.name)
        if there is not None:
            return PRESENT if there.text == note.text else LineOutcome(False, f"another {note.name} is here, and stays")
        Notes(tx).put(state.space, replace(note, pending=into.mirrors_notes))
        return ADDED


class _ScheduleLines(LineKind[Schedule]):
    name, noun, required = "schedules", "schedules", ("state",)
    about = "a goal that comes back; whether it is being run just now is not told"

    def find(self, tx: Tx, scope: Scope) -> Iterator[Schedule]:
        return iter_pages(partial(Schedules(tx).page, scope, limit=PAGE), "", lambda schedule: schedule.id)

    def read(self, value: dict[str, Any], into: ImportTarget) -> Schedule:
        schedule = super().read(value, into)
        if (schedule.due_at is None) != (schedule.next_run_at is None):
            raise InvalidInput("due_at and next_run_at belong together: give both or none")
        zone = schedule.timezone
        try:
            load_timezone(zone)
        except InvalidInput:
            zone = "UTC"  # one that is unknown here is kept for who knows it; how a cadence is written needs none
        parse_cadence(schedule.cadence, zone, schedule.anchor_at)
        return replace(schedule, user=into.map_user(schedule.user))

    def put_one(self, tx: Tx, state: Schedule, into: ImportTarget) -> LineOutcome:
        """However many the user has: a limit is for those who make one."""
        # A purge finds a user by their space; and two imports at the same time would else both find nothing here.
        Chunks(tx).lock(state.scope.partition)
        if Schedules(tx).get(state.scope, state.id) is not None:
            return PRESENT
        if Transfers(tx).find_conflicting_ids(state.scope, self.name, {state.id: state.user}):
            return LineOutcome(False, "its id belongs to somebody else's schedule here")
        Schedules(tx).insert(state.scope, state)
        return ADDED

    def owner(self, state: Schedule) -> tuple[str, str] | None:
        return state.id, state.user


class _RunLines(LineKind[RunState]):
    name, about = "schedule_runs", "what came of a schedule once"

    def find(self, tx: Tx, scope: Scope) -> Iterator[RunState]:
        for page in iter_ids(lambda after: Schedules(tx).run_ids(scope, after, IDS)):
            for id_ in page:
                run = Schedules(tx).get_run(scope, id_)
                output = Schedules(tx).read_output(scope, id_, 0, MAX_CONTENT_BYTES)
                if run is not None and output is not None:
                    yield RunState(run, output[0])

    def read(self, value: dict[str, Any], into: ImportTarget) -> RunState:
        state = super().read(value, into)
        return replace(state, run=replace(state.run, output_characters=len(state.output)))

    def put_one(self, tx: Tx, state: RunState, into: ImportTarget) -> LineOutcome:
        run, scope = state.run, into.scope
        schedule = Schedules(tx).lock(scope, run.schedule_id)
        if schedule is None:
            return LineOutcome(False, "its schedule is not here")
        if Transfers(tx).find_conflicting_ids(scope, self.name, {run.id: run.schedule_id}):
            return LineOutcome(False, "its id belongs to another schedule's run here")
        if Schedules(tx).get_run(scope, run.id) is not None:
            return PRESENT
        Schedules(tx).add_run(schedule, run, state.output)
        return ADDED

    def owner(self, state: RunState) -> tuple[str, str] | None:
        return state.run.id, state.run.schedule_id


RECORDS, DOCUMENTS = _RecordLines(RecordState), _DocumentLines(DocumentState)
# What is written, a file each, in this order.
KINDS: tuple[LineKind[Any], ...] = (
    _SessionLines(SessionState),
    _KvLines(KvState),
    _MessageLines(MessageState),
    RECORDS,
    DOCUMENTS,
    _PieceLines(PieceState),
    _GraphLines(GraphDraft),
    _NoteLines(NoteState),
    _ScheduleLines(Schedule),
    _RunLines(RunState),
)
# How it is put back: what others point to before those that point.
IMPORT_STEPS: tuple[LineKind[Any], ...] = (*KINDS[:3], _SessionStateLines(SessionState), *KINDS[3:])
