"""Request a JSON object, and retry once if the answer is not one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from limpet.errors import ProviderError
from limpet.model.message import Message
from limpet.providers.llm import Completion, Finish, LlmRequest
from limpet.providers.schema import Schema, describe_schema, drop_unknown_members, find_fault
from limpet.providers.structured import Unreadable, read_object

_SHOWN = 4_000  # characters of a wrong answer that are sent back


def request_object(request: LlmRequest, ask: Callable[[LlmRequest], Completion], name: str) -> Completion:
    """Return the result of ``ask``. With a schema, also set ``data``, or raise ProviderError."""
    first = ask(request)
    if request.schema is None:
        return first
    try:
        return _attach_data(first, request.schema, name)
    except Unreadable as error:
        second = ask(_build_retry(request, first, error))
    both = replace(second, usage=first.usage + second.usage)
    try:
        return _attach_data(both, request.schema, name)
    except Unreadable as error:
        advice = "raise max_tokens" if second.finish is Finish.LENGTH else "use a stronger model or a simpler schema"
        raise ProviderError(f"{name} did not return a valid JSON object in two attempts: {error}; {advice}") from None


def _attach_data(completion: Completion, schema: Schema, name: str) -> Completion:
    """Use the object the server parsed, or parse the text. Raises Unreadable."""
    if completion.finish is Finish.REFUSED:
        raise ProviderError(f"{name} refused to answer: {completion.text[:200]}".rstrip(": "))
    if completion.data is not None:
        data = drop_unknown_members(completion.data, schema)
        if reason := find_fault(data, schema):
            raise Unreadable(reason)
        return replace(completion, data=data)
    reading = read_object(completion.text, schema)
    return replace(completion, data=reading.data, finish=Finish.LENGTH if reading.cut else completion.finish)


def _build_retry(request: LlmRequest, answer: Completion, error: Unreadable) -> LlmRequest:
    """Build the second request, with the schema in text: a server may have ignored the field for it."""
    assert request.schema is not None
    previous = [Message.new("assistant", answer.text[:_SHOWN])] if answer.text.strip() else []
    correction = Message.new(
        "user", f"That is not the answer that was asked for: {error}. {describe_schema(request.schema)}"
    )
    return replace(request, messages=(*request.messages, *previous, correction))
