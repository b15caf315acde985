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
from limpet.providers.fake import FakeEmbedder
from limpet.store.jobs import Jobs
from limpet.store.tx import Tx

OWN = {"agents.coder.memory.place": "own"}
OFF = {"agents.ghost.memory.enabled": False}


def memory(folder: Path | str, **settings: Any) -> Limpet:
    return Limpet.open(folder, config=Config.load(overrides=settings.pop("overrides")), **settings)


def test_an_agents_settings_hold_for_its_sessions_only(tmp_path: Path) -> None:
    with memory(tmp_path, overrides={"agents.brief.context.max_tokens": 50, "agents.brief.session.kv_cap": 1}) as hf:
        for agent, cap in (("brief", 1), ("other", 2)):
            session = hf.session("t", "1", user="alice", agent=agent)
            for key in ("a", "b"):
                session.kv.set(key, 1)
            assert len(session.kv.items()) == cap
            for number in range(40):
                session.append("user", f"a message of many words, number {number}, to fill the context")
            assert (session.context().tokens <= 50) is (agent == "brief")
            again = hf.load_session(session.id)
            assert (again.context().tokens <= 50) is (agent == "brief")
        assert len(hf.sessions(user="alice")) == 2


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
    with memory(tmp_path, overrides={**own, "jobs.worker": False, "learn.extractor": "rules"}) as hf:
        for agent in ("coder", "other"):
            session = hf.session("t", "1", user="alice", agent=agent)
            hf._runtime.store.write(partial(ask_to_learn, session_id=session.id, now=hf._now()))
        hf.jobs.run()
    assert used == {"coder": ("small", "none"), "other": (None, "rules")}


def test_an_agent_may_have_a_store_of_its_own(tmp_path: Path) -> None:
    with memory(tmp_path, overrides=OWN) as hf:
        database = tmp_path / "agents" / "coder" / "limpet.db"
        assert not database.exists(), "opened on first use"
        session = hf.session("t", "1", user="alice", agent="coder")
        session.append("user", "the parser lives in grammar.py")
        assert database.exists()
        assert hf.recall("parser", user="alice") == []
        assert hf.agent("coder").recall("parser", user="alice")
        assert hf.sessions() == []
        assert [info.id for info in hf.sessions(agent="coder")] == [session.id]
        assert hf.load_session(session.id).count() == 1
        with pytest.raises(SessionNotFound):
            hf.load_session("01890a5d-ac96-774b-bcce-b302099a8057")
    with memory(tmp_path, overrides=OWN) as hf:
        assert hf.load_session(session.id).recent(1)[0].text == "the parser lives in grammar.py"
        assert hf.agent("coder").session("t", "1", user="alice").id == session.id


def test_what_is_kept_apart_is_not_looked_for_in_the_shared_store(tmp_path: Path) -> None:
    with memory(tmp_path, overrides=OWN | OFF) as hf:
        for name in ("coder", "ghost"):
            with pytest.raises(InvalidInput, match=f"memory.agent\\('{name}'\\)"):
                hf.remember("use tabs", agent=name)
        hf.agent("coder").remember("use tabs", agent="coder")
        assert [record.content for record in hf.agent("coder").records(agent="coder")] == ["use tabs"]
        with hf.session("t", "1", user="alice", agent="coder").turn("spaces or tabs?") as turn:
            assert "use tabs" in turn.context.text


