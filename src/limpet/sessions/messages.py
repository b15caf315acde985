"""Add messages to a session, prepared before the transaction and stored in it; read the newest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple

from limpet.config import ChunkSettings
from limpet.errors import BudgetTooSmall, IdempotencyConflict, SequenceConflict, WrongState
from limpet.model.chunk import ChunkDraft, ChunkSource, SourceKind
from limpet.model.dataclass import dataclass, replace
from limpet.model.message import Cost, HistoryBudget, Message, Role, fit_history, group_steps, message_tokens
from limpet.model.scope import Partition, Scope
from limpet.model.session import SessionStatus
from limpet.model.values import Clock, check_name
from limpet.search.chunk_repository import Chunks
from limpet.search.embed import ChunkEmbedder, chunk_message
from limpet.security.telemetry import Progress
from limpet.sessions.repository import Head, Messages, Sessions
from limpet.store.store import Store
from limpet.store.tx import Tx

# More writes for the same transaction. It receives only the new messages, not those stored before under their key.
WithinTransaction = Callable[[Tx, list[Message]], None]
# Whether the message that is stored under an idempotency key is the one that is sent again under it.
IsSame = Callable[[Message, Message], bool]

OTHER_MESSAGE = "this idempotency_key was used for another message of this session; choose a new one for each message"


class MessageWithChunks(NamedTuple):
    """A message and its chunks for search."""

    message: Message
    chunks: tuple[ChunkDraft, ...]


@dataclass(frozen=True, slots=True)
class MessageAppender:
    """Adds messages to a session: split and embedded before the transaction, stored in one."""

    store: Store
    settings: ChunkSettings
    embedder: ChunkEmbedder
    clock: Clock

    def append(
        self,
        scope: Scope,
        messages: Sequence[Message],
        progress: Progress | None = None,
        within: WithinTransaction | None = None,
        is_same: IsSame | None = Message.is_duplicate_of,
        prefetch: Callable[[Tx], None] | None = None,
    ) -> list[Message]:
        """Add all or none, with the next sequence numbers.

        A message whose idempotency key is stored is not added again. Raises IdempotencyConflict where it is another
        one; with ``is_same=None`` the stored one stands for any. ``prefetch``: what ``within`` reads of the partition.
        """
        now = self.clock()
        entries = prepare_entries(messages, self.settings, now)
        entries = self._embed(scope.partition, entries, progress)

        def write(tx: Tx) -> list[Message]:
            if prefetch is not None:
                prefetch(tx)
            head = Sessions(tx).lock_head(scope)
            stored = store_entries(tx, scope, entries, now, head, is_same=is_same)
            if within is not None:
                within(tx, [message for message in stored if message.sequence > head.last_sequence])
            return stored

        stored = self.store.write(write)
        self.embedder.request_missing(chunk for entry in entries for chunk in entry.chunks)
        return stored

    def append_once(
        self, scope: Scope, messages: Sequence[Message], key: str, progress: Progress | None = None
    ) -> list[Message]:
        """Add all under one idempotency key: either all are new, or all were stored before."""
        numbered = [
            replace(message, idempotency_key=check_name(f"{key}/{number}", "idempotency_key"))
            for number, message in enumerate(messages)
        ]

        def check_all_or_none(_tx: Tx, new: list[Message]) -> None:
            if 0 < len(new) < len(numbered):
                raise IdempotencyConflict(OTHER_MESSAGE)

        return self.append(scope, numbered, progress, check_all_or_none)

    def _embed(
        self, partition: Partition, entries: list[MessageWithChunks], progress: Progress | None
    ) -> list[MessageWithChunks]:
        if not self.embedder.is_inline:
            return entries
        names = [entry.message.name for entry in entries if entry.message.name]
        chunks = [chunk for entry in entries for chunk in entry.chunks]
        drafts = iter(self.embedder.embed_drafts(partition, chunks, names, progress))
        return [MessageWithChunks(entry.message, tuple(next(drafts) for _ in entry.chunks)) for entry in entries]


def prepare_entries(messages: Sequence[Message], config: ChunkSettings, now: datetime) -> list[MessageWithChunks]:
    """Do the slow work before the transaction: chunking and word analysis."""
    return [MessageWithChunks(message, _chunk_message(message, config, now)) for message in messages]


def _chunk_message(message: Message, config: ChunkSettings, now: datetime) -> tuple[ChunkDraft, ...]:
    # A system prompt is an instruction, not an event; it must not be recalled as a memory.
    if message.role is Role.SYSTEM:
        return ()
    return chunk_message(message, message.created_at or now, config.max_chars, config.overlap)


def store_entries(
    tx: Tx,
    scope: Scope,
    entries: Sequence[MessageWithChunks],
    now: datetime,
    head: Head | None = None,
    *,
    any_state: bool = False,
    is_same: IsSame | None = None,
) -> list[Message]:
    """Store the messages with the next sequence numbers; all or none. ``head``: of the session, where it is locked.

    Raises WrongState where the session is paused or has ended, unless ``any_state``: an import brings what was said.
    """
    head = head or Sessions(tx).lock_head(scope)
    last, added, active_at, oldest_at = head.last_sequence, 0, head.last_active_at, now
    stored = []
    for entry in entries:
        message = entry.message
        if message.idempotency_key is not None:
            first = Messages(tx).find_by_idempotency_key(scope, message.idempotency_key)
            if first is not None:
                if is_same is not None and not is_same(first, message):
                    raise IdempotencyConflict(OTHER_MESSAGE)
                stored.append(first)
                continue
        if not any_state:
            refuse_inactive(scope, head, now)
        last = _next_sequence(message.sequence, last)
        message = message.with_sequence(last, message.created_at or now)
        Messages(tx).insert(scope, message)
        index_message(tx, scope, message, entry.chunks)
        stored.append(message)
        added += 1
        active_at = max(active_at, min(message.created_at or now, now))  # a future date is not activity
        oldest_at = min(oldest_at, message.created_at or now)
    if added:
        Sessions(tx).advance(scope, head, last, added, active_at, oldest_at)
    return stored


def refuse_inactive(scope: Scope, head: Head, now: datetime) -> None:
    """Raises WrongState: what is paused or has ended takes no messages, on any interface."""
    if head.state is SessionStatus.PAUSED:
        raise WrongState(f"session {scope.session} is paused and takes no messages; resume it first")
    over = head.expires_at is not None and head.expires_at <= now
    if over or head.state is SessionStatus.TERMINATED:
        end = "expired" if over else "terminated"
        raise WrongState(f"session {scope.session} is {end}; memory.session(…) returns its successor")


def _next_sequence(requested: int, last: int) -> int:
    if not requested:
        return last + 1
    if requested <= last:
        raise SequenceConflict(
            f"sequence {requested} is not above the session's last one, {last}; leave it out to get the next"
        )
    return requested


def index_message(tx: Tx, scope: Scope, message: Message, chunks: Sequence[ChunkDraft]) -> None:
    assert scope.session is not None
    assert message.created_at is not None
    source = ChunkSource(
        kind=SourceKind.MESSAGE,
        id=scope.session,
        created_at=message.created_at,
        session_id=scope.session,
        sequence=message.sequence,
        role=message.role.value,
        name=message.name,
    )
    Chunks(tx).add(scope.partition, source, chunks)


def index_again(tx: Tx, scope: Scope, sequences: Sequence[int], config: ChunkSettings, now: datetime) -> None:
    """Cut and index stored messages again after their text was changed. Others that say the same keep their chunks."""
    _, shared = Chunks(tx).drop_messages(scope, sequences)
    changed = set(sequences)
    low = min([*changed, *(first for first, _ in shared.values())])
    high = max([*changed, *(last for _, last in shared.values())])
    history = Messages(tx).range(scope, low - 1, high + 1, None) if shared else _read_each(tx, scope, sequences)
    for entry in prepare_entries(history, config, now):
        own = entry.message.sequence in changed
        drafts = [draft for draft in entry.chunks if own or draft.hash in shared]
        if drafts:
            index_message(tx, scope, entry.message, drafts)


def _read_each(tx: Tx, scope: Scope, sequences: Sequence[int]) -> list[Message]:
    return [
        message
        for sequence in sorted(sequences)
        for message in Messages(tx).range(scope, sequence - 1, sequence + 1, None)
    ]


# The newest messages that fit a budget, read page by page


ReadRecent = Callable[[int, int | None], list[Message]]

_PAGE = 64
_TURN = 12


def read_newest(
    recent: ReadRecent, max_tokens: int, max_messages: int | None = None, cost: Cost = message_tokens, after: int = 0
) -> list[Message]:
    """Return only messages ``after`` that sequence, and always the latest user message.

    ``recent`` reads the newest messages, or the newest before a sequence.
    """
    if max_tokens < 1:
        raise BudgetTooSmall(f"max_tokens must be at least 1, not {max_tokens}")
    collected: list[Message] = []
    # A little more than the budget, so that the turn it starts in is mostly included.
    size, before = first_page_size(max_messages), None
    while True:
        page = recent(size, before)
        collected = page + collected
        crossed = bool(page) and page[0].sequence <= after and any(message.role is Role.USER for message in collected)
        if len(page) < size or crossed:
            return fit_history(_messages_since(collected, after), max_tokens, max_messages, cost)
        # Only turns from a user message on are complete; if those exceed the budget, the rest does not matter.
        opening = next((at for at, message in enumerate(collected) if message.role is Role.USER), None)
        whole = [] if opening is None else _messages_since(collected[opening:], after)
        if not HistoryBudget(whole, max_tokens, max_messages, cost).take(group_steps(whole)):
            return fit_history(whole, max_tokens, max_messages, cost)
        size, before = size * 2, page[0].sequence


def first_page_size(max_messages: int | None) -> int:
    return _PAGE if max_messages is None else min(_PAGE, max_messages + _TURN)


def _messages_since(history: list[Message], after: int) -> list[Message]:
    """Return the messages after it and the latest user message, or the whole last turn if there are none."""
    latest = max((at for at, message in enumerate(history) if message.role is Role.USER), default=len(history))
    start = next((at for at, message in enumerate(history) if message.sequence > after), len(history))
    if start == len(history):
        return history[latest:]
    return [*history[latest : min(latest + 1, start)], *history[start:]]
