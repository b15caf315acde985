from __future__ import annotations

from limpet import Limpet

SAID = "I moved to Porto last week and I'm allergic to peanuts"


def contents(data) -> str:
    with Limpet.open(data) as memory:
        return "\n".join(record.content for record in memory.records(user="ana"))


def test_append_learns_without_a_worker(run, data):
    done = run("append", SAID, "--user", "ana")
    assert (done.status, done.err) == (0, "")
    assert "Porto" in contents(data)
    assert "peanuts" in run("context", "what may I eat?", "--user", "ana").out


def test_append_learns_nothing_with_no_learn(run, data):
    run("append", SAID, "--user", "ana", "--no-learn")
    assert contents(data) == ""


def test_append_learns_nothing_from_a_reply(run, data):
    run("append", SAID, "--user", "ana", "--role", "assistant")
    assert contents(data) == ""
