"""Comparing a store with what its writers noted: acknowledged deeds are there, the others at most once and whole."""

from __future__ import annotations

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from limpet import Limpet, Message, Record, SessionInfo
from limpet.errors import NotFound, StoreUnavailable
from limpet.model.record import Origin
from tests.crash import writes
from tests.crash.writer import record_key, user_of
from tests.crash.writes import Deed

MESSAGES = {"append", "append once", "extend", "scratch", "doomed", "leave"}
OWN = {"scratch", "doomed", "leave"}  # of one thread alone, and removed by it
READS = {"recall"}
NOTHING_STORED = "nothing of this call was stored"
PAGE = 1000


@dataclass
class Findings:
    """What was counted, and everything that must not be, each with a line that says where."""

    kills: int = 0
    acknowledged: int = 0
    unanswered: int = 0
    unanswered_found: int = 0
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    torn: list[str] = field(default_factory=list)
    misnumbered: list[str] = field(default_factory=list)
    denied: list[str] = field(default_factory=list)
    unsound: list[str] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    refused: list[str] = field(default_factory=list)

    def faults(self) -> dict[str, list[str]]:
        """Each promise with what breaks it."""
        return {
            "every acknowledged write is there": self.lost,
            "no write is there twice": self.doubled,
            "every write is whole": self.torn,
            "sequences have no gaps and no doubles": self.misnumbered,
            "what was reported as not stored is not there": self.denied,
            "file, references and word index are sound": self.unsound,
            "no writer saw an error it should not": self.refused,
        }

    def __iadd__(self, other: Findings) -> Self:
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)
        return self


def check(
    memory: Limpet,
    noted: Iterable[Deed],
    *,
    may_be_unavailable: bool = False,
    ignores: Callable[[str], bool] = lambda _: False,
) -> Findings:
    """``may_be_unavailable``: the server was taken away on purpose, and writers were to be told so.

    What users have whom it ``ignores`` was written by nobody here.
    """
    findings = Findings()
    noted = list(noted)
    deeds = [deed for deed in noted if deed.kind not in READS]
    findings.acknowledged = sum(deed.done for deed in deeds)
    findings.unanswered = len(deeds) - findings.acknowledged
    _check_errors(noted, findings, may_be_unavailable=may_be_unavailable)
    _check_messages(memory, deeds, findings, ignores)
    _check_kv(memory, deeds, findings)
    _check_records(memory, deeds, findings, ignores)
    _check_documents(memory, deeds, findings)
    _check_notes(memory, deeds, findings)
    findings.unsound += [f"{found.check}: {found.detail}" for found in memory.admin.doctor() if not found.ok]
    return findings


def check_file(path: Path) -> list[str]:
    """SQLite's own opinion of the file, asked without Limpet."""
    with closing(sqlite3.connect(path)) as raw:
        answers = [row[0] for row in raw.execute("PRAGMA integrity_check") if row[0] != "ok"]
        return answers + [f"reference to nothing: {row}" for row in raw.execute("PRAGMA foreign_key_check")]


def _check_errors(noted: Iterable[Deed], findings: Findings, *, may_be_unavailable: bool) -> None:
    for deed in noted:
        for error in deed.errors:
            kind = error.partition(":")[0]
            findings.errors[kind] += 1
            if kind != StoreUnavailable.__name__ or not may_be_unavailable:
                findings.refused.append(f"{deed.name} ({deed.kind}): {error}")


# Messages


def _check_messages(memory: Limpet, deeds: Sequence[Deed], findings: Findings, ignores: Callable[[str], bool]) -> None:
    sessions = {info.id: info for info in _sessions(memory) if not ignores(info.user)}
    stored = {id: memory.load_session(id).messages() for id in sessions}
    places: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
    for id, messages in stored.items():
        _check_numbers(sessions[id], messages, findings)
        for message in messages:
            places[_whole(message, findings)].append((id, message.sequence))
    findings.doubled += [f"{marker} is at {found}" for marker, found in places.items() if len(found) > 1]
    begun = {marker for deed in deeds if deed.kind in MESSAGES for marker in deed.markers}
    findings.torn += [f"{marker} was never written" for marker in places.keys() - begun]
    for deed in deeds:
        if deed.kind in MESSAGES - OWN:
            _check_appended(deed, places, findings)
    _check_own(deeds, sessions, stored, findings)
    _check_sessions(deeds, sessions, findings)


def _sessions(memory: Limpet) -> Iterator[SessionInfo]:
    for start in range(0, 10**9, PAGE):
        page = memory.sessions(limit=PAGE, offset=start)
        yield from page
        if len(page) < PAGE:
            return


def _check_numbers(info: SessionInfo, messages: Sequence[Message], findings: Findings) -> None:
    numbers = [message.sequence for message in messages]
    first = numbers[0] if numbers and info.key.channel == "scratch" else 1
    if numbers != list(range(first, first + len(numbers))):
        findings.misnumbered.append(f"{info.key} {info.id}: {numbers}")
    if info.message_count != len(numbers) or (numbers and info.last_sequence != numbers[-1]):
        counted = f"{info.message_count} up to {info.last_sequence}"
        findings.misnumbered.append(f"{info.key} {info.id} counts {counted}, and has {len(numbers)}: {numbers[-3:]}")


