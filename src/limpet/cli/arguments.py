"""The arguments of an operation on the command line: made from its signature, read back as Python values."""

from __future__ import annotations

import argparse
import re
import sys
from argparse import Namespace
from collections.abc import Callable, Collection, Mapping
from typing import Any

from limpet.api.described import Described
from limpet.cli import options
from limpet.cli.options import Parser, UsageError
from limpet.errors import InvalidInput
from limpet.model import constraints as limits
from limpet.model.constraints import CalledCodec, Codec, OptionalCodec
from limpet.model.containers import JsonObject, ListCodec
from limpet.model.message import ContentCodec
from limpet.model.schema import Field
from limpet.security.operation import On, Operation

# Shorter words for some arguments.
NAMES = {"metadata": "meta", "pinned": "pin", "include_revoked": "all", "asked_by": "by"}
# Optional in Python, but what the command is about.
POSITIONAL: Mapping[str, tuple[str, ...]] = {
    "context": ("query",),
    "forget": ("id",),
    "jobs.retry": ("ids",),
    "session.append": ("content",),
}
REQUIRED: Mapping[str, tuple[str, ...]] = {"context": ("query",)}
# Positional in Python, clearer under its name here.
NAMED: Mapping[str, tuple[str, ...]] = {"privacy.purge_older": ("days",), "schedules.create": ("cadence",)}
# Required in Python, with a usual value here.
DEFAULTS: Mapping[str, Mapping[str, str]] = {"session.append": {"role": "user"}}
# Texts that ``-`` reads from the input.
LONG_TEXTS = ("content", "text", "goal")
_OWNERS = ("user", "agent", "session", "scope")
# Parts of a meaning that are about Python and JSON.
_UNTYPED = re.compile(r"; null: .*|, (?:a timedelta or|in) seconds")
_METAVARS: tuple[tuple[type[Codec], str], ...] = (
    (limits.Uuid, "ID"),
    (limits.Integer, "N"),
    (limits.Number, "N"),
    (limits.Instant, "TIME"),
    (limits.Day, "DAY"),
    (limits.Duration, "SPAN"),
    (limits.FilePath, "PATH"),
    (limits.Text, "TEXT"),
)


def unwrap(codec: Codec) -> Codec:
    """The codec of the value itself, without what it is called, how it is described and whether it may be None."""
    while isinstance(codec, (OptionalCodec, CalledCodec, Described)):
        codec = codec.inner
    return codec


def can_type(field: Field) -> bool:
    """Whether a person can type a value of this kind: not a function, a cursor, or a list of objects."""
    codec = unwrap(field.codec)
    if isinstance(codec, ListCodec):
        codec = unwrap(codec.inner)
    return isinstance(codec, (limits.Scalar, ContentCodec))


def list_fields(operation: Operation, hidden: Collection[str] = ()) -> list[Field]:
    """The arguments a person can give, those without an option first."""
    found = [field for field in operation.parameters if can_type(field) and field.name not in hidden]
    return sorted(found, key=lambda field: not is_positional(operation, field))


def is_required(operation: Operation, field: Field) -> bool:
    has_default = not field.is_required or field.name in DEFAULTS.get(operation.name, {})
    return not has_default or field.name in REQUIRED.get(operation.name, ())


def is_positional(operation: Operation, field: Field) -> bool:
    named = field.name in NAMED.get(operation.name, ()) or field.name in DEFAULTS.get(operation.name, {})
    return (field.is_required and not named) or field.name in POSITIONAL.get(operation.name, ())


def add_arguments(parser: Parser, operation: Operation, hidden: Collection[str] = ()) -> None:
    """An argument or an option for each parameter. What is not given stays out of the namespace."""
    for field in list_fields(operation, hidden):
        if is_positional(operation, field):
            _add_positional(parser, operation, field)
        else:
            _add_option(parser, operation, field)


def _add_positional(parser: Parser, operation: Operation, field: Field) -> None:
    codec, required = unwrap(field.codec), is_required(operation, field)
    about: dict[str, Any] = {"help": _explain(operation, field), **_value(field)}
    if isinstance(codec, ListCodec):
        about |= {"nargs": "+" if required else "*", "type": _value_type(unwrap(codec.inner))}
        about.pop("action", None)
    elif not required:
        about["nargs"] = "?"
    name = "ID" if about["metavar"] == "ID" or field.name == "ids" else field.name.upper()
    parser.add_argument(field.name, **about | {"metavar": name, "default": argparse.SUPPRESS})


