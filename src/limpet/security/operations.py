"""Every public verb and what it needs: the one table for the check, the audit and the documentation.

A verb that is not here cannot be called, and a public method without its mark fails a test.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from limpet.model.access import Reach, Right


class On(StrEnum):
    """How a verb says whose memory it touches."""

    HANDLE = "the session, or the user, of the handle"
    HOME = "`user`, `agent`, `session` or `scope`; left out: one's own"
    REACH = "`user`, `agent` or `session`; left out: as far as the grants reach, one's own without any"
    ID = "an id, perhaps with `user` or `agent`; left out: as far as the grants reach, one's own without any"
    ID_OR_HOME = "an id; or `user`, `agent`, `session` or `scope`, left out: one's own"
    FILTER = "`user`, while `agent` only chooses among theirs; left out: as far as the grants reach"
    OWNER = "`user`; left out: one's own"
    WHOLE = "all of the tenant, or of the store"


@dataclass(frozen=True, slots=True)
class Needs:
    """A right, on the level the arguments name, or on a fixed one."""

    right: Right
    reach: Reach | None = None


GIVEN = ...


@dataclass(frozen=True, slots=True)
class When:
    """What a verb needs besides where an argument has this value; with ``GIVEN``, any at all."""

    argument: str
    value: Any
    needs: Needs

    def __str__(self) -> str:
        reach = self.needs.reach or "the same level"
        value = "given" if self.value is GIVEN else repr(self.value)
        return f"{self.needs.right}:{reach} where `{self.argument}` is {value}"


@dataclass(frozen=True, slots=True)
class Verb:
    """A grave one has an audit row of its own, written with the deed; others are counted by the minute."""

    on: On
    needs: tuple[Needs, ...]
    grave: bool = False
    silent: bool = False  # does nothing by itself: only a refusal is told
    unnames: bool = False  # after it nobody is to be named any more: the log names what it answered with
    when: tuple[When, ...] = ()
    access: str = field(init=False)
    writes: bool = field(init=False)

    def __post_init__(self) -> None:
        rights = [right for right in Right if any(each.right is right for each in self.needs)]
        object.__setattr__(self, "access", "+".join(rights))
        object.__setattr__(self, "writes", Right.WRITE in rights)


READ, WRITE = Needs(Right.READ), Needs(Right.WRITE)


def _on(reach: Reach, *rights: Right) -> tuple[Needs, ...]:
    return tuple(Needs(right, reach) for right in rights)


_READ_SESSION = Verb(On.HANDLE, _on(Reach.SESSION, Right.READ))
_WRITE_SESSION = Verb(On.HANDLE, _on(Reach.SESSION, Right.WRITE))
_REMOVE_SESSION = Verb(On.HANDLE, _on(Reach.SESSION, Right.WRITE), grave=True)
_WRITE_USER_OF_SESSION = Verb(On.HANDLE, _on(Reach.USER, Right.WRITE))
_READ_USER = Verb(On.OWNER, _on(Reach.USER, Right.READ))
_WRITE_USER = Verb(On.OWNER, _on(Reach.USER, Right.WRITE))
_READ_STORE = _on(Reach.STORE, Right.READ)
_WRITE_STORE = _on(Reach.STORE, Right.WRITE)

LIMPET: Mapping[str, Verb] = {
    "session": _WRITE_USER,
    "load_session": Verb(On.ID, _on(Reach.SESSION, Right.READ)),
    "sessions": Verb(On.FILTER, (READ,)),
    "usage": Verb(On.FILTER, (READ,)),
    "recall": Verb(On.HOME, (READ,)),
    # The same key again answers with the record as it is by then, whoever changed it.
    "remember": Verb(On.HOME, (WRITE,), when=(When("idempotency_key", GIVEN, READ),)),
    "record": Verb(On.ID, (READ,)),
    "records": Verb(On.REACH, (READ,)),
    "count_records": Verb(On.REACH, (READ,)),
    "search_metadata": Verb(On.REACH, (READ,)),
    # What a change answers with is the whole record.
    "update": Verb(On.ID, (READ, WRITE)),
    "history": Verb(On.ID, (READ,)),
    "forget": Verb(On.ID_OR_HOME, (READ, WRITE), grave=True),
    "promote": Verb(On.ID, (READ, WRITE), when=(When("scope", "global", Needs(Right.WRITE, Reach.GLOBAL)),)),
    "revive": Verb(On.ID, (READ, WRITE)),
    "profile": _READ_USER,
    # Without a text it reads a file of the machine, and that is not the user's.
    "add_document": Verb(On.HOME, (WRITE,), when=(When("text", None, Needs(Right.READ, Reach.STORE)),)),
    "documents": Verb(On.HOME, (READ,)),
    "remove_document": Verb(On.HOME, (WRITE,), grave=True),
    "graph": Verb(On.HOME, (READ,)),
    "daily_notes": _READ_USER,
    "note_turn": _WRITE_USER,
    "export_items": Verb(On.OWNER, _on(Reach.USER, Right.READ), grave=True),
    "import_items": Verb(On.OWNER, _on(Reach.USER, Right.WRITE), grave=True),
    "purge_session": Verb(On.ID, _on(Reach.SESSION, Right.WRITE), grave=True),
    "purge_user": Verb(On.OWNER, _on(Reach.USER, Right.WRITE), grave=True, unnames=True),
    "purge_older": Verb(On.OWNER, _on(Reach.USER, Right.WRITE), grave=True),
    "receipts": Verb(On.WHOLE, _on(Reach.GLOBAL, Right.READ)),
    "apply_retention": Verb(On.WHOLE, _on(Reach.GLOBAL, Right.WRITE), grave=True),
    "jobs": Verb(On.WHOLE, _on(Reach.GLOBAL, Right.READ)),
    "retry_jobs": Verb(On.WHOLE, _on(Reach.GLOBAL, Right.WRITE)),
    "drop_jobs": Verb(On.WHOLE, _on(Reach.GLOBAL, Right.WRITE), grave=True),
    "run_jobs": Verb(On.WHOLE, _WRITE_STORE),
    "start_worker": Verb(On.WHOLE, _WRITE_STORE),
    "run_schedules": Verb(On.WHOLE, _WRITE_STORE),
    "file_sessions": Verb(On.WHOLE, (*_READ_STORE, *_WRITE_STORE)),
    # They write and read files of the machine, and those are not the user's.
    "export": Verb(On.REACH, (READ, *_WRITE_STORE), grave=True),
    "import_": Verb(On.REACH, (WRITE, *_READ_STORE), grave=True),
    # It writes to what the caller has open.
    "archive": Verb(On.REACH, (READ,), grave=True),
    "doctor": Verb(On.WHOLE, _READ_STORE, when=(When("repair", True, Needs(Right.WRITE, Reach.STORE)),)),
    "backup": Verb(On.WHOLE, _READ_STORE, grave=True),
    "stats": Verb(On.WHOLE, _READ_STORE),
    "observe": Verb(On.WHOLE, _READ_STORE),
    "grant": Verb(On.WHOLE, _on(Reach.GLOBAL, Right.WRITE), grave=True),
    "revoke": Verb(On.WHOLE, _on(Reach.GLOBAL, Right.WRITE), grave=True),
    "grants": Verb(On.REACH, (READ,)),
    "audit": Verb(On.WHOLE, _on(Reach.GLOBAL, Right.READ)),
    "acting": Verb(On.WHOLE, _WRITE_STORE, silent=True),
    "tenant": Verb(On.WHOLE, _READ_STORE, silent=True),
}
SESSION: Mapping[str, Verb] = {
    **dict.fromkeys(("refresh", "recent", "messages", "count", "restore", "summary", "working_memory"), _READ_SESSION),
    **dict.fromkeys(("transcript", "export_transcript", "list_files", "usage"), _READ_SESSION),
    **dict.fromkeys(("append", "extend", "set_summary", "swap_summary", "compact", "compact_if_due"), _WRITE_SESSION),
    **dict.fromkeys(("pause", "resume", "terminate", "update_metadata", "expire_in"), _WRITE_SESSION),
    **dict.fromkeys(("set_working_memory", "add_usage"), _WRITE_SESSION),
    # They show what the user said elsewhere, too.
    "context": Verb(
        On.HANDLE,
        _on(Reach.USER, Right.READ),
        when=(When("compact", True, Needs(Right.WRITE, Reach.SESSION)),),
    ),
    # Checked when its block begins.
    "turn": Verb(On.HANDLE, (*_on(Reach.USER, Right.READ), *_on(Reach.SESSION, Right.WRITE))),
    **dict.fromkeys(("learn", "new"), _WRITE_USER_OF_SESSION),
    **dict.fromkeys(("clear", "delete"), _REMOVE_SESSION),
}
KV: Mapping[str, Verb] = {
    **dict.fromkeys(("get", "items"), _READ_SESSION),
    **dict.fromkeys(("set", "delete"), _WRITE_SESSION),
}
SCHEDULES: Mapping[str, Verb] = {
    "create": Verb(
        On.OWNER,
        _on(Reach.USER, Right.WRITE),
        when=(When("idempotency_key", GIVEN, Needs(Right.READ, Reach.USER)),),
    ),
    **dict.fromkeys(("get", "runs", "run_output"), Verb(On.ID, (READ,))),
    **dict.fromkeys(("edit", "pause", "resume"), Verb(On.ID, (READ, WRITE))),
    "delete": Verb(On.ID, (WRITE,), grave=True),
    **dict.fromkeys(("search", "count"), Verb(On.FILTER, (READ,))),
    "due": Verb(On.REACH, (READ,)),
}
KEYS: Mapping[str, Verb] = {
    # A key reads and writes all of its user's. What else it is given is checked one by one.
    "create": Verb(On.OWNER, _on(Reach.USER, Right.READ, Right.WRITE), grave=True),
    "list": Verb(On.WHOLE, _on(Reach.GLOBAL, Right.READ)),
    "revoke": Verb(On.WHOLE, _on(Reach.GLOBAL, Right.WRITE), grave=True),
    "acting": Verb(On.WHOLE, _WRITE_STORE, silent=True),
    "any": Verb(On.WHOLE, _READ_STORE, silent=True),
}
TURN: Mapping[str, Verb] = {"reply": _WRITE_SESSION}
LONG_TERM: Mapping[str, Verb] = {
    "read": Verb(On.HANDLE, _on(Reach.USER, Right.READ)),
    # What it answers with is the whole file.
    **dict.fromkeys(("write", "append"), Verb(On.HANDLE, _on(Reach.USER, Right.READ, Right.WRITE))),
}
FACES: Mapping[str, Mapping[str, Verb]] = {
    "": LIMPET,
    "session": SESSION,
    "session.kv": KV,
    "turn": TURN,
    "long_term": LONG_TERM,
    "schedules": SCHEDULES,
    "keys": KEYS,
}
# A verb of Limpet under its own name, one of a handle with that before it: session.append.
VERBS: Mapping[str, Verb] = {
    f"{face}.{name}" if face else name: verb for face, verbs in FACES.items() for name, verb in verbs.items()
}
# What needs nothing, and why.
FREE: Mapping[str, str] = {
    "open": "whoever can open the store can read its file",
    "close": "only the handle that opened the store closes it; any other's does nothing",
    "agent": "the same caller with an agent's settings; what it is asked is checked as ever",
    "config": "settings, not memory",
    "principal": "who acts, which whoever acts knows",
    "long_term": "a handle; its reading and writing is checked",
    **dict.fromkeys(("schedules", "keys"), "a handle; its verbs are checked"),
    "turn.add": "kept with the reply, which is checked",
    **dict.fromkeys(("turn.message", "turn.context", "turn.compacted", "turn.failed"), "what the turn has at hand"),
    **{
        f"session.{name}": "what the handle knows without asking the store"
        for name in (
            "info id key user agent channel chat thread state metadata created_at last_active_at expires_at".split()
        )
    },
    "long_term.path": "what the handle knows without asking the store",
}


def table() -> Iterator[tuple[str, str, str, str]]:
    """For the documentation: verb, what it needs, whose memory it touches, and how the audit has it."""
    for name, verb in VERBS.items():
        needs = [f"{each.right}:{each.reach}" if each.reach else str(each.right) for each in verb.needs]
        also = [str(each) for each in verb.when]
        shown = ", ".join(f"`{each}`" for each in needs) + "".join(f"; {each}" for each in also)
        yield (
            name,
            shown,
            str(verb.on),
            "a row of its own" if verb.grave else "only if refused" if verb.silent else "counted",
        )
