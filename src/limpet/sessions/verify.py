"""Checks of sessions: counters match rows, and no summary covers messages that do not exist."""

from __future__ import annotations

from collections.abc import Iterator

from limpet.model.job import Finding
from limpet.store.store import Store
from limpet.store.tx import Db


def check_sessions(store: Store, *, repair: bool) -> Iterator[Finding]:
    yield store.run_check("sessions", lambda tx: _check_counters(tx.db, repair=repair), repair=repair)
    yield store.run_check("summaries", lambda tx: _check_summaries(tx.db), repair=repair)


def _check_counters(db: Db, *, repair: bool) -> Finding:
    wrong = db.all("sessions.find_miscounted", {})
    if repair:
        fixes = [
            {
                "bucket": bucket,
                "partition_id": partition_id,
                "session": id_,
                "message_count": count,
                "last_sequence": max(last, highest),
            }
            for bucket, partition_id, id_, last, count, highest in wrong
        ]
        db.run_many("sessions.set_counts", fixes)
    detail = f"{len(wrong)} sessions miscount their messages" if wrong else "every session counts its messages right"
    return Finding("sessions", not wrong, detail, repaired=repair and bool(wrong))


def _check_summaries(db: Db) -> Finding:
    wrong = db.all("summaries.find_too_high", {})
    detail = (
        f"{len(wrong)} summaries cover messages that do not exist" if wrong else "no summary claims more than there is"
    )
    return Finding("summaries", not wrong, detail)
