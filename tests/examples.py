"""How many examples properties are tried with: LIMPET_TEST_EXAMPLES times as many as usual."""

from __future__ import annotations

import os

_TIMES = float(os.environ.get("LIMPET_TEST_EXAMPLES", "1"))


def examples(usual: int = 100) -> int:
    return max(1, round(usual * _TIMES))
