from __future__ import annotations

import importlib
import sys
import threading
from _thread import start_new_thread
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from limpet.model import late


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(tmp_path)
    known = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - known:
        del sys.modules[name]
    late._loaded.difference_update(path.stem for path in tmp_path.iterdir())


def test_module_is_imported_in_another_thread_and_once(folder: Path) -> None:
    (folder / "late_one.py").write_text("import threading\nthread = threading.get_ident()\n")
    late.load_modules("late_one")
    late.load_modules("late_one")
    assert sys.modules["late_one"].thread != threading.get_ident()


def test_module_that_does_not_exist_is_left_to_the_import_that_follows() -> None:
    late.load_modules("late_missing")
    late._loaded.discard("late_missing")
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("late_missing")


def test_module_is_loaded_if_the_new_thread_is_interrupted_before_its_first_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "late_two.py").write_text("")
    starts: list[Any] = []

    def lose_first(function: Any, arguments: Any) -> int:
        starts.append(function)
        return start_new_thread(function, arguments) if len(starts) > 1 else 0

    monkeypatch.setattr(late, "start_new_thread", lose_first)
    monkeypatch.setattr(late, "_BEGIN_TIMEOUT_S", 0.01)
    late.load_modules("late_two")
    assert "late_two" in sys.modules


def test_module_is_loaded_where_no_thread_can_start(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> int:
        raise RuntimeError("can't start new thread")

    (folder / "late_three.py").write_text("")
    monkeypatch.setattr(late, "start_new_thread", refuse)
    late.load_modules("late_three")
    assert "late_three" in sys.modules


def test_module_that_is_needed_while_its_caller_is_imported_does_not_wait_for_it(folder: Path) -> None:
    """A thread of its own would wait for the caller's module, and the caller for the thread."""
    (folder / "late_outer.py").write_text("from limpet.model.late import load_modules\nload_modules('late_inner')\n")
    (folder / "late_inner.py").write_text("import late_outer\n")
    loading = threading.Thread(target=late.load_modules, args=("late_outer",), daemon=True)
    loading.start()
    loading.join(20)
    assert not loading.is_alive()
    assert "late_inner" in sys.modules
