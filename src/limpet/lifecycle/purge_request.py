"""What is to be purged, as a job keeps it until it is done."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime

from limpet.model.receipt import What
from limpet.model.scope import Scope, Space
from limpet.model.times import from_micros, to_micros


@dataclass(frozen=True, slots=True)
class Order:
    receipt: str
    what: What
    space: Space  # a user's
    session: str | None = None
    before: datetime | None = None

    @property
    def name(self) -> str:
        """What the receipt's digest is of."""
        return self.session or self.space.owner

    @property
    def user(self) -> Scope:
        return Scope(self.space.tenant, user=self.space.owner)

    def of_session(self, session: str) -> Scope:
        return Scope(self.space.tenant, user=self.space.owner, session=session)

    def detail(self) -> str:
        before = None if self.before is None else to_micros(self.before)
        return json.dumps([self.receipt, self.what.value, self.session, before])

    @classmethod
    def read(cls, space: Space, detail: str) -> Order:
        receipt, what, session, before = json.loads(detail)
        return cls(receipt, What(what), space, session, None if before is None else from_micros(before))
