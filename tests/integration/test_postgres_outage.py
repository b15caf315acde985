"""PostgreSQL stops, restarts, or cuts its clients off in the middle."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import pytest

from limpet import Config, Limpet, Message
from limpet.errors import MigrationError, OutcomeUnknown, StorageError, StoreReadOnly, StoreUnavailable
from limpet.store.postgres.connection import PostgresConnection
from limpet.store.postgres.db import PostgresDb
from limpet.store.tx import Partitions, Tx
from tests.conftest import _refuse
from tests.contract.rows import every_row, faults
from tests.postgres_server import PostgresMissing, PostgresServer

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

PATIENT = Config.load(overrides={"storage.connect_timeout_s": 2})


@pytest.fixture(scope="module")
def shared() -> Iterator[PostgresServer]:
    """One server for these tests, which stop and start it; it keeps its promises to the disk."""
    try:
        server = PostgresServer.start_private(durable=True)
    except PostgresMissing as error:
        _refuse(str(error))
    with server:
        yield server


@pytest.fixture
def server(shared: PostgresServer) -> PostgresServer:
    shared.start()
    return shared


@pytest.fixture
def url(server: PostgresServer) -> str:
    return server.create_database()


def name_of(url: str) -> str:
    return urlsplit(url).path.removeprefix("/")


@pytest.fixture
def opened(url: str) -> Iterator[Limpet]:
    memory = Limpet.open(url, config=PATIENT)
    yield memory
    memory.close()


def test_stopped_server_is_unavailable_and_store_recovers(server: PostgresServer, opened: Limpet) -> None:
    session = opened.session("t", "1", user="alice")
    session.append("user", "the walrus before")
    opened.remember("a walrus", user="alice", key="k")
    before = every_row(opened)
    for immediate in (False, True):
        server.stop(immediate=immediate)
        for call in (
            lambda: session.append("user", "lost"),
            session.messages,
            lambda: opened.recall("walrus", user="alice"),
            lambda: opened.remember("lost", user="alice", key="k"),
            opened.sessions,
            opened.admin.stats,
        ):
            with pytest.raises(StoreUnavailable):
                call()
        server.start()
        assert every_row(opened) == before
        assert [message.text for message in session.messages()] == ["the walrus before"]
        assert len(opened.recall("walrus", user="alice")) == 2
    assert session.append("user", "after").sequence == 2
    assert faults(opened) == []


def test_close_and_open_while_server_is_down(server: PostgresServer, url: str) -> None:
    memory = Limpet.open(url, config=PATIENT)
    memory.session("t", "1").append("user", "x")
    server.stop()
    begun = time.monotonic()
    memory.close()
    memory.close()
    with pytest.raises(StoreUnavailable, match="reached"):
        Limpet.open(url, config=PATIENT)
    assert time.monotonic() - begun < 60


def test_idle_connections_that_were_cut_are_reopened(server: PostgresServer, url: str, opened: Limpet) -> None:
    session = opened.session("t", "1", user="alice")
    session.append("user", "0")
    assert len(session.messages()) == 1
    for number in range(1, 4):
        assert server.kill_backends(name_of(url)) >= 1
        assert session.append("user", str(number)).sequence == number + 1
        server.kill_backends(name_of(url))
        assert len(session.messages()) == number + 1


def _cut_off_again_and_again(server: PostgresServer, url: str, answered: Callable[[], int]) -> None:
    """Each time after a few more calls were answered, however long that takes: the machine may be busy."""
    for cut in range(1, 13):
        _wait_for(5 * cut, answered)
        server.kill_backends(name_of(url))


def _wait_for(count: int, answered: Callable[[], int]) -> None:
    deadline = time.monotonic() + 60
    while answered() < count:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_killed_backends_with_retries_lose_and_duplicate_nothing(
    server: PostgresServer, url: str, opened: Limpet
) -> None:
    """Callers that are told of a failure repeat the call with its key, as a program would."""
    session = opened.session("t", "1", user="alice")
    stop = threading.Event()
    acknowledged: list[tuple[int, str]] = []
    failures: list[BaseException] = []
    unexpected: list[BaseException] = []

    def write(thread: int) -> None:
        number = 0
        while not stop.is_set():
            text = f"{thread} {number}"
            for _ in range(50):
                try:
                    message = session.append("user", text, idempotency_key=text)
                    acknowledged.append((message.sequence, text))
                    break
                except StorageError as error:
                    failures.append(error)
                except BaseException as error:
                    unexpected.append(error)
                    return
            number += 1

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    _cut_off_again_and_again(server, url, lambda: len(acknowledged))
    stop.set()
    for thread in threads:
        thread.join(60)
    assert unexpected == []
    assert len(acknowledged) > 50
    stored = [(message.sequence, message.text) for message in session.messages()]
    assert stored == sorted(acknowledged)
    assert [sequence for sequence, _ in stored] == list(range(1, len(stored) + 1))
    assert faults(opened) == []


def test_append_outcome_is_correct_when_backends_are_killed(server: PostgresServer, url: str, opened: Limpet) -> None:
    """Without keys and without repeating: the answer alone must be true, unless it says that nobody can know."""
    session = opened.session("t", "1", user="alice")
    told: dict[str, bool | None] = {}
    stop = threading.Event()

    def write(thread: int) -> None:
        number = 0
        while not stop.is_set():
            text = f"{thread} {number}"
            number += 1
            try:
                session.append("user", text)
                told[text] = True
            except OutcomeUnknown:
                told[text] = None
            except StorageError:
                told[text] = False

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    _cut_off_again_and_again(server, url, lambda: list(told.values()).count(True))
    stop.set()
    for thread in threads:
        thread.join(60)
    stored = [message.text for message in session.messages()]
    assert len(stored) == len(set(stored)), "something was stored twice"
    assert {text for text, kept in told.items() if kept} <= set(stored), "something acknowledged was lost"
    assert {text for text, kept in told.items() if kept is False} & set(stored) == set(), "something refused is there"
    assert len(stored) > 50
    assert faults(opened) == []


def test_server_crash_under_load_loses_no_acknowledged_write(server: PostgresServer, opened: Limpet) -> None:
    session = opened.session("t", "1", user="alice")
    acknowledged: list[str] = []
    stop = threading.Event()

    def write(thread: int) -> None:
        number = 0
        while not stop.is_set():
            text = f"{thread} {number}"
            number += 1
            try:
                session.extend([Message.new("user", f"{text} question"), Message.new("assistant", f"{text} answer")])
                acknowledged.append(text)
            except StorageError:
                time.sleep(0.01)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    _wait_for(5, lambda: len(acknowledged))
    server.restart(immediate=True)
    _wait_for(len(acknowledged) + 5, lambda: len(acknowledged))
    stop.set()
    for thread in threads:
        thread.join(60)
    stored = [message.text for message in session.messages()]
    for text in acknowledged:
        assert stored.count(f"{text} question") == stored.count(f"{text} answer") == 1
    assert len(stored) % 2 == 0
    assert faults(opened) == []


def test_commit_whose_answer_is_lost_is_not_repeated(
    server: PostgresServer, opened: Limpet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit happened; the connection broke before its answer, and the server cannot be reached at once."""
    session = opened.session("t", "1", user="alice")
    real_send, real_connect = PostgresDb.send, PostgresConnection.connect
    lost = iter([True])
    refusals = iter([True, True])

    def send(self: PostgresDb, texts: Sequence[str]) -> Any:
        answers = real_send(self, texts)
        if texts[-1] == "COMMIT" and next(lost, False):
            self.raw.close()
            raise StoreUnavailable("the answer was lost")
        return answers

    def connect(self: PostgresConnection) -> None:
        if hasattr(self, "db") and self.db.raw.closed and next(refusals, False):
            raise StoreUnavailable("cannot be reached")
        real_connect(self)

    monkeypatch.setattr(PostgresDb, "send", send)
    monkeypatch.setattr(PostgresConnection, "connect", connect)
    with suppress(OutcomeUnknown):
        session.append("user", "once")
    assert [message.text for message in session.messages()] == ["once"]
    session.append("user", "goes on")
    assert session.count() == 2


