"""Every public argument with values nobody should give: each call works, or raises an error of ours.

One that raised has changed nothing.
"""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from limpet import Config, Limpet, TextPart, ToolCall
from limpet.errors import LimpetError
from limpet.security.operation import OPERATIONS
from tests.contract.rows import faults
from tests.integration.hostile_values import (
    BARE,
    BATCHES,
    BIG,
    CALLS,
    EARLY,
    FILES,
    HOSTILE,
    HUGE,
    LATE,
    TO_PATHS,
    UPDATES,
    nested,
)


def test_every_operation_is_here() -> None:
    bare = {f"session.{name}" for name in BARE}
    assert OPERATIONS.keys() == CALLS.keys() | bare | {"session.working_memory", "turn.reply"}


class Target:
    """A store with something in it, and a fresh session for each call."""

    def __init__(self, url: str, folder: Path) -> None:
        # No worker: what it does in between is not what a call changed.
        self.memory = Limpet.open(url, config=Config.load(overrides={"jobs.worker": False}))
        self.folder = folder
        self.numbers = itertools.count()
        kept = self.memory.session("t", "kept", user="alice")
        kept.append("user", "a walrus")
        self.session = kept
        self.schedule = self.memory.schedules.create("alice", goal="kept", cadence="every: 1h")
        self.record = self.memory.remember("a walrus record", user="alice", key="kept", metadata={"k": "v"})

    def filled(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments with our own values at their places."""
        own = {"SESSION": self.session.id, "RECORD": self.record.id, "SCHEDULE": self.schedule.id}
        made: dict[str, Any] = {}
        for name, value in arguments.items():
            if type(value) is str and value in own:
                made[name] = own[value]
            elif type(value) is str and value == "BACKUP":
                made[name] = self.folder / f"backup{next(self.numbers)}.db"
            elif type(value) is str and value == "RESTORE":
                made[name] = self.backup()
            elif type(value) is str and value == "EXPORT":
                made[name] = self.folder / f"export{next(self.numbers)}"
            elif type(value) is str and value == "FILE":
                made[name] = BytesIO()
            elif type(value) is str and value == "SOURCE":
                made[name] = BytesIO(b"[]")
            else:
                made[name] = value
        return made

    def backup(self) -> Path:
        """A backup of the store as it is, to restore it from."""
        path = self.folder / f"backup{next(self.numbers)}.db"
        self.memory.admin.backup(path)
        return path


def calls(target: Target) -> Iterator[tuple[str, Callable[..., Any], dict[str, Any]]]:
    for name, base in CALLS.items():
        if name.startswith("notes.long_term."):
            yield name, getattr(target.memory.notes.long_term(user="alice"), name.rpartition(".")[2]), base
        else:
            yield name, _find(target, name), base


def _find(target: Target, name: str) -> Callable[..., Any]:
    """The method behind an operation's name; calling a handle is its list."""
    found: Any = target.session if name.startswith("session.") else target.memory
    for part in name.removeprefix("session.").split("."):
        found = getattr(found, part, found)
    return found  # type: ignore[no-any-return]


def arguments_of(name: str, call: Callable[..., Any]) -> list[str]:
    parameters = inspect.signature(call).parameters.values()
    found = [each.name for each in parameters if each.kind is not inspect.Parameter.VAR_KEYWORD]
    return found + (UPDATES.split() if name == "records.update" else [])


def attempt(call: Callable[..., Any], name: str, arguments: dict[str, Any]) -> BaseException | None:
    try:
        if name == "records.update":
            call(arguments.pop("id"), **arguments)
        elif name == "session.turn":
            with call(**arguments) as turn:
                turn.reply("hi")
        else:
            call(**arguments)
    except Exception as error:
        return error
    return None


def run(target: Target, values: list[Any], only: Callable[[str, str], bool]) -> list[str]:
    wrong = []
    for name, call, base in calls(target):
        for argument in arguments_of(name, call):
            if not only(name, argument):
                continue
            for at, value in enumerate(values):
                if argument in {"progress", "callback", "notify", "on_schedule"} and callable(value):
                    continue  # what a function raises that somebody gave is theirs
                before = target.memory.admin.stats()
                error = attempt(call, name, target.filled({**base, argument: value}))
                what = f"{name}({argument}=<{at}: {type(value).__name__}>)"
                if error is not None and not isinstance(error, LimpetError):
                    wrong.append(f"{what} raised {type(error).__name__}: {str(error)[:100]}")
                if error is not None and target.memory.admin.stats() != before:
                    wrong.append(f"{what} raised {type(error).__name__} and changed something")
        if found := faults(target.memory):
            wrong.append(f"after {name}: {found}")
            break
    return wrong


@pytest.fixture
def target(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Target]:
    monkeypatch.chdir(tmp_path)
    made = Target(request.param, tmp_path / "backups")
    yield made
    made.memory.close()


memory = pytest.mark.parametrize("target", [":memory:"], indirect=True)


@memory
@pytest.mark.parametrize("part", ["session", "recall", "remember", "records.update", "Session", "rest"])
def test_hostile_values_raise_limpet_errors_and_change_nothing(target: Target, part: str) -> None:
    alone = ("session", "recall", "remember", "records.update")

    def only(name: str, argument: str) -> bool:
        if part in alone:
            return name == part
        return name not in alone and (name.startswith("session.") == (part == "Session")) and name not in TO_PATHS

    assert run(target, HOSTILE, only) == []


def test_hostile_values_never_write_outside_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever somebody is called, nothing is written outside the store's folder."""
    (tmp_path / "around").mkdir()
    monkeypatch.chdir(tmp_path / "around")
    made = Target(str(tmp_path / "data"), tmp_path / "backups")
    try:
        assert (
            run(made, [*HOSTILE, BIG], lambda name, argument: name in FILES or name.startswith("notes.long_term")) == []
        )
    finally:
        made.memory.close()
    assert {path.name for path in tmp_path.iterdir()} == {"around", "data"}
    assert list((tmp_path / "around").iterdir()) == []
    assert {path.name for path in (tmp_path / "data" / "memory").iterdir()} == {"users"}


@memory
def test_backup_and_export_to_hostile_paths(target: Target) -> None:
    """A few of them are good paths: those must be files that open."""
    assert run(target, HOSTILE, lambda name, argument: name in TO_PATHS) == []


@memory
def test_backup_and_export_reject_invalid_path_types(target: Target, tmp_path: Path) -> None:
    wrong: list[Any] = [None, 5, b"x", object, ["x"], {}]
    for path in wrong:
        with pytest.raises(LimpetError):
            target.memory.admin.backup(path)
        with pytest.raises(LimpetError):
            target.memory.transfer.export(path)
    assert {path.name for path in tmp_path.iterdir()} <= {"backups"}


@memory
def test_extend_rejects_malformed_messages(target: Target) -> None:
    assert run(target, BATCHES, lambda name, argument: name == "session.extend") == []
    assert target.session.messages()
    assert target.memory.recall("walrus", user="alice")


@pytest.mark.postgres
def test_hostile_text_on_postgres(postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = Target(postgres_url, tmp_path / "backups")
    values = [
        *("\x00", "a\x00b", "\ud800", "\x1b\x85\u2028\ufeff", "", 2**62, 2**63, HUGE, {"\x00": "\x00"}, ["\x00"]),
        *(["\ud800"], EARLY.replace(tzinfo=UTC), LATE.replace(tzinfo=UTC), b"x", math.nan, nested(500)),
    ]
    try:
        assert run(made, values, lambda name, argument: name not in TO_PATHS) == []
    finally:
        made.memory.close()


@pytest.mark.long
@memory
def test_ten_megabyte_text_in_every_argument(target: Target) -> None:
    numbers = "k limit offset count max_tokens last after before upper_sequence expected_epoch dry_run repair pinned"
    maps = "metadata changes value tool_calls messages content"

    def text(name: str, argument: str) -> bool:
        return name not in (*TO_PATHS, "admin.doctor") and argument not in numbers.split()

    assert run(target, [BIG], text) == []
    assert run(target, [{"a": BIG}, [BIG]], lambda name, argument: argument in maps.split()) == []


@memory
def test_million_element_collections_are_rejected(target: Target) -> None:
    million = {f"key {number}": "v" for number in range(1_000_000)}
    session = target.session
    for call in (
        lambda: session.append("user", "x", metadata=million),
        lambda: session.update_metadata(million),
        lambda: session.kv.set("k", million),
        lambda: session.append("user", [TextPart("x")] * 1_000_000),
        lambda: target.memory.remember("x", user="alice", metadata=million),
        lambda: target.memory.remember("x", user="alice", tags=million),
        lambda: target.memory.recall("x", user="alice", metadata=million),
        lambda: target.memory.recall("x", user="alice", tags=million),
        lambda: target.memory.records(tags=million),
    ):
        with pytest.raises(LimpetError):
            call()
    assert session.count() == 1
    assert target.memory.records.count() == 1
    assert faults(target.memory) == []


@memory
def test_infinite_iterables_are_rejected(target: Target) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: target.session.append("user", itertools.repeat(TextPart("x"))),  # type: ignore[arg-type]
        lambda: target.session.append("user", "x", tool_calls=itertools.repeat(ToolCall("a", "b"))),
        lambda: target.memory.remember("x", user="alice", tags=itertools.repeat("a")),
        lambda: target.memory.remember("x", user="alice", tags=map(str, itertools.count())),
        lambda: target.memory.remember("x", user="alice", references=itertools.repeat("a")),
        lambda: target.memory.recall("x", user="alice", kinds=itertools.repeat("record")),
        lambda: target.memory.recall("x", user="alice", tags=map(str, itertools.count())),
        lambda: target.memory.records(layers=itertools.repeat("semantic"), types=itertools.repeat("fact")),
    ]
    for call in calls:
        with pytest.raises(LimpetError):
            call()


@memory
def test_nested_values_are_readable_once_stored(target: Target) -> None:
    """Deep enough to be written by a shallow caller and to break every deeper reader."""
    session = target.session
    stored = 0
    for depth in (10, 90, 99, 100, 200, 500, 800, 900, 930, 950, 960, 970, 980, 990):
        for store in (
            lambda value: session.kv.set("k", value),
            lambda value: session.update_metadata({"k": value}),
            lambda value: session.append("user", "x", metadata={"k": value}),
            lambda value: session.append("assistant", "x", tool_calls=[ToolCall("a", "b", {"k": value})]),
        ):
            try:
                store(nested(depth))
            except LimpetError:
                continue
            stored += 1
            _called_deeply(
                lambda: (session.kv.items(), session.refresh(), session.messages(), target.memory.sessions())
            )
    assert stored >= 8


def _called_deeply(call: Callable[[], Any], depth: int = 300) -> None:
    if depth:
        _called_deeply(call, depth - 1)
    else:
        call()


@memory
def test_methods_without_parameters_reject_arguments(target: Target) -> None:
    for name in sorted(BARE):
        with pytest.raises(TypeError):
            getattr(target.session, name)(5)


# Opening


def test_open_with_hostile_values_raises_limpet_errors() -> None:
    wrong = []
    for argument, (at, value) in itertools.product(
        ("config", "llm", "embedder", "clock", "tenant"), enumerate(HOSTILE)
    ):
        if argument == "clock" and callable(value):
            continue  # what a function raises that somebody gave is theirs
        try:
            with Limpet.open(":memory:", **{argument: value}) as memory:
                memory.session("t", "1").append("user", "hello")
                memory.remember("x", user="alice")
        except LimpetError:
            pass
        except Exception as error:
            wrong.append(f"open({argument}=<{at}: {type(value).__name__}>) raised {type(error).__name__}")
    assert wrong == []


def test_open_with_hostile_location_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = []
    for at, value in enumerate(HOSTILE):
        if type(value) is str and ".." in value:
            continue  # a good place, but one outside the test's folder
        folder = tmp_path / str(at)
        folder.mkdir()
        monkeypatch.chdir(folder)
        what = f"open(<{at}: {type(value).__name__}>)"
        try:
            Limpet.open(value).close()
        except LimpetError:
            if list(folder.iterdir()):
                wrong.append(f"{what} was refused and left something behind")
        except Exception as error:
            wrong.append(f"{what} raised {type(error).__name__}")
        else:
            if not isinstance(value, (str, Path)) or not str(value).strip():
                wrong.append(f"{what} opened a store at a place named by accident")
    assert wrong == []


@pytest.mark.parametrize(
    "place",
    ["~nobody-has-this-name/x", "postgresql://", "postgres://[", "postgresql://nowhere.invalid:1/x", "mysql://x", "http://x/y",
     "postgresql://host:port/x", "postgresql:///x?host=/nowhere&port=1", "postgresql://\x00", "x" * 5000, "a/" * 3000],
)  # fmt: skip
def test_open_rejects_invalid_locations(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LimpetError) as caught:
        Limpet.open(place, config=Config.load(overrides={"storage.connect_timeout_s": 1}))
    assert len(str(caught.value)) < 8000
    assert list(tmp_path.iterdir()) == []


class Broken:
    """An embedder in every way a provider breaks."""

    name = "broken"
    dimension = 3

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def embed(self, texts: Sequence[str]) -> Any:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


def test_failing_embedder_loses_no_message(store_url: str) -> None:
    import numpy as np

    answers: list[Any] = [
        *(
            RuntimeError("boom"),
            ValueError("x"),
            TimeoutError(),
            MemoryError(),
            None,
            5,
            "abc",
            [],
            [[]],
            [[1.0], [2.0]],
        ),
        *([[math.nan] * 3], [[math.inf] * 3], [[1e300] * 3], [["a"]], [None], [[None]], {}, [[HUGE]], iter(())),
        *([[1.0, 2.0, 3.0]], np.asarray([[0.1, 0.2, 0.3]], dtype="float32"), [np.asarray([0.1, 0.2, 0.3])]),
    ]
    for number, answer in enumerate(answers):
        with Limpet.open(":memory:" if store_url == ":memory:" else store_url, embedder=Broken(answer)) as memory:
            session = memory.session("t", "1", user="alice")
            session.append("user", f"walrus{number}")
            assert session.recent(1)[0].text == f"walrus{number}"
            assert memory.recall(f"walrus{number}", user="alice")[0].text == f"walrus{number}"
            assert faults(memory) == []


def test_embedder_with_changed_dimension_loses_no_message(durable_url: str) -> None:
    for number, vector in enumerate(([0.1, 0.2, 0.3], [0.1, 0.2], [0.1, 0.2, 0.3])):
        with Limpet.open(durable_url, embedder=Broken([vector])) as memory:
            session = memory.session("t", "1", user="alice")
            session.append("user", f"walrus{number}")
            assert session.count() == number + 1
            assert memory.recall(f"walrus{number}", user="alice")[0].text == f"walrus{number}"


def test_invalid_clock_is_limpet_error() -> None:
    for clock in (lambda: datetime(2026, 1, 1), lambda: None, lambda: 5):
        try:
            with Limpet.open(":memory:", clock=clock) as memory:  # type: ignore[arg-type]
                memory.session("t", "1").append("user", "hello")
        except LimpetError as error:
            assert "clock" in str(error)  # noqa: PT017
        else:
            pytest.fail("a clock that tells no time was accepted")
