"""Every kind of line an export has.

To add one: a file beside these with a ``Kind`` in it, and its name in both tuples below. ``KINDS`` is what is written,
a file each, in this order; ``STEPS`` is how it is put back, what others point to before those that point.
"""

from __future__ import annotations

from holdfast.moving.kinds.documents import DOCUMENTS, PIECES
from holdfast.moving.kinds.graph import GRAPH
from holdfast.moving.kinds.kind import Into, Kind, Outcome
from holdfast.moving.kinds.kv import KV
from holdfast.moving.kinds.messages import MESSAGES
from holdfast.moving.kinds.records import RECORDS
from holdfast.moving.kinds.schedules import SCHEDULE_RUNS, SCHEDULES
from holdfast.moving.kinds.sessions import SESSIONS, SETTLED

KINDS: tuple[Kind, ...] = (
    *(SESSIONS, KV, MESSAGES, RECORDS, DOCUMENTS, PIECES, GRAPH),
    *(SCHEDULES, SCHEDULE_RUNS),
)
STEPS: tuple[Kind, ...] = (
    *(SESSIONS, KV, MESSAGES, SETTLED, RECORDS, DOCUMENTS, PIECES, GRAPH),
    *(SCHEDULES, SCHEDULE_RUNS),
)

__all__ = ["KINDS", "STEPS", "Into", "Kind", "Outcome"]
