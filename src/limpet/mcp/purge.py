"""Purging over MCP: the user is asked, by their own program where it can, else by a code the model has to show them."""

from __future__ import annotations

import hmac
import json
import secrets
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

import anyio
import mcp_types as types
from mcp.server import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from limpet import Receipt
from limpet.errors import InvalidInput, LimpetError
from limpet.model.constraints import Number
from limpet.model.dataclass import dataclass, replace
from limpet.model.schema import codec, to_json
from limpet.model.types import Id, Text
from limpet.model.values import format_count
from limpet.tools import ToolContext

RequestContext = ServerRequestContext[Any]
PurgeResponse = types.CallToolResult | types.InputRequiredResult

NAME = "memory_purge"
TITLE = "Purge memory for good"
DOC = (
    "Remove a session, what was said more than some days ago, or everything of this user, for good. The user is asked "
    "before anything goes; use it only when they want it. To drop single memories use memory_forget."
)
_ASKED_BY = "mcp"  # never the user's name: a receipt outlives what it is about
CODE_TTL_S = 300
_CONFIRM = "confirm"
_FORM: dict[str, Any] = {
    "type": "object",
    "properties": {_CONFIRM: {"type": "boolean", "title": "Purge it for good", "default": False}},
    "required": [_CONFIRM],
}


@dataclass(frozen=True, slots=True)
class PurgeArguments:
    what: Annotated[Literal["session", "user", "older"], "One session, everything of the user, or what is older."]
    session: Annotated[Id | None, "The session's id; for what = session."] = None
    days: Annotated[Annotated[float, Number(0, 100_000)] | None, "Older than so many days; for what = older."] = None
    everything: Annotated[bool, "For what = older: explicit and pinned memories too; needed for 0 days."] = False
    confirm: Annotated[Text | None, "The code an earlier call answered, once the user has agreed."] = None

    def __str__(self) -> str:
        if self.what == "session":
            return f"session {self.session} with everything that came of it"
        if self.what == "user":
            return "everything of this user"
        return f"{'everything' if self.everything else 'what was said'} more than {self.days:g} days ago"


@dataclass(frozen=True, slots=True)
class PurgeCount:
    kind: str
    number: int


@dataclass(frozen=True, slots=True)
class PurgeResult:
    state: Literal["purged", "declined", "unconfirmed"]
    says: str
    counts: Annotated[tuple[PurgeCount, ...], "What was removed, or would be."]
    confirm: Annotated[str | None, "For a second call with the same arguments, once the user has agreed."]
    receipt: Receipt | None


TOOL = types.Tool(
    name=NAME,
    title=TITLE,
    description=DOC,
    input_schema=codec(PurgeArguments).schema(None, "tool"),
    output_schema=codec(PurgeResult).schema(None, "output"),
    annotations=types.ToolAnnotations(
        title=TITLE, read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False
    ),
)


