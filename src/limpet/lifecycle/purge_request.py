"""What is to be purged, as a job keeps it until it is done."""

from __future__ import annotations

import json
from datetime import datetime

from limpet.model.dataclass import dataclass
from limpet.model.privacy import PurgeTarget
from limpet.model.scope import Partition, Scope
from limpet.model.values import from_micros, to_micros


@dataclass(frozen=True, slots=True)
class PurgeRequest:
    receipt: str
    what: PurgeTarget
    space: Partition  # a user's
    session: str | None = None
    before: datetime | None = None

    @property
    def name(self) -> str:
        """What the receipt's digest is of."""
        return self.session or self.space.owner

    @property
    def user_scope(self) -> Scope:
        return Scope(self.space.tenant, user=self.space.owner)

    def session_scope(self, session: str) -> Scope:
        return Scope(self.space.tenant, user=self.space.owner, session=session)

    def to_detail(self) -> str:
        before = None if self.before is None else to_micros(self.before)
        return json.dumps([self.receipt, self.what.value, self.session, before])

    @classmethod
    def from_detail(cls, space: Partition, detail: str) -> PurgeRequest:
        receipt, what, session, before = json.loads(detail)
        return cls(receipt, PurgeTarget(what), space, session, None if before is None else from_micros(before))
