"""Agents with settings of their own: a shared store, one apart, or memory switched off."""

from __future__ import annotations

import threading
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from limpet import AsyncLimpet, Config, Limpet, Message, SessionInfo
from limpet.errors import ConfigError, InvalidInput, SessionNotFound, StoreUnavailable
from limpet.model.job import EXTRACT
from limpet.model.scope import Level, Partition
from limpet.providers.fakes import FakeEmbedder
from limpet.store.jobs import Jobs
from limpet.store.tx import Tx

OWN = {"agents.coder.memory.place": "own"}
OFF = {"agents.ghost.memory.enabled": False}


def open_memory(folder: Path | str, **settings: Any) -> Limpet:
    return Limpet.open(folder, config=Config.load(overrides=settings.pop("overrides")), **settings)


def test_agent_settings_apply_to_its_sessions_only(tmp_path: Path) -> None:
    with open_memory(
        tmp_path, overrides={"agents.brief.context.max_tokens": 50, "agents.brief.session.kv_cap": 1}
    ) as memory:
        for agent, cap in (("brief", 1), ("other", 2)):
            session = memory.session("t", "1", user="alice", agent=agent)
            for key in ("a", "b"):
                session.kv.set(key, 1)
            assert len(session.kv.items()) == cap
            for number in range(40):
                session.append("user", f"a message of many words, number {number}, to fill the context")
            assert (session.context().tokens <= 50) is (agent == "brief")
            again = memory.load_session(session.id)
            assert (again.context().tokens <= 50) is (agent == "brief")
        assert len(memory.sessions(user="alice")) == 2


def ask_to_learn(tx: Tx, session_id: str, now: datetime) -> None:
    Jobs(tx).enqueue(Partition("default", Level.USER, "alice"), EXTRACT, session_id, now)


def test_a_job_for_a_session_uses_the_settings_and_the_model_of_its_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from limpet.knowledge.learn import Learner

    own = {"agents.coder.llm.model": "openai:small@http://127.0.0.1:9/v1", "agents.coder.learn.extractor": "none"}
    used: dict[str, tuple[str | None, str]] = {}

    def run_job(learner: Learner, _claim: object, info: SessionInfo) -> None:
        used[info.agent] = (learner.llm.model if learner.llm else None, learner.config.learn.extractor)

    monkeypatch.setattr(Learner, "run_job", run_job)
    with open_memory(tmp_path, overrides={**own, "jobs.worker": False, "learn.extractor": "rules"}) as memory:
        for agent in ("coder", "other"):
            session = memory.session("t", "1", user="alice", agent=agent)
            memory._runtime.store.write(partial(ask_to_learn, session_id=session.id, now=memory._now()))
        memory.jobs.run()
    assert used == {"coder": ("small", "none"), "other": (None, "rules")}


def test_agent_may_have_its_own_store(tmp_path: Path) -> None:
    with open_memory(tmp_path, overrides=OWN) as memory:
        database = tmp_path / "agents" / "coder" / "limpet.db"
        assert not database.exists(), "opened on first use"
        session = memory.session("t", "1", user="alice", agent="coder")
        session.append("user", "the parser lives in grammar.py")
        assert database.exists()
        assert memory.recall("parser", user="alice") == []
        assert memory.agent("coder").recall("parser", user="alice")
        assert memory.sessions() == []
        assert [info.id for info in memory.sessions(agent="coder")] == [session.id]
        assert memory.load_session(session.id).count() == 1
        with pytest.raises(SessionNotFound):
            memory.load_session("01890a5d-ac96-774b-bcce-b302099a8057")
    with open_memory(tmp_path, overrides=OWN) as memory:
        assert memory.load_session(session.id).recent(1)[0].text == "the parser lives in grammar.py"
        assert memory.agent("coder").session("t", "1", user="alice").id == session.id


QUIET = {"embedding.model": "none", "jobs.worker": False}
WORD = "xylophonist"


