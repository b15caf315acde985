"""Every public verb and what it needs: the one table for the check, the audit and the documentation.

A verb that is not here cannot be called, and a public method without its mark fails a test.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from limpet.model.access import Reach, Right


class OwnerRule(StrEnum):
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
class Permission:
    """A right, on the level the arguments name, or on a fixed one."""

    right: Right
    reach: Reach | None = None


ANY_VALUE = ...


@dataclass(frozen=True, slots=True)
class ExtraPermission:
    """What a verb needs besides where an argument has this value; with ``GIVEN``, any at all."""

    argument: str
    value: Any
    needs: Permission

    def __str__(self) -> str:
        reach = self.needs.reach or "the same level"
        value = "given" if self.value is ANY_VALUE else repr(self.value)
        return f"{self.needs.right}:{reach} where `{self.argument}` is {value}"


@dataclass(frozen=True, slots=True)
class OperationPolicy:
    """A grave one has an audit row of its own, written with the deed; others are counted by the minute."""

    on: OwnerRule
    needs: tuple[Permission, ...]
    grave: bool = False
    silent: bool = False  # does nothing by itself: only a refusal is told
    unnames: bool = False  # after it nobody is to be named any more: the log names what it answered with
    when: tuple[ExtraPermission, ...] = ()
    access: str = field(init=False)
    writes: bool = field(init=False)

    def __post_init__(self) -> None:
        rights = [right for right in Right if any(each.right is right for each in self.needs)]
        object.__setattr__(self, "access", "+".join(rights))
        object.__setattr__(self, "writes", Right.WRITE in rights)


READ, WRITE = Permission(Right.READ), Permission(Right.WRITE)


def _permissions_on(reach: Reach, *rights: Right) -> tuple[Permission, ...]:
    return tuple(Permission(right, reach) for right in rights)


_READ_SESSION = OperationPolicy(OwnerRule.HANDLE, _permissions_on(Reach.SESSION, Right.READ))
_WRITE_SESSION = OperationPolicy(OwnerRule.HANDLE, _permissions_on(Reach.SESSION, Right.WRITE))
_REMOVE_SESSION = OperationPolicy(OwnerRule.HANDLE, _permissions_on(Reach.SESSION, Right.WRITE), grave=True)
_WRITE_USER_OF_SESSION = OperationPolicy(OwnerRule.HANDLE, _permissions_on(Reach.USER, Right.WRITE))
_READ_USER = OperationPolicy(OwnerRule.OWNER, _permissions_on(Reach.USER, Right.READ))
_WRITE_USER = OperationPolicy(OwnerRule.OWNER, _permissions_on(Reach.USER, Right.WRITE))
_READ_STORE = _permissions_on(Reach.STORE, Right.READ)
_WRITE_STORE = _permissions_on(Reach.STORE, Right.WRITE)

LIMPET: Mapping[str, OperationPolicy] = {
    "session": _WRITE_USER,
    "load_session": OperationPolicy(OwnerRule.ID, _permissions_on(Reach.SESSION, Right.READ)),
    "sessions": OperationPolicy(OwnerRule.FILTER, (READ,)),
    "admin.usage": OperationPolicy(OwnerRule.FILTER, (READ,)),
    "recall": OperationPolicy(OwnerRule.HOME, (READ,)),
    # The same key again answers with the record as it is by then, whoever changed it.
    "remember": OperationPolicy(OwnerRule.HOME, (WRITE,), when=(ExtraPermission("idempotency_key", ANY_VALUE, READ),)),
    "records.get": OperationPolicy(OwnerRule.ID, (READ,)),
    "records.list": OperationPolicy(OwnerRule.REACH, (READ,)),
    "records.count": OperationPolicy(OwnerRule.REACH, (READ,)),
    "records.search_metadata": OperationPolicy(OwnerRule.REACH, (READ,)),
    # What a change answers with is the whole record.
    "records.update": OperationPolicy(OwnerRule.ID, (READ, WRITE)),
    "records.history": OperationPolicy(OwnerRule.ID, (READ,)),
    "forget": OperationPolicy(OwnerRule.ID_OR_HOME, (READ, WRITE), grave=True),
    "records.promote": OperationPolicy(
        OwnerRule.ID, (READ, WRITE), when=(ExtraPermission("scope", "global", Permission(Right.WRITE, Reach.GLOBAL)),)
    ),
    "records.revive": OperationPolicy(OwnerRule.ID, (READ, WRITE)),
    "profile": _READ_USER,
    # Without a text it reads a file of the machine, and that is not the user's.
    "documents.add": OperationPolicy(
        OwnerRule.HOME, (WRITE,), when=(ExtraPermission("text", None, Permission(Right.READ, Reach.STORE)),)
    ),
    "documents.list": OperationPolicy(OwnerRule.HOME, (READ,)),
    "documents.remove": OperationPolicy(OwnerRule.HOME, (WRITE,), grave=True),
    "graph.get": OperationPolicy(OwnerRule.HOME, (READ,)),
    "notes.day": _READ_USER,
    "notes.add_turn": _WRITE_USER,
    "notes.export_items": OperationPolicy(OwnerRule.OWNER, _permissions_on(Reach.USER, Right.READ), grave=True),
    "notes.import_items": OperationPolicy(OwnerRule.OWNER, _permissions_on(Reach.USER, Right.WRITE), grave=True),
    "privacy.purge_session": OperationPolicy(OwnerRule.ID, _permissions_on(Reach.SESSION, Right.WRITE), grave=True),
    "privacy.purge_user": OperationPolicy(
        OwnerRule.OWNER, _permissions_on(Reach.USER, Right.WRITE), grave=True, unnames=True
    ),
    "privacy.purge_older": OperationPolicy(OwnerRule.OWNER, _permissions_on(Reach.USER, Right.WRITE), grave=True),
    "privacy.receipts": OperationPolicy(OwnerRule.WHOLE, _permissions_on(Reach.GLOBAL, Right.READ)),
    "privacy.retention": OperationPolicy(OwnerRule.WHOLE, _permissions_on(Reach.GLOBAL, Right.WRITE), grave=True),
    "jobs.list": OperationPolicy(OwnerRule.WHOLE, _permissions_on(Reach.GLOBAL, Right.READ)),
    "jobs.retry": OperationPolicy(OwnerRule.WHOLE, _permissions_on(Reach.GLOBAL, Right.WRITE)),
    "jobs.drop": OperationPolicy(OwnerRule.WHOLE, _permissions_on(Reach.GLOBAL, Right.WRITE), grave=True),
    "jobs.run": OperationPolicy(OwnerRule.WHOLE, _WRITE_STORE),
    "jobs.start_worker": OperationPolicy(OwnerRule.WHOLE, _WRITE_STORE),
    "schedules.run": OperationPolicy(OwnerRule.WHOLE, _WRITE_STORE),
    "admin.file_sessions": OperationPolicy(OwnerRule.WHOLE, (*_READ_STORE, *_WRITE_STORE)),
    # They write and read files of the machine, and those are not the user's.
    "transfer.export": OperationPolicy(OwnerRule.REACH, (READ, *_WRITE_STORE), grave=True),
    "transfer.import_": OperationPolicy(OwnerRule.REACH, (WRITE, *_READ_STORE), grave=True),
    # It writes to what the caller has open.
    "transfer.archive": OperationPolicy(OwnerRule.REACH, (READ,), grave=True),
    "admin.doctor": OperationPolicy(
        OwnerRule.WHOLE, _READ_STORE, when=(ExtraPermission("repair", True, Permission(Right.WRITE, Reach.STORE)),)
    ),
    "admin.backup": OperationPolicy(OwnerRule.WHOLE, _READ_STORE, grave=True),
    "admin.stats": OperationPolicy(OwnerRule.WHOLE, _READ_STORE),
    "admin.observe": OperationPolicy(OwnerRule.WHOLE, _READ_STORE),
    "access.grant": OperationPolicy(OwnerRule.WHOLE, _permissions_on(Reach.GLOBAL, Right.WRITE), grave=True),
    "access.revoke": OperationPolicy(OwnerRule.WHOLE, _permissions_on(Reach.GLOBAL, Right.WRITE), grave=True),
    "access.grants": OperationPolicy(OwnerRule.REACH, (READ,)),
    "access.audit": OperationPolicy(OwnerRule.WHOLE, _permissions_on(Reach.GLOBAL, Right.READ)),
    "acting": OperationPolicy(OwnerRule.WHOLE, _WRITE_STORE, silent=True),
    "tenant": OperationPolicy(OwnerRule.WHOLE, _READ_STORE, silent=True),
}
SESSION: Mapping[str, OperationPolicy] = {
    **dict.fromkeys(("refresh", "recent", "messages", "count", "restore", "summary", "working_memory"), _READ_SESSION),
    **dict.fromkeys(("transcript", "export_transcript", "list_files", "usage"), _READ_SESSION),
    **dict.fromkeys(("append", "extend", "set_summary", "swap_summary", "compact", "compact_if_due"), _WRITE_SESSION),
    **dict.fromkeys(("pause", "resume", "terminate", "update_metadata", "expire_in"), _WRITE_SESSION),
    **dict.fromkeys(("set_working_memory", "add_usage"), _WRITE_SESSION),
    # They show what the user said elsewhere, too.
    "context": OperationPolicy(
        OwnerRule.HANDLE,
        _permissions_on(Reach.USER, Right.READ),
        when=(ExtraPermission("compact", True, Permission(Right.WRITE, Reach.SESSION)),),
    ),
    # Checked when its block begins.
    "turn": OperationPolicy(
        OwnerRule.HANDLE, (*_permissions_on(Reach.USER, Right.READ), *_permissions_on(Reach.SESSION, Right.WRITE))
    ),
    **dict.fromkeys(("learn", "new"), _WRITE_USER_OF_SESSION),
    **dict.fromkeys(("clear", "delete"), _REMOVE_SESSION),
}
KV: Mapping[str, OperationPolicy] = {
    **dict.fromkeys(("get", "items"), _READ_SESSION),
    **dict.fromkeys(("set", "delete"), _WRITE_SESSION),
}
SCHEDULES: Mapping[str, OperationPolicy] = {
    "create": OperationPolicy(
        OwnerRule.OWNER,
        _permissions_on(Reach.USER, Right.WRITE),
        when=(ExtraPermission("idempotency_key", ANY_VALUE, Permission(Right.READ, Reach.USER)),),
    ),
    **dict.fromkeys(("get", "runs", "run_output"), OperationPolicy(OwnerRule.ID, (READ,))),
    **dict.fromkeys(("edit", "pause", "resume"), OperationPolicy(OwnerRule.ID, (READ, WRITE))),
    "delete": OperationPolicy(OwnerRule.ID, (WRITE,), grave=True),
    **dict.fromkeys(("search", "count"), OperationPolicy(OwnerRule.FILTER, (READ,))),
    "due": OperationPolicy(OwnerRule.REACH, (READ,)),
}
KEYS: Mapping[str, OperationPolicy] = {
    # A key reads and writes all of its user's. What else it is given is checked one by one.
    "create": OperationPolicy(OwnerRule.OWNER, _permissions_on(Reach.USER, Right.READ, Right.WRITE), grave=True),
    "list": OperationPolicy(OwnerRule.WHOLE, _permissions_on(Reach.GLOBAL, Right.READ)),
    "revoke": OperationPolicy(OwnerRule.WHOLE, _permissions_on(Reach.GLOBAL, Right.WRITE), grave=True),
    "acting": OperationPolicy(OwnerRule.WHOLE, _WRITE_STORE, silent=True),
    "any": OperationPolicy(OwnerRule.WHOLE, _READ_STORE, silent=True),
}
TURN: Mapping[str, OperationPolicy] = {"reply": _WRITE_SESSION}
LONG_TERM: Mapping[str, OperationPolicy] = {
    "read": OperationPolicy(OwnerRule.HANDLE, _permissions_on(Reach.USER, Right.READ)),
    # What it answers with is the whole file.
    **dict.fromkeys(
        ("write", "append"), OperationPolicy(OwnerRule.HANDLE, _permissions_on(Reach.USER, Right.READ, Right.WRITE))
    ),
}
HANDLES: Mapping[str, Mapping[str, OperationPolicy]] = {
    "": LIMPET,
    "session": SESSION,
    "session.kv": KV,
    "turn": TURN,
    "notes.long_term": LONG_TERM,
    "schedules": SCHEDULES,
    "access.keys": KEYS,
}
# A verb of Limpet under its own name, one of a handle with that before it: session.append.
OPERATIONS: Mapping[str, OperationPolicy] = {
    f"{face}.{name}" if face else name: verb for face, verbs in HANDLES.items() for name, verb in verbs.items()
}
# What needs nothing, and why.
EXEMPT: Mapping[str, str] = {
    "open": "whoever can open the store can read its file",
    "close": "only the handle that opened the store closes it; any other's does nothing",
    "agent": "the same caller with an agent's settings; what it is asked is checked as ever",
    "config": "settings, not memory",
    "principal": "who acts, which whoever acts knows",
    **dict.fromkeys(
        (
            *("records", "documents", "graph", "notes", "schedules", "jobs", "access", "privacy", "transfer", "admin"),
            *("access.keys", "notes.long_term"),
        ),
        "a handle; its operations are checked",
    ),
    "turn.add": "kept with the reply, which is checked",
    **dict.fromkeys(("turn.message", "turn.context", "turn.compacted", "turn.failed"), "what the turn has at hand"),
    **{
        f"session.{name}": "what the handle knows without asking the store"
        for name in (
            "info id key user agent channel chat thread state metadata created_at last_active_at expires_at".split()
        )
    },
    "notes.long_term.path": "what the handle knows without asking the store",
}


def describe_operations() -> Iterator[tuple[str, str, str, str]]:
    """For the documentation: verb, what it needs, whose memory it touches, and how the audit has it."""
    for name, verb in OPERATIONS.items():
        needs = [f"{each.right}:{each.reach}" if each.reach else str(each.right) for each in verb.needs]
        also = [str(each) for each in verb.when]
        shown = ", ".join(f"`{each}`" for each in needs) + "".join(f"; {each}" for each in also)
        yield (
            name,
            shown,
            str(verb.on),
            "a row of its own" if verb.grave else "only if refused" if verb.silent else "counted",
        )
