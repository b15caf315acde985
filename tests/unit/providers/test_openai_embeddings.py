from __future__ import annotations

import logging

import pytest

from limpet.errors import ConfigError
from limpet.providers.openai import OpenAiEmbedder
from tests.unit.providers.embedding_server import (
    KEY,
    embedding_server,
    hangs,
    refused,
    status,
    stays_open,
    trickles,
    trickles_headers,
    vectors,
)


def test_embedding_request_body_and_key(server, embedder):
    (vector,) = embedder.embed(["hello"])
    assert server.requests == [
        {"model": "small", "input": ["hello"], "encoding_format": "float", "path": "/v1/embeddings"}
    ]
    assert server.keys == [f"Bearer {KEY}"]
    assert vector == pytest.approx([value / 3 for value in vectors(["hello"])[0]])


def test_embedding_request_without_api_key(server):
    OpenAiEmbedder(server.url, "small").embed(["hello"])
    assert server.keys == [None]


def test_embedding_requests_hold_at_most_128_texts(server, embedder):
    assert len(embedder.embed([f"text {number}" for number in range(300)])) == 300
    assert [len(request["input"]) for request in server.requests] == [128, 128, 44]


def test_embedding_dimension_is_sent_and_part_of_name(server):
    embedder = OpenAiEmbedder(server.url, "small", dimension=16)
    assert (embedder.name, embedder.dimension, len(embedder.embed(["a"])[0])) == ("openai:small/16", 16, 16)
    assert server.requests[0]["dimensions"] == 16


def test_embedding_texts_are_made_acceptable_to_server(server, embedder):
    embedder.embed(["", " \n", "half \ud800", "x" * 100_000])
    assert server.requests[0]["input"] == [".", ".", "half ?", "x" * 8000]


@pytest.mark.parametrize("address", ["", "/", "/embeddings", "/embeddings/"])
def test_embedder_accepts_base_url_variants(server, address):
    OpenAiEmbedder(server.url + address, "small").embed(["a"])
    assert server.requests[0]["path"] == "/v1/embeddings"


def test_query_string_of_base_url_is_sent_but_never_shown(server):
    embedder = OpenAiEmbedder(f"{server.url}?api-version=1&key={KEY}", "small", retries=0)
    server.plan = [status(500)]
    assert "127.0.0.1" in refused(embedder)
    assert server.requests[0]["path"] == f"/v1/embeddings?api-version=1&key={KEY}"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:8080",
        "file:///etc/passwd",
        "http://",
        "https://user:secret@host/v1",
        "http://h:port",
        "http://h/v1?key=secret x",
    ],
)
def test_embedder_rejects_invalid_base_url(url):
    with pytest.raises(ConfigError) as caught:
        OpenAiEmbedder(url, "small")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("key", [f"{KEY}\n", f"{KEY}\r\nX: y", f"a {KEY}", f"{KEY}é"])
def test_api_key_invalid_in_header_is_rejected_without_showing_it(key):
    with pytest.raises(ConfigError) as caught:
        OpenAiEmbedder("http://localhost", "small", key)
    assert KEY not in str(caught.value)


def test_api_key_is_not_in_repr_or_logs(embedder, server, caplog):
    server.plan = [status(429), status(401)]
    with caplog.at_level(logging.DEBUG):
        refused(embedder)
    assert KEY not in repr(embedder) + caplog.text


def test_retry_backoff_has_random_jitter(server, waits):
    numbers = iter([0.0, 0.999])
    embedder = OpenAiEmbedder(server.url, "small", sleep=waits.append, chance=lambda: next(numbers))
    server.plan = [status(500), status(500)]
    embedder.embed(["a"])
    assert waits == [pytest.approx(0.25), pytest.approx(1.5, abs=0.01)]


def test_retry_backoff_jitter_defaults_to_request_hash(server, waits):
    embedder = OpenAiEmbedder(server.url, "small", sleep=waits.append)
    for text in ("a", "b", "c"):
        server.plan = [status(500)]
        embedder.embed([text])
    assert len(set(waits)) == 3
    assert all(0.25 <= wait <= 0.75 for wait in waits)


@pytest.mark.parametrize(
    ("told", "wait"),
    [
        ("7", 7),
        ("0", 0.5),
        ("86400", 30),
        ("9" * 400, 30),
        ("-1", 0.5),
        ("soon", 0.5),
        ("", 0.5),
        ("Fri, 13 Nov 2026 10:00:09 GMT", 9),
        ("Fri, 13 Nov 2026 09:00:00 GMT", 0.5),
    ],
)
def test_retry_after_header_is_honoured_up_to_a_limit(server, embedder, waits, told, wait):
    def limited(handler):
        handler.date_time_string = lambda timestamp=None: "Fri, 13 Nov 2026 10:00:00 GMT"
        handler.send("{}", {"Retry-After": told}, 429)

    server.plan = [limited]
    embedder.embed(["a"])
    assert waits == [wait]


def test_retries_exhausted_is_provider_error(server, embedder, waits):
    server.plan = [status(500, "the disk is full")] * 4
    message = refused(embedder)
    assert "answered 500 (tried 4 times): the disk is full" in message
    assert len(waits) == 3
    assert len(server.requests) == 4


@pytest.mark.parametrize(
    ("code", "advice"), [(400, "model's name"), (401, "API key"), (403, "API key"), (404, "/v1"), (422, "answered 422")]
)
def test_client_errors_are_not_retried(server, embedder, waits, code, advice):
    server.plan = [status(code, f"not with {KEY}")]
    assert advice in refused(embedder)
    assert (waits, len(server.requests)) == ([], 1)


@pytest.mark.parametrize("answering", [hangs, trickles, trickles_headers])
def test_hanging_server_times_out(server, waits, answering):
    embedder = OpenAiEmbedder(server.url, "small", KEY, timeout=0.3, retries=1, sleep=waits.append)
    server.plan = [answering, answering]
    assert "did not answer within 0.3 seconds (tried 2 times)" in refused(embedder)
    assert len(waits) == 1


def test_answer_ends_at_content_length_on_open_connection(server, embedder):
    server.plan = [stays_open]
    assert len(embedder.embed(["a"])) == 1
    assert len(server.requests) == 1


def test_unreachable_server_is_provider_error(waits, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "*")
    with embedding_server() as gone:
        url = gone.url
    assert "cannot be reached" in refused(OpenAiEmbedder(url, "small", KEY, retries=2, sleep=waits.append))
    assert len(waits) == 2
