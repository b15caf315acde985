"""MEMORY.md: written by programs and people at once, and nobody's edit is lost."""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from limpet import Config, Limpet
from limpet.api.notes import LongTermNotes
from limpet.errors import InvalidInput, StorageError, StoreBusy, WrongState
from limpet.model.note import compute_version, merge_edits
from limpet.notes.user_notes import ANY_VERSION
from limpet.store import files as atomic_files
from tests.contract.processes import run_together, start


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "memory" / "users" / "alice" / "MEMORY.md"


_opened: list[Limpet] = []


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    while _opened:
        _opened.pop().close()


def handle(file: Path, max_bytes: int = 10_000) -> LongTermNotes:
    config = Config.load(overrides={"notes.max_memory_bytes": max_bytes, "embedding.model": "none"})
    _opened.append(Limpet.open(file.parents[3], config=config))
    return _opened[-1].notes.long_term(user="alice")


def saved_by_a_person(file: Path, data: bytes) -> None:
    """As editors save: a new file under the old name."""
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_name("4913~")
    new.write_bytes(data)
    new.replace(file)


def copies(file: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(file.parent.glob("MEMORY.md.conflict*"))]


def test_long_term_file_is_created_on_first_write(file: Path) -> None:
    memory = handle(file)
    assert memory.read() == ""
    assert not file.exists()
    written = memory.write("# Me\n")
    assert (written.text, written.conflict) == ("# Me\n", None)
    assert memory.read() == file.read_text() == "# Me\n"
    assert memory.path == file


def test_long_term_repeated_writes_do_not_conflict(file: Path) -> None:
    memory = handle(file)
    for text in ("one", "two", "three", ""):
        assert memory.write(text).conflict is None
    assert file.read_bytes() == b""
    assert copies(file) == []


def test_long_term_read_sees_external_edit(file: Path) -> None:
    memory = handle(file)
    memory.write("one\n")
    saved_by_a_person(file, b"two\n")
    assert memory.read() == "two\n"
    assert memory.write("three\n").conflict is None
    assert file.read_text() == "three\n"