def test_role_without_create_permission_is_migration_error(server: PostgresServer, url: str) -> None:
    server.run("CREATE ROLE weak LOGIN")
    with pytest.raises(MigrationError, match="permission denied"):
        Limpet.open(url.replace("postgres@", "weak@"), config=PATIENT)
    assert server.run("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'", database=name_of(url)) == [(0,)]


def test_read_only_server_is_read_only_error(server: PostgresServer, url: str, opened: Limpet) -> None:
    session = opened.session("t", "1", user="alice")
    session.append("user", "before")
    server.run(f"ALTER DATABASE {name_of(url)} SET default_transaction_read_only = on")
    server.kill_backends(name_of(url))
    with pytest.raises(StoreReadOnly):
        session.append("user", "refused")
    assert session.count() == 1
    server.run(f"ALTER DATABASE {name_of(url)} RESET default_transaction_read_only")
    server.kill_backends(name_of(url))
    assert session.append("user", "after").sequence == 2


def test_tcp_timeouts_are_set_unless_given_in_url(postgres_url: str) -> None:
    """Whoever says so in the address is believed."""
    own = f"{postgres_url}{'&' if '?' in postgres_url else '?'}keepalives_idle=7"
    quiet = Config.load(overrides={"storage.silence_s": 0})
    for url, config, expected in (
        (postgres_url, Config(), ("30000", "30", "10", "3")),
        (own, Config(), ("30000", "7", "10", "3")),
        (postgres_url, quiet, (None, None, None, None)),
    ):
        with Limpet.open(url, config=config) as memory:
            store: Any = memory._runtime.store
            used = store.read(lambda tx: tx.db.raw.info.get_parameters())
        names = ("tcp_user_timeout", "keepalives_idle", "keepalives_interval", "keepalives_count")
        assert tuple(used.get(name) for name in names) == expected


