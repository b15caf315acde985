"""Commands made from the table of operations: arguments from the signature, output from the noun."""

from __future__ import annotations

import argparse
import re
import sys
from argparse import Namespace
from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from itertools import takewhile
from typing import TYPE_CHECKING, Any, ClassVar

from limpet.cli import options, render, show
from limpet.cli.options import Parser, UsageError, add_command, open_memory
from limpet.cli.render import Given
from limpet.cli.show import ProgressLine
from limpet.errors import InvalidInput
from limpet.model import constraints as limits
from limpet.model.constraints import CalledCodec, Codec, OptionalCodec, unwrap
from limpet.model.containers import JsonObject, ListCodec
from limpet.model.message import ContentCodec
from limpet.model.schema import Field, to_json
from limpet.security.operation import OPERATIONS, On, Operation

if TYPE_CHECKING:
    from limpet import Limpet, Session


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


def check_owner(operation: Operation, given: Given) -> None:
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


# What makes a store where there is none.
_CREATES = frozenset(
    (
        *("remember", "documents.add", "schedules.create", "session", "session.append", "access.grant"),
        *("access.keys.create", "transfer.import_", "admin.restore"),
    )
)
# What fails where there is no store; what else reads a list finds an empty one.
_NEEDS_STORE = frozenset(
    (
        "admin.backup",
        "admin.doctor",
        "admin.stats",
        "access.keys.allow_anonymous",
        "transfer.export",
        "notes.day",
        "notes.export_items",
    )
)
_USUAL_VERBS = ("list", "show", "status")  # what a noun without a verb does
_READS_EMPTY = (On.OWNER, On.REACH, On.FILTER, On.USER, On.CHAT, On.WHOLE)


class OperationCommand:
    """One operation on the command line. A subclass says what is special about it."""

    names: ClassVar[tuple[str, ...]] = ()  # of the operations that a subclass is for
    hidden: ClassVar[tuple[str, ...]] = ()  # arguments that are not offered
    about: ClassVar[str] = ""  # where the operation's own summary does not say it
    flags: ClassVar[tuple[tuple[str, str], ...]] = ()  # options beside the arguments, with what they mean
    has_yes: ClassVar[bool] = False  # whether it wants a yes before it does something; --yes gives it

    def __init__(self, operation: Operation) -> None:
        self.operation = operation
        self.words = operation.cli
        self.progress: ProgressLine | None = None

    @property
    def summary(self) -> str:
        return self.about or self.operation.summary.removesuffix(".").replace("`", "").replace("Return ", "Show ", 1)

    @property
    def _names_session_by_id(self) -> bool:
        return self.words.startswith("sessions ")

    def add_arguments(self, parser: Parser) -> None:
        handle = self.operation.handle
        if handle == "session" and self._names_session_by_id:
            parser.add_argument("session_id", metavar="ID", default=argparse.SUPPRESS, help="the session's id")
        add_arguments(parser, self.operation, self.hidden)
        if handle == "session" and not self._names_session_by_id:
            add_chat_options(parser)
        for name, text in self.flags:
            parser.add_argument(f"--{name}", action="store_true", help=text)
        if self.has_yes:
            parser.add_argument("-y", "--yes", action="store_true", help="do not ask")

    def run(self, args: Namespace) -> int:
        given = self.read(args)
        with self.make_progress() as self.progress, self.open(args) as memory:
            answer = self.call(memory, args, given)
        lines = [] if args.json else self.format(answer, given, args)
        show.print_result(args, self.to_json(answer, given), lines)
        return 0

    def read(self, args: Namespace) -> dict[str, Any]:
        """What was typed, as the method takes it. Raises UsageError."""
        given = read_arguments(args, self.operation)
        if self.operation.http_method == "PATCH" and not given.keys() - {"id", "user", "agent"}:
            raise UsageError(f"say what to change (see limpet {self.words} --help)")
        return given

    def make_progress(self) -> ProgressLine:
        return ProgressLine()

    def open(self, args: Namespace) -> Limpet:
        """Only what adds something makes a store; a list of what is not there is empty."""
        operation = self.operation
        reads_empty = operation.on in _READS_EMPTY and not operation.writes and operation.name not in _NEEDS_STORE
        return open_memory(args, creates=operation.name in _CREATES, needed=not reads_empty)

    def call(self, memory: Limpet, args: Namespace, given: Given) -> Any:
        named = {**given, "progress": self.progress} if "progress" in self.operation.arguments else {**given}
        leading = takewhile(named.__contains__, self.operation.positional)  # some may not be named
        placed = [named.pop(name) for name in tuple(leading)]
        return getattr(self.get_handle(memory, args), self.operation.method.__name__)(*placed, **named)

    def get_handle(self, memory: Limpet, args: Namespace) -> Any:
        if self.operation.handle == "session":
            return self.get_session(memory, args)
        handle: Any = memory
        for name in filter(None, self.operation.handle.split(".")):
            handle = getattr(handle, name)
        return handle

    def get_session(self, memory: Limpet, args: Namespace) -> Session:
        if self._names_session_by_id:
            return memory.load_session(args.session_id)
        return choose_session(memory, args, creates=self.operation.name in _CREATES)

    def to_json(self, answer: Any, given: Given) -> Any:
        """Nouns and lists as they are; a single value under the name it has over HTTP, too."""
        if self.operation.name in render.VALUES:
            return render.VALUES[self.operation.name](answer, given)
        value = getattr(answer, "info", answer)
        if isinstance(value, Mapping):
            return dict(value)
        if value is None or isinstance(value, (bool, int, float, str)):
            return {self.operation.answer or "done": True if value is None and not self.operation.answer else value}
        return to_json(value)

    def format(self, answer: Any, given: Given, args: Namespace) -> list[str]:
        if self.operation.name in render.SENTENCES:
            return [show.one_line(render.SENTENCES[self.operation.name](answer, given))]
        if self.operation.name in render.LINES:
            return render.LINES[self.operation.name](answer, given)
        if isinstance(answer, (list, tuple)):
            return self.format_list(answer, given)
        return render.format_noun(getattr(answer, "info", answer))

    def format_list(self, found: Any, given: Given) -> list[str]:
        if not found:
            return [render.explain_empty(self.operation.name, given)]
        lines = self.format_rows(found)
        if "offset" not in self.operation.arguments:
            return lines
        usual = next(int(field.default) for field in self.operation.parameters if field.name == "limit")
        limit = given.get("limit", usual)
        return [*lines, *show.next_page_hint(len(found), limit, given.get("offset", 0))]

    def format_rows(self, found: Any) -> list[str]:
        return render.format_list(found)


