"""Big work is written in slices: no transaction changes many rows, and nobody sees half of it.

Rows are counted, and not seconds. The limits are small here, so that little data makes many slices.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from limpet import Config, Limpet, Message
from limpet.errors import SessionNotFound
from limpet.knowledge import delete_session, redact
from limpet.lifecycle import purge_rows
from limpet.search import chunk_repository, word_index
from limpet.store.postgres.db import PostgresDb
from limpet.store.sqlite.connection import SqliteDb
from limpet.store.store import Store
from limpet.testing import FakeClock
from tests.contract.rows import faults, sql

pytestmark = pytest.mark.every_backend

PETS = ("dog", "cat", "horse", "parrot", "rabbit")
MOST_ROWS = 900  # that one transaction changes with the limits below
WORDS = 4000  # of a document: about forty slices


class Killed(BaseException):
    """The process ends here."""


class Transactions:
    """Every write transaction of a test: how many rows it changed, and what is done after it."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.after: Callable[[], None] = lambda: None
        self._tally = 0
        self._inside = False

    def count(self, number: int) -> None:
        self._tally += max(0, number)

    def run(self, write: Callable[[], Any]) -> Any:
        if self._inside:
            return write()
        self._inside, self._tally = True, 0
        try:
            answer = write()
            self.rows.append(self._tally)
            self.after()
        finally:
            self._inside = False
        return answer


@pytest.fixture
def transactions(monkeypatch: pytest.MonkeyPatch) -> Transactions:
    seen = Transactions()

    def wrap(kind: Any, name: str, number: Callable[[tuple[Any, ...], Any], int]) -> None:
        real = getattr(kind, name)

        def counted(self: Any, *args: Any, **named: Any) -> Any:
            answer = real(self, *args, **named)
            seen.count(number(args, answer))
            return answer

        monkeypatch.setattr(kind, name, counted)

    for kind in (SqliteDb, PostgresDb):
        wrap(kind, "run", lambda _, answer: answer)
        wrap(kind, "execute_many", lambda args, _: len(args[1]))
        wrap(kind, "execute", lambda args, answer: 0 if args[0].lstrip().startswith("SELECT") else len(answer))
    write = Store.write
    monkeypatch.setattr(Store, "write", lambda self, work, **options: seen.run(lambda: write(self, work, **options)))
    return seen


@pytest.fixture(autouse=True)
def _small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_index, "MAX_ENTRIES", 100)
    monkeypatch.setattr(word_index, "MAX_MERGED", 300)
    monkeypatch.setattr(word_index, "MAX_TAIL", 8)
    monkeypatch.setattr(chunk_repository, "_MAX_DROPPED", 10)
    monkeypatch.setattr(delete_session, "_RECORDS", 5)
    monkeypatch.setattr(delete_session, "_MESSAGES", 20)
    monkeypatch.setattr(purge_rows, "LIMIT", 300)
    monkeypatch.setattr(purge_rows, "_RECORDS", 5)
    monkeypatch.setattr(purge_rows, "_MESSAGES", 20)


