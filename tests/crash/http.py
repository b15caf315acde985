"""Clients of a server that is killed in the middle of their requests, and what they were told was kept."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlsplit

from limpet import Limpet
from tests.server_process import Server

CLIENTS = 8
PATIENCE = 60.0


@dataclass
class Told:
    """What one client was answered, by the key it asked under."""

    session: str = ""
    kept: dict[str, str] = field(default_factory=dict)  # key -> content
    began: dict[str, str] = field(default_factory=dict)  # and all that it asked for
    odd: list[str] = field(default_factory=list)


class Client:
    """One connection that asks again, under the same key, until it is answered."""

    def __init__(self, number: int, siege: Siege) -> None:
        self.number, self.siege, self.told = number, siege, Told()
        self._connection: http.client.HTTPConnection | None = None

    def work(self) -> None:
        try:
            self._work()
        finally:
            self._leave()

    def _work(self) -> None:
        body = {"channel": "torture", "chat": str(self.number), "user": f"user{self.number % 3}"}
        self.told.session = self._asked("/v1/sessions", body)["id"]
        count = 0
        while not self.siege.over.is_set():
            count += 1
            key, content = f"{self.number}-{count}", f"message {count} of client {self.number}"
            self.told.began[key] = content
            path = f"/v1/sessions/{self.told.session}"
            if count % 3:
                made = self._asked(f"{path}/messages", {"role": "user", "content": content}, key)
            else:
                made = self._asked(f"{path}/turns", {"content": content, "reply": f"reply to {content}"}, key)
            if made:
                self.told.kept[key] = content

    def _asked(self, path: str, body: dict[str, Any], key: str = "") -> Any:
        """Empty where it was over before an answer came."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            try:
                return self._answer(path, body, key)
            except (OSError, http.client.HTTPException):
                self._leave()
                if self.siege.over.is_set():
                    return {}
                time.sleep(0.02)
        self.told.odd.append(f"no answer to {path} within {PATIENCE:.0f} s")
        return {}

    def _answer(self, path: str, body: dict[str, Any], key: str) -> Any:
        if self._connection is None:
            place = urlsplit(self.siege.url)
            self._connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=60)
        heads = {"Content-Type": "application/json", **({"Idempotency-Key": key} if key else {})}
        self._connection.request("POST", path, json.dumps(body), heads)
        with self._connection.getresponse() as answer:
            said = answer.read()
        if answer.status == 503:
            raise OSError("busy: asked again")
        if answer.status >= 300:
            self.told.odd.append(f"{path}: {answer.status} {said[:300]!r}")
            return {}
        return json.loads(said)

    def _leave(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class Siege:
    def __init__(self, store: str, chance: Random) -> None:
        self.store, self.chance = store, chance
        self.over = threading.Event()
        self.url = ""
        self.clients = [Client(number, self) for number in range(CLIENTS)]

    def run(self, kills: int) -> None:
        """Each server is killed while it answers, and another takes its place; the last one ends in order."""
        server = Server(self.store)
        self.url = server.url
        threads = [threading.Thread(target=client.work) for client in self.clients]
        for thread in threads:
            thread.start()
        try:
            for _ in range(kills):
                self._wait_for_answers(self.chance.randint(10, 60))
                server.kill()
                server = Server(self.store)
                self.url = server.url
            self._wait_for_answers(20)
        finally:
            # Told to stop while they ask: what was begun is answered, and what is answered is kept.
            status = server.stop()
            self.over.set()
            for thread in threads:
                thread.join()
        if status:
            self.clients[0].told.odd.append(f"the server that was told to stop ended with {status}")

    def _wait_for_answers(self, more: int) -> None:
        wanted, until = self.answered + more, time.monotonic() + PATIENCE
        while self.answered < wanted and time.monotonic() < until:
            time.sleep(0.005)

    @property
    def answered(self) -> int:
        return sum(len(client.told.kept) for client in self.clients)


def check(store: str, siege: Siege) -> dict[str, list[str]]:
    """After all is over: nothing that was answered is lost, nothing is there twice, nothing nobody asked for."""
    lost, doubled, strange, odd = [], [], [], []
    with Limpet.open(store) as memory:
        for client in siege.clients:
            told = client.told
            messages = memory.load_session(told.session).messages()
            found = Counter(message.text for message in messages)
            meant = {*told.began.values(), *(f"reply to {content}" for content in told.began.values())}
            for content in told.kept.values():
                if not found[content]:
                    lost.append(content)
                number = int(content.split()[1])
                if number % 3 == 0 and not found[f"reply to {content}"]:
                    lost.append(f"reply to {content}")
            doubled += [text for text, count in found.items() if count > 1]
            strange += [text for text in found if text not in meant]
            odd += told.odd
    return {
        "nothing acknowledged is lost": lost,
        "nothing is there twice": doubled,
        "nothing is there that nobody sent": strange,
        "every answer was one that was meant": odd,
    }


def besieged(store: str, kills: int, chance: Random) -> tuple[Siege, dict[str, list[str]]]:
    if "://" not in store:
        Path(store).mkdir(parents=True, exist_ok=True)
    siege = Siege(store, chance)
    siege.run(kills)
    return siege, check(store, siege)
