"""What every language model behind HTTP promises, asked of each."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator

import pytest

from limpet.errors import ConfigError, InvalidInput, ProviderError
from limpet.providers.llm import Completion, Finish, LlmRequest, TokenUsage, ToolSpec, build_prompt
from tests.unit.providers.embedding_server import (
    HOLDS_OUT,
    KEY,
    EmbeddingServer,
    hangs,
    hangs_up,
    says,
    status,
    trickles,
    trickles_headers,
)
from tests.unit.providers.llm_server import (
    ANTHROPIC,
    CITY,
    OPENAI,
    QUESTION,
    answers,
    llm_server,
    refused,
    streams,
)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddingServer]:
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setenv("no_proxy", "*")
    with llm_server() as running:
        yield running


@pytest.fixture(params=[OPENAI, ANTHROPIC], ids=lambda api: api.kind)
def api(request):
    return request.param


@pytest.fixture(params=[False, True], ids=["whole", "streamed"])
def streamed(request):
    return request.param


@pytest.fixture
def llm(api, server, waits):
    return api.make(server.url, sleep=waits.append, chance=lambda: 0.5)


def asked(llm, request=QUESTION, *, streamed=False):
    """The completion, however it came; a stream's pieces are its text."""
    if not streamed:
        return llm.complete(request)
    *pieces, whole = llm.stream(request)
    assert "".join(pieces) == whole.text
    return whole


def test_completion_has_text_and_usage(llm, server, api, streamed):
    answer = asked(llm, streamed=streamed)
    assert answer == Completion("I am a test.", (), Finish.STOP, TokenUsage(12, 5, 4))
    assert server.requests[0]["path"] == api.path
    assert server.requests[0]["model"] == "small"
    assert server.requests[0].get("stream", False) == streamed
    assert (llm.name, llm.model) == (f"{api.kind}:small", "small")


def test_usage_cost_is_computed_from_configured_price(server, api, streamed):
    llm = api.make(server.url, prices={"small": (1.0, 10.0, 0.1), "big": (9, 9, 9)})
    assert asked(llm, streamed=streamed).usage.cost == pytest.approx((8 * 1.0 + 5 * 10.0 + 4 * 0.1) / 1e6)
    assert asked(api.make(server.url, prices={"big": (9, 9, 9)}), streamed=streamed).usage.cost is None


@pytest.mark.parametrize("price", [(1, 2), (1, 2, -3), (1, 2, "3"), 5, (1, 2, float("nan"))])
def test_llm_price_must_be_three_numbers(api, price):
    with pytest.raises(ConfigError, match="in, out, cached"):
        api.make("http://localhost", prices={"small": price})


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64])
@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("end", ["\n\n", "\r\n\r\n"])
def test_stream_is_decoded_across_any_chunk_boundary(llm, server, api, size, chunked, end):
    server.plan = [streams(api.events("Grüße, ", "世界 ", "🍕"), size=size, chunked=chunked, end=end)]
    assert list(llm.stream(QUESTION))[:-1] == ["Grüße, ", "世界 ", "🍕"]


def test_stream_yields_text_before_the_end(llm, server, api):
    server.plan = [streams(api.events("first", finish=None), then=hangs)]
    pieces = llm.stream(QUESTION)
    assert next(pieces) == "first"
    pieces.close()


def test_stream_ends_at_stop_event_on_open_connection(llm, server, api):
    server.plan = [streams(api.events("all"), then=hangs)]
    started = time.monotonic()
    assert asked(llm, streamed=True).text == "all"
    assert time.monotonic() - started < HOLDS_OUT / 2


def test_stream_that_breaks_off_raises_and_is_not_retried(llm, server, api, waits):
    for chunked in (False, True):
        server.plan = [streams(api.events("half ", "an ", finish=None), chunked=chunked, then=hangs_up)]
        pieces = llm.stream(QUESTION)
        assert [next(pieces), next(pieces)] == ["half ", "an "]
        with pytest.raises(ProviderError, match="stopped in the middle"):
            next(pieces)
    assert waits == []  # what was shown cannot be taken back, so it is not asked again
    assert len(server.requests) == 2


def test_stream_error_event_is_provider_error(llm, server, api):
    error = json.dumps({"type": "error", "error": {"type": "overloaded_error", "message": f"overloaded {KEY}"}})
    server.plan = [streams([*api.events("half", finish=None), error])]
    assert "gave up: overloaded" in refused(llm, streamed=True)


