from __future__ import annotations

import logging

import pytest

from limpet.errors import ConfigError
from limpet.providers.openai_embeddings import OpenAiEmbedder
from tests.unit.providers.embedding_server import (
    KEY,
    embedding_server,
    hangs,
    hangs_up,
    refused,
    says,
    status,
    stays_open,
    trickles,
    trickles_headers,
    vectors,
)


def test_what_is_sent(server, embedder):
    (vector,) = embedder.embed(["hello"])
    assert server.requests == [
        {"model": "small", "input": ["hello"], "encoding_format": "float", "path": "/v1/embeddings"}
    ]
    assert server.keys == [f"Bearer {KEY}"]
    assert vector == pytest.approx([value / 3 for value in vectors(["hello"])[0]])


def test_a_server_without_a_key(server):
    OpenAiEmbedder(server.url, "small").embed(["hello"])
    assert server.keys == [None]


def test_at_most_128_texts_a_request(server, embedder):
    assert len(embedder.embed([f"text {number}" for number in range(300)])) == 300
    assert [len(request["input"]) for request in server.requests] == [128, 128, 44]


def test_a_dimension_is_asked_for_and_part_of_the_name(server):
    embedder = OpenAiEmbedder(server.url, "small", dimension=16)
    assert (embedder.name, embedder.dimension, len(embedder.embed(["a"])[0])) == ("openai:small/16", 16, 16)
    assert server.requests[0]["dimensions"] == 16


def test_texts_a_server_would_refuse_are_made_sendable(server, embedder):
    embedder.embed(["", " \n", "half \ud800", "x" * 100_000])
    assert server.requests[0]["input"] == [".", ".", "half ?", "x" * 8000]


@pytest.mark.parametrize("address", ["", "/", "/embeddings", "/embeddings/"])
def test_addresses_are_forgiven(server, address):
    OpenAiEmbedder(server.url + address, "small").embed(["a"])
    assert server.requests[0]["path"] == "/v1/embeddings"


def test_a_query_in_the_address_is_kept_and_never_shown(server):
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
def test_a_wrong_address_is_refused_at_once(url):
    with pytest.raises(ConfigError) as caught:
        OpenAiEmbedder(url, "small")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("key", [f"{KEY}\n", f"{KEY}\r\nX: y", f"a {KEY}", f"{KEY}é"])
def test_a_key_no_header_can_carry_is_refused_without_showing_it(key):
    with pytest.raises(ConfigError) as caught:
        OpenAiEmbedder("http://localhost", "small", key)
    assert KEY not in str(caught.value)


def test_the_key_is_in_no_repr_and_no_log(embedder, server, caplog):
    server.plan = [status(429), status(401)]
    with caplog.at_level(logging.DEBUG):
        refused(embedder)
    assert KEY not in repr(embedder) + caplog.text


def test_limits_and_faults_are_tried_again_after_longer_waits(server, embedder, waits):
    server.plan = [status(429), status(500), status(503)]
    assert len(embedder.embed(["a"])) == 1
    assert waits == [0.5, 1.0, 2.0]


def test_chance_spreads_the_waits(server, waits):
    numbers = iter([0.0, 0.999])
    embedder = OpenAiEmbedder(server.url, "small", sleep=waits.append, chance=lambda: next(numbers))
    server.plan = [status(500), status(500)]
    embedder.embed(["a"])
    assert waits == [pytest.approx(0.25), pytest.approx(1.5, abs=0.01)]


def test_without_chance_the_waits_differ_by_what_is_sent(server, waits):
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
def test_retry_after_is_honoured_within_reason(server, embedder, waits, told, wait):
    def limited(handler):
        handler.date_time_string = lambda timestamp=None: "Fri, 13 Nov 2026 10:00:00 GMT"
        handler.send("{}", {"Retry-After": told}, 429)

    server.plan = [limited]
    embedder.embed(["a"])
    assert waits == [wait]


def test_it_gives_up_and_says_so(server, embedder, waits):
    server.plan = [status(500, "the disk is full")] * 4
    message = refused(embedder)
    assert "answered 500 (tried 4 times): the disk is full" in message
    assert len(waits) == 3
    assert len(server.requests) == 4


@pytest.mark.parametrize(
    ("code", "advice"), [(400, "model's name"), (401, "API key"), (403, "API key"), (404, "/v1"), (422, "answered 422")]
)
def test_what_will_not_pass_is_not_tried_again(server, embedder, waits, code, advice):
    server.plan = [status(code, f"not with {KEY}")]
    assert advice in refused(embedder)
    assert (waits, len(server.requests)) == ([], 1)


@pytest.mark.parametrize("answering", [hangs, trickles, trickles_headers])
def test_a_server_that_hangs_is_left(server, waits, answering):
    embedder = OpenAiEmbedder(server.url, "small", KEY, timeout=0.3, retries=1, sleep=waits.append)
    server.plan = [answering, answering]
    assert "did not answer within 0.3 seconds (tried 2 times)" in refused(embedder)
    assert len(waits) == 1


def test_a_connection_that_breaks_is_tried_again(server, embedder, waits):
    server.plan = [hangs_up, says("{", promised=100)]
    assert len(embedder.embed(["a"])) == 1
    assert len(waits) == 2


def test_an_answer_ends_where_it_says_even_on_an_open_connection(server, embedder):
    server.plan = [stays_open]
    assert len(embedder.embed(["a"])) == 1
    assert len(server.requests) == 1


def test_a_server_that_is_not_there(waits, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "*")
    with embedding_server() as gone:
        url = gone.url
    assert "cannot be reached" in refused(OpenAiEmbedder(url, "small", KEY, retries=2, sleep=waits.append))
    assert len(waits) == 2


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed_with_the_key(server, embedder, code):
    with embedding_server() as elsewhere:
        server.plan = [status(code, Location=f"{elsewhere.url}/embeddings?key={KEY}")]
        assert "redirects to http://127.0.0.1, which is not followed" in refused(embedder)
        assert elsewhere.requests == []
    assert len(server.requests) == 1
