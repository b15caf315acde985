"""The nouns that are kept as rows, each in its table, and small conversions that repositories share."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from limpet.model.access import AuditEntry, KeyInfo
from limpet.model.columns import RowCodec, to_text
from limpet.model.document import Document
from limpet.model.message import Message
from limpet.model.privacy import Receipt
from limpet.model.record import Record
from limpet.model.schedule import Run, Schedule
from limpet.model.session import SessionInfo
from limpet.model.values import from_micros, to_micros

SESSION_ROWS = RowCodec(SessionInfo)
MESSAGE_ROWS = RowCodec(Message)
RECORD_ROWS = RowCodec(Record)
DOCUMENT_ROWS = RowCodec(Document)
SCHEDULE_ROWS = RowCodec(Schedule)
RUN_ROWS = RowCodec(Run)
AUDIT_ROWS = RowCodec(AuditEntry)
KEY_ROWS = RowCodec(KeyInfo)
RECEIPT_ROWS = RowCodec(Receipt)

# By table: what ``@columns(…)`` in SQL stands for.
ROWS: Mapping[str, RowCodec[Any]] = {
    "sessions": SESSION_ROWS,
    "messages": MESSAGE_ROWS,
    "records": RECORD_ROWS,
    "documents": DOCUMENT_ROWS,
    "schedules": SCHEDULE_ROWS,
    "schedule_runs": RUN_ROWS,
    "audit": AUDIT_ROWS,
    "api_keys": KEY_ROWS,
    "receipts": RECEIPT_ROWS,
}


def to_json(value: Any) -> str:
    return to_text(value)


def micros(value: datetime | None) -> int | None:
    return None if value is None else to_micros(value)


def moment(value: int | None) -> datetime | None:
    return None if value is None else from_micros(value)