def _whole(message: Message, findings: Findings) -> str:
    """Whose message it is; it must be that one in every field."""
    marker = writes.named_in(message.text)
    if marker is None or "i" not in marker:
        findings.torn.append(f"nobody wrote {message}")
        return message.text
    expected = writes.message(marker, once=message.idempotency_key is not None)
    if replace(message, sequence=0) != expected:
        findings.torn.append(f"{marker} is {message}, not {expected}")
    return marker


def _check_appended(deed: Deed, places: Mapping[str, list[tuple[str, int]]], findings: Findings) -> None:
    found = [places[marker][0] for marker in deed.markers if marker in places]
    if deed.done:
        expected = [(deed.target, sequence) for sequence in deed.result]
        if found != expected:
            findings.lost.append(f"{deed.name} ({deed.kind}) was answered with {expected}, and is at {found}")
    elif found:
        _note_unanswered(deed, findings)
        if len(found) != deed.size:
            findings.torn.append(f"{deed.name} ({deed.kind}) has {len(found)} of its {deed.size} messages")


def _note_unanswered(deed: Deed, findings: Findings) -> None:
    findings.unanswered_found += 1
    if deed.errors and all(NOTHING_STORED in error for error in deed.errors):
        findings.denied.append(f"{deed.name} ({deed.kind}) is there, but the writer was told: {deed.errors}")


def _check_own(
    deeds: Iterable[Deed],
    sessions: Mapping[str, SessionInfo],
    stored: Mapping[str, Sequence[Message]],
    findings: Findings,
) -> None:
    """What one thread alone wrote to a session or for a user, and cleared, deleted or purged."""
    resets = {"clear", "delete session", "purge"}
    for target, events in _by_target(deeds, {*OWN, *resets}).items():
        found = [id for id, info in sessions.items() if target in (id, info.user)]
        messages = [message for id in found for message in stored[id]]
        actual = [writes.deed_of(writes.named_in(message.text) or "") for message in messages]
        if not fits(events, actual, resets):
            findings.lost.append(f"{events[0].kind} {target} holds {actual[-5:]} after {_told(events)}")


def _by_target(deeds: Iterable[Deed], kinds: Iterable[str]) -> dict[str, list[Deed]]:
    events: defaultdict[str, list[Deed]] = defaultdict(list)
    for deed in deeds:
        if deed.kind in kinds:
            events[deed.target].append(deed)
    return events


def _check_sessions(deeds: Iterable[Deed], sessions: Mapping[str, SessionInfo], findings: Findings) -> None:
    deeds = list(deeds)
    deleted = {deed.target: deed.done for deed in deeds if deed.kind == "delete session"}
    used = {deed.target for deed in deeds if deed.kind in (MESSAGES | {"clear", "rotate"}) - {"leave"}} - deleted.keys()
    findings.denied += [f"session {id} was deleted, and is there" for id in sessions if deleted.get(id)]
    findings.lost += [f"session {id} is gone" for id in used - sessions.keys()]
    for deed in deeds:
        if deed.kind == "rotate" and deed.done:
            old, new = sessions.get(deed.target), sessions.get(deed.result)
            if old is None or new is None or old.state != "TERMINATED" or old.key != new.key:
                findings.lost.append(f"{deed.name} (rotate) led from {old} to {new}")
    live = Counter((info.user, str(info.key)) for info in sessions.values() if info.state != "TERMINATED")
    findings.doubled += [f"{key} has {count} live sessions" for key, count in live.items() if count > 1]


# Key-value entries


def _check_kv(memory: Limpet, deeds: Iterable[Deed], findings: Findings) -> None:
    possible: defaultdict[str, list[Any]] = defaultdict(lambda: [None])
    for deed in deeds:
        if deed.kind in ("kv set", "kv delete"):
            value = [deed.name, writes.text(deed.name)] if deed.kind == "kv set" else None
            possible[deed.target] = [value] if deed.done else [*possible[deed.target], value]
    for target, values in possible.items():
        session, _, key = target.partition("/")
        actual = memory.load_session(session).kv.get(key)
        if actual not in values:
            findings.lost.append(f"kv {target} is {actual}, not one of {values}")


# Documents and notes


def _check_documents(memory: Limpet, deeds: Iterable[Deed], findings: Findings) -> None:
    possible: defaultdict[str, list[str]] = defaultdict(lambda: [""])
    for deed in deeds:
        if deed.kind in ("document add", "document remove"):
            text = writes.document(deed.name) if deed.kind == "document add" else ""
            possible[deed.target] = [text] if deed.done else [*possible[deed.target], text]
    for uri, texts in possible.items():
        user = uri.split("/")[2]
        try:
            actual = memory.documents.text(uri, user=user)
        except NotFound:
            actual = ""
        listed = [document.uri for document in memory.documents.list(user=user)].count(uri)
        if actual not in texts or listed != bool(actual):
            first = [text.partition("\n")[0] for text in texts]
            findings.lost.append(f"{uri} begins with {actual[:40]!r}, {len(actual)} long, not with one of {first}")


