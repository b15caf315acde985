"""Limpet behind pgbouncer in transaction mode, where each transaction may run on another connection of the server."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest

from limpet import Config, Limpet
from limpet.testing import FakeEmbedder

PGBOUNCER = shutil.which("pgbouncer", path=os.environ.get("PATH", "") + os.pathsep + "/usr/sbin")
pytestmark = [
    pytest.mark.postgres,
    pytest.mark.skipif(PGBOUNCER is None, reason="needs pgbouncer (apt-get install pgbouncer)"),
]
CONFIG = Config.load(env={}, overrides={"embedding.model": "none", "jobs.worker": False})
SETTINGS = """
[databases]
* = host={server} port=5432
[pgbouncer]
listen_port = 6432
listen_addr =
unix_socket_dir = {folder}
auth_type = trust
auth_file = {folder}/users
pool_mode = transaction
default_pool_size = 3
max_client_conn = 100
logfile = {folder}/log
"""


@pytest.fixture
def bouncer(postgres_url: str) -> Iterator[str]:
    """The address of the same database, through pgbouncer."""
    parts = urlsplit(postgres_url)
    server, folder = parse_qs(parts.query)["host"][0], Path(tempfile.mkdtemp(prefix="limpet-pgb-", dir="/tmp"))
    settings = folder / "pgbouncer.ini"
    settings.write_text(SETTINGS.format(server=server, folder=folder))
    (folder / "users").write_text(f'"{parts.username}" ""\n')
    account: dict[str, Any] = {}
    if os.geteuid() == 0:  # as which it does not run
        nobody = pwd.getpwnam("nobody")
        account = {"user": nobody.pw_uid, "group": nobody.pw_gid}
        for path in (folder, *folder.iterdir()):
            os.chown(path, nobody.pw_uid, nobody.pw_gid)
    assert PGBOUNCER is not None
    process = subprocess.Popen([PGBOUNCER, "-q", settings], cwd=folder, **account)
    try:
        wait_for(folder / ".s.PGSQL.6432")
        yield f"postgresql://{parts.username}@{parts.path}?host={quote(str(folder), safe='')}&port=6432"
    finally:
        process.terminate()
        process.wait(10)
        shutil.rmtree(folder)


def wait_for(path: Path) -> None:
    for _ in range(200):
        with socket.socket(socket.AF_UNIX) as client:
            if not client.connect_ex(str(path)):
                return
        time.sleep(0.05)
    raise AssertionError(f"pgbouncer did not start: {(path.parent / 'log').read_text()}")


def test_every_kind_of_call_works_behind_pool_of_transactions(bouncer: str) -> None:
    done: list[str] = []

    def step(name: str, call: Callable[[], object]) -> None:
        call()
        done.append(name)

    with Limpet.open(bouncer, config=CONFIG, embedder=FakeEmbedder(16)) as memory:
        session = memory.session("web", "c1", user="anna")

        def take_turn() -> None:
            with session.turn("My favourite colour is green.") as turn:
                turn.reply("Noted.")
            assert not turn.failed

        step("append", lambda: session.append("user", "I live in Porto and my sister is called Maria."))
        step("append once", lambda: [session.append("user", "hello", idempotency_key="k") for _ in range(2)])
        step("extend", lambda: [session.append("user", f"Line {number} of a long talk") for number in range(300)])
        step("recall", lambda: memory.recall("where do I live?", user="anna"))
        step("turn", take_turn)
        step("context", lambda: session.context("what is my favourite colour?"))
        step("remember", lambda: memory.remember("Anna prefers tea", user="anna"))
        step("remember by key", lambda: memory.remember("Anna prefers coffee", user="anna", key="drink"))
        step("replace by key", lambda: memory.remember("Anna prefers water", user="anna", key="drink"))
        step("remember for all", lambda: memory.remember("The office closes at six", scope="global"))
        step("records", lambda: memory.records(user="anna"))
        step("count", lambda: memory.records.count(user="anna"))
        step("set a value", lambda: session.kv.set("a", {"b": 1}))
        step("read a value", lambda: session.kv.get("a"))
        step("jobs", memory.jobs.run)
        step("compact", session.compact)
        step("document", lambda: memory.documents.add("handbook.md", "The office is in Lisbon.", user="anna"))
        step("recall of a document", lambda: memory.recall("where is the office?", user="anna"))
        step("note", lambda: memory.notes.long_term("anna").append("- sails"))
        step("schedule", lambda: memory.schedules.create("anna", goal="Ask about the boat", cadence="every: 1h"))
        step("forget", lambda: memory.forget(user="anna", key="drink"))
        step("sessions", lambda: memory.sessions(user="anna"))
        step("list of jobs", memory.jobs.list)
        step("key", lambda: memory.access.keys.create("laptop", user="anna"))
        step("doctor", lambda: check(memory))
        step("repair", lambda: check(memory, repair=True))
        step("delete session", session.delete)
        step("purge", lambda: memory.privacy.purge_user("anna"))
    assert len(done) == 28


def check(memory: Limpet, *, repair: bool = False) -> None:
    assert [finding for finding in memory.admin.doctor(repair=repair) if not finding.ok] == []


def test_threads_share_few_connections_of_the_pool(bouncer: str) -> None:
    with Limpet.open(bouncer, config=CONFIG) as memory:

        def work(number: int) -> None:
            session = memory.session("web", f"c{number}", user=f"user {number % 3}")
            for step in range(15):
                session.append("user", f"Message {step}")
                assert memory.recall("message", user=f"user {number % 3}")

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(8)))
        for number in range(8):
            session = memory.session("web", f"c{number}", user=f"user {number % 3}")
            assert [message.sequence for message in session.messages()] == list(range(1, 16))
        check(memory)
