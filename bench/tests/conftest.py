"""As in the other tests, no installed model is used unless a test names one."""

from __future__ import annotations

from tests.conftest import no_model_by_accident

__all__ = ["no_model_by_accident"]
