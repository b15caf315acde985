"""Work that is due, kept in the store until it is done; and what a check of the store found."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from limpet.model.dataclass import dataclass
from limpet.model.schema import IN_JSON
from limpet.model.scope import Level, Partition
from limpet.model.types import Moment

EXTRACT = "extract"  # learn from a session's turns; the detail is the session
COMPACT = "compact"  # compact a session's history where it is due; the detail is the session
EMBED = "embed"  # make the vectors a partition lacks; the detail is the model
DECAY = "decay"  # archive what faded in a partition, and delete what was archived long ago
CONSOLIDATE = (
    "consolidate"  # promote, merge and summarize what a partition has learned, and bring its profile up to date
)
GRAPH = "graph"  # read a session's new messages for the graph; the detail is the session
GRAPH_RECORD = "graph-record"  # read a record for the graph; the detail is the record
PURGE = "purge"  # finish a purge that was begun; the detail says which
REMOVE_DOCUMENT = "remove-document"  # remove versions of a document's text below one; the detail is both
REMOVE_SESSION = "remove-session"  # remove what is left of a session that was deleted; the detail is the session
SCRUB = "scrub"  # overwrite what purges have left in unused places of the file; of the whole store
ITEMS = "items"  # bring the files of records up to date; of the whole store
RETENTION = "retention"  # remove what is older than the settings want it; of the whole store


@dataclass(frozen=True, slots=True)
class Job:
    """A job as a worker holds it.

    ``asked`` grows each time the same work is asked for: what was asked for meanwhile is done once more. ``attempts``
    counts the runs begun since it last went well, this one included. ``leased_until`` tells this holder from the next:
    a later holder has another.
    """

    id: int
    kind: str
    partition: Partition
    detail: str
    asked: int
    attempts: int
    leased_until: datetime


class JobState(StrEnum):
    WAITING = "waiting"
    RUNNING = "running"
    DEAD = "dead"  # given up after its last attempt


@dataclass(frozen=True, slots=True)
class JobInfo:
    """A job as people see it. ``level`` and ``owner`` say whose memory it works on."""

    id: Annotated[int, "given by the store"]
    kind: Annotated[str, "the kind of work, such as embed"]
    tenant: Annotated[str, "the tenant it belongs to"]
    level: Annotated[Level, "the level of the memory it works on"]
    owner: Annotated[str, "whose memory it works on"]
    detail: Annotated[str, "what exactly, such as a session's id"]
    state: Annotated[JobState, "waiting, running or dead"]
    attempts: Annotated[int, "runs started since it last succeeded"]
    run_at: Annotated[Moment | None, "when it is due; null: now"]
    leased_until: Annotated[Moment | None, "when its lease ends; null: no worker has it"]
    error: Annotated[str | None, "error of its last run; null: none"]
    created_at: Annotated[Moment | None, "when it was created; null: unknown"]
    agent: Annotated[str | None, "the agent whose own store it is in; null: the shared store"] = None


@dataclass(frozen=True, slots=True)
class JobQuery:
    state: JobState | None = None
    kind: str | None = None
    limit: int = 50
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing doctor looked at."""

    check: Annotated[str, "what was checked"]
    ok: Annotated[bool, "whether it is correct"]
    detail: Annotated[str, "what was found, in words"]
    repaired: Annotated[bool, "whether it was repaired"] = False

    @property
    def status(self) -> Annotated[str, IN_JSON, "ok, repaired or FAULT"]:
        if self.repaired:
            return "repaired"
        return "ok" if self.ok else "FAULT"
