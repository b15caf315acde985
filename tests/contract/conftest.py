from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from limpet import Limpet
from limpet.errors import Unsupported
from limpet.testing import FakeClock
from tests import levels
from tests.conftest import store_url_of
from tests.contract.not_remote import find_reason


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if levels.find_backend(item) == "remote" and (reason := find_reason(item)) is not None:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    with skip_what_is_local(item):
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    with skip_what_is_local(item):
        yield


@contextmanager
def skip_what_is_local(item: pytest.Item) -> Iterator[None]:
    """A test that needs an object of the server's process says nothing about a client."""
    try:
        yield
    except Unsupported as error:
        if levels.find_backend(item) == "remote" and "does not work over HTTP" in str(error):
            pytest.skip(str(error))
        raise


@pytest.fixture(params=("sqlite", "memory", pytest.param("postgres", marks=pytest.mark.postgres), "remote"))
def store_url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """What to open a store with, on each backend in turn; a remote one is served, and opening it returns a client."""
    if request.param != "remote":
        return store_url_of(request, tmp_path)
    pytest.importorskip("starlette")
    from tests.served import OpenedRemotely

    monkeypatch.setattr(Limpet, "open", OpenedRemotely())
    return ":memory:"


@pytest.fixture
def timed(store_url: str, clock: FakeClock) -> Iterator[Limpet]:
    """A store on each backend whose time is the fixture ``clock``."""
    with Limpet.open(store_url, clock=clock) as opened:
        yield opened
