from __future__ import annotations

import pytest

from limpet.errors import ProviderError
from limpet.providers.fakes import FakeEmbedder


def test_fake_embedder_fails_given_times_and_records_calls():
    fake = FakeEmbedder(failures=2)
    for _ in range(2):
        with pytest.raises(ProviderError):
            fake.embed(["a"])
    assert len(fake.embed(["a", "b"])) == 2
    assert fake.calls == [("a",), ("a",), ("a", "b")]


def test_fake_embedder_fails_forever_with_custom_error():
    fake = FakeEmbedder(failures=-1)
    fake.error = RuntimeError("not even one of ours")
    for _ in range(3):
        with pytest.raises(RuntimeError):
            fake.embed(["a"])


def test_fake_embedder_name_includes_dimension():
    assert (FakeEmbedder(3).name, FakeEmbedder(4).name, FakeEmbedder(name="old").name) == ("fake-3", "fake-4", "old")


@pytest.mark.parametrize("dimension", [1, 8, 32, 100])
def test_fake_embedder_has_any_dimension(dimension):
    assert len(FakeEmbedder(dimension).embed(["a"])[0]) == dimension
