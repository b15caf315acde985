"""Every kind of line an export has.

To add one: a file beside these with a ``Kind`` in it, and its name in both tuples below. ``KINDS`` is what is written,
a file each, in this order; ``STEPS`` is how it is put back, what others point to before those that point.
"""

from __future__ import annotations

from limpet.lifecycle.lines.documents import DOCUMENTS, PIECES
from limpet.lifecycle.lines.graph import GRAPH
from limpet.lifecycle.lines.kind import ImportTarget, LineKind, LineOutcome
from limpet.lifecycle.lines.kv import KV
from limpet.lifecycle.lines.messages import MESSAGES
from limpet.lifecycle.lines.records import RECORDS
from limpet.lifecycle.lines.schedules import SCHEDULE_RUNS, SCHEDULES
from limpet.lifecycle.lines.sessions import SESSION_STATES, SESSIONS

KINDS: tuple[LineKind, ...] = (
    *(SESSIONS, KV, MESSAGES, RECORDS, DOCUMENTS, PIECES, GRAPH),
    *(SCHEDULES, SCHEDULE_RUNS),
)
IMPORT_STEPS: tuple[LineKind, ...] = (
    *(SESSIONS, KV, MESSAGES, SESSION_STATES, RECORDS, DOCUMENTS, PIECES, GRAPH),
    *(SCHEDULES, SCHEDULE_RUNS),
)

__all__ = ["IMPORT_STEPS", "KINDS", "ImportTarget", "LineKind", "LineOutcome"]