def test_disabled_memory_accepts_everything_and_keeps_nothing(tmp_path: Path) -> None:
    with memory(tmp_path, overrides=OFF, embedder=FakeEmbedder()) as hf:
        session = hf.session("t", "1", user="alice", agent="ghost", metadata={"a": 1})
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
        ghost = hf.agent("ghost")
        assert ghost.remember("4711", user="alice", key="secret").content == "4711"
        assert ghost.records(user="alice") == []
        assert ghost.recall("4711", user="alice") == []
        assert ghost.documents.add("note:1", text="4711", user="alice")
        assert ghost.documents.list(user="alice") == []
        assert ghost.jobs.run() == 0
        assert ghost.sessions() == [] == hf.sessions()
        assert ghost.admin.stats()["messages"] == 0
        assert all(finding.ok for finding in ghost.admin.doctor())
    assert not any(b"4711" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert not (tmp_path / "agents").exists()


def test_memory_can_be_switched_off_altogether(tmp_path: Path) -> None:
    with memory(tmp_path / "data", overrides={"memory.enabled": False}) as hf:
        with hf.session("t", "1", user="alice").turn("hello") as turn:
            turn.reply("hi")
        assert hf.sessions() == []
    assert not (tmp_path / "data").exists()


def test_one_agent_may_remember_where_the_others_do_not(tmp_path: Path) -> None:
    with memory(tmp_path, overrides={"memory.enabled": False, "agents.clerk.memory.enabled": True}) as hf:
        hf.session("t", "1", user="alice").append("user", "unheard")
        hf.session("t", "1", user="alice", agent="clerk").append("user", "heard")
        assert hf.recall("heard", user="alice") == []
        assert [hit.text for hit in hf.agent("clerk").recall("heard", user="alice")] == ["heard"]


def test_all_are_closed_together(tmp_path: Path) -> None:
    hf = memory(tmp_path, overrides=OWN | OFF)
    sessions = [hf.session("t", "1", user="alice", agent=name) for name in ("coder", "ghost", "other")]
    hf.close()
    hf.close()
    for session in sessions:
        with pytest.raises(StoreUnavailable):
            session.append("user", "too late")
    with pytest.raises(StoreUnavailable):
        hf.agent("coder")


def test_one_store_is_opened_however_many_ask_at_once(tmp_path: Path) -> None:
    with memory(tmp_path, overrides=OWN) as hf:
        found: list[Any] = []
        start = threading.Barrier(8)

        def ask() -> None:
            start.wait()
            found.append(hf.agent("coder")._runtime.store)

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len({id(store) for store in found}) == 1


def test_names_that_reach_for_other_folders_stay_below(tmp_path: Path) -> None:
    name = "../../elsewhere"
    with memory(tmp_path / "data", overrides={f"agents.{name}.memory.place": "own"}) as hf:
        hf.session("t", "1", user="alice", agent=name).append("user", "hello")
    assert {path.name for path in tmp_path.iterdir()} == {"data"}
    assert len(list((tmp_path / "data" / "agents").iterdir())) == 1


def test_two_agents_in_memory_have_a_store_each() -> None:
    with memory(":memory:", overrides=OWN) as hf:
        hf.session("t", "1", user="alice", agent="coder").append("user", "hello")
        assert hf.recall("hello", user="alice") == []
        assert hf.agent("coder").recall("hello", user="alice")


def test_a_server_has_no_folders_for_agents() -> None:
    with pytest.raises(ConfigError, match=r"agents\.coder\.memory\.place"):
        memory("postgresql://nobody@localhost:1/nothing", overrides=OWN)


def test_tenants_stay_apart_in_an_agents_store(tmp_path: Path) -> None:
    with memory(tmp_path, overrides=OWN) as hf:
        hf.tenant("acme").agent("coder").remember("acme's secret", user="alice")
        assert hf.agent("coder").records(user="alice") == []
        assert len(hf.agent("coder").tenant("acme").records(user="alice")) == 1


def test_plain_files_take_their_store_types_from_the_agents_settings(tmp_path: Path) -> None:
    with memory(tmp_path, overrides={**OWN, "agents.coder.memory.file_stores": "basic_session"}) as hf:
        session = hf.agent("coder").admin.file_sessions().create_session()
        assert (session.agent, session.store_types) == ("coder", ("basic_session",))
        assert (tmp_path / "agents" / "coder" / "memory" / "sessions.json").exists()


async def _awaited(folder: Path) -> None:
    async with await AsyncLimpet.open(folder, config=Config.load(overrides=OWN)) as hf:
        session = await hf.session("t", "1", user="alice", agent="coder")
        await session.append("user", "hello")
        coder = await hf.agent("coder")
        assert await coder.recall("hello", user="alice")
        assert not await hf.recall("hello", user="alice")


def test_the_same_awaited(tmp_path: Path) -> None:
    import asyncio

    asyncio.run(_awaited(tmp_path))


# Settings


def test_settings_of_an_agent_come_from_the_file(tmp_path: Path) -> None:
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
def test_wrong_settings_of_an_agent_are_refused(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "limpet.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        Config.load(file)
    assert says in str(caught.value)


def test_an_agent_apart_may_have_its_own_embedder(tmp_path: Path) -> None:
    file = tmp_path / "limpet.toml"
    file.write_text("[agents.x.memory]\nplace = 'own'\n[agents.x.embedding]\nmodel = 'hashed'\n")
    with Limpet.open(tmp_path, config=Config.load(file, overrides={"embedding.model": "none"})) as hf:
        assert hf.agent("x")._runtime.embedding is not None
        assert hf._runtime.embedding is None
