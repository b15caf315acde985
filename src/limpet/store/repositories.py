"""What a store keeps beside memory: how it moves, goes and is looked after, who may what, and what comes back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from limpet.model.access import Grant, Granted
from limpet.model.api_key import KeyInfo
from limpet.model.audit import AuditEntry, AuditQuery
from limpet.model.graph import GraphSource, Told
from limpet.model.idempotency import Asked, Made
from limpet.model.receipt import Receipt, What
from limpet.model.schedule import Held, Run, Schedule, ScheduleQuery
from limpet.model.scope import Home, Scope, Space
from limpet.model.transfer import DocumentState, Piece, RecordState, SessionState


class Imports(Protocol):
    """What was taken in whole, by its digest; and how far what is taken in step by step has come."""

    def seen(self, scope: Scope, digest: str) -> bool: ...
    def note(self, scope: Scope, digest: str, name: str, sessions: int, messages: int, now: datetime) -> None: ...
    def progress(self, scope: Scope, digest: str) -> str | None:
        """What was last marked; None for one that was not begun, or is finished."""

    def mark(self, scope: Scope, digest: str, name: str, state: str, now: datetime) -> None: ...
    def finish(self, scope: Scope, digest: str) -> None: ...


class Moving(Protocol):
    """Everything there is in a scope, in the order of the ids; and the same put back as it was."""

    def totals(self, scope: Scope) -> Mapping[str, int]:
        """How many sessions, messages and records there are."""

    def spaces(self, scope: Scope) -> list[Space]: ...

    def session_ids(self, scope: Scope, after: str, limit: int) -> list[str]: ...
    def session(self, scope: Scope) -> SessionState: ...
    def put_session(self, scope: Scope, state: SessionState) -> bool:
        """Without messages, and without what is said of them. False when its id or its key is taken."""

    def settle_session(self, scope: Scope, state: SessionState) -> None:
        """What is said of the messages, now that they are there. What the session has of it already stays."""

    def has_message(self, scope: Scope, sequence: int) -> bool: ...
    def record_ids(self, scope: Scope, after: str, limit: int) -> list[str]: ...
    def records(self, scope: Scope, ids: Sequence[str]) -> list[RecordState]: ...
    def put_record(self, home: Home, state: RecordState) -> None: ...
    def documents(self, scope: Scope, after: str, limit: int) -> list[DocumentState]: ...
    def document(self, scope: Scope, document_id: str) -> DocumentState | None: ...
    def pieces(self, space: Space, document_id: str, after: int, limit: int) -> list[tuple[int, Piece]]:
        """A document's text by numbers, of which ``after`` is the last that was read."""

    def last_piece(self, space: Space, document_id: str) -> int:
        """Where the last piece begins that is there, and -1 where none is."""

    def told_by_session(self, scope: Scope, after: int, limit: int) -> list[Told]:
        """What its messages after a sequence number say for the graph: at most about so many names."""

    def told_by_record(self, space: Space, record_id: str) -> Told | None: ...
    def has_told(self, space: Space, source: GraphSource) -> bool: ...
    def taken(self, scope: Scope, kind: str, owners: Mapping[str, str]) -> list[str]:
        """Of these ids of a kind, those that belong to other owners than these; a run's is its schedule."""


class Grants(Protocol):
    """What users may beyond their own memory."""

    def put(self, scope: Scope, granted: Granted) -> bool:
        """False when the user has it already."""

    def remove(self, scope: Scope, grant: Grant) -> bool: ...
    def of(self, scope: Scope) -> tuple[Grant, ...]: ...
    def find(self, scope: Scope) -> list[Granted]:
        """A user's, or all of a tenant."""

    def erase(self, scope: Scope, instead: str) -> int:
        """Take away what the user has, and what others have on the user. ``instead`` stands where the user gave."""


class Audit(Protocol):
    def add(self, scope: Scope, entries: Sequence[AuditEntry]) -> None: ...
    def find(self, scope: Scope, query: AuditQuery) -> list[AuditEntry]:
        """A tenant's, the newest first."""

    def erase(self, scope: Scope, instead: str) -> int:
        """Put another name in the user's place everywhere, and nothing in that of sessions and records."""

    def trim(self, scope: Scope, before: datetime) -> int:
        """Remove what is older. Answers how many."""


class ApiKeys(Protocol):
    """Keys of a tenant. A secret is found by its hash alone, whosever it is."""

    def add(self, scope: Scope, key: KeyInfo, secret_hash: str, now: datetime) -> bool:
        """False when another that is live has its name."""

    def by_hash(self, store: Space, secret_hash: str) -> KeyInfo | None:
        """Of whichever tenant, revoked and expired ones too."""

    def any(self, store: Space) -> bool: ...
    def named(self, scope: Scope, id_or_name: str) -> KeyInfo | None:
        """The one that was not revoked."""

    def find(self, scope: Scope) -> list[KeyInfo]:
        """A user's, or all of a tenant, the newest first; revoked and expired ones too."""

    def revoke(self, scope: Scope, key_id: str, now: datetime) -> bool: ...
    def used(self, scope: Scope, key_id: str, now: datetime) -> None: ...
    def erase(self, scope: Scope, instead: str) -> int:
        """Remove a user's keys. ``instead`` stands in the audit and elsewhere where one of them, or the user, stood.

        What keys of others may do to the user's memory is taken from them.
        """


class Onces(Protocol):
    """What was made under idempotency keys."""

    def get(self, space: Space, asked: Asked) -> Made | None: ...
    def put(self, space: Space, asked: Asked, made_id: str, now: datetime) -> None: ...
    def trim(self, scope: Scope, before: datetime, limit: int) -> int:
        """Remove what is older. Answers how many."""


