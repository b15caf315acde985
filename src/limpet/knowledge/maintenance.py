"""When the work of ageing is done."""

from __future__ import annotations

from datetime import datetime, timedelta

from limpet.config import LearningSettings
from limpet.model.job import CONSOLIDATE, DECAY
from limpet.model.scope import Space
from limpet.store.jobs import Jobs
from limpet.store.tx import Tx

DAY = timedelta(days=1)


def ask(tx: Tx, space: Space, limits: LearningSettings, now: datetime) -> None:
    """Something was learned in this space: some time later it is looked after. Without changes nothing is done."""
    if limits.consolidate or limits.promote or limits.profile:
        Jobs(tx).ask(space, CONSOLIDATE, "", now, now + timedelta(hours=limits.consolidate_hours))
    if limits.decay:
        Jobs(tx).ask(space, DECAY, "", now, now + DAY)
