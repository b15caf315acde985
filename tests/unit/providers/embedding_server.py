"""A server that speaks OpenAI's /embeddings on a port of this machine, and misbehaves as told."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from limpet.errors import ProviderError
from limpet.providers.fakes import FakeEmbedder
from limpet.providers.openai import OpenAiEmbedder

KEY = "sk-very-secret-0123456789"
HOLDS_OUT = 120  # seconds that a server stays silent; the end of the test releases it

Answering = Callable[["Handler"], None]


class EmbeddingServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.plan: list[Answering] = []  # how to answer the next requests; as usual, when there is nothing left
        self.usual: Answering = well
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.released = threading.Event()
        self._asked = threading.Event()

    def wait_for_request(self) -> None:
        """A client that gave up soon may be ahead of this server."""
        assert self._asked.wait(60)

    def add_request(self, given: dict[str, Any], key: str | None) -> None:
        self.requests.append(given)
        self.keys.append(key)
        self._asked.set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that gave up is part of the test."""


class Handler(BaseHTTPRequestHandler):
    server: EmbeddingServer
    given: dict[str, Any]

    def do_POST(self) -> None:
        self.given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.given["path"] = self.path
        self.server.add_request(self.given, self.headers["Authorization"])
        (self.server.plan.pop(0) if self.server.plan else self.server.usual)(self)

    def do_GET(self) -> None:
        self.server.add_request({"path": self.path}, self.headers["Authorization"])
        well(self)

    def log_message(self, format: str, *args: object) -> None:
        pass

    def send(self, body: bytes | str, headers: dict[str, str], status: int = 200) -> None:
        content = body.encode() if isinstance(body, str) else body
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)


def vectors(texts: list[str], dimension: int = 8) -> list[list[float]]:
    """Of length three."""
    return [[3 * value for value in vector] for vector in FakeEmbedder(dimension).embed(texts)]


def well(handler: Handler) -> None:
    """Backwards, which the index numbers allow."""
    texts = handler.given["input"]
    data = [
        {"object": "embedding", "index": index, "embedding": vector}
        for index, vector in enumerate(vectors(texts, handler.given.get("dimensions", 8)))
    ]
    handler.send(json.dumps({"object": "list", "data": data[::-1], "model": handler.given["model"]}), {})


def status(code: int, message: str = "no", **headers: str) -> Answering:
    return lambda handler: handler.send(json.dumps({"error": {"message": message}}), headers, code)


def says(body: str | bytes, promised: int | None = None) -> Answering:
    length = {} if promised is None else {"Content-Length": str(promised)}
    return lambda handler: handler.send(body, length)


def gives(*embeddings: object) -> Answering:
    return says(json.dumps({"data": [{"index": i, "embedding": vector} for i, vector in enumerate(embeddings)]}))


def hangs(handler: Handler) -> None:
    handler.server.released.wait(HOLDS_OUT)


def hangs_up(handler: Handler) -> None:
    handler.close_connection = True


def stays_open(handler: Handler) -> None:
    well(handler)
    handler.wfile.flush()
    handler.server.released.wait(HOLDS_OUT)


def trickles(handler: Handler) -> None:
    handler.send_response(200)
    handler.end_headers()
    while not handler.server.released.wait(0.05):
        handler.wfile.write(b" ")
        handler.wfile.flush()


def trickles_headers(handler: Handler) -> None:
    handler.send_response(200)
    handler.flush_headers()
    while not handler.server.released.wait(0.05):
        handler.wfile.write(b"x")
        handler.wfile.flush()


@contextmanager
def embedding_server() -> Iterator[EmbeddingServer]:
    server = EmbeddingServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.002})
    thread.start()
    try:
        yield server
    finally:
        server.released.set()
        server.shutdown()
        server.server_close()
        thread.join()


def refused(embedder: OpenAiEmbedder) -> str:
    """What its error says, the key nowhere in it."""
    with pytest.raises(ProviderError) as caught:
        embedder.embed(["text"])
    chain: BaseException | None = caught.value
    while chain is not None:
        assert KEY not in f"{chain!r} {chain}"
        chain = chain.__cause__
    return str(caught.value)
