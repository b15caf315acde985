"""What is told about a piece of work: which, whose tenant, how it ended and how long it took. Never what was said."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from limpet.errors import LimpetError, PermissionDenied
from limpet.model.access import AuditOutcome
from limpet.model.dataclass import dataclass

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
