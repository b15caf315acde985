"""Whether a record stands out unasked, and how often it is used, which keeps it so.

This fades with time; whether a record holds does not.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import cache
from threading import Lock

from limpet.knowledge.attributes import get_attribute, load_attributes
from limpet.knowledge.repository import Records
from limpet.model.record import Origin, Record, RecordType
from limpet.model.scope import Partition
from limpet.store.tx import Tx

DOUBTED_BY = "doubted_by"  # metadata: the id of a later record that may have taken its place
DOUBT = "doubt"  # metadata: how likely it has
PASSED = "passed"  # metadata of a hit: its own time is over, and nothing took it back
TELLS = "tells"  # metadata: how surely its message tells of a change, as a logit
FOLLOWS = "follows"  # metadata: the ids of earlier records on the same subject, which it comes before
CONFLICTS = "conflicts"  # metadata: the ids of records that it contradicts
SOURCES = "sources"  # metadata of a profile: the ids of the records that each line was made of, as JSON
RECORD_IDS = (DOUBTED_BY, FOLLOWS, CONFLICTS, SOURCES)  # metadata that names other records
DOUBTFUL = 0.5  # below this confidence a record is never shown alone
HALF_LIFE_DAYS = 120  # of what is not lasting by nature
_MOST_COUNTED = 1000  # uses of records before they are written
_WAIT = timedelta(minutes=1)
RULES = (RecordType.INSTRUCTION, RecordType.CONSTRAINT)
_STATES = frozenset({"health", "medication"})
_VITAL = frozenset("allergy health medication diet eats assistant_rule assistant_style".split())


def is_doubtful(record: Record) -> bool:
    return record.confidence < DOUBTFUL and record.origin is Origin.EXTRACTED


def is_rule(record: Record) -> bool:
    """Something the assistant has to heed whatever is asked. How others are is no rule; what they cannot eat is."""
    if record.attribute in _STATES and record.subject not in (None, "user"):
        return False
    return record.type in RULES or record.attribute in _VITAL


def prominence(record: Record, now: datetime) -> float:
    """From 0 to 4. What is pinned, stated outright or lasting by its nature stays; the rest fades slowly."""
    if record.pinned:
        return 4.0
    if is_rule(record):
        return 3.0
    if record.origin is Origin.EXPLICIT:
        return 2.5
    if get_attribute(record.attribute).standing:
        return 2.0
    touched = max(
        (at for at in (record.updated_at, record.last_used_at, record.valid_from) if at is not None), default=now
    )
    age = max(0.0, (now - touched).total_seconds() / 86_400)
    return float((0.5 + record.salience) * 0.5 ** (age / HALF_LIFE_DAYS))


def find_standing(tx: Tx, space: Partition, session: str, limit: int, now: datetime) -> list[Record]:
    """The records that may stand in a context unasked: rules, what is lasting, what was stated; then the newest."""
    query = Records(tx).build_standing_query(space, session, *_list_standing(), limit, now)
    return Records(tx).find_standing(space, query)


def prefetch_standing(tx: Tx, space: Partition, session: str, limit: int, now: datetime) -> None:
    """Let them be read along with whatever is read next."""
    query = Records(tx).build_standing_query(space, session, *_list_standing(), limit, now)
    if query is not None:
        tx.db.prefetch([query])


@cache
def _list_standing() -> tuple[list[str], list[str]]:
    """The types and the attributes of what stands whatever is asked."""
    standing = [attribute.label for attribute in load_attributes().values() if attribute.standing]
    return [kind.value for kind in RULES], sorted({*standing, *_VITAL})


class UseCounter:
    """How often callers recall a record: counted here, and written along with another write or a minute later.

    So a recall costs no commit. A process that is killed loses the counts of that minute. Threads may share it.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts: dict[Partition, dict[str, tuple[int, datetime]]] = {}
        self._since: datetime | None = None

    def count(self, partition: Partition, ids: Iterable[str], now: datetime) -> None:
        with self._lock:
            counts = self._counts.setdefault(partition, {})
            for record_id in ids:
                counts[record_id] = counts.get(record_id, (0, now))[0] + 1, now
            if self._since is None and counts:
                self._since = now

    def is_due(self, now: datetime) -> bool:
        """Return whether the counts should be written without waiting for another write."""
        with self._lock:
            full = sum(map(len, self._counts.values())) >= _MOST_COUNTED
            return full or (self._since is not None and not timedelta() <= now - self._since < _WAIT)

    def list_partitions(self) -> list[Partition]:
        """Whose records have counts. Each is written in its own transaction: users do not wait for each other."""
        with self._lock:
            return sorted((partition for partition, counts in self._counts.items() if counts), key=str)

    def write(self, tx: Tx, partition: Partition) -> None:
        """Write the counts of a partition and start from zero."""
        with self._lock:
            counts = self._counts.pop(partition, {})
            if not self._counts:
                self._since = None
        if counts:
            Records(tx).mark_used(partition, counts)
