"""What a check of the store found."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing doctor looked at."""

    check: str
    ok: bool
    detail: str
    repaired: bool = False
