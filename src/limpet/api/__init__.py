"""The composition root: every public operation, grouped by what it is about."""

from limpet.api.limpet import Limpet

__all__ = ["Limpet"]
