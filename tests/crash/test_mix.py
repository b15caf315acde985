"""A moment of ``python -m tests.crash.mix``."""

from __future__ import annotations

import pytest

from tests.crash import mix


@pytest.mark.slow
def test_processes_with_mixed_operations_lose_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(mix, "MAX_RATIO", float("inf"))  # so few appends have no hundredth
    assert mix.main(["--minutes", "0.1", "--processes", "3", "--pace", "0.01"]) == 0, capsys.readouterr().out
    assert "lost 0, doubled 0" in capsys.readouterr().out
