from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from limpet import Limpet


@pytest.fixture
def session(data):
    """A session of ana's with one message, and a memory; a bob beside her."""
    with Limpet.open(data) as memory:
        made = memory.session("c", "1", user="ana")
        made.append("user", "I sing in a choir", created_at=datetime.now(UTC) - timedelta(days=100))
        memory.remember("Likes tea", user="ana")
        memory.session("c", "1", user="bob").append("user", "hello")
    return made.id


def left(data) -> tuple[int, int]:
    with Limpet.open(data) as memory:
        return len(memory.sessions(user="ana")), memory.records.count(user="ana")


def test_purge_without_terminal_requires_yes_option(run, data, session):
    for args in (("session", session), ("user", "ana"), ("older", "ana", "--days", "1")):
        done = run("purge", *args)
        assert done.status == 1
        assert "add --yes" in done.err
    assert left(data) == (1, 1)


@pytest.mark.parametrize(("answer", "kept"), [("y\n", 0), ("n\n", 1), ("\n", 1)])
def test_purge_asks_for_confirmation_on_terminal(run, data, session, answer, kept):
    done = run("purge", "user", "ana", typed=answer)
    assert "Purge it for good? [y/N]" in done.err
    assert "1 message," in done.err
    assert done.status == kept
    assert left(data) == (kept, kept)


def test_purge_user_removes_data_and_stores_receipt(run, data, session):
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


def test_purge_session_and_purge_older(run, data, session):
    out = run("purge", "older", "ana", "--days", "30", "--yes").out
    assert "Checked: nothing is left." in out
    assert left(data) == (1, 1)
    assert run("purge", "session", session, "-y").status == 0
    assert left(data) == (0, 1)
    gone = run("purge", "session", session, "-y")
    assert gone.status == 1
    assert "no session" in gone.err


def test_purge_older_of_0_days_is_refused_without_everything(run, data, session):
    refused = run("purge", "older", "ana", "--days", "0", "--yes")
    assert refused.status == 1
    assert "0 days removes everything up to now" in refused.err
    assert left(data) == (1, 1)
    assert run("purge", "older", "ana", "--days", "0", "--everything", "--yes").status == 0
    assert left(data) == (0, 0)


def test_purge_dry_run_needs_no_confirmation(run, data, session):
    done = run("purge", "user", "ana", "--dry-run")
    assert (done.status, done.out.startswith("Would remove: ")) == (0, True)
    assert left(data) == (1, 1)
    assert run("purge", "receipts").out == "Nothing was purged.\n"


def test_purge_rejects_wrong_usage(run, session):
    assert run("purge").status == 2
    assert run("purge", "older", "ana").status == 2
    assert run("purge", "user", "", "--yes").status == 1


def test_retention_dry_run_counts_before_removal(run, data, session, monkeypatch):
    monkeypatch.setenv("LIMPET_PRESET", "picobot")
    assert run("retention", "--dry-run").out == "Sessions of assistant: would remove 1 message.\n"
    assert run("retention").out == "Sessions of assistant: removed 1 message, 1 chunk.\n"
    assert run("retention").out == "Nothing is older than the settings keep it.\n"
    assert run("retention", "--json").json[0]["days"] == {"messages": 90}
    assert left(data) == (1, 1)
