"""What models cost today, in one place for all programs on a store."""

from __future__ import annotations

import json

from limpet.model.dataclass import dataclass
from limpet.model.values import Clock
from limpet.store.store import Store
from limpet.store.tx import Tx

_SPENDING = "llm_spending"  # the property: a day of UTC, and what was spent on it


@dataclass(frozen=True, slots=True)
class DailySpending:
    store: Store
    clock: Clock

    def read(self) -> float:
        """What was spent since midnight, UTC."""
        return self.store.read(self._read)

    def add(self, cost: float) -> None:
        def work(tx: Tx) -> None:
            value = json.dumps([self._today(), self._read(tx) + cost])
            tx.db.run("properties.set", {"name": _SPENDING, "value": value})

        self.store.write(work)

    def _read(self, tx: Tx) -> float:
        row = tx.db.one("properties.get", {"name": _SPENDING})
        day, spent = ("", 0.0) if row is None else json.loads(row[0])
        return float(spent) if day == self._today() else 0.0

    def _today(self) -> str:
        return self.clock().date().isoformat()
