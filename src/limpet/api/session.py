"""A session: the handle an agent works with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from limpet.api import parameters as arg
from limpet.api.runtime import Runtime
from limpet.api.turn import Turn
from limpet.errors import SessionNotFound, WrongState
from limpet.knowledge.candidate import mark_unlearned
from limpet.knowledge.delete_session import SessionRemover
from limpet.knowledge.remember import REPLY_TIME, enqueue_learning
from limpet.model.context import Context
from limpet.model.message import Message, Role
from limpet.model.scope import Scope
from limpet.model.session import (
    MAX_VALUE_BYTES,
    CompactionResult,
    FileInfo,
    LearnResult,
    ModelUsage,
    SessionInfo,
    SessionStatus,
    Summary,
    Usage,
)
from limpet.model.values import check_json, compute_expiry
from limpet.security.operation import Authorizer, ExtraPermission, session_operation
from limpet.security.telemetry import Progress
from limpet.sessions import lifecycle, usage
from limpet.sessions.files import list_folder
from limpet.sessions.messages import read_newest
from limpet.sessions.repository import WORKING_MEMORY, KeyValueEntries, Messages, Sessions, Summaries
from limpet.sessions.summary import SummaryDraft, swap_summary
from limpet.sessions.transcript import TranscriptEntry, render
from limpet.store.tx import Tx

T = TypeVar("T")

_MAY_COMPACT = ExtraPermission("compact", True, "write:session")


class SessionFields(ABC):
    """What the handle of a session knows without the store."""

    @property
    @abstractmethod
    def info(self) -> SessionInfo: ...

    @property
    def id(self) -> str:
        return self.info.id

    @property
    def key(self) -> str:
        return str(self.info.key)

    @property
    def user(self) -> str:
        return self.info.user

    @property
    def agent(self) -> str:
        return self.info.agent

    @property
    def channel(self) -> str:
        return self.info.key.channel

    @property
    def chat(self) -> str:
        return self.info.key.chat

    @property
    def thread(self) -> str | None:
        return self.info.key.thread

    @property
    def state(self) -> SessionStatus:
        return self.info.state

    @property
    def metadata(self) -> Mapping[str, Any]:
        return self.info.metadata

    @property
    def created_at(self) -> datetime:
        return self.info.created_at

    @property
    def last_active_at(self) -> datetime:
        return self.info.last_active_at

    @property
    def expires_at(self) -> datetime | None:
        return self.info.expires_at


class Session(SessionFields):
    """One session. Safe to share between threads."""

    def __init__(self, runtime: Runtime, authorizer: Authorizer, info: SessionInfo) -> None:
        self._runtime = runtime.bind_session(info)
        self._authorizer = authorizer
        self._info = info
        self._scope = info.scope
        self.kv = KeyValues(self._runtime, authorizer, info.scope)
        self._learns_at: datetime | None = None  # when the job begins that this handle asked for

    def __repr__(self) -> str:
        return f"<Session {self.key} {self.id} of {self.user}, {self.state}>"

    @property
    def info(self) -> SessionInfo:
        """The session as this handle last saw it; ``refresh()`` looks again."""
        return self._info

    @session_operation("session.refresh", "read:session", "GET")
    def refresh(self) -> SessionInfo:
        """Read the session again. Raises SessionNotFound if it was deleted."""
        return self._reload()

    def _reload(self) -> SessionInfo:
        self._info = self._read(self._get_info)
        return self._info

    # Messages

    @session_operation("session.append", "write:session", "POST /messages", status=201, cli="append")
    def append(
        self,
        role: arg.RoleName,
        content: arg.Content,
        *,
        name: arg.Speaker | None = None,
        tool_calls: arg.ToolCalls = (),
        tool_call_id: arg.ToolCallId | None = None,
        is_error: arg.IsError = False,
        metadata: arg.Metadata | None = None,
        created_at: arg.CreatedAt | None = None,
        sequence: arg.Sequence | None = None,
        idempotency_key: arg.IdempotencyName | None = None,
        learn: arg.Learn | None = None,
    ) -> Message:
        """Store a message and return it with its sequence number.

        Repeated under its idempotency key, it returns the first result; another message under that key is a conflict. A
        user's message is learned from in the background a minute later, if the settings say so. ``learn=True`` does
        that at once, for any message; ``learn=False`` prevents it.
        """
        message = Message.from_checked(
            role, content, name, tool_calls, tool_call_id, is_error, metadata, created_at, sequence, idempotency_key
        )
        if learn is False:
            message = mark_unlearned(message)
        wants = message.role is Role.USER if learn is None else learn
        if not wants or not self._runtime.config.learn.enabled:
            return self._runtime.appender.append(self._scope, [message])[0]
        return self._append_and_learn(message, at_once=bool(learn))

    def _append_and_learn(self, message: Message, *, at_once: bool) -> Message:
        """With a job for later, once in a while: it finds all that was appended before it begins."""
        now, due = self._runtime.clock(), self._learns_at
        run_at = now if at_once else now + REPLY_TIME
        if due is not None and now < due <= run_at:
            return self._runtime.appender.append(self._scope, [message])[0]

        def enqueue(tx: Tx, new: list[Message]) -> None:
            if new:
                enqueue_learning(tx, self._info, self._runtime.config, now, run_at)

        stored = self._runtime.appender.append(self._scope, [message], within=enqueue)[0]
        self._learns_at = run_at
        if at_once or due is not None:  # the first job alone starts no thread: it is not due yet
            self._runtime.wake_worker()
        return stored

    @session_operation("session.extend", "write:session", "POST /messages/batch", status=201)
    def extend(
        self,
        messages: arg.Messages,
        progress: Progress | None = None,
        *,
        idempotency_key: arg.IdempotencyName | None = None,
    ) -> list[Message]:
        """Store several messages in one transaction: all of them or none.

        Repeated under its idempotency key, it returns the first result; other messages under that key are a conflict.
        """
        given = [*messages]
        if idempotency_key is None:
            return self._runtime.appender.append(self._scope, given, progress)
        return self._runtime.appender.append_once(self._scope, given, idempotency_key, progress)

    @session_operation("session.recent", "read:session", "GET /messages/recent")
    def recent(self, count: arg.MessageCount = 20) -> list[Message]:
        """Return the newest messages, in order."""
        return self._get_recent(count)

    def _get_recent(self, count: int) -> list[Message]:
        return self._read(lambda tx: Messages(tx).recent(self._scope, count))

    @session_operation("session.messages", "read:session", "GET /messages", page="sequence", cli="sessions messages")
    def messages(
        self,
        after: arg.After | None = None,
        before: arg.BeforeNumber | None = None,
        limit: arg.MessageLimit | None = None,
    ) -> list[Message]:
        """Return the messages strictly between the numbers ``after`` and ``before``, in order; by default all."""
        return self._read(lambda tx: Messages(tx).range(self._scope, after, before, limit))

    @session_operation("session.count", "read:session", "GET /messages/count", answer="count")
    def count(self) -> int:
        """Count the messages of the session."""
        return self._read(lambda tx: self._get_info(tx).message_count)

    @session_operation("session.restore", "read:session", "GET /messages/restore")
    def restore(self, max_tokens: arg.Tokens = 4000) -> list[Message]:
        """Return the newest messages that fit, cut between turns; always with the latest user message."""
        cost = self._runtime.cost
        return self._read(lambda tx: read_newest(partial(Messages(tx).recent, self._scope), max_tokens, cost=cost))

    # It shows what the user said elsewhere, too.
    @session_operation("session.context", "read:user", "POST /context", when=(_MAY_COMPACT,), cli="context")
    def context(
        self,
        query: arg.ContextQuery = "",
        max_tokens: arg.Tokens | None = None,
        *,
        model_window: arg.Window | None = None,
        skill: arg.Skill | None = None,
        at: arg.At | None = None,
        compact: arg.Compact = False,
    ) -> Context:
        """Return what the next prompt needs: what memory knows about the query, the summary, the newest messages.

        ``model_window`` leaves room for the model's reply. Records learned with the active ``skill`` count more. ``at``
        is the time of the query, for words such as "last week" (default: now). ``compact`` compacts the history first
        if that is due; each message is then in the context or covered by its summary.
        """
        builder = self._runtime.context
        asked = builder.check_request(query, max_tokens, model_window, skill, at)
        visible = self._authorizer.filter_visible(self._scope.list_visible(self.agent))
        if not compact:
            return builder.build(self._scope, visible, asked)
        known, read = builder.recall_with_conversation(self._scope, visible, asked)
        deadline = self._runtime.compactor.start_deadline()
        compacted, read = builder.compact_if_due(self._scope, asked, model_window, deadline, read)
        still = None if compacted.done else read
        return builder.compose_complete(self._scope, asked, known, model_window, None, deadline, still).context

    def turn(
        self,
        content: arg.Content,
        max_tokens: arg.Tokens | None = None,
        *,
        model_window: arg.Window | None = None,
        skill: arg.Skill | None = None,
        at: arg.At | None = None,
        name: arg.Speaker | None = None,
        metadata: arg.Metadata | None = None,
        created_at: arg.CreatedAt | None = None,
        idempotency_key: arg.IdempotencyName | None = None,
    ) -> Turn:
        """One exchange: ``with session.turn("…") as t:`` keeps the user's message, and ``t.context`` is the prompt.

        ``t.reply("…")`` keeps the answer. Memory that fails is left out, logged and named in ``t.failed``. Leaving the
        block without a reply, also by an exception, leaves the user's message alone.
        """
        message = Message.new(
            "user", content, name=name, metadata=metadata, created_at=created_at, idempotency_key=idempotency_key
        )
        return self._make_turn(message, max_tokens, model_window, skill, at)

    def _make_turn(
        self, message: Message, max_tokens: int | None, window: int | None, skill: str | None, at: datetime | None
    ) -> Turn:
        asked = self._runtime.context.check_request(message.text, max_tokens, window, skill, at)
        return Turn(self._runtime, self._authorizer, self._info, message, asked, window)

    # Summary

    @session_operation("session.summary", "read:session", "GET /summary", answer="summary", cli="sessions summary")
    def summary(self) -> Summary | None:
        """Return the summary of the compacted messages; None before the first compaction."""
        return self._read(lambda tx: Summaries(tx).get(self._scope))

    @session_operation("session.set_summary", "write:session", "PUT /summary", answer="replaced")
    def set_summary(self, text: arg.SummaryText, upper_sequence: arg.UpperSequence) -> bool:
        """Replace the summary, whatever its epoch. False if it would cover less than the current one."""
        return self._swap_summary(text, upper_sequence, None)

    @session_operation("session.swap_summary", "write:session", "POST /summary/swap", answer="replaced")
    def swap_summary(self, text: arg.SummaryText, upper_sequence: arg.UpperSequence, expected_epoch: arg.Epoch) -> bool:
        """Replace the summary if its epoch is the expected one (0 for the first), else return False."""
        return self._swap_summary(text, upper_sequence, expected_epoch)

    def _swap_summary(self, text: str, upper_sequence: int, expected_epoch: int | None) -> bool:
        now, draft = self._runtime.clock(), SummaryDraft(self._runtime.mask(text), upper_sequence)
        return self._runtime.store.write(
            lambda tx: swap_summary(tx, self._scope, draft, upper_sequence, expected_epoch, now)
        )

    @session_operation("session.compact", "write:session", "POST /compact", cli="sessions compact")
    def compact(self, keep: arg.Keep | None = None) -> CompactionResult:
        """Summarize all but the newest ``keep`` messages (20, or ``compact.keep``). No message is removed."""
        kept = self._runtime.config.compact.keep if keep is None else keep
        return self._runtime.compactor.compact(self._scope, kept)

    @session_operation("session.compact_if_due", "write:session", "POST /compact/due")
    def compact_if_due(self, model_window: arg.Window | None = None) -> CompactionResult:
        """Compact if a limit of the settings, or of the model's window, is passed."""
        compactor = self._runtime.compactor
        return compactor.compact_if_due(self._scope, model_window, compactor.start_deadline())

    @session_operation("session.learn", "write:user", "POST /learn", cli="learn")
    def learn(self) -> LearnResult:
        """Learn now from what was said since the last time. After a turn this happens in the background."""
        return self._runtime.learner.learn(self._reload())

    # Life

    @session_operation("session.new", "write:user", "POST /new", status=201, cli="sessions new")
    def new(self) -> Session:
        """End this session and start another under the same key. The old one can still be searched."""
        now = self._runtime.clock()
        self._info, fresh = self._runtime.store.write(
            lambda tx: lifecycle.rotate(tx, self._scope, new_id=self._runtime.new_id, now=now)
        )
        return Session(self._runtime, self._authorizer, fresh)

    @session_operation("session.clear", "write:session", "POST /clear", audited=True, cli="sessions clear")
    def clear(self) -> None:
        """Remove the messages, their chunks and the summary. Sequence numbers continue."""
        self._info = self._runtime.store.write(lambda tx: lifecycle.clear(tx, self._scope))

    @session_operation("session.pause", "write:session", "POST /pause", cli="sessions pause")
    def pause(self) -> None:
        """Pause the session: it takes no messages until ``resume``."""
        self._set_state(SessionStatus.PAUSED)

    @session_operation("session.resume", "write:session", "POST /resume", cli="sessions resume")
    def resume(self) -> None:
        """Continue a paused session."""
        self._set_state(SessionStatus.ACTIVE)

    @session_operation("session.terminate", "write:session", "POST /terminate", cli="sessions terminate")
    def terminate(self) -> None:
        """End the session: it takes no more messages. ``memory.session(…)`` creates its successor."""
        self._set_state(SessionStatus.TERMINATED)

    def _set_state(self, state: SessionStatus) -> None:
        self._info = self._runtime.store.write(lambda tx: lifecycle.set_state(tx, self._scope, state))
        if self._info.state is not state:
            raise WrongState(f"session {self.id} is terminated; memory.session(…) returns its successor")

    @session_operation(
        "session.delete", "write:session", "DELETE", audited=True, answer="counts", cli="sessions delete"
    )
    def delete(self) -> Mapping[str, int]:
        """Delete the session with everything in it, and its turns' records and lines of notes.

        What was learned from it stays; ``privacy.purge_session`` removes that too. Returns counts by kind.
        """
        lines = self._runtime.purger.delete_note_lines(self._scope.partition, self.id)
        gone = SessionRemover(self._runtime.store, self._runtime.chunker, self._runtime.clock).delete(self._scope)
        self._runtime.notes.delete_item_lines(self._info.tenant, self.user, gone.records)
        return {**gone.counts, "note lines": lines} if lines else gone.counts

    @session_operation("session.update_metadata", "write:session", "PATCH /metadata", answer="metadata")
    def update_metadata(self, changes: arg.Metadata) -> Mapping[str, Any]:
        """Merge into the metadata; a value of None removes its key."""
        self._info = self._runtime.store.write(lambda tx: lifecycle.update_metadata(tx, self._scope, changes))
        return self._info.metadata

    @session_operation("session.expire_in", "write:session", "POST /expire", names={"ttl": "ttl_seconds"})
    def expire_in(self, ttl: arg.Lifetime | None) -> None:
        """Let the session expire after this time; None: never."""
        expires_at = compute_expiry(self._runtime.clock(), ttl)
        self._info = self._runtime.store.write(lambda tx: lifecycle.set_expiry(tx, self._scope, expires_at))

    # Working memory, transcript, files, usage

    @property
    @session_operation("session.working_memory", "read:session", "GET /working-memory", answer="text")
    def working_memory(self) -> str:
        """Return what the agent is working on; "" if nothing was set."""
        cap = self._runtime.config.session.kv_cap
        return self._runtime.store.read(lambda tx: KeyValueEntries(tx).get_text(self._scope, WORKING_MEMORY, cap))

    @session_operation("session.set_working_memory", "write:session", "PUT /working-memory")
    def set_working_memory(self, text: arg.WorkingMemory) -> None:
        """Replace the working memory."""
        self.kv._set(WORKING_MEMORY, text)  # noqa: SLF001 - one call, authorized once

    @session_operation("session.transcript", "read:session", "GET /transcript", cli="sessions transcript")
    def transcript(self, last: arg.MessageCount | None = None) -> list[TranscriptEntry]:
        """Return the ``last`` messages as plain entries, at most as many as the settings allow."""
        cap = self._runtime.config.session.transcript_cap
        messages = self._get_recent(cap if last is None else min(last, cap))
        return [_to_entry(message) for message in messages]

    @session_operation(
        "session.export_transcript", "read:session", "GET /transcript/markdown", answer="text", cli="sessions export"
    )
    def export_transcript(self) -> str:
        """Return the whole session as Markdown that can be parsed back."""
        messages = self._read(lambda tx: Messages(tx).range(self._scope, None, None, None))
        return render([_to_entry(message) for message in messages])

    @session_operation("session.list_files", "read:session", "GET /files", cli="sessions files")
    def list_files(self) -> list[FileInfo]:
        """List the files in the session's folder; none for a store without a folder."""
        self._read(self._get_info)  # whose files these are is known by the session only
        folder = self._runtime.session_folder(self.id)
        return [] if folder is None else list_folder(folder)

    @session_operation("session.usage", "read:session", "GET /usage")
    def usage(self) -> Usage:
        """Return the model usage of this session."""
        return self._read(lambda tx: usage.read(tx, self._scope))

    @session_operation("session.add_usage", "write:session", "POST /usage")
    def add_usage(
        self,
        model: arg.ModelName,
        *,
        input_tokens: arg.TokenCount = 0,
        output_tokens: arg.TokenCount = 0,
        cached_tokens: arg.TokenCount = 0,
        cost: arg.Cost = 0.0,
    ) -> None:
        """Add one model call to the session's usage."""
        entry = ModelUsage(model, 1, input_tokens, output_tokens, cached_tokens, cost)
        self._runtime.store.write(lambda tx: usage.add(tx, self._scope, entry))

    def _read(self, work: Callable[[Tx], T]) -> T:
        return self._runtime.store.read(work)

    def _get_info(self, tx: Tx) -> SessionInfo:
        info = Sessions(tx).get(self._scope)
        if info is None:
            raise SessionNotFound(f"session {self.id} was deleted")
        return info


