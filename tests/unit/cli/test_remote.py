"""The same commands with the address of a server as --data."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("starlette")

from limpet import Limpet
from tests.served import served
from tests.unit.cli.conftest import Run


@pytest.fixture
def memory(data: Path) -> Iterator[Limpet]:
    with Limpet.open(data) as opened:
        yield opened


@pytest.fixture
def url(memory: Limpet) -> Iterator[str]:
    with served(memory) as address:
        yield address


def test_commands_work_on_a_server(run: Run, url: str, memory: Limpet, tmp_path: Path) -> None:
    record = run("--data", url, "remember", "Likes tea", "--key", "tea", "--json").json
    assert memory.records.get(record["id"]).content == "Likes tea"
    assert "Likes tea" in run("recall", "tea", "--data", url).out
    assert run("records", "update", record["id"], "--content", "Likes coffee", "--data", url).status == 0
    assert run("append", "hello", "--data", url).out == "Message 1 stored.\n"
    assert [each["key"] for each in run("sessions", "--data", url, "--json").json] == ["app:main"]
    assert run("notes", "show", "--data", url).status == 0
    assert run("doctor", "--data", url).status == 0
    assert run("export", str(tmp_path / "out"), "--data", url, "--json").json["counts"]["records"] == 1
    assert run("forget", "--key", "tea", "--data", url).status == 0
    assert memory.records.count() == 0


def test_schedule_create_on_a_server_says_that_nothing_runs_it(run: Run, url: str, memory: Limpet) -> None:
    done = run("schedule", "create", "Water the plants", "--cadence", "every: 1h", "--data", url)
    assert (done.status, done.out.startswith("Schedule ")) == (0, True)
    assert "note: nothing has run schedules in this store yet" in done.err
    assert memory.schedules.count() == 1


def test_a_server_is_shown_a_key(run: Run, url: str, memory: Limpet, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = memory.access.keys.create("laptop", user="ana").secret
    assert run("remember", "Likes tea", "--data", url).status == 1
    assert run("--data", url, "--api-key", secret, "remember", "Likes tea", "--json").json["user"] == "ana"
    monkeypatch.setenv("LIMPET_API_KEY", secret)
    assert len(run("records", "--data", url, "--json").json) == 1
    assert secret not in run("records", "--data", url, "-v").err


def test_what_needs_the_store_says_so(run: Run, url: str) -> None:
    for words in (["mcp"], ["chat"], ["sessions", "--tenant", "acme"]):
        done = run(*words, "--data", url)
        assert (done.status, done.err.count("\n")) == (1, 1)


def test_a_server_that_is_not_there_is_one_line(run: Run) -> None:
    done = run("sessions", "--data", "http://127.0.0.1:1", "--json")
    assert (done.status, done.error["code"]) == (1, "store_unavailable")
