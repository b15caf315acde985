"""What must hold of sessions: counters agree with rows, and no summary covers more than there is."""

from __future__ import annotations

from collections.abc import Iterator

from limpet.model.finding import Finding
from limpet.store.db import Db
from limpet.store.doctor import run_check
from limpet.store.store import Store


def check_sessions(store: Store, *, repair: bool) -> Iterator[Finding]:
    yield run_check(store, "sessions", lambda tx: _check_counters(tx.db, repair=repair), repair=repair)
    yield run_check(store, "summaries", lambda tx: _check_summaries(tx.db), repair=repair)


def _check_counters(db: Db, *, repair: bool) -> Finding:
    wrong = db.all("doctor.session_counts", {})
    if repair:
        fixes = [{"session": row[0], "message_count": row[3], "last_sequence": max(row[1], row[4])} for row in wrong]
        db.run_many("doctor.fix_session", fixes)
    detail = f"{len(wrong)} sessions miscount their messages" if wrong else "every session counts its messages right"
    return Finding("sessions", not wrong, detail, repaired=repair and bool(wrong))


def _check_summaries(db: Db) -> Finding:
    wrong = db.all("doctor.summaries", {})
    detail = (
        f"{len(wrong)} summaries cover messages that do not exist" if wrong else "no summary claims more than there is"
    )
    return Finding("summaries", not wrong, detail)
