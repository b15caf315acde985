from __future__ import annotations

from dataclasses import replace

import pytest

from limpet.errors import InvalidInput, ProviderError
from limpet.model.message import Message, ToolCall
from limpet.providers.fake_llm import FakeLlm
from limpet.providers.llm import Completion, Finish, LlmRequest, TokenUsage, ToolSpec, build_prompt
from limpet.providers.recorded_llm import ReplayLlm, request_key
from tests.unit.providers.llm_server import CITY, QUESTION


@pytest.fixture
def path(tmp_path):
    return tmp_path / "answers.jsonl"


def test_what_was_recorded_is_played_back_without_the_model(path):
    whole = Completion(
        "Grüße", (ToolCall("c1", "weather", {"place": "Lisbon"}),), Finish.TOOLS, TokenUsage(1, 2, 3, 0.5)
    )
    real = FakeLlm([whole, {"city": "Lisbon"}], model="real")
    recording = ReplayLlm(path, real)
    first, second = recording.complete(QUESTION), recording.complete(CITY)
    assert recording.complete(QUESTION) == first == whole
    assert len(real.calls) == 2
    played = ReplayLlm(path)
    assert (played.model, played.complete(QUESTION), played.complete(CITY)) == ("real", first, second)
    assert played.complete(CITY).data == {"city": "Lisbon"}


def test_a_stream_is_recorded_and_played_back(path):
    *pieces, whole = ReplayLlm(path, FakeLlm("one two")).stream(QUESTION)
    assert (pieces, whole) == (["one", " two"], ReplayLlm(path).complete(QUESTION))
    assert list(ReplayLlm(path).stream(QUESTION)) == ["one two", whole]
    with pytest.raises(InvalidInput):
        ReplayLlm(path).stream(CITY)


def test_a_stream_that_was_left_is_not_recorded(path):
    pieces = ReplayLlm(path, FakeLlm("one two")).stream(QUESTION)
    next(pieces)
    del pieces
    assert not path.exists()


def test_a_failure_is_not_recorded(path):
    with pytest.raises(ProviderError):
        ReplayLlm(path, FakeLlm(failures=1)).complete(QUESTION)
    assert not path.exists()


def test_a_miss_says_what_was_asked_and_what_to_do(path):
    ReplayLlm(path, FakeLlm("x")).complete(QUESTION)
    with pytest.raises(ProviderError, match=r"answers\.jsonl has no answer of 'fake'.*'Name a city\.'; record it"):
        ReplayLlm(path).complete(CITY)
    with pytest.raises(ProviderError, match="record it again"):
        list(ReplayLlm(path).stream(LlmRequest(build_prompt("Something else"))))


@pytest.mark.parametrize(
    "change",
    [
        {"max_tokens": 7},
        {"temperature": 0.5},
        {"stop": ("END",)},
        {"tools": (ToolSpec("t", "", {}),)},
        {"schema": CITY.schema},
        {"messages": build_prompt("Who are they?")},
        {"messages": build_prompt("Who are you?", system="x")},
    ],
)
def test_another_request_has_another_key(change):
    assert request_key("m", replace(QUESTION, **change)) != request_key("m", QUESTION)
    assert request_key("m", QUESTION) != request_key("other", QUESTION)


def test_what_no_model_sees_does_not_change_the_key(clock):
    dated = Message.new("user", "Who are you?", metadata={"a": 1}, created_at=clock(), sequence=7)
    assert request_key("m", LlmRequest((dated,), timeout=99)) == request_key("m", QUESTION)


def test_a_file_of_two_models_is_asked_for_one(path):
    for model in ("a", "b"):
        ReplayLlm(path, FakeLlm(f"I am {model}.", model=model)).complete(QUESTION)
    with pytest.raises(ProviderError, match="recordings of a, b; choose one"):
        ReplayLlm(path)
    assert ReplayLlm(path, model="b").complete(QUESTION).text == "I am b."


def test_a_file_that_is_not_there_or_damaged(path):
    with pytest.raises(ProviderError, match="contains no recording"):
        ReplayLlm(path)
    ReplayLlm(path, FakeLlm("x")).complete(QUESTION)
    for damage in ('{"key": "half', "[]", '{"key": 1, "request": {}, "completion": {}}', "7"):
        path.write_text(path.read_text().splitlines()[0] + "\n" + damage)
        with pytest.raises(ProviderError, match=r"line 2 of .*answers\.jsonl is not a recording"):
            ReplayLlm(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ProviderError, match="cannot be read"):
        ReplayLlm(path)
