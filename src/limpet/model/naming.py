"""Names people and channels give: session keys, user ids, memory keys."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from limpet.errors import InvalidKey
from limpet.model.column_hints import Plain
from limpet.model.text import check_name, check_optional_name

MAX_RECORD_KEY = 64
MAX_SESSION_KEY = 1024  # with tenant, user and agent it must fit one entry of a PostgreSQL index
API_KEY_PREFIX = 8
_RECORD_KEY = re.compile(r"[a-z][a-z0-9_]*")
_INTERNAL = "internal_"  # what the engine keeps for itself
_RESERVED = ("system_", _INTERNAL)
PROFILE = f"{_INTERNAL}profile"


@dataclass(frozen=True, slots=True)
class SessionKey:
    """``channel:chat[:thread]``; it outlives the session id."""

    channel: Annotated[str, Plain("by which sessions are found"), "what carries the chat, such as telegram"]
    chat: Annotated[str, Plain("the chat's id"), "the chat's name in its channel"]
    thread: Annotated[str | None, Plain("the thread's id"), "the thread within the chat; null: it has none"] = None

    @classmethod
    def of(cls, channel: str, chat: str, thread: str | None = None) -> SessionKey:
        key = cls(check_name(channel, "channel"), check_name(chat, "chat"), check_optional_name(thread, "thread"))
        check_name(str(key), "the session key", max_bytes=MAX_SESSION_KEY)
        return key

    @classmethod
    def parse(cls, text: str) -> SessionKey:
        parts = [_unescape(part) for part in text.split(":")]
        if len(parts) not in (2, 3):
            raise InvalidKey(f"a session key is channel:chat or channel:chat:thread, not {text[:80]!r}")
        return cls.of(*parts)

    def __str__(self) -> str:
        parts = [self.channel, self.chat] if self.thread is None else [self.channel, self.chat, self.thread]
        return ":".join(_escape(part) for part in parts)


def _escape(part: str) -> str:
    return part.replace("%", "%25").replace(":", "%3A")


def _unescape(part: str) -> str:
    return part.replace("%3A", ":").replace("%25", "%")


def derive_user_id(
    channel: str, *, name: str | None = None, api_key: str | None = None, session: str | None = None
) -> str:
    """The user id of a channel's visitor: by phone on WhatsApp, by the key's first characters where there is a key."""
    if channel == "whatsapp" and name is not None:
        return f"whatsapp:{name.removesuffix('@s.whatsapp.net')}@s.whatsapp.net"
    if channel == "tui":
        return f"tui:{name or 'local'}"
    visitor = api_key[:API_KEY_PREFIX] if api_key else name or session
    if not visitor:
        raise InvalidKey(f"a user of the channel {channel!r} needs a name, an API key or a session")
    return f"{_escape(channel)}:{visitor}"


def default_user_id(key: SessionKey) -> str:
    """The user a chat belongs to, when the caller names none."""
    return derive_user_id(key.channel, name=key.chat)


def check_record_key(value: object) -> str:
    if not isinstance(value, str):
        raise InvalidKey(f"a memory's key must be text, not {type(value).__name__}")
    if len(value) > MAX_RECORD_KEY:
        raise InvalidKey(f"the key is {len(value)} characters long; the limit is {MAX_RECORD_KEY}")
    if not _RECORD_KEY.fullmatch(value):
        raise InvalidKey(f"a memory's key is lower-case letters, digits and _, beginning with a letter; not {value!r}")
    if value.startswith(_RESERVED):
        raise InvalidKey(f"keys beginning with {' or '.join(_RESERVED)} are reserved; not {value!r}")
    return value


def is_internal(key: str | None) -> bool:
    """Whether a record is the engine's own: neither listed nor recalled."""
    return key is not None and key.startswith(_INTERNAL)
