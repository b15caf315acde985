"""Who is it? A key says so, or, on a store without keys, that they sit at this machine."""

from __future__ import annotations

import ipaddress
import re
from collections import OrderedDict
from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256
from threading import Lock
from time import monotonic
from typing import NamedTuple
from urllib.parse import unquote

from limpet import Limpet, Turn
from limpet.api.wire import ENCODED_KEY, IDEMPOTENCY_KEY, PLAIN_KEY
from limpet.errors import InvalidInput, Unauthenticated
from limpet.model.dataclass import dataclass, replace
from limpet.model.values import check_name
from limpet.security.operation import On, Operation
from limpet.server.payload import Problem
from limpet.tools import ToolContext

LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")
# Headers that proxies add: such a request does not come from this machine.
_FORWARDED = re.compile(r"forwarded$|via$|x-forwarded|(x-real|x-client|true-client|cf-connecting)-ip$", re.IGNORECASE)
_KEY_REQUIRED = "send an API key: Authorization: Bearer lim_…; limpet api-keys create makes one"
_IDLE = 120.0  # seconds after which a caller's bucket is full again anyway


@dataclass(frozen=True, slots=True)
class Caller:
    """``memory`` acts for them, so that every call is checked; ``user`` owns what names nobody."""

    memory: Limpet
    name: str
    user: str | None
    turns: OpenTurns
    agent: str | None = None
    idempotency_key: str | None = None
    id: str = ""  # of the key, the same for nobody else; empty: no key was needed
    is_direct: bool = False  # a program on this machine: no page in a browser, and no other name of this server

    @property
    def is_anonymous(self) -> bool:
        return not self.id

    def refuse_anonymous(self, operation: Operation) -> None:
        """Without a key only a program on this machine may change or read the whole store, and none makes keys.

        What a key may is checked in the call itself. Raises Unauthenticated.
        """
        if not self.is_anonymous:
            return
        if operation.handle.startswith("access") and operation.writes:
            raise Unauthenticated("keys and grants are changed with a key only: use one, or the command line")
        if not self.is_direct and (operation.on is On.WHOLE or operation.handle == "transfer"):
            raise Unauthenticated(
                f"{operation.name} is about the whole store: from a web page, or under another host name, it needs an"
                " API key; without one, use the command line, or 127.0.0.1"
            )

    def resolve_user(self, user: str | None) -> str:
        chosen = user or self.user
        if chosen is None:
            raise InvalidInput("this key is for no user in particular: say whose memory, user=")
        return chosen

    def tool_context(self, user: str | None = None) -> ToolContext:
        """For the tools, which always work on one user's memory."""
        return ToolContext(self.memory, check_name(self.resolve_user(user), "user"), agent=self.agent, caller=self.id)


class Authenticator:
    """Authenticates every request, so that a revoked key stops working at once."""

    def __init__(self, memory: Limpet, *, user: str, is_local: bool, per_minute: int) -> None:
        self._memory = memory
        self._keys = memory.access.keys
        self._turns = OpenTurns()
        self._anonymous = Caller(memory, memory.config.audit.operator, user, self._turns)
        self._is_local = is_local
        self._rate = RateLimiter(per_minute)

    @property
    def needs_key(self) -> bool:
        """A server that others can reach always does; one that they cannot, from the store's first key on."""
        return not self._is_local or self._keys.required()

    def authenticate(self, headers: Mapping[str, str]) -> Caller:
        who = self.identify(headers)
        if who.memory is not self._memory:
            # A name is one key's only within its tenant.
            self._rate.acquire(f"{who.memory.principal.tenant} {who.name}")
        return who

    def identify(self, headers: Mapping[str, str]) -> Caller:
        """Without counting it: for a stream, which looks again and again whether its key still opens."""
        key = _read_key(headers.get("idempotency-key"))
        given = headers.get("authorization")
        if given is None:
            if self.needs_key or any(map(_FORWARDED.match, headers)):
                raise Unauthenticated(_KEY_REQUIRED)
            return replace(self._anonymous, idempotency_key=key, is_direct=_is_direct(headers))
        scheme, _, secret = given.partition(" ")
        if scheme.lower() != "bearer" or not secret.strip():
            raise Unauthenticated("send an API key as: Authorization: Bearer lim_…")
        acting = self._keys.acting(secret.strip())
        principal = acting.principal
        id_ = sha256(secret.strip().encode()).hexdigest()[:32]
        return Caller(acting, principal.name, principal.user, self._turns, principal.agent, key, id_)


class RateLimiter:
    """So many requests a minute for each key, as a bucket that fills up again."""

    def __init__(self, per_minute: int) -> None:
        self._most = float(per_minute)
        self._lock = Lock()
        self._buckets: dict[str, tuple[float, float]] = {}  # what is left, and when that was

    def acquire(self, name: str) -> None:
        if not self._most:
            return
        now = monotonic()
        with self._lock:
            left, then = self._buckets.get(name, (self._most, now))
            left = min(self._most, left + (now - then) * self._most / 60)
            if left < 1:
                wait = int((1 - left) * 60 / self._most) + 1
                raise Problem(
                    429,
                    "too_many_requests",
                    f"more than {self._most:.0f} requests a minute; continue in {wait} s",
                    headers={"Retry-After": str(wait)},
                )
            self._buckets[name] = (left - 1, now)
            if len(self._buckets) > 10_000:
                self._buckets = {key: found for key, found in self._buckets.items() if now - found[1] < _IDLE}


def _read_key(given: str | None) -> str | None:
    if given is None or PLAIN_KEY.fullmatch(given):
        return given
    try:
        if given.startswith(ENCODED_KEY):
            return check_name(unquote(given.removeprefix(ENCODED_KEY), errors="strict"), IDEMPOTENCY_KEY)
    except (UnicodeDecodeError, InvalidInput):
        pass
    raise InvalidInput(
        "an Idempotency-Key is 1 to 200 printable ASCII characters without spaces; any other is percent-encoded"
        f" behind {ENCODED_KEY}"
    )


def _is_direct(headers: Mapping[str, str]) -> bool:
    host = re.sub(r":\d+$", "", headers.get("host", ""))
    return "origin" not in headers and headers.get("sec-fetch-site", "none") == "none" and is_local(host)


@lru_cache(64)
def is_local(host: str) -> bool:
    """Whether nobody but this machine reaches a server at this address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


MAX_TURNS = 1000
MAX_AGE_S = 900.0


class TurnKey(NamedTuple):
    """Who began it, where, and under which Idempotency-Key."""

    caller: str
    session: str
    key: str


class OpenTurns:
    """The newest ones, for a quarter of an hour. A turn that is not here any more can be taken again."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._turns: OrderedDict[TurnKey, tuple[float, Turn]] = OrderedDict()

    def put(self, key: TurnKey, turn: Turn) -> None:
        now = monotonic()
        with self._lock:
            self._turns.pop(key, None)
            self._turns[key] = now, turn
            while self._turns and (len(self._turns) > MAX_TURNS or self._oldest() < now - MAX_AGE_S):
                self._turns.popitem(last=False)

    def take(self, key: TurnKey) -> Turn | None:
        """The turn, for one request alone."""
        with self._lock:
            began, turn = self._turns.pop(key, (0.0, None))
            return turn if began >= monotonic() - MAX_AGE_S else None

    def _oldest(self) -> float:
        return next(iter(self._turns.values()))[0]