class ConfirmationCodes:
    """Each is for one caller and one purge, for five minutes, and once. Signed, so that asking keeps nothing."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._secret = secrets.token_bytes(32)
        self._clock = clock
        self._used: dict[str, int] = {}  # when each would have ended anyway

    def issue(self, whose: ToolContext, asked: PurgeArguments) -> str:
        return self._sign(int(self._clock()) + CODE_TTL_S, secrets.token_hex(6), whose, asked)

    def redeem(self, code: str, whose: ToolContext, asked: PurgeArguments) -> bool:
        """Whether it is good for this, now. It is used up by that."""
        ends, _, rest = code.partition("-")
        nonce, now = rest.partition("-")[0], self._clock()
        if not (ends.isascii() and ends.isdigit() and len(ends) < 20 and now < int(ends)):
            return False
        if not hmac.compare_digest(code.encode(), self._sign(int(ends), nonce, whose, asked).encode()):
            return False
        self._used = {used: over for used, over in self._used.items() if now < over}
        if nonce in self._used:
            return False
        self._used[nonce] = int(ends)
        return True

    def _sign(self, ends: int, nonce: str, whose: ToolContext, asked: PurgeArguments) -> str:
        what = json.dumps([ends, nonce, whose.identity, asked.what, asked.session, asked.days])
        digest = hmac.digest(self._secret, what.encode(), "sha256")[:18]
        return f"{ends}-{nonce}-{urlsafe_b64encode(digest).decode()}"


class PurgeTool:
    def __init__(self, codes: ConfirmationCodes | None = None) -> None:
        self._codes = codes or ConfirmationCodes()

    async def call(
        self, call: RequestContext, params: types.CallToolRequestParams, whose: ToolContext
    ) -> PurgeResponse:
        try:
            given = validate_arguments(codec(PurgeArguments).read(params.arguments or {}, ""))
            asked = replace(given, confirm=None)
            if given.confirm is not None:
                return await self._purge(whose, asked, given.confirm)
            if params.input_responses and _CONFIRM in params.input_responses:
                code = params.request_state or ""
                return await self._handle_answer(params.input_responses[_CONFIRM], whose, asked, code)
            counts = await anyio.to_thread.run_sync(count_purge, whose, asked)
            return await self._ask_user(call, whose, asked, counts)
        except LimpetError as error:
            return _error_result(f"{error.code}: {error}")

    async def _ask_user(
        self, call: RequestContext, whose: ToolContext, asked: PurgeArguments, counts: tuple[PurgeCount, ...]
    ) -> PurgeResponse:
        code = self._codes.issue(whose, asked)
        question = f"Purge {asked} for good? This would go: {format_counts(counts)}."
        if not _can_elicit(call):
            says = (
                f"Nothing was purged yet. Ask the user: {question} Only if they say yes, call again with the same "
                "arguments and confirm; it is good for five minutes."
            )
            return _to_result(PurgeResult("unconfirmed", says, counts, code, None))
        if call.protocol_version in MODERN_PROTOCOL_VERSIONS:
            form = types.ElicitRequestFormParams(message=question, requested_schema=_FORM)
            return types.InputRequiredResult(
                input_requests={_CONFIRM: types.ElicitRequest(params=form)}, request_state=code
            )
        try:
            said = await call.session.elicit_form(question, _FORM, related_request_id=call.request_id)
        except MCPError as error:
            return _error_result(f"the user could not be asked, so nothing was purged: {error}")
        return await self._handle_answer(said, whose, asked, code)

    async def _handle_answer(self, said: object, whose: ToolContext, asked: PurgeArguments, code: str) -> PurgeResponse:
        agreed = isinstance(said, types.ElicitResult) and said.action == "accept" and (said.content or {})
        if not agreed or agreed.get(_CONFIRM) is not True:
            return _to_result(PurgeResult("declined", "The user did not agree; nothing was purged.", (), None, None))
        return await self._purge(whose, asked, code)

    async def _purge(self, whose: ToolContext, asked: PurgeArguments, code: str) -> PurgeResponse:
        if not self._codes.redeem(code, whose, asked):
            raise InvalidInput(
                "this code is not good for this purge: it is of other arguments, used, or older than five minutes. "
                "Nothing was purged; call again without confirm"
            )
        return _to_result(await anyio.to_thread.run_sync(purge, whose, asked))


def _can_elicit(call: RequestContext) -> bool:
    able = call.session.client_capabilities
    asks = None if able is None else able.elicitation
    if asks is None or (asks.form is None and asks.url is not None):
        return False
    return call.protocol_version in MODERN_PROTOCOL_VERSIONS or call.session.can_send_request


def _to_result(outcome: PurgeResult) -> types.CallToolResult:
    data = to_json(outcome)
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], structured_content=data)


def _error_result(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)


def validate_arguments(asked: PurgeArguments) -> PurgeArguments:
    """What it names is there, and nothing that belongs to another kind of purge."""
    needed = {"session": "session", "older": "days"}.get(asked.what)
    for name in ("session", "days"):
        given = getattr(asked, name) is not None
        if given and name != needed:
            raise InvalidInput(f"what = {asked.what} takes no {name}")
        if not given and name == needed:
            raise InvalidInput(f"what = {asked.what} needs {name}")
    return asked


def count_purge(whose: ToolContext, asked: PurgeArguments) -> tuple[PurgeCount, ...]:
    return to_counts(_purge(whose, asked, dry_run=True).counts)


def purge(whose: ToolContext, asked: PurgeArguments) -> PurgeResult:
    receipt = _purge(whose, asked, asked_by=_ASKED_BY)
    said = "looked again, nothing of it is left" if receipt.verified else "something of it is left, see the receipt"
    gone = to_counts(receipt.counts)
    return PurgeResult("purged", f"Purged {asked}: {format_counts(gone)}; {said}.", gone, None, receipt)


def to_counts(given: Mapping[str, int]) -> tuple[PurgeCount, ...]:
    return tuple(PurgeCount(kind, number) for kind, number in given.items())


def format_counts(given: tuple[PurgeCount, ...]) -> str:
    return ", ".join(format_count(each.number, each.kind) for each in given) or "nothing"


def _purge(whose: ToolContext, asked: PurgeArguments, **more: Any) -> Receipt:
    if asked.what == "session":
        assert asked.session is not None
        return whose.memory.privacy.purge_session(asked.session, user=whose.user, **more)
    if asked.what == "user":
        return whose.memory.privacy.purge_user(whose.user, **more)
    assert asked.days is not None
    return whose.memory.privacy.purge_older(whose.user, asked.days, everything=asked.everything, **more)
