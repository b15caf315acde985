"""Queries live in .sql files, each under ``-- name: noun.verb``."""

from __future__ import annotations

import re
from importlib.resources import files

_NAME = re.compile(r"^-- name: (\S+)[ \t]*\n", re.MULTILINE)
_LIST = re.compile(r"IN :([a-z_0-9]+)\[\]")
_PARAMETER = re.compile(r"(?<!:):([a-z_0-9]+)")


def load_queries(package: str, filename: str = "queries.sql") -> dict[str, str]:
    text = files(package).joinpath(filename).read_text(encoding="utf-8")
    pieces = _NAME.split(text)[1:]
    names, bodies = pieces[::2], pieces[1::2]
    doubled = {name for name in names if names.count(name) > 1}
    if doubled:
        raise ValueError(f"{package}/{filename} defines {', '.join(sorted(doubled))} twice")
    return {name: body.strip().rstrip(";") for name, body in zip(names, bodies, strict=True)}


def to_sqlite(sql: str) -> str:
    return _LIST.sub(r"IN (SELECT value FROM json_each(:\1))", sql)


def to_postgres(sql: str) -> str:
    """``:name`` parameters as psycopg writes them."""
    listed = _LIST.sub(r"= ANY (:\1)", sql.replace("%", "%%"))
    return _PARAMETER.sub(r"%(\1)s", listed)