def text(mark: str, words: int = WORDS) -> str:
    """Every paragraph has the mark, and words of its own."""
    numbers = random.Random(mark)
    paragraphs = [" ".join(f"w{numbers.getrandbits(40):x}" for _ in range(60)) for _ in range(words // 60)]
    return "\n\n".join(f"{mark} {paragraph}." for paragraph in paragraphs)


def seen(memory: Limpet, *marks: str) -> set[tuple[str, int]]:
    """How many chunks of each mark a search finds."""
    found = set()
    for mark in marks:
        hits = memory.recall(mark, user="alice", kinds=["document"], recipe="words", k=1000)
        found.add((mark, sum(mark in hit.text for hit in hits)))
    return found


def check_bounded(transactions: Transactions, least: int = 10) -> None:
    assert len(transactions.rows) >= least, "it was not written in slices"
    assert max(transactions.rows) <= MOST_ROWS, transactions.rows


# Documents


def test_no_transaction_of_large_document_changes_many_rows(memory: Limpet, transactions: Transactions) -> None:
    for call in (
        lambda: memory.documents.add("note:1", text("walrus"), user="alice"),
        lambda: memory.documents.add("note:1", text("gecko"), user="alice"),
        lambda: memory.documents.remove("note:1", user="alice"),
    ):
        transactions.rows.clear()
        call()
        check_bounded(transactions, 30)
    assert memory.admin.stats()["chunks"] == 0
    assert faults(memory) == []


def test_search_never_sees_half_a_document(memory: Limpet, transactions: Transactions) -> None:
    memory.documents.add("note:1", text("walrus"), user="alice")
    [(_, old)] = seen(memory, "walrus")
    views: list[set[tuple[str, int]]] = []
    transactions.after = lambda: views.append(seen(memory, "walrus", "gecko"))
    memory.documents.add("note:1", text("gecko"), user="alice")
    transactions.after = lambda: None
    [(_, new)] = seen(memory, "gecko")
    assert old > 10
    assert new > 10
    switch = views.index({("walrus", 0), ("gecko", new)})
    assert switch > 5
    assert views[:switch] == [{("walrus", old), ("gecko", 0)}] * switch
    assert views[switch:] == [{("walrus", 0), ("gecko", new)}] * (len(views) - switch)
    removed: list[set[tuple[str, int]]] = []
    transactions.after = lambda: removed.append(seen(memory, "gecko"))
    memory.documents.remove("note:1", user="alice")
    assert removed == [{("gecko", 0)}] * len(removed)


def die_after(transactions: Transactions, count: int) -> None:
    def die() -> None:
        transactions.rows.append(0)
        if len(transactions.rows) > 2 * count:
            transactions.after = lambda: None
            raise Killed

    transactions.rows.clear()
    transactions.after = die


@pytest.mark.parametrize("finisher", ["worker", "doctor", "next add"])
def test_killed_add_leaves_old_document_whole(
    timed: Limpet, clock: FakeClock, transactions: Transactions, finisher: str
) -> None:
    first = timed.documents.add("note:1", text("walrus"), user="alice")
    assert not isinstance(first, list)
    whole = seen(timed, "walrus", "gecko")
    die_after(transactions, 5)
    with pytest.raises(Killed):
        timed.documents.add("note:1", text("gecko"), user="alice")
    assert timed.admin.stats()["chunks"] > first.chunks
    assert seen(timed, "walrus", "gecko") == whole
    assert [each.chunks for each in timed.documents.list(user="alice")] == [first.chunks]
    assert faults(timed) == []
    if finisher == "worker":
        timed.jobs.run()
        assert timed.admin.stats()["chunks"] > first.chunks, "it may still be written"
        clock.advance(minutes=11)
        timed.jobs.run()
    elif finisher == "doctor":
        assert any(finding.repaired for finding in timed.admin.doctor(repair=True))
    else:
        timed.documents.add("note:1", text("gecko"), user="alice")
        timed.documents.add("note:1", text("walrus"), user="alice")
    assert timed.admin.stats()["chunks"] == first.chunks
    assert seen(timed, "walrus", "gecko") == whole
    assert sql(timed, "SELECT unsettled FROM documents") == [(0,)]
    assert faults(timed) == []


def test_killed_first_add_leaves_no_document(timed: Limpet, clock: FakeClock, transactions: Transactions) -> None:
    die_after(transactions, 5)
    with pytest.raises(Killed):
        timed.documents.add("note:1", text("walrus"), user="alice")
    assert timed.documents.list(user="alice") == []
    assert seen(timed, "walrus") == {("walrus", 0)}
    clock.advance(minutes=11)
    timed.jobs.run()
    assert timed.admin.stats()["chunks"] == timed.admin.stats()["documents"] == 0
    assert faults(timed) == []


def test_killed_removal_of_document_is_finished_by_worker(
    timed: Limpet, clock: FakeClock, transactions: Transactions
) -> None:
    timed.documents.add("note:1", text("walrus"), user="alice")
    die_after(transactions, 3)
    with pytest.raises(Killed):
        timed.documents.remove("note:1", user="alice")
    assert timed.documents.list(user="alice") == []
    assert seen(timed, "walrus") == {("walrus", 0)}
    clock.advance(minutes=2)
    timed.jobs.run()
    assert timed.admin.stats()["chunks"] == timed.admin.stats()["documents"] == 0
    assert faults(timed) == []


@pytest.mark.parametrize("same", [True, False])
def test_two_simultaneous_adds_end_with_one_whole_document(
    memory: Limpet, transactions: Transactions, same: bool
) -> None:
    other = "walrus" if same else "gecko"

    def add_meanwhile() -> None:
        if len(transactions.rows) == 8:
            transactions.after = lambda: None
            transactions._inside = False
            memory.documents.add("note:1", text(other), user="alice")

    transactions.after = add_meanwhile
    memory.documents.add("note:1", text("walrus"), user="alice")
    [document] = memory.documents.list(user="alice")
    assert document.chunks == memory.admin.stats()["chunks"]
    assert seen(memory, "walrus") == {("walrus", WORDS // 60)}
    assert sql(memory, "SELECT unsettled FROM documents") == [(0,)]
    assert faults(memory) == []


# Sessions


def fill(memory: Limpet, messages: int = 120, chat: str = "chat") -> Any:
    session = memory.session("test", chat, user="alice")
    for number in range(messages // 2):
        with session.turn(f"message {number} about the walrus {text(f'm{number}', 60)}") as turn:
            turn.reply(f"answer {number} about the walrus")
    return session


def found(memory: Limpet) -> int:
    return len(memory.recall("walrus", user="alice", recipe="words", k=1000))


def test_no_transaction_of_deleted_session_changes_many_rows(memory: Limpet, transactions: Transactions) -> None:
    session = fill(memory)
    memory.jobs.run()
    transactions.rows.clear()
    views: list[tuple[int, int]] = []
    transactions.after = lambda: views.append((found(memory), len(memory.sessions(user="alice"))))
    counts = session.delete()
    transactions.after = lambda: None
    check_bounded(transactions)
    first = views.index((0, 0))
    assert first <= 3, "only its lines of the notes, and their file, may go before"
    assert views[first:] == [(0, 0)] * (len(views) - first), "it was seen while it was removed"
    assert counts["messages"] == 120
    assert counts["sessions"] == 1
    assert memory.admin.stats()["messages"] == memory.admin.stats()["sessions"] == 0
    assert faults(memory) == []


def test_killed_deletion_of_session_is_finished_by_next_worker(memory: Limpet, transactions: Transactions) -> None:
    session = fill(memory)
    die_after(transactions, 3)
    with pytest.raises(Killed):
        session.delete()
    assert found(memory) == 0
    assert memory.admin.stats()["sessions"] == 1
    with pytest.raises(SessionNotFound):
        session.append("user", "one more")
    again = memory.session("test", "chat", user="alice")
    assert again.id != session.id
    again.append("user", "a walrus")
    assert faults(memory) == []
    memory.jobs.run()
    assert memory.admin.stats()["sessions"] == memory.admin.stats()["messages"] == 1
    assert found(memory) == 1
    assert faults(memory) == []


# Purges and retention


@pytest.mark.parametrize("what", ["user", "session", "older"])
def test_no_transaction_of_purge_changes_many_rows(
    timed: Limpet, clock: FakeClock, transactions: Transactions, what: str
) -> None:
    session = fill(timed)
    clock.advance(days=20)
    fill(timed, 2, "later")
    transactions.rows.clear()
    calls: dict[str, Callable[[], Any]] = {
        "user": lambda: timed.privacy.purge_user("alice"),
        "session": lambda: timed.privacy.purge_session(session.id),
        "older": lambda: timed.privacy.purge_older("alice", 10),
    }
    receipt = calls[what]()
    check_bounded(transactions)
    assert receipt.verified, receipt.left
    assert receipt.counts["messages"] == (122 if what == "user" else 120)
    assert faults(timed) == []


def test_purged_user_is_gone_at_once_and_may_come_back(memory: Limpet, transactions: Transactions) -> None:
    fill(memory)
    views: list[tuple[int, int]] = []

    def look() -> None:
        if len(transactions.rows) > 2:  # behind the receipt, and the first slice
            views.append((found(memory), len(memory.sessions(user="alice"))))

    transactions.rows.clear()
    transactions.after = look
    memory.privacy.purge_user("alice")
    transactions.after = lambda: None
    assert len(views) > 5
    assert views == [(0, 0)] * len(views)
    fill(memory, 2)
    assert found(memory) > 0
    assert faults(memory) == []


@pytest.mark.parametrize("what", ["user", "older"])
def test_killed_purge_in_slices_is_finished_by_next_worker(
    timed: Limpet, clock: FakeClock, transactions: Transactions, what: str
) -> None:
    fill(timed)
    clock.advance(days=20)
    die_after(transactions, 6)
    with pytest.raises(Killed):
        timed.privacy.purge_user("alice") if what == "user" else timed.privacy.purge_older("alice", 10)
    assert timed.admin.stats()["messages"] > 0
    assert faults(timed) == []
    timed.jobs.run()
    [receipt] = timed.privacy.receipts()
    assert receipt.verified, receipt.left
    assert receipt.counts["messages"] == 120
    assert timed.admin.stats()["messages"] == 0
    assert faults(timed) == []


def test_no_transaction_of_retention_changes_many_rows(
    store_url: str, clock: FakeClock, transactions: Transactions
) -> None:
    days = {"retention.messages_days": 90, "retention.documents_days": 90}
    with Limpet.open(store_url, clock=clock, config=Config.load(overrides=days)) as memory:
        fill(memory)
        fill(memory, chat="expiring").expire_in(timedelta(days=200))
        memory.documents.add("note:1", text("walrus"), user="alice")
        clock.advance(days=1000)
        transactions.rows.clear()
        memory.privacy.retention()
        check_bounded(transactions, 30)
        assert memory.admin.stats()["messages"] == memory.admin.stats()["documents"] == 0
        assert faults(memory) == []


# Learning


def test_no_transaction_of_learning_changes_many_rows(memory: Limpet, transactions: Transactions) -> None:
    session = memory.session("t", "1", user="alice")
    said = [f"I love my {pet}, it is called {pet.title()}{number}." for number in range(20) for pet in PETS]
    session.extend([Message.new("user", text) for text in said])
    transactions.rows.clear()
    learned = session.learn()
    check_bounded(transactions, 4)
    assert learned.added
    transactions.rows.clear()
    assert session.learn().added == ()
    assert faults(memory) == []


# Forgetting


def test_no_transaction_of_forget_changes_many_rows(
    memory: Limpet, transactions: Transactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redact, "PAGE", 5)
    for number in range(60):
        memory.remember(f"the walrus has the number {number} {text(f'r{number}', 60)}", user="alice")
    fill(memory)
    transactions.rows.clear()
    gone = memory.forget(query="walrus", user="alice")
    check_bounded(transactions)
    assert len(gone.ids) >= 60
    assert memory.records(user="alice") == []
    assert faults(memory) == []


def test_forget_looks_again_at_record_that_was_changed_meanwhile(
    memory: Limpet, transactions: Transactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redact, "PAGE", 2)
    kept, changed, *_ = [memory.remember(f"walrus {number}", user="alice") for number in range(10)]

    def change() -> None:
        transactions.after = lambda: None
        memory.records.update(kept.id, content="a gecko")
        memory.records.update(changed.id, content="another walrus")
        memory.remember("one more walrus", user="alice")

    transactions.after = change
    gone = memory.forget(query="walrus", user="alice")
    rest = [record.content for record in memory.records(user="alice")]
    assert rest in (["a gecko"], []), "what says nothing of it any more stays, unless it went before the change"
    assert len(gone.ids) == 11 - len(rest)
    assert changed.id in gone.ids
    assert faults(memory) == []
