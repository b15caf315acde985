"""A user's or tenant's whole memory in tests: made up, taken away, and exports compared byte by byte."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from limpet import FilePart, ImagePart, Limpet, Schedule, Session, TextPart, ToolCall
from limpet.documents.repository import Documents
from limpet.knowledge.repository import Records
from limpet.lifecycle.transfer_repository import Transfers
from limpet.model.schedule import NotifyPolicy, Run, RunStatus, ScheduleState
from limpet.model.scope import Level, Partition, Scope
from limpet.model.session import SessionStatus
from limpet.schedules.repository import Schedules
from limpet.store.files import owner_folder

START = datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)
USERS = ("alice", "bob/ü")

# Anything but what no store keeps.
texts = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=40)
words = st.sampled_from(("My sister Anna lives in Porto.", "I prefer tea.", "walrus", "日本語", "### user — x", '"\\'))
said = st.one_of(words, texts)
users = st.sampled_from(USERS)
times = st.integers(0, 10**9).map(lambda seconds: START + timedelta(seconds=seconds))
values = st.recursive(st.none() | st.booleans() | st.integers(-5, 5) | texts, lambda inner: st.lists(inner, max_size=2))
labels = st.dictionaries(st.sampled_from(("a", "b.c", 'q"')), texts.filter(bool), max_size=2)

KINDS = (
    "say, say, call, parts, kv, summary, usage, clear, new, end, learn, remember, remember, keyed, in chat, global, "
    "agent, document, notes, expire, schedule, schedule, forget"
)

Deed = Callable[[Limpet], None]


def chat(memory: Limpet, user: str, number: int) -> Session:
    return memory.session("telegram", f"chat:{number}", "thread" if number == 2 else None, user=user)


@st.composite
def deeds(draw: st.DrawFn) -> Deed:
    """Something somebody does to a store."""
    user, number = draw(users), draw(st.integers(0, 2))
    kind = draw(st.sampled_from(KINDS.split(", ")))
    one, two, moment, many = draw(said), draw(said), draw(times), draw(labels)
    value = draw(values)

    def do(memory: Limpet) -> None:
        _do(memory, kind, user, number, one, two or "more", moment, many, value)

    return do


def _do(
    memory: Limpet,
    kind: str,
    user: str,
    number: int,
    one: str,
    two: str,
    moment: datetime,
    many: dict[str, str],
    value: Any,
) -> None:
    session = chat(memory, user, number)
    if kind in ("say", "call", "parts", "summary") and session.info.state is SessionStatus.PAUSED:
        session.resume()
    filled = one if one.strip() else "filled"
    match kind:
        case "say":
            session.append("user", one, created_at=moment, metadata={"v": value}, name="Ann" if number else None)
        case "call":
            session.append("assistant", one, tool_calls=[ToolCall("c", "look", {"at": value, "é": one})])
            session.append("tool", two, tool_call_id="c", is_error=bool(number))
        case "parts":
            session.append("user", [TextPart(one), ImagePart("https://x/y", alt=two), FilePart("f", name=one)])
        case "kv":
            session.set_working_memory(two)
            session.kv.set(f"k{len(one) % 3}", value)
        case "summary":
            session.set_summary(filled, session.append("user", two).sequence)
        case "usage":
            session.add_usage(f"model {number}", input_tokens=len(one), cost=len(two) / 7)
        case "clear":
            session.clear()
        case "new":
            session.update_metadata({"m": value})
            session.new()
        case "end":
            (session.pause if number else session.terminate)()
        case "learn":
            session.learn()
        case "remember":
            record = memory.remember(filled, user=user, tags=list(many), metadata=many, valid_from=moment)
            memory.records.update(record.id, content=f"{filled} and {two}", pinned=bool(number))
        case "keyed":
            memory.remember(filled, user=user, key=f"key_{number}", title=two, ttl=len(one) + 1)
        case "in chat":
            memory.remember(filled, session=session.id, layer="working", references=["r"])
        case "global":
            memory.remember(filled, scope="global", confidence=0.25)
        case "agent":
            memory.documents.add("doc:of-agent", filled, agent="coder")
            memory.remember(filled, agent="coder", layer="procedural", type="fix")
        case "document":
            memory.documents.add(f"doc:{number}.md", f"# {filled}\n\n{two} " * 30, user=user, metadata=many)
        case "notes":
            if memory._runtime.folder is not None:
                memory.notes.add_turn(user, filled, two, moment)
                memory.notes.long_term(user=user).append(filled)
        case "schedule":
            scheduled(memory, session, filled, one, moment, value)
        case "expire":
            session.expire_in(timedelta(days=number + 1))
        case _:
            found = memory.records(user=user, limit=1)
            if found:
                memory.forget(id=found[0].id)


def scheduled(memory: Limpet, session: Session, goal: str, said: str, moment: datetime, value: Any) -> Schedule:
    """A schedule that has been through something, and three runs of it."""
    many = len(said)
    where: Any = {"session": session.id, "metadata": {"v": value}}
    made = memory.schedules.create(session.user, goal=goal, cadence="every: 90m", timezone="Europe/Lisbon", **where)
    state, firing = list(ScheduleState)[many % 5], moment if many % 2 else None
    status = RunStatus.FAILED if many % 3 else RunStatus.OK
    times: dict[str, Any] = dict.fromkeys(("next_run_at", "due_at", "skipped_from", "ends_at"), firing)
    times |= dict.fromkeys(("last_due_at", "last_run_at", "skipped_to", "settled_at"), moment)
    lived = replace(
        made,
        **times,
        state=state,
        notify=list(NotifyPolicy)[many % 3],
        last_status=status,
        attempts=many,
        failures=many + 1,
        run_count=many + 2,
        max_runs=many or None,
    )
    runs = [
        Run(
            *(
                memory._runtime.new_id(),
                made.id,
                moment,
                moment + timedelta(microseconds=1),
                moment + timedelta(seconds=2),
            ),
            *(status, number, many, goal[:9]),
            turns=number,
            cost=many / 7,
            error=said if status is RunStatus.FAILED else None,
            to_notify=bool(number),
            notified=number == 2,
        )
        for number in range(3)
    ]

    def put(tx: Any) -> None:
        Schedules(tx).replace(lived.scope, lived)
        for run in runs:
            Schedules(tx).add_run(lived, run, said * (1 + run.turns * 100))

    memory._runtime.store.write(put)
    return lived


def remove_everything(memory: Limpet) -> None:
    """All of a tenant: its users by a purge each, and what belongs to agents and to everybody by its verbs."""
    store, scope = memory._runtime.store, Scope(memory._tenant)
    for space in store.read(lambda tx: Transfers(tx).find_partitions(scope)):
        if space.level is Level.USER:
            receipt = memory.privacy.purge_user(space.owner)
            assert receipt.verified, receipt.left

    def rest(tx: Any) -> list[Partition]:
        for record_id in Transfers(tx).record_ids(scope, "", 10_000):
            Records(tx).delete(scope, record_id)
        for state in Transfers(tx).documents(scope, "", 10_000):
            assert Documents(tx).delete(state.space, state.document.id).done
        return list(Transfers(tx).find_partitions(scope))

    for space in store.write(rest):
        assert space.level is not Level.USER, f"{space} was purged"
        if memory._runtime.folder is not None:
            for file in owner_folder(memory._runtime.folder, space).glob("*.md"):
                file.unlink()
    assert store.read(lambda tx: dict(Transfers(tx).totals(scope))) == {"sessions": 0, "messages": 0, "records": 0}
    assert memory.schedules.count() == 0


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


def rewritten(folder: Path, kind: str, change: Callable[[list[bytes]], list[bytes]]) -> None:
    """Change the lines of a file, and the manifest so that nobody can tell."""
    path = folder / "data" / f"{kind}.jsonl"
    path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))
    manifest = json.loads((folder / "manifest.json").read_text())
    data = path.read_bytes()
    for entry in manifest["files"]:
        if entry["path"] == f"data/{kind}.jsonl":
            entry |= {"lines": data.count(b"\n"), "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    (folder / "manifest.json").write_text(json.dumps(manifest))


def edited(folder: Path, kind: str, line: int, **fields: Any) -> None:
    """Change some fields of one line."""

    def change(lines: list[bytes]) -> list[bytes]:
        value = json.loads(lines[line]) | fields
        lines[line] = json.dumps(value).encode() + b"\n"
        return lines

    rewritten(folder, kind, change)
