"""The storage port. A backend is a ``Store``; work is done on a ``Tx``, inside one transaction.

Every method takes whose memory it touches as its first argument. There is no call without one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Protocol, TypeVar

from limpet.knowledge.graph.communities import Communities, Place
from limpet.model.chunk import ChunkDraft, ChunkQuery, ChunkSource, Source, Vector
from limpet.model.document import Document
from limpet.model.graph import Link, Node, Seen, Told
from limpet.model.job import Job, JobInfo, JobQuery
from limpet.model.message import Message
from limpet.model.paging import PageEnd
from limpet.model.receipt import Bytes
from limpet.model.record import Layer, Record, RecordQuery
from limpet.model.schedule import Held, Run, Schedule
from limpet.model.scope import Home, Scope, Space
from limpet.model.session import KvEntry, ModelUsage, SessionInfo, SessionQuery, State, Summary
from limpet.search.catalogue import Array, Catalogue
from limpet.search.vector_cache import Nearness
from limpet.store.repositories import ApiKeys, Audit, Grants, Imports, Moving, Onces, Purges, Retention, Schedules

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Features:
    """What a backend can do, as data."""

    name: str
    concurrent_readers: bool
    several_processes: bool
    location: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing doctor looked at."""

    check: str
    ok: bool
    detail: str
    repaired: bool = False


class Head(NamedTuple):
    """Where a session's history ends."""

    last_sequence: int
    message_count: int
    last_active_at: datetime


class Stored(NamedTuple):
    """A chunk as it is shown: its text, its source, and what its record or document says about itself."""

    text: str
    source: Source
    metadata: Mapping[str, Any]


class Cut(NamedTuple):
    """What a stored chunk was cut from, to be compared with cutting it again."""

    hash: bytes
    first_sequence: int | None
    last_sequence: int | None
    text: str


class Unembedded(NamedTuple):
    """A chunk that has no vector of a model."""

    ordinal: int
    text: str


class WordScores(NamedTuple):
    """By ordinal, BM25 and the share of the question's weight a chunk holds; and the share that is known at all."""

    scores: Array
    covered: Array
    known: float


class Notice(NamedTuple):
    """A run that somebody is to be told of, with all it said."""

    schedule: Schedule
    run: Run
    output: str


class Sessions(Protocol):
    def add(self, scope: Scope, info: SessionInfo) -> bool:
        """False when another writer holds the key already."""

    def get(self, scope: Scope) -> SessionInfo | None: ...
    def lock(self, scope: Scope) -> SessionInfo:
        """The session, held until the transaction ends. Raises SessionNotFound."""

    def head(self, scope: Scope) -> Head:
        """Where the session's history ends, held until the transaction ends. Raises SessionNotFound."""

    def live(self, scope: Scope, key: str) -> SessionInfo | None: ...
    def find(self, scope: Scope, query: SessionQuery) -> list[SessionInfo]: ...
    def set_state(self, scope: Scope, state: State) -> None: ...
    def set_metadata(self, scope: Scope, metadata: Mapping[str, Any]) -> None: ...
    def set_expiry(self, scope: Scope, expires_at: datetime | None) -> None: ...
    def advance(
        self, scope: Scope, last_sequence: int, message_count: int, active_at: datetime, oldest_at: datetime
    ) -> None:
        """After messages were added, the oldest of which was said at ``oldest_at``."""

    def clear(self, scope: Scope) -> Mapping[str, int]: ...
    def delete(self, scope: Scope) -> Mapping[str, int]: ...


class Messages(Protocol):
    def insert(self, scope: Scope, message: Message) -> None: ...
    def replace(self, scope: Scope, message: Message) -> None:
        """Other words in the place of a message's. Its chunks are the caller's to cut again."""

    def by_idempotency_key(self, scope: Scope, key: str) -> Message | None: ...
    def range(self, scope: Scope, after: int | None, before: int | None, limit: int | None) -> list[Message]: ...
    def recent(self, scope: Scope, count: int, before: int | None = None) -> list[Message]: ...
    def count_through(self, scope: Scope, upper_sequence: int) -> int: ...


