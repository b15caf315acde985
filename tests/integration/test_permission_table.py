"""Every operation × every kind of principal × foreign names and ids, generated from the operation table.

A caller sees and changes their own scope only: in Python, over HTTP with an API key, and through MCP. Everything stored
carries the mark of its owner, so an answer or a row says whose it is. There are about 27,000 combinations: 2,800 for
each kind of principal in Python, 540 over HTTP and 200 through MCP.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from io import BytesIO
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

pytest.importorskip("starlette")
pytest.importorskip("mcp")

from limpet import Config, Context, Limpet, Session, SessionInfo
from limpet.api.wire import CONFIRMED, Form, invoke
from limpet.errors import LimpetError, SessionNotFound
from limpet.model.schema import to_json
from limpet.model.scope import Scope
from limpet.schedules.runner import RunHandlers, Runner
from limpet.security.operation import OPERATIONS, On, Operation
from limpet.server.custom_routes import list_routes
from limpet.sessions.repository import Sessions
from limpet.store.tables import TABLES
from limpet.tools import TOOLS
from tests.http_client import Asked, asked
from tests.integration.hostile_values import CALLS

pytestmark = pytest.mark.slow

SETTINGS = {"embedding.model": "none", "jobs.worker": False, "audit.enabled": False, "server.requests_per_minute": 0}
HOME, AWAY = "default", "acme"
BOB, AGENT = "bobsname77", "coder"  # the victim's user is named nowhere else; the agent is the attackers' own
MARK = re.compile(r"mark-[a-z]+-[a-z]+")


@dataclass
class World:
    """Two tenants, each with two users, two agents and shared memory; ids by what they are of."""

    memory: Limpet
    ids: dict[str, list[str]] = field(default_factory=dict)
    foreign: dict[str, str] = field(default_factory=dict)  # id -> mark

    def settle(self, tenant: str) -> None:
        memory = self.memory.tenant(tenant)
        for user in ("alice", BOB):
            self._talk(memory, user, f"mark-{tenant}-{'bob' if user == BOB else user}")
        for owner, whose in (
            ("coder", {"agent": AGENT}),
            ("secretary", {"agent": "secretary"}),
            ("shared", {"scope": "global"}),
        ):
            self._store(memory, f"mark-{tenant}-{owner}", whose)

    def _store(self, memory: Limpet, mark: str, whose: Mapping[str, Any]) -> None:
        record = memory.remember(f"a walrus {mark}", key="kept", metadata={"k": "v", "is": mark}, **whose)
        self._note("RECORD", record.id, mark)
        if "session" not in whose:
            memory.documents.add("note:1", f"a walrus document {mark}", **whose)

    def _talk(self, memory: Limpet, user: str, mark: str) -> None:
        session = memory.session("c", "1", user=user, agent=AGENT, metadata={"is": mark})
        self._note("SESSION", session.id, mark)
        session.append("user", f"a walrus {mark}")
        session.append("assistant", f"a walrus again {mark}")
        session.kv.set("k", mark)
        session.set_working_memory(mark)
        session.swap_summary(mark, 1, 0)
        session.add_usage(mark, input_tokens=1)
        self._store(memory, mark, {"user": user})
        self._store(memory, mark, {"session": session.id})
        memory.notes.long_term(user=user).write(f"# {mark}\n")
        memory.notes.add_turn(user, f"a walrus {mark}", "yes")
        plan = memory.schedules.create(user, goal=f"a walrus {mark}", cadence="every: 1h", agent=AGENT)
        self._note("SCHEDULE", plan.id, mark)
        made = memory.access.keys.create(mark, user=user)
        self._note("KEY", made.info.id, mark)
        memory.access.grant(user, "read:agent:nobody")

    def run_schedules(self) -> None:
        runtime = self.memory._runtime
        later = runtime.clock() + timedelta(hours=2)
        Runner(runtime.store, lambda: later, runtime.config.schedules, runtime.new_id).run(
            RunHandlers(lambda firing: firing.goal, None, lambda _schedule: None), until_idle=True
        )
        for plan in self.ids["SCHEDULE"]:
            for tenant in (HOME, AWAY):
                with suppress(LimpetError):
                    [run] = self.memory.tenant(tenant).schedules.runs(plan)
                    self._note("RUN", run.id, self.foreign[plan])

    def _note(self, kind: str, id: str, mark: str) -> None:
        self.ids.setdefault(kind, []).append(id)
        self.foreign[id] = mark

    def rows_of_others(self, allowed: set[str]) -> Counter[str]:
        """All rows that bear a mark, an id or the name of somebody whose memory may not be changed."""
        store: Any = self.memory._runtime.store
        rows = store.read(
            lambda tx: [
                f"{table.name} {row!r}"
                for table in TABLES
                if table.name not in ("audit", "jobs")
                for row in tx.db.execute_sql(f"SELECT {', '.join(table.columns)} FROM {table.name}")
            ]
        )
        ids = [id for id, mark in self.foreign.items() if mark not in allowed]
        strangers = re.compile("|".join([*ids, MARK.pattern, BOB]))
        found = Counter(row for row in rows if not set(strangers.findall(row)) <= allowed | {BOB})
        if f"mark-{HOME}-bob" not in allowed and f"mark-{AWAY}-bob" not in allowed:
            found += Counter(row for row in rows if BOB in row and row not in found)
        files = (
            path for path in Path(self.memory._runtime.folder or "").rglob("*") if path.suffix in (".md", ".jsonl")
        )
        texts = {str(path): path.read_text() for path in files}
        found.update(f"{path} {text}" for path, text in texts.items() if not set(MARK.findall(text)) <= allowed)
        return found


@dataclass(frozen=True)
class Kind:
    """A kind of principal: what it is bound to, and whose marks it may read and change."""

    bound: Mapping[str, Any]
    reads: frozenset[str]
    changes: frozenset[str]
    tenant: str = HOME
    has_key: bool = True

    def act(self, world: World) -> Limpet:
        bound = dict(self.bound)
        if bound.get("session"):
            bound["session"] = world.ids["SESSION"][0]
        return world.memory.tenant(self.tenant).acting(**bound)

    def create_key(self, world: World) -> str:
        bound = {name: value for name, value in self.bound.items() if name != "name"}
        return world.memory.tenant(self.tenant).access.keys.create("attacker", **bound).secret


def _marks(tenant: str, *names: str) -> frozenset[str]:
    return frozenset(f"mark-{tenant}-{name}" for name in names)


ALL = ("alice", "bob", "coder", "secretary", "shared")
KINDS = {
    "a user": Kind({"user": "alice"}, _marks(HOME, "alice"), _marks(HOME, "alice")),
    "an agent": Kind({"agent": AGENT}, _marks(HOME, "coder"), _marks(HOME, "coder")),
    "a user of an agent": Kind(
        {"user": "alice", "agent": AGENT}, _marks(HOME, "alice", "coder"), _marks(HOME, "alice")
    ),
    "a user with grants on an agent": Kind(
        {"user": "alice", "grants": [f"read:agent:{AGENT}", f"write:agent:{AGENT}"]},
        _marks(HOME, "alice", "coder"),
        _marks(HOME, "alice", "coder"),
    ),
    "one session of a user": Kind(
        {"user": "alice", "session": True}, _marks(HOME, "alice"), _marks(HOME, "alice"), has_key=False
    ),
    "nobody": Kind({"name": "nobody"}, frozenset(), frozenset(), has_key=False),
    "a reader of the tenant": Kind({"user": "carol", "grants": ["read:global"]}, _marks(HOME, *ALL), frozenset()),
    "an admin of another tenant": Kind(
        {"user": "alice", "grants": ["read:global", "write:global"]}, _marks(AWAY, *ALL), _marks(AWAY, *ALL), AWAY
    ),
}

# What takes a file or another object of this process is tried with one; the rest of the arguments are generated.
_OBJECTS = {"EXPORT": "export", "BACKUP": "backup.db", "RESTORE": "backup.db"}
# Arguments of an operation besides its sample: what makes a change, or another way to name what is meant.
_FURTHER: Mapping[str, list[dict[str, Any]]] = {
    "forget": [{"id": "RECORD"}, {"key": "kept"}, {"query": "walrus"}, {"query": "walrus", "everywhere": True}],
    "privacy.purge_session": [{"id": "SESSION"}],
    "privacy.purge_user": [{}],
    "privacy.purge_older": [{"days": 1}, {"days": 0, "everything": True}],
    "schedules.delete": [{"id": "SCHEDULE"}],
    "schedules.edit": [{"id": "SCHEDULE", "goal": "mine now"}, {"id": "SCHEDULE", "notify": "never"}],
    "schedules.run_output": [{"run_id": "RUN"}],
    "access.keys.revoke": [{"id_or_name": "KEY"}, {"id_or_name": f"mark-{HOME}-bob"}],
    "access.grants": [{}],
    "documents.text": [{"uri": "note:1"}],
    "documents.remove": [{"uri": "note:1"}],
    "remember": [{"content": "mine now"}, {"content": "mine now", "key": "kept"}, {"content": "mine", "id": "RECORD"}],
    "records.search_metadata": [{"key": "k", "value": "v"}, {"key": "is", "value": f"mark-{HOME}-bob"}],
    "graph.get": [{}, {"entity": "walrus"}],
    "notes.import_items": [{"delete_missing": True}],
    "admin.doctor": [{}, {"repair": True}],
    "session.context": [{"query": "walrus"}],
    "transfer.import_": [{"path": "missing.json"}],
}
_NAMED: Mapping[str, tuple[Any, ...]] = {
    "user": (None, BOB),
    "agent": (None, "secretary", AGENT),
    "session": (None, "SESSION"),
    "scope": (None, "global"),
}


def attempts(world: World, operation: Operation, tenant: str) -> Iterator[dict[str, Any]]:
    """Every way to call it that names somebody else, or nobody: each foreign name and each id that is not theirs."""
    samples = _FURTHER.get(operation.name) or [CALLS.get(operation.name, {})]
    names = [name for name in _NAMED if name in operation.arguments]
    if operation.handle.startswith("notes.long_term"):
        names = ["user"]
    required = {each.name for each in operation.parameters if each.is_required}
    handle = {"session_id": "SESSION"} if operation.handle.partition(".")[0] in ("session", "turn") else {}
    for sample in samples:
        plain = {name: value for name, value in {**handle, **sample}.items() if name not in names}
        for chosen in product(*(_NAMED[name][name in required :] for name in names)):
            given = {name: value for name, value in zip(names, chosen, strict=True) if value is not None}
            yield from _with_ids(world, {**plain, **given}, tenant)


def _with_ids(world: World, arguments: dict[str, Any], tenant: str) -> Iterator[dict[str, Any]]:
    kinds = [name for name, value in arguments.items() if type(value) is str and value in world.ids]
    for chosen in product(*(world.ids[arguments[name]] for name in kinds)):
        marks = [world.foreign[id] for id in chosen]
        if all(mark.endswith("alice") and tenant in mark for mark in marks) and marks:
            continue  # one's own
        yield {**arguments, **dict(zip(kinds, chosen, strict=True))}


def find_leaks(shown: str, arguments: Mapping[str, Any], kind: Kind) -> set[str]:
    """The marks in an answer that its reader may not see, but for those they sent themselves."""
    sent = set(MARK.findall(repr(arguments)))
    return set(MARK.findall(shown)) - kind.reads - sent


# What may be read may be made up again from what is there: a profile, the files that mirror records.
_DERIVE = ("profile", "notes.export_items")


class Watch:
    """Counts the calls, and finds what leaked or was changed."""

    def __init__(self, world: World, kind: Kind) -> None:
        self._world, self._kind = world, kind
        self._before = world.rows_of_others(set(kind.changes))
        self.calls = 0
        self.answered = 0
        self.faults: list[str] = []

    def see(self, what: str, arguments: Mapping[str, Any], shown: str, *, answered: bool) -> None:
        self.calls += 1
        self.answered += answered
        leaks = find_leaks(shown, arguments, self._kind)
        if leaks:
            self.faults.append(f"{what} {arguments} shows {sorted(leaks)}")

    def check_rows(self, what: str, operation: str) -> None:
        after = self._world.rows_of_others(set(self._kind.changes))
        if operation in _DERIVE and self._kind.reads > self._kind.changes:
            self._before = after
        if after != self._before:
            gone, new = self._before - after, after - self._before
            self.faults.append(f"{what} changed {[row[:200] for row in [*gone, *new]][:4]}")
            self._before = after


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with Limpet.open(tmp_path / "data", config=Config.load(overrides=SETTINGS)) as memory:
        made = World(memory)
        made.settle(HOME)
        made.settle(AWAY)
        made.run_schedules()
        memory.schedules.claim()  # the first claim repairs times that the runner above ran ahead of
        memory.jobs.run()
        yield made


def call(memory: Limpet, operation: Operation, arguments: dict[str, Any], folder: Path) -> object:
    """In Python. A session's operation is called on a handle as if the owner's had got into the caller's hands."""
    given = {name: _make_object(value, folder) for name, value in arguments.items()}
    if operation.on is not On.HANDLE or "session_id" not in given:
        return invoke(memory, operation, given)
    handle: Any = Session(memory._runtime, memory._authorizer, _load_info(memory, given.pop("session_id")))
    if operation.name in ("session.turn", "turn.reply"):
        return _take_turn(handle, operation.name)
    for part in operation.name.split(".")[1:-1]:
        handle = getattr(handle, part)
    member = getattr(handle, operation.method.__name__)
    return member(**given) if callable(member) else member


