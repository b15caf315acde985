from __future__ import annotations

from dataclasses import replace

import pytest

from limpet.errors import InvalidInput, ProviderError
from limpet.model.message import Message, ToolCall
from limpet.providers.fakes import FakeLlm
from limpet.providers.llm import Completion, Finish, LlmRequest, TokenUsage, ToolSpec, build_prompt
from limpet.providers.recorded_llm import ReplayLlm, request_key
from tests.unit.providers.llm_server import CITY, QUESTION


@pytest.fixture
def path(tmp_path):
    return tmp_path / "answers.jsonl"


def test_replay_llm_plays_recording_without_the_model(path):
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


def test_replay_llm_records_and_plays_stream(path):
    *pieces, whole = ReplayLlm(path, FakeLlm("one two")).stream(QUESTION)
    assert (pieces, whole) == (["one", " two"], ReplayLlm(path).complete(QUESTION))
    assert list(ReplayLlm(path).stream(QUESTION)) == ["one two", whole]
    with pytest.raises(InvalidInput):
        ReplayLlm(path).stream(CITY)


def test_replay_llm_does_not_record_abandoned_stream(path):
    pieces = ReplayLlm(path, FakeLlm("one two")).stream(QUESTION)
    next(pieces)
    del pieces
    assert not path.exists()


def test_replay_llm_does_not_record_failure(path):
    with pytest.raises(ProviderError):
        ReplayLlm(path, FakeLlm(failures=1)).complete(QUESTION)
    assert not path.exists()


def test_replay_llm_miss_names_request_and_advice(path):
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
def test_request_key_differs_for_different_requests(change):
    assert request_key("m", replace(QUESTION, **change)) != request_key("m", QUESTION)
    assert request_key("m", QUESTION) != request_key("other", QUESTION)


def test_request_key_ignores_fields_the_model_never_sees(clock):
    dated = Message.new("user", "Who are you?", metadata={"a": 1}, created_at=clock(), sequence=7)
    assert request_key("m", LlmRequest((dated,), timeout=99)) == request_key("m", QUESTION)


def test_replay_llm_with_recordings_of_two_models_requires_choice(path):
    for model in ("a", "b"):
        ReplayLlm(path, FakeLlm(f"I am {model}.", model=model)).complete(QUESTION)
    with pytest.raises(ProviderError, match="recordings of a, b; choose one"):
        ReplayLlm(path)
    assert ReplayLlm(path, model="b").complete(QUESTION).text == "I am b."


def test_replay_llm_rejects_missing_or_damaged_file(path):
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
