"""PostgreSQL connections, those that write and those that read, and what their errors mean."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from limpet.config import StorageSettings
from limpet.errors import (
    ConstraintFailed,
    OutcomeUnknown,
    StorageError,
    StoreBusy,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
    Unsupported,
)
from limpet.model.late import load_modules
from limpet.store.encryption_keys import EncryptionRegistry
from limpet.store.tables import Statements, to_postgres
from limpet.store.tx import Caches, Connection, Db, Params, Query, Row, Tx

if TYPE_CHECKING:
    import psycopg

    from limpet.store.tx import Array

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
    "28": (StoreUnavailable, "PostgreSQL refused the user or password"),
    "40": (StoreBusy, "two writers held each other up; repeat the call"),
    "55P03": (StoreBusy, "another writer holds the row; repeat the call"),
}
# Two processes that hold each other up, or that claim the same unique value: the next try sees what the other did.
_TRANSIENT = ("40001", "40P01", "23505")
_BEGIN_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_BEGIN_WRITE = "BEGIN; SET LOCAL lock_timeout = {timeout}"
_MAX_UNSENT = 1 << 20  # characters of statements that wait for the next one
# Writers of different partitions do not wait for each other. What concerns every partition at once, such as encryption
# or another model, waits for all of them, and they for it: by a lock on this table, which writers share and readers do
# not need. Not an advisory lock: those are of one machine where a database is spread over several. Sharing costs
# little: PostgreSQL keeps such weak locks in the process that has them.
_LOCK_STORE = "; LOCK TABLE encryption_changes IN {mode}"
# A writer's numbers rise, and one that does not is refused: see has_committed.
_MARK = (
    "INSERT INTO limpet_writers (bucket, id, number) VALUES ({bucket}, {writer}, {number}) ON CONFLICT (bucket, id)"
    " DO UPDATE SET number = excluded.number / (limpet_writers.number < excluded.number)::int, at = excluded.at"
)
# Waits for the transaction that is to be known, should the server still be at it.
_FIND_MARK = (
    "INSERT INTO limpet_writers (bucket, id, number) VALUES (%(bucket)s, %(writer)s, 0) ON CONFLICT DO NOTHING",
    "SELECT number FROM limpet_writers WHERE bucket = %(bucket)s AND id = %(writer)s FOR UPDATE",
)
# Of this writer, and of those that ended without a word.
_FORGET_MARKS = "DELETE FROM limpet_writers WHERE (bucket = ANY (%s) AND id = %s) OR at < now() - interval '1 day'"
# The setting is of Citus: shard by shard, many shards may change together with a table they refer to. Others ignore it.
_SHARED, _EXCLUSIVE = "ROW SHARE MODE", "EXCLUSIVE MODE; SET LOCAL citus.multi_shard_modify_mode = 'sequential'"


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

    def use(self, connection: psycopg.Connection[Row]) -> None:
        """Go on with another connection. Nothing that waited is sent."""
        self.raw = connection
        self._client = load_driver().ClientCursor(connection)
        self._begin: Callable[[Sequence[str]], list[Answer]] | None = None
        self._unsent: list[str] = []
        self._unsent_size = 0
        self.is_ending = False
        self.set_snapshot(False)

    def set_snapshot(self, is_one: bool) -> None:
        """Until a snapshot ends, the same read has the same answer."""
        self._is_snapshot = is_one
        self._expected: list[Query] = []  # reads to send along with the next one
        self._answers: dict[tuple[str, ...], list[Row]] = {}

    def begin_later(self, begin: Callable[[Sequence[str]], list[Answer]]) -> None:
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

    def ask(self, texts: Sequence[str]) -> list[Answer]:
        """Send what waits, then these statements, and return the answers to these."""
        begin, unsent = self._begin, self._unsent
        self.drop_unsent()
        answers = (begin or self.send)([*unsent, *texts])
        return answers[len(unsent) :]

    def send(self, texts: Sequence[str]) -> list[Answer]:
        """The answer to each of the statements, which go to the server in one message: one round trip."""
        try:
            self._finish_ending()
            cursor = self.raw.execute(";\n".join(texts), prepare=False)
            answers = [_read_answer(cursor)]
            while cursor.nextset():
                answers.append(_read_answer(cursor))
        except self._error as error:
            raise translate_error(error) from error
        return answers

    def execute(self, sql: str, params: Any = None) -> list[Row]:
        return self._execute(sql, params).rows

    def run(self, name: str, params: Params) -> int:
        return self._execute(self._sql[name, "", ""], params).changed

    def _execute(self, sql: str, params: Any) -> Answer:
        if self._begin is not None or self._unsent:
            [answer] = self.ask([self._bind(sql, params)])
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
        text = self._bind(sql, params)
        self._unsent.append(text)
        self._unsent_size += len(text)
        if self._unsent_size > _MAX_UNSENT:
            self.ask([])

    def execute_many(self, sql: str, rows: Sequence[Params]) -> None:
        if not rows:
            return
        if self._begin is not None or self._unsent:
            self.ask([])
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

    def all_together(self, queries: Sequence[Query]) -> list[list[Row]]:
        answers = self._answers if self._is_snapshot else {}
        if any(query.identity not in answers for query in queries):
            missing = {each.identity: each for each in [*queries, *self._expected] if each.identity not in answers}
            found = self.ask([self._bind_query(query) for query in missing.values()])
            answers |= zip(missing, [answer.rows for answer in found], strict=True)
            self._expected = []
        return [answers[query.identity] for query in queries]

    def lock_and_read(self, lock: Query, queries: Sequence[Query]) -> tuple[bool, list[list[Row]]]:
        locked, *found = self.all_together([lock, *queries])
        return bool(locked), found

    def _bind_query(self, query: Query) -> str:
        return self._bind(self._sql[query.name, query.where, query.order], query.params)

    def _bind(self, sql: str, params: Any) -> str:
        """The statement with its values in it, as the driver quotes them."""
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

    def pack_vector(self, values: Sequence[float]) -> str:
        return "[" + ",".join(map(repr, values)) + "]"

    def unpack_vector(self, stored: str) -> tuple[float, ...]:
        return tuple(map(float, stored.strip("[]").split(",")))

    def unpack_matrix(self, stored: Sequence[bytes]) -> Array:
        """From what pgvector sends: two numbers of two bytes, then the vector, all big-endian."""
        import numpy as np  # late: most commands never search

        packed = np.frombuffer(b"".join(stored), dtype=np.uint8).reshape(len(stored), -1)
        vectors: Array = np.ascontiguousarray(packed[:, 4:]).view(">f4").astype(np.float32)
        return vectors

    def compute_cosines(
        self, key: Params, model_id: int, ordinals: Sequence[int], question: Sequence[float]
    ) -> dict[int, float]:
        params = {"model_id": model_id, "ordinals": self.to_array(ordinals), "question": self.pack_vector(question)}
        found = self.all("vectors.some", {**key, **params})
        return {ordinal: 0.0 if cosine != cosine else cosine for ordinal, cosine in found}  # noqa: PLR0124 - NaN


def _keepalive_options(silence_s: int) -> dict[str, int]:
    """A network that swallows everything, or a machine that is gone, is found out: else a call waits for hours."""
    if not silence_s:
        return {}
    return {
        "tcp_user_timeout": silence_s * 1000,
        "keepalives_idle": silence_s,
        "keepalives_interval": max(1, silence_s // 3),
        "keepalives_count": 3,
    }


class PostgresConnection(Connection):
    """It is made again after it was lost."""

    db: PostgresDb

    def __init__(
        self,
        url: str,
        config: StorageSettings,
        caches: Caches | None = None,
        encryption: EncryptionRegistry | None = None,
        *,
        reader: bool = False,
    ) -> None:
        self._url = url
        self._encryption = encryption or EncryptionRegistry()
        self._caches = caches or Caches()
        self._config = config
        self._reader = reader
        self._writer: int | None = None
        self._number = 0
        self._marked: tuple[int, int] | None = None  # the last transaction's bucket, and its number there
        self._buckets: set[int] = set()  # where any did
        self.connect()

    def connect(self) -> None:
        if hasattr(self, "db"):
            self.db.raw.close()
        raw = self._open()
        if hasattr(self, "db"):
            self.db.use(raw)
            return
        self.db = PostgresDb(raw)
        self.tx = Tx(self.db, self._caches, self._encryption)

    def _open(self) -> psycopg.Connection[Row]:
        driver = load_driver()
        try:
            given = driver.conninfo.conninfo_to_dict(self._url)
            alive = {
                name: value for name, value in _keepalive_options(self._config.silence_s).items() if name not in given
            }
            raw: psycopg.Connection[Row] = driver.connect(
                self._url,
                autocommit=True,
                connect_timeout=self._config.connect_timeout_s,
                prepare_threshold=5 if self._config.prepare_statements else None,
                **alive,
            )
        except driver.Error as error:
            text = str(error).strip().split("\n")[0]
            raise StoreUnavailable(
                f"PostgreSQL cannot be reached: {text}; check the address, user and server"
            ) from error
        return raw

    def begin(self, *, exclusive: bool = False) -> None:
        """With the first statement, in one message. An exclusive one begins at once: it may wait for others to end."""
        self.rollback()  # of what an interrupt left open
        if self.db.raw.closed:
            self.connect()
        self.tx.seen = self.db.written = self._marked = None
        self.db.set_snapshot(self._reader)
        if self._encryption.is_ready:
            self.db.begin_later(partial(self._begin_and_send, exclusive=exclusive))
            if exclusive:
                self.db.ensure_begun()
        else:
            self.db.execute(_BEGIN_READ if self._reader else self._format_begin())

    def _format_begin(self) -> str:
        return _BEGIN_WRITE.format(timeout=self._config.busy_timeout_ms)

    def _begin_and_send(self, texts: Sequence[str], *, exclusive: bool) -> list[Answer]:
        """A connection that went stale while idle is made again. Nothing that was sent on it is committed."""
        try:
            answers = self._send_with_begin(texts, exclusive=exclusive)
        except StoreUnavailable:
            self.connect()
            answers = self._send_with_begin(texts, exclusive=exclusive)
        opening = len(answers) - len(texts)
        [(generation,)] = answers[opening - 1].rows or [(0,)]
        self.tx.load_encryption(int(generation), writing=not self._reader)
        return answers[opening:]

    def _send_with_begin(self, texts: Sequence[str], *, exclusive: bool) -> list[Answer]:
        if self._reader:
            begin = _BEGIN_READ
        else:
            if self._writer is None:
                self._register()
            begin = self._format_begin() + _LOCK_STORE.format(mode=_EXCLUSIVE if exclusive else _SHARED)
        # After the lock: how often encryption was changed.
        return self.db.send([begin, load_statements()["encryption.generation", "", ""], *texts])

    def commit(self) -> None:
        """When the answer to COMMIT is lost, the server is asked what became of the transaction."""
        if self.db.is_untouched:
            self.db.drop_unsent()
            return
        self.db.ensure_begun()
        try:
            self.db.ask([*self._number_transaction(), "COMMIT"])
        except StoreUnavailable:
            if not self.has_committed():
                raise

    def _number_transaction(self) -> list[str]:
        """Return the statement that numbers the transaction, in a row of this writer's which is there if all else is.

        It lies in the bucket that was written to: on several machines, what one has is committed as a whole. Ids of
        transactions prove nothing: each machine has its own, and gives out again those that it forgets in a crash.
        """
        bucket = self.db.written
        if self._writer is None or bucket is None:
            return []
        self._number += 1
        self._marked = bucket, self._number
        self._buckets.add(bucket)
        return [_MARK.format(bucket=bucket, writer=self._writer, number=self._number)]

    def read_value(self, sql: str) -> int:
        """The number that a statement answers, outside of a transaction. One that went stale is made again."""
        if self.db.raw.closed:
            self.connect()
        try:
            return int(self.db.execute(sql)[0][0])
        except StoreUnavailable:
            self.connect()
            return int(self.db.execute(sql)[0][0])

    def _register(self) -> None:
        """Get an id for the rows that number this writer's transactions, before the first of them."""
        self._writer = self.db.send(["SELECT nextval('limpet_writer_ids')"])[0].rows[0][0]

    def has_committed(self) -> bool:
        if self._marked is None:
            return False
        bucket, wanted = self._marked
        mark = {"bucket": bucket, "writer": self._writer}
        deadline = time.monotonic() + self._config.connect_timeout_s
        while time.monotonic() < deadline:
            with suppress(StorageError):
                self.connect()
                self.db.execute(_BEGIN_WRITE.format(timeout=self._config.connect_timeout_s * 1000))
                _, [(number,)] = [self.db.execute(sql, mark) for sql in _FIND_MARK]
                if number == wanted:
                    self.db.execute("ROLLBACK")
                    return True
                # It may still arrive, late. Then it must fail: its caller was told that nothing was stored.
                self._number += 1
                self.db.send([_MARK.format(**mark, number=self._number), "COMMIT"])
                self._marked = None
                return False
            time.sleep(0.1)
        raise OutcomeUnknown(
            "PostgreSQL was lost during the commit and cannot be asked what became of it; "
            "look whether the write is there before repeating it, or give writes an idempotency_key"
        )

    def rollback(self) -> None:
        """A connection that cannot roll back, as after an interrupt within a statement, is closed."""
        psycopg = load_driver()
        raw, statuses = self.db.raw, psycopg.pq.TransactionStatus
        self.db.set_snapshot(False)
        if self.db.drop_unsent() or self.db.is_ending or raw.closed:
            return
        with suppress(psycopg.Error):
            if self._reader and raw.info.transaction_status == statuses.INTRANS:
                self.db.end()
                return
            if raw.info.transaction_status != statuses.IDLE:
                raw.execute("ROLLBACK")
        if raw.info.transaction_status != statuses.IDLE:
            raw.close()

    def is_transient(self, error: StorageError) -> bool:
        return getattr(error, "sqlstate", "") in _TRANSIENT

    def close(self) -> None:
        if not hasattr(self, "db"):  # it may never have been reached
            return
        idle = load_driver().pq.TransactionStatus.IDLE
        if self._writer is not None and self.db.raw.info.transaction_status == idle:
            with suppress(StorageError):  # a server that is gone keeps a row nobody needs
                self.db.execute(_FORGET_MARKS, [sorted(self._buckets), self._writer])
                self._writer = None
        self.db.raw.close()