class Summaries(Protocol):
    def get(self, scope: Scope) -> Summary | None: ...
    def put(self, scope: Scope, summary: Summary) -> None: ...
    def past(self, scope: Scope) -> tuple[int, int]:
        """The last sequence that was cleared, and the last epoch that was used."""


class KeyValues(Protocol):
    def get(self, scope: Scope, key: str, cap: int) -> KvEntry | None: ...
    def set(self, scope: Scope, key: str, value: str, now: datetime, cap: int) -> None: ...
    def delete(self, scope: Scope, key: str, cap: int) -> bool: ...
    def items(self, scope: Scope, cap: int) -> list[KvEntry]: ...


class UsageBook(Protocol):
    def add(self, scope: Scope, entry: ModelUsage) -> None: ...
    def find(self, scope: Scope) -> list[ModelUsage]: ...


class Records(Protocol):
    def insert(self, home: Home, record: Record) -> None: ...
    def replace(self, home: Home, record: Record) -> None:
        """Write the record over its last version, which goes into the history."""

    def get(self, scope: Scope, record_id: str) -> Record | None: ...
    def lock(self, scope: Scope, record_id: str) -> Record | None: ...
    def by_key(self, home: Home, key: str, *, lock: bool = True) -> Record | None: ...
    def find(self, scope: Scope, query: RecordQuery, now: datetime) -> list[Record]: ...
    def standing(
        self, space: Space, session: str, keyed: int, layers: Mapping[Layer, int], ids: Sequence[str], now: datetime
    ) -> list[Record]:
        """The newest of those with a key and so many of each layer, pinned ones apart, and those with these ids.

        None of other sessions.
        """

    def current(self, space: Space, now: datetime) -> list[Record]:
        """All that are true now, the latest change first."""

    def some(self, space: Space, ids: Sequence[str]) -> list[Record]:
        """Those with these ids, ended and archived ones too."""

    def same(self, space: Space, fingerprint: str) -> list[Record]:
        """Those with this fingerprint, also ended and archived ones."""

    def about(self, space: Space, subject: str, attribute: str) -> list[Record]:
        """Those about this attribute of this subject that nothing has superseded."""

    def made_from(self, space: Space, ids: Sequence[str]) -> list[Record]:
        """Those that have one of these among their inputs."""

    def unused_since(
        self, space: Space, moment: datetime, limit: int, after: tuple[datetime, str] | None = None
    ) -> list[Record]:
        """Those that may fade, the longest unchanged first: neither explicit nor pinned nor archived.

        ``after`` is the last change and the id of the record the page before ended with.
        """

    def turns_of(self, space: Space, session: str) -> list[Record]:
        """The records of a session's finished turns."""

    def archived_before(self, space: Space, moment: datetime, limit: int) -> list[Record]: ...
    def used(self, space: Space, ids: Sequence[str], now: datetime) -> None:
        """Count one use each; not a change, so nothing goes into the history."""

    def weigh(self, space: Space, record_id: str, confidence: float, said: int, now: datetime) -> None:
        """Said so many times more, which changes how sure it is; not what it says, so nothing goes into the history."""

    def count(self, scope: Scope, query: RecordQuery, now: datetime) -> int: ...
    def history(self, scope: Scope, record_id: str) -> list[Record]: ...
    def delete(self, scope: Scope, record_id: str) -> Mapping[str, int]: ...