def _check_notes(memory: Limpet, deeds: Iterable[Deed], findings: Findings) -> None:
    for user, events in _by_target(deeds, {"note append", "note write"}).items():
        lines = memory.notes.long_term(user=user).read().splitlines()
        actual = [line.removeprefix("- ") for line in lines]
        if not fits(events, actual, restarts={"note write"}):
            findings.lost.append(f"MEMORY.md of {user} ends with {actual[-5:]} after {_told(events)}")


# Records


def _check_records(memory: Limpet, deeds: Sequence[Deed], findings: Findings, ignores: Callable[[str], bool]) -> None:
    found = [record for record in _explicit(memory) if not ignores(record.user or "")]
    histories = {record.id: _history(memory, record, findings) for record in found}
    told = [name for history in histories.values() for name in history]
    findings.doubled += [f"{name} is in {count} versions" for name, count in Counter(told).items() if count > 1]
    begun = {deed.name for deed in deeds if deed.kind in ("remember", "update", "remember key")}
    findings.torn += [f"a record says {name}, which was never written" for name in set(told) - begun]
    by_maker = {history[0]: (id, history) for id, history in histories.items()}
    events: defaultdict[str, list[Deed]] = defaultdict(list)
    for deed in deeds:
        if deed.kind in ("update", "forget"):
            events[deed.target].append(deed)
    for deed in deeds:
        if deed.kind == "remember":
            id, actual = by_maker.get(deed.name, (None, []))
            if (id and deed.done and id != deed.result) or not fits([deed, *events[deed.name]], actual, {"forget"}):
                findings.lost.append(f"record of {deed.name} says {actual} after {_told([deed, *events[deed.name]])}")
            findings.unanswered_found += bool(id and not deed.done)
    _check_keyed(memory, deeds, histories, findings)


def _check_keyed(
    memory: Limpet, deeds: Iterable[Deed], histories: Mapping[str, Sequence[str]], findings: Findings
) -> None:
    of_key: defaultdict[str, list[Deed]] = defaultdict(list)
    for deed in deeds:
        if deed.kind in ("remember key", "forget key"):
            of_key[deed.target].append(deed)
    for key, events in of_key.items():
        doer = writes.doer_of(events[0].name)
        assert key == record_key(doer)
        found = [record for record in _explicit(memory, user_of(doer)) if record.key == key]
        if len(found) > 1:
            findings.doubled.append(f"{len(found)} records have the key {key}")
        actual = histories[found[0].id] if found else []
        if not fits(events, actual, {"forget key"}):
            findings.lost.append(f"record {key} says {actual} after {_told(events)}")


def _explicit(memory: Limpet, user: str | None = None) -> list[Record]:
    """What writers saved, and not what was learned from what they said."""
    return [record for record in iter_records(memory, user) if record.origin is Origin.EXPLICIT]


def iter_records(memory: Limpet, user: str | None = None) -> Iterator[Record]:
    for start in range(0, 10**9, PAGE):
        page = memory.records(user=user, history=True, limit=PAGE, offset=start)
        yield from page
        if len(page) < PAGE:
            return


def _history(memory: Limpet, record: Record, findings: Findings) -> list[str]:
    versions = memory.records.history(record.id)
    if [version.version for version in versions] != list(range(1, len(versions) + 1)):
        findings.misnumbered.append(f"record {record.id} has versions {[version.version for version in versions]}")
    names = []
    for version in versions:
        name = writes.named_in(version.content) or version.content
        names.append(name)
        if version.content != writes.text(name):
            findings.torn.append(f"record {record.id} says {version.content!r}, not {writes.text(name)!r}")
    return names


# What one thread alone did to one thing


def fits(
    events: Iterable[Deed],
    actual: Sequence[str],
    resets: Collection[str] = (),
    restarts: Collection[str] = (),
) -> bool:
    """Can this list of deeds be what the events left, each unanswered one having happened or not?

    Events add themselves to the list; those of a kind in ``resets`` empty it, and those of a kind in ``restarts`` take
    the place of all that is in it. The positions in the list that may have
    been reached are followed through the events; None stands for a list that will still be emptied.
    """
    reached: set[int | None] = {0, None}
    for event in events:
        if event.kind in resets:
            begun_anew: set[int | None] = {None, 0} if None in reached else set()
            reached = begun_anew if event.done else reached | begun_anew
        elif event.kind in restarts:
            replaced: set[int | None] = {None, 1} if actual[:1] == [event.name] else {None}
            replaced = replaced if None in reached else set()
            reached = replaced if event.done else reached | replaced
        else:
            added: set[int | None] = {
                at + 1 for at in reached if at is not None and at < len(actual) and actual[at] == event.name
            }
            waiting: set[int | None] = reached & {None}
            reached = added | waiting if event.done else reached | added
    return len(actual) in reached


def _told(events: Sequence[Deed]) -> list[str]:
    return [f"{'done' if event.done else 'begun'} {event.kind} {event.name}" for event in events[-6:]]
