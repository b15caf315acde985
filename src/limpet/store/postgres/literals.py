"""Statements with their values in them, so that several go to the server in one message.

The driver can do it, at three times the cost of all the rest that it does for a statement.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

_PLACEHOLDER = re.compile(r"%\((\w+)\)s|%%")


def _quote_text(value: str) -> str:
    """As PostgreSQL's own library does it, so that no setting of the server changes what it means."""
    quoted = value.replace("'", "''")
    return f"'{quoted}'" if "\\" not in quoted else " E'" + quoted.replace("\\", "\\\\") + "'"


_LITERALS: Mapping[type, Callable[[Any], str]] = {
    type(None): lambda _: "NULL",
    int: lambda value: str(value) if value >= 0 else f" {value}",  # two minus signs would begin a comment
    str: _quote_text,
    bytes: lambda value: f" E'\\\\x{value.hex()}'::bytea",
}


@lru_cache(4096)
def _split_statement(sql: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The texts around the placeholders, and the names of those."""
    texts, names, end = [""], [], 0
    for found in _PLACEHOLDER.finditer(sql):
        texts[-1] += sql[end : found.start()]
        end = found.end()
        if found[1] is None:
            texts[-1] += "%"
        else:
            names.append(found[1])
            texts.append("")
    texts[-1] += sql[end:]
    return tuple(texts), tuple(names)


def bind_values(sql: str, params: Mapping[str, Any], quote_other: Callable[[Any], str]) -> str:
    """``quote_other`` is for values that are neither text, bytes, a whole number nor None, and for text with a NUL."""
    texts, names = _split_statement(sql)
    pieces = [texts[0]]
    for name, text in zip(names, texts[1:], strict=True):
        value = params[name]
        quote = _LITERALS.get(type(value), quote_other)
        pieces += (quote_other if quote is _quote_text and "\0" in value else quote)(value), text
    return "".join(pieces)
