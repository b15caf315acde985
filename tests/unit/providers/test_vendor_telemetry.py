from __future__ import annotations

import os
import sys
from types import ModuleType

import pytest

from limpet.errors import ProviderError
from limpet.providers import hub, minilm
from limpet.providers.hub import FastEmbedEmbedder, SentenceTransformersEmbedder

SWITCHES = ("ORT_DISABLE_TELEMETRY", "HF_HUB_DISABLE_TELEMETRY")


@pytest.fixture
def at_import(monkeypatch) -> dict[str, list[str | None]]:
    """Modules stand in for the packages. Shows the switches as each package saw them when it was imported."""
    seen: dict[str, list[str | None]] = {}

    class Finder:
        def find_spec(self, name, path=None, target=None):
            if name in ("onnxruntime", "fastembed", "sentence_transformers"):
                seen[name] = [os.environ.get(switch) for switch in SWITCHES]

    for name in SWITCHES:
        monkeypatch.setenv(name, "")  # so that it is as before after the test
        monkeypatch.delenv(name)
    for name in ("onnxruntime", "fastembed", "sentence_transformers"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(sys, "meta_path", [Finder()])
    monkeypatch.setattr(hub, "find_spec", lambda _name: object())
    return seen


@pytest.mark.parametrize("kind", [FastEmbedEmbedder, SentenceTransformersEmbedder])
def test_hub_package_is_imported_with_telemetry_off(at_import, kind):
    with pytest.raises(ProviderError, match="No module named"):
        kind("some/model").embed(["text"])
    assert at_import == {kind.package: ["1", "1"]}


def test_onnxruntime_is_imported_with_telemetry_off(at_import, monkeypatch, tmp_path):
    monkeypatch.setattr(minilm, "_read_model", lambda _model: b"")
    with pytest.raises(ModuleNotFoundError):
        minilm._load_session.__wrapped__(tmp_path, 1, 1, optimize=False)
    assert at_import == {"onnxruntime": ["1", "1"]}


def test_onnxruntime_that_was_imported_before_is_told_to_stop(monkeypatch):
    told: list[bool] = []
    loaded = ModuleType("onnxruntime")
    loaded.disable_telemetry_events = lambda: told.append(True)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "onnxruntime", loaded)
    assert minilm.import_onnxruntime() is loaded
    assert told == [True]


def test_choice_of_the_user_stays(monkeypatch):
    monkeypatch.setenv("ORT_DISABLE_TELEMETRY", "0")
    minilm.disable_vendor_telemetry()
    assert os.environ["ORT_DISABLE_TELEMETRY"] == "0"
