"""What a check of the store found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from limpet.model.schema import IN_JSON


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing doctor looked at."""

    check: Annotated[str, "what was looked at"]
    ok: Annotated[bool, "whether it is as it should be"]
    detail: Annotated[str, "what was found, in words"]
    repaired: Annotated[bool, "whether it was repaired"] = False

    @property
    def status(self) -> Annotated[str, IN_JSON, "ok, repaired or FAULT"]:
        if self.repaired:
            return "repaired"
        return "ok" if self.ok else "FAULT"
