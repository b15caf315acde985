from __future__ import annotations

from typing import Any

import pytest

from limpet import Limpet, Message
from limpet.errors import InvalidInput, RecordNotFound
from limpet.search.analysis import extract_terms
from tests.contract.rows import every_row, faults

pytestmark = pytest.mark.every_backend

WORD = "xylophonist"


def left(hf: Limpet) -> list[str]:
    """Tables in which the word still stands, in text or in the numbers of the word index."""
    [term] = extract_terms(WORD)
    packed = term.to_bytes(8, "little", signed=True)
    found = []
    for name, rows in every_row(hf).items():
        for value in (value for row in rows for value in row):
            text = value if isinstance(value, str) else ""
            data = value if isinstance(value, bytes) else b""
            if WORD in text or packed in data or value == term:
                found.append(name)
                break
    return found


def test_by_id_takes_the_record_its_history_its_labels_and_its_words(hf: Limpet) -> None:
    record = hf.remember(
        f"the {WORD} one", user="alice", key="k", title=WORD, tags=[WORD], metadata={WORD: WORD}, references=[WORD]
    )
    hf.records.update(record.id, content=f"the {WORD} two")
    hf.records.update(
        record.id, content="somebody else", title="Nobody", tags=["none"], metadata={"a": "b"}, references=["x"]
    )
    kept = hf.remember("a drummer", user="alice")
    assert left(hf) == ["record_versions"]
    gone = hf.forget(record.id)
    assert (gone.ids, gone.total) == ((record.id,), 1)
    assert dict(gone.counts) == {"records": 1, "versions": 2, "chunks": 1}
    assert left(hf) == []
    assert hf.records(user="alice", history=True) == [kept]
    with pytest.raises(RecordNotFound):
        hf.forget(record.id)
    with pytest.raises(RecordNotFound):
        hf.records.history(record.id)
    assert faults(hf) == []


def test_a_forgotten_word_leaves_the_merged_index_too(hf: Limpet) -> None:
    record = hf.remember(f"the {WORD}", user="alice")
    hf.session("t", "1", user="alice").extend([Message.new("user", f"filler number {at}") for at in range(600)])
    assert "postings" in left(hf)
    hf.forget(record.id)
    assert left(hf) == []
    assert hf.recall(WORD, user="alice") == []
    assert faults(hf) == []


def test_by_key_takes_the_owners_only(hf: Limpet) -> None:
    session = hf.session("t", "1", user="alice")
    owners: list[dict[str, Any]] = [
        {"user": "alice"}, {"user": "bob"}, {"agent": "coder"}, {"scope": "global"}, {"session": session.id}
    ]  # fmt: skip
    ids = [hf.remember("x", key="k", **owner).id for owner in owners]
    for at, owner in enumerate(owners):
        assert hf.forget(key="k", **owner).ids == (ids[at],)
        assert hf.records.count() == len(owners) - at - 1
        with pytest.raises(RecordNotFound):
            hf.forget(key="k", **owner)


def test_by_query_takes_what_holds_every_word_in_any_form(hf: Limpet) -> None:
    both = [
        hf.remember("My dog Rex was sold", user="alice").id,
        hf.remember("DOGS sell well", user="alice").id,
        hf.remember("about selling", user="alice", title="Dogs sold").id,
    ]
    kept = {hf.remember(text, user="alice").id for text in ("my dog", "it was sold", "a hotdog sold", "catalogue")}
    hf.remember("dog sold", user="bob")
    gone = hf.forget(query="dogs, sold!", user="alice")
    assert set(gone.ids) <= set(both)
    assert both[0] in gone.ids
    assert kept <= {record.id for record in hf.records(user="alice")}
    assert hf.records.count(user="bob") == 1
    assert faults(hf) == []


def test_by_query_takes_expired_and_ended_records_too(hf: Limpet) -> None:
    record = hf.remember(f"the {WORD}", user="alice")
    assert record.created_at is not None
    hf.records.update(record.id, valid_to=record.created_at)
    assert hf.records(user="alice") == []
    assert hf.forget(query=WORD, user="alice").ids == (record.id,)
    assert left(hf) == []


def test_by_query_takes_the_users_session_records_and_no_other_level(hf: Limpet) -> None:
    session = hf.session("t", "1", user="alice", agent="coder")
    other = hf.session("t", "1", user="bob", agent="coder")
    made = {
        "alice": hf.remember("the walrus", user="alice").id,
        "alice's session": hf.remember("the walrus", session=session.id).id,
        "bob": hf.remember("the walrus", user="bob").id,
        "bob's session": hf.remember("the walrus", session=other.id).id,
        "coder": hf.remember("the walrus", agent="coder").id,
        "everybody": hf.remember("the walrus", scope="global").id,
        "another tenant": hf.tenant("other").remember("the walrus", user="alice").id,
    }

    def names(gone: tuple[str, ...]) -> set[str]:
        return {name for name, id in made.items() if id in gone}

    assert names(hf.forget(query="walrus", scope="global").ids) == {"everybody"}
    assert names(hf.forget(query="walrus", agent="coder").ids) == {"coder"}
    assert names(hf.forget(query="walrus", session=other.id).ids) == {"bob's session"}
    assert names(hf.forget(query="walrus", user="alice").ids) == {"alice", "alice's session"}
    assert hf.records.count() == 1
    assert hf.tenant("other").records.count() == 1


def test_a_query_that_matches_nothing_forgets_nothing(hf: Limpet) -> None:
    hf.remember("the walrus", user="alice")
    assert hf.forget(query="penguin", user="alice").total == 0
    assert hf.forget(query="walrus penguin", user="alice").total == 0
    wrong: list[Any] = ["", " ", "the of and", "?!", None, 5, "\x00"]
    for bad in wrong:
        with pytest.raises(InvalidInput):
            hf.forget(query=bad, user="alice")
    assert hf.records.count() == 1


def test_forget_takes_one_way_and_says_whose(hf: Limpet) -> None:
    record = hf.remember("the walrus", user="alice", key="k")
    wrong: list[dict[str, Any]] = [
        {}, {"id": record.id, "key": "k"}, {"key": "k", "query": "walrus", "user": "alice"},
        {"id": record.id, "query": "walrus"}, {"key": "k", "scope": "user"},
        {"query": "walrus", "user": ""}, {"key": "k", "user": "alice", "scope": "global"},
    ]  # fmt: skip
    for arguments in wrong:
        with pytest.raises(InvalidInput):
            hf.forget(**arguments)
    with pytest.raises(RecordNotFound):
        hf.forget(key="k")  # of the default user, who has none
    assert hf.forget(query="walrus").ids == ()
    assert hf.records.get(record.id) == record


def test_a_deleted_session_leaves_no_word(hf: Limpet) -> None:
    session = hf.session("t", "1", user="alice", metadata={"about": WORD})
    session.append("user", f"a {WORD} came")
    session.set_summary(f"about a {WORD}", 1)
    session.kv.set(WORD, WORD)
    hf.remember(WORD, session=session.id)
    session.delete()
    assert left(hf) == []
    assert faults(hf) == []
