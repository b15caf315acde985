"""The composition root: every verb of the public face, grouped by what it is about."""

from limpet.api.limpet import Limpet

__all__ = ["Limpet"]
