from __future__ import annotations

import pytest

from limpet.errors import InvalidInput, ProviderError
from limpet.providers.fakes import FakeLlm
from limpet.providers.llm import Completion, Finish, LlmRequest, build_prompt
from tests.unit.providers.llm_server import CITY, QUESTION


def test_fake_llm_repeats_single_answer():
    fake = FakeLlm("Yes.")
    assert [fake.complete(QUESTION).text for _ in range(3)] == ["Yes."] * 3
    assert fake.calls == [QUESTION] * 3
    assert (fake.name, fake.model) == ("fake:fake", "fake")


def test_fake_llm_returns_answers_in_turn_then_fails():
    fake = FakeLlm(["one", {"a": 1}, Completion("three", finish=Finish.LENGTH), RuntimeError("four")])
    assert [fake.complete(QUESTION).text for _ in range(2)] == ["one", '{"a": 1}']
    assert fake.complete(QUESTION).finish is Finish.LENGTH
    with pytest.raises(RuntimeError, match="four"):
        fake.complete(QUESTION)
    with pytest.raises(ProviderError, match="no answer left for call 5"):
        fake.complete(QUESTION)


def test_fake_llm_accepts_function_of_request():
    fake = FakeLlm(lambda request: request.messages[-1].text.upper())
    assert fake.complete(LlmRequest(build_prompt("echo"))).text == "ECHO"


def test_fake_llm_fails_given_times_and_records_calls():
    fake = FakeLlm("fine", failures=2)
    for _ in range(2):
        with pytest.raises(ProviderError):
            fake.complete(QUESTION)
    assert fake.complete(QUESTION).text == "fine"
    assert len(fake.calls) == 3


def test_fake_llm_fails_forever_with_custom_error():
    fake = FakeLlm(failures=-1)
    fake.error = RuntimeError("not even one of ours")
    for _ in range(3):
        with pytest.raises(RuntimeError):
            list(fake.stream(QUESTION))


@pytest.mark.parametrize("text", ["", "word", "two words", " spaces\n all  around \n"])
def test_fake_llm_stream_joins_to_completion_text(text):
    *pieces, whole = FakeLlm(text).stream(QUESTION)
    assert isinstance(whole, Completion)
    assert "".join(map(str, pieces)) == whole.text == text


def test_fake_llm_parses_schema_answer_like_real_llm():
    assert FakeLlm({"city": "Lisbon"}).complete(CITY).data == {"city": "Lisbon"}
    corrected = FakeLlm(["nonsense", "```{'city': 'Lisbon'}```"])
    assert corrected.complete(CITY).data == {"city": "Lisbon"}
    assert "no JSON object" in corrected.calls[1].messages[-1].text
    with pytest.raises(ProviderError, match="in two attempts"):
        FakeLlm("nonsense").complete(CITY)
    with pytest.raises(InvalidInput):
        FakeLlm("x").stream(CITY)
