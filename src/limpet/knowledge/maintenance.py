"""When the work of ageing is done."""

from __future__ import annotations

from datetime import datetime, timedelta

from limpet.config import LearningSettings
from limpet.model.job import CONSOLIDATE, DECAY
from limpet.model.scope import Partition
from limpet.store.jobs import Jobs
from limpet.store.tx import Tx

DAY = timedelta(days=1)


def enqueue_maintenance(tx: Tx, space: Partition, limits: LearningSettings, now: datetime) -> None:
    """Something was learned in this space: some time later it is looked after. Without changes nothing is done."""
    if limits.consolidate or limits.promote or limits.profile:
        Jobs(tx).enqueue(space, CONSOLIDATE, "", now, now + timedelta(hours=limits.consolidate_hours))
    if limits.decay:
        Jobs(tx).enqueue(space, DECAY, "", now, now + DAY)
