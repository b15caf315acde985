"""Records as lines in files, and back: nothing is lost on the way, and nobody's change."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from limpet import Config, Limpet, Record
from limpet.errors import StorageError, Unsupported
from limpet.lifecycle.item_sync import LineStatus, decide_line_status
from limpet.notes import edited
from limpet.store import atomic_files
from limpet.testing import FakeClock
from tests.contract.processes import run_together
from tests.contract.rows import faults


@pytest.fixture
def hf(tmp_path: Path, clock: FakeClock) -> Iterator[Limpet]:
    with Limpet.open(tmp_path / "data", clock=clock) as opened:
        yield opened
        assert faults(opened) == []


def items(hf: Limpet, user: str = "alice") -> Path:
    assert hf._runtime.folder is not None
    return hf._runtime.folder / "memory" / "users" / user / "items"


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def save(path: Path, values: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(value) + "\n" for value in values), encoding="utf-8")


def everything(hf: Limpet, user: str = "alice") -> dict[str, Record]:
    return {record.id: record for record in hf.records(user=user, history=True, limit=1000)}


def fill(hf: Limpet, clock: FakeClock) -> Record:
    """Records of every kind; answers one of them."""
    session = hf.session("t", "1", user="alice")
    dog = hf.remember(
        'A "dog"\nnamed Biscuit | 犬 🐕',
        user="alice",
        key="dog",
        title="The dog",
        tags=["b", "a"],
        metadata={"x.y": "z", "a": "'"},
        confidence=0.1,
        salience=1 / 3,
        references=["https://example.org"],
        pinned=True,
        ttl=timedelta(days=400),
    )
    hf.remember("Feed it", user="alice", layer="procedural", type="command_result")
    hf.remember("It barked", user="alice", layer="episodic", type="note", session=session.id)
    clock.advance(days=1, seconds=0.000001)
    hf.remember("It slept", user="alice", layer="episodic")
    hf.records.update(dog.id, content="A dog named Crumb")
    ended = hf.remember("It is a puppy", user="alice")
    hf.records.update(ended.id, valid_to=clock.advance(1))
    clock.advance(1)
    hf.remember("in my head", user="alice", layer="working")
    hf.remember("not alice's", user="bob")
    return hf.records.get(dog.id)


def test_the_files_and_their_order(hf: Limpet, clock: FakeClock) -> None:
    dog = fill(hf, clock)
    assert hf.notes.export_items(user="alice").records == 5
    assert sorted(str(path.relative_to(items(hf))) for path in items(hf).rglob("*.jsonl")) == [
        "episodic/2026-03-10.jsonl",
        "episodic/2026-03-11.jsonl",
        "procedural.jsonl",
        "semantic.jsonl",
    ]
    first, second = lines(items(hf) / "semantic.jsonl")
    assert first["id"] == dog.id
    assert first["content"] == "A dog named Crumb"
    assert second["content"] == "It is a puppy"
    assert list(first)[:6] == ["id", "session_id", "level", "layer", "type", "content"]


def test_a_second_export_changes_nothing_and_a_new_record_one_line(hf: Limpet, clock: FakeClock) -> None:
    fill(hf, clock)
    hf.notes.export_items(user="alice")
    before = {path: path.read_bytes() for path in items(hf).rglob("*.jsonl")}
    hf.notes.export_items(user="alice")
    assert {path: path.read_bytes() for path in items(hf).rglob("*.jsonl")} == before
    hf.remember("news", user="alice")
    hf.notes.export_items(user="alice")
    semantic = items(hf) / "semantic.jsonl"
    assert semantic.read_bytes().startswith(before[semantic])
    assert len(lines(semantic)) == 3


def test_another_store_takes_everything_in_and_loses_nothing(hf: Limpet, clock: FakeClock, tmp_path: Path) -> None:
    fill(hf, clock)
    hf.notes.export_items(user="alice")
    with Limpet.open(tmp_path / "other", clock=clock) as other:
        shutil.copytree(items(hf), items(other))
        done = other.notes.import_items(user="alice")
        wanted = {
            id: record for id, record in everything(hf).items() if record.layer != "working" and not record.session_id
        }
        assert done.added == len(wanted)
        assert everything(other) == wanted
        [problem] = done.problems
        assert "session" in problem.reason
        assert problem.file == "episodic/2026-03-10.jsonl"
        assert other.recall("Crumb", user="alice")[0].text.endswith("Crumb")
        assert faults(other) == []
        again = other.notes.import_items(user="alice")
        assert (again.added, again.changed, again.conflicts) == (0, 0, 0)


def test_a_record_of_a_session_goes_where_its_session_is(hf: Limpet, clock: FakeClock) -> None:
    fill(hf, clock)
    hf.notes.export_items(user="alice")
    told = lines(items(hf) / "episodic" / "2026-03-10.jsonl")
    before = everything(hf)[told[0]["id"]]
    shutil.rmtree(items(hf) / "episodic")
    (items(hf) / ".sync.json").unlink()
    hf.forget(before.id)
    save(items(hf) / "episodic" / "2026-03-10.jsonl", told)
    assert hf.notes.import_items(user="alice").added == 1
    assert everything(hf)[before.id] == before


def test_a_changed_line_changes_the_record_and_keeps_its_history(hf: Limpet, clock: FakeClock) -> None:
    dog = fill(hf, clock)
    hf.notes.export_items(user="alice")
    first, *others = lines(items(hf) / "semantic.jsonl")
    save(
        items(hf) / "semantic.jsonl",
        [{**first, "content": "A cat named Crumb", "title": None, "tags": ["cat"], "pinned": False}, *others],
    )
    done = hf.notes.import_items(user="alice")
    assert (done.added, done.changed, done.conflicts, done.problems) == (0, 1, 0, ())
    now = hf.records.get(dog.id)
    assert (now.content, now.title, now.tags, now.pinned) == ("A cat named Crumb", None, ("cat",), False)
    assert now.created_at == dog.created_at
    assert [version.content for version in hf.records.history(dog.id)][-2:] == [
        "A dog named Crumb",
        "A cat named Crumb",
    ]
    assert lines(items(hf) / "semantic.jsonl")[0]["version"] == dog.version + 1
    assert hf.recall("cat", user="alice")
    assert hf.notes.import_items(user="alice").changed == 0


def test_spaces_and_the_order_of_fields_are_no_change(hf: Limpet, clock: FakeClock) -> None:
    dog = fill(hf, clock)
    hf.notes.export_items(user="alice")
    told = lines(items(hf) / "semantic.jsonl")
    text = "\r\n\r\n".join(json.dumps(dict(reversed(value.items())), separators=(" , ", " : ")) for value in told)
    (items(hf) / "semantic.jsonl").write_bytes(b"\xef\xbb\xbf" + text.encode())
    done = hf.notes.import_items(user="alice")
    assert (done.added, done.changed, done.conflicts, done.problems) == (0, 0, 0, ())
    assert hf.records.get(dog.id) == dog


def test_a_line_of_ones_own_becomes_a_record_once(hf: Limpet) -> None:
    save(items(hf) / "semantic.jsonl", [{"content": "written by hand"}, {"content": "so is this", "tags": ["x"]}])
    assert hf.notes.export_items(user="alice").waiting == 2
    assert hf.notes.import_items(user="alice").added == 2
    assert {record.content for record in hf.records(user="alice")} == {"written by hand", "so is this"}
    told = lines(items(hf) / "semantic.jsonl")
    assert all(value["id"] and value["version"] == 1 for value in told)
    save(items(hf) / "semantic.jsonl", [{"content": "written by hand"}])  # as after a crash between store and files
    assert hf.notes.import_items(user="alice").added == 0
    assert hf.records.count(user="alice") == 2


def test_a_missing_line_removes_nothing_unless_asked(hf: Limpet, clock: FakeClock) -> None:
    fill(hf, clock)
    hf.notes.export_items(user="alice")
    count = len(everything(hf))
    (items(hf) / "procedural.jsonl").unlink()
    assert hf.notes.import_items(user="alice").removed == 0
    assert len(everything(hf)) == count
    assert lines(items(hf) / "procedural.jsonl")
    (items(hf) / "procedural.jsonl").unlink()
    assert hf.notes.import_items(user="alice", delete_missing=True).removed == 1
    assert len(everything(hf)) == count - 1
    assert not (items(hf) / "procedural.jsonl").exists()


def test_a_missing_line_of_a_record_that_went_on_removes_nothing(hf: Limpet) -> None:
    record = hf.remember("a dog", user="alice")
    hf.notes.export_items(user="alice")
    (items(hf) / "semantic.jsonl").unlink()
    hf.records.update(record.id, content="two dogs")
    assert hf.notes.import_items(user="alice", delete_missing=True).removed == 0
    assert hf.records.get(record.id).content == "two dogs"


def test_nothing_is_removed_while_a_line_cannot_be_read(hf: Limpet) -> None:
    hf.remember("a dog", user="alice")
    hf.notes.export_items(user="alice")
    (items(hf) / "semantic.jsonl").write_text('{"id": broken\n')
    done = hf.notes.import_items(user="alice", delete_missing=True)
    assert done.removed == 0
    assert len(done.problems) == 1


def test_bad_lines_are_named_and_left_while_the_rest_is_taken_in(hf: Limpet) -> None:
    bad = [
        b"not json",
        b"[1]",
        b'{"content": 5}',
        b'{"content": ""}',
        b"{}",
        b'{"content": "x", "colour": "red"}',
        b'{"content": "x", "confidence": 2}',
        b'{"content": "x", "layer": "working"}',
        b'{"content": "x", "level": "global"}',
        b'{"content": "x", "created_at": "yesterday"}',
        b'{"content": "x", "created_at": "2026-01-01T00:00:00"}',
        b'{"content": "x", "id": "../../x"}',
        b'{"content": "x", "source": 5}',
        b'{"content": "x", "version": -1}',
        b'{"content": "caf\xe9"}',
        b'{"content": "x", "content": "y"}',
        b'{"content": "a\\u0000b"}',
        b'{"content": "x", "key": "Not A Key"}',
        b'{"content": "x", "session_id": "01890000-0000-7000-8000-000000000000"}',
    ]
    path = items(hf) / "semantic.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(b'{"content": "first"}\n' + b"\n".join(bad) + b'\n{"content": "last"}\n')
    done = hf.notes.import_items(user="alice")
    assert done.added == 2
    assert sorted(problem.line for problem in done.problems) == list(range(2, len(bad) + 2))
    assert {record.content for record in hf.records(user="alice")} == {"first", "last"}
    kept = path.read_bytes().splitlines()
    assert [line for line in kept if line in bad] == bad
    assert len(kept) == len(bad) + 2


def test_two_lines_for_one_record(hf: Limpet) -> None:
    record = hf.remember("a dog", user="alice")
    hf.notes.export_items(user="alice")
    told = lines(items(hf) / "semantic.jsonl")
    save(items(hf) / "semantic.jsonl", [*told, {**told[0], "content": "a cat"}])
    [problem] = hf.notes.import_items(user="alice").problems
    assert problem.line == 2
    assert "twice" in problem.reason
    assert hf.records.get(record.id).content == "a dog"


def test_a_key_that_is_taken_is_a_bad_line(hf: Limpet) -> None:
    record = hf.remember("a dog", user="alice", key="pet")
    save(items(hf) / "semantic.jsonl", [{"content": "a cat", "key": "pet"}, {"content": "a bird"}])
    done = hf.notes.import_items(user="alice")
    assert done.added == 1
    assert [problem.reason for problem in done.problems] == [f"the key 'pet' belongs to record {record.id}"]
    assert hf.records.get(record.id).content == "a dog"


def test_both_sides_changed(hf: Limpet) -> None:
    record = hf.remember("a dog", user="alice")
    hf.notes.export_items(user="alice")
    [told] = lines(items(hf) / "semantic.jsonl")
    save(items(hf) / "semantic.jsonl", [{**told, "content": "a cat"}])
    hf.records.update(record.id, content="a walrus")
    done = hf.notes.import_items(user="alice")
    assert (done.changed, done.conflicts) == (0, 1)
    assert hf.records.get(record.id).content == "a walrus"
    assert lines(items(hf) / "semantic.jsonl")[0]["content"] == "a walrus"
    assert [value["content"] for value in lines(items(hf) / "semantic.jsonl.conflict")] == ["a cat"]
    assert hf.notes.import_items(user="alice").conflicts == 0


def test_an_export_keeps_an_edit_that_waits_for_its_import(hf: Limpet) -> None:
    record = hf.remember("a dog", user="alice")
    hf.notes.export_items(user="alice")
    [told] = lines(items(hf) / "semantic.jsonl")
    save(items(hf) / "semantic.jsonl", [{**told, "content": "a cat"}])
    for _ in range(2):
        assert hf.notes.export_items(user="alice").waiting == 1
    assert lines(items(hf) / "semantic.jsonl")[0]["content"] == "a cat"
    assert hf.notes.import_items(user="alice").changed == 1
    assert hf.records.get(record.id).content == "a cat"


def test_what_was_forgotten_leaves_the_files_and_does_not_come_back(hf: Limpet) -> None:
    record = hf.remember("a secret", user="alice")
    hf.notes.export_items(user="alice")
    hf.forget(record.id)
    assert hf.notes.import_items(user="alice").added == 0
    assert hf.records.count(user="alice") == 0
    assert not any(b"secret" in path.read_bytes() for path in items(hf).rglob("*") if path.is_file())


def told_anywhere(hf: Limpet, word: str) -> list[str]:
    return [path.name for path in items(hf).rglob("*") if path.is_file() and word.encode() in path.read_bytes()]


@pytest.mark.parametrize("named", [{"user": "alice"}, {}])
def test_forgetting_reaches_every_file_at_once(hf: Limpet, clock: FakeClock, named: dict[str, Any]) -> None:
    record = hf.remember("a secret", user="alice")
    clock.advance(1)
    other = hf.remember("a dog", user="alice")
    hf.notes.export_items(user="alice")
    told = lines(items(hf) / "semantic.jsonl")
    save(items(hf) / "semantic.jsonl", [{**told[0], "content": "another secret"}, told[1]])
    hf.records.update(record.id, content="a new secret")
    hf.notes.import_items(user="alice")
    assert sorted(told_anywhere(hf, "secret")) == ["semantic.jsonl", "semantic.jsonl.conflict"]
    assert hf.forget(record.id, **named).ids == (record.id,)
    assert told_anywhere(hf, "secret") == []
    assert [value["id"] for value in lines(items(hf) / "semantic.jsonl")] == [other.id]
    done = hf.notes.import_items(user="alice")
    assert (done.added, done.changed, done.problems) == (0, 0, ())


def test_a_deleted_session_leaves_the_files_too(hf: Limpet, clock: FakeClock) -> None:
    fill(hf, clock)
    hf.notes.export_items(user="alice")
    assert told_anywhere(hf, "It barked") == ["2026-03-10.jsonl"]
    hf.session("t", "1", user="alice").delete()
    assert told_anywhere(hf, "It barked") == []
    assert len(lines(items(hf) / "semantic.jsonl")) == 2


def test_forgetting_makes_no_files(hf: Limpet) -> None:
    hf.forget(hf.remember("a secret", user="alice").id)
    assert not items(hf).exists()


def test_a_record_that_changed_its_layer_changes_its_file(hf: Limpet) -> None:
    record = hf.remember("feed the dog", user="alice")
    hf.notes.export_items(user="alice")
    [told] = lines(items(hf) / "semantic.jsonl")
    save(items(hf) / "semantic.jsonl", [{**told, "layer": "procedural"}])
    assert hf.notes.import_items(user="alice").changed == 1
    assert hf.records.get(record.id).layer == "procedural"
    assert not (items(hf) / "semantic.jsonl").exists()
    assert len(lines(items(hf) / "procedural.jsonl")) == 1


def test_days_are_those_of_the_users_zone(tmp_path: Path, clock: FakeClock) -> None:
    clock.advance(hours=4)
    config = Config.load(overrides={"notes.timezone": "Asia/Tokyo"})
    with Limpet.open(tmp_path, clock=clock, config=config) as hf:
        hf.remember("it barked", user="alice", layer="episodic")
        hf.notes.export_items(user="alice")
        assert (items(hf) / "episodic" / "2026-03-11.jsonl").is_file()


def test_a_line_cannot_reach_another_users_record(hf: Limpet) -> None:
    theirs = hf.remember("bob's dog", user="bob")
    elsewhere = hf.tenant("other").remember("a dog elsewhere", user="alice")
    stolen = [{"id": theirs.id, "content": "mine now"}, {"id": elsewhere.id, "content": "mine now"}]
    save(items(hf) / "semantic.jsonl", [*stolen, {"content": "my own"}])
    done = hf.notes.import_items(user="alice")
    assert done.added == 1
    assert [problem.line for problem in done.problems] == [1, 2]
    assert hf.records.get(theirs.id) == theirs
    assert hf.tenant("other").records.get(elsewhere.id) == elsewhere
    assert [record.content for record in hf.records(user="alice")] == ["my own"]


def test_damaged_bookkeeping_makes_conflicts_and_loses_nothing(hf: Limpet, caplog: pytest.LogCaptureFixture) -> None:
    record = hf.remember("a dog", user="alice")
    hf.notes.export_items(user="alice")
    (items(hf) / ".sync.json").write_text("{broken")
    [told] = lines(items(hf) / "semantic.jsonl")
    save(items(hf) / "semantic.jsonl", [{**told, "content": "a cat"}])
    assert hf.notes.import_items(user="alice").conflicts == 1
    assert "damaged" in caplog.text
    assert hf.records.get(record.id).content == "a dog"
    assert "a cat" in (items(hf) / "semantic.jsonl.conflict").read_text()


def test_a_save_in_the_last_moment_is_seen(hf: Limpet, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    hf.remember("a dog", user="alice")
    hf.notes.export_items(user="alice")
    clock.advance(1)
    hf.remember("a cat", user="alice")
    path, real = items(hf) / "semantic.jsonl", atomic_files._write_temporary
    saved: list[bool] = []

    def slow(target: Path, data: bytes) -> Path:
        temporary = real(target, data)
        if target == path and not saved:
            saved.append(True)
            path.write_bytes(path.read_bytes() + b'{"content": "by hand"}\n')
        return temporary

    monkeypatch.setattr(atomic_files, "_write_temporary", slow)
    assert hf.notes.export_items(user="alice").waiting == 1
    assert [value["content"] for value in lines(path)] == ["a dog", "a cat", "by hand"]


@pytest.mark.parametrize("name", ["semantic.jsonl", "episodic", ".sync.json", "semantic.jsonl.conflict"])
def test_links_lead_nowhere(hf: Limpet, tmp_path: Path, name: str) -> None:
    outside = tmp_path / "outside"
    record = hf.remember("a dog", user="alice")
    hf.notes.export_items(user="alice")
    [told] = lines(items(hf) / "semantic.jsonl")
    save(items(hf) / "semantic.jsonl", [{**told, "content": "a cat"}])
    hf.records.update(record.id, content="a walrus")
    (items(hf) / name).unlink(missing_ok=True)
    (items(hf) / name).symlink_to(outside)
    with pytest.raises(StorageError, match="behind a link"):
        hf.notes.export_items(user="alice")
    assert not outside.exists()


def test_an_import_that_fails_changes_nothing(hf: Limpet, monkeypatch: pytest.MonkeyPatch) -> None:
    from limpet.knowledge import remember

    save(items(hf) / "semantic.jsonl", [{"content": "one"}, {"content": "two"}])
    real, calls = remember.insert, []

    def fail(*args: Any) -> Record:
        calls.append(args)
        if len(calls) % 2 == 0:
            raise RuntimeError("the machine is on fire")
        return real(*args)

    monkeypatch.setattr(remember, "insert", fail)
    with pytest.raises(RuntimeError):
        hf.notes.import_items(user="alice")
    assert hf.records.count(user="alice") == 0
    assert [value["content"] for value in lines(items(hf) / "semantic.jsonl")] == ["one", "two"]


def test_two_processes_at_once(tmp_path: Path) -> None:
    code = """
