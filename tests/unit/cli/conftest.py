from __future__ import annotations

import io
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import limpet
from limpet import Limpet, Message
from limpet.cli.main import main


@dataclass(frozen=True)
class Result:
    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> dict[str, str]:
        found: dict[str, str] = json.loads(self.err)["error"]
        return found


Run = Callable[..., Result]


class Input(io.TextIOWrapper):
    """What is typed or piped in."""

    def __init__(self, data: bytes, *, terminal: bool) -> None:
        super().__init__(io.BytesIO(data), encoding="utf-8")
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


@pytest.fixture(autouse=True)
def outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A home of the test's own, in a zone that is not UTC, and no setting of whoever runs the tests."""
    for name in [name for name in os.environ if name.startswith(("LIMPET_", "XDG_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PYTHONPATH", str(Path(limpet.__file__).parents[1]))  # for commands run as programs
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LIMPET_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("LIMPET_EMBEDDING_MODEL", "none")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(tmp_path)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command, in this process. ``typed`` comes from a terminal, ``piped`` from a pipe."""

    def call(*arguments: str, piped: bytes = b"", typed: str | None = None) -> Result:
        given = Input(piped if typed is None else typed.encode(), terminal=typed is not None)
        monkeypatch.setattr(sys, "stdin", given)
        capsys.readouterr()
        status = main(arguments)
        captured = capsys.readouterr()
        return Result(status, captured.out, captured.err)

    return call


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def talk(data: Path) -> str:
    """A stored session of three messages; its id."""
    said = [("user", "The heron is back at the pond", "Ana"), ("assistant", "Third year in a row", None)]
    with Limpet.open(data) as memory:
        session = memory.session("telegram", "42", user="ana", agent="bot", metadata={"mood": "sunny"})
        session.extend(
            Message.new(role, text, name=name, created_at=datetime(2026, 3, 10, 12, minute, tzinfo=UTC))
            for minute, (role, text, name) in enumerate(said)
        )
        last = datetime(2026, 3, 10, 12, 5, tzinfo=UTC)
        session.extend([Message.new("user", "Let us count the frogs", created_at=last)])  # no job, unlike append
        return session.id
