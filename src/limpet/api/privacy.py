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
from limpet.model.scope import user_partition
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
        """Remove a session and everything derived from it: messages, summary, files, what it alone taught.

        The purge is complete when the call returns. An interrupted one is finished by the next call or worker. The
        receipt says what was removed, what is left, and whether the bytes are gone; ``vacuum`` rewrites the whole
        database file. With ``dry_run`` it only counts.
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

        What was learned from this user alone is removed too, whoever owns it. A new user of the same name starts empty.
        """
        order = PurgeRequest(PurgeTarget.USER, user_partition(self._tenant, user), asked_by=asked_by)
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
        """Remove what a user said more than ``days`` ago: messages, what was learned from them, daily notes.

        Messages count from the time they were said, sessions from their last activity; records, key-value entries and
        notes from their last change. Explicit and pinned memories, documents and MEMORY.md stay, unless ``everything``
        is set. 0 days means everything up to now, and needs ``everything``. Other users' memory is not changed.
        """
        if not days and not everything:
            raise InvalidInput(
                "0 days removes everything up to now, explicit and pinned memories too: confirm that with everything"
                " (everything=True, --everything), or give more days"
            )
        space, before = user_partition(self._tenant, user), self._now() - timedelta(days=days)
        what = PurgeTarget.OLDER_EVERYTHING if everything else PurgeTarget.OLDER
        order = PurgeRequest(what, space, before=before, asked_by=asked_by)
        return _purge(self._runtimes(), order, vacuum=vacuum, dry_run=dry_run)

    @operation("privacy.receipts", On.WHOLE, "read:global", "GET /v1/purge", page="offset", cli="purge receipts")
    def receipts(self, limit: arg.Limit = 50, offset: arg.Offset = 0) -> list[Receipt]:
        """List purges, latest first, also unfinished ones. Receipts hold no names and no content."""
        return self._read(lambda tx: Purges(tx).find_receipts(self._scope(), limit, offset))

    @operation("privacy.retention", On.WHOLE, "write:global", "POST /v1/retention", audited=True, cli="retention")
    def retention(self, dry_run: arg.DryRun = False) -> list[RetentionResult]:
        """Remove what the settings no longer keep, and expired sessions. A job does so every hour.

        Returns the counts by agent. With ``dry_run`` it only counts.
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
