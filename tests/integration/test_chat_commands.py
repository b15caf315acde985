"""What can be typed instead of a message in ``limpet chat``."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from limpet import Limpet, Message
from limpet.cli.chat.commands import COMMANDS
from tests.integration.chat_helpers import found

USER = "tui:local"


def test_chat_help_lists_every_command(chat):
    out = chat("/help")
    for name in "help status compact new stop sessions switch memory remember forget quit".split():
        assert f"\n/{name} " in out
    for name in "purge_session purge_user purge_older".split():
        assert f"\n/{name} " in out
    assert [line.split()[0] for line in out.splitlines()[1:-1]] == [command.name for command in COMMANDS]


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("/stauts", "there is no /stauts; did you mean /status?"),
        ("/xyzzy", "there is no /xyzzy; /help lists all there are"),
        ("/", "there is no /; /help lists"),
        ("/quit now", "/quit takes no arguments"),
        ("/compact few", "usage: /compact [n], with a whole number"),
        ("/purge_older", "usage: /purge_older <days>"),
        ("/purge_older -3", "usage: /purge_older <days>"),
        ("/switch", "/switch needs a session"),
        ("/switch 99", "there is no session 99; /sessions numbers 1"),
        ("/switch nobody", "not a UUID"),
        ("/switch tui:nobody", "has no session tui:nobody"),
        ("/switch 00000000-0000-7000-8000-000000000000", "00000000-0000-7000-8000-000000000000"),
        ("/remember", "/remember needs a text"),
        ("/remember system_key=x", "reserved"),
        ("/forget", "/forget needs an id, a key, or words"),
        ("/forget 00000000-0000-7000-8000-000000000000", "no record"),
        ("/forget unheard of", "No record holds all these words"),
        ("/stop", "There is nothing to stop"),
    ],
)
def test_chat_command_error_is_shown_and_chat_continues(chat, typed, said):
    out = chat(typed, "/status").splitlines()
    assert said in out[1]
    assert out[2].startswith("session ")


def test_chat_remember_memory_and_forget(chat, data):
    out = chat(
        "/remember dog_name=Biscuit the terrier",
        "/remember dog_name= Biscuit the brown terrier",
        "/remember The bins go out on Tuesday",
        "/remember The bins are green",
        "/memory",
        "/memory bins",
    )
    assert "Remembered under dog_name: " in out
    assert "Remembered under dog_name, now version 2: " in out
    keyed, records = found(r"User memories:\n(.*)\n\nRecords:\n(.*)\nRANK", out, re.DOTALL)
    assert "Biscuit the brown terrier" in keyed
    assert "Tuesday" in records
    assert re.search(r"\n +1 +\d\.\d+ +#1 at .*\n      The bins ", out)
    with Limpet.open(data) as memory:
        memory.notes.long_term(user=USER).write("# Plans\nPaint the shed\n")
    assert chat("/memory").endswith("MEMORY.md:\n# Plans\nPaint the shed\n")
    [record] = found(r"Remembered: (\S+)", out)
    out = chat(f"/forget {record}", "/forget dog_name", "/forget bins", "/forget bins", "y", "/memory")
    assert out.count("Forgot 1 record") == 3
    assert "Nothing was forgotten." in out
    assert "User memories" not in out
    assert "green" in out  # it was shown before it went
    assert "MEMORY.md:" in out


def test_chat_forget_cannot_reach_other_users(chat, data):
    with Limpet.open(data) as memory:
        record = memory.remember("the safe opens with 1234", user="ana", key="safe")
    out = chat(f"/forget {record.id}", "/forget safe", "y", "/forget 1234", "y")
    assert "Forgot" not in out
    with Limpet.open(data) as memory:
        assert memory.records.get(record.id).content == "the safe opens with 1234"


def test_chat_new_sessions_and_switch(chat, data, server, spec):
    out = chat("First", "/new", "Second", "/sessions", "/switch 2", "/switch tui:local", args=("--llm", spec))
    old, fresh = found(r"Session (\S+) has ended .* New session (\S+)\.\n", out)
    assert re.search(rf"\*1  {fresh} .*\n 2  {old} .*TERMINATED", out)
    assert f"session {old} has ended; /switch tui:local goes to the live one of its key" in out
    assert f"Now in session {fresh} (tui:local, 2 messages)." in out
    with Limpet.open(data) as memory:
        other = memory.session("telegram", "7", user=USER)
        other.append("user", "I like rye bread")
    out = chat(f"/switch {other.id}", "Which bread?", "/status", "/switch telegram:7", args=("--llm", spec))
    assert f"Now in session {other.id} (telegram:7, 1 message)." in out
    assert f"session   {other.id} (telegram:7, active)" in out
    with Limpet.open(data) as memory:
        assert memory.load_session(other.id).count() == 3
        somebody_elses = memory.session("telegram", "8", user="ana").id
    assert "Now in" not in chat(f"/switch {somebody_elses}", "/switch telegram:8")


def test_chat_compact_command(chat, data):
    with Limpet.open(data) as memory:
        memory.session("tui", "local").extend(Message.new("user", f"Line {number} of the log") for number in range(10))
    out = chat("/compact 4", "/compact 4", "/status")
    assert "Compacted 6 messages by a digest: " in out
    assert "Nothing was compacted: " in out
    assert "summary   epoch 1, covers 6 messages up to #6" in out


def test_chat_status_shows_usage(chat, data, server, spec):
    assert "context  none yet" in chat("/status", args=("--llm", spec))
    out = chat("Hello", "/status", args=("--llm", spec))
    assert "usage     1 call, 12 tokens in (4 cached), 5 out, cost not known" in out
    assert re.search(r"context  \d+ of 4,000 tokens, 1 message", out)
    assert "messages  2" in out
    with Limpet.open(data) as memory:
        memory.session("tui", "local").add_usage("small", input_tokens=1, cost=0.25)
    assert "cost 0.2500" in chat("/status")


def test_chat_status_shows_cost_when_price_is_known(chat, monkeypatch, spec):
    monkeypatch.setenv("LIMPET_LLM_PRICE", "500000/1000000/0")
    assert "12 tokens in (4 cached), 5 out, cost 9.0000" in chat("Hello", "/status", args=("--llm", spec))


@pytest.mark.parametrize("answer", ["y", "YES", "n", "maybe", "", None])
@pytest.mark.parametrize("command", ["/purge_session", "/purge_user", "/purge_older 30"])
def test_chat_purge_asks_for_confirmation_and_reports_outcome(chat, data, command, answer):
    chat("/remember tea=Assam", "Hello")
    lines = [command] if answer is None else [command, answer, "/status"]
    out, purged = chat(*lines), answer in {"y", "YES"}
    assert ("Checked: nothing is left." in out) == purged
    assert ("Nothing was removed." in out) != purged
    older = command.startswith("/purge_older")
    assert ("New session" in out) == (purged and not older)
    with Limpet.open(data) as memory:
        assert len(memory.privacy.receipts()) == int(purged)
        assert memory.records.count(user=USER) == (0 if purged and command == "/purge_user" else 1)
        messages = memory.session("tui", "local").count()
    if purged and not older:
        assert messages == 0
    else:
        assert messages == (2 if answer == "maybe" else 1)  # what is no answer is the next message


def test_chat_purge_older_says_how_much_goes_and_refuses_0_days(chat, data):
    chat("/remember tea=Assam", "Hello")
    out = chat("/purge_older 0", "/purge_older 30", "n")
    assert "0 days removes everything up to now" in out
    assert "It would remove nothing.\n" in out
    with Limpet.open(data) as memory:
        assert memory.records.count(user=USER) == 1


def test_chat_quit_ends_chat(chat, server, spec):
    chat("/quit", "Hello", args=("--llm", spec))
    assert server.requests == []


def test_chat_docs_list_every_command():
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "chat.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(/[^`]+)` \| (.+) \|$", page, re.MULTILINE)
    rows = [(usage, re.sub(r"\[(.+?)\]\(.+?\)", r"\1", text)) for usage, text in rows]  # without its links
    assert rows == [(command.usage.replace("|", "\\|"), command.summary) for command in COMMANDS]
