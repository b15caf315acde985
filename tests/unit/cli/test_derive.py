"""The command line is made from the table of operations."""

from __future__ import annotations

from argparse import _SubParsersAction
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import pytest

from limpet.api.records import RecordOperations
from limpet.cli import render
from limpet.cli.derive import can_type, is_required
from limpet.cli.main import build_parser
from limpet.cli.options import Parser
from limpet.model import constraints as limits
from limpet.security.operation import OPERATIONS, On, Operation, operation


@pytest.fixture(scope="module")
def commands() -> dict[str, Parser]:
    def collect(parser: Parser, words: str) -> Iterator[tuple[str, Parser]]:
        for action in parser._actions:
            if isinstance(action, _SubParsersAction):
                for word, child in action.choices.items():
                    yield f"{words} {word}".strip(), child
                    yield from collect(child, f"{words} {word}".strip())

    return dict(collect(build_parser(), ""))


@pytest.mark.parametrize("each", OPERATIONS.values(), ids=OPERATIONS)
def test_every_operation_has_a_command_or_a_reason(each: Operation, commands: dict[str, Parser]) -> None:
    assert bool(each.cli) is not ("cli" in each.left_out)
    assert not each.cli or each.cli in commands


@pytest.mark.parametrize("each", [each for each in OPERATIONS.values() if each.cli], ids=lambda each: each.name)
def test_a_command_can_give_what_its_operation_requires(each: Operation) -> None:
    assert [field.name for field in each.parameters if is_required(each, field) and not can_type(field)] == []


