"""Nobody waits for the write lock while somebody else imports a module."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import limpet

PROGRAM = """
import logging, sys
from limpet import Limpet
from limpet.store import tx as transactions

logging.disable()
late = {}

class Watched(transactions.Tx):
    __slots__ = ()

    def run(self, work):
        before = set(sys.modules)
        try:
            return super().run(work)
        finally:
            new = {name for name in set(sys.modules) - before if name.partition(".")[0] in ("limpet", "numpy")}
            if new and not self.db.raw.execute("PRAGMA query_only").fetchone()[0]:
                late.setdefault(step, sorted(new))

import limpet.store.sqlite.connection as connection
connection.Tx = Watched

step = "open"
memory = Limpet.open(sys.argv[1])
session = memory.session("app", "main", user="ana")

def turn():
    with session.turn("I moved to Porto last week and I have a dog called Biscuit.") as held:
        held.reply("How nice!")

steps = {
    "append": lambda: session.append("user", "hello"),
    "turn": turn,
    "remember": lambda: memory.remember("I keep bees", user="ana", key="bees"),
    "jobs": memory.jobs.run,
    "context": lambda: session.context("bees"),
    "document": lambda: memory.documents.add("a.txt", "All about bees. " * 50, user="ana"),
    "remove document": lambda: memory.documents.remove("a.txt", user="ana"),
    "note": lambda: memory.notes.long_term(user="ana").append("- likes tea"),
    "items": lambda: memory.notes.export_items(user="ana"),
    "schedule": lambda: memory.schedules.create("ana", goal="feed them", cadence="cron: 0 9 * * *"),
    "compact": lambda: session.compact(keep=1),
    "working memory": lambda: session.set_working_memory("bees"),
    "expire": lambda: session.expire_in(3600),
    "rehearse": lambda: memory.forget(query="bees", user="ana", everywhere=True, dry_run=True),
    "forget": lambda: memory.forget(query="bees", user="ana", everywhere=True),
    "retention": memory.privacy.retention,
    "export": lambda: memory.transfer.export(sys.argv[1] + "-export", "ana"),
    "import": lambda: memory.transfer.import_(sys.argv[1] + "-export", user="ben"),
    "repair": lambda: memory.admin.doctor(repair=True),
    "delete": session.delete,
    "purge": lambda: memory.privacy.purge_user("ben"),
    "close": memory.close,
}
for name in sys.argv[2:] or steps:
    step = name
    steps[name]()
print(late)
"""


@pytest.mark.slow
@pytest.mark.parametrize("steps", [(), ("remember", "forget"), ("remember", "rehearse"), ("remember", "jobs")])
def test_no_module_is_imported_inside_a_write(steps: tuple[str, ...], tmp_path: Path) -> None:
    env = {
        **os.environ,
        "PYTHONPATH": str(Path(limpet.__file__).parents[1]),
        "LIMPET_EMBEDDING_MODEL": "none",
        "LIMPET_JOBS_WORKER": "false",
    }
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "data"), *steps]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert (done.stdout, done.stderr) == ("{}\n", "")