def test_stream_accepts_answer_of_non_streaming_server(llm, server, api):
    server.plan = [answers(api.says("All at once."))]
    assert asked(llm, streamed=True).text == "All at once."


def test_rate_limits_and_server_errors_are_retried_with_backoff(llm, server, waits, streamed):
    server.plan = [status(429), status(500), status(529)]
    assert asked(llm, streamed=streamed).text == "I am a test."
    assert waits == [0.5, 1.0, 2.0]


def test_retry_after_header_is_honoured(llm, server, waits, streamed):
    server.plan = [status(429, **{"Retry-After": "3"})]
    asked(llm, streamed=streamed)
    assert waits == [3]


def test_retry_after_longer_than_timeout_is_not_awaited(llm, server, waits, streamed):
    server.plan = [status(429, "slow down", **{"Retry-After": "3600"})]
    message = refused(llm, streamed=streamed)
    assert "answered 429 and asks to wait 3600 seconds: slow down: the rate limit was reached" in message
    assert (waits, len(server.requests)) == ([], 1)


def test_timeout_covers_all_attempts(server, api, monkeypatch):
    monotonic = time.monotonic
    waits: list[float] = []
    monkeypatch.setattr(time, "monotonic", lambda: monotonic() + sum(waits))
    llm = api.make(server.url, chance=lambda: 1.0, retries=50, sleep=waits.append)
    server.plan = [status(500)] * 50
    assert "answered 500 (tried" in refused(llm, LlmRequest(build_prompt("?"), timeout=60))
    assert 10 < sum(waits) < 60  # fifty attempts with their waits take hours


@pytest.mark.slow
@pytest.mark.parametrize("answering", [hangs, trickles, trickles_headers])
def test_hanging_server_times_out(llm, server, waits, streamed, answering):
    server.plan = [answering]
    started = time.monotonic()
    message = refused(llm, LlmRequest(build_prompt("?"), timeout=0.3), streamed=streamed)
    assert "did not answer within 0.3 seconds: try again later" in message
    assert waits == []
    server.wait_for_request()
    assert len(server.requests) == 1
    assert time.monotonic() - started < HOLDS_OUT / 2


def test_stalled_stream_times_out(llm, server, api):
    server.plan = [streams(api.events("half", finish=None), then=hangs)]
    assert "did not answer within 0.3 seconds" in refused(
        llm, LlmRequest(build_prompt("?"), timeout=0.3), streamed=True
    )


def test_broken_connection_is_retried(llm, server, waits, streamed):
    server.plan = [hangs_up, says("{", promised=100)]
    assert asked(llm, streamed=streamed).text == "I am a test."
    assert len(waits) == 2


def test_unreachable_server_is_provider_error(api, waits, streamed):
    with llm_server() as gone:
        url = gone.url
    assert "cannot be reached" in refused(api.make(url, sleep=waits.append), streamed=streamed)
    assert len(waits) == 3


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_redirect_is_not_followed_with_api_key(llm, server, streamed, code):
    with llm_server() as elsewhere:
        server.plan = [status(code, Location=f"{elsewhere.url}/x?key={KEY}")]
        assert "redirects to http://127.0.0.1, which is not followed" in refused(llm, streamed=streamed)
        assert elsewhere.requests == []
    assert len(server.requests) == 1


def test_redirect_to_malformed_address_is_reported_as_redirect(llm, server, streamed):
    server.plan = [status(302, Location="http://[nowhere/x")]
    assert "redirects, which is not followed" in refused(llm, streamed=streamed)


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (400, "fit its window"),
        (401, "API key"),
        (402, "credit"),
        (403, "API key"),
        (404, "/v1"),
        (413, "too long"),
        (418, "answered 418"),
    ],
)
def test_client_errors_are_not_retried(llm, server, waits, streamed, code, advice):
    server.plan = [status(code, f"not with {KEY}")]
    assert advice in refused(llm, streamed=streamed)
    assert (waits, len(server.requests)) == ([], 1)


def test_api_key_is_sent_in_header_and_never_shown(llm, server, api, caplog):
    sent = []

    def repeats(handler):
        sent.append(handler.headers[api.key_header])
        status(500, f"who sent {KEY}?")(handler)

    server.plan = [repeats, status(401, KEY[:10])]
    with caplog.at_level(logging.DEBUG):
        message = refused(llm)
    assert sent[0].removeprefix("Bearer ") == KEY
    assert KEY[:10] not in message
    assert KEY not in repr(llm) + caplog.text


