from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress

import pytest

from limpet import Config, Limpet
from limpet.model.values import format_count


@pytest.fixture
def memories(data) -> dict[str, str]:
    with Limpet.open(data) as memory:
        return {
            "dog": memory.remember("My dogs sleep a lot", user="ana", key="dog").id,
            "walk": memory.remember("Walk the dog at noon", user="ana", title="Sleep well").id,
            "cat": memory.remember("The cat sleeps too", user="ana").id,
            "ben": memory.remember("The dog sleeps at Ben's", user="ben", key="dog").id,
            "all": memory.remember("Dogs sleep everywhere", scope="global").id,
            "bot": memory.remember("Dogs sleep, says the bot", agent="bot").id,
        }


def left(data) -> set[str]:
    with Limpet.open(data) as memory:
        return {record.id for record in memory.records()}


def test_forget_by_id_removes_one_record(run, memories, data):
    done = run("forget", memories["cat"])
    assert (done.status, done.out) == (0, "Forgot 1 record, every version and index entry included.\n")
    assert left(data) == set(memories.values()) - {memories["cat"]}
    assert run("forget", memories["cat"], "--json").error["code"] == "record_not_found"


def test_forget_by_id_requires_matching_owner(run, memories, data):
    for owner in (["--user", "ben"], ["--agent", "bot"], ["--global"]):
        assert run("forget", memories["cat"], *owner, "--json").error["code"] == "record_not_found"
    assert run("forget", memories["bot"], "--agent", "bot").status == 0
    assert run("forget", memories["all"], "--global").status == 0


def test_forget_by_key_removes_only_owners_record(run, memories, data):
    done = run("forget", "--key", "dog", "--user", "ana", "--json")
    assert done.json == {
        "forgotten": 1,
        "ids": [memories["dog"]],
        "counts": done.json["counts"],
        "left": [f"record {memories['walk']}"],  # two of its words
        "sentences": [],
    }
    assert memories["ben"] in left(data)
    assert run("forget", "--key", "dog", "--user", "ana", "--json").error["code"] == "record_not_found"


def test_forget_by_key_in_session_keeps_users_record(run, talk, data):
    run("remember", "in the session", "--session", talk, "--key", "note")
    run("remember", "the user's", "--user", "ana", "--key", "note")
    assert run("forget", "--key", "note", "--session", talk, "--json").json["forgotten"] == 1
    [record] = run("records", "--json").json
    assert record["content"] == "the user's"
    missing = "00000000-0000-7000-8000-000000000000"
    assert run("forget", "--key", "note", "--session", missing, "--json").error["code"] == "session_not_found"


def test_forget_by_query_removes_records_with_every_word(run, memories, data):
    done = run("forget", "--query", "dog sleeping", "--user", "ana", "--yes", "--json")
    assert set(done.json["ids"]) == {memories["dog"], memories["walk"]}
    assert left(data) == {memories["cat"], memories["ben"], memories["all"], memories["bot"]}


def test_forget_by_query_matches_library_forget(run, memories, data, tmp_path):
    with Limpet.open(data) as memory:
        memory.admin.backup(tmp_path / "same.db")
    taken = run("forget", "--query", "sleep dog", "--user", "ana", "--yes", "--json").json["ids"]
    with Limpet.open(tmp_path / "same.db") as memory:
        assert set(memory.forget(query="sleep dog", user="ana").ids) == set(taken)


def test_forget_global_query_keeps_user_records(run, memories, data):
    done = run("forget", "--query", "dog", "--global", "--yes", "--json")
    assert done.json["ids"] == [memories["all"]]


def test_forget_by_query_requires_confirmation(run, memories, data):
    done = run("forget", "--query", "dog", "--user", "ana")
    assert done.status == 1
    assert "add --yes" in done.err
    assert memories["dog"] in done.err
    assert left(data) == set(memories.values())
    assert run("forget", "--query", "dog", "--user", "ana", "--json").status == 1


@pytest.mark.parametrize("typed", ["n\n", "\n", "", "perhaps\n"])
def test_forget_does_nothing_unless_answer_is_yes(run, memories, data, typed):
    done = run("forget", "--query", "dog", "--user", "ana", typed=typed)
    assert done.status == 1
    assert done.err.endswith("Forget 2 records for good? [y/N] limpet: nothing was removed\n")
    assert left(data) == set(memories.values())


@pytest.mark.parametrize("chosen", [["--query", "cat"], ["--query", "CATS"]])
def test_forget_by_query_removes_after_yes(run, memories, data, chosen):
    done = run("forget", *chosen, "--user", "ana", typed="y\n")
    assert done.status == 0
    assert "The cat sleeps too" in done.err
    assert memories["cat"] not in left(data)


@pytest.mark.slow
def test_forget_accepts_yes_on_a_real_terminal(memories, data):
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "limpet", "forget", memories["cat"]]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        os.write(ours, b"y\n")
        assert process.wait(60) == 0
    shown = ""
    with suppress(OSError):  # nobody holds the other end any more; until then it comes in pieces
        while piece := os.read(ours, 4096):
            shown += piece.decode()
    os.close(ours)
    assert "Forget 1 record for good? [y/N] " in shown
    assert "Forgot 1 record" in shown
    assert memories["cat"] not in left(data)


