"""The composition root: every verb of the public face, grouped by what it is about."""

from holdfast.engine.holdfast import Holdfast

__all__ = ["Holdfast"]