@pytest.fixture
def throw_away(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def echo(
        self: RecordOperations,
        word: Annotated[str, limits.Printable(), "what to say"],
        *,
        user: Annotated[str, limits.Printable(), "whose"] | None = None,
        often: Annotated[int, limits.Integer(1, 5), "how often"] = 1,
        loud: Annotated[bool, limits.Boolean(), "in capitals"] = False,
    ) -> str:
        """Say a word."""
        said = f"{word} by {user or 'nobody'} " * often
        return said.upper().strip() if loud else said.strip()

    for name, words in (("records.echo", "records echo"), ("records.shout", "shout")):
        made = operation(name, on=On.REACH, needs="read", answer="said", cli=words)(echo)
        monkeypatch.setattr(RecordOperations, "echo", made, raising=False)
    yield
    for name in ("records.echo", "records.shout"):
        del OPERATIONS[name]


def test_a_new_operation_is_a_command_at_once(run, throw_away):
    assert run("records", "echo", "hi").out == "hi by nobody\n"
    assert run("records", "echo", "hi", "--user", "ana", "--often", "2", "--loud", "--json").json == {
        "said": "HI BY ANA HI BY ANA"
    }
    assert run("shout", "hi").out == "hi by nobody\n"
    assert "how often; default: 1" in run("records", "echo", "--help").out
    assert "Say a word" in run("records", "--help").out
    assert run("records", "echo").status == 2
    assert run("records", "echo", "hi", "--often", "much").status == 2
    assert run("records", "echo", "hi", "--often", "6").status == 1


def test_sessions_are_opened_changed_and_found(run):
    opened = run("sessions", "open", "--chat", "7", "--meta", "mood=sunny", "--ttl", "2d", "--json").json
    assert (opened["key"], opened["user"], opened["metadata"]) == ("app:7", "app:7", {"mood": "sunny"})
    session = opened["id"]
    assert run("sessions", "find", "--chat", "7", "--json").json["id"] == session
    assert run("sessions", "find", "--chat", "8", "--json").json == {"session": None}
    assert run("sessions", "find", "--chat", "8").out == "There is none.\n"
    assert run("sessions", "pause", session).out == "The session is paused.\n"
    assert run("sessions", "resume", session, "--json").json == {"done": True}
    assert run("sessions", "summary", session).out == "There is none.\n"
    assert run("sessions", "messages", session).out == "No messages yet.\n"
    for word in ("one", "two", "three"):
        run("append", word, "--session", session)
    assert [each["content"] for each in run("sessions", "messages", session, "--after", "1", "--json").json] == [
        "two",
        "three",
    ]
    assert run("sessions", "compact", session, "--keep", "1").out.startswith("Compacted 2 messages by a digest: ")
    assert "Covers 2 messages, up to #2." in run("sessions", "summary", session).out
    assert run("sessions", "files", session).out == "The session has no files.\n"
    assert "add --yes" in run("sessions", "clear", session).err
    assert run("sessions", "clear", session, "--yes").out == "The messages and the summary are removed.\n"
    assert run("sessions", "new", session).out.startswith("New session ")
    assert run("sessions", "show", session, "--json").json["state"] == "TERMINATED"


@dataclass(frozen=True)
class Shell:
    """A noun that no renderer knows."""

    name: Annotated[str, "its name"]
    size_mm: Annotated[int, "how large it is"]
    marks: Annotated[tuple[str, ...], "what is on it"] = ()


def test_a_noun_without_a_renderer_is_shown_by_its_fields():
    shells = [Shell("whelk", 1200), Shell("cone", 35, ("dots",))]
    assert [line.split() for line in render.format_list(shells)] == [
        ["NAME", "SIZE", "MM", "MARKS"],
        ["whelk", "1,200", "[]"],
        ["cone", "35", '["dots"]'],
    ]
    assert render.format_noun(shells[1]) == ["name     cone", "size mm  35", 'marks    ["dots"]']


def test_users_are_listed(run, talk):
    run("remember", "Closed on Mondays", "--global")
    assert [line.split() for line in run("users").out.splitlines()] == [
        ["LEVEL", "NAME"],
        ["global", "-"],
        ["user", "ana"],
    ]
    assert [(each["level"], each["owner"]) for each in run("users", "--json").json] == [
        ("global", None),
        ("user", "ana"),
    ]
    assert run("users", "--tenant", "acme").out == "Nobody has memory here yet.\n"


def test_stats_usage_and_settings(run, talk, monkeypatch):
    assert run("stats", "--json").json["messages"] == 3
    assert "messages" in run("stats").out
    assert run("usage").out == "No model has reported anything yet.\n"
    assert run("usage", "--json").json["models"] == []
    assert run("config", "--json").json == [
        {"key": "embedding.model", "value": "none", "from": "LIMPET_EMBEDDING_MODEL"}
    ]
    monkeypatch.setenv("LIMPET_SEARCH_K", "3")
    assert run("config", "search.k").out.splitlines()[1].split()[:3] == ["search.k", "3", "LIMPET_SEARCH_K"]
    assert len(run("config", "--all", "--json").json) > 50
    assert "did you mean search.k" in run("config", "serch.k").err


def test_forget_can_be_tried_first(run):
    record = run("remember", "Likes tea", "--key", "tea", "--json").json["id"]
    first, _, shown = run("forget", "--key", "tea", "--dry-run").out.splitlines()
    assert first == "Would forget 1 record."
    assert shown.startswith(record)
    assert shown.endswith("Likes tea")
    assert run("forget", "--key", "tea", "--dry-run", "--json").json["ids"] == [record]
    assert len(run("records", "--json").json) == 1


def test_config_shows_a_preset_and_where_a_setting_comes_from(run, tmp_path):
    shown = {row["key"]: row["value"] for row in run("config", "--preset", "golemcore", "--json").json}
    assert (shown["learn.fade_days"], shown["context.layout"]) == (30, "golemcore")
    file = tmp_path / "limpet.toml"
    file.write_text('preset = "golemcore"\n[context]\nworking_top = 3\n')
    rows = {row["key"]: row["from"] for row in run("config", "--config", str(file), "--json").json}
    assert (rows["learn.decay"], rows["context.working_top"]) == ("preset golemcore", str(file))
    assert "did you mean picobot" in run("config", "--preset", "picobots").err
