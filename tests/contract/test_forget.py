from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from limpet import Config, Limpet, Message
from limpet.errors import InvalidInput, RecordNotFound
from limpet.knowledge import forget
from limpet.search.analysis import extract_terms
from tests.contract.rows import every_row, faults
from tests.contract.test_learning import QUIET

pytestmark = pytest.mark.every_backend

WORD = "xylophonist"


def left(memory: Limpet) -> list[str]:
    """Tables in which the word still stands, in text or in the numbers of the word index."""
    [term] = extract_terms(WORD)
    packed = term.to_bytes(8, "little", signed=True)
    found = []
    for name, rows in every_row(memory).items():
        for value in (value for row in rows for value in row):
            text = value if isinstance(value, str) else ""
            data = value if isinstance(value, bytes) else b""
            if WORD in text or packed in data or value == term:
                found.append(name)
                break
    return found


def test_forget_by_id_deletes_record_history_labels_and_words(memory: Limpet) -> None:
    record = memory.remember(
        f"the {WORD} one", user="alice", key="k", title=WORD, tags=[WORD], metadata={WORD: WORD}, references=[WORD]
    )
    memory.records.update(record.id, content=f"the {WORD} two")
    memory.records.update(
        record.id, content="somebody else", title="Nobody", tags=["none"], metadata={"a": "b"}, references=["x"]
    )
    kept = memory.remember("a drummer", user="alice")
    assert left(memory) == ["record_versions"]
    gone = memory.forget(record.id)
    assert (gone.ids, gone.total) == ((record.id,), 1)
    assert dict(gone.counts) == {"records": 1, "versions": 2, "chunks": 1}
    assert left(memory) == []
    assert memory.records(user="alice", history=True) == [kept]
    with pytest.raises(RecordNotFound):
        memory.forget(record.id)
    with pytest.raises(RecordNotFound):
        memory.records.history(record.id)
    assert faults(memory) == []


def test_forget_removes_word_from_merged_index(memory: Limpet) -> None:
    record = memory.remember(f"the {WORD}", user="alice")
    memory.session("t", "1", user="alice").extend([Message.new("user", f"filler number {at}") for at in range(600)])
    assert "postings" in left(memory)
    memory.forget(record.id)
    assert left(memory) == []
    assert memory.recall(WORD, user="alice") == []
    assert faults(memory) == []


def test_forget_by_key_deletes_only_record_of_owner(memory: Limpet) -> None:
    session = memory.session("t", "1", user="alice")
    owners: list[dict[str, Any]] = [
        {"user": "alice"}, {"user": "bob"}, {"agent": "coder"}, {"scope": "global"}, {"session": session.id}
    ]  # fmt: skip
    ids = [memory.remember("x", key="k", **owner).id for owner in owners]
    for at, owner in enumerate(owners):
        assert memory.forget(key="k", **owner).ids == (ids[at],)
        assert memory.records.count() == len(owners) - at - 1
        with pytest.raises(RecordNotFound):
            memory.forget(key="k", **owner)


def test_forget_by_query_matches_every_word_in_any_form(memory: Limpet) -> None:
    both = [
        memory.remember("My dog Rex was sold", user="alice").id,
        memory.remember("DOGS sell well", user="alice").id,
        memory.remember("about selling", user="alice", title="Dogs sold").id,
    ]
    kept = {memory.remember(text, user="alice").id for text in ("my dog", "it was sold", "a hotdog sold", "catalogue")}
    memory.remember("dog sold", user="bob")
    gone = memory.forget(query="dogs, sold!", user="alice")
    assert set(gone.ids) <= set(both)
    assert both[0] in gone.ids
    assert kept <= {record.id for record in memory.records(user="alice")}
    assert memory.records.count(user="bob") == 1
    assert faults(memory) == []


def test_forget_by_query_includes_ended_records(memory: Limpet) -> None:
    record = memory.remember(f"the {WORD}", user="alice")
    assert record.created_at is not None
    memory.records.update(record.id, valid_to=record.created_at)
    assert memory.records(user="alice") == []
    assert memory.forget(query=WORD, user="alice").ids == (record.id,)
    assert left(memory) == []


