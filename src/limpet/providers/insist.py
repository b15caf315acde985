"""Asking for an object, and once more when the answer was none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from limpet.errors import ProviderError
from limpet.model.message import Message
from limpet.providers.llm import Completion, Finish, LlmRequest
from limpet.providers.schema import Schema, describe_schema, drop_unknown_members, find_fault
from limpet.providers.structured import Unreadable, read_object

_SHOWN = 4_000  # characters of a wrong answer that are worth sending back


def request_object(request: LlmRequest, ask: Callable[[LlmRequest], Completion], who: str) -> Completion:
    """What ``ask`` gives; with a schema also its ``data``, and a ProviderError rather than none."""
    first = ask(request)
    if request.schema is None:
        return first
    try:
        return _attach_data(first, request.schema, who)
    except Unreadable as error:
        second = ask(_build_retry(request, first, error))
    both = replace(second, usage=first.usage + second.usage)
    try:
        return _attach_data(both, request.schema, who)
    except Unreadable as error:
        advice = "raise max_tokens" if second.finish is Finish.LENGTH else "ask a stronger model, or for a simpler form"
        raise ProviderError(f"{who} was asked twice for a JSON object and gave none: {error}; {advice}") from None


def _attach_data(completion: Completion, schema: Schema, who: str) -> Completion:
    """The server may have read the object itself. Raises Unreadable."""
    if completion.finish is Finish.REFUSED:
        raise ProviderError(f"{who} refused to answer: {completion.text[:200]}".rstrip(": "))
    if completion.data is not None:
        data = drop_unknown_members(completion.data, schema)
        if reason := find_fault(data, schema):
            raise Unreadable(reason)
        return replace(completion, data=data)
    reading = read_object(completion.text, schema)
    return replace(completion, data=reading.data, finish=Finish.LENGTH if reading.cut else completion.finish)


def _build_retry(request: LlmRequest, answer: Completion, error: Unreadable) -> LlmRequest:
    """With the form in words: a server may have passed over the field that asked for it."""
    assert request.schema is not None
    said = [Message.new("assistant", answer.text[:_SHOWN])] if answer.text.strip() else []
    asked = Message.new(
        "user", f"That is not the answer that was asked for: {error}. {describe_schema(request.schema)}"
    )
    return replace(request, messages=(*request.messages, *said, asked))