def test_long_term_conflicting_edits_are_both_kept(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    memory = handle(file)
    memory.write("a dog\n")
    saved_by_a_person(file, b"a cat\n")
    with caplog.at_level(logging.WARNING, "limpet"):
        written = memory.write("a walrus\n")
    assert written.text == file.read_text() == "a cat\n"
    assert written.conflict == file.with_name("MEMORY.md.conflict")
    assert copies(file) == [b"a walrus\n"]
    assert "MEMORY.md.conflict" in caplog.text


def test_long_term_conflict_persists_until_next_read(file: Path) -> None:
    memory = handle(file)
    memory.write("a dog\n")
    saved_by_a_person(file, b"a cat\n")
    assert memory.write("a walrus\n").conflict is not None
    assert memory.write("two walruses\n").conflict == file.with_name("MEMORY.md.conflict.2")
    assert memory.write("a walrus\n").conflict == file.with_name("MEMORY.md.conflict")
    assert copies(file) == [b"a walrus\n", b"two walruses\n"]
    memory.read()
    assert memory.write("three walruses\n").conflict is None
    assert file.read_text() == "three walruses\n"


def test_long_term_write_without_read_keeps_existing_file(file: Path) -> None:
    saved_by_a_person(file, b"mine\n")
    assert handle(file).write("blind\n").conflict is not None
    assert file.read_text() == "mine\n"
    assert copies(file) == [b"blind\n"]


def test_long_term_identical_edits_do_not_conflict(file: Path) -> None:
    saved_by_a_person(file, b"same\n")
    assert handle(file).write("same\n").conflict is None
    assert copies(file) == []


@pytest.mark.parametrize(
    ("base", "there", "new", "expected"),
    [
        ("a\n", "a\nb\n", "a\nc\n", "a\nb\nc\n"),
        ("a\n", "x\n", "a\nc\n", "x\nc\n"),
        ("a\n", "a\nb\n", "x\n", "x\nb\n"),
        ("a", "a\nb", "a\nc", "a\nb\nc"),
        ("a\r\n", "x\r\n", "a\r\nc\r\n", "x\r\nc\r\n"),
        ("a\n", "a\n", "x\n", "x\n"),
        ("a", "ab", "x", None),
        ("a", "x", "ab", None),
        ("a\n", "b\n", "c\n", None),
        ("", "b\n", "c\n", None),
    ],
)
def test_merge_edits_joins_appended_lines(base: str, there: str, new: str, expected: str | None) -> None:
    assert merge_edits(base, there, new) == expected


def test_long_term_write_after_merge_loses_no_edit(file: Path) -> None:
    memory = handle(file)
    memory.write("a\n")
    saved_by_a_person(file, b"a\nby hand\n")
    assert memory.write("a\nby program\n").text == "a\nby hand\nby program\n"
    memory.write("rewritten\n")
    assert "by hand" in file.read_text() + "".join(copy.decode() for copy in copies(file))
    assert "rewritten" in file.read_text() + "".join(copy.decode() for copy in copies(file))


def test_long_term_append_starts_new_line(file: Path) -> None:
    saved_by_a_person(file, b"by hand")
    assert handle(file).append("by program").text == "by hand\nby program\n"


def test_long_term_enforces_size_limit_without_truncating(file: Path) -> None:
    memory = handle(file, max_bytes=10)
    memory.write("0123456789")
    with pytest.raises(InvalidInput, match="limit is 10"):
        memory.write("0123456789a")
    with pytest.raises(InvalidInput, match="limit is 10"):
        memory.append("a")
    assert file.read_text() == "0123456789"
    saved_by_a_person(file, b"x" * 11)
    with pytest.raises(StorageError, match="limit is 10"):
        memory.read()
    assert file.read_bytes() == b"x" * 11


@pytest.mark.parametrize("text", [None, 5, b"x", "a\x00b", "\ud800"])
def test_long_term_write_rejects_invalid_text(file: Path, text: object) -> None:
    with pytest.raises(InvalidInput):
        handle(file).write(text)  # type: ignore[arg-type]
    assert not file.parent.exists()


def test_long_term_preserves_bytes_that_are_not_utf8(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    saved_by_a_person(file, b"caf\xe9\n")
    memory = handle(file)
    assert memory.read() == "caf\ufffd\n"
    assert "not UTF-8 at byte 3" in caplog.text
    written = memory.write("coffee\n")
    assert file.read_text() == "coffee\n"
    assert written.conflict is not None
    assert copies(file) == [b"caf\xe9\n"]


def test_long_term_append_keeps_bytes_that_are_not_utf8_in_a_copy(file: Path) -> None:
    saved_by_a_person(file, b"caf\xe9\n")
    handle(file).append("tea")
    assert file.read_text() == "caf\ufffd\ntea\n"
    assert copies(file) == [b"caf\xe9\n"]


def test_long_term_write_detects_edit_just_before_rename(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The editor saves when our text is on the disk already and only the name has to change."""
    memory = handle(file)
    memory.write("a dog\n")
    real, saves = atomic_files._write_temporary, iter([b"a cat\n"])

    def slow(target: Path, data: bytes) -> Path:
        temporary = real(target, data)
        if target == file and (text := next(saves, None)) is not None:
            saved_by_a_person(file, text)
        return temporary

    monkeypatch.setattr(atomic_files, "_write_temporary", slow)
    assert memory.write("a walrus\n").conflict is not None
    assert file.read_text() == "a cat\n"
    assert copies(file) == [b"a walrus\n"]
    assert [path.name for path in file.parent.iterdir() if path.name.endswith(".tmp")] == []


def test_long_term_append_is_busy_if_file_keeps_changing(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, number = atomic_files._write_temporary, iter(range(1000))

    def slow(target: Path, data: bytes) -> Path:
        temporary = real(target, data)
        saved_by_a_person(file, b"%d\n" % next(number))
        return temporary

    file.parent.mkdir(parents=True)
    monkeypatch.setattr(atomic_files, "_write_temporary", slow)
    with pytest.raises(StoreBusy, match="again and again"):
        handle(file).append("mine")


def test_long_term_refuses_symlinked_file(file: Path, tmp_path: Path) -> None:
    secret = tmp_path.parent / f"{tmp_path.name}-secret"
    secret.write_text("secret")
    file.parent.mkdir(parents=True)
    file.symlink_to(secret)
    for act in (handle(file).read, lambda: handle(file).write("mine"), lambda: handle(file).append("mine")):
        with pytest.raises(StorageError, match="behind a link"):
            act()
    assert secret.read_text() == "secret"


@pytest.mark.parametrize("name", ["notes.lock", "MEMORY.md.conflict"])
def test_long_term_refuses_symlinked_lock_and_conflict_files(file: Path, tmp_path: Path, name: str) -> None:
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    saved_by_a_person(file, b"mine\n")
    file.with_name(name).symlink_to(outside)
    if name.endswith(".lock"):
        with pytest.raises(StorageError, match="behind a link"):
            handle(file).write("other\n")
    else:
        assert handle(file).write("other\n").conflict == file.with_name("MEMORY.md.conflict.2")
    assert not outside.exists()


def test_long_term_refuses_symlinked_user_folder(file: Path, tmp_path: Path) -> None:
    bob = tmp_path / "memory" / "users" / "bob"
    bob.mkdir(parents=True)
    file.parent.symlink_to(bob)
    with pytest.raises(StorageError, match="behind a link"):
        handle(file).write("mine")
    assert list(bob.iterdir()) == []


def test_long_term_write_is_stored_if_its_file_cannot_be_written(
    file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    memory = handle(file)
    memory.write("old\n")

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(atomic_files, "_replace", refuse)
        assert memory.write("new\n").text == "new\n"
    assert "Permission denied" in caplog.text
    assert file.read_text() == "old\n"
    assert not list(file.parent.glob(".*.tmp"))
    assert handle(file).read() == memory.read() == file.read_text() == "new\n"  # written by the next that opens it


def test_pending_file_is_written_by_the_next_run_of_the_jobs(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a program that is open all the while, after another one was killed."""
    memory = handle(file)
    memory.write("old\n")

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(atomic_files, "_replace", refuse)
        memory.write("new\n")
    assert file.read_text() == "old\n"
    _opened[-1].jobs.run()
    assert file.read_text() == "new\n"


def test_long_term_edit_of_a_file_that_was_not_written_is_kept_beside_the_store(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The person could not see what the program had stored: both texts are kept."""
    memory = handle(file)
    memory.write("old\n")

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(atomic_files, "_replace", refuse)
        memory.write("new\n")
    saved_by_a_person(file, b"by hand\n")
    assert memory.read() == file.read_text() == "by hand\n"
    assert copies(file) == [b"new\n"]


def test_long_term_file_that_was_removed_is_written_with_the_next_change(file: Path) -> None:
    memory = handle(file)
    memory.write("- bees\n")
    file.unlink()
    assert memory.read() == "- bees\n"
    assert memory.append("- tea").text == file.read_text() == "- bees\n- tea\n"


def test_long_term_emptied_file_clears_the_notes(file: Path) -> None:
    memory = handle(file)
    memory.write("- bees\n")
    file.write_text("")
    assert memory.read() == ""
    file.unlink()
    assert memory.read() == ""


WRITER = """
from limpet import Config
opened = Limpet.open(given, config=Config.load(overrides={"notes.max_memory_bytes": 1_000_000}))
memory = opened.notes.long_term(user="alice")
"""


@pytest.mark.slow
def test_long_term_concurrent_appends_lose_no_line(file: Path, tmp_path: Path) -> None:
    code = WRITER + 'begin()\nfor at in range(40): memory.append(f"{number} wrote {at}")\nanswer(True)\n'
    run_together(code, str(tmp_path))
    lines = file.read_text().splitlines()
    assert sorted(lines) == sorted(f"{number} wrote {at}" for number in range(2) for at in range(40))


@pytest.mark.slow
def test_long_term_concurrent_rewrites_lose_no_text(file: Path, tmp_path: Path) -> None:
    code = WRITER + (
        "begin()\nfor at in range(15):\n    before = memory.read()\n"
        '    memory.write(f"{number} wrote {at}\\n" + before)\nanswer(True)\n'
    )
    run_together(code, str(tmp_path))
    everything = file.read_bytes() + b"".join(copies(file))
    for number in range(2):
        for at in range(15):
            assert b"%d wrote %d\n" % (number, at) in everything


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="needs signals")
def test_long_term_killed_writer_leaves_complete_file(file: Path, tmp_path: Path) -> None:
    code = WRITER + (
        'begin()\nmemory.read()\nwhile True:\n    for letter in "abc":\n        memory.write(letter * 50_000)\n'
    )
    for delay in (0.02, 0.05, 0.08):
        process = start(code, str(tmp_path))
        assert process.stdout is not None
        assert process.stdin is not None
        process.stdout.readline()
        process.stdin.write("\n")
        process.stdin.flush()
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        data = file.read_bytes() if file.exists() else b""
        assert data in (b"", b"a" * 50_000, b"b" * 50_000, b"c" * 50_000)
    handle(file, 100_000).append("alive")
    assert not list(file.parent.glob(".*.tmp"))


def test_long_term_write_with_version_checks_current_version(file: Path) -> None:
    saved_by_a_person(file, b"- keeps bees\n")
    known = handle(file).read()
    assert handle(file).write("- keeps goats\n", version=compute_version(known)).text == "- keeps goats\n"
    with pytest.raises(WrongState, match="read it again"):
        handle(file).write("- keeps cats\n", version=compute_version(known))
    assert handle(file).read() == "- keeps goats\n"
    assert handle(file).write("", version=ANY_VERSION).text == handle(file).read() == ""
    assert copies(file) == []
