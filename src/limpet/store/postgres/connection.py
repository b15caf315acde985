"""PostgreSQL connections, those that write and those that read, and what their errors mean."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any

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
# Writers of different partitions do not wait for each other. What concerns every partition at once, such as encryption
# or another model, waits for all of them, and they for it: by a lock on this table, which writers share and readers do
# not need. Not an advisory lock: those are of one machine where a database is spread over several. Sharing costs
# little: PostgreSQL keeps such weak locks in the process that has them.
_LOCK_STORE = "; LOCK TABLE encryption_changes IN {mode} MODE"
_SHARED, _EXCLUSIVE = "ROW SHARE", "EXCLUSIVE"


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


class PostgresDb(Db):
    for_update = "FOR UPDATE"
    skip_locked = "FOR UPDATE SKIP LOCKED"

    def __init__(self, connection: psycopg.Connection[Row]) -> None:
        super().__init__(load_statements())
        self.raw = connection
        self._error: type[psycopg.Error] = load_driver().Error

    def run(self, name: str, params: Params) -> int:
        try:
            return self.raw.execute(self._sql[name, "", ""], params).rowcount
        except self._error as error:
            raise translate_error(error) from error

    def execute_many(self, sql: str, rows: Sequence[Params]) -> None:
        if not rows:
            return
        try:
            self.raw.cursor().executemany(sql, rows)
        except self._error as error:
            raise translate_error(error) from error

    def execute(self, sql: str, params: Any = None) -> list[Row]:
        try:
            cursor = self.raw.execute(sql, params)
            return cursor.fetchall() if cursor.description else []
        except self._error as error:
            raise translate_error(error) from error

    def fetch_last_value(self, statements: str) -> Any:
        """The one value that the last of several statements answers."""
        try:
            cursor = self.raw.execute(statements)
            while cursor.nextset():
                pass
            found = cursor.fetchone()
        except self._error as error:
            raise translate_error(error) from error
        return None if found is None else found[0]

    def fetch_raw_value(self, statements: str) -> bytes | None:
        """The same, as text, without what makes a cursor: reads are short, and begin all the time."""
        try:
            result = self.raw.pgconn.exec_(statements.encode())
            if result.status != load_driver().pq.ExecStatus.TUPLES_OK:
                failed = load_driver().errors.error_from_result(result)
                # Without a code it is no answer of the server: the connection was lost.
                raise failed if failed.sqlstate else load_driver().OperationalError(str(failed))
        except self._error as error:
            raise translate_error(error) from error
        found: bytes | None = result.get_value(0, 0)
        return found

    def all_together(self, queries: Sequence[Query]) -> list[list[Row]]:
        if len(queries) < 2:
            return super().all_together(queries)
        try:
            client = load_driver().ClientCursor(self.raw)
            texts = [client.mogrify(self._sql[name, where, order], params) for name, params, where, order in queries]
            cursor = self.raw.execute("; ".join(texts), prepare=False)
            found = [cursor.fetchall()]
            while cursor.nextset():
                found.append(cursor.fetchall())
        except self._error as error:
            raise translate_error(error) from error
        return found

    def lock_and_read(
        self, lock: tuple[str, Params], name: str, params: Params, *, where: str = "", order: str = ""
    ) -> tuple[bool, Row | None]:
        locking, locking_params = lock
        try:
            client = load_driver().ClientCursor(self.raw)
            locking = client.mogrify(self._sql[locking, "", self.for_update], locking_params)
            reading = client.mogrify(self._sql[name, where, order], params)
            cursor = self.raw.execute(f"{locking}; {reading}", prepare=False)
            is_locked = cursor.fetchone() is not None
            cursor.nextset()
            return is_locked, cursor.fetchone()
        except self._error as error:
            raise translate_error(error) from error

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
        self._marked = False
        self.connect()

    def connect(self) -> None:
        if hasattr(self, "db"):
            self.db.raw.close()
        psycopg = load_driver()
        try:
            given = psycopg.conninfo.conninfo_to_dict(self._url)
            alive = {
                name: value for name, value in _keepalive_options(self._config.silence_s).items() if name not in given
            }
            raw = psycopg.connect(
                self._url,
                autocommit=True,
                connect_timeout=self._config.connect_timeout_s,
                prepare_threshold=5 if self._config.prepare_statements else None,
                **alive,
            )
        except psycopg.Error as error:
            text = str(error).strip().split("\n")[0]
            raise StoreUnavailable(
                f"PostgreSQL cannot be reached: {text}; check the address, user and server"
            ) from error
        self.db = PostgresDb(raw)
        self.tx = Tx(self.db, self._caches, self._encryption)

    def begin(self, *, exclusive: bool = False) -> None:
        """A connection that went stale while idle is made again; nothing was sent on it yet."""
        self.rollback()  # of what an interrupt left open
        if self.db.raw.closed:
            self.connect()
        self.tx.seen = None
        try:
            self._begin_transaction(exclusive=exclusive)
        except StoreUnavailable:
            self.connect()
            self._begin_transaction(exclusive=exclusive)

    def _begin_transaction(self, *, exclusive: bool) -> None:
        begin = _BEGIN_READ if self._reader else _BEGIN_WRITE.format(timeout=self._config.busy_timeout_ms)
        if not self._encryption.is_ready:
            self.db.execute(begin)
            return
        if not self._reader:
            if self._writer is None:
                self._register()
            begin += _LOCK_STORE.format(mode=_EXCLUSIVE if exclusive else _SHARED)
        # In the same message, and after the lock.
        both = f"{begin}; {load_statements()['encryption.generation', '', '']}"
        generation = self.db.fetch_raw_value(both) if self._reader else self.db.fetch_last_value(both)
        self.tx.load_encryption(int(generation or 0), writing=not self._reader)

    def commit(self) -> None:
        """When the answer to COMMIT is lost, the server is asked what became of the transaction."""
        self._number_transaction()
        try:
            self.db.execute("COMMIT")
        except StoreUnavailable:
            if not self.has_committed():
                raise

    def _number_transaction(self) -> None:
        """Number the transaction in a row of this writer's own, which is there if and only if all the rest is.

        A transaction's own number proves nothing: after a crash the server gives out again those it has forgotten.
        """
        self._marked = False
        if self._writer is None or self.db.raw.info.transaction_status != load_driver().pq.TransactionStatus.INTRANS:
            return
        self._number += 1
        changed = self.db.execute(
            "UPDATE limpet_writers SET number = %s"
            " WHERE id = %s AND pg_current_xact_id_if_assigned() IS NOT NULL RETURNING id",
            [self._number, self._writer],
        )
        self._marked = bool(changed)

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
        """Get the row that numbers this writer's transactions, before the first of them."""
        self._writer = self.db.execute("INSERT INTO limpet_writers (number) VALUES (0) RETURNING id")[0][0]

    def has_committed(self) -> bool:
        if not self._marked:
            return False
        deadline = time.monotonic() + self._config.connect_timeout_s
        while time.monotonic() < deadline:
            with suppress(StorageError):
                self.connect()
                # Waits for the old connection's transaction, should the server still be at it.
                self.db.execute(_BEGIN_WRITE.format(timeout=self._config.connect_timeout_s * 1000))
                [(number,)] = self.db.execute(
                    "SELECT number FROM limpet_writers WHERE id = %s FOR UPDATE", [self._writer]
                )
                self.db.execute("ROLLBACK")
                return bool(number == self._number)
            time.sleep(0.1)
        raise OutcomeUnknown(
            "PostgreSQL was lost during the commit and cannot be asked what became of it; "
            "look whether the write is there before repeating it, or give writes an idempotency_key"
        )

    def rollback(self) -> None:
        """A connection that cannot roll back, as after an interrupt within a statement, is closed."""
        psycopg = load_driver()
        raw, idle = self.db.raw, psycopg.pq.TransactionStatus.IDLE
        if raw.closed:
            return
        with suppress(psycopg.Error):
            if raw.info.transaction_status != idle:
                raw.execute("ROLLBACK")
        if raw.info.transaction_status != idle:
            raw.close()

    def is_transient(self, error: StorageError) -> bool:
        return getattr(error, "sqlstate", "") in _TRANSIENT

    def close(self) -> None:
        if not hasattr(self, "db"):  # it may never have been reached
            return
        idle = load_driver().pq.TransactionStatus.IDLE
        if self._writer is not None and self.db.raw.info.transaction_status == idle:
            with suppress(StorageError):  # a server that is gone keeps a row nobody needs
                self.db.execute("DELETE FROM limpet_writers WHERE id = %s", [self._writer])
                self._writer = None
        self.db.raw.close()
