"""What can be typed instead of a message: one table, from which help is made too."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from limpet.cli import render_memory, show
from limpet.cli.memory import find_records
from limpet.cli.render import format_compaction, format_counts, receipt_lines
from limpet.cli.render_memory import dropped_lines, speaker
from limpet.errors import InvalidKey, LimpetError, NotFound, Unsupported
from limpet.model.chunk import Hit
from limpet.model.context import Context
from limpet.model.session import SessionInfo, SessionStatus, Summary, Usage
from limpet.model.tokens import estimate_tokens
from limpet.model.values import is_id, suggest

if TYPE_CHECKING:
    from limpet.cli.chat.loop import ChatLoop


_PAGE = 50
_HITS = 3  # hits that are shown, of those in the last context
_KEYED = re.compile(r"([a-z][a-z0-9_]*)=\s*(?=\S)")


class ChatUsageError(LimpetError):
    code = "usage"


class Command(NamedTuple):
    name: str
    given: str
    summary: str
    run: Callable[[ChatLoop, str], None]

    @property
    def usage(self) -> str:
        return f"{self.name} {self.given}".rstrip()


def run_command(chat: ChatLoop, text: str) -> None:
    found = re.match(r"(/\S*)\s*(.*)", text, re.DOTALL)
    assert found is not None
    name, given = found[1], found[2].strip()
    command = BY_NAME.get(name)
    if command is None:
        advice = suggest(name, BY_NAME) or "; /help lists all there are"
        raise ChatUsageError(f"there is no {name[:40]}{advice} A message that begins with / needs a space before it.")
    if given and not command.given:
        raise ChatUsageError(f"{name} takes no arguments")
    command.run(chat, given)


def show_help(chat: ChatLoop, _: str) -> None:
    longest = max(len(command.usage) for command in COMMANDS)
    chat.screen.say(
        *(f"{command.usage.ljust(longest)}  {command.summary}" for command in COMMANDS),
        "A line that ends in \\ goes on in the next. Ctrl-C stops a reply, Ctrl-D leaves.",
    )


def compact(chat: ChatLoop, given: str) -> None:
    keep = None if not given else _parse_number(given, "/compact")
    chat.screen.say(format_compaction(chat.session.compact(keep)))


def start_session(chat: ChatLoop, _: str) -> None:
    old = chat.session
    chat.session, chat.context = old.new(), None
    chat.screen.say(f"Session {old.id} has ended and can still be recalled. New session {chat.session.id}.")


def stop(chat: ChatLoop, _: str) -> None:
    chat.screen.say("There is nothing to stop: no reply is coming.")


def show_sessions(chat: ChatLoop, _: str) -> None:
    found = _load_sessions(chat)
    columns: show.Columns = (
        (">#", lambda info: f"{'*' * (info.id == chat.session.id)}{chat.listed.index(info.id) + 1}"),
        *(("ID", "id"), ("KEY", "key"), ("?AGENT", "agent"), ("STATE", "state")),
        *(("?>MESSAGES", "message_count"), ("?LAST ACTIVE", "last_active_at")),
    )
    chat.screen.say(*show.format_nouns(columns, found))
    if len(found) == _PAGE:
        chat.screen.note(f"the latest {_PAGE}; `limpet sessions --user …` lists all")


def _load_sessions(chat: ChatLoop) -> list[SessionInfo]:
    found = chat.memory.sessions(user=chat.session.user, limit=_PAGE)
    chat.listed = [info.id for info in found]
    return found


def switch(chat: ChatLoop, given: str) -> None:
    if not given:
        raise ChatUsageError("/switch needs a session: its id, its key, or its number in /sessions")
    wanted = _find_target(chat, given)
    if wanted.state is SessionStatus.TERMINATED:
        raise ChatUsageError(f"session {wanted.id} has ended; /switch {wanted.key} goes to the live one of its key")
    if wanted.id != chat.session.id:
        chat.session, chat.context = chat.load(wanted.id), None
    messages = show.pluralize(wanted.message_count, "message")
    chat.screen.say(f"Now in session {wanted.id} ({wanted.key}, {messages}).")


def _find_target(chat: ChatLoop, given: str) -> SessionInfo:
    if given.isdecimal():
        if not chat.listed:
            _load_sessions(chat)
        number = int(given)
        if not 1 <= number <= len(chat.listed):
            raise ChatUsageError(f"there is no session {number}; /sessions numbers {len(chat.listed)}")
        return chat.load(chat.listed[number - 1]).info
    if ":" in given:
        return _find_by_key(chat, given)
    return chat.load(given).info


def _find_by_key(chat: ChatLoop, key: str) -> SessionInfo:
    """The live one if there is one, else the latest. Nothing is made: a key may be mistyped."""
    page = 0
    ended: SessionInfo | None = None
    while found := chat.memory.sessions(user=chat.session.user, limit=_PAGE, offset=page * _PAGE):
        for info in found:
            if str(info.key) == key and info.state is not SessionStatus.TERMINATED:
                return info
            if str(info.key) == key:
                ended = ended or info
        page += 1
    if ended is None:
        raise ChatUsageError(f"{chat.session.user} has no session {key}; `limpet chat --chat NAME` begins tui:NAME")
    return ended


def show_memory(chat: ChatLoop, query: str) -> None:
    user = chat.session.user
    if query:
        hits = chat.memory.recall(query, user=user)
        chat.screen.say(*(render_memory.explain_hits(hits) if hits else [render_memory.NOTHING_FOUND]))
        return
    found = chat.memory.records(user=user, limit=_PAGE)
    keyed, others = [r for r in found if r.key], [r for r in found if not r.key]
    parts = [
        ("User memories", render_memory.record_table(keyed) if keyed else []),
        ("Records", render_memory.record_table(others) if others else []),
        ("MEMORY.md", _read_long_term(chat)),
    ]
    known = [(title, lines) for title, lines in parts if lines]
    if not known:
        chat.screen.say("Nothing is known yet but what was said. /remember TEXT stores something.")
    for number, (title, lines) in enumerate(known):
        chat.screen.say(*([""] if number else []), f"{title}:", *lines)
    if len(found) == _PAGE:
        chat.screen.note(f"the latest {_PAGE} records; /memory QUERY searches all")


def _read_long_term(chat: ChatLoop) -> list[str]:
    try:
        text = chat.memory.notes.long_term(user=chat.session.user).read()
    except Unsupported:  # a store without a folder
        return []
    return text.strip("\n").split("\n") if text.strip() else []


def remember(chat: ChatLoop, given: str) -> None:
    keyed = _KEYED.match(given)
    text = given[keyed.end() :] if keyed else given
    if not text:
        raise ChatUsageError("/remember needs a text: /remember TEXT, or /remember key=TEXT")
    if not chat.has_memory:
        raise ChatUsageError("the memory of this agent is switched off (memory.enabled); nothing was stored")
    key = keyed[1] if keyed else None
    record = chat.memory.remember(text, user=chat.session.user, key=key, source=chat.session.id)
    under = f" under {record.key}" if record.key else ""
    version = "" if record.version == 1 else f", now version {record.version}"
    chat.screen.say(f"Remembered{under}{version}: {record.id}")


def forget(chat: ChatLoop, given: str) -> None:
    """An id or a key names one memory. What words match is shown before it goes."""
    if not given:
        raise ChatUsageError("/forget needs an id, a key, or words that the memory holds")
    memory, user = chat.memory, chat.session.user
    if is_id(given):
        gone = memory.forget(given, user=user)
    else:
        try:
            gone = memory.forget(key=given, user=user)
        except (InvalidKey, NotFound):
            _forget_matches(chat, given)
            return
    chat.screen.say(*render_memory.forgotten_lines(gone))


def _forget_matches(chat: ChatLoop, query: str) -> None:
    memory, user = chat.memory, chat.session.user
    would = memory.forget(query=query, user=user, dry_run=True)
    if would.ids:
        found = find_records(memory, would.ids)
        chat.screen.say(*render_memory.record_table(found), *render_memory.preview_lines(would))
        if not chat.confirm(f"Forget {show.pluralize(len(found), 'record')} for good?"):
            chat.screen.say("Nothing was forgotten.")
            return
    gone = memory.forget(query=query, user=user)
    chat.screen.say(*render_memory.forgotten_lines(gone))


def purge_session(chat: ChatLoop, _: str) -> None:
    session = chat.session.id
    _purge(chat, f"Purge session {session} with everything that came of it, for good?", "purge_session", session)


def purge_user(chat: ChatLoop, _: str) -> None:
    user = chat.session.user
    question = f"Purge everything of {show.one_line(user)}, every session and memory, for good?"
    _purge(chat, question, "purge_user", user)


def purge_older(chat: ChatLoop, given: str) -> None:
    days, user = _parse_number(given, "/purge_older"), chat.session.user
    said = f"Purge what {show.one_line(user)} said more than {show.pluralize(days, 'day')} ago"
    question = f"{said}, and what was learned from it? Memories that were saved or pinned stay."
    _purge(chat, question, "purge_older", user, days)


def _purge(chat: ChatLoop, question: str, verb: str, *target: object) -> None:
    """The one place where a chat purges, once it has said how much. Where its own session went, another follows."""
    if not chat.has_memory:
        raise ChatUsageError("the memory of this agent is switched off (memory.enabled); there is nothing to purge")
    purge = getattr(chat.all_stores.privacy, verb)
    chat.screen.say(f"It would remove {format_counts(purge(*target, dry_run=True).counts)}.")
    if not chat.confirm(question):
        chat.screen.say("Nothing was removed.")
        return
    lines = receipt_lines(purge(*target))
    if chat.renew_session():
        lines.append(f"New session {chat.session.id}.")
    chat.screen.say(*lines)


def quit_chat(chat: ChatLoop, _: str) -> None:
    chat.over = True


def _parse_number(given: str, name: str) -> int:
    if not (given.isascii() and given.isdecimal()):
        raise ChatUsageError(f"usage: {BY_NAME[name].usage}, with a whole number")
    return int(given[:18])


def show_status(chat: ChatLoop, _: str) -> None:
    info, summary = chat.session.refresh(), chat.session.summary()
    window = chat.limits.window
    lines = show.format_fields(
        [
            ("session", f"{info.id} ({info.key}, {info.state.value.lower()})"),
            ("user", info.user),
            ("agent", info.agent),
            ("model", "none" if chat.llm is None else chat.llm.name),
            ("window", "not known; --window N says it" if window is None else f"{window:,} tokens"),
            ("messages", f"{info.message_count:,}"),
            ("summary", _summary(summary)),
            ("usage", _usage(chat.session.usage())),
        ]
    )
    none = ["context  none yet: nothing was said in this session since the chat began"]
    chat.screen.say(*lines, *(none if chat.context is None else _context(chat.context, chat.limits.budget)))


def _summary(summary: Summary | None) -> str:
    if summary is None:
        return "none"
    covers = show.pluralize(summary.message_count, "message")
    return f"epoch {summary.epoch}, covers {covers} up to #{summary.upper_sequence}"


def _usage(usage: Usage) -> str:
    if not usage.models:
        return "none"
    calls = show.pluralize(sum(entry.calls for entry in usage.models), "call")
    cached = f" ({usage.cached_tokens:,} cached)" if usage.cached_tokens else ""
    cost = f"cost {usage.cost:.4f}" if usage.cost else "cost not known"
    return f"{calls}, {usage.input_tokens:,} tokens in{cached}, {usage.output_tokens:,} out, {cost}"


def _context(context: Context, budget: int) -> list[str]:
    messages = show.pluralize(len(context.messages), "message")
    lines = [f"context  {context.tokens:,} of {budget:,} tokens, {messages}"]
    lines += [f"  {name}: about {estimate_tokens(body):,} tokens" for name, body in context.sections.items()]
    if context.hits:
        lines.append(f"  {show.pluralize(len(context.hits), 'hit')}:")
        lines += [f"    {_hit(hit)}" for hit in context.hits[:_HITS]]
    return lines + [f"  {line}" for line in dropped_lines(context.dropped)]


def _hit(hit: Hit) -> str:
    source = hit.source
    where = f"#{source.first_sequence} of {source.session_id}" if source.session_id else source.id
    line = show.one_line(f"{hit.score:.3f} {source.kind.value} {where}, {speaker(hit)}: {hit.text}")
    return show.truncate(line, show.screen_width() - 4)


COMMANDS = (
    Command("/help", "", "list the commands", show_help),
    Command("/status", "", "show the session, the model, the last context, usage and cost", show_status),
    Command("/compact", "[n]", "summarize all but the newest n messages", compact),
    Command("/new", "", "end this session and start another", start_session),
    Command("/stop", "", "stop the current reply, like Ctrl-C", stop),
    Command("/sessions", "", "list your sessions", show_sessions),
    Command("/switch", "ID|number|key", "continue another session", switch),
    Command("/memory", "[query]", "show what is known, or what a query recalls and why", show_memory),
    Command("/remember", "[key=] TEXT", "store a record; the same key again replaces it", remember),
    Command("/forget", "ID|key|query", "remove a record, or after confirmation all that contain the words", forget),
    Command("/purge_session", "", "purge this session, after confirmation", purge_session),
    Command("/purge_user", "", "purge everything of yours, after confirmation", purge_user),
    Command(
        "/purge_older",
        "<days>",
        "purge what was said earlier, after confirmation; saved and pinned memories stay",
        purge_older,
    ),
    Command("/quit", "", "leave the chat, like Ctrl-D", quit_chat),
)
BY_NAME = {command.name: command for command in COMMANDS}
