"""A transaction: one connection, the encryption its rows need, and what this process has cached.

Repositories are made from it where they are used: ``Records(tx).get(…)``.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from limpet.errors import KeyMissing, StorageError
from limpet.model.scope import BUCKETS, Partition, Scope

if TYPE_CHECKING:
    import numpy as np

    from limpet.model.chunk import Terms
    from limpet.store.encryption import EncryptedColumn, EncryptedColumns, RowLayout
    from limpet.store.encryption_keys import EncryptionRegistry
    from limpet.store.tables import Statements

    Array = np.ndarray[Any, np.dtype[Any]]
else:
    Array = Any  # annotations can be read without numpy

T = TypeVar("T")
Params = Mapping[str, Any]
Row = tuple[Any, ...]
NO_PARAMS: Params = {}


class Query(NamedTuple):
    """A named statement with its parameters and clauses."""

    name: str
    params: Params
    where: str = ""
    order: str = ""

    @property
    def identity(self) -> tuple[str, ...]:
        return self.name, self.where, self.order, repr(sorted(self.params.items()))


class Db:
    """One connection inside a transaction. Driver errors leave it as errors of ours. Each dialect has a subclass."""

    # Appended to a select whose rows must not change before the transaction ends; empty where one writer is the rule.
    for_update = ""
    # The same, passing over rows that somebody else holds.
    skip_locked = ""
    # Whether every message costs a wait, so that it pays to send reads together.
    is_remote = False

    def __init__(self, statements: Statements) -> None:
        self._sql = statements

    def one(self, name: str, params: Params, *, where: str = "", order: str = "") -> Row | None:
        rows = self.all(name, params, where=where, order=order)
        return rows[0] if rows else None

    def all(self, name: str, params: Params, *, where: str = "", order: str = "") -> list[Row]:
        return self.execute(self._sql[name, where, order], params)

    def get_property(self, name: str) -> str | None:
        row = self.one("properties.get", {"name": name})
        return None if row is None else str(row[0])

    def set_property(self, name: str, value: str) -> None:
        self.run("properties.set", {"name": name, "value": value})

    def all_together(self, queries: Sequence[Query]) -> list[list[Row]]:
        """The rows of each, of reads that do not need each other's answer: over a network, in one message."""
        return [self.all(name, params, where=where, order=order) for name, params, where, order in queries]

    def prefetch(self, queries: Sequence[Query]) -> None:
        """Reads that the transaction will ask for: over a network they are sent along with the next one."""

    def prefetch_locked(self, queries: Sequence[Query]) -> None:
        """The same in a transaction that writes, of rows that its next statement locks. Each answers once."""

    def lock_and_read(self, lock: Query, queries: Sequence[Query]) -> tuple[bool, list[list[Row]]]:
        """Lock a row, then read in statements of their own, which see what the last holder of the lock has written.

        Return whether there is a row to lock, and the rows of each. Only where there are several writers.
        """
        raise NotImplementedError

    def run(self, name: str, params: Params) -> int:
        """The number of rows changed."""
        raise NotImplementedError

    def run_later(self, name: str, params: Params) -> None:
        """A change whose result nobody needs. Over a network it goes with the next statement, and so may its error."""
        self.run(name, params)

    def run_many(self, name: str, rows: Sequence[Params]) -> None:
        self.execute_many(self._sql[name, "", ""], rows)

    def ensure_begun(self) -> None:
        """Begin the transaction, where that waits for the first statement."""

    def execute(self, sql: str, params: Any = NO_PARAMS) -> list[Row]:
        """A statement in the driver's own words."""
        raise NotImplementedError

    def execute_many(self, sql: str, rows: Sequence[Params]) -> None:
        raise NotImplementedError

    def execute_sql(self, sql: str, params: Params = NO_PARAMS) -> list[Row]:
        """A statement made by code from table and column names, for what treats all tables alike."""
        return self.execute(self._sql.finish(sql), params)

    def execute_sql_many(self, sql: str, rows: Sequence[Params]) -> None:
        self.execute_many(self._sql.finish(sql), rows)

    def to_array(self, values: Sequence[int] | Sequence[str]) -> Any:
        """A list of whole numbers or texts as this driver passes it for ``:name[]``."""
        raise NotImplementedError

    def columns(self, query: Query, **kinds: str) -> list[Any]:
        """The columns of a query instead of its rows, each by name as ``kinds`` says.

        ``number``: an array of whole numbers. ``bytes``: of equal length, an array of bytes with a row each.
        ``text``: a list, with None for what is not there.
        """
        import numpy as np  # late: most commands never search

        rows = self.all(*query[:2], where=query.where, order=query.order)
        columns: Any = zip(*rows, strict=True) if rows else [()] * len(kinds)
        return [
            np.array(values, "i8")
            if kind == "number"
            else list(values)
            if kind == "text"
            else np.frombuffer(b"".join(values), "u1").reshape(len(rows), -1 if rows else 0)
            for kind, values in zip(kinds.values(), columns, strict=True)
        ]


