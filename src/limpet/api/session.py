"""The object an agent holds: one session. Safe to share between threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, TypeVar

from limpet.api.runtime import Runtime
from limpet.api.turn import Turn
from limpet.context.build import visible_partitions
from limpet.errors import InvalidInput, SessionNotFound, WrongState
from limpet.knowledge.remember import delete_session
from limpet.model.context import Context
from limpet.model.message import Content, Message, ToolCall
from limpet.model.scope import Scope
from limpet.model.session import CompactionResult, FileInfo, LearnResult, SessionInfo, SessionStatus, Summary, Usage
from limpet.model.telemetry import Progress
from limpet.model.text import check_text
from limpet.model.times import check_ttl
from limpet.model.values import check_flag, check_number, check_progress
from limpet.security.operation import operation
from limpet.sessions import kv, lifecycle, usage
from limpet.sessions.files.listing import list_folder
from limpet.sessions.messages import restore
from limpet.sessions.repository import Messages, Sessions, Summaries
from limpet.sessions.summary import swap_summary
from limpet.sessions.transcript import TranscriptEntry, render
from limpet.store.tx import Tx

T = TypeVar("T")


class KeyValues:
    """A session's small named values; beyond the cap the oldest goes."""

    def __init__(self, runtime: Runtime, scope: Scope) -> None:
        self._runtime = runtime
        self._gate = runtime.gate
        self._scope = scope
        self._cap = runtime.config.session.kv_cap

    @operation("session.kv.get")
    def get(self, key: str) -> Any:
        """The value, or None."""
        return self._get(kv.checked_key(key))

    def _get(self, key: str) -> Any:
        return self._runtime.store.read(lambda tx: kv.get(tx, self._scope, key, self._cap))

    @operation("session.kv.set")
    def set(self, key: str, value: Any) -> None:
        """Any JSON value. An existing key moves to the end."""
        self._set(kv.checked_key(key), value)

    def _set(self, key: str, value: Any) -> None:
        text, now = kv.checked_value(value), self._runtime.clock()
        self._runtime.store.write(lambda tx: kv.put(tx, self._scope, key, text, now, self._cap))

    @operation("session.kv.delete")
    def delete(self, key: str) -> bool:
        """False when there was no such key."""
        checked = kv.checked_key(key)
        return self._runtime.store.write(lambda tx: kv.remove(tx, self._scope, checked, self._cap))

    @operation("session.kv.items")
    def items(self) -> dict[str, Any]:
        """All entries, the oldest first."""
        return self._runtime.store.read(lambda tx: kv.items(tx, self._scope, self._cap))