def test_forget_by_id_asks_for_confirmation_on_terminal(run, memories, data):
    assert run("forget", memories["cat"], typed="no\n").status == 1
    assert memories["cat"] in left(data)
    assert run("forget", memories["cat"], typed="yes\n").status == 0


def test_forget_query_without_match_removes_nothing(run, memories):
    done = run("forget", "--query", "zeppelin", "--user", "ana")
    assert done.status == 1  # as a key that nothing has
    assert "nothing was forgotten" in done.out


@pytest.mark.parametrize("chosen", [[], ["x", "--key", "dog"], ["--key", "dog", "--query", "dog"]])
def test_forget_requires_exactly_one_selector(run, memories, chosen):
    done = run("forget", *chosen, "--user", "ana")
    assert done.status == 2
    assert "exactly one" in done.err


def test_forget_shows_the_sentence_that_goes_before_it_goes(run, data):
    with Limpet.open(data) as memory:
        session = memory.session(user="ana")
        with session.turn("Hello. I live in Porto.") as turn:
            turn.reply("Porto is lovely.")
        session.learn()
    said = ['Removes from a message: "I live in Porto."', f"Still said in message 2 of session {session.id}."]
    would = run("forget", "--query", "Porto", "--user", "ana", "--dry-run")
    assert would.status == 0
    assert all(line in would.out.splitlines() for line in said)
    refused = run("forget", "--query", "Porto", "--user", "ana", typed="n\n")
    assert all(line in refused.err for line in said)
    answer = run("forget", "--query", "Porto", "--user", "ana", "--dry-run", "--json").json
    assert answer["sentences"] == ["I live in Porto."]
    assert answer["left"] == [f"message 2 of session {session.id}", *answer["left"][1:]]
    done = run("forget", "--query", "Porto", "--user", "ana", "--everywhere", "--yes", "--json").json
    assert done["left"] == []
    with Limpet.open(data) as memory:
        texts = [message.text for message in memory.load_session(session.id).messages()]
    assert texts == ["Hello. [forgotten]", "[forgotten]"]


@pytest.fixture
def said(data) -> str:
    """Turns about somebody of whom nothing is learned: only the records of the turns name him."""
    with Limpet.open(data, config=Config.load(overrides={"jobs.worker": False})) as memory:
        session = memory.session(user="ana")
        for text in ("Jonas got an offer in Trondheim. not sure what we'll do", "Jonas and I had a massive fight"):
            with session.turn(text) as turn:
                turn.reply("ok")
        memory.jobs.run()
        session.append("user", "Did Jonas call?")
        return session.id


def texts(data, session: str) -> list[str]:
    with Limpet.open(data) as memory:
        return [message.text for message in memory.load_session(session).messages()]


def test_forget_query_everywhere_removes_what_its_dry_run_shows(run, data, said, tmp_path):
    with Limpet.open(data) as memory:
        memory.admin.backup(tmp_path / "same.db")
    query = ("forget", "--query", "Jonas", "--user", "ana", "--everywhere")
    would = run(*query, "--dry-run", "--json").json
    assert would["ids"]
    assert "Did Jonas call?" in would["sentences"]
    done = run(*query, "--yes", "--json").json
    assert (set(done["ids"]), done["left"]) == (set(would["ids"]), [])
    with Limpet.open(tmp_path / "same.db") as memory:
        memory.forget(query="Jonas", user="ana", everywhere=True)
    left = texts(data, said)
    assert left == texts(tmp_path / "same.db", said)
    assert not any("Jonas" in text for text in left)


def test_forget_query_everywhere_without_a_record_cuts_the_messages(run, data):
    with Limpet.open(data) as memory:
        session = memory.session(user="ana")
        session.append("user", "We loved Zanzibar. It rained.", learn=False)
    query = ("forget", "--query", "Zanzibar", "--user", "ana")
    plain = run(*query, "--yes")
    assert plain.status == 1
    assert f"Still said in message 1 of session {session.id}." in plain.out
    refused = run(*query, "--everywhere", typed="n\n")
    assert "Forget 1 message for good?" in refused.err
    assert texts(data, session.id) == ["We loved Zanzibar. It rained."]
    done = run(*query, "--everywhere", "--yes")
    assert (done.status, done.out) == (0, "No record holds all these words.\nAlso changed: 1 message.\n")
    assert texts(data, session.id) == ["[forgotten] It rained."]


def test_forget_query_says_what_is_left(run, data, said):
    done = run("forget", "--query", "Jonas", "--user", "ana", "--yes")
    assert f"Still said in message 5 of session {said}." in done.out


def test_forget_dry_run_shows_the_texts(run, memories):
    shown = run("forget", "--query", "dog", "--user", "ana", "--dry-run").out
    assert "My dogs sleep a lot" in shown
    assert memories["dog"] in shown


@pytest.mark.parametrize(("number", "kinds", "expected"), [(1, "summaries", "1 summary"), (2, "notes", "2 notes")])
def test_counts_of_one_are_singular(number, kinds, expected):
    assert format_count(number, kinds) == expected