def test_api_key_echoed_outside_http_is_masked(llm, server):
    server.plan = [lambda handler: handler.wfile.write(f"{KEY} is not HTTP\r\n\r\n".encode())] * 4
    assert "stopped in the middle" in refused(llm)


@pytest.mark.parametrize(
    "body",
    [
        "<html>It works!</html>",
        b"\xff\xfe{",
        "[" * 100_000,
        "[]",
        "null",
        '"text"',
        "{}",
        '{"choices": []}',
        '{"choices": [1]}',
        '{"choices": [{"message": 1}]}',
        '{"choices": [{"message": {"content": 5}, "finish_reason": "stop"}]}',
        '{"choices": [{"message": {"content": "x", "tool_calls": [1]}, "finish_reason": "stop"}]}',
        '{"choices": [{"message": {"tool_calls": [{"function": {"name": "", "arguments": "{}"}}]}}]}',
        '{"choices": [{"message": {"tool_calls": [{"function": {"name": "f", "arguments": "no"}}]}}]}',
        '{"type": "message"}',
        '{"type": "message", "content": "text"}',
        '{"type": "message", "content": [{"type": "text", "text": 5}]}',
        '{"type": "message", "content": [{"type": "tool_use", "name": "", "input": {}}]}',
        '{"type": "content_block_delta", "index": 3, "delta": {"type": "text_delta", "text": "x"}}',
        '{"type": "message", "content": [], "stop_reason": 7}',
    ],
)
def test_malformed_answer_is_rejected_with_advice(llm, server, streamed, body):
    server.plan = [says(body)]
    message = refused(llm, streamed=streamed)
    assert "127.0.0.1" in message
    assert len(server.requests) == 1
    assert "not valid JSON" in message or "Check that the address" in message or "stopped in the middle" in message


@pytest.mark.parametrize("event", ["no JSON", "[1]", '{"error": "out of memory"}', '{"choices": [{"delta": 5}]}'])
def test_malformed_stream_event_is_provider_error(llm, server, api, event):
    server.plan = [streams([*api.events("half", finish=None), event])]
    refused(llm, streamed=True)


def test_error_body_with_status_200_is_provider_error(llm, server, streamed):
    server.plan = [answers({"error": {"message": "out of memory"}})]
    assert "gave up: out of memory" in refused(llm, streamed=streamed)


def test_oversized_answer_is_not_read_to_the_end(llm, server, api, streamed, waits):
    huge = api.says("x" * (17 << 20))
    server.plan = [streams([json.dumps(huge)]) if streamed else answers(huge)]
    assert "answered with more than 16 MB" in refused(llm, streamed=streamed)
    assert waits == []


def test_empty_answer_is_provider_error_with_advice(llm, server, api, streamed):
    server.plan = [streams(api.events()) if streamed else answers(api.says(" "))]
    assert "gave an empty answer: rephrase the request" in refused(llm, streamed=streamed)
    server.plan = [answers(api.says("", {"openai": "length", "anthropic": "max_tokens"}[api.kind]))]
    assert "gave an empty answer: raise max_tokens" in refused(llm)


@pytest.mark.parametrize(
    ("openai", "anthropic", "finish"),
    [
        ("stop", "stop_sequence", Finish.STOP),
        ("length", "max_tokens", Finish.LENGTH),
        ("content_filter", "refusal", Finish.REFUSED),
        ("never heard of", "pause_turn", Finish.OTHER),
    ],
)
def test_finish_reason_is_mapped(llm, server, api, openai, anthropic, finish):
    server.plan = [answers(api.says("x", {"openai": openai, "anthropic": anthropic}[api.kind]))]
    assert llm.complete(QUESTION).finish is finish


def test_usage_is_estimated_when_server_reports_none(llm, server, api):
    for usage in (None, {}, {"prompt_tokens": "many", "input_tokens": -1}, 5):
        server.plan = [answers({**api.says("One two three."), "usage": usage})]
        found = llm.complete(QUESTION).usage
        assert found.estimated
        assert found.input_tokens > 0
        assert found.output_tokens > 0


def test_answer_text_is_cleaned_of_invalid_characters(llm, server, api, streamed):
    text = "a\x00b \ud800 c"
    server.plan = [streams(api.events(text)) if streamed else answers(api.says(text))]
    assert asked(llm, streamed=streamed).text == "ab \ufffd c"