class NoNumber(Exception):
    pass


def test_connection_that_cannot_roll_back_serves_nobody_again(opened: Limpet, monkeypatch: pytest.MonkeyPatch) -> None:
    """As behind a pool that has given the transaction's connection to somebody else."""
    import psycopg

    opened.session("t", "1", user="alice").append("user", "a walrus")
    store = opened._runtime.store

    def find_pid(tx: Tx) -> int:
        return int(tx.db.execute("SELECT pg_backend_pid()")[0][0])

    def fail(tx: Tx) -> int:
        raise NoNumber(find_pid(tx))

    def write_pid() -> int:
        with pytest.raises(NoNumber) as found:
            store.write(fail)
        return int(str(found.value))

    def refuse(self: Any, query: Any, *args: Any, **options: Any) -> Any:
        if query == "ROLLBACK":
            raise psycopg.OperationalError("current transaction is aborted")
        return execute(self, query, *args, **options)

    def end(self: PostgresDb) -> None:
        self.raw.pgconn.send_query(b"SELECT 1")
        self.is_ending = True

    execute = psycopg.Connection.execute
    for get_pid in (lambda: store.read(find_pid), write_pid):
        before = get_pid()
        assert get_pid() == before
        with monkeypatch.context() as patched:
            patched.setattr(psycopg.Connection, "execute", refuse)
            patched.setattr(PostgresDb, "end", end)
            assert get_pid() == before
        assert get_pid() != before
    assert opened.recall("walrus", user="alice")


def test_writer_that_went_silent_keeps_nobody_from_writing(url: str) -> None:
    """It may be cut off: the server would not learn that for hours, and keep what it locked."""
    settings = {"storage.silence_s": 1, "storage.busy_timeout_ms": 60_000}
    with Limpet.open(url, config=Config.load(overrides=settings)) as memory:
        session = memory.session("t", "1", user="alice")
        session.append("user", "the walrus before")
        store: Any = memory._runtime.store
        silent = store._connect_writer()
        silent.begin()
        Partitions(silent.tx).lock(session.info.partition)
        session.append("user", "the walrus after")  # waits until the silent one is ended
        with pytest.raises(StoreUnavailable, match="nothing of this call was stored"):
            silent.db.run("sessions.delete_kv", {"bucket": 0, "partition_id": 0, "session": ""})
        silent.close()
        assert [message.text for message in session.messages()] == ["the walrus before", "the walrus after"]
