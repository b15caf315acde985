"""Purging and retention: what goes for good."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from limpet.api.handle import Handle
from limpet.errors import InvalidInput, SessionNotFound
from limpet.lifecycle.purge_repository import Purges
from limpet.model.ids import check_id
from limpet.model.receipt import ErasureState, PurgeTarget, Receipt
from limpet.model.retention import RetentionResult
from limpet.model.scope import Level, Partition
from limpet.model.text import check_name, check_optional_name
from limpet.model.values import check_flag, check_number, check_page
from limpet.security.operation import operation
from limpet.sessions.repository import Sessions

if TYPE_CHECKING:
    from limpet.api.runtime import Runtime

_WORST = (ErasureState.GONE, ErasureState.VACUUM, ErasureState.WAITING)


class PrivacyOperations(Handle):
    """Purges and retention: ``memory.privacy``. None of them is a tool for a model."""

    @operation("privacy.purge_session")
    def purge_session(
        self,
        id: str,
        *,
        user: str | None = None,
        asked_by: str | None = None,
        vacuum: bool = False,
        dry_run: bool = False,
    ) -> Receipt:
        """Remove a session with everything that came of it: messages, summary, what was learned from it alone, files.

        Done when it returns, also if it was interrupted before: the next call, or the next worker, finishes it. The
        receipt says what was removed, what is left, and what became of the bytes; ``vacuum`` makes the database's files
        anew, which takes as long as the store is large. With ``dry_run`` it is only counted.
        """
        wanted = check_id(id, "session id")
        for runtime in self._runtimes():
            owner = self._session_owner(runtime, wanted, user)
            if owner is not None:
                space = Partition(self._tenant, Level.USER, owner)
                return self._purge([runtime], space, PurgeTarget.SESSION, asked_by, vacuum, dry_run, session=wanted)
        raise SessionNotFound(f"no session {wanted} here")

    @operation("privacy.purge_user")
    def purge_user(
        self, user: str, *, asked_by: str | None = None, vacuum: bool = False, dry_run: bool = False
    ) -> Receipt:
        """Remove everything of a user, in the stores of all agents: sessions, records, documents, jobs, files, name.

        What was learned from this user alone goes, for whomever it was kept. A user of the same name starts clean.
        """
        space = self._user_partition(user)
        return self._purge(self._runtimes(), space, PurgeTarget.USER, asked_by, vacuum, dry_run)

    @operation("privacy.purge_older")
    def purge_older(
        self, user: str, days: float, *, asked_by: str | None = None, vacuum: bool = False, dry_run: bool = False
    ) -> Receipt:
        """Remove everything of a user that is older than so many days, explicit and pinned memories included.

        Messages count from when they were said, sessions from when they were last active; records, documents,
        key-value entries and notes from when they were last changed. Nobody else's are touched.
        """
        space, before = self._user_partition(user), self._now() - _parse_days(days)
        return self._purge(self._runtimes(), space, PurgeTarget.OLDER, asked_by, vacuum, dry_run, before=before)

    @operation("privacy.receipts")
    def receipts(self, limit: int = 50, offset: int = 0) -> list[Receipt]:
        """What was purged, the latest first; also what was begun and is not done. Without names and content."""
        page, skipped = check_page(limit), check_number(offset, "offset")
        return self._read(lambda tx: Purges(tx).find_receipts(self._scope(), page, skipped))

    @operation("privacy.retention")
    def retention(self, dry_run: bool = False) -> list[RetentionResult]:
        """Remove now what the settings no longer keep, and sessions whose time is over; hourly a job does so.

        Answers what went, by agent. With ``dry_run`` it is only counted.
        """
        only_count = check_flag(dry_run, "dry_run")
        return [
            each for runtime in self._runtimes() for each in runtime.retention.apply(self._tenant, dry_run=only_count)
        ]

    def _user_partition(self, user: str) -> Partition:
        return Partition(self._tenant, Level.USER, check_name(user, "user"))

    def _runtimes(self) -> list[Runtime]:
        """This one; with those of agents that have their own, unless this is such a one."""
        others = self._view.agents.iter_own_stores() if self._view.agent is None else ()
        return [self._runtime, *(runtime for _, runtime in others)]

    def _session_owner(self, runtime: Runtime, session: str, user: str | None) -> str | None:
        scope = self._scope(user=user, session=session)
        info = runtime.store.read(lambda tx: Sessions(tx).get(scope))
        return None if info is None else info.user

    def _purge(
        self,
        stores: Sequence[Runtime],
        space: Partition,
        what: PurgeTarget,
        asked_by: str | None,
        vacuum: bool,
        dry_run: bool,
        *,
        session: str | None = None,
        before: datetime | None = None,
    ) -> Receipt:
        from limpet.lifecycle.purge_request import PurgeRequest

        by, files_anew = check_optional_name(asked_by, "asked_by"), check_flag(vacuum, "vacuum")
        if check_flag(dry_run, "dry_run"):
            order = PurgeRequest("", what, space, session, before)
            return _merge_receipts(runtime.purger.dry_run(order) for runtime in stores)
        return _merge_receipts(
            runtime.purger.purge(space, what, session=session, before=before, asked_by=by, vacuum=files_anew)
            for runtime in stores
        )


def _merge_receipts(receipts: Iterable[Receipt]) -> Receipt:
    """One answer for several stores. Each keeps the receipt of its own part."""
    first, *others = receipts
    counts = Counter(first.counts)
    for other in others:
        counts.update(other.counts)
    found = [first, *others]
    return replace(
        first,
        counts=dict(sorted(counts.items())),
        verified=all(each.verified for each in found),
        left=tuple(place for each in found for place in each.left),
        bytes=max((each.bytes for each in found), key=_WORST.index),
    )


def _parse_days(value: object) -> timedelta:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 100_000:
        raise InvalidInput("days must be a number from 0 to 100,000")
    return timedelta(days=value)
