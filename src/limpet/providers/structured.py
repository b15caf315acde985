"""Request a JSON object from a model, and parse it out of the answer.

Only errors with one possible meaning are repaired: text and fences around the object, trailing commas, single quotes,
bare keys, Python literals, comments, raw line ends. Of a truncated answer, only complete values are kept: half a
sentence is not what the model meant. Anything else is an error that can be shown to the model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from math import isfinite
from typing import Any, Final, NamedTuple, NoReturn

from limpet.model.dataclass import replace
from limpet.model.message import Message
from limpet.model.values import refuse_constant, replace_unstorable, short_repr
from limpet.providers.llm import Completion, Finish, LlmRequest, UnusableAnswer
from limpet.providers.schema import Schema, describe_schema, drop_unknown_members, find_echo, find_fault

MAX_DEPTH = 64
_SHOWN = 4_000  # characters of a wrong answer that are sent back
_BRACES_TRIED = 20  # why: a long text of braces must not be parsed from each of them
_SPACE = re.compile(r"(?:[\s\ufeff]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_TOKEN = re.compile(r"[-+.\w$]+")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?", re.ASCII)
_WORDS = {"true": True, "True": True, "false": False, "False": False, "null": None, "None": None}
_STRINGS = {
    '"': re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)"', re.DOTALL),
    # An apostrophe ends a string only where a string can end.
    "'": re.compile(r"'((?:[^'\\]|\\.|'(?!\s*(?:[,:\]}]|\Z)))*)'(?=\s*(?:[,:\]}]|\Z))", re.DOTALL),
}
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", '"': '"', "'": "'", "\\": "\\", "/": "/"}
_ARRAY = re.compile(r"\s*(?:```\w*\s*)?(?=\[)")
_CUT: Final = object()


class Unreadable(ValueError):
    """Why a text contains no object of the requested form, in words that can be shown to the model."""


class ParseResult(NamedTuple):
    data: dict[str, Any]
    cut: bool  # the text ended before the object did


def read_object(text: str, schema: Schema) -> ParseResult:
    """Return the one object of that form in the text; others are ignored. Raises Unreadable."""
    fitting: list[ParseResult] = []
    reasons: list[str] = []
    for value, cut in _parse_objects(text):
        reading = ParseResult(drop_unknown_members(value, schema), cut)
        if reason := find_fault(reading.data, schema) or find_echo(reading.data, schema):
            reasons.append(f"{reason}; the answer was cut off" if cut else reason)
        elif reading not in fitting:
            fitting.append(reading)
    if not fitting:
        raise Unreadable(reasons[0])
    return _require_single(fitting)


def parse_object(text: str) -> ParseResult:
    """Return the one JSON object in the text, of any form. Raises Unreadable."""
    return _require_single(_parse_objects(text))


def _require_single(results: list[ParseResult]) -> ParseResult:
    if len(results) > 1:
        raise Unreadable("the answer holds more than one JSON object")
    return results[0]


def _parse_objects(text: str) -> list[ParseResult]:
    """Return the distinct objects, at least one. Raises Unreadable."""
    answer = _strip_thinking(text)
    for exact in (text, answer):
        value = _parse_strict(exact)
        if value is not None:
            return [ParseResult(_require_object(_clean_value(value)), cut=False)]
    if answer.lstrip().startswith("<think>"):
        raise Unreadable("the answer ends before the thinking does")
    if not answer.strip():
        raise Unreadable("the answer is empty")
    _refuse_an_array(answer)
    return _find_objects(answer)


def _strip_thinking(text: str) -> str:
    """Remove reasoning text. Some servers drop its opening tag, and the tag may also occur inside a string."""
    before, mark, after = text.partition("</think>")
    if mark and "{" in before and not text.lstrip().startswith("<think>"):
        reader = _LenientParser(text, before.index("{"))
        with suppress(Unreadable):
            reader.value()
            if reader.at > len(before):
                return text
    return after if mark else text


def clean_text(text: str) -> str:
    """Without what databases reject: NUL goes, lone surrogates are replaced."""
    return replace_unstorable(text.replace("\x00", ""))


def _clean_value(value: Any, depth: int = 0) -> Any:
    if depth > MAX_DEPTH:
        raise Unreadable(f"the answer is nested more than {MAX_DEPTH} levels deep")
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list):
        return [_clean_value(item, depth + 1) for item in value]
    if isinstance(value, dict):
        return {clean_text(name): _clean_value(item, depth + 1) for name, item in value.items()}
    return value


def _parse_strict(text: str) -> Any:
    """Parse JSON; None if it is not valid. Raw line ends in strings are accepted."""
    try:
        return json.loads(text, strict=False, parse_constant=refuse_constant, parse_float=_parse_finite)
    except (ValueError, RecursionError):
        return None


def _parse_finite(digits: str) -> float:
    number = float(digits)
    if not isfinite(number):
        raise ValueError(f"{short_repr(digits)} is too large")
    return number


def _require_object(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        kind = "a list" if isinstance(value, list) else short_repr(value)
        raise Unreadable(f"the answer must be one JSON object, not {kind}")
    return value


def _refuse_an_array(text: str) -> None:
    """Refuse an array of objects: any object in it would be one of many. A mark such as [1] is not refused."""
    if match := _ARRAY.match(text):
        try:
            value = _LenientParser(text, match.end()).value()
        except Unreadable:
            return
        if isinstance(value, list) and any(isinstance(item, dict) for item in value):
            _require_object(value)


def _find_objects(text: str) -> list[ParseResult]:
    results: list[ParseResult] = []
    reason = Unreadable("there is no JSON object in the answer")
    end = 0
    for brace in islice(re.finditer(r"\{", text), _BRACES_TRIED):
        if brace.start() < end:
            continue
        reader = _LenientParser(text, brace.start())
        try:
            reading = ParseResult(_clean_value(reader.value()), reader.cut)
        except Unreadable as error:
            if reader.is_json and not results:
                raise  # an object inside a broken object is not the answer
            reason = error
            continue
        end = reader.at
        if reading not in results:
            results.append(reading)
    if not results:
        raise reason
    return [reading for reading in results if reading.data] or results[
        :1
    ]  # prefer non-empty objects: {} is often part of the prose


class _LenientParser:
    """Parses JSON with the errors models make. ``cut``: the text ended early; ``is_json``: it had more than a brace."""

    def __init__(self, text: str, at: int) -> None:
        self.at = at
        self.cut = False
        self.is_json = False
        self._text = text

    def value(self) -> Any:
        """Return the value, or its complete part if it is truncated. Raises Unreadable."""
        value = self._value(0)
        if value is _CUT:
            raise Unreadable("the answer was cut off before anything in it was complete")
        return value

    def _value(self, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise Unreadable(f"the answer is nested more than {MAX_DEPTH} levels deep")
        match self._next():
            case "":
                return self._mark_cut()
            case "{":
                return self._object(depth)
            case "[":
                return self._array(depth)
            case '"' | "'":
                return self._string()
            case _:
                return self._word_or_number()

    def _object(self, depth: int) -> Any:
        members: dict[str, Any] = {}
        self.at += 1
        while (character := self._next()) != "}":
            name: Any = self._name() if character else self._mark_cut()
            if name is _CUT or not self._consume(":"):
                break
            self.is_json |= character == '"'
            value = self._value(depth + 1)
            if value is not _CUT:
                members[name] = value
            if self.cut or not self._consume(",", unless="}"):
                break
            self.is_json = True
        return self._close(members)

    def _array(self, depth: int) -> Any:
        items: list[Any] = []
        self.at += 1
        while (character := self._next()) != "]":
            item = self._value(depth + 1) if character else self._mark_cut()
            if self.cut:  # an incomplete item is left out
                break
            items.append(item)
            if not self._consume(",", unless="]"):
                break
        return self._close(items)

    def _close(self, container: Any) -> Any:
        """Close a container. A truncated empty list is dropped: it was not meant to be empty."""
        if self.cut:
            return container or _CUT
        self.at += 1
        return container

    def _consume(self, mark: str, *, unless: str = "") -> bool:
        """Return whether to continue after the mark; False at a closing mark and at the end of the text."""
        character = self._next()
        if not character:
            self._mark_cut()
            return False
        if character == mark:
            self.at += 1
            return True
        if character != unless:
            self._fail(f"{mark!r}" + (f" or {unless!r}" if unless else ""))
        return True

    def _name(self) -> Any:
        if self._text[self.at] in _STRINGS:
            return self._string()
        match = _TOKEN.match(self._text, self.at)
        if match is None or not re.match(r"[^\W\d]|\$", match[0]):
            self._fail("a name in quotes")
        self.at = match.end()
        return match[0]

    def _string(self) -> Any:
        match = _STRINGS[self._text[self.at]].match(self._text, self.at)
        if match is None:
            return self._mark_cut()
        self.at = match.end()
        return _ESCAPE.sub(_unescape, match[1])

    def _word_or_number(self) -> Any:
        match = _TOKEN.match(self._text, self.at)
        if match is None:
            self._fail("a value")
        token, self.at = match[0], match.end()
        if token in _WORDS:
            return _WORDS[token]
        if self.at == len(self._text):
            return self._mark_cut()  # 12 may have been the start of 123
        if not _NUMBER.fullmatch(token):
            self.at = match.start()
            self._fail("a value")
        try:
            return int(token) if token.lstrip("-").isdigit() else _parse_finite(token)
        except ValueError:  # more digits than Python converts
            raise Unreadable(f"{short_repr(token)} is too large a number") from None

    def _next(self) -> str:
        """Return the next character after white space; empty at the end."""
        match = _SPACE.match(self._text, self.at)
        self.at = match.end() if match else self.at
        return self._text[self.at : self.at + 1]

    def _mark_cut(self) -> object:
        self.at = len(self._text)
        self.cut = True
        return _CUT

    def _fail(self, expected: str) -> NoReturn:
        before, here = self._text[max(0, self.at - 30) : self.at], self._text[self.at : self.at + 20]
        raise Unreadable(f"the JSON has a fault at {here!r}, after {before!r}: {expected} was expected there")


def _unescape(escape: re.Match[str]) -> str:
    """Decode an escape. One that JSON does not define was a plain backslash, as in a path or a formula."""
    return chr(int(escape[1], 16)) if escape[1] else _ESCAPED.get(escape[2], escape[0])


# Request an object, and retry once if the answer is not one


def request_object(request: LlmRequest, ask: Callable[[LlmRequest], Completion], name: str) -> Completion:
    """Return the result of ``ask``. With a schema, also set ``data``, or raise ProviderError."""
    first = ask(request)
    if request.schema is None:
        return first
    try:
        return _attach_data(first, request.schema, name)
    except Unreadable as error:
        if not request.strict:
            return replace(first, data=None)
        second = ask(_build_retry(request, first, error))
    both = replace(second, usage=first.usage + second.usage)
    try:
        return _attach_data(both, request.schema, name, calls=2)
    except Unreadable as error:
        advice = "raise max_tokens" if second.finish is Finish.LENGTH else "use a stronger model or a simpler schema"
        reason = f"{name} did not return a valid JSON object in two attempts: {error}; {advice}"
        raise UnusableAnswer(reason, both.usage, calls=2) from None


def _attach_data(completion: Completion, schema: Schema, name: str, calls: int = 1) -> Completion:
    """Use the object the server parsed, or parse the text. Raises Unreadable."""
    if completion.finish is Finish.REFUSED:
        refusal = f"{name} refused to answer: {completion.text[:200]}".rstrip(": ")
        raise UnusableAnswer(refusal, completion.usage, calls)
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