class Chunks(Protocol):
    """Chunks, their words and their vectors: always written together."""

    def add(self, space: Space, source: ChunkSource, drafts: Sequence[ChunkDraft]) -> int:
        """Asks for the vectors that are wanted and not there."""

    def hold(self, space: Space) -> None:
        """Nobody else writes records or chunks into the space until the transaction ends."""

    def cut_of_session(self, scope: Scope) -> list[Cut]: ...
    def cut_of_record(self, space: Space, record_id: str) -> list[Cut]: ...
    def drop_session(self, scope: Scope) -> int: ...
    def drop_record(self, space: Space, record_id: str) -> int: ...
    def drop_document(self, space: Space, document_id: str) -> int: ...
    def catalogue(self, space: Space) -> Catalogue | None: ...
    def names(self, space: Space) -> tuple[str, ...]:
        """Everybody who spoke under a name."""

    def score_words(
        self, space: Space, weights: Mapping[int, float], beside: frozenset[int], k1: float, b: float
    ) -> WordScores | None:
        """Terms ``beside`` the point count for the scores, but not for how much of the question is covered."""

    def allowed(self, space: Space, query: ChunkQuery) -> list[int] | None:
        """The ordinals the filters leave, or None when they leave all."""

    def untrue(self, space: Space, now: datetime) -> list[int]:
        """The ordinals of records that have ended or not begun."""

    def read(self, space: Space, ordinals: Sequence[int], as_of: datetime | None, now: datetime) -> dict[int, Stored]:
        """The chunks with these ordinals, without records that are not true at the moment."""

    def nearness(self, space: Space, question: Vector) -> Nearness | None:
        """Cosines with every chunk of the catalogue, quickly; None when none has a vector of the question's model."""

    def cosines(self, space: Space, question: Vector, ordinals: Sequence[int]) -> dict[int, float]:
        """Cosines with some chunks, exactly."""

    def unembedded(self, space: Space, model: str, after: int, limit: int) -> list[Unembedded]:
        """Chunks after an ordinal that have no vector of this model."""

    def put_vectors(self, space: Space, vectors: Mapping[int, Vector]) -> bool:
        """Vectors that come later than their chunks, by ordinal. False when the model has another dimension."""


class Cursors(Protocol):
    """How far a kind of work has come through a session's messages: the last sequence that is done, 0 at first."""

    def get(self, scope: Scope, name: str) -> int: ...
    def set(self, scope: Scope, name: str, sequence: int) -> None: ...


class Graph(Protocol):
    """Names, where they stand, and what is stated between them. Goes with the messages and records it came from."""

    def add(self, space: Space, told: Sequence[Told]) -> None:
        """Names of the same normal form are one row. The same mention twice is one."""

    def drop_session(self, scope: Scope) -> int:
        """What its messages say, and the names that nothing else mentions. Answers how many mentions went."""

    def drop_record(self, space: Space, record_id: str) -> int: ...
    def nodes(self, space: Space, beginning: Sequence[str] | None = None) -> list[Node]:
        """All names, or those whose first word is one of these."""

    def links(self, space: Space, nodes: Sequence[int] | None = None) -> list[Link]:
        """All relations, or those that one of these stands in."""

    def mentions(self, space: Space, nodes: Sequence[int], limit: int) -> list[Seen]: ...
    def places(self, space: Space, nodes: Sequence[int] | None = None) -> list[Place]:
        """The mentions as a search needs them."""

    def communities(self, space: Space) -> Communities | None:
        """Groups of names that stand together, remembered until the mentions change."""

    def behind(self, space: Space, cursor: str) -> list[str]:
        """The sessions with messages after this cursor."""


class Jobs(Protocol):
    def ask(self, space: Space, kind: str, detail: str, now: datetime, run_at: datetime | None = None) -> None:
        """Enter work to be done once this transaction is committed, at once or not before ``run_at``.

        Asked for twice it is done once, or once more if it is being done; at the earliest of the times asked for.
        """

    def finish(self, job: Job, again: datetime | None = None) -> None:
        """The job's effect is in this transaction: with it the job is done, or comes again. Raises LeaseLost."""

    def find(self, scope: Scope, query: JobQuery, now: datetime) -> list[JobInfo]:
        """A whole tenant's, here and below: a narrower scope is refused."""

    def retry(self, scope: Scope, ids: Sequence[int] | None, kind: str | None, now: datetime) -> int:
        """Let those that were laid aside be tried anew."""

    def drop(self, scope: Scope, ids: Sequence[int]) -> int:
        """Remove those that were laid aside."""


class Documents(Protocol):
    """Documents by their uri, each with the number of its chunks."""

    def get(self, space: Space, uri: str) -> Document | None: ...
    def lock(self, space: Space, uri: str) -> Document | None:
        """The document, or that there is none: nobody else adds or changes one until the transaction ends."""

    def insert(self, space: Space, document: Document) -> None: ...
    def replace(self, space: Space, document: Document) -> None: ...
    def find(self, space: Space, limit: int, offset: int, before: PageEnd | None = None) -> list[Document]:
        """The latest change first."""

    def delete(self, space: Space, document_id: str) -> Mapping[str, int]: ...


