"""``limpet chat`` at a terminal: the prompt, Ctrl-C, lines typed while a reply comes, questions."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from limpet import Limpet
from tests.integration.chat_helpers import PATIENCE, Story, asked, at_terminal, says, terminal_of
from tests.unit.providers.embedding_server import HOLDS_OUT, hangs, status

CTRL_C, CTRL_D = "\x03", "\x04"
STOPPED = "Stopped. What you said is stored, the reply is not.\n"


@pytest.fixture
def terminal(env, server):
    with at_terminal("--llm", f"openai:small@{server.url}", env=env) as opened:
        opened.until_prompt()
        yield opened


def stored(data: Path) -> list[tuple[str, str]]:
    with Limpet.open(data) as memory:
        return [(message.role, message.text) for message in memory.session("tui", "local").messages()]


def test_terminal_chat_conversation(terminal, data):
    terminal.enter("Hello")
    assert terminal.until_prompt() == "Hello\nI am a test.\n> "
    terminal.enter("/quit")
    assert terminal.ended() == 0
    assert stored(data) == [("user", "Hello"), ("assistant", "I am a test.")]


def test_terminal_chat_streams_reply(terminal, server):
    story = Story("Once upon", " a time")
    server.plan.append(story)
    terminal.enter("A story")
    terminal.until("Once upon a time")
    assert not story.may_end.is_set()
    story.may_end.set()
    assert terminal.until_prompt() == "The end.\n> "


@pytest.mark.parametrize("typed", ["/stop\r", "  /stop \r", CTRL_C])
def test_terminal_chat_stops_reply_on_stop_or_ctrl_c(terminal, data, server, typed):
    story = Story("Once upon a time")
    server.plan.append(story)
    terminal.enter("A story")
    terminal.until("Once upon a time")
    terminal.type(typed)
    terminal.until(STOPPED)
    assert story.hung_up.wait(PATIENCE)  # and the model is not left talking to nobody
    terminal.until("> ")
    terminal.enter("And you?")
    assert "I am a test." in terminal.until_prompt()
    terminal.type(CTRL_D)
    assert terminal.ended() == 0
    assert stored(data) == [("user", "A story"), ("user", "And you?"), ("assistant", "I am a test.")]


@pytest.mark.parametrize("typed", ["/stop\r", CTRL_C])
def test_terminal_chat_stops_waiting_for_silent_model(terminal, server, typed):
    server.plan.append(hangs)
    terminal.enter("Hello?")
    deadline = time.monotonic() + PATIENCE
    while not server.requests and time.monotonic() < deadline:
        time.sleep(0.01)
    started = time.monotonic()
    terminal.type(typed)
    terminal.until(STOPPED)
    assert time.monotonic() - started < HOLDS_OUT / 2


def test_terminal_chat_stops_waiting_between_retries(terminal, server):
    server.plan.append(status(429, **{"Retry-After": "30"}))
    terminal.enter("Hello?")
    deadline = time.monotonic() + PATIENCE
    while not server.requests and time.monotonic() < deadline:
        time.sleep(0.01)
    terminal.type(CTRL_C)
    terminal.until(STOPPED)


def test_terminal_chat_queues_lines_typed_during_reply(terminal, data, server):
    story = Story("Once upon a time")
    server.plan += [story, says("Two it is."), says("Three it is.")]
    terminal.enter("One")
    terminal.until("Once upon a time")
    terminal.enter("Two")
    terminal.enter("Three")
    terminal.enter("/stop")
    terminal.until(STOPPED)
    terminal.until("> Two\nTwo it is.\n> Three\nThree it is.\n> ")
    terminal.enter("/stop")
    assert "There is nothing to stop" in terminal.until_prompt()
    assert [text for role, text in stored(data) if role == "user"] == ["One", "Two", "Three"]


def test_terminal_chat_keeps_partial_line_typed_during_reply(terminal, server):
    story = Story("Once upon a time")
    server.plan.append(story)
    terminal.enter("One")
    terminal.until("Once upon a time")
    terminal.type("half a ")
    story.may_end.set()
    terminal.until("The end.")
    terminal.enter("line")
    terminal.until("I am a test.")
    assert asked(server)[-1][-1]["content"].endswith("half a line")


def test_terminal_chat_eof_during_reply_exits_after_it(terminal, data, server):
    story = Story("Once upon a time")
    server.plan.append(story)
    terminal.enter("One")
    terminal.until("Once upon a time")
    terminal.type(CTRL_D)
    story.may_end.set()
    assert terminal.ended() == 0
    assert stored(data)[-1] == ("assistant", "Once upon a timeThe end.")


def test_terminal_chat_ctrl_c_at_prompt_discards_line(terminal, server):
    terminal.type("never mind")
    terminal.until("never mind")
    terminal.interrupt("Ctrl-D or /quit leaves the chat.\n> ")
    terminal.enter("one\\")
    terminal.until("... ")
    terminal.interrupt("leaves the chat.\n> ")
    terminal.enter("Hello")
    terminal.until("I am a test.")
    assert [messages[-1]["content"] for messages in asked(server)] == ["Hello"]


def test_terminal_chat_ctrl_c_waits_for_memory_and_second_one_exits(env, data, server, tmp_path):
    """A message that is being kept is kept whole."""
    program = tmp_path / "slow.py"
    program.write_text(
        "import os, sys, time\n"
        "from limpet.api.turn import Turn\n"
        "from limpet.cli.chat.terminal import Stopper\n"
        "from limpet.cli.main import main\n"
        "recall, pressed = Turn._recall, Stopper._on_sigint\n"
        "def slowly(turn):\n"
        "    print('REMEMBERING', flush=True)\n"
        "    while not os.path.exists(sys.argv[1]):\n"
        "        time.sleep(0.02)\n"
        "    return recall(turn)\n"
        "def seen(*args):\n"
        "    pressed(*args)\n"
        "    print('PRESSED', flush=True)\n"
        "Turn._recall, Stopper._on_sigint = slowly, seen\n"
        "sys.exit(main(sys.argv[2:]))\n"
    )
    arguments = ["chat", "--llm", f"openai:small@{server.url}"]

    go_on = tmp_path / "go on"

    def start() -> subprocess.Popen[str]:
        command = [sys.executable, str(program), str(go_on), *arguments]
        process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("Hello\n")
        process.stdin.flush()
        assert any("REMEMBERING" in line for line in process.stdout)
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "PRESSED\n"
        return process

    patient = start()
    go_on.touch()
    out, _ = patient.communicate("", timeout=PATIENCE)
    assert (patient.returncode, out) == (0, STOPPED)
    assert stored(data) == [("user", "Hello")]
    assert server.requests == []

    go_on.unlink()
    pressing = start()
    pressing.send_signal(signal.SIGINT)
    pressing.communicate("", timeout=PATIENCE)
    assert pressing.returncode == 130
    assert stored(data) == [("user", "Hello")]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("y\r", "Checked: nothing is left."),
        ("Yes\r", "Checked: nothing is left."),
        ("n\r", "Nothing was removed."),
        ("\r", "Nothing was removed."),
        ("yep\r", "Nothing was removed."),
    ],
)
def test_terminal_chat_purge_confirmation(terminal, answer, said):
    terminal.enter("/purge_user")
    terminal.until("Purge everything of tui:local, every session and memory, for good? [y/N] ")
    terminal.type(answer)
    assert said in terminal.until_prompt()


def test_terminal_chat_ctrl_c_declines_confirmation(terminal):
    terminal.enter("/purge_user")
    terminal.until("[y/N] ")
    terminal.interrupt("Nothing was removed.\n> ")


def test_terminal_chat_line_typed_ahead_does_not_confirm(terminal, server):
    story = Story("Once upon a time")
    server.plan.append(story)
    terminal.enter("One")
    terminal.until("Once upon a time")
    terminal.enter("/purge_user")
    terminal.enter("y")
    story.may_end.set()
    terminal.until("[y/N] ")
    terminal.enter("n")
    terminal.until("Nothing was removed.")
    terminal.until("> y\nI am a test.")


def test_terminal_chat_quit_during_learning_can_be_interrupted(env, server):
    server.plan += [says("Hello."), *[hangs] * 6]
    arguments = ("--llm", f"openai:small@{server.url}")
    with at_terminal(*arguments, env=env | {"LIMPET_LEARN_ENABLED": "true"}) as terminal:
        terminal.until_prompt()
        terminal.enter("My cat is called Otto")
        terminal.until_prompt()
        deadline = time.monotonic() + PATIENCE
        while len(server.requests) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        terminal.enter("/quit")
        terminal.until("Finishing what is being learned; Ctrl-C leaves it for the next time.")
        terminal.type(CTRL_C)
        assert terminal.ended() == 130


def test_terminal_chat_escapes_control_characters_in_reply(terminal, server):
    server.plan.append(says("\x1b[2J", "\x1b]0;owned\x07 hello"))
    terminal.enter("Hello")
    assert "\\x1b[2J\\x1b]0;owned\\x07 hello" in terminal.until_prompt()
    assert "\x1b[2J" not in terminal.raw
    assert "\x1b]0" not in terminal.raw


def test_terminal_chat_respects_no_color(env, server):
    arguments = ("--llm", f"openai:small@{server.url}")
    with at_terminal(*arguments, env=env) as coloured:
        coloured.until_prompt()
        assert "\x1b[2m" in coloured.raw
    with at_terminal(*arguments, env=env | {"NO_COLOR": "1"}) as plain:
        plain.until_prompt()
        plain.enter("/nonsense")
        plain.until_prompt()
        assert "\x1b[2m" not in plain.raw
        assert "\x1b[31m" not in plain.raw


def test_terminal_chat_readline_history(terminal, server):
    pytest.importorskip("readline")
    terminal.enter("Hello")
    terminal.until_prompt()
    terminal.type("\x1b[A")  # the line before
    terminal.until("Hello")
    terminal.enter(" again")
    terminal.until("I am a test.")
    assert asked(server)[-1][-1]["content"] == "Hello again"


def test_terminal_chat_shows_prompt_when_output_is_redirected(env, server, tmp_path):
    file = tmp_path / "out.txt"
    command = f"{sys.executable} -m limpet chat --llm openai:small@{server.url} > {file}"
    with terminal_of("/bin/sh", "-c", command, env=env) as terminal:
        terminal.until("> ")
        terminal.enter("Hello")
        terminal.until("> ")
        terminal.type(CTRL_D)
        assert terminal.ended() == 0
    assert file.read_text().endswith("I am a test.\n")
    assert "\n> " not in file.read_text()
