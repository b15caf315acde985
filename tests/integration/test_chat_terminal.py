"""``limpet chat`` at a terminal: the prompt, Ctrl-C, lines typed while a reply comes, questions."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from limpet import Limpet
from tests.integration.chatting import PATIENCE, Story, asked, at_terminal, says, terminal_of
from tests.unit.providers.embedding_server import HOLDS_OUT, hangs, status

CTRL_C, CTRL_D = "\x03", "\x04"
STOPPED = "Stopped. What you said is kept, the reply is not.\n"


@pytest.fixture
def terminal(env, server):
    with at_terminal("--llm", f"openai:small@{server.url}", env=env) as opened:
        opened.until_prompt()
        yield opened


def stored(data: Path) -> list[tuple[str, str]]:
    with Limpet.open(data) as hf:
        return [(message.role, message.text) for message in hf.session("tui", "local").messages()]


def test_a_conversation(terminal, data):
    terminal.enter("Hello")
    assert terminal.until_prompt() == "Hello\nI am a test.\n> "
    terminal.enter("/quit")
    assert terminal.ended() == 0
    assert stored(data) == [("user", "Hello"), ("assistant", "I am a test.")]


def test_a_reply_is_shown_as_it_comes(terminal, server):
    story = Story("Once upon", " a time")
    server.plan.append(story)
    terminal.enter("A story")
    terminal.until("Once upon a time")
    assert not story.may_end.is_set()
    story.may_end.set()
    assert terminal.until_prompt() == "The end.\n> "


@pytest.mark.parametrize("typed", ["/stop\r", "  /stop \r", CTRL_C])
def test_a_reply_is_stopped_in_the_middle(terminal, data, server, typed):
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
def test_a_model_that_says_nothing_is_stopped_too(terminal, server, typed):
    server.plan.append(hangs)
    terminal.enter("Hello?")
    deadline = time.monotonic() + PATIENCE
    while not server.requests and time.monotonic() < deadline:
        time.sleep(0.01)
    started = time.monotonic()
    terminal.type(typed)
    terminal.until(STOPPED)
    assert time.monotonic() - started < HOLDS_OUT / 2


def test_a_wait_between_two_attempts_is_stopped_too(terminal, server):
    server.plan.append(status(429, **{"Retry-After": "30"}))
    terminal.enter("Hello?")
    deadline = time.monotonic() + PATIENCE
    while not server.requests and time.monotonic() < deadline:
        time.sleep(0.01)
    terminal.type(CTRL_C)
    terminal.until(STOPPED)


def test_what_is_typed_while_a_reply_comes_is_the_next_line(terminal, data, server):
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


def test_half_a_line_typed_while_a_reply_comes_is_not_lost(terminal, server):
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


def test_the_end_of_input_while_a_reply_comes_ends_the_chat_after_it(terminal, data, server):
    story = Story("Once upon a time")
    server.plan.append(story)
    terminal.enter("One")
    terminal.until("Once upon a time")
    terminal.type(CTRL_D)
    story.may_end.set()
    assert terminal.ended() == 0
    assert stored(data)[-1] == ("assistant", "Once upon a timeThe end.")


def test_ctrl_c_at_the_prompt_gives_a_hint_and_drops_the_line(terminal, server):
    terminal.type("never mind")
    terminal.until("never mind")
    terminal.interrupt("Ctrl-D or /quit leaves the chat.\n> ")
    terminal.enter("one\\")
    terminal.until("... ")
    terminal.interrupt("leaves the chat.\n> ")
    terminal.enter("Hello")
    terminal.until("I am a test.")
    assert [messages[-1]["content"] for messages in asked(server)] == ["Hello"]


def test_ctrl_c_while_memory_works_waits_for_it_and_a_second_one_leaves(env, data, server, tmp_path):
    """A message that is being kept is kept whole."""
    program = tmp_path / "slow.py"
    program.write_text(
        "import os, sys, time\n"
        "from limpet.api.turn import Turn\n"
        "from limpet.cli.chat.stopping import Stopper\n"
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
        ("y\r", "Looked again: nothing of it is left."),
        ("Yes\r", "Looked again: nothing of it is left."),
        ("n\r", "Nothing was removed."),
        ("\r", "Nothing was removed."),
        ("yep\r", "Nothing was removed."),
    ],
)
def test_a_question_is_answered_at_the_terminal(terminal, answer, said):
    terminal.enter("/purge_user")
    terminal.until("Purge everything of tui:local, every session and memory, for good? [y/N] ")
    terminal.type(answer)
    assert said in terminal.until_prompt()


def test_ctrl_c_is_no_answer(terminal):
    terminal.enter("/purge_user")
    terminal.until("[y/N] ")
    terminal.interrupt("Nothing was removed.\n> ")


def test_a_line_typed_ahead_answers_no_question(terminal, server):
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


def test_leaving_while_something_is_learned(env, server):
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


def test_escape_codes_of_the_model_do_not_reach_the_terminal(terminal, server):
    server.plan.append(says("\x1b[2J", "\x1b]0;owned\x07 hello"))
    terminal.enter("Hello")
    assert "\\x1b[2J\\x1b]0;owned\\x07 hello" in terminal.until_prompt()
    assert "\x1b[2J" not in terminal.raw
    assert "\x1b]0" not in terminal.raw


def test_colour_is_a_matter_of_taste(env, server):
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


def test_the_keys_of_readline(terminal, server):
    pytest.importorskip("readline")
    terminal.enter("Hello")
    terminal.until_prompt()
    terminal.type("\x1b[A")  # the line before
    terminal.until("Hello")
    terminal.enter(" again")
    terminal.until("I am a test.")
    assert asked(server)[-1][-1]["content"] == "Hello again"


def test_prompts_of_a_reply_that_goes_into_a_file_are_seen(env, server, tmp_path):
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
