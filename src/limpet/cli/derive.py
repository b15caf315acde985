"""Commands made from the table of operations: arguments from the signature, output from the noun."""

from __future__ import annotations

import argparse
from argparse import Namespace
from collections.abc import Mapping
from importlib import import_module
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from limpet.cli import render, show
from limpet.cli.arguments import add_arguments, read_arguments
from limpet.cli.ask import ProgressLine
from limpet.cli.options import Parser, UsageError, add_command, add_yes
from limpet.cli.place import open_memory
from limpet.model.schema import to_json
from limpet.security.operation import OPERATIONS, On, Operation

if TYPE_CHECKING:
    from limpet import Limpet, Session

# What makes a store where there is none.
_CREATES = frozenset(
    (
        *("remember", "documents.add", "schedules.create", "session", "session.append", "access.grant"),
        *("access.keys.create", "transfer.import_", "admin.restore"),
    )
)
_USUAL_VERBS = ("list", "show", "status")  # what a noun without a verb does
_READS_EMPTY = (On.OWNER, On.REACH, On.FILTER, On.USER, On.CHAT, On.WHOLE)


class OperationCommand:
    """One operation on the command line. A subclass says what is special about it."""

    hidden: tuple[str, ...] = ()  # arguments that are not offered
    asks = False  # whether it wants a yes before it does something; --yes gives it
    needs_store = False  # whether it fails where there is no store; what reads a list finds an empty one

    def __init__(self, operation: Operation) -> None:
        self.operation = operation
        self.words = operation.cli
        self.progress: ProgressLine | None = None

    @property
    def summary(self) -> str:
        return render.to_plain(self.operation.summary.removesuffix("."))

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
        if self.asks:
            add_yes(parser)

    def run(self, args: Namespace) -> int:
        given = self.read(args)
        self.progress = self.make_progress()
        with self.open(args) as memory:
            try:
                answer = self.call(memory, args, given)
            finally:
                if self.progress is not None:
                    self.progress.end()
        lines = [] if args.json else self.format(answer, given, args)
        show.print_result(args, self.to_json(answer, given), lines)
        return 0

    def read(self, args: Namespace) -> dict[str, Any]:
        """What was typed, as the method takes it. Raises UsageError."""
        given = read_arguments(args, self.operation)
        if self.operation.http_method == "PATCH" and not given.keys() - {"id", "user", "agent"}:
            raise UsageError(f"say what to change (see limpet {self.words} --help)")
        return given

    def make_progress(self) -> ProgressLine | None:
        return ProgressLine() if "progress" in self.operation.arguments else None

    def open(self, args: Namespace) -> Limpet:
        """Only what adds something makes a store; a list of what is not there is empty."""
        operation = self.operation
        reads_empty = operation.on in _READS_EMPTY and not operation.writes and not self.needs_store
        return open_memory(args, creates=operation.name in _CREATES, needed=not reads_empty)

    def call(self, memory: Limpet, args: Namespace, given: Mapping[str, Any]) -> Any:
        named = {**given} if self.progress is None else {**given, "progress": self.progress}
        leading = takewhile(named.__contains__, self.operation.positional)  # some may not be named
        placed = [named.pop(name) for name in tuple(leading)]
        return getattr(self.get_handle(memory, args), self.operation.method.__name__)(*placed, **named)

    def get_handle(self, memory: Limpet, args: Namespace) -> Any:
        """The object whose method it is."""
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

    def to_json(self, answer: Any, given: Mapping[str, Any]) -> Any:
        """Nouns and lists as they are; a single value under the name it has over HTTP, too."""
        value = getattr(answer, "info", answer)
        if isinstance(value, Mapping):
            return dict(value)
        if value is None or isinstance(value, (bool, int, float, str)):
            return {self.operation.answer or "done": True if value is None and not self.operation.answer else value}
        return to_json(value)

    def format(self, answer: Any, given: Mapping[str, Any], args: Namespace) -> list[str]:
        said = render.SENTENCES.get(self.operation.name)
        if said is not None:
            return [show.one_line(said(answer, given))]
        if isinstance(answer, (list, tuple)):
            return self.format_list(answer, given)
        return render.format_noun(getattr(answer, "info", answer))

    def format_list(self, found: Any, given: Mapping[str, Any]) -> list[str]:
        if not found:
            return [render.explain_empty(self.operation.name, given)]
        lines = render.format_list(found)
        if "offset" not in self.operation.arguments:
            return lines
        limit = given.get("limit", _default_limit(self.operation))
        return [*lines, *show.next_page_hint(len(found), limit, given.get("offset", 0))]


def _default_limit(operation: Operation) -> int:
    return next(int(field.default) for field in operation.parameters if field.name == "limit")


def add_chat_options(parser: Parser) -> None:
    """Which conversation, for commands that are not about sessions."""
    texts = {
        "session": ("ID", "the session; left out: that of the chat below"),
        "channel": ("NAME", "what carries the chat; left out: app"),
        "chat": ("NAME", "the chat's name in its channel; left out: main"),
        "thread": ("NAME", "the thread within the chat"),
        "user": ("NAME", "whose chat it is; left out: LIMPET_USER, the chat's user, or me"),
        "agent": ("NAME", "the agent of the chat; left out: session.default_agent"),
    }
    for name, (metavar, text) in texts.items():
        parser.add_argument(f"--{name}", metavar=metavar, default=argparse.SUPPRESS, help=text)


def choose_session(memory: Limpet, args: Namespace, *, creates: bool) -> Session:
    """By its id, or by its chat."""
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
    """The first words of all commands in the table."""
    load_operations()
    return list(dict.fromkeys(each.cli.partition(" ")[0] for each in OPERATIONS.values() if each.cli))


def make_commands(word: str, module: str = "") -> list[OperationCommand]:
    """The commands that begin with this word, with what its module makes special."""
    load_operations()
    special: Mapping[str, type[OperationCommand]] = import_module(f"limpet.cli.{module}").SPECIAL if module else {}
    chosen = [each for each in OPERATIONS.values() if each.cli.partition(" ")[0] == word]
    found: dict[str, OperationCommand] = {}
    for each in chosen:  # of several operations of one command, the special one knows the others
        if each.cli not in found or each.name in special:
            found[each.cli] = special.get(each.name, OperationCommand)(each)
    return list(found.values())


def add(commands: Any, word: str, summary: str = "", module: str = "", *, late: bool = True) -> None:
    """Add a verb; or a noun with its verbs, of which the usual one needs not be named."""
    made = {command.words.partition(" ")[2]: command for command in make_commands(word, module)}
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
