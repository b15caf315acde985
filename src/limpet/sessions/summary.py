"""The rolling summary, guarded against writers that lost a race."""

from __future__ import annotations

from datetime import datetime

from limpet.errors import InvalidInput
from limpet.model.scope import Scope
from limpet.model.session import Summary
from limpet.model.text import check_text
from limpet.sessions.repository import Messages, Sessions, Summaries
from limpet.store.tx import Tx


def swap(tx: Tx, scope: Scope, text: str, upper_sequence: int, expected_epoch: int | None, now: datetime) -> bool:
    """Replace the summary if it is still the one the writer read, and covers no less. ``None`` expects nothing.

    The first summary replaces epoch 0. One that covers only messages cleared since is stale too.
    """
    check_text(text, "summary")
    session = Sessions(tx).lock(scope)
    if upper_sequence > session.last_sequence:
        raise InvalidInput(
            f"a summary cannot cover up to {upper_sequence}: the session's last message is {session.last_sequence}"
        )
    current = Summaries(tx).get(scope)
    cleared_through, last_epoch = Summaries(tx).get_watermarks(scope)
    lowest = max(current.upper_sequence if current else 0, cleared_through + 1)
    if expected_epoch not in (None, current.epoch if current else 0) or upper_sequence < lowest:
        return False
    count = Messages(tx).count_through(scope, upper_sequence)
    Summaries(tx).put(scope, Summary(text, last_epoch + 1, upper_sequence, count, now))
    return True