def fill_own_store(folder: Path) -> None:
    """One turn with the agent, its note and its jobs are in its own store; nothing of it is in the shared one."""
    with open_memory(folder, overrides=OWN | QUIET) as memory:
        memory.session("t", "1", user="bob").append("user", "hello")
        with memory.session("t", "1", user="alice", agent="coder").turn(f"I live with a {WORD}.") as turn:
            turn.reply("Noted.")


@pytest.mark.parametrize("settings", [OWN, {}], ids=["configured", "found on disk"])
def test_forget_names_what_own_store_of_agent_still_says(tmp_path: Path, settings: dict[str, Any]) -> None:
    fill_own_store(tmp_path)
    with open_memory(tmp_path, overrides=settings | QUIET) as memory:
        record = memory.remember(f"I live with a {WORD}", user="alice")
        memory.remember(f"I live with a {WORD}", user="bob")
        would = memory.forget(record.id, dry_run=True)
        gone = memory.forget(record.id, everywhere=True)
        assert gone.ids == (record.id,)
        assert any(place.startswith("message 1 of session ") for place in gone.left)
        assert all(place.endswith(", in the store of agent coder") for place in gone.left)
        assert would.left == gone.left
    with open_memory(tmp_path, overrides=OWN | QUIET) as memory:
        memory.agent("coder").forget(query=WORD, user="alice", everywhere=True)
        assert memory.forget(query=WORD, user="alice").left == ()


def test_forget_goes_on_where_own_store_of_agent_cannot_be_opened(tmp_path: Path) -> None:
    fill_own_store(tmp_path)
    for path in (tmp_path / "agents" / "coder").glob("limpet.db*"):
        path.unlink()
    (tmp_path / "agents" / "coder" / "limpet.db").write_bytes(b"not a database" * 1000)
    with open_memory(tmp_path, overrides=QUIET) as memory:
        record = memory.remember(f"I live with a {WORD}", user="alice")
        gone = memory.forget(record.id)
        assert gone.ids == (record.id,)
        assert gone.left == ("the store of agent coder, which cannot be read",)


def files_with(folder: Path, word: str = WORD) -> list[str]:
    found = [path for path in folder.rglob("*") if path.is_file() and word.encode() in path.read_bytes()]
    return sorted(str(path.relative_to(folder)) for path in found)


@pytest.mark.parametrize("settings", [OWN, {}], ids=["configured", "found on disk"])
def test_purge_user_reaches_own_store_of_agent(tmp_path: Path, settings: dict[str, Any]) -> None:
    """Without the configuration it said that nothing was left, while the words stood in the agent's file."""
    fill_own_store(tmp_path)
    assert files_with(tmp_path)
    with open_memory(tmp_path, overrides=settings | QUIET) as memory:
        assert memory.privacy.purge_user("alice", dry_run=True).counts["messages"] == 2
        receipt = memory.privacy.purge_user("alice")
        assert (receipt.verified, receipt.counts["messages"]) == (True, 2)
        assert len(memory.sessions(user="bob")) == 1
    assert files_with(tmp_path) == []


@pytest.mark.parametrize("settings", [OWN, {}], ids=["configured", "found on disk"])
def test_stats_doctor_and_jobs_cover_own_store_of_agent(tmp_path: Path, settings: dict[str, Any]) -> None:
    fill_own_store(tmp_path)
    with open_memory(tmp_path, overrides=settings | QUIET) as memory:
        stats = memory.admin.stats()
        assert (stats["sessions"], stats["messages"], stats["agents"]) == (2, 3, ["coder"])
        assert {owner.owner for owner in memory.admin.owners()} >= {"alice", "bob"}
        checks = {finding.check for finding in memory.admin.doctor()}
        assert any(check.endswith(" of agent coder") for check in checks)
        assert all(finding.ok for finding in memory.admin.doctor())
        [own, *_] = [job for job in memory.jobs.list() if job.agent == "coder" and job.kind == EXTRACT]
        store = dict(memory.jobs._stores())["coder"].store
        store.write(lambda tx: tx.db.execute("UPDATE jobs SET dead = 1 WHERE id = :id", {"id": own.id}))
        assert memory.jobs.retry([own.id]) == 1
        assert memory.jobs.run() > 0
        assert [job for job in memory.jobs.list() if job.agent and job.kind == EXTRACT] == []
        assert len(memory.jobs.list(limit=1)) <= 1
        store.write(lambda tx: tx.db.execute("UPDATE jobs SET dead = 1", {}))
        dead = [job.id for job in memory.jobs.list(state="dead")]
        assert memory.jobs.drop(dead) == len(dead) > 0


