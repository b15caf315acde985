"""What models cost today, in one place for all programs on a store."""

from __future__ import annotations

from limpet.model.dataclass import dataclass
from limpet.model.values import Clock
from limpet.store.store import Store
from limpet.store.tx import Tx

_SPENDING = "llm_spending"  # the property: a day of UTC, a space, and what was spent on it in billionths
_NANO = 1_000_000_000


@dataclass(frozen=True, slots=True)
class DailySpending:
    store: Store
    clock: Clock

    def read(self) -> float:
        """What was spent since midnight, UTC."""
        return self.store.read(self._read)

    def add(self, cost: float) -> None:
        """The database adds: two programs that add at once lose nothing."""
        params = {"name": _SPENDING, "day": self._today(), "nanos": round(cost * _NANO)}
        self.store.write(lambda tx: tx.db.run("properties.add_spending", params))

    def _read(self, tx: Tx) -> float:
        row = tx.db.one("properties.get", {"name": _SPENDING})
        day, _, nanos = ("" if row is None else str(row[0])).partition(" ")
        return int(nanos) / _NANO if day == self._today() else 0.0

    def _today(self) -> str:
        return self.clock().date().isoformat()
