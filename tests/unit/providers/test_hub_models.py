"""FastEmbed and sentence-transformers behind modules that stand in for them."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest

from limpet.errors import ProviderError, Unsupported
from limpet.providers import hub
from limpet.providers.hub import FastEmbedEmbedder, SentenceTransformersEmbedder


class Model:
    """Both libraries' class at once."""

    made: list[tuple[tuple[object, ...], dict[str, object]]] = []  # noqa: RUF012

    def __init__(self, *args: object, **kwargs: object) -> None:
        self.made.append((args, kwargs))

    def embed(self, texts):
        if "fail" in texts:
            raise RuntimeError("out of memory")
        yield from ([float(len(text)), 4.0] for text in texts)

    def encode(self, texts, *, normalize_embeddings, show_progress_bar):
        return list(self.embed(texts))


@pytest.fixture(params=[FastEmbedEmbedder, SentenceTransformersEmbedder])
def kind(request, monkeypatch):
    for name, made in (("fastembed", "TextEmbedding"), ("sentence_transformers", "SentenceTransformer")):
        module = ModuleType(name)
        module.__spec__ = ModuleSpec(name, None)
        setattr(module, made, Model)
        monkeypatch.setitem(sys.modules, name, module)
    Model.made.clear()
    return request.param


def test_hub_embedder_returns_unit_vectors_from_one_model(kind):
    embedder = kind("some/model")
    assert Model.made == []
    assert embedder.embed(["abc", ""]) == [[0.6, 0.8], [0, 1]]
    assert embedder.dimension == 2
    assert embedder.embed([]) == []
    assert len(Model.made) == 1
    assert "some/model" in [*Model.made[0][0], *Model.made[0][1].values()]


def test_hub_embedder_name_contains_model(kind):
    assert kind("a").name != kind("b").name
    assert kind("a").name.endswith(":a")


def test_hub_embedder_failure_is_provider_error(kind):
    with pytest.raises(ProviderError, match=r"some/model.*out of memory"):
        kind("some/model").embed(["fail"])


@pytest.mark.parametrize(
    ("kind", "extra"),
    [(FastEmbedEmbedder, "fastembed"), (SentenceTransformersEmbedder, "sentence-transformers")],
)
def test_hub_embedder_names_missing_extra(monkeypatch, kind, extra):
    monkeypatch.setattr(hub, "find_spec", lambda _name: None)
    with pytest.raises(Unsupported, match=rf'pip install "limpet\[{extra}\]"'):
        kind("some/model")
