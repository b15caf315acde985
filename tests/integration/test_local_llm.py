"""The language model providers against a real model behind HTTP, small enough to run in a test."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from limpet.errors import ProviderError
from limpet.providers.anthropic_llm import AnthropicLlm
from limpet.providers.choose import create_llm
from limpet.providers.llm import Finish, LlmRequest, build_prompt
from limpet.providers.openai import OpenAiLlm
from tests.integration.local_llm import MODEL, LocalLlm, local_llm, missing

pytestmark = [
    pytest.mark.llm_server,
    pytest.mark.slow,
    pytest.mark.skipif(missing() is not None, reason=f"no local language model: {missing()}"),
]

HELLO = LlmRequest(build_prompt("Say hello."), max_tokens=20, temperature=0)
LONG = LlmRequest(build_prompt("Tell a very long story about the sea."), max_tokens=1800, temperature=0)
CITY = LlmRequest(
    build_prompt("Give me a city in Portugal."),
    max_tokens=60,
    temperature=0,
    schema={
        "type": "object",
        "properties": {"city": {"type": "string", "minLength": 1}},
        "required": ["city"],
        "additionalProperties": False,
    },
)


@pytest.fixture(scope="module")
def server() -> Iterator[LocalLlm]:
    with local_llm() as running:
        yield running


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setenv("no_proxy", "*")


@pytest.fixture(params=["openai", "anthropic"])
def llm(request: pytest.FixtureRequest, server: LocalLlm) -> OpenAiLlm | AnthropicLlm:
    """The server speaks both."""
    return (
        OpenAiLlm(server.url + "/v1", MODEL) if request.param == "openai" else AnthropicLlm(MODEL, base_url=server.url)
    )


def test_complete_returns_text(llm):
    answer = llm.complete(HELLO)
    assert "Hello" in answer.text
    assert answer.finish is Finish.LENGTH


def test_create_llm_from_spec_computes_cost(server):
    chosen = create_llm(f"openai:{MODEL}@{server.url}/v1", prices={MODEL: (1.0, 2.0, 0.5)})
    assert chosen is not None
    usage = chosen.complete(HELLO).usage
    fresh = usage.input_tokens - usage.cached_tokens
    assert usage.cost == pytest.approx((fresh * 1 + usage.output_tokens * 2 + usage.cached_tokens * 0.5) / 1e6)


def test_usage_reports_cached_tokens(llm):
    llm.complete(HELLO)
    again = llm.complete(HELLO).usage
    assert again.output_tokens == 20
    assert 10 < again.input_tokens < 60
    assert 0 < again.cached_tokens < again.input_tokens  # the server remembers the beginning, and says so
    assert (again.cost, again.estimated) == (None, False)


def test_stream_equals_completion(llm):
    whole = llm.complete(HELLO)
    *pieces, streamed = llm.stream(HELLO)
    assert len(pieces) > 10
    assert "".join(pieces) == streamed.text == whole.text
    assert streamed.finish is whole.finish
    assert streamed.usage == llm.complete(HELLO).usage


def test_stop_words_end_completion(llm):
    request = LlmRequest(build_prompt("Say: one, two, three, four."), max_tokens=50, temperature=0, stop=("three",))
    answer = llm.complete(request)
    assert "three" not in answer.text
    assert answer.finish is Finish.STOP


def test_schema_answer_with_native_support(server):
    answer = OpenAiLlm(server.url + "/v1", MODEL).complete(CITY)
    assert answer.data.keys() == {"city"}
    assert answer.finish is Finish.STOP


def test_schema_answer_from_prompt_is_repaired(server):
    """What the model says to each depends on the machine; that some of it is an object among words does not."""
    llm = OpenAiLlm(server.url + "/v1", MODEL)
    llm._refused = frozenset({"response_format"})
    repaired = 0
    for place in ("Portugal", "France", "Japan", "Italy", "Spain", "Brazil"):
        try:
            answer = llm.complete(replace(CITY, messages=build_prompt(f"Give me a city in {place}.")))
        except ProviderError as error:
            assert_says_why(error)
            continue
        assert answer.data.keys() == {"city"}
        repaired += not is_json(answer.text)
    assert repaired


def assert_says_why(error):
    assert "did not return a valid JSON object in two attempts: " in str(error)


def is_json(text):
    try:
        return bool(json.loads(text))
    except ValueError:
        return False


def test_schema_answer_of_weak_model_is_provider_error(server):
    """This server passes over the tool it is told to force; the model then has words only, and is too weak for them."""
    with pytest.raises(ProviderError, match="did not return a valid JSON object in two attempts"):
        AnthropicLlm(MODEL, base_url=server.url).complete(replace(CITY, max_tokens=8))


def test_prompt_over_context_window_is_provider_error(llm):
    with pytest.raises(ProviderError, match=r"exceeds the available context size.*fit its window"):
        llm.complete(LlmRequest(build_prompt("word " * 5000)))


def test_wrong_base_url_is_provider_error(server):
    with pytest.raises(ProviderError, match=r"answered 404.*usually ends in /v1"):
        OpenAiLlm(server.url + "/nothing", MODEL).complete(HELLO)


def test_timeout_leaves_server_usable(llm):
    started = time.monotonic()
    with pytest.raises(ProviderError, match="did not answer within 1 seconds"):
        llm.complete(replace(LONG, timeout=1))
    assert time.monotonic() - started < 30
    assert llm.complete(HELLO).text


def test_closed_stream_stops_generation(llm):
    pieces = llm.stream(LONG)
    assert next(pieces)
    pieces.close()
    started = time.monotonic()
    llm.complete(HELLO)
    assert time.monotonic() - started < 10  # the whole story takes longer, and there is one place to sit


def test_hanging_server_times_out(llm, server):
    server.signal(signal.SIGSTOP)
    try:
        started = time.monotonic()
        with pytest.raises(ProviderError, match="did not answer within 1 seconds"):
            llm.complete(replace(HELLO, timeout=1))
        assert time.monotonic() - started < 30
    finally:
        server.signal(signal.SIGCONT)
    assert llm.complete(HELLO).text


def test_server_killed_during_stream_is_provider_error():
    with local_llm() as doomed:
        llm = OpenAiLlm(doomed.url + "/v1", MODEL, retries=1)
        pieces = llm.stream(LONG)
        shown = [next(pieces) for _ in range(3)]
        assert all(isinstance(piece, str) for piece in shown)
        doomed.kill()
        started = time.monotonic()
        with pytest.raises(ProviderError, match="stopped in the middle"):
            list(pieces)
        with pytest.raises(ProviderError, match="cannot be reached"):
            llm.complete(HELLO)
        assert time.monotonic() - started < 30
