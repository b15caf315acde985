from __future__ import annotations

from pathlib import Path

from tests.contract.not_remote import NOT_REMOTE


def test_every_test_that_is_left_out_exists() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_*.py"))
    assert [name for name in NOT_REMOTE if f"def {name.rpartition('::')[2]}(" not in text] == []