@pytest.mark.parametrize("settings", [OWN, {}], ids=["configured", "found on disk"])
def test_export_carries_own_store_of_agent(tmp_path: Path, settings: dict[str, Any]) -> None:
    fill_own_store(tmp_path / "data")
    with open_memory(tmp_path / "data", overrides=settings | QUIET) as memory:
        done = memory.transfer.export(tmp_path / "out", user="alice")
        assert (done.counts["sessions"], done.counts["messages"]) == (1, 2)
        with (tmp_path / "out.zip").open("wb") as file:
            assert memory.transfer.archive(file, user="alice").counts == done.counts
    for name, source in (("folder", "out"), ("zip", "out.zip")):
        with open_memory(tmp_path / name, overrides=OWN | QUIET) as memory:
            taken = memory.transfer.import_(tmp_path / source)
            assert (taken.sessions, taken.messages) == (1, 2)
            assert memory.sessions(user="alice") == []
            assert memory.agent("coder").recall(WORD, user="alice")
            assert memory.transfer.import_(tmp_path / source).already
    with open_memory(tmp_path / "shared", overrides=QUIET) as memory:
        memory.transfer.import_(tmp_path / "out")
        assert memory.recall(WORD, user="alice"), "an agent without its own store has its memory in the shared one"


@pytest.mark.parametrize("settings", [OWN, {}], ids=["configured", "found on disk"])
def test_backup_carries_own_store_of_agent(tmp_path: Path, settings: dict[str, Any]) -> None:
    fill_own_store(tmp_path / "data")
    with open_memory(tmp_path / "data", overrides=settings | QUIET) as memory:
        memory.admin.backup(tmp_path / "copy.db")
    assert files_with(tmp_path / "copy.db.agents") == ["coder.db"]
    with open_memory(tmp_path / "again", overrides=settings | QUIET) as memory:
        assert memory.admin.restore(tmp_path / "copy.db")["messages"] == 3
        assert memory.admin.stats()["messages"] == 3
    with open_memory(tmp_path / "again", overrides=OWN | QUIET) as memory:
        assert memory.agent("coder").recall(WORD, user="alice")


def test_agent_with_own_store_is_not_looked_up_in_shared_store(tmp_path: Path) -> None:
    with open_memory(tmp_path, overrides=OWN | OFF) as memory:
        for name in ("coder", "ghost"):
            with pytest.raises(InvalidInput, match=f"memory.agent\\('{name}'\\)"):
                memory.remember("use tabs", agent=name)
        memory.agent("coder").remember("use tabs", agent="coder")
        assert [record.content for record in memory.agent("coder").records(agent="coder")] == ["use tabs"]
        with memory.session("t", "1", user="alice", agent="coder").turn("spaces or tabs?") as turn:
            assert "use tabs" in turn.context.text


