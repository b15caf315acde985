"""Dying at a chosen point: before the n-th statement or file operation of a job, in a process of its own.

A job is run again and again, at one point after the other. So every state a crash can leave is seen, not only the
likely ones.
"""

from __future__ import annotations

import os
import secrets
import signal
import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from limpet import Limpet, Message
from limpet.api.runtime import open_store
from limpet.config import Config
from limpet.documents import add as document_slices
from limpet.model.values import system_clock
from limpet.search import chunk_repository, word_index
from limpet.store import copy
from limpet.store.sqlite import store as sqlite_store
from tests.crash import writes

NOW = datetime(2026, 3, 10, 12, 0, tzinfo=UTC)
# A job at the start is none of the operation's.
KEPT = Config.load(overrides={"notes.items": False, "retention.enabled": False})
QUIET = Config.load(overrides={"jobs.worker": False, "notes.items": False, "retention.enabled": False})
TAIL = 24  # chunks before the word index is merged: so few that a small store has both parts of it


class Fuse:
    """Burns one step at each point while lit, and kills the process at its end. One of length 0 has no end."""

    def __init__(self, length: int) -> None:
        self._length = length
        self.burnt = 0
        self.lit = False

    def burn(self) -> None:
        if self.lit:
            self.burnt += 1
            if self.burnt == self._length:
                os.kill(os.getpid(), signal.SIGKILL)

    def before(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            self.burn()
            return function(*args, **kwargs)

        return call


def run(job: str, at: int, store: str, target: str = "", count: str = "") -> None:
    """In the child: do the job on the store, and die at that point of it. A survivor notes the number of points."""
    fuse = Fuse(at)
    _wire(fuse)
    secrets.token_bytes = Random(job).randbytes  # type: ignore[assignment]  # the same ids each time
    if job in OTHERS:
        OTHERS[job](fuse, store, target)
    else:
        with Limpet.open(store, config=KEPT, clock=lambda: NOW + timedelta(seconds=1)) as memory:
            fuse.lit = True
            VERBS[job](memory)
            fuse.lit = False
    fuse.lit = False
    Path(count).write_text(str(fuse.burnt))


def _wire(fuse: Fuse) -> None:
    class Wired(sqlite3.Connection):
        def execute(self, *args: Any) -> sqlite3.Cursor:
            fuse.burn()
            return super().execute(*args)

        def executemany(self, *args: Any) -> sqlite3.Cursor:
            fuse.burn()
            return super().executemany(*args)

        def backup(self, target: sqlite3.Connection, *, pages: int, progress: Callable[..., None]) -> None:  # type: ignore[override]
            super().backup(target, pages=pages, progress=fuse.before(progress))

        def close(self) -> None:
            fuse.burn()
            super().close()

    connect = sqlite3.connect
    sqlite3.connect = lambda *args, **kwargs: connect(*args, **kwargs, factory=Wired)  # type: ignore[assignment]
    sqlite_store._BACKUP_PAGES = 8
    word_index.MAX_TAIL = TAIL
    for name in ("replace", "unlink", "fsync"):
        setattr(os, name, fuse.before(getattr(os, name)))
    try:
        import psycopg
    except ImportError:
        return
    psycopg.Connection.execute = fuse.before(psycopg.Connection.execute)  # type: ignore[method-assign]
    psycopg.Cursor.executemany = fuse.before(psycopg.Cursor.executemany)  # type: ignore[method-assign]


# Verbs, on a store that furnish() has filled


def furnish(memory: Limpet) -> None:
    """Something of everything. The word index has a merged part, and a tail that a few more chunks would merge."""
    session = memory.session("test", "chat", user="alice")
    session.extend(
        [Message.new("user", f"message {number} about topic{number % 7}") for number in range(2 * TAIL - 12)]
    )
    session.append("user", "the long one. " * 90, idempotency_key="long")
    session.kv.set("color", "green")
    session.swap_summary("so far", 5, 0)
    session.add_usage("model", input_tokens=5, cost=0.5)
    memory.remember("the dog is called Biscuit", user="alice", key="dog", tags=["pet"], metadata={"a.b": "c"})
    memory.remember("the dog is called Rex", user="alice", key="dog")
    memory.remember("only said in this session", session=session.id, tags=["here"])


def _session(memory: Limpet) -> Any:
    return memory.session("test", "chat", user="alice")


VERBS: dict[str, Callable[[Limpet], object]] = {
    "append": lambda memory: _session(memory).append(
        "user", "one more word " * 60, metadata={"a": 1}, idempotency_key="k"
    ),
    "extend": lambda memory: _session(memory).extend([Message.new("user", f"several {number}") for number in range(5)]),
    "merge": lambda memory: _session(memory).extend(
        [Message.new("user", f"another topic{number}") for number in range(12)]
    ),
    "rotate": lambda memory: _session(memory).new(),
    "open": lambda memory: memory.session("test", "another", user="bob", metadata={"a": [1]}),
    "clear": lambda memory: _session(memory).clear(),
    "delete": lambda memory: _session(memory).delete(),
    "kv": lambda memory: _session(memory).kv.set("color", "blue"),
    "summary": lambda memory: _session(memory).swap_summary("further", 30, 1),
    "usage": lambda memory: _session(memory).add_usage("model", output_tokens=9, cost=0.25),
    "remember": lambda memory: memory.remember(
        "a new memory " * 60, user="alice", tags=["x", "y"], metadata={"k": "v"}
    ),
    "replace": lambda memory: memory.remember("the dog is called Fido", user="alice", key="dog", tags=["pet", "new"]),
    "update": lambda memory: memory.records.update(
        memory.records(user="alice")[0].id, content="other words", metadata={"new": "er"}
    ),
    "forget": lambda memory: memory.forget(query="dog", user="alice"),
}


# What is more than one transaction, or more than one file


def _open_new(fuse: Fuse, store: str, target: str) -> None:
    fuse.lit = True
    Limpet.open(store, clock=lambda: NOW).close()


def _backup(fuse: Fuse, store: str, target: str) -> None:
    with Limpet.open(store, config=KEPT, clock=lambda: NOW) as memory:
        fuse.lit = True
        memory.admin.backup(target)
        fuse.lit = False


def _copy(fuse: Fuse, store: str, target: str) -> None:
    source, _ = open_store(store, Config(), system_clock)
    fuse.lit = True
    into, _ = open_store(target, Config(), system_clock)
    copy.copy_store(source, into)  # every store there is has the SQL below
    into.close()


def _purge(fuse: Fuse, store: str, target: str) -> None:
    with Limpet.open(store, config=QUIET, clock=lambda: NOW + timedelta(seconds=1)) as memory:
        fuse.lit = True
        memory.privacy.purge_user("alice")
        fuse.lit = False


def _forget(fuse: Fuse, store: str, target: str) -> None:
    with Limpet.open(store, config=QUIET, clock=lambda: NOW + timedelta(seconds=1)) as memory:
        fuse.lit = True
        memory.forget(query="allergic", user="alice")
        fuse.lit = False


def _write_notes(fuse: Fuse, store: str, target: str) -> None:
    with Limpet.open(store, config=QUIET, clock=lambda: NOW) as memory:
        fuse.lit = True
        memory.notes.long_term(user="alice").write("- new\n", version="*")
        memory.notes.add_turn("alice", "hello", "hi")
        fuse.lit = False


def _change_slices(fuse: Fuse, store: str, target: str) -> None:
    """A document that is replaced and a session that is deleted, each in several slices."""
    document_slices._MAX_SLICE = chunk_repository._MAX_DROPPED = 4
    with Limpet.open(store, config=QUIET, clock=lambda: NOW + timedelta(seconds=1)) as memory:
        fuse.lit = True
        memory.documents.add("paper://letter", writes.document("op0x0x0x2"), user="alice")
        memory.session("test", "long", user="alice").delete()
        fuse.lit = False


OTHERS: dict[str, Callable[[Fuse, str, str], None]] = {
    "open new": _open_new,
    "import": _open_new,  # of a folder with a sessions.json in it
    "backup": _backup,
    "copy": _copy,
    "purge": _purge,
    "forget files": _forget,
    "notes": _write_notes,
    "slices": _change_slices,
}
