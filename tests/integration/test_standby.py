"""A primary and a real standby that follows it: recalls and contexts from the standby, bounded in age."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from time import monotonic, sleep
from typing import Any

import pytest

from limpet import Config, Limpet, Session
from limpet.errors import MigrationError, StoreReadOnly
from limpet.store.postgres import store as standby
from limpet.store.postgres.connection import PostgresConnection
from limpet.store.postgres.store import StandbyConnection
from tests.postgres_server import PATIENCE, PostgresMissing, PostgresServer

pytestmark = [pytest.mark.postgres, pytest.mark.slow]
PLAIN = {"embedding.model": "none", "jobs.worker": False}


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[PostgresServer, PostgresServer]]:
    try:
        primary = PostgresServer.start_private()
    except PostgresMissing as missing:
        pytest.skip(str(missing))
    with primary, primary.start_standby() as follower:
        yield primary, follower


@pytest.fixture
def urls(servers: tuple[PostgresServer, PostgresServer]) -> Iterator[tuple[str, str]]:
    primary, follower = servers
    url = primary.create_database()
    name = url.split("?")[0].rsplit("/", 1)[1]
    Limpet.open(url, config=Config.load(env={}, overrides=PLAIN)).close()
    replay(servers)
    yield url, follower.url(name)
    follower.run("SELECT pg_wal_replay_resume()")
    replay(servers)


def replay(servers: tuple[PostgresServer, PostgresServer]) -> None:
    primary, follower = servers
    [(position,)] = primary.run("SELECT pg_current_wal_flush_lsn()::text")
    wait_until(lambda: follower.run(f"SELECT pg_last_wal_replay_lsn() >= '{position}'") == [(True,)])


def wait_until(is_so: Callable[[], bool]) -> None:
    until = monotonic() + PATIENCE
    while not is_so():
        assert monotonic() < until
        sleep(0.02)


def open_with_standby(urls: tuple[str, str], max_age_s: int = 3600) -> Limpet:
    settings = {**PLAIN, "storage.read_url": urls[1], "storage.read_max_age_s": max_age_s}
    return Limpet.open(urls[0], config=Config.load(env={}, overrides=settings))


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which server each read transaction ran on, and that its view was used."""
    seen: list[str] = []
    snapshot = PostgresConnection.snapshot

    def watch(self: PostgresConnection, work: Callable[..., Any]) -> Any:
        answer = snapshot(self, work)
        seen.append("standby" if isinstance(self, StandbyConnection) else "primary")
        return answer

    monkeypatch.setattr(PostgresConnection, "snapshot", watch)
    return seen


def tell(session: Session) -> list[str]:
    return [message.text for message in session.context("ferry").messages]


def test_standby_answers_recalls_and_contexts(
    urls: tuple[str, str], servers: tuple[PostgresServer, PostgresServer], answers: list[str]
) -> None:
    with open_with_standby(urls) as memory:
        session = memory.session("chat", "1", user="ann")
        session.append("user", "The ferry leaves at nine")
        replay(servers)
        answers.clear()
        assert [hit.text for hit in memory.recall("ferry", user="ann")] == ["The ferry leaves at nine"]
        assert set(answers) == {"standby"}
        answers.clear()
        assert tell(session) == ["The ferry leaves at nine"]
        assert "standby" in answers


def test_process_sees_what_it_wrote_though_the_standby_does_not_follow(
    urls: tuple[str, str], servers: tuple[PostgresServer, PostgresServer], answers: list[str]
) -> None:
    with open_with_standby(urls) as memory:
        memory.session("chat", "2", user="bob").append("user", "Bob skis")
        replay(servers)
        memory.recall("ski", user="bob")
        servers[1].run("SELECT pg_wal_replay_pause()")
        answers.clear()
        session = memory.session("chat", "1", user="ann")
        for number in range(3):
            session.append("user", f"The ferry number {number} leaves")
            assert len(memory.recall("ferry", user="ann")) == number + 1
            assert len(tell(session)) == number + 1
        memory.remember("Ann rows", user="ann", key="hobby")
        assert memory.recall("rows", user="ann")
        memory.forget(user="ann", key="hobby")
        assert not [hit for hit in memory.recall("rows", user="ann") if hit.text == "Ann rows"]
        assert "standby" not in answers
        assert memory.recall("ski", user="bob")  # of whom nothing new was written
        assert answers[-1] == "standby"


def test_what_others_wrote_is_seen_when_the_age_is_over(
    urls: tuple[str, str], servers: tuple[PostgresServer, PostgresServer]
) -> None:
    with open_with_standby(urls, max_age_s=1) as reader, Limpet.open(urls[0]) as writer:
        session = writer.session("chat", "1", user="ann")
        session.append("user", "The ferry leaves at nine")
        replay(servers)
        assert len(reader.recall("ferry", user="ann")) == 1
        servers[1].run("SELECT pg_wal_replay_pause()")
        session.append("user", "The ferry leaves at ten")
        written = monotonic()
        wait_until(lambda: len(reader.recall("ferry", user="ann")) == 2)
        assert monotonic() - written < 5