def _add_option(parser: Parser, operation: Operation, field: Field) -> None:
    about: dict[str, Any] = {"dest": field.name, "default": argparse.SUPPRESS, "help": _explain(operation, field)}
    codec = unwrap(field.codec)
    if isinstance(codec, limits.Choice) and len(codec.words) == 1:
        parser.add_argument(f"--{codec.words[0]}", action="store_const", const=codec.words[0], **about)
    elif isinstance(codec, limits.Boolean) and field.default is False:
        parser.add_argument(_flag(field), action="store_true", **about)
    elif isinstance(codec, limits.Boolean):
        parser.add_argument(_flag(field), action=argparse.BooleanOptionalAction, **about)
    else:
        required = is_required(operation, field)
        parser.add_argument(_flag(field), required=required, **about, **_value(field))


def _flag(field: Field) -> str:
    name = NAMES.get(field.name, field.name)
    if isinstance(unwrap(field.codec), ListCodec):
        name = name.removesuffix("s")  # it is repeated, and says one each time
    return f"-{name}" if len(name) == 1 else f"--{name.replace('_', '-')}"


def _value(field: Field) -> dict[str, Any]:
    """How one value of it is typed."""
    codec = unwrap(field.codec)
    if isinstance(codec, ListCodec):
        return {"action": "append", **_single_value(field.name, codec.inner)}
    if isinstance(codec, JsonObject):
        return {"action": "append", "metavar": "K=V", "type": options.parse_pair}
    return _single_value(field.name, field.codec)


def _single_value(name: str, described: Codec) -> dict[str, Any]:
    codec, choices = unwrap(described), _list_choices(name, described)
    if choices:
        is_upper = all(choice.isupper() for choice in choices)
        return {"choices": choices, "metavar": None, **({"type": str.upper} if is_upper else {})}
    metavar = next((word for kind, word in _METAVARS if isinstance(codec, kind)), "NAME")
    return {"metavar": metavar, "type": _value_type(codec)}


def _list_choices(name: str, codec: Codec) -> tuple[str, ...]:
    """The words it may be, as its schema lists them."""
    if name == "format":
        from limpet.lifecycle.formats.detect import AUTO, FORMATS

        return (AUTO, *FORMATS)
    while isinstance(codec, (OptionalCodec, CalledCodec)):
        codec = codec.inner
    return tuple(codec.schema().get("enum", ()))


def _value_type(codec: Codec) -> Callable[[str], Any]:
    """What only a typing mistake can break is checked here, limits by the operation."""
    if isinstance(codec, limits.Integer):
        return int
    if isinstance(codec, limits.Number):
        return float
    if isinstance(codec, limits.Duration):
        return options.parse_duration
    if isinstance(codec, limits.Day):
        return options.parse_day
    return options.parse_time if isinstance(codec, limits.Instant) else str


def _explain(operation: Operation, field: Field) -> str:
    codec, meaning = unwrap(field.codec), _UNTYPED.sub("", field.meaning).replace("`", "")
    if isinstance(codec, limits.Duration):
        meaning += ", such as 30d or 12h"
    if field.name in LONG_TEXTS:
        meaning += "; - reads it from the input"
    if isinstance(codec, (ListCodec, JsonObject)) and not is_positional(operation, field):
        meaning += "; may be repeated"
    usual = DEFAULTS.get(operation.name, {}).get(field.name, field.default)
    if isinstance(usual, (str, int, float)) and usual is not False and usual != "" and not field.is_required:
        meaning += f"; default: {'yes' if usual is True else usual}"
    elif field.is_required and isinstance(usual, str):
        meaning += f"; default: {usual}"
    return meaning.replace("%", "%%")


def read_arguments(args: Namespace, operation: Operation) -> dict[str, Any]:
    """What was typed, under the names of the method's arguments."""
    given: dict[str, Any] = dict(DEFAULTS.get(operation.name, {}))
    for field in list_fields(operation):
        value = getattr(args, field.name, None)
        if value is None:
            continue
        if field.name in LONG_TEXTS and isinstance(value, str):
            value = read_text(value)
        elif isinstance(unwrap(field.codec), JsonObject):
            value = dict(value)
        given[field.name] = value
    check_owner(operation, given)
    return given


def check_owner(operation: Operation, given: Mapping[str, Any]) -> None:
    """A memory has one owner; a session may be named beside its user."""
    if operation.on not in (On.OWNER, On.ID_OR_OWNER):
        return
    named = ["agent" in given, "scope" in given, "user" in given or "session" in given]
    if named.count(True) > 1:
        flags = {"user": "--user U", "agent": "--agent A", "session": "--session ID", "scope": "--global"}
        known = [flags[name] for name in _OWNERS if name in operation.arguments]
        raise UsageError(f"say whose memory this is, and only one: {', '.join(known[:-1])} or {known[-1]}")


def read_text(text: str) -> str:
    """The text itself; for ``-`` the whole input without its last line end."""
    if text != "-":
        return text
    source = getattr(sys.stdin, "buffer", None)
    if source is None:
        return sys.stdin.read().rstrip("\r\n")
    try:
        return str(source.read().decode("utf-8")).rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"the input is not UTF-8 text (byte {error.start})") from None