def test_forget_by_query_covers_session_records_but_no_other_level(memory: Limpet) -> None:
    session = memory.session("t", "1", user="alice", agent="coder")
    other = memory.session("t", "1", user="bob", agent="coder")
    made = {
        "alice": memory.remember("the walrus", user="alice").id,
        "alice's session": memory.remember("the walrus", session=session.id).id,
        "bob": memory.remember("the walrus", user="bob").id,
        "bob's session": memory.remember("the walrus", session=other.id).id,
        "coder": memory.remember("the walrus", agent="coder").id,
        "everybody": memory.remember("the walrus", scope="global").id,
        "another tenant": memory.tenant("other").remember("the walrus", user="alice").id,
    }

    def names(gone: tuple[str, ...]) -> set[str]:
        return {name for name, id in made.items() if id in gone}

    assert names(memory.forget(query="walrus", scope="global").ids) == {"everybody"}
    assert names(memory.forget(query="walrus", agent="coder").ids) == {"coder"}
    assert names(memory.forget(query="walrus", session=other.id).ids) == {"bob's session"}
    assert names(memory.forget(query="walrus", user="alice").ids) == {"alice", "alice's session"}
    assert memory.records.count() == 1
    assert memory.tenant("other").records.count() == 1


def test_forget_by_query_without_match_deletes_nothing(memory: Limpet) -> None:
    memory.remember("the walrus", user="alice")
    assert memory.forget(query="penguin", user="alice").total == 0
    assert memory.forget(query="walrus penguin", user="alice").total == 0
    wrong: list[Any] = ["", " ", "the of and", "?!", None, 5, "\x00"]
    for bad in wrong:
        with pytest.raises(InvalidInput):
            memory.forget(query=bad, user="alice")
    assert memory.records.count() == 1


def test_forget_by_query_names_what_has_its_words_beside_the_records(memory: Limpet) -> None:
    """The query's words, not those of the record that it found, are what the caller wants forgotten."""
    memory.remember(f"Anna and Bob hear the {WORD} on Fridays in the garden near the river", user="alice")
    session = memory.session("t", "1", user="alice")
    for role, text in (("user", f"I met a {WORD} yesterday"), ("user", "Hello"), ("assistant", f"A {WORD} is rare.")):
        session.append(role, text)
    session.set_summary(f"They spoke of a {WORD}.", 2)
    memory.notes.long_term(user="alice").write(f"- call the {WORD}\n")
    memory.documents.add("note:wood", f"A {WORD} plays bars of wood.", user="alice")
    messages = [f"message {number} of session {session.id}" for number in (1, 3)]
    places = {*messages, f"the summary of session {session.id}", "document note:wood", "MEMORY.md"}
    for dry_run in (True, False):
        assert set(memory.forget(query=WORD, user="alice", dry_run=dry_run).left) == places
    rest = memory.forget(query=WORD, user="alice", everywhere=True).left
    assert set(rest) == {"document note:wood"}
    assert [message.text for message in session.messages()] == ["[forgotten]", "Hello", "[forgotten]"]


def test_forget_requires_one_selector_and_an_owner(memory: Limpet) -> None:
    record = memory.remember("the walrus", user="alice", key="k")
    wrong: list[dict[str, Any]] = [
        {}, {"id": record.id, "key": "k"}, {"key": "k", "query": "walrus", "user": "alice"},
        {"id": record.id, "query": "walrus"}, {"key": "k", "scope": "user"},
        {"query": "walrus", "user": ""}, {"key": "k", "user": "alice", "scope": "global"},
    ]  # fmt: skip
    for arguments in wrong:
        with pytest.raises(InvalidInput):
            memory.forget(**arguments)
    with pytest.raises(RecordNotFound):
        memory.forget(key="k")  # of the default user, who has none
    assert memory.forget(query="walrus").ids == ()
    assert memory.records.get(record.id) == record


