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
    "first of a user": lambda: memory.remember("I keep goats", user="zoe"),
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

OF_OTHERS = """
class Lengths:
    name, dimension, quick = "lengths", 2, True

    def embed(self, texts):
        return [[float(len(text)), 1.0] for text in texts]
"""
WITH_OTHERS = OF_OTHERS + PROGRAM.replace("Limpet.open(sys.argv[1])", "Limpet.open(sys.argv[1], embedder=Lengths())")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "steps"),
    [
        pytest.param(PROGRAM, (), id="all"),
        pytest.param(PROGRAM, ("remember", "forget"), id="forget"),
        pytest.param(PROGRAM, ("remember", "rehearse"), id="rehearse"),
        pytest.param(PROGRAM, ("remember", "jobs"), id="jobs"),
        pytest.param(WITH_OTHERS, ("first of a user",), id="another embedder"),
    ],
)
def test_no_module_is_imported_inside_a_write(program: str, steps: tuple[str, ...], tmp_path: Path) -> None:
    env = {
        **os.environ,
        "PYTHONPATH": str(Path(limpet.__file__).parents[1]),
        "LIMPET_EMBEDDING_MODEL": "none",
        "LIMPET_JOBS_WORKER": "false",
    }
    command = [sys.executable, "-c", program, str(tmp_path / "data"), *steps]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert (done.stdout, done.stderr) == ("{}\n", "")
