"""Purging and retention: what goes for good."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING

from limpet.api import parameters as arg
from limpet.api.handle import Handle
from limpet.errors import InvalidInput, SessionNotFound
from limpet.lifecycle.purge_repository import PurgeRequest, Purges
from limpet.model.dataclass import replace
from limpet.model.privacy import ErasureState, PurgeTarget, Receipt, RetentionResult
from limpet.model.scope import Level, Partition
from limpet.security.operation import On, operation
from limpet.sessions.repository import Sessions

if TYPE_CHECKING:
    from limpet.api.runtime import Runtime

_WORST = (ErasureState.GONE, ErasureState.VACUUM, ErasureState.WAITING)


class PrivacyOperations(Handle):
    """Purges and retention: ``memory.privacy``. None of them is a tool for a model."""

    @operation(
        "privacy.purge_session", On.ID, "write:session", "POST /v1/purge/session", audited=True, cli="purge session"
    )
    def purge_session(
        self,
        id: arg.SessionId,
        *,
        user: arg.OfUser | None = None,
        asked_by: arg.AskedBy | None = None,
        vacuum: arg.Vacuum = False,
        dry_run: arg.DryRun = False,
    ) -> Receipt:
        """Remove a session with everything that came of it: messages, summary, what was learned from it alone, files.

        Done when it returns, also if it was interrupted before: the next call, or the next worker, finishes it. The
        receipt says what was removed, what is left, and what became of the bytes; ``vacuum`` makes the database's files
        anew, which takes as long as the store is large. With ``dry_run`` it is only counted.
        """
        scope = self._scope(user=user, session=id)
        for runtime in self._runtimes():
            info = runtime.store.read(lambda tx: Sessions(tx).get(scope))
            if info is not None:
                order = PurgeRequest(PurgeTarget.SESSION, info.partition, session=id, asked_by=asked_by)
                return _purge([runtime], order, vacuum=vacuum, dry_run=dry_run)
        raise SessionNotFound(f"no session {id} here")

    @operation(
        "privacy.purge_user",
        On.USER,
        "write:user",
        "POST /v1/purge/user",
        audited=True,
        anonymizes=True,
        requires_user=True,
        cli="purge user",
    )
    def purge_user(
        self,
        user: arg.OneUser,
        *,
        asked_by: arg.AskedBy | None = None,
        vacuum: arg.Vacuum = False,
        dry_run: arg.DryRun = False,
    ) -> Receipt:
        """Remove everything of a user, in the stores of all agents: sessions, records, documents, jobs, files, name.

        What was learned from this user alone goes, for whomever it was kept. A user of the same name starts clean.
        """
        order = PurgeRequest(PurgeTarget.USER, Partition(self._tenant, Level.USER, user), asked_by=asked_by)
        return _purge(self._runtimes(), order, vacuum=vacuum, dry_run=dry_run)

    @operation(
        "privacy.purge_older",
        On.USER,
        "write:user",
        "POST /v1/purge/older",
        audited=True,
        requires_user=True,
        cli="purge older",
    )
    def purge_older(
        self,
        user: arg.OneUser,
        days: arg.Days,
        *,
        everything: arg.Everything = False,
        asked_by: arg.AskedBy | None = None,
        vacuum: arg.Vacuum = False,
        dry_run: arg.DryRun = False,
    ) -> Receipt:
        """Remove what a user said more than so many days ago: messages, what was learned from them, daily notes.

        Messages count from when they were said, sessions from when they were last active; records, key-value entries
        and notes from when they were last changed. Explicit and pinned memories, documents and MEMORY.md stay, unless
        ``everything`` is asked for. 0 days is all until now, and needs ``everything``. Nobody else's are touched.
        """
        if not days and not everything:
            raise InvalidInput(
                "0 days is all until now: to remove that, with explicit and pinned memories, say everything as well"
                " (everything=True, --everything); to keep them, give more days"
            )
        space, before = Partition(self._tenant, Level.USER, user), self._now() - timedelta(days=days)
        what = PurgeTarget.OLDER_EVERYTHING if everything else PurgeTarget.OLDER
        order = PurgeRequest(what, space, before=before, asked_by=asked_by)
        return _purge(self._runtimes(), order, vacuum=vacuum, dry_run=dry_run)

    @operation("privacy.receipts", On.WHOLE, "read:global", "GET /v1/purge", page="offset", cli="purge receipts")
    def receipts(self, limit: arg.Limit = 50, offset: arg.Offset = 0) -> list[Receipt]:
        """What was purged, the latest first; also what was begun and is not done. Without names and content."""
        return self._read(lambda tx: Purges(tx).find_receipts(self._scope(), limit, offset))

    @operation("privacy.retention", On.WHOLE, "write:global", "POST /v1/retention", audited=True, cli="retention")
    def retention(self, dry_run: arg.DryRun = False) -> list[RetentionResult]:
        """Remove now what the settings no longer keep, and sessions whose time is over; hourly a job does so.

        Answers what went, by agent. With ``dry_run`` it is only counted.
        """
        return [each for runtime in self._runtimes() for each in runtime.retention.apply(self._tenant, dry_run=dry_run)]

    def _runtimes(self) -> list[Runtime]:
        return [runtime for _, runtime in self._stores()]


def _purge(stores: Iterable[Runtime], order: PurgeRequest, *, vacuum: bool, dry_run: bool) -> Receipt:
    """One answer for several stores. Each keeps the receipt of its own part."""
    purgers = [runtime.purger for runtime in stores]
    found = [each.dry_run(order) if dry_run else each.purge(order, vacuum=vacuum) for each in purgers]
    counts = Counter[str]()
    for each in found:
        counts.update(each.counts)
    return replace(
        found[0],
        counts=dict(sorted(counts.items())),
        verified=all(each.verified for each in found),
        left=tuple(place for each in found for place in each.left),
        bytes=max((each.bytes for each in found), key=_WORST.index),
    )
