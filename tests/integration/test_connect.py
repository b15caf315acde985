"""``Limpet.connect``: what the contract does not say. Keys, time, files, asyncio, and what does not work over HTTP."""

from __future__ import annotations

import asyncio
import io
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

pytest.importorskip("starlette")

from limpet import AsyncLimpet, Config, Limpet, Message
from limpet.api.remote.memory import BY_HAND
from limpet.errors import (
    IdempotencyConflict,
    InvalidInput,
    PermissionDenied,
    SessionNotFound,
    StorageError,
    StoreUnavailable,
    Unauthenticated,
    Unsupported,
    WrongState,
)
from limpet.security.operation import OPERATIONS
from limpet.tools import Toolbox
from tests.served import served


class Backwards:
    name = "backwards"

    def scores(self, question: str, texts: Sequence[str]) -> list[float]:
        return [float(number) for number in range(len(texts))]


PLAIN = Config.load(overrides={"embedding.model": "none", "jobs.worker": False})


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Limpet]:
    """The store, as the server has it."""
    with Limpet.open(tmp_path / "data", config=PLAIN) as opened:
        yield opened


@pytest.fixture
def url(memory: Limpet) -> Iterator[str]:
    with served(memory) as address:
        yield address


def test_a_client_and_the_store_see_the_same(memory: Limpet, url: str) -> None:
    with Limpet.connect(url) as client:
        assert isinstance(client, Limpet)
        made = client.remember("the heron is back", user="alice", key="bird")
        assert memory.records.get(made.id).content == "the heron is back"
        assert client.records.get(made.id) == made
        assert client.session(user="alice").id == memory.session(user="alice").id


def test_a_key_says_whose_memory_it_is(memory: Limpet, url: str) -> None:
    alice, bob = (memory.access.keys.create(name, user=name).secret for name in ("alice", "bob"))
    with Limpet.connect(url, key=alice) as client:
        made = client.remember("my secret")
        assert made.user == "alice"
        assert client.session(channel="t", chat="1").user == "alice"
        with pytest.raises(PermissionDenied) as refused:
            client.recall("secret", user="bob")
        assert refused.value.missing == "read:user:bob"
    with Limpet.connect(url, key=bob) as client:
        assert client.recall("secret") == []
        with pytest.raises(PermissionDenied):
            client.records.get(made.id, user="alice")


def test_a_key_that_is_wrong_missing_or_revoked_opens_nothing(memory: Limpet, url: str) -> None:
    made = memory.access.keys.create("alice", user="alice")
    with Limpet.connect(url, key=made.secret) as client:
        assert client.recall("anything") == []
        memory.access.keys.revoke("alice")
        memory.access.keys.create("other", user="alice")
        with pytest.raises(Unauthenticated):
            client.recall("anything")
    for key in (None, "lim_wrong"):
        with Limpet.connect(url, key=key) as client, pytest.raises(Unauthenticated):
            client.recall("anything")


def test_the_user_of_the_client_is_meant_where_nobody_is_named(url: str) -> None:
    with Limpet.connect(url, user="alice") as client:
        assert client.remember("text").user == "alice"
        assert client.remember("text", user="bob").user == "bob"
        assert client.remember("text", scope="global").user is None
        assert client.session(channel="t", chat="1").user == "alice"
        assert client.notes.long_term().append("a line").text == "a line\n"
        assert client.profile().text


def test_an_exception_inside_a_turn_leaves_the_message(url: str) -> None:
    with Limpet.connect(url) as client:
        session = client.session(user="alice")
        with pytest.raises(ZeroDivisionError), session.turn("a question") as turn:
            turn.add("tool", "half a result", tool_call_id="1")
            raise ZeroDivisionError
        assert [message.text for message in session.messages()] == ["a question"]


def test_a_turn_goes_on_when_the_server_is_gone(memory: Limpet, caplog: pytest.LogCaptureFixture) -> None:
    with served(memory) as url:
        client = Limpet.connect(url, timeout=30)
        session = client.session(user="alice")
        client.close()
    with pytest.raises(StorageError), session.turn("Where is my memory?") as turn:
        assert [message.text for message in turn.context.messages] == ["Where is my memory?"]
        assert turn.context.as_openai()[-1]["content"] == "Where is my memory?"
        turn.reply("Gone.")
    assert [failed.what for failed in turn.failed] == ["keeping the user's message", "keeping the reply"]
    assert "a turn goes on without keeping the reply" in caplog.text


