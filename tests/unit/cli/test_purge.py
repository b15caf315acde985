from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from limpet import Limpet


@pytest.fixture
def session(data):
    """A session of ana's with one message, and a memory; a bob beside her."""
    with Limpet.open(data) as hf:
        made = hf.session("c", "1", user="ana")
        made.append("user", "I sing in a choir", created_at=datetime.now(UTC) - timedelta(days=100))
        hf.remember("Likes tea", user="ana")
        hf.session("c", "1", user="bob").append("user", "hello")
    return made.id


def left(data) -> tuple[int, int]:
    with Limpet.open(data) as hf:
        return len(hf.sessions(user="ana")), hf.records.count(user="ana")


def test_nobody_at_the_terminal_and_no_yes_refuses(run, data, session):
    for args in (("session", session), ("user", "ana"), ("older", "ana", "--days", "1")):
        done = run("purge", *args)
        assert done.status == 1
        assert "add --yes" in done.err
    assert left(data) == (1, 1)


@pytest.mark.parametrize(("answer", "kept"), [("y\n", 0), ("n\n", 1), ("\n", 1)])
def test_it_is_asked_for_at_a_terminal(run, data, session, answer, kept):
    done = run("purge", "user", "ana", typed=answer)
    assert "Purge it for good? [y/N]" in done.err
    assert "1 messages" in done.err
    assert done.status == kept
    assert left(data) == (kept, kept)


def test_a_user_is_purged_and_the_receipt_shown(run, data, session):
    done = run("purge", "user", "ana", "--yes", "--by", "the clerk", "--json")
    assert done.status == 0
    assert done.json["verified"]
    assert done.json["bytes"] == "gone"
    assert done.json["counts"]["messages"] == 1
    assert "ana" not in done.out.replace("chunks", "")
    assert left(data) == (0, 0)
    [receipt] = run("purge", "receipts", "--json").json
    assert receipt == done.json
    listed = run("purge", "receipts").out
    assert "verified" in listed
    assert receipt["digest"][:12] in listed


def test_a_session_and_what_is_older(run, data, session):
    out = run("purge", "older", "ana", "--days", "30", "--yes").out
    assert "Looked again: nothing of it is left." in out
    assert left(data) == (1, 1)
    assert run("purge", "session", session, "-y").status == 0
    assert left(data) == (0, 1)
    gone = run("purge", "session", session, "-y")
    assert gone.status == 1
    assert "no session" in gone.err


def test_a_dry_run_needs_no_yes(run, data, session):
    done = run("purge", "user", "ana", "--dry-run")
    assert (done.status, done.out.startswith("Would remove: ")) == (0, True)
    assert left(data) == (1, 1)
    assert run("purge", "receipts").out == "Nothing was purged.\n"


def test_wrong_usage(run, session):
    assert run("purge").status == 2
    assert run("purge", "older", "ana").status == 2
    assert run("purge", "user", "", "--yes").status == 1


def test_retention_counts_first_and_removes_then(run, data, session):
    assert run("retention", "--dry-run").out == "Sessions of assistant: would remove 1 messages.\n"
    assert run("retention").out == "Sessions of assistant: removed 1 messages, 1 chunks.\n"
    assert run("retention").out == "Nothing is older than the settings keep it.\n"
    assert run("retention", "--json").json[0]["days"] == {"messages": 90}
    assert left(data) == (1, 1)
