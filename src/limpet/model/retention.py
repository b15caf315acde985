"""How long things are kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Annotated

from limpet.errors import InvalidInput
from limpet.model.text import check_name

_KINDS = ("messages", "records", "documents")


@dataclass(frozen=True, slots=True)
class RetentionDays:
    """How many days; 0 is for ever."""

    messages: int = 0
    records: int = 0
    documents: int = 0

    def cutoff(self, kind: str, now: datetime) -> datetime | None:
        """What is older than this goes; None where all is kept."""
        days: int = getattr(self, kind)
        try:
            return now - timedelta(days=days) if days else None
        except OverflowError:
            return None

    def for_tenant(self, text: str, tenant: str) -> RetentionDays:
        """With what a tenant has of its own."""
        return replace(self, **parse_tenant_days(text).get(tenant, {}))


def parse_tenant_days(text: str) -> dict[str, dict[str, int]]:
    """``acme=30, acme.records=365, beta=0``: by tenant, the days of each kind; of messages where none is named."""
    found: dict[str, dict[str, int]] = {}
    if text == "none":
        return found
    for entry in filter(None, (entry.strip() for entry in text.split(","))):
        name, sign, days = (part.strip() for part in entry.rpartition("="))
        tenant, _, kind = name.rpartition(".")
        if kind not in _KINDS or not tenant:
            tenant, kind = name, "messages"
        if not sign or not (days.isascii() and days.isdecimal()) or int(days[:9]) > 100_000:
            raise InvalidInput(f"{entry!r} is not TENANT=DAYS or TENANT.records=DAYS, with a whole number up to 100000")
        found.setdefault(check_name(tenant, "tenant"), {})[kind] = int(days)
    return found


@dataclass(frozen=True, slots=True)
class RetentionResult:
    """What retention removed, or would remove, of one agent's sessions; of a tenant's records and documents where
    ``agent`` is None."""

    tenant: Annotated[str, "the tenant it belongs to"]
    agent: Annotated[str | None, "whose sessions; null: the tenant's records and documents"]
    days: Annotated[Mapping[str, int], "how long each kind is kept; 0: for ever"]
    counts: Annotated[Mapping[str, int], "how many of each kind were removed"] = field(default_factory=dict)
