"""The conversation: a line in, memory and the model asked, the reply out and stored."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from limpet.api.session import Session
from limpet.cli import show
from limpet.cli.chat import commands
from limpet.cli.chat.model import Limits, ask_with_tools, build_messages, open_toolbox, to_usage
from limpet.cli.chat.terminal import InputReader, ReplyInterrupt, Screen, Stopper
from limpet.cli.render import format_compaction
from limpet.cli.render_memory import dropped_lines
from limpet.errors import LimpetError, ProviderError, SessionNotFound
from limpet.model.context import Context, Omission
from limpet.model.schema import to_json
from limpet.model.session import SessionStatus
from limpet.providers.llm import Completion, Finish, Llm, LlmRequest

if TYPE_CHECKING:
    from limpet import Limpet, Turn

NO_MODEL = "no model: showing what memory would give"
_ASK_WITHOUT_MODEL = "No model to ask: name one with --llm or the setting llm.model. Memory would have given it:"
NOTHING_STORED = "The memory of this agent is switched off (memory.enabled): nothing is stored."
ONLY_THE_QUESTION = "What you said is stored, the reply is not."
NOTHING_KNOWN = "Memory knows nothing that helps."


@dataclass(slots=True)
class ChatLoop:
    all_stores: Limpet  # for what has to reach them all
    session: Session
    llm: Llm | None
    given: tuple[int | None, int | None]  # the budget and the window that were named
    screen: Screen
    lines: InputReader
    stopper: Stopper
    context: Context | None = None  # the last one
    listed: list[str] = field(default_factory=list)  # the sessions that were numbered last
    over: bool = False

    @property
    def memory(self) -> Limpet:
        """Memory as the session's agent has it: that may be apart from all others."""
        return self.all_stores.agent(self.session.agent)

    def renew_session(self) -> bool:
        """After a purge: whether another session had to take the place of this one."""
        old = self.session
        with suppress(SessionNotFound):
            self.load(old.id)
            return False
        self._continue(old)
        self.context, self.listed = None, []
        return True

    def _continue(self, old: Session) -> None:
        self.session = self.all_stores.session(old.channel, old.chat, old.thread, user=old.user, agent=old.agent)

    @property
    def has_memory(self) -> bool:
        return self.memory.config.memory.enabled

    @property
    def limits(self) -> Limits:
        return Limits.of(self.memory.config, *self.given)

    def load(self, session_id: str) -> Session:
        """One of the same user's sessions, whichever agent's it is."""
        return self.all_stores.load_session(session_id, user=self.session.user)

    def run(self, place: str) -> None:
        self._begin(place)
        while not self.over:
            text = self._next()
            if text is None:
                self._end_prompt()
                break
            if text.startswith("/"):
                self._run_command(text)
            elif text.strip():
                self._turn(text)

    def _begin(self, place: str) -> None:
        """Raises BudgetTooSmall before anything is said."""
        budget = self.limits.budget
        info, model = self.session.info, NO_MODEL if self.llm is None else f"model {self.llm.name}"
        messages = show.pluralize(info.message_count, "message")
        where = f"{redact_location(place)} · {info.user} · session {info.id} ({messages}) · {model} · /help"
        self.screen.note(where)
        if not self.has_memory:
            self.screen.note(NOTHING_STORED)
        event = {"session": to_json(info), "model": self.llm.name if self.llm else None, "budget": budget}
        self.screen.finish("start", **event)

    def _next(self) -> str | None:
        while True:
            try:
                with self.stopper.prompt():
                    return self.lines.next()
            except KeyboardInterrupt:
                if not self.lines.terminal:
                    raise
                self._end_prompt()
                self.screen.note("Ctrl-D or /quit leaves the chat.")

    def confirm(self, question: str) -> bool:
        try:
            with self.stopper.prompt():
                return self.lines.confirm(question)
        except KeyboardInterrupt:
            self._end_prompt()
            return False

    def _end_prompt(self) -> None:
        """No Enter has ended the line of a prompt that was left by a key."""
        if self.lines.terminal:
            self.screen.break_line()

    def _run_command(self, text: str) -> None:
        try:
            commands.run_command(self, text)
        except LimpetError as error:
            self.screen.show_error(str(error), error.code)
        name, _, _ = text.partition(" ")
        self.screen.finish("command", command=name)

    def _turn(self, text: str) -> None:
        event: dict[str, Any] = {"message": None, "context": None, "reply": None, "stopped": False, "usage": None}
        try:
            self._ensure_live_session()
            with nullcontext() if self.llm is None else self.lines.watch(self.stopper.request_stop):
                self._run_turn(text, event)
            if self.llm is None:
                self._learn()
        except ReplyInterrupt:
            event["stopped"] = True
            self.screen.break_line()
            stored = self.has_memory and event["message"] is not None and bool(event["message"]["sequence"])
            self.screen.note(f"Stopped. {ONLY_THE_QUESTION if stored else 'Nothing of this turn is stored.'}")
        except LimpetError as error:
            self.screen.show_error(str(error), error.code)
        self.screen.finish("turn", **event)

    def _learn(self) -> None:
        """Without a model nobody replies: what the message says is learned at once, and said in one line."""
        if not self.has_memory or not self.memory.config.learn.enabled:
            return
        done = self.session.learn()
        found = [self.memory.records.get(id) for id in done.added]
        if found:
            self.screen.note(show.one_line(f"Learned: {' '.join(record.content for record in found)}"))

    def _run_turn(self, text: str, event: dict[str, Any]) -> None:
        limits = self.limits
        with self.session.turn(text, max_tokens=limits.max_tokens, model_window=limits.model_window) as turn:
            self.context = turn.context
            size = {"budget": limits.budget, "messages": len(turn.context.messages)}
            event["message"], event["context"] = to_json(turn.message), {**to_json(turn.context), **size}
            self._note_failed(turn.failed)
            if turn.compacted is not None and turn.compacted.done:
                self.screen.note(format_compaction(turn.compacted))
            if self.llm is None:
                self.screen.say(_ASK_WITHOUT_MODEL, *memory_lines(turn.context))
                return
            whole = self._request_reply(self.llm, turn)
            event["usage"] = to_usage(self.llm, whole)
            before = len(turn.failed)
            event["reply"] = whole.text
            turn.reply(whole.text, usage=event["usage"])
            self._note_finish(whole)
            self._note_failed(turn.failed[before:])

    def _note_failed(self, failed: Sequence[Omission]) -> None:
        for entry in failed:
            self.screen.note(f"memory goes without {entry.what}: {entry.reason}")

    def _request_reply(self, llm: Llm, turn: Turn) -> Completion:
        limits, timeout = self.limits, self.memory.config.llm.timeout_s
        request = LlmRequest(build_messages(turn.context), max_tokens=limits.reply, timeout=timeout)
        box = open_toolbox(self.memory, self.session, limits.window)
        return ask_with_tools(lambda request: self._stream_answer(llm, request), request, box, turn, self._note_tool)

    def _note_tool(self, said: str) -> None:
        self.screen.break_line()
        self.screen.note(said)

    def _stream_answer(self, llm: Llm, request: LlmRequest) -> Completion:
        timeout, began = request.timeout, time.monotonic()
        stream = llm.stream(request)
        try:
            return self._read_stream(stream, llm)
        except ProviderError as error:
            if time.monotonic() - began < timeout:
                raise
            raise ProviderError(f"{error} (llm.timeout_s is {timeout:g})") from error
        finally:
            with suppress(AttributeError):  # whatever gives the pieces; a generator hangs up
                stream.close()  # type: ignore[attr-defined]

    def _read_stream(self, stream: Iterator[str | Completion], llm: Llm) -> Completion:
        with self.stopper.reply():
            for piece in stream:
                self.stopper.check()
                if isinstance(piece, Completion):
                    if not piece.text.strip() and not piece.tool_calls:
                        raise ProviderError(
                            f"{llm.name} returned an empty answer; rephrase the question, or use another model"
                        )
                    return piece
                self.screen.write_piece(piece)
        raise ProviderError(f"{llm.name} stopped in the middle of its answer")

    def _note_finish(self, whole: Completion) -> None:
        if whole.finish is Finish.LENGTH:
            said = f"cut off at {self.limits.reply:,} tokens, or at the end of the model's window"
            self.screen.note(f"({said}; context.reply_reserve is the limit)")
        elif whole.finish is Finish.REFUSED:
            self.screen.note("(the model refused)")

    def _ensure_live_session(self) -> None:
        """Another chat may have ended this session, or removed it: its key leads on."""
        old = self.session
        try:
            ended = "ended" if old.refresh().state is SessionStatus.TERMINATED else ""
        except SessionNotFound:
            ended = "deleted"
        if ended:
            self._continue(old)
            self.screen.note(f"session {old.id} was {ended} elsewhere; this goes on in {self.session.id}")


def redact_location(place: str) -> str:
    """An address without what may be secret in it."""
    from urllib.parse import urlsplit

    if "://" not in place:
        return place
    parts = urlsplit(place)
    return f"{parts.scheme}://{parts.hostname or ''}{parts.path}"


def memory_lines(context: Context) -> list[str]:
    size = f"{show.pluralize(len(context.messages), 'message')}, about {context.tokens:,} tokens with what is below"
    return [size, *dropped_lines(context.dropped), *(context.text.split("\n") if context.text else [NOTHING_KNOWN])]
