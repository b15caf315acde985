"""Acting for somebody: their own, what was granted, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from limpet import AsyncLimpet, Config, Limpet
from limpet.errors import (
    InvalidInput,
    PermissionDenied,
    RecordNotFound,
    ScheduleNotFound,
    SessionNotFound,
    StoreUnavailable,
)
from limpet.security.access_repository import Grants
from tests.contract.processes import run_together
from tests.contract.rows import every_row

pytestmark = pytest.mark.every_backend


def test_user_has_full_access_to_own_data_without_grant(memory: Limpet) -> None:
    alice = memory.acting("alice")
    chat = alice.session("telegram", "1")
    assert chat.user == "alice"
    with chat.turn("my dog is called Biscuit") as turn:
        turn.reply("a fine name")
    fact = alice.remember("Biscuit is three", key="dog_age")
    assert fact.user == "alice"
    assert alice.recall("Biscuit")
    assert alice.records.get(fact.id) == fact
    assert alice.records.update(fact.id, content="Biscuit is four").content == "Biscuit is four"
    assert [info.id for info in alice.sessions()] == [chat.id]
    assert {record.user for record in alice.records()} == {"alice"}
    alice.documents.add("note:1", "about dogs")
    assert [document.uri for document in alice.documents.list()] == ["note:1"]
    assert alice.load_session(chat.id).messages() == chat.messages()
    chat.kv.set("k", 1)
    assert (chat.kv.get("k"), chat.working_memory, chat.count()) == (1, "", 2)
    assert alice.forget(fact.id).ids == (fact.id,)
    assert chat.new().user == "alice"
    chat.delete()


def test_permission_denied_names_missing_grant_and_changes_nothing(memory: Limpet) -> None:
    memory.remember("a secret", user="bob", key="k")
    before, alice = every_row(memory), memory.acting("alice")
    with pytest.raises(PermissionDenied) as caught:
        alice.remember("mine now", user="bob", key="k")
    assert caught.value.missing == "write:user:bob"
    assert "remember needs write:user:bob, which alice does not have" in str(caught.value)
    assert "memory.access.grant('alice', 'write:user:bob') gives it" in str(caught.value)
    with pytest.raises(PermissionDenied, match="write:global"):
        alice.remember("for all", scope="global")
    with pytest.raises(PermissionDenied, match="read:store"):
        alice.admin.stats()
    assert every_row(memory) == before


def test_context_includes_global_and_agent_memory_only_with_grant(memory: Limpet) -> None:
    """Memory for the whole tenant stands in a context only where that was granted."""
    memory.remember("The office closes at six", scope="global")
    memory.remember("Answer in rhymes", agent="poet")
    alice, chat = memory.acting("alice"), memory.session("a", "b", user="alice", agent="poet")

    def shown(handle: Limpet) -> tuple[bool, bool]:
        text = handle.load_session(chat.id).context("office rhymes").text
        return "closes at six" in text, "in rhymes" in text

    assert shown(memory) == (True, True)
    assert shown(alice) == (False, False)
    assert shown(memory.acting("alice", agent="poet")) == (False, True)
    assert shown(memory.acting("alice", grants=["read:agent:poet"])) == (False, True)
    with pytest.raises(PermissionDenied, match="read:global"):
        alice.recall("office", scope="global")
    memory.access.grant("alice", "read:global")
    assert shown(alice) == (True, True)
    assert alice.recall("office", scope="global")
    with alice.load_session(chat.id).turn("when does the office close?") as turn:
        assert "closes at six" in turn.context.text
    with pytest.raises(PermissionDenied, match="write:global"):
        alice.remember("at seven", scope="global")


def test_revoked_grant_takes_effect_in_existing_handles(durable_url: str) -> None:
    """Also for a handle that was made before, and in another process."""
    with Limpet.open(durable_url) as memory:
        bob = memory.session("a", "b", user="bob")
        bob.append("user", "a secret")
        alice = memory.acting("alice")
        assert memory.access.grant("alice", "read:user:bob")
        assert not memory.access.grant("alice", "read:user:bob")
        theirs = alice.load_session(bob.id, user="bob")
        assert [message.text for message in theirs.messages()] == ["a secret"]
        with pytest.raises(PermissionDenied, match="write:session"):
            theirs.append("user", "mine now")
        taken = run_together(
            "begin()\nwith Limpet.open(given) as memory: answer(memory.access.revoke('alice', 'read:user:bob'))",
            durable_url,
            count=1,
        )
        assert taken == [True]
        with pytest.raises(PermissionDenied, match="read:session"):
            theirs.messages()
        with pytest.raises(PermissionDenied, match="read:user:bob"):
            alice.recall("secret", user="bob")
        assert not memory.access.revoke("alice", "read:user:bob")


def test_lists_without_user_are_limited_by_grants(memory: Limpet) -> None:
    for user in ("alice", "bob"):
        memory.remember(f"a fact of {user}", user=user)
        memory.session("a", "b", user=user)
    record = memory.records(user="bob")[0]
    alice = memory.acting("alice")
    assert ([r.user for r in alice.records()], alice.records.count()) == (["alice"], 1)
    assert [info.user for info in alice.sessions()] == ["alice"]
    with pytest.raises(RecordNotFound):
        alice.records.get(record.id)
    memory.access.grant("alice", "read:global")
    assert {r.user for r in alice.records()} == {info.user for info in alice.sessions()} == {"alice", "bob"}
    assert alice.records.get(record.id) == record
    with pytest.raises(PermissionDenied, match="write:user:bob"):
        alice.records.update(record.id, user="bob", content="mine now")
    with pytest.raises(RecordNotFound):
        alice.forget(record.id)
    # What has to be somebody's is one's own.
    assert [hit.text for hit in alice.recall("fact")] == ["a fact of alice"]


def test_handle_bound_to_session_reaches_only_that_session(memory: Limpet) -> None:
    one, two = (memory.session("a", chat, user="alice") for chat in "12")
    two.append("user", "said elsewhere")
    bound = memory.acting("alice", session=one.id)
    mine = bound.load_session(one.id)
    mine.append("user", "hello")
    assert bound.recall("hello", session=one.id)
    assert bound.remember("of this chat", session=one.id).home.scope.session == one.id
    with pytest.raises(PermissionDenied, match=f"read:session:{two.id}"):
        bound.load_session(two.id)
    for call in (lambda: mine.context("hello"), lambda: bound.recall("elsewhere"), bound.records):
        with pytest.raises(PermissionDenied, match="read:user:alice"):
            call()
    with pytest.raises(PermissionDenied, match="write:user:alice"):
        mine.new()
    alone = memory.acting(session=one.id)  # the id is enough
    assert [message.text for message in alone.load_session(one.id).messages()] == ["hello"]
    with pytest.raises(PermissionDenied, match=f"read:session:{two.id}"):
        alone.load_session(two.id)
    reading = memory.acting("alice", session=one.id, grants=["read:user"])
    assert "said elsewhere" in reading.load_session(one.id).context("elsewhere").text
    with reading.load_session(one.id).turn("what did I say elsewhere?") as turn:
        turn.reply("that")


def test_session_grant_reaches_only_that_session(memory: Limpet) -> None:
    one, two = (memory.session("a", chat, user="bob") for chat in "12")
    memory.access.grant("alice", f"read:session:{one.id}")
    alice = memory.acting("alice")
    assert alice.load_session(one.id).messages() == []
    assert alice.recall("x", session=one.id) == []
    with pytest.raises(SessionNotFound):
        alice.load_session(two.id)
    with pytest.raises(PermissionDenied):
        alice.load_session(one.id).context("x")


def test_agent_handle_reaches_only_memory_of_agent(memory: Limpet) -> None:
    poet = memory.acting(agent="poet")
    poet.remember("answer in rhymes", agent="poet")
    assert poet.recall("rhymes", agent="poet")
    for owner in ({"agent": "other"}, {"user": "alice"}, {"scope": "global"}):
        with pytest.raises(PermissionDenied):
            poet.recall("rhymes", **owner)  # type: ignore[arg-type]


def test_agent_handle_reaches_own_records_by_id_only(memory: Limpet) -> None:
    poet = memory.acting(agent="poet")
    kept = poet.remember("answer in rhymes")
    homes: list[dict[str, Any]] = [{"user": "alice"}, {"agent": "other"}, {"scope": "global"}]
    others = [memory.remember("a secret", **home) for home in homes]
    assert (kept.agent, kept.user) == ("poet", None)
    assert [record.id for record in poet.records()] == [record.id for record in poet.records(agent="poet")] == [kept.id]
    assert poet.records.get(kept.id) == kept
    assert poet.records.update(kept.id, content="answer in prose").content == "answer in prose"
    assert [version.content for version in poet.records.history(kept.id)] == ["answer in rhymes", "answer in prose"]
    for other in others:
        for asked in (poet.records.get, poet.records.history, poet.records.promote, poet.records.revive, poet.forget):
            with pytest.raises(RecordNotFound):
                asked(other.id)
        with pytest.raises(RecordNotFound):
            poet.records.update(other.id, content="stolen")
        assert memory.records.get(other.id) == other
    assert poet.forget(kept.id).ids == (kept.id,)
    with pytest.raises(PermissionDenied):
        memory.acting("alice", agent="poet").forget(others[1].id, agent="other")
    told = memory.acting("alice", agent="other")
    assert told.records.get(others[1].id, agent="other") == others[1]
    with pytest.raises(PermissionDenied):
        told.records.update(others[1].id, agent="other", content="stolen")


def test_service_principal_has_only_its_explicit_grants(memory: Limpet) -> None:
    memory.remember("a fact", user="alice")
    report = memory.acting(name="report", grants=["read:global"])
    assert [record.user for record in report.records()] == ["alice"]
    assert report.recall("fact", user="alice")
    with pytest.raises(PermissionDenied, match=r"write:user:alice, which report does not have; act with grants="):
        report.remember("x", user="alice")
    with pytest.raises(PermissionDenied, match="write:user"):
        report.session("a", "b")
    # Grants are kept for users: a service cannot be given any by the name it goes by.
    memory.access.grant("report", "write:global")
    with pytest.raises(PermissionDenied):
        report.remember("x", user="alice")


def test_grant_cannot_exceed_grants_of_grantor(memory: Limpet) -> None:
    memory.access.grant("root", "write:global")
    root = memory.acting("root")
    assert root.access.grant("alice", "write:user:bob")
    for grant in ("read:global", "write:store"):
        with pytest.raises(PermissionDenied, match=grant):
            root.access.grant("root", grant)
        with pytest.raises(PermissionDenied, match=grant):
            root.access.revoke("alice", grant)
    with pytest.raises(PermissionDenied, match="write:store"):
        root.acting("bob")
    assert [str(each.grant) for each in memory.access.grants(user="root")] == ["write:global"]
    assert [(each.user, each.by) for each in root.access.grants(user="root")] == [("root", "operator")]
    [given] = memory.access.grants(user="alice")
    assert (given.by, str(given.grant)) == ("root", "write:user:bob")


def test_promote_to_global_requires_grant(memory: Limpet) -> None:
    alice = memory.acting("alice")
    episode = alice.remember("The build needs Java 21", layer="episodic")
    with pytest.raises(PermissionDenied, match="write:global"):
        alice.records.promote(episode.id, scope="global")
    memory.access.grant("alice", "write:global")
    assert alice.records.promote(episode.id, scope="global").home.level == "global"


def test_handle_cannot_reach_another_tenant(memory: Limpet) -> None:
    memory.tenant("there").remember("a secret", user="alice")
    memory.tenant("there").access.grant("alice", "read:global")
    alice = memory.acting("alice", grants=["read:global", "write:global"])
    assert alice.tenant("default").records() == []
    with pytest.raises(PermissionDenied, match="read:store"):
        alice.tenant("there")
    auditor = memory.acting("alice", grants=["read:store"]).tenant("there")
    assert [record.content for record in auditor.records()] == ["a secret"]
    with pytest.raises(PermissionDenied):
        auditor.remember("x", user="alice")  # alice of here is nobody there
    assert memory.tenant("there").acting("alice").records()


def test_add_document_from_file_requires_store_grant(memory: Limpet, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("a secret of the machine")
    with pytest.raises(PermissionDenied, match="read:store"):
        memory.acting("alice").documents.add(secret)
    assert memory.acting("alice", grants=["read:store"]).documents.add(secret)


def test_acting_handle_close_does_not_close_store(memory: Limpet) -> None:
    with memory.acting("alice") as alice:
        alice.remember("a fact")
        assert repr(alice).endswith(" as alice>")
    assert memory.records()
    memory.close()
    with pytest.raises(StoreUnavailable):
        alice.records()


def test_acting_requires_principal_and_valid_grants(memory: Limpet) -> None:
    with pytest.raises(InvalidInput, match="say who acts"):
        memory.acting()
    with pytest.raises(InvalidInput, match="grants must be a list"):
        memory.acting("alice", grants="read:global")
    with pytest.raises(InvalidInput, match="a grant is read or write"):
        memory.acting("alice", grants=["all"])


def test_agent_with_own_store_uses_same_authorizer(tmp_path: Path) -> None:
    config = Config.load(overrides={"agents.coder.memory.place": "own"})
    with Limpet.open(tmp_path, config=config) as memory:
        theirs = memory.session("a", "b", user="bob", agent="coder")
        alice = memory.acting("alice")
        assert alice.session("a", "b", agent="coder").user == "alice"
        assert [info.user for info in alice.sessions(agent="coder")] == ["alice"]
        with pytest.raises(SessionNotFound):
            alice.load_session(theirs.id)
        with pytest.raises(PermissionDenied):
            alice.agent("coder").recall("x", user="bob")
        memory.access.grant("alice", "read:user:bob")  # kept in the shared store, for all of them
        assert alice.agent("coder").recall("x", user="bob") == []
        assert alice.load_session(theirs.id, user="bob").messages() == []


async def _awaited(url: str) -> None:
    async with await AsyncLimpet.open(url) as memory:
        await memory.remember("a secret", user="bob")
        async with memory.acting("alice") as alice:
            chat = await alice.session("a", "b")
            async with chat.turn("hello") as turn:
                await turn.reply("hi")
            with pytest.raises(PermissionDenied, match="read:user:bob"):
                await alice.recall("secret", user="bob")
        assert await memory.records(user="bob")  # closing alice's handle closed nothing


def test_async_limpet_uses_same_authorizer(store_url: str) -> None:
    import asyncio

    asyncio.run(_awaited(store_url))


def test_erase_deletes_grants_of_and_on_user(memory: Limpet) -> None:
    from limpet.model.scope import Scope

    memory.access.grant("bob", "read:global")
    memory.access.grant("alice", "read:user:bob")
    memory.access.grant("alice", "read:global")
    gone = memory._runtime.store.write(lambda tx: Grants(tx).erase(Scope("default", user="bob"), "somebody"))
    assert gone == 2
    assert [str(each.grant) for each in memory.access.grants()] == ["read:global"]


def test_agent_cannot_read_or_rewrite_a_users_schedule_through_its_new_agent(memory: Limpet) -> None:
    """The agent that ``edit`` is given is a value of the schedule, and says nothing about whose it is."""
    plan = memory.schedules.create("bob", goal="call my oncologist", cadence="every: 1h", agent="assistant")
    coder = memory.acting(agent="coder")
    granted = memory.acting("alice", grants=["read:agent:coder", "write:agent:coder"])
    changes: tuple[dict[str, Any], ...] = ({"notify": "never"}, {"goal": "mail the records", "agent": "coder"})
    for change in changes:
        with pytest.raises(PermissionDenied, match="read:global"):
            coder.schedules.edit(plan.id, **change)
        with pytest.raises(ScheduleNotFound):
            granted.schedules.edit(plan.id, **{"agent": "coder", **change})
    assert memory.schedules.get(plan.id) == plan
    mine = granted.schedules.create(goal="water the plants", cadence="every: 1h")
    assert granted.schedules.edit(mine.id, agent="coder").agent == "coder"
