"""What a call imports late is imported whole, in a thread that no interrupt reaches; see limpet.model.late."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = '''
import sys
from pathlib import Path
from limpet import Config, Limpet
from limpet.model import late

class Watch:
    """Notes each import that the calling thread makes by itself."""
    step, found = "", []
    def find_spec(self, name, path=None, target=None):
        frame = sys._getframe()
        while frame is not None and frame.f_code.co_filename != late.__file__:
            frame = frame.f_back
        if frame is None:
            self.found.append(f"{self.step}: {name}")

folder = Path(sys.argv[1])
watch = Watch()
config = Config.load(overrides={"embedding.model": sys.argv[2], "jobs.worker": False})
with Limpet.open(sys.argv[3], config=config) as memory:
    sys.meta_path.insert(0, watch)

    def take_turn(text, reply):
        with session.turn(text) as turn:
            turn.reply(reply)

    def add(name, text):
        folder.joinpath(name).write_text(text)
        memory.documents.add(folder / name, user="alice")

    session = memory.session(user="alice", channel="test", chat="1")
    for watch.step, call in [
        ("append", lambda: session.append("user", "I live in Porto \\U0001f600.", metadata={"a": 1})),
        ("recall", lambda: memory.recall("Where did I live last week?", user="alice")),
        ("turn", lambda: take_turn("I moved to Braga yesterday.", "Noted.")),
        ("context", lambda: session.context("Where do I live?")),
        ("learn", lambda: memory.jobs.run()),
        ("turn again", lambda: take_turn("Actually I moved to Lisbon. I see the dentist on May 5th.", "Noted.")),
        ("learn again", lambda: memory.jobs.run()),
        ("remember", lambda: memory.remember("I like tea", user="alice", key="tea")),
        ("forget dry", lambda: memory.forget(query="tea", user="alice", dry_run=True)),
        ("forget", lambda: memory.forget(query="tea", user="alice")),
        ("document", lambda: add("cats.md", "# Cats and dogs")),
        ("web page", lambda: add("cats.html", "<h1>Cats</h1><p>and dogs")),
        ("notes", lambda: memory.notes.long_term(user="alice").write("# Hello")),
        ("schedule", lambda: memory.schedules.create("alice", goal="say hi", cadence="cron: 0 9 * * *")),
        ("run schedules", lambda: memory.schedules.run(lambda firing: "done")),
        ("compact", lambda: session.compact(keep=1)),
        ("stats", lambda: memory.admin.stats()),
        ("doctor", lambda: memory.admin.doctor()),
        ("export", lambda: memory.transfer.export(folder / "export")),
        ("import", lambda: memory.transfer.import_(folder / "export")),
        ("retention", lambda: memory.privacy.retention()),
        ("delete", lambda: session.delete()),
        ("purge", lambda: memory.privacy.purge_user("alice")),
        ("jobs", lambda: memory.jobs.run()),
    ]:
        call()
print(*watch.found, sep="\\n", end="")
'''


@pytest.mark.parametrize("embedder", ["hashed", "encoder", "none"])
def test_no_call_imports_in_the_thread_of_its_caller(tmp_path: Path, store_url: str, embedder: str) -> None:
    program = [sys.executable, "-c", PROGRAM, str(tmp_path), embedder, store_url]
    ran = subprocess.run(program, capture_output=True, text=True, timeout=120, env={**os.environ}, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == ""