hf = Limpet.open(given)
begin()
for at in range(10):
    hf.remember(f"{number} said {at}", user="alice")
    hf.notes.export_items(user="alice")
    hf.notes.import_items(user="alice")
answer(True)
"""
    run_together(code, str(tmp_path))
    with Limpet.open(tmp_path) as hf:
        said = {f"{number} said {at}" for number in range(2) for at in range(10)}
        assert sorted(record.content for record in hf.records(user="alice")) == sorted(said)
        hf.notes.export_items(user="alice")
        assert {value["content"] for value in lines(items(hf) / "semantic.jsonl")} == said
        assert not list(items(hf).rglob("*.conflict"))
        assert faults(hf) == []


@pytest.mark.parametrize(
    ("line", "record", "agreed", "expected"),
    [
        ("a", "a", None, LineStatus.SAME),
        ("a", "a", "b", LineStatus.SAME),
        ("a", None, None, LineStatus.NEW),
        ("a", None, "a", LineStatus.FORGOTTEN),
        ("a", None, "b", LineStatus.CONFLICT),
        ("a", "b", "b", LineStatus.EDITED),
        ("a", "b", "a", LineStatus.OUTDATED),
        ("a", "b", "c", LineStatus.CONFLICT),
        ("a", "b", None, LineStatus.CONFLICT),
    ],
)
def test_what_becomes_of_a_line(line: str, record: str | None, agreed: str | None, expected: LineStatus) -> None:
    assert decide_line_status(line, record, agreed) is expected


def test_a_store_without_a_folder_has_no_items() -> None:
    with Limpet.open(":memory:") as hf:
        for act in (hf.notes.export_items, hf.notes.import_items):
            with pytest.raises(Unsupported, match="no folder"):
                act(user="alice")


def test_a_file_that_never_rests_is_busy(hf: Limpet, monkeypatch: pytest.MonkeyPatch) -> None:
    def changed(path: Path, before: bytes) -> Any:
        def look() -> None:
            raise edited.EditConflict

        return look

    hf.remember("a dog", user="alice")
    monkeypatch.setattr(edited, "make_unchanged_check", changed)
    with pytest.raises(StorageError, match="again and again"):
        hf.notes.export_items(user="alice")