def _take_turn(session: Session, name: str) -> object:
    turn = session.turn("mine now")
    if name == "turn.reply":  # somebody else began it
        turn._open, turn._context = True, Context("", (), 0, {}, (), ())
        return turn.reply("mine now")
    with turn:
        return turn.context


def _load_info(memory: Limpet, id: str) -> SessionInfo:
    runtime: Any = memory._runtime
    for tenant in (HOME, AWAY):
        scope = Scope(tenant, session=id)
        found = runtime.store.read(lambda tx, scope=scope: Sessions(tx).get(scope))
        if found is not None:
            return found  # type: ignore[no-any-return]
    raise SessionNotFound(f"no session {id}")


def _make_object(value: Any, folder: Path) -> Any:
    if type(value) is str and value in _OBJECTS:
        return folder / _OBJECTS[value]
    return BytesIO(b"[]") if type(value) is str and value in ("FILE", "SOURCE") else value


@pytest.mark.parametrize("name", KINDS)
def test_python_shows_and_changes_only_own_scope(name: str, world: World, tmp_path: Path) -> None:
    kind = KINDS[name]
    me, watch = kind.act(world), Watch(world, kind)
    for operation in OPERATIONS.values():
        for arguments in attempts(world, operation, kind.tenant):
            try:
                answer = call(me, operation, dict(arguments), tmp_path)
            except (LimpetError, OSError) as error:
                watch.see(operation.name, arguments, str(error), answered=False)
            else:
                watch.see(operation.name, arguments, _show(answer), answered=True)
        watch.check_rows(operation.name, operation.name)
    assert not watch.faults, "\n".join(watch.faults)
    assert watch.calls > 2500, "the generator makes too few calls"


