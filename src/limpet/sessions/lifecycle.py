"""The lifecycle of a session, each step one transaction; and what is checked of all sessions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from limpet.errors import StorageError
from limpet.model.dataclass import replace
from limpet.model.job import Finding
from limpet.model.scope import Level, Partition, Scope, SessionKey
from limpet.model.session import SessionInfo, SessionStatus
from limpet.model.values import IdFactory, check_metadata, compute_expiry, with_bucket
from limpet.sessions.repository import Sessions
from limpet.store.store import Store
from limpet.store.tx import Db, Tx


def open_session(
    tx: Tx,
    scope: Scope,
    key: SessionKey,
    *,
    new_id: IdFactory,
    now: datetime,
    metadata: Mapping[str, Any] | None = None,
    ttl: timedelta | float | None = None,
) -> SessionInfo:
    """Return the live session with this key, or create one. One whose time is over ends here, and is swept later."""
    assert scope.user is not None
    assert scope.agent is not None
    session = Sessions(tx).find_open(scope, str(key))
    if session is not None and not session.is_expired(now):
        return session
    if session is not None:
        Sessions(tx).set_state(session.scope, SessionStatus.TERMINATED)
    info = SessionInfo(
        id=with_bucket(new_id(), Partition(scope.tenant, Level.USER, scope.user).bucket),
        tenant=scope.tenant,
        user=scope.user,
        agent=scope.agent,
        key=key,
        state=SessionStatus.ACTIVE,
        metadata=metadata or {},
        created_at=now,
        last_active_at=now,
        expires_at=compute_expiry(now, ttl),
    )
    if Sessions(tx).add(scope, info):
        return info
    # Another process created it after our read.
    session = Sessions(tx).find_live(scope, str(key), now)
    if session is None:
        raise StorageError(f"the session {key} could be neither found nor created; retry the call")
    return session


def rotate(tx: Tx, scope: Scope, *, new_id: IdFactory, now: datetime) -> tuple[SessionInfo, SessionInfo]:
    """End the session and start another with its key. If it has already ended, return its successor."""
    old = Sessions(tx).lock(scope)
    Sessions(tx).set_state(scope, SessionStatus.TERMINATED)
    owner = Scope(old.tenant, old.user, old.agent)
    return replace(old, state=SessionStatus.TERMINATED), open_session(tx, owner, old.key, new_id=new_id, now=now)


def set_state(tx: Tx, scope: Scope, state: SessionStatus) -> SessionInfo:
    """Pause, end or resume the session. An ended session stays ended: its key may have a successor."""
    info = Sessions(tx).lock(scope)
    if info.state is SessionStatus.TERMINATED:
        return info
    Sessions(tx).set_state(scope, state)
    return replace(info, state=state)


def update_metadata(tx: Tx, scope: Scope, changes: Mapping[str, Any]) -> SessionInfo:
    """Merge metadata; a value of None removes its key."""
    info = Sessions(tx).lock(scope)
    merged = {**info.metadata, **changes}
    metadata = check_metadata({key: value for key, value in merged.items() if value is not None})
    Sessions(tx).set_metadata(scope, metadata)
    return replace(info, metadata=metadata)


def set_expiry(tx: Tx, scope: Scope, expires_at: datetime | None) -> SessionInfo:
    info = Sessions(tx).lock(scope)
    Sessions(tx).set_expiry(scope, expires_at)
    return replace(info, expires_at=expires_at)


def clear(tx: Tx, scope: Scope) -> SessionInfo:
    """Delete the messages and what was derived from them. Sequence numbers continue."""
    info = Sessions(tx).lock(scope)
    Sessions(tx).clear(scope)
    return replace(info, message_count=0)


# Checks: counters match rows, and no summary covers messages that do not exist


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
