"""Statements with their values in them, so that several go to the server in one message.

The driver can write values into a statement, at three times the cost of all the rest that it does for one.

What a connection sends often, the server prepares: to parse and plan a statement takes it longer than to run it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

_PLACEHOLDER = re.compile(r"%\((\w+)\)s|%%")
_USES = 5  # after as many a statement is prepared
# After as many it is prepared again. A plan for any values was made for tables as large as they were then, and a small
# one it reads as a whole. PostgreSQL notices growth when it has analysed the table, and never in an open transaction.
_MAX_USES = 1000
_MAX_PREPARED = 200  # of a connection: each takes some of the server's memory


class Template:
    """A statement with places for values. Each has one object, by which it is looked up."""

    __slots__ = ("names", "pieces")

    def __init__(self, sql: str) -> None:
        pieces, names, end = [""], list[str](), 0
        for found in _PLACEHOLDER.finditer(sql):
            pieces[-1] += sql[end : found.start()]
            end = found.end()
            if found[1] is None:
                pieces[-1] += "%"
            else:
                names.append(found[1])
                pieces.append("")
        pieces[-1] += sql[end:]
        # Of each value, a name as often as it comes: the server may take it for one type here and another there.
        self.names = names
        self.pieces = pieces  # the text around the values

    def format(self, values: Iterable[str]) -> str:
        first, *rest = self.pieces
        return first + "".join([part for pair in zip(values, rest, strict=True) for part in pair])

    def format_prepare(self, name: str) -> str:
        return f"PREPARE {name} AS {self.format(f'${number}' for number in range(1, len(self.pieces)))}"


get_template = lru_cache(4096)(Template)


class Statement(NamedTuple):
    """A template with its values, as SQL writes them."""

    template: Template
    values: Sequence[str]

    def __str__(self) -> str:
        return self.template.format(self.values)

    def format_execute(self, name: str) -> str:
        return f"EXECUTE {name}({', '.join(self.values)})" if self.values else f"EXECUTE {name}"


def bind_values(sql: str, params: Mapping[str, Any], quote_other: Callable[[Any], str]) -> Statement:
    """``quote_other`` is for values that are neither text, bytes, a whole number nor None, and for text with a NUL."""
    template = get_template(sql)
    values: list[str] = []
    for name in template.names:  # an append has nearly a hundred values: no call for most of them
        value = params[name]
        kind = type(value)
        if kind is int:
            values.append(str(value) if value >= 0 else f" {value}")  # two minus signs would begin a comment
        elif value is None:
            values.append("NULL")
        elif kind is str and "\0" not in value:
            values.append(_quote_text(value))
        elif kind is bytes:
            values.append(f" E'\\\\x{value.hex()}'::bytea")
        else:
            values.append(quote_other(value))
    return Statement(template, values)


def _quote_text(value: str) -> str:
    """As PostgreSQL's own library does it, so that no setting of the server changes what it means."""
    quoted = value.replace("'", "''")
    return f"'{quoted}'" if "\\" not in quoted else " E'" + quoted.replace("\\", "\\\\") + "'"


class PreparedStatements:
    """What one connection has prepared on the server, in the words of SQL: so it goes along in the same message."""

    def __init__(self) -> None:
        self._uses: dict[Template, int] = {}
        self._names: dict[Template, str] = {}
        self._next = 1

    def format(self, statements: Sequence[Statement | str]) -> tuple[list[str], dict[Template, str]]:
        """Return the text to send for the statements, and what is prepared once the server has answered all of it."""
        texts: list[str] = []
        fresh: dict[Template, str] = {}
        for each in statements:
            if isinstance(each, str):
                texts.append(each)
                continue
            template = each.template
            uses = self._uses[template] = self._uses.get(template, 0) + 1
            name = self._names.get(template) or fresh.get(template)
            if name is None and uses > _USES and len(self._names) + len(fresh) < _MAX_PREPARED:
                # After a failure nobody knows whether the server has it: no name is tried twice.
                name = fresh[template] = f"limpet_{self._next}"
                self._next += 1
                texts.append(template.format_prepare(name))
            texts.append(str(each) if name is None else each.format_execute(name))
            if name is not None and uses >= _MAX_USES:
                texts.append(f"DEALLOCATE {name}")
                self._forget(template, fresh)
        return texts, fresh

    def keep(self, fresh: Mapping[Template, str]) -> None:
        self._names |= fresh

    def _forget(self, template: Template, fresh: dict[Template, str]) -> None:
        for each in (self._names, self._uses, fresh):
            each.pop(template, None)
