"""Documents and sessions of which something is left that nobody sees: half written, replaced, or deleted."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from limpet.errors import KeyMissing, StorageError
from limpet.model.job import Finding
from limpet.model.scope import Level, Partition
from limpet.store.store import Store

_REMOVALS = "removals"


class Remainder(NamedTuple):
    """A document or a session that is not removed yet, and whether a job is to remove it."""

    partition: Partition
    id: str
    has_job: bool


Remove = Callable[[Partition, str], object]


def check_removals(store: Store, remove_versions: Remove, remove_session: Remove, *, repair: bool) -> Finding:
    """Whether a job is to remove everything that nobody sees; with ``repair``, it is removed now."""
    found = {name: _find(store, name) for name in ("documents.find_unsettled", "sessions.find_deleted")}
    remainders = [each for some in found.values() for each in some]
    lost = sum(not each.has_job for each in remainders)
    if repair:
        try:
            for name, remove in (
                ("documents.find_unsettled", remove_versions),
                ("sessions.find_deleted", remove_session),
            ):
                for each in found[name]:
                    remove(each.partition, each.id)
        except (KeyMissing, StorageError) as error:
            return Finding(_REMOVALS, ok=False, detail=str(error))
    detail = (
        f"{len(remainders)} documents and sessions are written or removed" if remainders else "nothing is left over"
    )
    detail += f"; no job finishes {lost} of them" if lost else ""
    return Finding(_REMOVALS, ok=not lost, detail=detail, repaired=repair and bool(remainders))


def _find(store: Store, query: str) -> list[Remainder]:
    rows = store.read(lambda tx: tx.db.all(query, {}))
    return [
        Remainder(Partition(tenant, Level(level), owner), id_, bool(job)) for tenant, level, owner, id_, job in rows
    ]