def test_age_of_nothing_shows_what_others_just_wrote(
    urls: tuple[str, str], servers: tuple[PostgresServer, PostgresServer]
) -> None:
    with open_with_standby(urls, max_age_s=0) as reader, Limpet.open(urls[0]) as writer:
        servers[1].run("SELECT pg_wal_replay_pause()")
        for number in range(3):
            writer.session("chat", "1", user="ann").append("user", f"The ferry number {number} leaves")
            assert len(reader.recall("ferry", user="ann")) == number + 1


def test_standby_that_is_gone_leaves_the_reading_to_the_primary(
    urls: tuple[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    nowhere = urls[1].replace("port=5432", "port=5999")
    with open_with_standby((urls[0], nowhere)) as memory, caplog.at_level(logging.WARNING, "limpet.store"):
        memory.session("chat", "1", user="ann").append("user", "The ferry leaves at nine")
        for _ in range(3):
            assert memory.recall("ferry", user="ann")
    assert len([record for record in caplog.records if "storage.read_url" in record.getMessage()]) == 1


def test_standby_may_crash_and_come_back_while_it_is_read(
    urls: tuple[str, str],
    servers: tuple[PostgresServer, PostgresServer],
    answers: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(standby, "_RETRY_S", 0.1)
    with open_with_standby(urls, max_age_s=1) as memory:
        memory.session("chat", "1", user="ann").append("user", "The ferry leaves at nine")
        replay(servers)
        stop = threading.Event()

        def ask() -> int:
            asked = 0
            while not stop.is_set():
                assert memory.recall("ferry", user="ann")
                asked += 1
            return asked

        with ThreadPoolExecutor(3) as pool:
            asking = [pool.submit(ask) for _ in range(3)]
            try:
                wait_until(lambda: "standby" in answers)
                servers[1].stop(immediate=True)
                answers.clear()
                wait_until(lambda: answers.count("primary") > 10)
                servers[1].start()
                answers.clear()
                wait_until(lambda: answers.count("standby") > 10)
            finally:
                stop.set()
                servers[1].start()
            assert all(each.result() for each in asking)


def test_session_the_standby_does_not_know_is_read_from_the_primary(
    urls: tuple[str, str], servers: tuple[PostgresServer, PostgresServer]
) -> None:
    """Another process made it: the handle knows it, a view of the standby within its age does not."""
    with open_with_standby(urls) as reader, Limpet.open(urls[0]) as writer:
        writer.session("chat", "0", user="ann").append("user", "hello")
        replay(servers)
        reader.recall("hello", user="ann")
        servers[1].run("SELECT pg_wal_replay_pause()")
        writer.session("chat", "1", user="ann").append("user", "The ferry leaves at nine")
        assert tell(reader.session("chat", "1", user="ann")) == ["The ferry leaves at nine"]


def test_standby_is_opened_by_readers_and_says_why_it_does_not_write(
    urls: tuple[str, str], servers: tuple[PostgresServer, PostgresServer]
) -> None:
    with Limpet.open(urls[0]) as writer:
        writer.session("chat", "1", user="ann").append("user", "The ferry leaves at nine")
    replay(servers)
    with Limpet.open(urls[1]) as reader:
        session = reader.session("chat", "1", user="ann")
        assert [hit.text for hit in reader.recall("ferry", user="ann")] == ["The ferry leaves at nine"]
        assert tell(session) == ["The ferry leaves at nine"]
        assert len(session.messages()) == 1
        assert reader.records(user="ann") is not None
        assert [finding for finding in reader.admin.doctor() if not finding.ok] == []
        writes: list[Callable[[], object]] = [
            lambda: session.append("user", "no"),
            lambda: reader.remember("no", user="ann"),
            lambda: reader.privacy.purge_user("ann"),
            session.delete,
        ]
        for write in writes:
            with pytest.raises(StoreReadOnly, match=r"standby.*connect to the primary"):
                write()


def test_empty_standby_says_that_it_cannot_be_set_up(servers: tuple[PostgresServer, PostgresServer]) -> None:
    url = servers[0].create_database()
    replay(servers)
    name = url.split("?")[0].rsplit("/", 1)[1]
    with pytest.raises(MigrationError, match="open it on the primary first"):
        Limpet.open(servers[1].url(name))


def test_password_of_the_standby_is_not_shown(capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    from limpet.cli.main import main

    monkeypatch.setenv("LIMPET_STORAGE_READ_URL", "postgresql://limpet:hunter2@standby/memory")
    assert main(["config", "storage.read_url"]) == 0
    shown = capsys.readouterr().out
    assert "hunter2" not in shown
    assert "standby/memory" in shown