def test_tools_are_offered_and_called(llm, server, api):
    tool = ToolSpec(
        "weather", "The weather of a place.", {"type": "object", "properties": {"place": {"type": "string"}}}
    )
    server.plan = [answers(api.calls("weather", {"place": "Lisbon"}))]
    answer = llm.complete(LlmRequest(build_prompt("Weather?"), tools=(tool,), timeout=5))
    assert answer.finish is Finish.TOOLS
    assert [(call.id, call.name, call.arguments) for call in answer.tool_calls] == [
        ("call_9", "weather", {"place": "Lisbon"})
    ]
    assert "weather" in json.dumps(server.requests[0]["tools"])


def test_schema_request_returns_data(llm, server, api):
    server.plan = [
        answers(api.calls("answer", {"city": "Lisbon"}) if api is ANTHROPIC else api.says('{"city": "Lisbon"}'))
    ]
    answer = llm.complete(CITY)
    assert answer.data == {"city": "Lisbon"}
    assert json.loads(answer.text) == {"city": "Lisbon"}
    assert (answer.finish, answer.tool_calls) == (Finish.STOP, ())


def test_schema_answer_is_found_in_surrounding_text(llm, server, api):
    server.plan = [answers(api.says("Sure!\n```json\n{'city': 'Lisbon',}\n```"))]
    assert llm.complete(CITY).data == {"city": "Lisbon"}
    assert len(server.requests) == 1


def test_schema_answer_that_is_invalid_is_retried_once_with_error(llm, server, api):
    server.plan = [answers(api.says('{"town": "Lisbon"}')), answers(api.says('{"city": "Lisbon"}'))]
    answer = llm.complete(CITY)
    assert answer.data == {"city": "Lisbon"}
    assert answer.usage == TokenUsage(24, 10, 8)
    said = json.dumps(server.requests[1]["messages"])
    assert "town" in said
    assert "must have 'city', which is missing" in said
    assert "so it has this form" in said


def test_schema_request_fails_after_two_invalid_answers(llm, server, api):
    server.plan = [answers(api.says("I would rather not.")), answers(api.says("Really, no."))]
    message = refused(llm, CITY)
    assert "did not return a valid JSON object in two attempts: there is no JSON object in the answer" in message
    assert "use a stronger model" in message
    assert len(server.requests) == 2


def test_schema_answer_cut_off_suggests_raising_max_tokens(llm, server, api):
    cut = answers(api.says('{"city": "Lis', {"openai": "length", "anthropic": "max_tokens"}[api.kind]))
    server.plan = [cut, cut]
    assert "cut off before anything in it was complete; raise max_tokens" in refused(llm, CITY)


def test_schema_request_retries_empty_answer(llm, server, api):
    server.plan = [answers(api.says("")), answers(api.says('{"city": "Lisbon"}'))]
    assert llm.complete(CITY).data == {"city": "Lisbon"}


def test_schema_request_does_not_retry_refusal(llm, server, api):
    server.plan = [answers(api.says("Not that.", {"openai": "content_filter", "anthropic": "refusal"}[api.kind]))]
    assert "refused to answer: Not that." in refused(llm, CITY)
    assert len(server.requests) == 1


def test_schema_retry_uses_only_remaining_time(llm, server, api):
    server.plan = [answers(api.says("no")), hangs]
    started = time.monotonic()
    request = LlmRequest(build_prompt("?"), schema=CITY.schema, timeout=0.5)
    assert "did not answer within 0.5 seconds" in refused(llm, request)
    assert time.monotonic() - started < HOLDS_OUT / 2


def test_schema_request_cannot_be_streamed(llm):
    with pytest.raises(InvalidInput, match="use complete"):
        llm.stream(CITY)


@pytest.mark.parametrize("url", ["", "localhost:8080", "file:///etc/passwd", "http://", "https://user:secret@host/v1"])
def test_llm_rejects_invalid_base_url(api, url):
    with pytest.raises(ConfigError) as caught:
        api.make(url)
    assert "secret" not in str(caught.value)


def test_llm_accepts_base_url_variants(server, api):
    for end in ("", "/", api.path.removeprefix("/v1"), api.path.removeprefix("/v1") + "/"):
        api.make(server.url + end).complete(QUESTION)
        assert server.requests.pop()["path"] == api.path


def test_llm_is_thread_safe(llm):
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(4) as pool:
        assert {answer.text for answer in pool.map(llm.complete, [QUESTION] * 12)} == {"I am a test."}