def add_chat_options(parser: Parser) -> None:
    """Which conversation, for commands that are not about sessions."""
    texts = {
        "session": ("ID", "the session; left out: that of the chat below"),
        "channel": ("NAME", "the platform of the chat; left out: app"),
        "chat": ("NAME", "the chat's name in its channel; left out: main"),
        "thread": ("NAME", "the thread within the chat"),
        "user": ("NAME", "whose chat it is; left out: LIMPET_USER, the chat's user, or me"),
        "agent": ("NAME", "the agent of the chat; left out: session.default_agent"),
    }
    for name, (metavar, text) in texts.items():
        parser.add_argument(f"--{name}", metavar=metavar, default=argparse.SUPPRESS, help=text)


def choose_session(memory: Limpet, args: Namespace, *, creates: bool) -> Session:
    from limpet.errors import SessionNotFound

    named = {name: getattr(args, name, None) for name in ("channel", "chat", "thread", "user", "agent")}
    if getattr(args, "session", None) is not None:
        if any(named[name] for name in ("channel", "chat", "thread", "agent")):
            raise UsageError("name the session by --session ID or by its chat, not by both")
        return memory.load_session(args.session, user=named["user"])
    if creates:
        return memory.session(**named)
    found = memory.find_session(**named)
    if found is None:
        raise SessionNotFound("this chat has no live session; limpet sessions lists those there are")
    return found


# The commands


def load_operations() -> None:
    """Complete the table. It takes a while: no other command than one made from the table does it."""
    import_module("limpet.api.limpet")


def list_words() -> list[str]:
    load_operations()
    return list(dict.fromkeys(each.cli.partition(" ")[0] for each in OPERATIONS.values() if each.cli))


def make_commands(word: str) -> list[OperationCommand]:
    """The commands that begin with this word, with what is special about them."""
    load_operations()
    for module in ("memory", "data"):  # late: they build on this module
        import_module(f"limpet.cli.{module}")
    special = {name: kind for kind in OperationCommand.__subclasses__() for name in kind.names}
    found: dict[str, OperationCommand] = {}
    for each in OPERATIONS.values():  # of several operations of one command, the special one knows the others
        if each.cli.partition(" ")[0] == word and (each.cli not in found or each.name in special):
            found[each.cli] = special.get(each.name, OperationCommand)(each)
    return list(found.values())


def add(commands: Any, word: str, summary: str = "", *, late: bool = True) -> None:
    """Add a verb; or a noun with its verbs, of which the usual one needs not be named."""
    made = {command.words.partition(" ")[2]: command for command in make_commands(word)}
    if "" in made:
        _fill(add_command(commands, word, summary or made[""].summary, made[""].run), made[""], late=late)
        return
    usual = next((made[verb] for verb in _USUAL_VERBS if verb in made), None)
    more = f"; without a verb: {usual.words.partition(' ')[2]}" if usual is not None else ""
    text = (summary or f"{', '.join(made)}") + more
    noun = add_command(commands, word, text, None if usual is None else usual.run)
    if usual is not None:
        usual.add_arguments(noun)
    verbs = noun.add_subparsers(title="verbs", metavar="VERB", required=usual is None)
    for verb, command in made.items():
        _fill(add_command(verbs, verb, command.summary, command.run), command, late=late)


def _fill(parser: Parser, command: OperationCommand, *, late: bool) -> None:
    """Reading a signature takes a moment: of a noun's verbs only that of the one that was typed is read."""
    if late:
        parser.late = command.add_arguments
    else:
        command.add_arguments(parser)