class Cipher:
    """What the values of a tenant go through. Of one that is not encrypted, they stay as they are."""

    is_encrypted = False

    def encrypt_params(self, encrypted: EncryptedColumns, row: object, values: Params) -> Params:
        """The values with those of encrypted columns encrypted."""
        return values

    def decrypt_row(self, shape: RowLayout, row: object, values: Row) -> Row:
        return values

    def encrypt_deterministic(self, column: EncryptedColumn, text: str) -> str:
        """What the database has where it has this text."""
        return text

    def encrypt_all_deterministic(self, column: EncryptedColumn, texts: Iterable[str]) -> list[str]:
        return [self.encrypt_deterministic(column, text) for text in texts]

    def hash_terms(self, terms: Terms) -> Terms:
        return terms

    def hash_term(self, term: int) -> int:
        return term


PLAINTEXT = Cipher()
_MEGABYTE = 1 << 20


class CacheValue(Protocol):
    @property
    def nbytes(self) -> int: ...


V = TypeVar("V", bound=CacheValue)


class Cache(Generic[V]):
    """The longest unused go first when all together are too large; the latest stays whatever its size.

    One without any room remembers nothing at all.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, V] = OrderedDict()
        self._sizes: dict[Hashable, int] = {}
        self._total = 0

    def get(self, key: Hashable) -> V | None:
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
            return found

    def put(self, key: Hashable, value: V) -> None:
        """Also for one that has grown since."""
        if not self._max_bytes:
            return
        with self._lock:
            self._kept[key] = value
            self._kept.move_to_end(key)
            self._count(key, value.nbytes)
            while len(self._kept) > 1 and self._total > self._max_bytes:
                gone, _ = self._kept.popitem(last=False)
                self._count(gone, 0)
                del self._sizes[gone]

    def setdefault(self, key: Hashable, fresh: V) -> V:
        """What is kept under the key, or else the fresh one, which is kept from now on: the same for every caller."""
        if not self._max_bytes:
            return fresh
        with self._lock:
            kept = self._kept.setdefault(key, fresh)
            self._count(key, kept.nbytes)
            return kept

    def list_keys(self) -> list[Hashable]:
        with self._lock:
            return list(self._kept)

    def drop(self, key: Hashable) -> None:
        with self._lock:
            if self._kept.pop(key, None) is not None:
                self._count(key, 0)
                del self._sizes[key]

    def _count(self, key: Hashable, size: int) -> None:
        self._total += size - self._sizes.get(key, 0)
        self._sizes[key] = size

    @property
    def nbytes(self) -> int:
        with self._lock:
            return self._total


class CacheKind(Generic[V]):
    """A kind of cached value, and its share of the memory for caches."""

    def __init__(self, name: str, share: float) -> None:
        self.name = name
        self.share = share


class Caches:
    """One cache of each kind. The key of a value is its partition's id, or a tuple that begins with it."""

    def __init__(self, megabytes: int = 256) -> None:
        self._max_bytes = megabytes * _MEGABYTE
        self._lock = threading.Lock()
        self._caches: dict[str, Cache[Any]] = {}
        self.purges: str | None = None  # the store's count of purges when these were last compared with it
        self.has_purged_texts = False  # something was forgotten: caches of texts are emptied after a transaction
        self.texts_kept_until = 0.0  # by the monotonic clock
        self.models: dict[str, Row] = {}  # embedding models by name: number and dimension, which never change

    def get(self, kind: CacheKind[V]) -> Cache[V]:
        found = self._caches.get(kind.name)
        if found is None:
            with self._lock:
                found = self._caches.setdefault(kind.name, Cache(int(self._max_bytes * kind.share)))
        return found

    @property
    def nbytes(self) -> int:
        """For `limpet bench speed`."""
        return sum(cache.nbytes for cache in self._all_caches())

    def list_partitions(self) -> list[int]:
        return sorted({_partition_id(key) for cache in self._all_caches() for key in cache.list_keys()})

    def drop_partition(self, partition_id: int) -> None:
        """Drop whatever is cached of a partition that was purged."""
        for cache in self._all_caches():
            for key in cache.list_keys():
                if _partition_id(key) == partition_id:
                    cache.drop(key)

    def _all_caches(self) -> tuple[Cache[Any], ...]:
        with self._lock:
            return tuple(self._caches.values())


