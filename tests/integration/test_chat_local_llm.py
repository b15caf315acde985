"""``limpet chat`` in tmux with a real model, small enough to run in a test."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.chat_helpers import surroundings
from tests.integration.local_llm import MODEL, LocalLlm, local_llm, missing

pytestmark = [
    pytest.mark.llm_server,
    pytest.mark.slow,
    pytest.mark.skipif(missing() is not None, reason=f"no local language model: {missing()}"),
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed"),
]

PATIENCE = 150  # seconds: a model on a busy machine is slow


class Tmux:
    """A terminal of its own server, which knows nothing of the reader's own sessions."""

    def __init__(self, folder: Path) -> None:
        self._socket = str(folder / "tmux")

    def start(self, *command: str) -> None:
        self._call("-f", "/dev/null", "new-session", "-d", "-x", "150", "-y", "50", *command)

    def enter(self, line: str) -> None:
        self._call("send-keys", "-l", line)
        self._call("send-keys", "Enter")

    def press(self, key: str) -> None:
        self._call("send-keys", key)

    def shown(self) -> str:
        return self._call("capture-pane", "-p", "-J", "-S", "-500")

    def until(self, wanted: str, after: str = "") -> str:
        """What is shown behind the last ``after`` once ``wanted`` is there."""
        deadline = time.monotonic() + PATIENCE
        while True:
            _, there, text = self.shown().rpartition(after) if after else ("", "yes", self.shown())
            if there and wanted in text:
                return text
            assert time.monotonic() < deadline, f"{wanted!r} is not in {text!r}"
            time.sleep(0.1)

    def is_over(self) -> bool:
        return subprocess.run(["tmux", "-S", self._socket, "ls"], capture_output=True, check=False).returncode != 0

    def close(self) -> None:
        subprocess.run(["tmux", "-S", self._socket, "kill-server"], capture_output=True, check=False)

    def _call(self, *arguments: str) -> str:
        done = subprocess.run(["tmux", "-S", self._socket, *arguments], capture_output=True, text=True, check=True)
        return done.stdout


@pytest.fixture(scope="module")
def server() -> Iterator[LocalLlm]:
    with local_llm() as running:
        yield running


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[Tmux]:
    opened = Tmux(tmp_path)
    yield opened
    opened.close()


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_chat_with_local_llm_recalls_previous_session(tmux, server, tmp_path, kind):
    url = f"{server.url}/v1" if kind == "openai" else server.url
    settings = {
        name: value
        for name, value in surroundings(tmp_path / "data", LIMPET_LLM_TIMEOUT_S=str(PATIENCE)).items()
        if name.startswith("LIMPET_") or name in {"PYTHONPATH", "NO_PROXY", "no_proxy"}
    }
    command = ("env", "-u", "COLUMNS", *(f"{name}={value}" for name, value in settings.items()), sys.executable)
    command += ("-m", "limpet", "chat", "--llm", f"{kind}:{MODEL}@{url}", "--window", "2048")

    tmux.start(*command)
    tmux.until("\n> ")
    question = "Hi! My tortoise is called Bramble."
    tmux.enter(question)
    tmux.until("\n> ", after=question)
    tmux.enter("/remember tortoise=Bramble, 41 years old, likes dandelions")
    tmux.until("Remembered under tortoise: ")
    tmux.enter("Tell me a very long story about the sea.")
    tmux.until("the", after="about the sea.")
    tmux.press("C-c")
    tmux.until("Stopped. What you said is stored, the reply is not.")
    tmux.enter("/quit")
    while not tmux.is_over():
        time.sleep(0.1)

    tmux.start(*command)
    assert "(3 messages)" in tmux.until("\n> ")
    tmux.enter("/new")
    tmux.until("New session ")
    question = "What is my tortoise called?"
    tmux.enter(question)
    reply = tmux.until("\n> ", after=question)
    assert reply.strip(" >\n")
    tmux.enter("/status")
    status = tmux.until("\n> ", after="/status")
    assert "User Memories: about " in status
    assert "Relevant Memory: about " in status
    assert "user: Hi! My tortoise is called Bramble." in status
    assert "usage     1 call, " in status
    tmux.enter("/memory")
    assert "Bramble, 41 years old, likes dandelions" in tmux.until("\n> ", after="/memory")
    tmux.press("C-d")
    while not tmux.is_over():
        time.sleep(0.1)
