"""Writers of one store at the same time, on PostgreSQL: those of one owner take turns, others do not wait.

A call is stopped before it commits, with all it has locked. Who must not wait for it is called meanwhile, and would
fail with StoreBusy; who must wait is not done before the first one is.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count, islice
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from limpet import Config, Limpet
from limpet.errors import InvalidInput, StorageError
from limpet.model.job import EXTRACT, Finding
from limpet.model.note import Note
from limpet.model.scope import Partition, hash_bucket
from limpet.notes.repository import Notes
from limpet.search.verify import rebuild_index
from limpet.store.encryption_keys import key_file, write_keys
from limpet.store.jobs import JobQueue
from limpet.store.postgres.connection import PostgresConnection
from limpet.store.postgres.db import PostgresDb
from limpet.store.reencrypt import reencrypt_tenant
from limpet.store.tx import Partitions, Query, Row
from limpet.testing import FakeEmbedder
from tests.citus_server import CITUS_URL
from tests.contract.processes import run_together
from tests.contract.rows import faults, sql
from tests.contract.threads import at_once

pytestmark = [pytest.mark.postgres, pytest.mark.every_backend]

PATIENCE = 60
WAITING = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
if CITUS_URL in os.environ:  # the locks are on other machines
    WAITING = "SELECT 1 FROM citus_lock_waits"
NUMBERS = count()
CONFIG = Config.load(overrides={"jobs.worker": False, "embedding.model": "none", "storage.busy_timeout_ms": 3000})
Call = Callable[[Limpet], Any]


@pytest.fixture
def two(postgres_url: str) -> Iterator[tuple[Limpet, Limpet]]:
    """Two programs on one store."""
    with Limpet.open(postgres_url, config=CONFIG) as one, Limpet.open(postgres_url, config=CONFIG) as other:
        one.session("chat", "1", user="ann").append("user", "The ferry leaves at noon")
        one.session("chat", "2", user="bob").append("user", "The bus leaves at one")
        yield one, other


@pytest.fixture
def retries(monkeypatch: pytest.MonkeyPatch) -> list[StorageError]:
    """What was tried again: a deadlock, or a unique value that two have claimed."""
    seen: list[StorageError] = []
    is_transient = PostgresConnection.is_transient

    def watch(self: PostgresConnection, error: StorageError) -> bool:
        if is_transient(self, error):
            seen.append(error)
            return True
        return False

    monkeypatch.setattr(PostgresConnection, "is_transient", watch)
    return seen


@contextmanager
def stopped(call: Callable[[], Any], commit: int = 1) -> Iterator[Future[Any]]:
    """A call in a thread of its own that stops before its first commit, or a later one, until the block ends."""
    reached, go_on, commits = threading.Event(), threading.Event(), count(1)
    victim: list[int] = []
    original = PostgresConnection.commit

    def wait_and_commit(self: PostgresConnection) -> None:
        if threading.get_ident() in victim and next(commits) == commit:
            reached.set()
            assert go_on.wait(PATIENCE)
        original(self)

    def run() -> Any:
        victim.append(threading.get_ident())
        try:
            return call()
        finally:
            reached.set()

    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(1) as pool:
        patch.setattr(PostgresConnection, "commit", wait_and_commit)
        running = pool.submit(run)
        try:
            assert reached.wait(PATIENCE)
            assert not running.done(), running.exception() or "it wrote nothing"
            yield running
        finally:
            go_on.set()
        running.result(PATIENCE)


def start_and_wait(call: Callable[[], Any], watch: Limpet) -> Future[Any]:
    """A call in a thread of its own, which has to wait for a lock."""
    pool = ThreadPoolExecutor(1)
    running = pool.submit(call)
    pool.shutdown(wait=False)
    until = monotonic() + PATIENCE
    while not watch._runtime.store.read(lambda tx: tx.db.execute_sql(WAITING)):
        assert not running.done(), running.exception() or "it did not wait"
        assert monotonic() < until
    return running


def take_turns(watch: Limpet, first: Callable[[], Any], then: Callable[[], Any]) -> tuple[Any, Any]:
    """What both answered. The second one has to wait until the first one commits."""
    with stopped(first) as stopped_call:
        waiting = start_and_wait(then, watch)
    return stopped_call.result(PATIENCE), waiting.result(PATIENCE)


def append(memory: Limpet, user: str = "ann", chat: str = "1") -> Any:
    return memory.session("chat", chat, user=user).append("user", f"{user} said {next(NUMBERS)}")


def delete_session(memory: Limpet, user: str = "ann") -> Any:
    return memory.session("chat", "1", user=user).delete()


OF_ANN: dict[str, Call] = {
    "append": append,
    "set a value": lambda memory: memory.session("chat", "1", user="ann").kv.set("mood", "good"),
    "remember": lambda memory: memory.remember("Ann sails", user="ann", key="hobby"),
    "write a note": lambda memory: memory.notes.long_term("ann").append("- sails"),
    "add a document": lambda memory: memory.documents.add("doc:1", "All about boats", user="ann"),
    "schedule": lambda memory: memory.schedules.create("ann", goal="Ask about the boat", cadence="every: 1h"),
    "delete a session": delete_session,
    "purge": lambda memory: memory.privacy.purge_user("ann"),
}


@pytest.mark.parametrize("first", OF_ANN)
def test_writers_of_other_owners_do_not_wait(
    first: str, two: tuple[Limpet, Limpet], retries: list[StorageError]
) -> None:
    one, other = two
    with stopped(lambda: OF_ANN[first](one)):
        append(other, "bob", "2")
        append(other, "new", "3")
        other.remember("Bob skis", user="bob", idempotency_key="k")
        other.remember("Everybody skis", scope="global")
        other.documents.add("doc:2", "All about snow", user="bob")
        other.session("chat", "2", user="bob").kv.set("mood", "fine")
        with other.session("chat", "2", user="bob").turn("I live in Oslo") as turn:
            turn.reply("A fine town.")
        now = datetime.now(UTC)
        assert JobQueue(other._runtime.store).claim([(EXTRACT, "")], now, timedelta(minutes=1)) is not None
        assert other.recall("ferry", user="ann")
    assert retries == []
    assert faults(other) == []


@pytest.mark.parametrize("second", OF_ANN)
def test_writers_of_one_owner_take_turns(second: str, two: tuple[Limpet, Limpet], retries: list[StorageError]) -> None:
    one, other = two
    other.session("chat", "1", user="ann")
    take_turns(one, lambda: append(one), lambda: OF_ANN[second](other))
    assert retries == []
    assert faults(other) == []


def test_two_sessions_of_one_user_number_their_chunks_in_turn(
    two: tuple[Limpet, Limpet], retries: list[StorageError]
) -> None:
    """The newest chunk is not in the row that is locked: whoever waited for that must look again."""
    one, other = two
    append(one, chat="9")
    take_turns(one, lambda: append(one), lambda: append(other, chat="9"))
    assert retries == []
    ordinals = [row for (row,) in sql(other, "SELECT ordinal FROM chunks ORDER BY partition_id, ordinal")]
    assert len(ordinals) == len(sql(other, "SELECT 1 FROM messages")) == 5
    assert faults(other) == []


@pytest.mark.parametrize("user", ["ann", "somebody new"])
def test_idempotency_key_used_by_two_programs_at_once_makes_one_thing(
    user: str, two: tuple[Limpet, Limpet], retries: list[StorageError]
) -> None:
    one, other = two

    def schedule(memory: Limpet) -> str:
        made = memory.schedules.create(user, goal="Ask about boats", cadence="every: 1h", idempotency_key="k")
        return made.id

    first, then = take_turns(one, lambda: schedule(one), lambda: schedule(other))
    assert first == then
    assert one.schedules.count(user=user) == 1
    assert retries == []


def test_record_key_used_by_two_programs_at_once_makes_one_record(
    two: tuple[Limpet, Limpet], retries: list[StorageError]
) -> None:
    one, other = two
    first, then = take_turns(
        one,
        lambda: one.remember("Ann sails", user="ann", key="hobby"),
        lambda: other.remember("Ann rows", user="ann", key="hobby"),
    )
    assert (first.id, first.version) == (then.id, then.version - 1)
    assert retries == []


def test_uses_of_shared_record_are_counted_for_every_caller(two: tuple[Limpet, Limpet], postgres_url: str) -> None:
    shared = two[0].remember("The office has a red door", scope="global")

    def ask(number: int) -> None:
        memory = two[number % 2]
        for _ in range(3):
            assert memory.recall("Which door has the office?", scope="global")
        memory._runtime.flush_uses()

    at_once(ask, 6)
    assert two[1].records.get(shared.id).uses == 18


def find_users_of_one_bucket(number: int) -> list[str]:
    names = (f"u{each}" for each in count())
    wanted = hash_bucket("default", "user", "u0")
    return list(islice((name for name in names if hash_bucket("default", "user", name) == wanted), number))


def test_new_users_of_one_bucket_get_partitions_of_their_own(postgres_url: str) -> None:
    """Their numbers are the next in the bucket: two that begin together want the same one."""
    users = find_users_of_one_bucket(4)
    with Limpet.open(postgres_url, config=CONFIG) as memory:
        at_once(lambda number: append(memory, users[number]), 4)
        assert len(sql(memory, "SELECT DISTINCT id FROM partitions WHERE level = 'user'")) == 4
        assert [memory.session("chat", "1", user=user).count() for user in users] == [1] * 4
        assert faults(memory) == []


def test_jobs_entered_at_once_have_numbers_of_their_own(postgres_url: str) -> None:
    users = find_users_of_one_bucket(4)
    with Limpet.open(postgres_url, config=CONFIG) as memory:
        for user in users:
            append(memory, user)

        def learn(number: int) -> None:
            with memory.session("chat", "1", user=users[number]).turn("I live in Oslo") as turn:
                turn.reply("A fine town.")

        at_once(learn, 4)
        ids = [row for (row,) in sql(memory, "SELECT id FROM jobs WHERE tenant = 'default'")]
        assert len(ids) == len(set(ids)) >= 4


# What concerns the whole store


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    folder = tmp_path / "keys"
    folder.mkdir(mode=0o700)
    write_keys(key_file(folder, "default"), (os.urandom(32),))
    return folder


def open_with_keys(url: str, keys: Path) -> Limpet:
    return Limpet.open(url, config=replace(CONFIG, encryption=replace(CONFIG.encryption, key_file=str(keys))))


def test_model_changes_when_no_chunk_is_being_written(two: tuple[Limpet, Limpet], postgres_url: str) -> None:
    """A chunk that is written under the old model would get no job for the new one."""
    one, _ = two

    def open_with_model() -> list[Any]:
        with Limpet.open(postgres_url, config=CONFIG, embedder=FakeEmbedder(8)) as memory:
            memory.jobs.run()
            return sql(
                memory,
                "SELECT count(*) FROM chunks c WHERE NOT EXISTS (SELECT 1 FROM vectors v"
                " WHERE v.bucket = c.bucket AND v.partition_id = c.partition_id AND v.ordinal = c.ordinal)",
            )

    _, left = take_turns(one, lambda: append(one, "new", "3"), open_with_model)
    assert left == [(0,)]


def test_encryption_begins_when_nobody_writes_plain_text(
    two: tuple[Limpet, Limpet], postgres_url: str, keys: Path
) -> None:
    one, _ = two
    with open_with_keys(postgres_url, keys) as encrypting:
        take_turns(
            one,
            lambda: one.remember("zanzibar", user="new"),
            lambda: reencrypt_tenant(encrypting._runtime.store, "default", rebuild_index),
        )
        assert sql(encrypting, "SELECT 1 FROM records WHERE content LIKE '%zanzibar%'") == []
        assert [record.content for record in encrypting.records(user="new")] == ["zanzibar"]


def test_repair_waits_for_writers_and_they_for_it(two: tuple[Limpet, Limpet]) -> None:
    one, other = two
    _, found = take_turns(one, lambda: append(one, "new", "3"), lambda: list(other.admin.doctor(repair=True)))
    assert all(finding.ok for finding in found)
    store: Any = one._runtime.store
    repaired = Finding("nothing", ok=True, detail="")
    take_turns(one, lambda: store.run_check("", lambda _: repaired, repair=True), lambda: append(other, "newer", "4"))


def test_anonymous_access_is_not_allowed_while_a_key_is_made(two: tuple[Limpet, Limpet]) -> None:
    one, other = two
    with pytest.raises(InvalidInput, match="revoke all of them"):
        take_turns(one, lambda: one.access.keys.create("laptop", user="ann"), other.access.keys.allow_anonymous)
    assert other.access.keys.required()


PROCESS = """
import threading
from limpet import Config
config = Config.load(overrides={"jobs.worker": False, "embedding.model": "none"})
failed = []
with Limpet.open(given, config=config) as memory:
    mine = memory.session("chat", f"mine {number}", user=f"user {number}")
    ours = memory.session("chat", "ours", user="shared")
    begin()
    def work(thread):
        for step in range(12):
            try:
                ours.append("user", f"p{number} t{thread} s{step}", idempotency_key=f"{number}-{thread}-{step}")
                mine.append("user", f"p{number} t{thread} s{step}")
                memory.remember(f"Fact {step}", user="shared", key=f"fact_{step}")
                memory.remember(f"For all {number} {thread} {step}", scope="global")
                mine.kv.set(f"key {thread}", step)
                memory.session("chat", f"{number} {thread} {step}", user="shared").append("user", "a new session")
            except Exception as error:
                failed.append(f"{type(error).__name__}: {error}")
    threads = [threading.Thread(target=work, args=(each,)) for each in range(3)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
answer(failed)
"""


@pytest.mark.slow
def test_processes_and_threads_lose_double_and_misnumber_nothing(postgres_url: str) -> None:
    processes = 3
    assert run_together(PROCESS, postgres_url, count=processes) == [[]] * processes
    with Limpet.open(postgres_url, config=CONFIG) as memory:
        said = memory.session("chat", "ours", user="shared").messages()
        assert [message.sequence for message in said] == list(range(1, processes * 36 + 1))
        assert {message.text for message in said} == {
            f"p{p} t{t} s{s}" for p in range(processes) for t in range(3) for s in range(12)
        }
        for number in range(processes):
            mine = memory.session("chat", f"mine {number}", user=f"user {number}")
            assert [message.sequence for message in mine.messages()] == list(range(1, 37))
        assert memory.records.count(user="shared") == 12
        assert faults(memory) == []


def test_user_whom_another_writer_creates_after_the_lock_looked_is_locked(
    two: tuple[Limpet, Limpet], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else two writers read the same note, and the second one's line replaces the first one's."""
    one, other = two
    meanwhile = iter([lambda: other.notes.long_term("cleo").append("- first")])
    locked: list[bool] = []

    def lock_and_read(db: PostgresDb, lock: Query, queries: Sequence[Query]) -> tuple[bool, list[list[Row]]]:
        [rows] = db.all_together([lock])
        for create in meanwhile:
            create()
        locked.append(bool(rows))
        return bool(rows), db.all_together(queries)

    monkeypatch.setattr(PostgresDb, "lock_and_read", lock_and_read)
    one.notes.long_term("cleo").append("- second")
    assert locked[-2:] == [False, True]
    assert one.notes.long_term("cleo").read() == "- first\n- second\n"


def test_note_of_a_new_user_is_read_only_under_the_lock_of_the_user(
    two: tuple[Limpet, Limpet], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else one writer locks the note, another reads it without a lock, and the line of one is lost."""
    one, _ = two
    find, reads = Notes.find, list[bool]()

    def record_reads(notes: Notes, partition: Partition, *given: Any) -> dict[str, Note]:
        reads.append(Partitions(notes._tx).needs_lock(partition) and notes._tx.seen is None)
        return find(notes, partition, *given)

    monkeypatch.setattr(Notes, "find", record_reads)
    one.notes.long_term("dora").append("- first")
    assert reads
    assert not any(reads)