def _partition_id(key: Hashable) -> int:
    found = key[0] if isinstance(key, tuple) else key
    assert isinstance(found, int)
    return found


class Encryption:
    """The ciphers of one transaction. Here: of a store in which no tenant was ever encrypted, opened without keys."""

    def cipher_for(self, tenant: str) -> Cipher:
        """What the tenant's values go through. Raises KeyMissing."""
        return PLAINTEXT

    def find_cipher(self, tenant: str) -> Cipher | None:
        """None where the tenant's key is not there: that may be on purpose, and is not a fault of the store."""
        try:
            return self.cipher_for(tenant)
        except KeyMissing:
            return None

    def can_use(self, tenant: str) -> bool:
        """For code that reads many tenants' rows: whether this program may read and write the tenant."""
        return True


NO_ENCRYPTION = Encryption()


class Tx:
    def __init__(self, db: Db, caches: Caches | None = None, registry: EncryptionRegistry | None = None) -> None:
        self.db = db
        self.caches = caches or Caches()
        self._registry = registry
        self._encryption: Encryption = NO_ENCRYPTION
        self.seen: dict[Any, Any] | None = None  # rows looked up already; None while anything may change
        # Ids found by the work at hand, by partition and by session. An id is never used again.
        self.partition_ids: dict[Any, int] = {}
        self.locked: set[Partition] = set()  # by the work at hand, until the transaction ends
        # What the work at hand has read of partitions that it has locked, with its own changes.
        self.locked_rows: dict[Partition, Any] = {}
        self.new_models: set[str] = set()  # added by the work at hand

    @property
    def encryption(self) -> Encryption:
        self.db.ensure_begun()
        return self._encryption

    def load_encryption(self, changes: int, *, writing: bool) -> None:
        """At the beginning of a transaction: ``changes`` is how often any tenant's encryption was changed."""
        registry = self._registry
        if registry is None or (changes == 0 and registry.keyring is None):
            self._encryption = NO_ENCRYPTION
        else:
            self._encryption = registry.begin(self.db, changes, writing=writing)

    def run(self, work: Callable[[Tx], T]) -> T:
        """Run work that knows nothing of the work before it, which may have been rolled back."""
        self.partition_ids.clear()
        self.locked.clear()
        self.locked_rows.clear()
        self.new_models.clear()
        return work(self)

    def run_reading(self, work: Callable[[Tx], T]) -> T:
        """While a transaction only reads, a row is looked up once: a search asks for its partition at every step."""
        self.seen = {}
        try:
            return self.run(work)
        finally:
            self.seen = None


