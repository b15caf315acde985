"""Eight threads use a store that was just opened, and each is interrupted again and again at any line.

``python -m tests.crash.interrupted_threads FOLDER SEED SECONDS`` prints what it counted as JSON. The interrupts begin
with the first call, so that they also come while modules are imported.
"""

from __future__ import annotations

import ctypes
import json
import logging
import random
import sys
import threading
import time
from collections import Counter
from pathlib import Path

from limpet import Config, Limpet, Session

THREADS = 8
PATIENCE_S = 20.0  # for a thread to end; a takeover in the writer takes one


class Caller:
    """One thread with its session. It counts its texts on, so that each is written once at most."""

    def __init__(self, memory: Limpet, name: str) -> None:
        self.memory = memory
        self.session: Session = memory.session(channel="test", chat=name, user=name)
        self.name, self.count = name, 0
        self.kept: list[str] = []
        self.errors: Counter[str] = Counter()
        self.stop = False
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self) -> None:
        while not self.stop:
            try:
                self.run_interrupted()
            except KeyboardInterrupt:
                continue

    def run_interrupted(self) -> None:
        """Return when it is stopped, or with an interrupt that came where the first was handled."""
        while not self.stop:
            try:
                self.call()
            except KeyboardInterrupt:
                continue
            except Exception as error:
                self.errors[f"{type(error).__name__}: {error}"[:200]] += 1

    def call(self) -> None:
        while not self.stop:
            self.count += 1
            text = f"{self.name}x{self.count}"
            if self.count % 5 == 0:
                self.memory.recall("where do I live?", user=self.name)
            if self.count % 7 == 0:
                with self.session.turn(f"I moved to Porto, {text}") as turn:
                    if turn.reply(text) is not None:
                        self.kept.append(text)
            else:
                self.session.append("user", text)
                self.kept.append(text)

    def interrupt(self) -> None:
        identity = ctypes.c_ulong(self.thread.ident or 0)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(identity, ctypes.py_object(KeyboardInterrupt))

    def count_missing(self) -> int:
        stored = Counter(message.text for message in self.session.messages())
        return sum(stored[text] != 1 for text in self.kept)


def main(folder: str, seed: str, seconds: str) -> None:
    logging.disable(logging.CRITICAL)
    config = Config.load(overrides={"embedding.model": "hashed", "jobs.worker": False})
    memory = Limpet.open(Path(folder), config=config)
    callers = [Caller(memory, f"user{number}") for number in range(THREADS)]
    for caller in callers:
        caller.thread.start()
    choose, until = random.Random(int(seed)), time.monotonic() + float(seconds)
    while time.monotonic() < until:
        time.sleep(choose.uniform(0.0005, 0.01))
        choose.choice(callers).interrupt()
    written = [len(caller.kept) for caller in callers]
    deadline = time.monotonic() + PATIENCE_S
    while any(len(caller.kept) == before for caller, before in zip(callers, written, strict=True)):
        if time.monotonic() > deadline:
            break
        time.sleep(0.05)
    stuck = sum(len(caller.kept) == before for caller, before in zip(callers, written, strict=True))
    for caller in callers:
        caller.stop = True
    for caller in callers:
        caller.thread.join(PATIENCE_S if not stuck else 1.0)
    counted = {
        "stuck": stuck,
        "errors": dict(sum((caller.errors for caller in callers), Counter())),
        "missing": 0 if stuck else sum(caller.count_missing() for caller in callers),
        "kept": sum(len(caller.kept) for caller in callers),
    }
    print(json.dumps(counted), flush=True)
    if not stuck:
        memory.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
