"""Observers of a store: they are called when work begins and ends, and can never make it fail.

They get the kind of work, its tenant, its outcome and duration; never content. Without observers, a call only
looks at ``on``.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from enum import StrEnum
from time import perf_counter
from typing import Any, TypeVar

from limpet.errors import LimpetError, PermissionDenied
from limpet.model.access import AuditOutcome
from limpet.model.dataclass import dataclass
from limpet.model.message import Message
from limpet.model.record import Forgotten, Record

log = logging.getLogger("limpet.security")

A = TypeVar("A")
R = TypeVar("R")

Progress = Callable[[str, int, int], None]  # what is being done, how much of it is done, and of how much


class ActivityKind(StrEnum):
    OPERATION = "operation"  # a call through a public method
    JOB = "job"  # a run of background work
    SCHEDULE = "schedule"  # a schedule's turn
    CHAT = "chat"  # a request to the language model
    EMBEDDINGS = "embeddings"  # texts handed to the embedder


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """Something that begins. ``name`` is the operation, the kind of job or the model.

    Who did it, and to whose memory, is None unless the setting ``observe.names`` wants it told.
    """

    kind: ActivityKind
    name: str
    tenant: str | None = None  # None for a model, which belongs to all of them
    provider: str | None = None  # of a model
    principal: str | None = None
    user: str | None = None
    agent: str | None = None
    session: str | None = None
    record: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivityResult(Activity):
    """Something that is over. ``code`` is the error's, or the name of its class where the error is not ours.

    ``count`` is how many things a list brought, were written or removed, or how many texts were embedded.
    """

    outcome: AuditOutcome
    seconds: float
    code: str | None = None
    count: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None


EndCallback = Callable[[ActivityResult], object]
BeginCallback = Callable[[Activity], EndCallback]

_FIELDS = tuple(each.name for each in fields(Activity))


class Measurement:
    """What is noticed on the way, for when the work is over."""

    __slots__ = ("count", "error", "input_tokens", "output_tokens")

    def __init__(self) -> None:
        self.count: int | None = None
        self.error: BaseException | None = None  # one that does not come out
        self.input_tokens: int | None = None
        self.output_tokens: int | None = None


class _Listener:
    """One of them, and whether it was already told of in the log that it fails."""

    __slots__ = ("begin", "has_failed")

    def __init__(self, begin: BeginCallback) -> None:
        self.begin = begin
        self.has_failed = False

    def log_failure(self, error: Exception) -> None:
        if not self.has_failed:
            log.warning("an observer failed, and every call goes on without it: %s", type(error).__qualname__)
        self.has_failed = True


class Observers:
    """Safe to share between threads."""

    def __init__(self, *, names: bool = False) -> None:
        self.on = False
        self.names = names  # whether users and ids are told, too
        self._listeners: tuple[_Listener, ...] = ()
        self._changing = threading.Lock()
        self._here = threading.local()

    def add_end(self, end: EndCallback) -> Callable[[], None]:
        """``end`` is called with the result of each piece of work. Answers what ends it."""
        return self.add(lambda _: end)

    def add(self, begin: BeginCallback) -> Callable[[], None]:
        """``begin`` is called around each piece of work, and what it gives back when that is over. Answers what ends
        it."""
        listener = _Listener(begin)
        with self._changing:
            self._listeners = (*self._listeners, listener)
            self.on = True

        def stop() -> None:
            with self._changing:
                self._listeners = tuple(each for each in self._listeners if each is not listener)
                self.on = bool(self._listeners)

        return stop

    @contextmanager
    def measure(self, work: Activity) -> Iterator[Measurement]:
        """The work is what happens inside of this."""
        seen = Measurement()
        end = self._start(work)
        try:
            yield seen
        except BaseException as error:  # why: an interrupt is an end, too, and is told; it goes on as it came
            seen.error = error
            raise
        finally:
            end(seen)

    def _start(self, work: Activity) -> Callable[[Measurement], None]:
        if not self._listeners or getattr(self._here, "telling", False):  # what an observer does is not told to it
            return lambda _: None
        listeners = self._listeners
        started = [(each, ending) for each in listeners if (ending := self._tell(each, each.begin, work))]
        began = perf_counter()

        def end(seen: Measurement) -> None:
            observed = ActivityResult(
                **{name: getattr(work, name) for name in _FIELDS},
                outcome=classify_error(seen.error),
                seconds=perf_counter() - began,
                code=None if seen.error is None else error_code(seen.error),
                count=seen.count,
                input_tokens=seen.input_tokens,
                output_tokens=seen.output_tokens,
            )
            for listener, ending in reversed(started):
                self._tell(listener, ending, observed)

        return end

    def _tell(self, listener: _Listener, callback: Callable[[A], R], value: A) -> R | None:
        self._here.telling = True
        try:
            return callback(value)
        except Exception as error:  # why: an observer is anybody's code, and its failure is never the caller's
            listener.log_failure(error)
            return None
        finally:
            self._here.telling = False


def count_results(answer: Any) -> int | None:
    """How many things an answer brings, where that is plain to see."""
    if isinstance(answer, list | tuple):
        return len(answer)
    if isinstance(answer, Message | Record):
        return 1
    return answer.total if isinstance(answer, Forgotten) else None


def classify_error(error: BaseException | None) -> AuditOutcome:
    if error is None:
        return AuditOutcome.DONE
    return AuditOutcome.REFUSED if isinstance(error, PermissionDenied) else AuditOutcome.FAILED


def describe_error(error: Exception) -> str:
    """What is stored of an error. Words that are not ours may quote what somebody wants forgotten one day."""
    name = type(error).__name__
    return str(error) or name if isinstance(error, LimpetError) else f"{name}; the log has its words"


def error_code(error: BaseException) -> str:
    """Never its words: they may quote what somebody said."""
    return error.code if isinstance(error, LimpetError) else type(error).__qualname__
