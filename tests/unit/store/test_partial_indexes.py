"""SQLite prepares a statement again at every run if a bound value might decide whether a partial index serves it."""

from __future__ import annotations

import re
from pathlib import Path

import limpet

PACKAGE = Path(limpet.__file__).parent
BASELINE = PACKAGE / "store" / "sqlite" / "migrations" / "0001_baseline.sql"
EQUALS = re.compile(r"CREATE (?:UNIQUE )?INDEX (\w+)[^;]*?WHERE (\w+) = [^;]+;")


def test_no_statement_binds_a_value_to_the_column_of_a_partial_index() -> None:
    queries = "\n".join(path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.sql") if path != BASELINE)
    code = "\n".join(path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py"))
    found = EQUALS.findall(BASELINE.read_text(encoding="utf-8"))
    assert found
    for index, column in found:
        bound = re.search(rf"\b{column} = :", queries + code)
        assert bound is None, f"{index}: write its condition as an expression, such as length({column}) = 0"