def _show(answer: object) -> str:
    return repr(answer.info) if isinstance(answer, Session) else repr(answer)


# These need what no attempt has: a lease, a secret, a file, a store without keys, Citus. Others are refused earlier.
_NEVER_ANSWERED = {
    "admin.distribute",
    *("schedules.finish", "access.keys.acting", "access.keys.allow_anonymous", "admin.restore", "transfer.import_"),
}
_LAST = (
    *("forget", "documents.remove", "schedules.delete", "session.new", "session.terminate"),
    *("privacy.purge_session", "session.clear", "session.delete", "privacy.purge_older", "privacy.purge_user"),
)


def test_operator_is_answered_where_others_are_refused(world: World, tmp_path: Path) -> None:
    """The attempts are real ones. Those that remove something come last, so that there is something for each."""
    silent = set()
    for operation in sorted(
        OPERATIONS.values(), key=lambda each: _LAST.index(each.name) + 1 if each.name in _LAST else 0
    ):
        answered = 0
        for arguments in attempts(world, operation, ""):
            with suppress(LimpetError):
                call(world.memory, operation, dict(arguments), tmp_path)
                answered += 1
        if not answered:
            silent.add(operation.name)
    assert silent == _NEVER_ANSWERED


def build_request(form: Form, arguments: Mapping[str, Any]) -> tuple[str, str, dict[str, Any], dict[str, Any] | None]:
    """The method, the address, the query and the body that say these arguments."""
    path, query, body = form.path, {}, {}
    for each in form.arguments:
        if each.name not in arguments:
            continue
        value = arguments[each.name]
        written = value if isinstance(value, (str, int, dict)) else to_json(value)
        if each.key in form.in_path:
            path = path.replace("{" + each.key + "}", quote(str(written), safe=""))
        elif each.key in form.in_query:
            query[each.key] = written if isinstance(written, str) else json.dumps(written)
        elif each.key in form.in_body:
            body[each.key] = written
    if form.name in CONFIRMED:
        body["confirm"] = body.get("id") or body.get("user") or "alice"
    return form.method, path, query, body if form.has_body else None


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind.has_key])
def test_http_shows_and_changes_only_own_scope(name: str, world: World) -> None:
    kind = KINDS[name]
    secret = kind.create_key(world)
    with asked(world.memory) as ask:
        me, watch = ask.keyed(secret), Watch(world, kind)
        for route in list_routes():
            operation = OPERATIONS.get(route.form.name)
            if operation is None:
                continue
            for arguments in _spread(list(attempts(world, operation, kind.tenant)), 16):
                method, path, query, body = build_request(route.form, arguments)
                if "{" in path:
                    continue  # it has a name in its address that this attempt does not give
                answer = me(method, path, body, params=query)
                assert answer.status_code < 500, (method, path, answer.text)
                shown = answer.text if method != "GET" or "export" not in path else ""
                watch.see(f"{method} {path}", arguments, shown, answered=answer.is_success)
            watch.check_rows(f"{route.form.method} {route.form.path}", operation.name)
    assert not watch.faults, "\n".join(watch.faults)
    assert watch.calls > 500, "the generator makes too few calls"


