"""Acting for somebody: their own, what was granted, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from limpet import AsyncLimpet, Config, Limpet
from limpet.errors import InvalidInput, PermissionDenied, RecordNotFound, SessionNotFound, StoreUnavailable
from limpet.security.access_repository import Grants
from tests.contract.processes import run_together
from tests.contract.rows import every_row

pytestmark = pytest.mark.every_backend


def test_a_user_has_all_of_their_own_without_a_grant(hf: Limpet) -> None:
    alice = hf.acting("alice")
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


def test_a_call_that_is_refused_changes_nothing_and_says_which_grant_is_missing(hf: Limpet) -> None:
    hf.remember("a secret", user="bob", key="k")
    before, alice = every_row(hf), hf.acting("alice")
    with pytest.raises(PermissionDenied) as caught:
        alice.remember("mine now", user="bob", key="k")
    assert caught.value.missing == "write:user:bob"
    assert "remember needs write:user:bob, which alice does not have" in str(caught.value)
    assert "memory.access.grant('alice', 'write:user:bob') gives it" in str(caught.value)
    with pytest.raises(PermissionDenied, match="write:global"):
        alice.remember("for all", scope="global")
    with pytest.raises(PermissionDenied, match="read:store"):
        alice.admin.stats()
    assert every_row(hf) == before


def test_what_everybody_is_told_needs_a_grant_and_the_operator_sees_it(hf: Limpet) -> None:
    """Memory for the whole tenant stands in a context only where that was granted."""
    hf.remember("The office closes at six", scope="global")
    hf.remember("Answer in rhymes", agent="poet")
    alice, chat = hf.acting("alice"), hf.session("a", "b", user="alice", agent="poet")

    def shown(handle: Limpet) -> tuple[bool, bool]:
        text = handle.load_session(chat.id).context("office rhymes").text
        return "closes at six" in text, "in rhymes" in text

    assert shown(hf) == (True, True)
    assert shown(alice) == (False, False)
    assert shown(hf.acting("alice", agent="poet")) == (False, True)
    assert shown(hf.acting("alice", grants=["read:agent:poet"])) == (False, True)
    with pytest.raises(PermissionDenied, match="read:global"):
        alice.recall("office", scope="global")
    hf.access.grant("alice", "read:global")
    assert shown(alice) == (True, True)
    assert alice.recall("office", scope="global")
    with alice.load_session(chat.id).turn("when does the office close?") as turn:
        assert "closes at six" in turn.context.text
    with pytest.raises(PermissionDenied, match="write:global"):
        alice.remember("at seven", scope="global")


def test_a_grant_that_is_taken_away_is_gone_at_once(durable_url: str) -> None:
    """Also for a handle that was made before, and in another process."""
    with Limpet.open(durable_url) as hf:
        bob = hf.session("a", "b", user="bob")
        bob.append("user", "a secret")
        alice = hf.acting("alice")
        assert hf.access.grant("alice", "read:user:bob")
        assert not hf.access.grant("alice", "read:user:bob")
        theirs = alice.load_session(bob.id, user="bob")
        assert [message.text for message in theirs.messages()] == ["a secret"]
        with pytest.raises(PermissionDenied, match="write:session"):
            theirs.append("user", "mine now")
        taken = run_together(
            "begin()\nwith Limpet.open(given) as hf: answer(hf.access.revoke('alice', 'read:user:bob'))",
            durable_url,
            count=1,
        )
        assert taken == [True]
        with pytest.raises(PermissionDenied, match="read:session"):
            theirs.messages()
        with pytest.raises(PermissionDenied, match="read:user:bob"):
            alice.recall("secret", user="bob")
        assert not hf.access.revoke("alice", "read:user:bob")


def test_without_a_user_a_list_goes_as_far_as_the_grants_reach(hf: Limpet) -> None:
    for user in ("alice", "bob"):
        hf.remember(f"a fact of {user}", user=user)
        hf.session("a", "b", user=user)
    record = hf.records(user="bob")[0]
    alice = hf.acting("alice")
    assert ([r.user for r in alice.records()], alice.records.count()) == (["alice"], 1)
    assert [info.user for info in alice.sessions()] == ["alice"]
    with pytest.raises(RecordNotFound):
        alice.records.get(record.id)
    hf.access.grant("alice", "read:global")
    assert {r.user for r in alice.records()} == {info.user for info in alice.sessions()} == {"alice", "bob"}
    assert alice.records.get(record.id) == record
    with pytest.raises(PermissionDenied, match="write:user:bob"):
        alice.records.update(record.id, user="bob", content="mine now")
    with pytest.raises(RecordNotFound):
        alice.forget(record.id)
    # What has to be somebody's is one's own.
    assert [hit.text for hit in alice.recall("fact")] == ["a fact of alice"]


def test_a_chat_has_only_itself(hf: Limpet) -> None:
    one, two = (hf.session("a", chat, user="alice") for chat in "12")
    two.append("user", "said elsewhere")
    bound = hf.acting("alice", session=one.id)
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
    alone = hf.acting(session=one.id)  # the id is enough
    assert [message.text for message in alone.load_session(one.id).messages()] == ["hello"]
    with pytest.raises(PermissionDenied, match=f"read:session:{two.id}"):
        alone.load_session(two.id)
    reading = hf.acting("alice", session=one.id, grants=["read:user"])
    assert "said elsewhere" in reading.load_session(one.id).context("elsewhere").text
    with reading.load_session(one.id).turn("what did I say elsewhere?") as turn:
        turn.reply("that")


def test_a_grant_on_one_session_reaches_just_that(hf: Limpet) -> None:
    one, two = (hf.session("a", chat, user="bob") for chat in "12")
    hf.access.grant("alice", f"read:session:{one.id}")
    alice = hf.acting("alice")
    assert alice.load_session(one.id).messages() == []
    assert alice.recall("x", session=one.id) == []
    with pytest.raises(SessionNotFound):
        alice.load_session(two.id)
    with pytest.raises(PermissionDenied):
        alice.load_session(one.id).context("x")


def test_an_agent_has_its_own_memory(hf: Limpet) -> None:
    poet = hf.acting(agent="poet")
    poet.remember("answer in rhymes", agent="poet")
    assert poet.recall("rhymes", agent="poet")
    for owner in ({"agent": "other"}, {"user": "alice"}, {"scope": "global"}):
        with pytest.raises(PermissionDenied):
            poet.recall("rhymes", **owner)  # type: ignore[arg-type]


def test_an_agent_reaches_its_own_records_by_their_ids_and_nobody_elses(hf: Limpet) -> None:
    poet = hf.acting(agent="poet")
    kept = poet.remember("answer in rhymes")
    others = [hf.remember("a secret", **home) for home in ({"user": "alice"}, {"agent": "other"}, {"scope": "global"})]  # type: ignore[arg-type]
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
        assert hf.records.get(other.id) == other
    assert poet.forget(kept.id).ids == (kept.id,)
    with pytest.raises(PermissionDenied):
        hf.acting("alice", agent="poet").forget(others[1].id, agent="other")
    told = hf.acting("alice", agent="other")
    assert told.records.get(others[1].id, agent="other") == others[1]
    with pytest.raises(PermissionDenied):
        told.records.update(others[1].id, agent="other", content="stolen")


def test_somebody_who_owns_nothing_has_just_the_grants(hf: Limpet) -> None:
    hf.remember("a fact", user="alice")
    report = hf.acting(name="report", grants=["read:global"])
    assert [record.user for record in report.records()] == ["alice"]
    assert report.recall("fact", user="alice")
    with pytest.raises(PermissionDenied, match=r"write:user:alice, which report does not have; act with grants="):
        report.remember("x", user="alice")
    with pytest.raises(PermissionDenied, match="write:user"):
        report.session("a", "b")
    # Grants are kept for users: a service cannot be given any by the name it goes by.
    hf.access.grant("report", "write:global")
    with pytest.raises(PermissionDenied):
        report.remember("x", user="alice")


def test_nobody_gives_more_than_they_have_nor_acts_for_others(hf: Limpet) -> None:
    hf.access.grant("root", "write:global")
    root = hf.acting("root")
    assert root.access.grant("alice", "write:user:bob")
    for grant in ("read:global", "write:store"):
        with pytest.raises(PermissionDenied, match=grant):
            root.access.grant("root", grant)
        with pytest.raises(PermissionDenied, match=grant):
            root.access.revoke("alice", grant)
    with pytest.raises(PermissionDenied, match="write:store"):
        root.acting("bob")
    assert [str(each.grant) for each in hf.access.grants(user="root")] == ["write:global"]
    assert [(each.user, each.by) for each in root.access.grants(user="root")] == [("root", "operator")]
    [given] = hf.access.grants(user="alice")
    assert (given.by, str(given.grant)) == ("root", "write:user:bob")


def test_what_a_user_knows_becomes_everybodys_only_with_a_grant(hf: Limpet) -> None:
    alice = hf.acting("alice")
    episode = alice.remember("The build needs Java 21", layer="episodic")
    with pytest.raises(PermissionDenied, match="write:global"):
        alice.records.promote(episode.id, scope="global")
    hf.access.grant("alice", "write:global")
    assert alice.records.promote(episode.id, scope="global").home.level == "global"


def test_another_tenant_is_out_of_reach(hf: Limpet) -> None:
    hf.tenant("there").remember("a secret", user="alice")
    hf.tenant("there").access.grant("alice", "read:global")
    alice = hf.acting("alice", grants=["read:global", "write:global"])
    assert alice.tenant("default").records() == []
    with pytest.raises(PermissionDenied, match="read:store"):
        alice.tenant("there")
    auditor = hf.acting("alice", grants=["read:store"]).tenant("there")
    assert [record.content for record in auditor.records()] == ["a secret"]
    with pytest.raises(PermissionDenied):
        auditor.remember("x", user="alice")  # alice of here is nobody there
    assert hf.tenant("there").acting("alice").records()


def test_the_machines_files_are_not_a_users(hf: Limpet, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("a secret of the machine")
    with pytest.raises(PermissionDenied, match="read:store"):
        hf.acting("alice").documents.add(secret)
    assert hf.acting("alice", grants=["read:store"]).documents.add(secret)


def test_a_handle_that_acts_closes_nothing(hf: Limpet) -> None:
    with hf.acting("alice") as alice:
        alice.remember("a fact")
        assert repr(alice).endswith(" as alice>")
    assert hf.records()
    hf.close()
    with pytest.raises(StoreUnavailable):
        alice.records()


def test_acting_says_who(hf: Limpet) -> None:
    with pytest.raises(InvalidInput, match="say who acts"):
        hf.acting()
    with pytest.raises(InvalidInput, match="grants must be a list"):
        hf.acting("alice", grants="read:global")
    with pytest.raises(InvalidInput, match="a grant is read or write"):
        hf.acting("alice", grants=["all"])


def test_agents_with_a_store_of_their_own_are_behind_the_same_gate(tmp_path: Path) -> None:
    config = Config.load(overrides={"agents.coder.memory.place": "own"})
    with Limpet.open(tmp_path, config=config) as hf:
        theirs = hf.session("a", "b", user="bob", agent="coder")
        alice = hf.acting("alice")
        assert alice.session("a", "b", agent="coder").user == "alice"
        assert [info.user for info in alice.sessions(agent="coder")] == ["alice"]
        with pytest.raises(SessionNotFound):
            alice.load_session(theirs.id)
        with pytest.raises(PermissionDenied):
            alice.agent("coder").recall("x", user="bob")
        hf.access.grant("alice", "read:user:bob")  # kept in the shared store, for all of them
        assert alice.agent("coder").recall("x", user="bob") == []
        assert alice.load_session(theirs.id, user="bob").messages() == []


async def _awaited(url: str) -> None:
    async with await AsyncLimpet.open(url) as hf:
        await hf.remember("a secret", user="bob")
        async with hf.acting("alice") as alice:
            chat = await alice.session("a", "b")
            async with chat.turn("hello") as turn:
                await turn.reply("hi")
            with pytest.raises(PermissionDenied, match="read:user:bob"):
                await alice.recall("secret", user="bob")
        assert await hf.records(user="bob")  # closing alice's handle closed nothing


def test_the_awaited_face_has_the_same_gate(store_url: str) -> None:
    import asyncio

    asyncio.run(_awaited(store_url))


def test_the_last_grant_of_a_user_goes_with_the_user(hf: Limpet) -> None:
    from limpet.model.scope import Scope

    hf.access.grant("bob", "read:global")
    hf.access.grant("alice", "read:user:bob")
    hf.access.grant("alice", "read:global")
    gone = hf._runtime.store.write(lambda tx: Grants(tx).erase(Scope("default", user="bob"), "somebody"))
    assert gone == 2
    assert [str(each.grant) for each in hf.access.grants()] == ["read:global"]
