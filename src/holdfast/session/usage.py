"""What a session cost."""

from __future__ import annotations

import math

from holdfast.domain.scope import Scope
from holdfast.domain.session import ModelUsage, Usage
from holdfast.domain.text import checked_name
from holdfast.domain.values import checked_number
from holdfast.errors import InvalidInput
from holdfast.storage.base import Tx


def checked_usage(model: str, input_tokens: object, output_tokens: object, cached_tokens: object, cost: object) -> ModelUsage:
    if isinstance(cost, bool) or not isinstance(cost, (int, float)) or not math.isfinite(cost) or not 0 <= cost < 1e9:
        raise InvalidInput(f"cost must be a number from 0 up, not {cost!r}")
    return ModelUsage(
        checked_name(model, "model"),
        calls=1,
        input_tokens=checked_number(input_tokens, "input_tokens"),
        output_tokens=checked_number(output_tokens, "output_tokens"),
        cached_tokens=checked_number(cached_tokens, "cached_tokens"),
        cost=float(cost),
    )


def add(tx: Tx, scope: Scope, entry: ModelUsage) -> None:
    tx.sessions.lock(scope)
    tx.usage.add(scope, entry)


def read(tx: Tx, scope: Scope) -> Usage:
    return Usage(tuple(tx.usage.find(scope)))