def test_a_turn_keeps_what_comes_between_and_what_the_reply_says_of_itself(url: str) -> None:
    with Limpet.connect(url) as client:
        session = client.session(user="alice")
        with session.turn("Weather?", name="Al", metadata={"a": 1}, idempotency_key="t-1") as turn:
            turn.add("assistant", "", tool_calls=[{"id": "1", "name": "weather", "arguments": {"in": "Porto"}}])
            turn.add("tool", "rain", tool_call_id="1", is_error=True)
            reply = turn.reply("It rains.", usage={"model": "m", "input_tokens": 7}, metadata={"b": 2}, name="Bot")
        assert reply is not None
        assert (reply.name, reply.metadata) == ("Bot", {"b": 2})
        question, called, result, said = session.messages()
        assert (question.name, question.metadata) == ("Al", {"a": 1})
        assert called.tool_calls[0].arguments == {"in": "Porto"}
        assert (result.text, result.is_error) == ("rain", True)
        assert said == reply
        assert session.usage().models[0].input_tokens == 7
        with session.turn("Weather?", name="Al", metadata={"a": 1}, idempotency_key="t-1") as again:
            again.reply("It rains.", name="Bot")
        assert session.count() == 4
        with pytest.raises(IdempotencyConflict), session.turn("Something else", idempotency_key="t-1"):
            pass


def test_toolbox_of_a_client_creates_schedules(url: str) -> None:
    with Limpet.connect(url) as client:
        made = Toolbox(client, "alice").call("schedule_create", {"goal": "water the plants", "cadence": "every: 2h"})
    assert made.data is not None, made.text
    assert "nothing has run schedules" in made.data["note"]


def test_a_list_longer_than_a_page_comes_whole(memory: Limpet, url: str) -> None:
    session = memory.session(user="alice")
    session.extend([Message.new("user", f"line {number}") for number in range(2345)])
    with Limpet.connect(url) as client:
        there = client.load_session(session.id)
        assert [message.sequence for message in there.messages()] == list(range(1, 2346))
        assert [message.sequence for message in there.messages(after=10, before=1500, limit=1100)][::1099] == [11, 1110]
        assert [message.sequence for message in there.messages(before=5, limit=2)] == [1, 2]


def test_a_list_of_records_longer_than_a_page_comes_whole(memory: Limpet, url: str) -> None:
    for number in range(1010):
        memory.remember(f"fact {number}", user="alice")
    with Limpet.connect(url) as client:
        everything = [record.id for record in memory.records(user="alice", limit=2000)]
        assert [record.id for record in client.records(user="alice", limit=2000)] == everything
        assert [record.id for record in client.records(user="alice", limit=1005, offset=3)] == everything[3:1008]
        assert client.records(user="alice", limit=0) == []


def test_notes_are_joined_with_what_others_added(memory: Limpet, url: str) -> None:
    with Limpet.connect(url) as client:
        mine, theirs = client.notes.long_term("alice"), memory.notes.long_term("alice")
        mine.write("# Memory\n")
        assert mine.read() == theirs.read() == "# Memory\n"
        theirs.append("added by somebody\n")
        assert mine.write("# Memory\nmine\n").text == theirs.read()
        assert {"mine", "added by somebody"} <= set(theirs.read().splitlines())
        mine.read()
        theirs.write("all new\n", version="*")
        with pytest.raises(WrongState, match="changed by somebody else"):
            mine.write("all mine\n")
        assert theirs.read() == "all new\n"