class Tx(Protocol):
    @property
    def sessions(self) -> Sessions: ...
    @property
    def messages(self) -> Messages: ...
    @property
    def summaries(self) -> Summaries: ...
    @property
    def kv(self) -> KeyValues: ...
    @property
    def usage(self) -> UsageBook: ...
    @property
    def records(self) -> Records: ...
    @property
    def chunks(self) -> Chunks: ...
    @property
    def cursors(self) -> Cursors: ...
    @property
    def graph(self) -> Graph: ...
    @property
    def jobs(self) -> Jobs: ...
    @property
    def documents(self) -> Documents: ...
    @property
    def imports(self) -> Imports: ...
    @property
    def grants(self) -> Grants: ...
    @property
    def audit(self) -> Audit: ...
    @property
    def api_keys(self) -> ApiKeys: ...
    @property
    def once(self) -> Onces: ...
    @property
    def schedules(self) -> Schedules: ...
    @property
    def moving(self) -> Moving: ...
    @property
    def purges(self) -> Purges: ...
    @property
    def retention(self) -> Retention: ...


Work = Callable[[Tx], T]
Progress = Callable[[str, int, int], None]
Wanted = tuple[str, str]  # a kind of job, and its detail if only jobs with that one


class Store(Protocol):
    @property
    def features(self) -> Features: ...
    def write(self, work: Work[T]) -> T:
        """Run the work in a transaction; return once it is durable. It may run again; only one run stays."""

    def read(self, work: Work[T]) -> T:
        """Run the work on one consistent view of the store."""

    def beside(self, work: Work[None]) -> AbstractContextManager[Callable[[], bool]]:
        """What this thread writes next is preceded by this work, in the same transaction.

        Inside the block; the function it gives tells whether that has happened.
        """

    def take_job(self, wanted: Sequence[Wanted], now: datetime, lease: timedelta) -> Job | None:
        """Of the first of these kinds that has any due, the job that has waited longest; nobody else gets it meanwhile.

        Another may get it when the lease has ended. What the first one does to the job then has no effect.
        """

    def renew_job(self, job: Job, until: datetime) -> Job | None:
        """The job under a longer lease; None when it was lost."""

    def finish_job(self, job: Job, again: datetime | None = None) -> bool:
        """Done, or to come again. False when the lease was lost."""

    def fail_job(self, job: Job, error: str, run_at: datetime, *, dead: bool) -> bool: ...
    def mend_jobs(self, now: datetime, longest_wait: timedelta) -> int:
        """Free what a clock that was ahead has put off further than anything is put off. Answers how many."""

    def next_job(self, wanted: Sequence[Wanted]) -> datetime | None:
        """When there will be something to take."""

    def count_jobs(self, wanted: Sequence[Wanted]) -> int: ...
    def take_schedule(self, now: datetime, lease: timedelta) -> Held | None:
        """Whichever of all has been due longest; nobody else gets it until the lease has ended."""

    def renew_schedule(self, held: Held, until: datetime) -> bool:
        """False when the lease was lost."""

    def put_back_schedule(self, held: Held, until: datetime) -> bool:
        """Not run after all; nobody takes it before then."""

    def next_schedule(self) -> datetime | None:
        """When there will be one to take."""

    def astray_schedules(self, now: datetime) -> list[Schedule]:
        """Those that were settled or leased by a clock far ahead of this one."""

    def take_notice(self, now: datetime, oldest: datetime, until: datetime) -> Notice | None:
        """A run that somebody is to be told of; nobody else gets it until then."""

    def adopt(self, model: str, now: datetime) -> None:
        """Make this the model whose vectors are kept, and ask for them wherever they are missing."""

    def counts(self) -> Mapping[str, int]: ...
    def tenants(self) -> list[str]: ...
    def erase(self, *, whole: bool, vacuum: bool = False) -> Bytes:
        """After something was purged: remove what the database still holds of it in unused places of its files.

        Without ``whole`` a large file is left to a job. With ``vacuum`` the files are made anew, however large.
        """

    def is_sealed(self, tenant: str) -> bool:
        """Whether this program keeps the tenant's text sealed."""

    def doctor(self, *, repair: bool) -> Iterable[Finding]: ...
    def backup(self, path: str, progress: Progress | None = None) -> None: ...
    def close(self) -> None: ...
