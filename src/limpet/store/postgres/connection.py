"""PostgreSQL connections, those that write and those that read."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from limpet.config import StorageSettings
from limpet.errors import OutcomeUnknown, StorageError, StoreUnavailable
from limpet.store.encryption_keys import EncryptionRegistry
from limpet.store.postgres.db import NOT_PREPARED, Answer, PostgresDb, Statement, load_driver, load_statements
from limpet.store.tx import NO_PARAMS, Caches, Connection, Row, Tx

if TYPE_CHECKING:
    import psycopg


# Two processes that hold each other up, or that claim the same unique value: the next try sees what the other did.
_TRANSIENT = ("40001", "40P01", "23505")
_BEGIN_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_BEGIN_WRITE = "BEGIN; SET LOCAL lock_timeout = {timeout}"
# A writer that went silent is ended by the server: it may be cut off, and what it locked is locked for all. For the
# transaction alone, so that it also works where connections are shared by a pooler.
_LIMIT_SILENCE = "; SET LOCAL idle_in_transaction_session_timeout = {silence}"
# Writers of different partitions do not wait for each other. What concerns every partition at once, such as encryption
# or another model, waits for all of them, and they for it: by a lock on this table, which writers share and readers do
# not need. Not an advisory lock: those are of one machine where a database is spread over several. Sharing costs
# little: PostgreSQL keeps such weak locks in the process that has them.
_LOCK_STORE = "; LOCK TABLE encryption_changes IN {mode}"
# A writer's numbers rise, and one that does not is refused: see has_committed.
_MARK = (
    "INSERT INTO limpet_writers (bucket, id, number) VALUES (%(bucket)s, %(writer)s, %(number)s)"
    " ON CONFLICT (bucket, id) DO UPDATE"
    " SET number = excluded.number / (limpet_writers.number < excluded.number)::int, at = excluded.at"
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


def _is_direct(raw: psycopg.Connection[Row]) -> bool:
    """Whether no pooler is between: it names no process of the server's, for each transaction may run in another."""
    row = raw.execute("SELECT pg_backend_pid()").fetchone()
    return row is not None and row[0] == raw.info.backend_pid


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
        raw, prepares = self._open()
        if not hasattr(self, "db"):
            self.db = PostgresDb(raw)
            self.tx = Tx(self.db, self._caches, self._encryption)
        self.db.use(raw, prepares=prepares)

    def _open(self) -> tuple[psycopg.Connection[Row], bool]:
        """A connection, and whether statements may be prepared on it."""
        driver = load_driver()
        try:
            given = driver.conninfo.conninfo_to_dict(self._url)
            alive = {
                name: value for name, value in _keepalive_options(self._config.silence_s).items() if name not in given
            }
            raw: psycopg.Connection[Row] = driver.connect(
                self._url,
                autocommit=True,
                client_encoding="UTF8",
                connect_timeout=self._config.connect_timeout_s,
                prepare_threshold=None,
                **alive,
            )
            return raw, self._config.prepare_statements and _is_direct(raw)
        except driver.Error as error:
            text = str(error).strip().split("\n")[0]
            raise StoreUnavailable(
                f"PostgreSQL cannot be reached: {text}; check the address, user and server"
            ) from error

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

    def _begin_and_send(self, statements: Sequence[Statement | str], *, exclusive: bool) -> list[Answer]:
        """A connection that went stale while idle is made again. Nothing that was sent on it is committed."""
        try:
            answers = self._send_with_begin(statements, exclusive=exclusive)
        except StoreUnavailable:
            self.connect()
            answers = self._send_with_begin(statements, exclusive=exclusive)
        opening = len(answers) - len(statements)
        [(generation,)] = answers[opening - 1].rows or [(0,)]
        self.tx.load_encryption(int(generation), writing=not self._reader)
        return answers[opening:]

    def _send_with_begin(self, statements: Sequence[Statement | str], *, exclusive: bool) -> list[Answer]:
        if self._reader:
            begin = _BEGIN_READ
        else:
            if self._writer is None:
                self._register()
            begin = self._format_begin() + _LOCK_STORE.format(mode=_EXCLUSIVE if exclusive else _SHARED)
            if not exclusive:  # the others compute for long in between, such as a repair
                begin += _LIMIT_SILENCE.format(silence=self._config.silence_s * 1000)
        # After the lock: how often encryption was changed.
        generation = self.db.bind(load_statements()["encryption.generation", "", ""], NO_PARAMS)
        return self.db.send([begin, generation, *statements])

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

    def _number_transaction(self) -> list[Statement]:
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
        return [self.db.bind(_MARK, {"bucket": bucket, "writer": self._writer, "number": self._number})]

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
                self.db.send([self.db.bind(_MARK, {**mark, "number": self._number}), "COMMIT"])
                self._marked = None
                return False
            time.sleep(0.1)
        raise OutcomeUnknown(
            "the connection to PostgreSQL was lost during the commit, and the result is unknown; "
            "check whether the write is there before you repeat it, or use an idempotency_key"
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
        return getattr(error, "sqlstate", "") in (*_TRANSIENT, *NOT_PREPARED)

    def close(self) -> None:
        if not hasattr(self, "db"):  # it may never have been reached
            return
        idle = load_driver().pq.TransactionStatus.IDLE
        if self._writer is not None and self.db.raw.info.transaction_status == idle:
            with suppress(StorageError):  # a server that is gone keeps a row nobody needs
                self.db.execute(_FORGET_MARKS, [sorted(self._buckets), self._writer])
                self._writer = None
        self.db.raw.close()