class Session:
    def __init__(self, runtime: Runtime, info: SessionInfo) -> None:
        self._runtime = runtime.bind_session(info)
        self._gate = runtime.gate
        self._info = info
        self._scope = info.scope
        self.kv = KeyValues(self._runtime, info.scope)

    def __repr__(self) -> str:
        return f"<Session {self.key} {self.id} of {self.user}, {self.state}>"

    @property
    def info(self) -> SessionInfo:
        """The session as this handle last saw it; ``refresh()`` looks again."""
        return self._info

    @property
    def id(self) -> str:
        return self._info.id

    @property
    def key(self) -> str:
        return str(self._info.key)

    @property
    def user(self) -> str:
        return self._info.user

    @property
    def agent(self) -> str:
        return self._info.agent

    @property
    def channel(self) -> str:
        return self._info.key.channel

    @property
    def chat(self) -> str:
        return self._info.key.chat

    @property
    def thread(self) -> str | None:
        return self._info.key.thread

    @property
    def state(self) -> SessionStatus:
        return self._info.state

    @property
    def metadata(self) -> Mapping[str, Any]:
        return self._info.metadata

    @property
    def created_at(self) -> datetime:
        return self._info.created_at

    @property
    def last_active_at(self) -> datetime:
        return self._info.last_active_at

    @property
    def expires_at(self) -> datetime | None:
        return self._info.expires_at

    @operation("session.refresh")
    def refresh(self) -> SessionInfo:
        """Read the session again. Raises SessionNotFound when it was deleted."""
        return self._reload()

    def _reload(self) -> SessionInfo:
        self._info = self._read(self._get_info)
        return self._info

    # Messages

    @operation("session.append")
    def append(
        self,
        role: str,
        content: Content,
        *,
        name: str | None = None,
        tool_calls: Iterable[ToolCall | Mapping[str, Any]] = (),
        tool_call_id: str | None = None,
        is_error: bool = False,
        metadata: Mapping[str, Any] | None = None,
        created_at: datetime | None = None,
        sequence: int | None = None,
        idempotency_key: str | None = None,
    ) -> Message:
        """Store a message and return it with its number. Repeating an idempotency key returns the first result."""
        message = Message.new(
            role,
            content,
            name=name,
            tool_calls=tool_calls,
            tool_call_id=tool_call_id,
            is_error=is_error,
            metadata=metadata,
            created_at=created_at,
            sequence=sequence,
            idempotency_key=idempotency_key,
        )
        return self._runtime.appender.append(self._scope, [message])[0]

    @operation("session.extend")
    def extend(
        self, messages: Iterable[Message], progress: Progress | None = None, *, idempotency_key: str | None = None
    ) -> list[Message]:
        """Store several messages in one transaction: all of them or none.

        With an idempotency key the same messages again return the first result; others under it are a conflict.
        """
        if not isinstance(messages, Iterable):
            raise InvalidInput(f"extend takes a list of messages, not {type(messages).__name__}")
        given = [Message.validate(message) for message in messages]
        if idempotency_key is None:
            return self._runtime.appender.append(self._scope, given, check_progress(progress))
        return self._runtime.appender.append_once(self._scope, given, idempotency_key, check_progress(progress))

    @operation("session.recent")
    def recent(self, count: int = 20) -> list[Message]:
        """The newest messages, in order."""
        return self._get_recent(check_number(count, "count"))

    def _get_recent(self, count: int) -> list[Message]:
        return self._read(lambda tx: Messages(tx).recent(self._scope, count))

    @operation("session.messages")
    def messages(self, after: int | None = None, before: int | None = None, limit: int | None = None) -> list[Message]:
        """The messages with sequences strictly between ``after`` and ``before``, in order; all of them by default."""
        bounds = [None if value is None else check_number(value, "a bound") for value in (after, before, limit)]
        return self._read(lambda tx: Messages(tx).range(self._scope, *bounds))

    @operation("session.count")
    def count(self) -> int:
        return self._read(lambda tx: self._get_info(tx).message_count)

    @operation("session.restore")
    def restore(self, max_tokens: int = 4000) -> list[Message]:
        """The newest messages that fit, cut at a turn; the latest user message is always there."""
        budget = check_number(max_tokens, "max_tokens")
        return self._read(lambda tx: restore(tx, self._scope, budget, cost=self._runtime.cost))

    @operation("session.context")
    def context(
        self,
        query: str = "",
        max_tokens: int | None = None,
        *,
        model_window: int | None = None,
        skill: str | None = None,
        at: datetime | None = None,
        compact: bool = False,
    ) -> Context:
        """What belongs into the next prompt: what memory knows about the query, the summary, the newest messages.

        With ``model_window`` the model's reply has room too. Records learned with the active ``skill`` count more.
        ``at`` is when the query is asked, for times such as "last week"; now, if not given. With ``compact`` history is
        condensed first if that is due, and each message is then in the context or in the range of its summary.
        """
        builder = self._runtime.context
        asked = builder.check_request(query, max_tokens, model_window, skill, at)
        visible = self._gate.filter_visible(visible_partitions(self._scope, self.agent))
        if not check_flag(compact, "compact"):
            return builder.build(self._scope, visible, asked)
        known = builder.recall(self._scope, visible, asked)
        self._runtime.compactor.compact_if_due(self._scope, model_window)
        return builder.compose_complete(self._scope, asked, known, model_window).context

    def turn(
        self,
        content: Content,
        max_tokens: int | None = None,
        *,
        model_window: int | None = None,
        skill: str | None = None,
        at: datetime | None = None,
        name: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        created_at: datetime | None = None,
        idempotency_key: str | None = None,
    ) -> Turn:
        """One exchange: ``with session.turn("…") as t:`` keeps the user's message, and ``t.context`` is the prompt.

        ``t.reply("…")`` keeps the answer. Memory that fails is left out, logged and named in ``t.failed``. Leaving the
        block without a reply, also by an exception, leaves the user's message alone.
        """
        message = Message.new(
            "user", content, name=name, metadata=metadata, created_at=created_at, idempotency_key=idempotency_key
        )
        asked = self._runtime.context.check_request(message.text, max_tokens, model_window, skill, at)
        return Turn(self._runtime, self._info, message, asked, model_window)

    # Summary

    @operation("session.summary")
    def summary(self) -> Summary | None:
        return self._read(lambda tx: Summaries(tx).get(self._scope))

    @operation("session.set_summary")
    def set_summary(self, text: str, upper_sequence: int) -> bool:
        """Replace the summary whatever its epoch. False when it would cover less than the current one."""
        return self._swap_summary(text, upper_sequence, None)

    @operation("session.swap_summary")
    def swap_summary(self, text: str, upper_sequence: int, expected_epoch: int) -> bool:
        """Replace the summary if its epoch is still the expected one (0 for the first). False changes nothing."""
        return self._swap_summary(text, upper_sequence, check_number(expected_epoch, "expected_epoch"))

    def _swap_summary(self, text: str, upper_sequence: int, expected_epoch: int | None) -> bool:
        upper, now = check_number(upper_sequence, "upper_sequence"), self._runtime.clock()
        return self._runtime.store.write(lambda tx: swap_summary(tx, self._scope, text, upper, expected_epoch, now))

    @operation("session.compact")
    def compact(self, keep: int | None = None) -> CompactionResult:
        """Sum up all but the newest ``keep`` messages (20, or ``compact.keep``). None is removed from the session."""
        kept = self._runtime.config.compact.keep if keep is None else check_number(keep, "keep")
        return self._runtime.compactor.compact(self._scope, kept)

    @operation("session.compact_if_due")
    def compact_if_due(self, model_window: int | None = None) -> CompactionResult:
        """The same as far as the settings want it: before a model's window, or a limit of its own, is full."""
        window = None if model_window is None else check_number(model_window, "model_window")
        return self._runtime.compactor.compact_if_due(self._scope, window)

    @operation("session.learn")
    def learn(self) -> LearnResult:
        """Learn from what was said since the last time, now. After a turn this happens by itself, in the background."""
        return self._runtime.learner.learn(self._reload())

    # Life

    @operation("session.new")
    def new(self) -> Session:
        """End this session and begin another under the same key. The old one stays, searchable."""
        now = self._runtime.clock()
        self._info, fresh = self._runtime.store.write(
            lambda tx: lifecycle.rotate(tx, self._scope, new_id=self._runtime.new_id, now=now)
        )
        return Session(self._runtime, fresh)

    @operation("session.clear")
    def clear(self) -> None:
        """Remove the messages, their chunks and the summary. Sequence numbers go on where they were."""
        self._info = self._runtime.store.write(lambda tx: lifecycle.clear(tx, self._scope))

    @operation("session.pause")
    def pause(self) -> None:
        self._set_state(SessionStatus.PAUSED)

    @operation("session.resume")
    def resume(self) -> None:
        self._set_state(SessionStatus.ACTIVE)

    @operation("session.terminate")
    def terminate(self) -> None:
        self._set_state(SessionStatus.TERMINATED)

    def _set_state(self, state: SessionStatus) -> None:
        self._info = self._runtime.store.write(lambda tx: lifecycle.set_state(tx, self._scope, state))
        if self._info.state is not state:
            raise WrongState(f"session {self.id} is terminated; hf.session(…) gives its successor")

    @operation("session.delete")
    def delete(self) -> Mapping[str, int]:
        """Remove the session with everything under it. Answers how many rows of each kind went."""
        now = self._runtime.clock()
        counts, records = self._runtime.store.write(lambda tx: delete_session(tx, self._scope, now))
        self._runtime.notes.delete_item_lines(self._info.tenant, self.user, records)
        return counts

    @operation("session.update_metadata")
    def update_metadata(self, changes: Mapping[str, Any]) -> Mapping[str, Any]:
        """Merge into the metadata; a value of None removes its key."""
        self._info = self._runtime.store.write(lambda tx: lifecycle.update_metadata(tx, self._scope, changes))
        return self._info.metadata

    @operation("session.expire_in")
    def expire_in(self, ttl: timedelta | None) -> None:
        """Let the session be swept after that time; None keeps it."""
        expires_at = None if ttl is None else self._runtime.clock() + check_ttl(ttl)
        self._info = self._runtime.store.write(lambda tx: lifecycle.set_expiry(tx, self._scope, expires_at))

    # Working memory, transcript, files, usage

    @property
    @operation("session.working_memory")
    def working_memory(self) -> str:
        return kv.as_text(self.kv._get(kv.WORKING_MEMORY))  # noqa: SLF001  # one call, one passage through the gate

    @operation("session.set_working_memory")
    def set_working_memory(self, text: str) -> None:
        check_text(text, "working memory")
        self.kv._set(kv.WORKING_MEMORY, text)  # noqa: SLF001

    @operation("session.transcript")
    def transcript(self, last: int | None = None) -> list[TranscriptEntry]:
        """The newest messages as plain entries: ``last`` of them, and never more than the transcript's cap."""
        cap = self._runtime.config.session.transcript_cap
        messages = self._get_recent(cap if last is None else min(check_number(last, "last"), cap))
        return [_to_entry(message) for message in messages]

    @operation("session.export_transcript")
    def export_transcript(self) -> str:
        """The whole session as Markdown that parses back."""
        messages = self._read(lambda tx: Messages(tx).range(self._scope, None, None, None))
        return render([_to_entry(message) for message in messages])

    @operation("session.list_files")
    def list_files(self) -> list[FileInfo]:
        """The files of the session's folder; none for a store without a folder."""
        self._read(self._get_info)  # whose files these are is known by the session only
        folder = self._runtime.session_folder(self.id)
        return [] if folder is None else list_folder(folder)

    @operation("session.usage")
    def usage(self) -> Usage:
        return self._read(lambda tx: usage.read(tx, self._scope))

    @operation("session.add_usage")
    def add_usage(
        self, model: str, *, input_tokens: int = 0, output_tokens: int = 0, cached_tokens: int = 0, cost: float = 0.0
    ) -> None:
        """Count one model call to the session's bill."""
        entry = usage.checked_usage(model, input_tokens, output_tokens, cached_tokens, cost)
        self._runtime.store.write(lambda tx: usage.add(tx, self._scope, entry))

    def _read(self, work: Callable[[Tx], T]) -> T:
        return self._runtime.store.read(work)

    def _get_info(self, tx: Tx) -> SessionInfo:
        info = Sessions(tx).get(self._scope)
        if info is None:
            raise SessionNotFound(f"session {self.id} is gone; it was deleted")
        return info


def _to_entry(message: Message) -> TranscriptEntry:
    assert message.created_at is not None
    return TranscriptEntry(message.role, message.created_at, message.text)