def test_agent_with_memory_disabled_accepts_calls_and_stores_nothing(tmp_path: Path) -> None:
    with open_memory(tmp_path, overrides=OFF, embedder=FakeEmbedder()) as memory:
        session = memory.session("t", "1", user="alice", agent="ghost", metadata={"a": 1})
        with session.turn("my secret is 4711") as turn:
            assert [message.text for message in turn.context.messages] == ["my secret is 4711"]
            assert turn.reply("noted", usage={"model": "m", "input_tokens": 3}) is not None
        assert turn.failed == ()
        assert session.append("user", "4711").sequence == 1
        assert len(session.extend([Message.new("user", "4711"), Message.new("assistant", "4711")])) == 2
        session.kv.set("k", "4711")
        assert session.kv.get("k") is None
        session.set_working_memory("4711")
        assert session.working_memory == ""
        assert session.set_summary("4711", 0) in (True, False)
        assert session.summary() is None
        assert not session.compact(keep=0).done
        assert (session.count(), session.messages(), session.restore(), session.transcript()) == (0, [], [], [])
        assert session.context("4711").text == ""
        assert session.update_metadata({"b": 2}) == {"a": 1, "b": 2}
        session.pause()
        session.resume()
        session.clear()
        assert session.export_transcript() == ""
        assert session.list_files() == []
        assert session.usage().models == ()
        later = session.new()
        assert later.id != session.id
        assert later.append("user", "4711").sequence == 1
        later.terminate()
        later.delete()
        ghost = memory.agent("ghost")
        assert ghost.remember("4711", user="alice", key="secret").content == "4711"
        assert ghost.records(user="alice") == []
        assert ghost.recall("4711", user="alice") == []
        assert ghost.documents.add("note:1", text="4711", user="alice")
        assert ghost.documents.list(user="alice") == []
        assert ghost.jobs.run() == 0
        assert ghost.sessions() == [] == memory.sessions()
        assert ghost.admin.stats()["messages"] == 0
        assert all(finding.ok for finding in ghost.admin.doctor())
    assert not any(b"4711" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert not (tmp_path / "agents").exists()


def test_memory_disabled_globally_creates_no_store(tmp_path: Path) -> None:
    with open_memory(tmp_path / "data", overrides={"memory.enabled": False}) as memory:
        with memory.session("t", "1", user="alice").turn("hello") as turn:
            turn.reply("hi")
        assert memory.sessions() == []
    assert not (tmp_path / "data").exists()


def test_memory_enabled_for_one_agent_only(tmp_path: Path) -> None:
    with open_memory(tmp_path, overrides={"memory.enabled": False, "agents.clerk.memory.enabled": True}) as memory:
        memory.session("t", "1", user="alice").append("user", "unheard")
        memory.session("t", "1", user="alice", agent="clerk").append("user", "heard")
        assert memory.recall("heard", user="alice") == []
        assert [hit.text for hit in memory.agent("clerk").recall("heard", user="alice")] == ["heard"]


def test_close_closes_all_agent_stores(tmp_path: Path) -> None:
    memory = open_memory(tmp_path, overrides=OWN | OFF)
    sessions = [memory.session("t", "1", user="alice", agent=name) for name in ("coder", "ghost", "other")]
    memory.close()
    memory.close()
    for session in sessions:
        with pytest.raises(StoreUnavailable):
            session.append("user", "too late")
    with pytest.raises(StoreUnavailable):
        memory.agent("coder")


def test_agent_store_is_opened_once_by_concurrent_callers(tmp_path: Path) -> None:
    with open_memory(tmp_path, overrides=OWN) as memory:
        found: list[Any] = []
        start = threading.Barrier(8)

        def ask() -> None:
            start.wait()
            found.append(memory.agent("coder")._runtime.store)

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len({id(store) for store in found}) == 1


def test_agent_name_with_path_traversal_stays_in_data_folder(tmp_path: Path) -> None:
    name = "../../elsewhere"
    with open_memory(tmp_path / "data", overrides={f"agents.{name}.memory.place": "own"}) as memory:
        memory.session("t", "1", user="alice", agent=name).append("user", "hello")
    assert {path.name for path in tmp_path.iterdir()} == {"data"}
    assert len(list((tmp_path / "data" / "agents").iterdir())) == 1


def test_agents_in_memory_have_separate_stores() -> None:
    with open_memory(":memory:", overrides=OWN) as memory:
        memory.session("t", "1", user="alice", agent="coder").append("user", "hello")
        assert memory.recall("hello", user="alice") == []
        assert memory.agent("coder").recall("hello", user="alice")


def test_agent_store_is_not_supported_on_postgres() -> None:
    with pytest.raises(ConfigError, match=r"agents\.coder\.memory\.place"):
        open_memory("postgresql://nobody@localhost:1/nothing", overrides=OWN)


def test_tenants_are_isolated_in_agent_store(tmp_path: Path) -> None:
    with open_memory(tmp_path, overrides=OWN) as memory:
        memory.tenant("acme").agent("coder").remember("acme's secret", user="alice")
        assert memory.agent("coder").records(user="alice") == []
        assert len(memory.agent("coder").tenant("acme").records(user="alice")) == 1


def test_agent_file_sessions_use_agent_store_types(tmp_path: Path) -> None:
    with open_memory(tmp_path, overrides={**OWN, "agents.coder.memory.file_stores": "basic_session"}) as memory:
        session = memory.agent("coder").admin.file_sessions().create_session()
        assert (session.agent, session.store_types) == ("coder", ("basic_session",))
        assert (tmp_path / "agents" / "coder" / "memory" / "sessions.json").exists()


async def _awaited(folder: Path) -> None:
    async with await AsyncLimpet.open(folder, config=Config.load(overrides=OWN)) as memory:
        session = await memory.session("t", "1", user="alice", agent="coder")
        await session.append("user", "hello")
        coder = await memory.agent("coder")
        assert await coder.recall("hello", user="alice")
        assert not await memory.recall("hello", user="alice")


def test_agents_work_with_async_limpet(tmp_path: Path) -> None:
    import asyncio

    asyncio.run(_awaited(tmp_path))


# Settings


def test_agent_settings_are_loaded_from_file(tmp_path: Path) -> None:
    file = tmp_path / "limpet.toml"
    file.write_text('[context]\nmax_tokens = 500\nhits = 7\n[agents."a.b".context]\nmax_tokens = 900\n')
    config = Config.load(file, overrides={"agents.a.b.context.facts": 3})
    assert config.for_agent("a.b").context.max_tokens == 900
    assert config.for_agent("a.b").context.facts == 3
    assert config.for_agent("a.b").context.hits == 7
    assert config.for_agent("another").context.max_tokens == 500
    assert config.for_agent(None) is config


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[agents.x.contxt]\nmax_tokens = 1", "did you mean context"),
        ("[agents.x.context]\nmax_token = 1", "did you mean context.max_tokens"),
        ("[agents.x.context]\nmax_tokens = 0", "agents.x.context.max_tokens must be an integer from 1"),
        ("[agents]\nx = 1", "agents.x holds sections"),
        ("agents = 3", "agents holds a table for each agent"),
        ("[agents.x.embedding]\nmodel = 'hashed'", "memory.place = 'own'"),
        ("[agents.x.memory]\nplace = 'own'\n[agents.x.aio]\nthreads = 2", "agents.x.aio must be what aio is"),
        ("[agents.x.compact]\nkeep = 500", "compact.messages must be at least"),
        ("[agent.x.context]\nmax_tokens = 1", "did you mean agents"),
    ],
)
def test_agent_settings_reject_invalid_values(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "limpet.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        Config.load(file)
    assert says in str(caught.value)


def test_agent_with_own_store_may_have_its_own_embedder(tmp_path: Path) -> None:
    file = tmp_path / "limpet.toml"
    file.write_text("[agents.x.memory]\nplace = 'own'\n[agents.x.embedding]\nmodel = 'hashed'\n")
    with Limpet.open(tmp_path, config=Config.load(file, overrides={"embedding.model": "none"})) as memory:
        assert memory.agent("x")._runtime.embedding is not None
        assert memory._runtime.embedding is None
