"""A turn: the user's message in, a context out, the reply in.

What memory knows is read before the turn is written: a question is not its own best answer. Then the user's message is
kept, history compacted if that is due, the context laid out; the agent works; the reply is kept, and the day's note
written. Each step is a function below. One that fails is logged and left out, and the turn goes on without it; only a
turn that is not kept in the end raises.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache, partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

from limpet.api import parameters as arg
from limpet.api.runtime import Runtime
from limpet.errors import InvalidInput, SessionNotFound, StorageError, StoreFull
from limpet.knowledge.candidate import QUOTED_KEY, find_echoes
from limpet.knowledge.opt_out import asks_not_to_keep
from limpet.model.context import Context, Omission
from limpet.model.dataclass import replace
from limpet.model.message import Message, Role, ToolCall
from limpet.model.scope import Scope
from limpet.model.session import CompactionResult, ModelUsage, SessionInfo
from limpet.model.values import check_optional_name
from limpet.notes.user_notes import TurnNote
from limpet.providers.llm import Deadline
from limpet.search.chunk_repository import Chunks
from limpet.search.recipes import SKILL_KEY
from limpet.security.operation import Authorizer, Interface, session_operation
from limpet.sessions import usage as bill
from limpet.sessions.messages import IsSame, MessageAppender, WithinTransaction
from limpet.store.tx import Tx

if TYPE_CHECKING:
    from limpet.context.build import ContextRequest, Conversation
    from limpet.context.select import ContextInputs

log = logging.getLogger("limpet.turn")

T = TypeVar("T")

_BY_CHAT: Mapping[Interface, str] = {"cli": "the command chat takes turns"}


class StoredMessages(NamedTuple):
    """Messages as they are stored; ``new`` unless all of them were stored before, under their idempotency keys."""

    messages: list[Message]
    new: bool


class Turn:
    """One exchange of a session, used with ``with``. Belongs to one thread."""

    def __init__(
        self,
        runtime: Runtime,
        authorizer: Authorizer,
        info: SessionInfo,
        message: Message,
        asked: ContextRequest,
        window: int | None,
    ) -> None:
        self._runtime = runtime
        self._authorizer = authorizer
        self._scope = info.scope
        self._info = info
        self._asked = asked
        self._window = window
        self._message = message
        self._context: Context | None = None
        self._steps: list[Message] = []
        self._reply: Message | None = None
        key = message.idempotency_key  # a turn that is repeated under its key finds its reply again, too
        self._answering = None if key is None else check_optional_name(f"{key}/reply", "idempotency_key")
        self._compacted: tuple[CompactionResult, ...] = ()
        self._today = ""  # the note of the day, as the context has it
        self._read: Conversation | None = None  # before the question
        self._removals = -1  # when the question was stored
        self._kept = False
        self._open = False
        self._failed: list[Omission] = []

    def __repr__(self) -> str:
        state = "replied" if self._reply else "open" if self._open else "over" if self._context else "not begun"
        return f"<Turn of {self._info.key} {self._info.id}, {state}>"

    @property
    def message(self) -> Message:
        """The user's message, as it is stored."""
        return self._message

    @property
    def context(self) -> Context:
        """What belongs into the prompt."""
        if self._context is None:
            raise InvalidInput("a turn must be used in a with block: with session.turn(…) as t")
        return self._context

    @property
    def compacted(self) -> CompactionResult | None:
        """What was compacted last to make room for this turn; None where nothing had to be."""
        return self._compacted[-1] if self._compacted else None

    @property
    def failed(self) -> tuple[Omission, ...]:
        """The steps of memory that failed, and why. They are in the log too."""
        return tuple(self._failed)

    # The user's side

    @session_operation("session.turn", "read:user write:session", "POST /turns", status=201, left_out=_BY_CHAT)
    def __enter__(self) -> Self:
        """Store the user's message and compose the context."""
        if self._context is not None:
            raise InvalidInput("a turn can be used once; session.turn(…) starts the next")
        known = self._attempt("what memory knows", self._recall, self._asked.start_inputs(self._info.id))
        self._today = known.today
        self._failed += known.failed
        self._message, self._kept = self._store_question()
        deadline = self._runtime.compactor.start_deadline()
        read = self._attempt("compacting history", lambda: self._compact(deadline), None)
        self._context = self._compose_context(known, deadline, read)
        self._open = True
        return self

    def _recall(self) -> ContextInputs:
        """Before the turn is written: what memory knows about the question, and what the user's files say."""
        visible = self._authorizer.filter_visible(self._info.scope.list_visible(self._info.agent))
        known, self._read = self._runtime.context.recall_with_conversation(self._info.scope, visible, self._asked)
        return known

    def _store_question(self) -> tuple[Message, bool]:
        kept = self._attempt("keeping the user's message", lambda: self._store([self._message]), None, StorageError)
        if kept is not None:
            return kept.messages[0], True
        return replace(self._message, created_at=self._message.created_at or self._asked.now), False

    def _compact(self, deadline: Deadline) -> Conversation | None:
        """Return what is known with the conversation, unless that was compacted and is to be read again."""
        builder, scope, before = self._runtime.context, self._info.scope, self._read
        is_stored = self._kept and not self._runtime.keeps_nothing
        known = None if before is None or not is_stored else before.with_next(self._message, self._removals)
        compacted, read = builder.compact_if_due(scope, self._asked, self._window, deadline, known)
        self._compacted = (compacted,) if compacted.done else ()
        return None if compacted.done else read

    def _compose_context(self, known: ContextInputs, deadline: Deadline, read: Conversation | None) -> Context:
        builder, scope, asked = self._runtime.context, self._info.scope, self._asked
        unsaved = None if self._kept and not self._runtime.keeps_nothing else self._message
        whole = self._attempt(
            "telling all of the history",
            lambda: builder.compose_complete(scope, asked, known, self._window, unsaved, deadline, read),
            None,
        )
        if whole is not None:
            self._compacted += whole.compacted
            return whole.context
        as_it_stands = self._attempt(
            "the conversation", lambda: builder.compose_conversation(scope, asked, known, unsaved), None
        )
        if as_it_stands is not None:
            return as_it_stands
        return builder.compose(asked, known.with_message(self._message))

    # The agent's side

    def add(
        self,
        role: str,
        content: arg.Content,
        *,
        name: str | None = None,
        tool_calls: Iterable[ToolCall | Mapping[str, Any]] = (),
        tool_call_id: str | None = None,
        is_error: bool = False,
        metadata: Mapping[str, Any] | None = None,
        created_at: datetime | None = None,
    ) -> None:
        """A message between the question and the reply, such as a tool's result: kept with the reply, or not at all."""
        self._check_open()
        self._steps.append(
            Message.new(
                role,
                content,
                name=name,
                tool_calls=tool_calls,
                tool_call_id=tool_call_id,
                is_error=is_error,
                metadata=metadata,
                created_at=created_at or self._get_time(),
            )
        )

    def _get_time(self) -> datetime | None:
        """When a message is said that does not say so itself."""
        return self._runtime.clock()

    @session_operation("turn.reply", "write:session", "POST /turns", status=201, left_out=_BY_CHAT)
    def reply(
        self,
        content: arg.Content,
        *,
        tool_calls: arg.ToolCalls = (),
        usage: arg.MessageUsage | None = None,
        skill: arg.Skill | None = None,
        name: arg.Speaker | None = None,
        metadata: arg.Metadata | None = None,
        created_at: arg.CreatedAt | None = None,
    ) -> Message | None:
        """Store the reply and everything that was added before it, in one transaction.

        Raises StorageError if that fails; the call may be repeated. With ``turn.on_lost_write = "log"`` it returns None
        instead. If the turn is repeated under its idempotency key, the first reply is returned and no second one is
        stored.

        ``usage`` is added to the session's usage: ``{"model": …, "input_tokens": …, "output_tokens": …}``, or what
        OpenAI or Anthropic returned.
        """
        self._check_open()
        active = skill or self._asked.skill
        said = Message.from_checked(
            Role.ASSISTANT,
            content,
            name,
            tool_calls,
            metadata={**(metadata or {}), SKILL_KEY: active} if active else metadata,
            created_at=created_at,
            idempotency_key=self._answering,
        )
        said = mark_quotes(said, self.context.text)
        assert usage is None or isinstance(usage, ModelUsage)
        missing = [] if self._kept else [self._message]
        kept = self._keep("keeping the reply", lambda: self._finish([*missing, *self._steps, said], usage))
        self._open = False
        if kept is None:
            return None
        self._kept, self._reply = True, kept.messages[-1]
        return self._reply

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._open and self._steps:
            log.info("%d messages of a turn without a reply are not kept", len(self._steps))
        unsaved, self._open = self._open and not self._kept, False
        if unsaved and error is None:  # there was no reply to try it again with
            self._keep_question()

    def _check_open(self) -> None:
        if self._reply is not None:
            raise InvalidInput("this turn has its reply already; session.turn(…) starts the next")
        if not self._open:
            raise InvalidInput("this turn is not open: reply once, inside its block: with session.turn(…) as t")

    # Both

    def _store(self, messages: Sequence[Message]) -> StoredMessages:
        appender, scope = self._runtime.appender, self._info.scope
        return store_messages(appender, scope, messages, self._note_removals, Message.has_same_content)

    def _note_removals(self, tx: Tx, _new: Sequence[Message]) -> None:
        self._removals = Chunks(tx).count_removals(self._info.partition)

    def _finish(self, messages: Sequence[Message], spent: ModelUsage | None) -> StoredMessages:
        """With what belongs to a finished turn: its bill, its record, its note, and the wish to learn from it."""
        hide = cache(_mask)  # each text once, and before the transaction: it takes a while
        note = self._attempt("the day's note", lambda: self._begin_note(messages[-1].text, hide), None)
        learner = self._runtime.learner  # before the transaction, too
        if learner.config.learn.enabled:
            for message in (self._message, messages[-1]):
                hide(learner.mask, message.text)

        def on_store(tx: Tx, new: Sequence[Message]) -> None:
            if spent is not None:
                bill.add(tx, self._info.scope, spent)
            self._runtime.uses.write(tx, self._info.partition)
            self._runtime.compactor.enqueue(tx, self._info)
            learner.enqueue(tx, self._info, [self._message, *new], self._asked.skill, partial(hide, learner.mask))
            if note is not None:
                self._store_note(tx, note, new[-1])

        # A model that is asked again answers in other words: the first reply counts.
        kept = store_messages(
            self._runtime.appender, self._info.scope, messages, on_store, None, None if note is None else note.prefetch
        )
        if self._runtime.config.learn.enabled or self._runtime.llm is not None:
            self._runtime.wake_worker()
        if note is not None and kept.new:
            self._attempt("the file of the day's note", note.write_file, None)
        return kept

    def _keep_question(self) -> None:
        self._kept = self._keep("keeping the user's message", lambda: self._store([self._message])) is not None

    def _keep(self, what: str, store: Callable[[], StoredMessages]) -> StoredMessages | None:
        """Raises what kept it from being stored, unless the settings want that logged alone."""
        try:
            return store()
        except StorageError as error:
            self._note_failure(what, error)
            if self._runtime.config.turn.on_lost_write == "raise":
                raise
            return None

    def _begin_note(self, reply: str, hide: Callable[[Callable[[str], str], str], str]) -> TurnNote | None:
        if not self._runtime.notes.writes_daily or asks_not_to_keep(self._message.text):
            return None
        notes = self._runtime.notes
        said, answered = (hide(notes.mask, text) for text in (self._message.text, reply))
        return TurnNote(notes, self._info.partition, said, answered, self._today)

    def _store_note(self, tx: Tx, note: TurnNote, reply: Message) -> None:
        assert reply.created_at is not None
        try:
            note.store(tx, reply.created_at)
        except (InvalidInput, StoreFull) as error:  # no room, or no such day: the reply is kept without it
            self._note_failure("the day's note", error)

    def _attempt(self, what: str, work: Callable[[], T], otherwise: T, expected: type[Exception] = Exception) -> T:
        try:
            return work()
        except (InvalidInput, SessionNotFound):
            raise  # what was asked for is wrong: no less memory would help
        except expected as error:  # why: memory never breaks the agent; the turn goes on with less of it
            self._note_failure(what, error)
            return otherwise

    def _note_failure(self, what: str, error: Exception) -> None:
        log.warning("a turn goes on without %s: %s", what, error, exc_info=not isinstance(error, StorageError))
        self._failed.append(Omission(what, str(error) or type(error).__name__))


def _mask(mask: Callable[[str], str], text: str) -> str:
    return mask(text)


def store_messages(
    appender: MessageAppender,
    scope: Scope,
    messages: Sequence[Message],
    finish: WithinTransaction,
    is_same: IsSame | None,
    prefetch: Callable[[Tx], None] | None = None,
) -> StoredMessages:
    """Messages in one transaction with what else they finish, found by search once it is committed."""
    is_new = False

    def on_store(tx: Tx, new: list[Message]) -> None:
        nonlocal is_new
        is_new = bool(new)
        if is_new:
            finish(tx, new)

    stored = appender.append(scope, messages, within=on_store, is_same=is_same, prefetch=prefetch)
    return StoredMessages(stored, is_new)


def mark_quotes(reply: Message, shown: str) -> Message:
    """The reply with the places where it repeats what memory had said: nobody learns from those."""
    ranges = find_echoes(reply.text, shown)
    return replace(reply, metadata={**reply.metadata, QUOTED_KEY: [list(each) for each in ranges]}) if ranges else reply