def _spread(values: list[dict[str, Any]], most: int) -> list[dict[str, Any]]:
    """Some of them, evenly: over HTTP each is much slower, and the check is the same."""
    return values if len(values) <= most else [values[at * len(values) // most] for at in range(most)]


class McpCaller:
    """Calls tools through the server's MCP endpoint, as a client of the protocol does."""

    _ACCEPT: Mapping[str, str] = {"accept": "application/json, text/event-stream"}

    def __init__(self, ask: Asked, user: str | None) -> None:
        self._ask, self._path = ask, "/mcp" if user is None else f"/mcp?user={user}"
        info = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        begun = self._post("initialize", info, {})
        self._headers = {"mcp-protocol-version": "2025-11-25"}
        self.refused = "" if begun.is_success else begun.text
        if begun.is_success:
            self._headers["mcp-session-id"] = begun.headers["mcp-session-id"]

    def call(self, tool: str, arguments: Mapping[str, Any]) -> str:
        return self.refused or str(self._post("tools/call", {"name": tool, "arguments": arguments}, self._headers).text)

    def read(self, uri: str) -> str:
        return self.refused or str(self._post("resources/read", {"uri": uri}, self._headers).text)

    def _post(self, method: str, params: Mapping[str, Any], headers: Mapping[str, str]) -> Any:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return self._ask("POST", self._path, body, headers={**self._ACCEPT, **headers})


def tool_attempts(world: World, name: str) -> Iterator[dict[str, Any]]:
    """Calls of a tool with each foreign id in each argument that takes one."""
    schema = TOOLS[name].arguments
    texts = {"goal": "mine now", "cadence": "every: 1h", "query": "walrus", "content": "mine now", "action": "read"}
    plain = {key: texts.get(key, "x") for key in schema.get("required", ())}
    kinds = {"schedule_runs": {"id": "SCHEDULE", "run": "RUN"}}.get(
        name, {"id": "SCHEDULE" if name.startswith("schedule") else "RECORD"}
    )
    named = [key for key in kinds if key in schema["properties"]]
    further: list[dict[str, Any]] = {
        "memory_forget": [{"query": "walrus"}, {"key": "kept"}],
        "memory_notes": [{"action": "read"}, {"action": "append", "text": "mine now"}],
        "memory_update": [{"content": "mine now"}],
        "schedule_edit": [{"goal": "mine now"}, {"state": "paused"}],
    }.get(name, [{}])
    for more in further:
        yield {**{key: value for key, value in plain.items() if key not in named}, **more}
        for chosen in product(*(world.ids[kinds[key]] for key in named)) if named else ():
            yield {**plain, **more, **dict(zip(named, chosen, strict=True))}


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind.has_key])
def test_mcp_shows_and_changes_only_own_scope(name: str, world: World) -> None:
    kind = KINDS[name]
    secret = kind.create_key(world)
    with asked(world.memory) as ask:
        watch = Watch(world, kind)
        for user in (None, BOB):
            caller = McpCaller(ask.keyed(secret), user)
            for tool in TOOLS:
                for arguments in tool_attempts(world, tool):
                    shown = caller.call(tool, arguments)
                    watch.see(f"{tool} of {user}", arguments, shown, answered='"isError":false' in shown)
                watch.check_rows(f"{tool} of {user}", tool)
            for session in world.ids["SESSION"]:
                shown = caller.read(f"limpet://sessions/{session}/transcript")
                watch.see(f"transcript of {session}", {}, shown, answered='"contents"' in shown)
    assert not watch.faults, "\n".join(watch.faults)
    assert watch.calls > 200, "the generator makes too few calls"