class Connection:
    """A connection that can be handed from thread to thread, one at a time. Each dialect has a subclass."""

    db: Db
    tx: Tx

    def begin(self, *, exclusive: bool = False) -> None:
        """Begin to write. ``exclusive``: while no other transaction writes anywhere in the store."""
        raise NotImplementedError

    def commit(self) -> None:
        """Raises OutcomeUnknown when nobody can tell whether it happened."""
        self.db.execute("COMMIT")

    def has_committed(self) -> bool:
        """After a commit was interrupted: did it happen?"""
        raise NotImplementedError

    def rollback(self) -> None:
        """Never raises: what was begun is over, whatever state the connection is in."""
        raise NotImplementedError

    def savepoint(self) -> None:
        self.db.execute("SAVEPOINT one")

    def release(self) -> None:
        self.db.execute("RELEASE SAVEPOINT one")

    def rollback_to_savepoint(self) -> None:
        self.db.execute("ROLLBACK TO SAVEPOINT one")
        self.release()

    def is_transient(self, error: StorageError) -> bool:
        """True when the same work may well succeed at once, such as after a deadlock between two processes."""
        return False

    def begin_read(self) -> None:
        self.begin()

    def snapshot(self, work: Callable[[Tx], T]) -> T:
        """Run the work on one consistent view."""
        try:
            self.begin_read()
            return self.tx.run_reading(work)
        finally:
            self.rollback()

    def close(self) -> None:
        raise NotImplementedError


class Repository:
    """The rows of a feature, in one transaction."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx
        self._db = tx.db

    def _cipher(self, owner: Partition | Scope) -> Cipher:
        return self._tx.encryption.cipher_for(owner.tenant)


def partition_params(partition: Partition) -> dict[str, str | int]:
    return {
        "bucket": partition.bucket,
        "tenant": partition.tenant,
        "level": partition.level.value,
        "owner": partition.owner,
    }


def partition_key(partition_id: int) -> dict[str, int]:
    """The first columns of every key in the partition. An id ends with its bucket."""
    return {"bucket": partition_id % BUCKETS, "partition_id": partition_id}


class Partitions(Repository):
    def lock(self, partition: Partition) -> None:
        """Let no other transaction write the partition until this one ends. One that is not there cannot be locked.

        Always before anything inside it is locked, so that two transactions never wait for each other.
        """
        if self.needs_lock(partition):
            row = self._db.one("partitions.find_id", partition_params(partition), order=self._db.for_update)
            if row is not None:
                self._tx.locked.add(partition)
                self._tx.partition_ids[partition] = int(row[0])

    def ensure_locked(self, partition: Partition) -> None:
        self.lock(partition)
        if self.needs_lock(partition):
            self._db.run("partitions.add", partition_params(partition))
            self.lock(partition)

    def needs_lock(self, partition: Partition) -> bool:
        """Return whether a lock is needed: not where one writer is the rule, and not to read."""
        return bool(self._db.for_update) and self._tx.seen is None and partition not in self._tx.locked

    def lock_and_read(self, partition: Partition, queries: Sequence[Query]) -> list[list[Row]]:
        """Lock the partition and read, in one message to the server."""
        if not self.needs_lock(partition):
            return self._db.all_together(queries)
        lock = Query("partitions.find_id", partition_params(partition), order=self._db.for_update)
        is_locked, found = self._db.lock_and_read(lock, queries)
        if is_locked:
            self._tx.locked.add(partition)
        return found

    def find_id(self, partition: Partition) -> int | None:
        known = self._tx.partition_ids.get(partition)
        if known is None:
            row = self._db.one("partitions.find_id", partition_params(partition))
            if row is None:
                return None
            known = self._tx.partition_ids[partition] = int(row[0])
        return known

    def find_key(self, partition: Partition) -> dict[str, int]:
        """Of a partition that is not there, a key that nothing has."""
        return partition_key(self.find_id(partition) or -1)
