"""Switch off what other packages report to their makers.

ONNX Runtime collects events, stores a device id in the user's cache and looks up its maker's host as soon as it is
imported. Hub clients name the program and its version in each download.
"""

from __future__ import annotations

import os
from typing import Any

from limpet.model.values import load_extension

# Each is read once, when the package is imported. What a user has set stays.
_SWITCHES = {"ORT_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}


def disable_vendor_telemetry() -> None:
    """Call this before each import of ONNX Runtime, FastEmbed or sentence-transformers."""
    for name, value in _SWITCHES.items():
        os.environ.setdefault(name, value)


def import_onnxruntime() -> Any:
    """Import ONNX Runtime without its telemetry, also if the program imported it before."""
    disable_vendor_telemetry()
    load_extension("onnxruntime")
    import onnxruntime

    if hasattr(onnxruntime, "disable_telemetry_events"):
        onnxruntime.disable_telemetry_events()
    return onnxruntime