class Schedules(Protocol):
    """Schedules of a tenant's users, and their runs."""

    def count_live(self, scope: Scope) -> int:
        """A user's that have not ended. Nobody else adds one until the transaction ends."""

    def insert(self, scope: Scope, schedule: Schedule) -> None: ...
    def get(self, scope: Scope, schedule_id: str) -> Schedule | None: ...
    def lock(self, scope: Scope, schedule_id: str) -> Schedule | None: ...
    def replace(self, scope: Scope, schedule: Schedule) -> None:
        """All but its lease."""

    def find(self, scope: Scope, query: ScheduleQuery) -> list[Schedule]:
        """The newest first."""

    def due(self, scope: Scope, now: datetime, limit: int) -> list[Schedule]:
        """Those that wait for a runner, the longest first."""

    def count(self, scope: Scope, query: ScheduleQuery) -> int: ...
    def delete(self, scope: Scope, schedule_id: str) -> Mapping[str, int]: ...
    def hold(self, scope: Scope, held: Held) -> Schedule:
        """As it is now, kept until the transaction ends. Raises LeaseLost when somebody else has it, or it is gone."""

    def finish(
        self, scope: Scope, held: Held, schedule: Schedule, run: Run, output: str, keep: tuple[int, int]
    ) -> None:
        """The run, the schedule as it goes on, and the end of the lease, after ``hold`` in the same transaction.

        ``keep``: how many runs of it, and how many of the user's schedules that have ended.
        """

    def free(self, scope: Scope, schedule_id: str, now: datetime) -> None:
        """End a lease that a clock far ahead of this one has given."""

    def add_run(self, scope: Scope, run: Run, output: str) -> None: ...
    def told(self, scope: Scope, run_id: str) -> None: ...
    def runs(self, scope: Scope, schedule_id: str, limit: int, offset: int) -> list[Run]:
        """The latest first."""

    def run(self, scope: Scope, run_id: str) -> Run | None: ...
    def output(self, scope: Scope, run_id: str, offset: int, limit: int) -> tuple[str, int] | None:
        """A part of what a run said, and how many characters it all is."""

    def page(self, scope: Scope, after: str, limit: int) -> list[Schedule]:
        """In the order of the ids."""

    def run_ids(self, scope: Scope, after: str, limit: int) -> list[str]:
        """Of the runs of all schedules, in their order."""


class Purges(Protocol):
    """Removing without a trace, and the receipts of it. A space here is a user's: nothing removes everybody's."""

    def drop_space(self, space: Space, limit: int) -> tuple[Mapping[str, int], bool]:
        """So many rows of a user, the space's name last: how many of each kind, and whether all are gone."""

    def count_space(self, space: Space) -> Mapping[str, int]:
        """The rows there are, by table; none for a user who was purged."""

    def learned_elsewhere(self, space: Space) -> list[str]:
        """Records of other spaces that were made from this one's."""

    def sessions(self, space: Space) -> list[str]: ...
    def sessions_before(self, space: Space, moment: datetime) -> list[str]:
        """Those that were not active since, or have messages from before."""

    def learned_from(self, space: Space, session: str) -> list[str]:
        """The records of a session, and those that were learned from it."""

    def records_before(self, space: Space, moment: datetime, limit: int) -> list[str]:
        """Those that were not changed since, whatever they are."""

    def sample(self, space: Space, limit: int, session: str | None, before: datetime | None) -> list[str]:
        """Some of the texts."""

    def older_messages(self, scope: Scope, moment: datetime, limit: int) -> list[int]: ...
    def drop_messages(
        self, scope: Scope, sequences: Sequence[int]
    ) -> tuple[Mapping[str, int], Mapping[bytes, tuple[int, int]]]:
        """With what is made of them. Chunks that other messages may have said too are named by their hash, with the
        first and the last sequence: messages there that stay are the caller's to index again."""

    def drop_summary(self, scope: Scope) -> int: ...
    def drop_versions(self, scope: Scope, record_id: str) -> int: ...
    def drop_versions_of(self, space: Space, session: str) -> int:
        """What records said before, where it came from this session."""

    def drop_small(self, space: Space, moment: datetime) -> Mapping[str, int]:
        """Key-value entries and earlier versions of records from before a moment."""

    def documents_before(self, space: Space, moment: datetime, limit: int) -> list[str]: ...
    def open_receipt(self, scope: Scope, receipt: Receipt) -> None: ...
    def write_receipt(self, scope: Scope, receipt: Receipt) -> None: ...
    def receipt(self, scope: Scope, receipt_id: str) -> Receipt | None: ...
    def unfinished(self, scope: Scope, what: What, digest: str) -> Receipt | None: ...
    def receipts(self, scope: Scope, limit: int, offset: int) -> list[Receipt]: ...
    def erased(self, store: Space, moment: datetime) -> int:
        """The bytes of everything that was purged until then, of whomever, are gone."""

    def withdraw(self, space: Space, kind: str, detail: str) -> None: ...


class Owned(NamedTuple):
    """Something that is due, and whose it is."""

    id: str
    space: Space


class Retention(Protocol):
    """What is older than somebody wants to keep it, a page at a time."""

    def agents(self, scope: Scope) -> list[str]:
        """Those that have messages."""

    def sessions_before(self, scope: Scope, moment: datetime, limit: int) -> list[Scope]:
        """Sessions of the scope's agent with messages from before the moment."""

    def expired(self, scope: Scope, now: datetime, limit: int) -> list[Scope]: ...
    def count_messages(self, scope: Scope, moment: datetime) -> int: ...
    def records_before(self, scope: Scope, moment: datetime, after: str, limit: int) -> list[str]:
        """Neither changed nor used since; no explicit and no pinned ones."""

    def documents_before(self, scope: Scope, moment: datetime, after: str, limit: int) -> list[Owned]: ...
