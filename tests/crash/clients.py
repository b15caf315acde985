"""Clients of servers that are killed in the middle of their requests, and what they were told was kept."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, ClassVar
from urllib.parse import urlsplit

from limpet import Limpet
from tests.server_process import Server

PATIENCE = 60.0


@dataclass
class Told:
    """What one client was answered, by the key it asked under."""

    kept: dict[str, str] = field(default_factory=dict)  # key -> content
    began: dict[str, str] = field(default_factory=dict)  # and all that it asked for
    odd: list[str] = field(default_factory=list)


@dataclass
class Faults:
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    strange: list[str] = field(default_factory=list)
    odd: list[str] = field(default_factory=list)

    def by_promise(self) -> dict[str, list[str]]:
        return {
            "nothing acknowledged is lost": self.lost,
            "nothing is there twice": self.doubled,
            "nothing is there that nobody sent": self.strange,
            "every answer was one that was meant": self.odd,
        }


class Unanswered(Exception):
    """The server was gone, or too busy: to be asked again."""


class Client:
    """One connection that asks again until it is answered. What it writes has a number in it."""

    def __init__(self, number: int, siege: Siege) -> None:
        self.number, self.siege, self.told = number, siege, Told()

    def work(self) -> None:
        try:
            self.begin()
            count = 0
            while not self.siege.over.is_set():
                count += 1
                key = f"{self.number}-{count}"
                content = self.told.began[key] = f"message {count} of client {self.number}"
                if self.write(count, key, content):
                    self.told.kept[key] = content
        finally:
            self.leave()

    def begin(self) -> None:
        """Before the first write."""

    def write(self, count: int, key: str, content: str) -> Any:
        """Answers nothing where it was over before an answer came."""
        raise NotImplementedError

    def leave(self) -> None:
        """Close the connection."""

    def check(self, memory: Limpet, faults: Faults) -> None:
        """Compare what is stored with what was told."""
        raise NotImplementedError

    def ask(self, what: str, send: Callable[[], Any]) -> Any:
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            try:
                return send()
            except Unanswered:
                self.leave()
                if self.siege.over.is_set():
                    return {}
                time.sleep(0.02)
        self.told.odd.append(f"no answer to {what} within {PATIENCE:.0f} s")
        return {}


class HttpConnection:
    def __init__(self, siege: Siege) -> None:
        self._siege = siege
        self._connection: http.client.HTTPConnection | None = None

    def post(self, path: str, body: Any, headers: dict[str, str]) -> tuple[int, bytes]:
        try:
            if self._connection is None:
                place = urlsplit(self._siege.url)
                self._connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=60)
            self._connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json", **headers})
            with self._connection.getresponse() as answer:
                said = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise Unanswered(str(error)) from error
        if answer.status == 503:
            raise Unanswered("busy")
        return answer.status, said

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class HttpClient(Client):
    """Messages and turns, under a key: one that is repeated happens once."""

    def __init__(self, number: int, siege: Siege) -> None:
        super().__init__(number, siege)
        self.session = ""
        self._connection = HttpConnection(siege)

    def begin(self) -> None:
        body = {"channel": "torture", "chat": str(self.number), "user": f"user{self.number % 3}"}
        self.session = self._post("/v1/sessions", body).get("id", "")

    def write(self, count: int, key: str, content: str) -> Any:
        path = f"/v1/sessions/{self.session}"
        if count % 3:
            return self._post(f"{path}/messages", {"role": "user", "content": content}, key)
        return self._post(f"{path}/turns", {"content": content, "reply": f"reply to {content}"}, key)

    def leave(self) -> None:
        self._connection.close()

    def check(self, memory: Limpet, faults: Faults) -> None:
        told = self.told
        found = Counter(message.text for message in memory.load_session(self.session).messages())
        meant = {*told.began.values(), *(f"reply to {content}" for content in told.began.values())}
        for content in told.kept.values():
            if not found[content]:
                faults.lost.append(content)
            number = int(content.split()[1])
            if number % 3 == 0 and not found[f"reply to {content}"]:
                faults.lost.append(f"reply to {content}")
        faults.doubled += [text for text, count in found.items() if count > 1]
        faults.strange += [text for text in found if text not in meant]

    def _post(self, path: str, body: dict[str, Any], key: str = "") -> Any:
        return self.ask(path, lambda: self._answer(path, body, key))

    def _answer(self, path: str, body: dict[str, Any], key: str) -> Any:
        status, said = self._connection.post(path, body, {"Idempotency-Key": key} if key else {})
        if status >= 300:
            self.told.odd.append(f"{path}: {status} {said[:300]!r}")
            return {}
        return json.loads(said)


class Siege:
    """Clients of several kinds on a server that is killed again and again."""

    kinds: ClassVar[tuple[type[Client], ...]] = (HttpClient,) * 8

    def __init__(self, store: str, chance: Random) -> None:
        if "://" not in store:
            Path(store).mkdir(parents=True, exist_ok=True)
        self.store, self.chance = store, chance
        self.over = threading.Event()
        self.url = ""
        self.clients = [kind(number, self) for number, kind in enumerate(self.kinds)]
        self._server: Server | None = None

    def start(self) -> None:
        self._server = Server(self.store)
        self.url = self._server.url

    def strike(self) -> None:
        """Kill what answers while it does, and let another take its place."""
        assert self._server is not None
        self._server.kill()
        self.start()

    def stop(self) -> None:
        """Told to stop while clients ask: what was begun is answered, and what is answered is kept."""
        assert self._server is not None
        if status := self._server.stop():
            self.clients[0].told.odd.append(f"the server that was told to stop ended with {status}")

    def run(self, kills: int) -> dict[str, list[str]]:
        """What is wrong afterwards, by promise."""
        self.start()
        threads = [threading.Thread(target=client.work) for client in self.clients]
        for thread in threads:
            thread.start()
        try:
            for _ in range(kills):
                self._wait_for_answers(self.chance.randint(10, 60))
                self.strike()
            self._wait_for_answers(20)
        finally:
            self.stop()
            self.over.set()
            for thread in threads:
                thread.join()
        return self.check()

    def check(self) -> dict[str, list[str]]:
        """Nothing that was answered is lost, nothing is there twice, nothing nobody asked for."""
        faults = Faults()
        with Limpet.open(self.store) as memory:
            for client in self.clients:
                client.check(memory, faults)
                faults.odd += client.told.odd
        return faults.by_promise()

    def _wait_for_answers(self, more: int) -> None:
        wanted, until = self.answered + more, time.monotonic() + PATIENCE
        while self.answered < wanted and time.monotonic() < until:
            time.sleep(0.005)

    @property
    def answered(self) -> int:
        return sum(len(client.told.kept) for client in self.clients)