def test_memory_notes_tool_masks_as_the_server_is_configured(tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6" * 3
    for masks in (True, False):
        config = Config.load(overrides={"embedding.model": "none", "jobs.worker": False, "learn.secrets": masks})
        with Limpet.open(tmp_path / str(masks), config=config) as memory, served(memory) as url:
            with Limpet.connect(url, user="alice") as client:
                box = Toolbox(client, "alice")
                for arguments in ({"action": "write"}, {"action": "append"}):
                    answer = box.call("memory_notes", {**arguments, "text": f"export GITHUB_TOKEN={secret}"})
                    assert not answer.is_error, answer.text
                assert secret not in box.call("memory_notes", {"action": "read"}).text or not masks
                client.notes.long_term().append(f"my own page: {secret}")
            text = memory.notes.long_term(user="alice").read()
            assert text.count("[secret: github token]") == (2 if masks else 0)
            assert text.count(secret) == (1 if masks else 3)


def test_files_are_read_and_written_by_the_client(memory: Limpet, url: str, tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    (here / "a.md").write_text("# Herons\nThey stand in the river.")
    (here / "page.html").write_text("<title>Otters</title><p>They swim.</p>")
    with Limpet.connect(url, user="alice") as client:
        added = client.documents.add(here)
        assert isinstance(added, list)
        assert [document.title for document in added] == ["Herons", "Otters"]
        assert client.documents.text(here / "page.html") == "Otters\n\nThey swim."
        done = client.transfer.export(tmp_path / "export", user="alice")
        local = memory.transfer.export(tmp_path / "local", user="alice")
        assert (done.counts, done.bytes, done.path) == (local.counts, local.bytes, str(tmp_path / "export"))
        manifests = [(tmp_path / place / "manifest.json").read_bytes() for place in ("export", "local")]
        assert manifests[0] == manifests[1]
        packed = io.BytesIO()
        assert client.transfer.archive(packed, user="alice").counts == local.counts
        with pytest.raises(InvalidInput, match="not empty"):
            client.transfer.export(tmp_path / "export", user="alice")
        assert client.documents.remove(here / "a.md").total == 1
        (tmp_path / "export.zip").write_bytes(packed.getvalue())
        for place in (tmp_path / "export", tmp_path / "export.zip"):
            assert client.transfer.import_(place, user="bob").documents in {0, 2}
        assert len(client.documents.list(user="bob")) == 2
        with pytest.raises(InvalidInput, match="cannot be read"):
            client.transfer.import_(tmp_path / "nothing", user="bob")


def test_a_closed_client_refuses_and_the_server_goes_on(memory: Limpet, url: str) -> None:
    client = Limpet.connect(url)
    session = client.session(user="alice")
    client.close()
    client.close()
    for call in (lambda: client.recall("x"), lambda: session.append("user", "x"), session.kv.items):
        with pytest.raises(StoreUnavailable, match="closed"):
            call()
    assert memory.session(user="alice").count() == 0


def test_errors_are_those_of_a_store(url: str) -> None:
    with Limpet.connect(url) as client:
        with pytest.raises(SessionNotFound):
            client.load_session("01a1e360-e642-78df-8be1-eab66d66ffac")
        with pytest.raises(InvalidInput, match="k "):
            client.recall("x", k=0)
        with pytest.raises(TypeError, match=r"Limpet\.recall"):
            client.recall()  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="colour"):
            client.recall("x", colour="red")  # type: ignore[call-arg]


def test_nobody_there_says_how_to_start_a_server() -> None:
    with pytest.raises(StoreUnavailable, match="start it with limpet serve"):
        Limpet.connect("http://127.0.0.1:1")


def test_what_is_not_a_limpet_server_is_told_apart(url: str) -> None:
    with pytest.raises(StoreUnavailable, match="Limpet server"):
        Limpet.connect(url.rpartition("/")[0] + "/nothing-here")


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), "30", True, None])
def test_a_time_limit_is_a_number_above_zero(timeout: float) -> None:
    with pytest.raises(InvalidInput, match="timeout"):
        Limpet.connect("http://127.0.0.1:1", timeout=timeout)


def test_what_does_not_work_over_http_says_so(url: str) -> None:
    with Limpet.connect(url) as client:
        for call in (
            lambda: client.config,
            lambda: client.principal,
            lambda: client.agent("poet"),
            lambda: client.tenant("other"),
            lambda: client.acting("alice"),
            client.jobs.start_worker,
            lambda: client.admin.backup("copy.db"),
            lambda: client.notes.long_term("alice").path,
            lambda: client.recall("x", user="alice", rerank=Backwards()),
        ):
            with pytest.raises(Unsupported, match="does not work over HTTP"):
                call()


def test_every_operation_works_remotely_or_says_why() -> None:
    """What is left out is known by name, so that nothing is left out by accident."""
    left_out = {name for name, each in OPERATIONS.items() if "remote" in each.left_out}
    assert left_out == {
        *("acting", "tenant", "jobs.start_worker", "schedules.run"),
        *("access.keys.acting", "access.keys.allow_anonymous"),
        *("admin.file_sessions", "admin.observe", "admin.backup", "admin.restore", "transfer.import_file"),
    }
    assert [name for name, each in OPERATIONS.items() if not each.http and name not in left_out] == []
    assert BY_HAND.keys() <= OPERATIONS.keys() - left_out


def test_the_same_awaited(url: str) -> None:
    async def use() -> None:
        async with AsyncLimpet.connect(url, user="alice") as client:
            made = await client.remember("the heron is back")
            assert (await client.records.get(made.id)).content == "the heron is back"
            session = await client.session(channel="t", chat="1")
            await asyncio.gather(*(session.append("user", f"line {number}") for number in range(20)))
            assert await session.count() == 20
            await session.kv.set("a", 1)
            assert await session.kv.get("a") == 1
            async with session.turn("a question") as turn:
                turn.add("tool", "result", tool_call_id="1")
                assert await turn.reply("an answer") is not None
            assert [message.text for message in await session.recent(3)] == ["a question", "result", "an answer"]
            assert await client.notes.long_term("alice").read() == ""
        with pytest.raises(StoreUnavailable):
            await client.recall("x")

    asyncio.run(use())


def test_connecting_needs_the_standard_library_only(tmp_path: Path) -> None:
    """A client's machine has none of the server's packages."""
    code = """
import sys
for name in ("starlette", "uvicorn", "pydantic", "numpy", "httpx", "mcp", "anyio"):
    sys.modules[name] = None
from limpet import Limpet
try:
    Limpet.connect("http://127.0.0.1:1")
except Exception as error:
    print(type(error).__name__)
"""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=True)
    assert done.stdout.strip() == "StoreUnavailable"