def _to_entry(message: Message) -> TranscriptEntry:
    assert message.created_at is not None
    return TranscriptEntry(message.role, message.created_at, message.text)


class KeyValues:
    """A session's small named values; beyond the cap the oldest goes."""

    def __init__(self, runtime: Runtime, authorizer: Authorizer, scope: Scope) -> None:
        self._runtime = runtime
        self._authorizer = authorizer
        self._scope = scope
        self._cap = runtime.config.session.kv_cap

    @session_operation("session.kv.get", "read:session", "GET /kv/{key}", answer="value")
    def get(self, key: arg.ValueKey) -> Any:
        """Return the value, or None."""
        return self._runtime.store.read(lambda tx: KeyValueEntries(tx).get(self._scope, key, self._cap))

    @session_operation("session.kv.set", "write:session", "PUT /kv/{key}")
    def set(self, key: arg.ValueKey, value: arg.Value) -> None:
        """Store any JSON value. An existing key moves to the end."""
        self._set(key, value)

    def _set(self, key: str, value: Any) -> None:
        text, now = check_json(value, "a value", max_bytes=MAX_VALUE_BYTES), self._runtime.clock()
        self._runtime.store.write(lambda tx: KeyValueEntries(tx).set(self._scope, key, text, now, self._cap))

    @session_operation("session.kv.delete", "write:session", "DELETE /kv/{key}", answer="deleted")
    def delete(self, key: arg.ValueKey) -> bool:
        """Delete the entry. False if there was none."""
        return self._runtime.store.write(lambda tx: KeyValueEntries(tx).delete(self._scope, key, self._cap))

    @session_operation("session.kv.items", "read:session", "GET /kv", answer="entries")
    def items(self) -> dict[str, Any]:
        """Return all entries, oldest first."""
        entries = self._runtime.store.read(lambda tx: KeyValueEntries(tx).items(self._scope, self._cap))
        return {entry.key: entry.value for entry in entries}
