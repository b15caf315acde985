"""The statements of a transaction on PostgreSQL, in as few messages as possible, and what its errors mean.

Statements have their values in them, so that several go to the server in one message. The driver can write values into
a statement, at three times the cost of all the rest that it does for one. What a connection sends often, the server
prepares: to parse and plan a statement takes it longer than to run it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from limpet.errors import (
    ConstraintFailed,
    StorageError,
    StoreBusy,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
    Unsupported,
)
from limpet.model.late import load_modules
from limpet.store.tables import Statements, to_postgres
from limpet.store.tx import Db, Params, Query, Row

if TYPE_CHECKING:
    import psycopg
    from psycopg.pq.abc import PGresult

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


# By the first two characters of SQLSTATE, or all five.
_ERROR_CLASSES: dict[str, tuple[type[StorageError], str]] = {
    "08": (StoreUnavailable, "the connection to PostgreSQL was lost; nothing of this call was stored, repeat it"),
    "57": (
        StoreUnavailable,
        "PostgreSQL is shutting down or ended the connection; nothing of this call was stored, repeat it",
    ),
    "53": (StoreFull, "PostgreSQL is out of disk, memory or connections"),
    "23": (ConstraintFailed, "PostgreSQL refused a value that would break a constraint"),
    "25006": (StoreReadOnly, "this PostgreSQL is a standby or read-only, and takes no writes; connect to the primary"),
    "25P03": (
        StoreUnavailable,
        "PostgreSQL ended a write that was silent for storage.silence_s; nothing of this call was stored, repeat it",
    ),
    "28": (StoreUnavailable, "PostgreSQL refused the user or password"),
    "40": (StoreBusy, "two writers held each other up; repeat the call"),
    "55P03": (StoreBusy, "another writer holds the row; repeat the call"),
}
_PACKED = {  # how the server packs a column
    "number": "string_agg(int8send(q.{}), '')",
    "bytes": "string_agg(q.{}, '')",
    "text": "json_agg(q.{})",
}
NOT_PREPARED = ("26000", "42P05")  # another session has answered, or somebody has removed what was prepared
_SQLSTATE = ord("C")  # the field of an answer that only an error has
_MAX_UNSENT = 1 << 20  # characters of values that wait with their statements for the next one


def load_driver() -> Any:
    load_modules("psycopg")
    try:
        import psycopg
    except ImportError:
        raise Unsupported('PostgreSQL needs its driver: pip install "limpet[postgres]"') from None
    return psycopg


def translate_error(error: psycopg.Error) -> StorageError:
    state = error.sqlstate or ""
    text = str(error).strip().split("\n")[0]
    known = _ERROR_CLASSES.get(state) or _ERROR_CLASSES.get(state[:2])
    # Without a SQLSTATE the error came from the network, or from the driver that refused a value.
    if not state and isinstance(error, (load_driver().OperationalError, load_driver().InterfaceError)):
        known = _ERROR_CLASSES["08"]
    kind, what = known or (StorageError, "PostgreSQL failed")
    found = kind(f"{what} ({text or type(error).__name__})")
    found.sqlstate = state  # type: ignore[attr-defined]
    return found


@cache
def load_statements() -> Statements:
    return Statements("postgres", to_postgres)


class Answer(NamedTuple):
    """What the server says to one statement: the rows, and how many were changed."""

    rows: list[Row]
    changed: int


def _read_answer(cursor: psycopg.Cursor[Row]) -> Answer:
    is_change = not (cursor.statusmessage or "").startswith("SELECT")
    return Answer(cursor.fetchall() if cursor.description else [], cursor.rowcount if is_change else 0)


class PostgresDb(Db):
    """What waits for the next statement goes to the server in one message with it: each message is a round trip."""

    is_remote = True
    for_update = "FOR UPDATE"
    skip_locked = "FOR UPDATE SKIP LOCKED"

    def __init__(self, connection: psycopg.Connection[Row]) -> None:
        super().__init__(load_statements())
        self._error: type[psycopg.Error] = load_driver().Error
        self.written: int | None = None  # the bucket that the transaction wrote to last; None: it changed nothing
        self.use(connection)

    def _note_write(self, params: Any) -> None:
        """Remember that the transaction changes something, and in which bucket."""
        bucket = params.get("bucket") if isinstance(params, Mapping) else None
        self.written = (self.written or 0) if bucket is None else bucket

    def use(self, connection: psycopg.Connection[Row], *, prepares: bool = False) -> None:
        """Go on with another connection. Nothing that waited is sent."""
        self.raw = connection
        self._prepared = PreparedStatements() if prepares else None
        self._client = load_driver().ClientCursor(connection)
        self._loader = load_driver().adapt.Transformer(connection)
        self._begin: Callable[[Sequence[Statement | str]], list[Answer]] | None = None
        self._unsent: list[Statement | str] = []
        self._unsent_size = 0
        self.is_ending = False
        self.set_snapshot(False)

    def set_snapshot(self, is_one: bool) -> None:
        """Until a snapshot ends, the same read has the same answer."""
        self._is_snapshot = is_one
        self._expected: list[Query] = []  # reads to send along with the next one
        self._answers: dict[tuple[str, ...], list[Row]] = {}

    def begin_later(self, begin: Callable[[Sequence[Statement | str]], list[Answer]]) -> None:
        """``begin`` sends the statements it is given after those that begin a transaction."""
        self._begin = begin

    def drop_unsent(self) -> bool:
        """Return whether a transaction was to begin with what was not sent."""
        is_new, self._begin = self._begin is not None, None
        self._unsent, self._unsent_size = [], 0
        return is_new

    @property
    def is_untouched(self) -> bool:
        """Whether nothing was asked or changed since the transaction was to begin."""
        return self._begin is not None and not self._unsent

    def ensure_begun(self) -> None:
        if self._begin is not None:
            self.ask([])

    def ensure_sent(self) -> None:
        if self._begin is not None or self._unsent:
            self.ask([])

    def ask(self, statements: Sequence[Statement | str]) -> list[Answer]:
        """Send what waits, then these statements, and return the answers to these."""
        begin, unsent = self._begin, self._unsent
        self.drop_unsent()
        answers = (begin or self.send)([*unsent, *statements])
        return answers[len(unsent) :]

    def send(self, statements: Sequence[Statement | str]) -> list[Answer]:
        """The answer to each of the statements, which go to the server in one message: one round trip."""
        prepared = self._prepared
        if prepared is None:
            return self._send_texts([str(each) for each in statements])
        texts, fresh = prepared.format(statements)
        answers = self._send_texts(texts)
        prepared.keep(fresh)
        return answers

    def _send_texts(self, texts: Sequence[str]) -> list[Answer]:
        try:
            self._finish_ending()
            # Without a cursor: for each statement it would make more objects than there are values.
            self.raw.pgconn.send_query(";\n".join(texts).encode())
            results = self.raw.wait(load_driver().generators.execute(self.raw.pgconn))
            answers = [self._read_result(result) for result in results]
            return [answer for answer in answers if answer is not None]
        except self._error as error:
            if error.sqlstate in NOT_PREPARED:
                self._prepared = None
            raise translate_error(error) from error

    def _read_result(self, result: PGresult) -> Answer | None:
        """None for what only prepared a statement, or dropped it."""
        if result.error_field(_SQLSTATE) is not None:
            raise load_driver().errors.error_from_result(result, "utf-8")
        rows: list[Row] = []
        if result.ntuples:
            self._loader.set_pgresult(result)
            rows = self._loader.load_rows(0, result.ntuples, tuple)
        status = result.command_status or b""
        if status in (b"PREPARE", b"DEALLOCATE"):
            return None
        return Answer(rows, 0 if status.startswith(b"SELECT") else result.command_tuples or 0)

    def execute(self, sql: str, params: Any = None) -> list[Row]:
        return self._execute(sql, params).rows

    def run(self, name: str, params: Params) -> int:
        return self._execute(self._sql[name, "", ""], params).changed

    def _execute(self, sql: str, params: Any) -> Answer:
        if isinstance(params, Mapping) or self._begin is not None or self._unsent:
            [answer] = self.ask([self.bind(sql, params) if isinstance(params, Mapping) else self._mogrify(sql, params)])
        else:
            try:
                self._finish_ending()
                answer = _read_answer(self.raw.execute(sql, params))
            except self._error as error:
                raise translate_error(error) from error
        if answer.changed > 0:
            self._note_write(params)
        return answer

    def run_later(self, name: str, params: Params) -> None:
        self._add_unsent(self._sql[name, "", ""], params)

    def run_many(self, name: str, rows: Sequence[Params]) -> None:
        sql = self._sql[name, "", ""]
        for row in rows:
            self._add_unsent(sql, row)

    def _add_unsent(self, sql: str, params: Params) -> None:
        self._note_write(params)
        statement = self.bind(sql, params)
        self._unsent.append(statement)
        self._unsent_size += sum(map(len, statement.values))
        if self._unsent_size > _MAX_UNSENT:
            self.ask([])

    def execute_many(self, sql: str, rows: Sequence[Params]) -> None:
        if not rows:
            return
        self.ensure_sent()
        try:
            self.raw.cursor().executemany(sql, rows)
        except self._error as error:
            raise translate_error(error) from error
        self._note_write(rows[0])

    def all(self, name: str, params: Params, *, where: str = "", order: str = "") -> list[Row]:
        if self._answers or self._expected:
            return self.all_together([Query(name, params, where, order)])[0]
        return super().all(name, params, where=where, order=order)

    def prefetch(self, queries: Sequence[Query]) -> None:
        if self._is_snapshot:  # else an answer may have changed when it is asked for
            self._expected += queries

    def prefetch_locked(self, queries: Sequence[Query]) -> None:
        self._expected += queries

    def all_together(self, queries: Sequence[Query]) -> list[list[Row]]:
        answers = self._answers
        if not (self._is_snapshot or self._expected or answers):
            return [answer.rows for answer in self.ask([self._bind_query(query) for query in queries])]
        wanted = [query.identity for query in queries]
        if any(each not in answers for each in wanted):
            missing = {each.identity: each for each in [*queries, *self._expected] if each.identity not in answers}
            found = self.ask([self._bind_query(query) for query in missing.values()])
            answers |= zip(missing, [answer.rows for answer in found], strict=True)
            self._expected = []
        rows = [answers[each] for each in wanted]
        if not self._is_snapshot:  # what this transaction writes may change the next answer
            for each in wanted:
                answers.pop(each, None)
        return rows

    def lock_and_read(self, lock: Query, queries: Sequence[Query]) -> tuple[bool, list[list[Row]]]:
        locked, *found = self.all_together([lock, *queries])
        return bool(locked), found

    def _bind_query(self, query: Query) -> Statement:
        return self.bind(self._sql[query.name, query.where, query.order], query.params)

    def bind(self, sql: str, params: Params) -> Statement:
        return bind_values(sql, params, self._quote)

    def _quote(self, value: Any) -> str:
        return self._mogrify("%s", [value])

    def _mogrify(self, sql: str, params: Any) -> str:
        try:
            text: str = self._client.mogrify(sql, params)
        except self._error as error:
            raise translate_error(error) from error
        return text

    def end(self) -> None:
        """Roll back a transaction that has only read, without waiting for the answer."""
        self.raw.pgconn.send_query(b"ROLLBACK")
        self.is_ending = True
        if self.raw.pgconn.flush():
            self._finish_ending()

    def _finish_ending(self) -> None:
        if self.is_ending:
            self.is_ending = False
            self.raw.wait(load_driver().generators.fetch_many(self.raw.pgconn))
            if self.raw.info.transaction_status != load_driver().pq.TransactionStatus.IDLE:
                raise load_driver().OperationalError("the last transaction did not end")

    def to_array(self, values: Sequence[int] | Sequence[str]) -> list[Any]:
        return list(values)

    def columns(self, query: Query, **kinds: str) -> list[Any]:
        """Packed by the server, each column in one value: a row of many would cost more than what is in it."""
        import numpy as np  # late: most commands never search

        packed = ", ".join(_PACKED[kind].format(name) for name, kind in kinds.items())
        sql = f"SELECT count(*), {packed} FROM ({self._sql[query.name, query.where, query.order]}) q"
        self.ensure_sent()
        try:
            self._finish_ending()
            [(count, *values)] = self.raw.execute(sql, query.params, binary=True).fetchall()
        except self._error as error:
            raise translate_error(error) from error
        return [
            np.frombuffer(value or b"", ">i8").astype("i8")
            if kind == "number"
            else value or []
            if kind == "text"
            else np.frombuffer(value or b"", "u1").reshape(count, -1 if count else 0)
            for kind, value in zip(kinds.values(), values, strict=True)
        ]