def test_session_delete_removes_what_its_turns_left_as_record_and_note(tmp_path: Path) -> None:
    """The next prompt quoted the turn from its record and from the daily notes."""
    with Limpet.open(tmp_path, config=Config.load(overrides=QUIET)) as memory:
        session = memory.session("t", "1", user="alice")
        with session.turn(f"What about the {WORD}?") as turn:
            turn.reply(f"The {WORD} sleeps.")
        other = memory.session("t", "2", user="alice")
        with other.turn("What about tea?") as turn:
            turn.reply("It is ready.")
        memory.jobs.run()
        assert WORD in memory.notes.day(user="alice")
        counts = session.delete()
        assert (counts["records"], counts["note lines"], counts["messages"]) == (1, 1, 2)
        assert WORD not in memory.notes.day(user="alice")
        assert "tea" in memory.notes.day(user="alice")
        assert WORD not in other.context(f"What about the {WORD}?").text
        assert left(memory) == []
        assert [record.source.session_id for record in memory.records(user="alice")] == [other.id]


def test_session_delete_leaves_no_word(memory: Limpet) -> None:
    session = memory.session("t", "1", user="alice", metadata={"about": WORD})
    session.append("user", f"a {WORD} came")
    session.set_summary(f"about a {WORD}", 1)
    session.kv.set(WORD, WORD)
    memory.remember(WORD, session=session.id)
    session.delete()
    assert left(memory) == []
    assert faults(memory) == []


@pytest.mark.parametrize("query", ["I live in Zanzibarville", "i live in zanzibarville"])
def test_forget_by_query_names_what_is_left_where_no_record_states_it(memory: Limpet, query: str) -> None:
    """Forgotten by its id before, or never learned."""
    session = memory.session("t", "1", user="alice")
    session.append("assistant", "Zanzibarville must be fun!")
    session.append("assistant", "Do you want to live by the sea, in a hut in the hills or in a big town?")
    session.kv.set("city", "Zanzibarville")
    for everywhere in (False, True):
        gone = memory.forget(query=query, user="alice", everywhere=everywhere)
        assert f"message 1 of session {session.id}" in gone.left
        assert f"city of session {session.id}" in gone.left


def test_forget_names_labels_of_records_and_names_of_documents(memory: Limpet) -> None:
    """A search finds none of them."""
    labelled = [
        memory.remember("likes boats", user="alice", tags=["zanzibarville"]),
        memory.remember("likes trains", user="alice", metadata={"where": "Zanzibarville"}),
        memory.remember("likes bikes", user="alice", references=["https://example.org/Zanzibarville"]),
    ]
    memory.remember("likes cars", user="alice", tags=["porto"])
    memory.documents.add("file:map.txt", text="Hello", title="Map of Zanzibarville", user="alice")
    fact = memory.remember("My home is Zanzibarville", user="alice", tags=["zanzibarville"])
    would = memory.forget(fact.id, dry_run=True)
    gone = memory.forget(fact.id)
    assert gone.ids == (fact.id,)
    assert set(gone.left) == {"document file:map.txt", *(f"record {record.id}" for record in labelled)}
    assert would.left == gone.left


def test_forget_by_query_needs_a_word_that_was_said(store_url: str) -> None:
    with Limpet.open(store_url, config=Config.load(overrides=QUIET)) as memory:
        session = memory.session("t", "1", user="alice")
        for said in ("My dog's name is Rex.", "My sister Maria lives in Porto.", "I'm 34."):
            with session.turn(said) as turn:
                turn.reply("Ah.")
        memory.jobs.run()
        known = {record.content for record in memory.records(user="alice")}
        assert {"The user's sister is called Maria.", "The user is 34 years old."} <= known
        for query in ("call", "called", "years old"):
            gone = memory.forget(query=query, user="alice")
            assert (gone.ids, gone.sentences) == ((), ()), query
            assert gone.left  # but it is named
        memory.forget(query="sister called Maria", user="alice")
        assert "The user's sister is called Maria." not in {record.content for record in memory.records(user="alice")}


def test_forget_says_how_many_places_it_does_not_name(memory: Limpet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forget, "_MAX_PLACES", 3)
    session = memory.session("t", "1", user="alice")
    session.extend([Message.new("assistant", f"Ask a {WORD} for song number {at}.") for at in range(5)])
    gone = memory.forget(query=WORD, user="alice")
    assert (len(gone.left), gone.left[-1]) == (4, "2 more places")
