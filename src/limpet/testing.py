"""For tests: a clock, a language model and an embedder that do as they are told, and the contract of every backend.

``FakeClock``, ``FakeLlm`` and ``FakeEmbedder`` go into ``Limpet.open(…, clock=, llm=, embedder=)``. To test a backend
of your own, run the contract on it with pytest::

    class TestMyBackend(BackendContract):
        @pytest.fixture
        def store_url(self):
            return "mydb://…"  # of a new, empty store for each test
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from limpet.providers.fakes import FakeEmbedder, FakeLlm

if TYPE_CHECKING:
    from pathlib import Path

    from limpet import Limpet, LimpetError

__all__ = ["BackendContract", "FakeClock", "FakeEmbedder", "FakeLlm", "find_faults"]

_START = datetime(2026, 3, 10, 12, 0, tzinfo=UTC)
_HARD_TEXT = "naïve\x01 \U0001f9a6 'quoted' \"twice\" 100% \\ -- ; 日本語\n\n\ttab"


class FakeClock:
    """A clock that moves only when it is advanced."""

    def __init__(self, now: datetime = _START) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def advance(self, seconds: float = 0, **units: float) -> datetime:
        """Also by ``minutes=``, ``hours=``, ``days=`` and what else timedelta takes."""
        self.now += timedelta(seconds=seconds, **units)
        return self.now


class BackendContract:
    """What every backend does alike. Each test gets the ``store_url`` of a new, empty store.

    A backend whose stores end with their handle says so with ``durable = False``.
    """

    durable = True

    def open(self, store_url: str, **more: Any) -> Limpet:
        from limpet import Config, Limpet

        overrides = {"embedding.model": "none", "jobs.worker": False, **more.pop("settings", {})}
        return Limpet.open(store_url, config=Config.load(env={}, overrides=overrides), **more)

    # Sessions

    def test_messages_come_back_as_they_were(self, store_url: str) -> None:
        with self.open(store_url) as memory:
            session = memory.session("app", "main", user="alice")
            session.append("user", _HARD_TEXT, metadata={"a": [1, None, "é"]})
            session.append("assistant", "Noted.")
            stored = session.messages()
            assert [message.sequence for message in stored] == [1, 2]
            assert [message.text for message in stored] == [_HARD_TEXT, "Noted."]
            assert stored[0].metadata == {"a": [1, None, "é"]}
            assert [message.text for message in session.recent(1)] == ["Noted."]

    def test_what_was_written_is_there_when_the_store_is_opened_again(self, store_url: str) -> None:
        if not self.durable:
            return
        with self.open(store_url) as memory:
            session = memory.session("app", "main", user="alice")
            session.append("user", "My dog is called Biscuit")
            record = memory.remember("Alice has a dog", user="alice", key="dog")
        with self.open(store_url) as memory:
            assert [message.text for message in memory.load_session(session.id).messages()] == [
                "My dog is called Biscuit"
            ]
            assert memory.records.get(record.id) == record
            assert memory.recall("Biscuit", user="alice")

    def test_many_threads_get_one_sequence_number_each(self, store_url: str) -> None:
        with self.open(store_url) as memory, ThreadPoolExecutor(4) as threads:
            session = memory.session("app", "main", user="alice")
            given = threads.map(lambda number: session.append("user", str(number)).sequence, range(60))
            assert sorted(given) == list(range(1, 61))

    def test_two_handles_of_one_store_get_one_sequence_number_each(self, store_url: str) -> None:
        if not self.durable:
            return
        with self.open(store_url) as one, self.open(store_url) as two, ThreadPoolExecutor(4) as threads:
            id = one.session("app", "main", user="alice").id
            sessions = [one.load_session(id), two.load_session(id)]
            given = threads.map(lambda number: sessions[number % 2].append("user", "x").sequence, range(40))
            assert sorted(given) == list(range(1, 41))

    def test_a_write_that_is_refused_leaves_nothing(self, store_url: str) -> None:
        from limpet.errors import SequenceConflict

        with self.open(store_url) as memory:
            session = memory.session("app", "main", user="alice")
            session.append("user", "one")
            _refuses(SequenceConflict, lambda: session.append("user", "walrus", sequence=1))
            assert session.count() == 1
            assert memory.recall("walrus", user="alice") == []
            assert find_faults(memory) == []

    def test_the_same_idempotency_key_writes_once(self, store_url: str) -> None:
        with self.open(store_url) as memory:
            session = memory.session("app", "main", user="alice")
            first = session.append("user", "once", idempotency_key="k")
            assert session.append("user", "once", idempotency_key="k") == first
            assert session.count() == 1

    def test_values_of_a_session_come_back(self, store_url: str) -> None:
        with self.open(store_url) as memory:
            kv = memory.session("app", "main", user="alice").kv
            kv.set("a", {"deep": [1.5, True, None, _HARD_TEXT]})
            kv.set("b", 2)
            assert kv.get("a") == {"deep": [1.5, True, None, _HARD_TEXT]}
            assert kv.delete("b")
            assert kv.get("b") is None

    def test_a_summary_is_swapped_only_by_who_saw_the_last(self, store_url: str) -> None:
        with self.open(store_url) as memory:
            session = memory.session("app", "main", user="alice")
            session.append("user", "one")
            assert session.swap_summary("first", 1, expected_epoch=0)
            assert not session.swap_summary("late", 1, expected_epoch=0)
            summary = session.summary()
            assert summary is not None
            assert summary.text == "first"

    # Records and search

    def test_a_record_keeps_its_history(self, store_url: str) -> None:
        clock = FakeClock()
        with self.open(store_url, clock=clock) as memory:
            memory.remember("Alice lives in Ghent", user="alice", key="home", tags=["place"])
            before = clock.now
            clock.advance(days=1)
            record = memory.remember("Alice lives in Porto", user="alice", key="home", tags=["place"])
            assert [each.content for each in memory.records(user="alice", tags=["place"])] == ["Alice lives in Porto"]
            assert [each.content for each in memory.records(user="alice", as_of=before)] == ["Alice lives in Ghent"]
            assert len(memory.records.history(record.id)) == 2

    def test_any_question_is_answered(self, store_url: str) -> None:
        with self.open(store_url) as memory:
            session = memory.session("app", "main", user="alice")
            session.append("user", "The walrus sleeps on the ice")
            for question in ("walrus?", "'walrus' -ice*", 'a "walrus" NEAR(x) %', "ＷＡＬＲＵＳ"):
                assert [hit.text for hit in memory.recall(question, user="alice")] == ["The walrus sleeps on the ice"]
            assert memory.recall("", user="alice") == []

    def test_vectors_find_what_is_near(self, store_url: str) -> None:
        from limpet.providers.hashed import HashEmbedder

        with self.open(store_url, embedder=HashEmbedder(), settings={"embedding.when": "now"}) as memory:
            for text in ("The walrus sleeps", "Bread is baked at six", "A train leaves at nine"):
                memory.remember(text, user="alice")
            hits = memory.recall("walruses", user="alice", recipe="vectors", k=1)
            assert [hit.text for hit in hits] == ["The walrus sleeps"]

    def test_nobody_sees_what_is_not_theirs(self, store_url: str) -> None:
        with self.open(store_url) as memory:
            memory.remember("Alice hides a walrus", user="alice")
            memory.tenant("other").remember("Another walrus", user="alice")
            assert memory.recall("walrus", user="bob") == []
            assert memory.records(user="bob") == []
            assert [hit.text for hit in memory.recall("walrus", user="alice")] == ["Alice hides a walrus"]
            assert [hit.text for hit in memory.tenant("other").recall("walrus", user="alice")] == ["Another walrus"]

    def test_what_is_forgotten_is_not_found(self, store_url: str) -> None:
        with self.open(store_url) as memory:
            record = memory.remember("Alice hides a walrus", user="alice")
            memory.remember("Alice keeps bees", user="alice")
            memory.forget(id=record.id)
            assert memory.recall("walrus", user="alice") == []
            assert [each.content for each in memory.records(user="alice")] == ["Alice keeps bees"]
            assert find_faults(memory) == []

    # Work in the background, and the care of the store

    def test_a_job_is_done_once_by_the_worker_that_claims_it(self, store_url: str) -> None:
        if not self.durable:
            return
        with self.open(store_url) as one, self.open(store_url) as two, ThreadPoolExecutor(2) as threads:
            for number in range(4):
                session = one.session("app", str(number), user=f"user {number}")
                with session.turn("My name is Ann and I live in Ghent.") as turn:
                    turn.reply("Noted.")
            waiting = len(one.jobs.list(limit=100))
            done = list(threads.map(lambda memory: memory.jobs.run(), (one, two)))
            assert waiting > 0
            assert sum(done) >= waiting
            assert one.jobs.list(state="running") == []
            for number in range(4):
                homes = [each for each in one.records(user=f"user {number}") if "Ghent" in each.content]
                assert len(homes) == len({each.content for each in homes})

    def test_a_schedule_is_due_when_its_time_has_come(self, store_url: str) -> None:
        clock = FakeClock()
        with self.open(store_url, clock=clock) as memory:
            memory.schedules.create("alice", goal="water the plants", cadence="every: 1h")
            assert memory.schedules.due() == []
            clock.advance(hours=2)
            assert [each.goal for each in memory.schedules.due()] == ["water the plants"]

    def test_a_purged_user_is_gone(self, store_url: str) -> None:
        with self.open(store_url) as memory:
            memory.session("app", "main", user="alice").append("user", "The walrus is mine")
            memory.remember("Alice hides a walrus", user="alice")
            memory.remember("Bob has a walrus too", user="bob")
            assert memory.privacy.purge_user("alice").verified
            assert memory.recall("walrus", user="alice") == []
            assert memory.sessions(user="alice") == []
            assert len(memory.recall("walrus", user="bob")) == 1
            assert find_faults(memory) == []

    def test_a_backup_holds_everything(self, store_url: str, tmp_path: Path) -> None:
        with self.open(store_url) as memory:
            session = memory.session("app", "main", user="alice")
            session.append("user", _HARD_TEXT)
            memory.remember("Alice hides a walrus", user="alice")
            memory.admin.backup(tmp_path / "backup.db")
        with self.open(str(tmp_path / "backup.db")) as copy:
            assert [message.text for message in copy.load_session(session.id).messages()] == [_HARD_TEXT]
            assert len(copy.recall("walrus", user="alice")) == 1
            assert find_faults(copy) == []


def find_faults(memory: Limpet) -> list[str]:
    """What doctor finds wrong with the store, in words."""
    return [f"{finding.check}: {finding.detail}" for finding in memory.admin.doctor() if not finding.ok]


def _refuses(kind: type[LimpetError], call: Callable[[], object]) -> None:
    try:
        call()
    except kind:
        return
    raise AssertionError(f"{kind.__name__} was not raised")
