"""The tools on memory: search, save, update, promote, forget, list, and the user's notes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from limpet import Hit, Record
from limpet.api.runtime import make_redactor
from limpet.errors import InvalidInput
from limpet.model.times import to_iso
from limpet.notes.long_term import compute_version
from limpet.tools.arguments import arg
from limpet.tools.tool import AnyTool, ToolContext, ToolDefinition

_LONGEST = 20_000  # characters: what is longer is a document, not a memory
Kind = Literal["fact", "preference", "decision", "constraint", "failure", "fix", "command_result", "task_state"]


@dataclass(frozen=True, slots=True)
class MemoryRecord:
    """A record, as far as a model needs to know it."""

    id: str
    content: str
    type: str
    key: str | None
    tags: tuple[str, ...]
    pinned: bool
    updated_at: str | None


@dataclass(frozen=True, slots=True)
class MemoryHit:
    kind: str = arg("record, message or document")
    text: str = arg()
    id: str = arg("of the record or document; of the session a message is from")
    said_by: str | None = arg()
    at: str = arg()
    score: float = arg()


@dataclass(frozen=True, slots=True)
class MemorySearch:
    query: str = arg("A question or words.", least=1, most=_LONGEST)
    limit: int = arg("", 8, least=1, most=50)
    kind: Literal["all", "record", "message", "document"] = arg("", "all")


@dataclass(frozen=True, slots=True)
class MemorySearchResult:
    hits: tuple[MemoryHit, ...]


def search(whose: ToolContext, asked: MemorySearch) -> MemorySearchResult:
    kinds = None if asked.kind == "all" else [asked.kind]
    found = whose.hf.recall(asked.query, user=whose.user, k=asked.limit, kinds=kinds)
    return MemorySearchResult(tuple(_to_hit(hit) for hit in found))


@dataclass(frozen=True, slots=True)
class MemorySave:
    content: str = arg("One self-contained sentence, names instead of pronouns.", least=1, most=_LONGEST)
    key: str | None = arg("A stable name such as home_city: saving under it again replaces.", None, least=1, most=200)
    type: Kind = arg("", "fact")
    tags: tuple[str, ...] = arg("", (), most=20)
    pinned: bool = arg("Always in the prompt. Rarely.", False)


def save(whose: ToolContext, given: MemorySave) -> MemoryRecord:
    content = make_redactor(whose.hf.config)(given.content)
    record = whose.hf.remember(
        content, user=whose.user, key=given.key, type=given.type, tags=given.tags, pinned=given.pinned
    )
    return _to_record(record)


@dataclass(frozen=True, slots=True)
class MemoryUpdate:
    id: str = arg("", least=1, most=200)
    content: str | None = arg("", None, least=1, most=_LONGEST)
    tags: tuple[str, ...] | None = arg("", None, most=20)
    pinned: bool | None = arg("", None)


def update(whose: ToolContext, given: MemoryUpdate) -> MemoryRecord:
    changes: dict[str, Any] = {
        name: value for name in ("content", "tags", "pinned") if (value := getattr(given, name)) is not None
    }
    if not changes:
        raise InvalidInput("nothing to change: give content, tags or pinned")
    if "content" in changes:
        changes["content"] = make_redactor(whose.hf.config)(changes["content"])
    return _to_record(whose.hf.update(given.id, user=whose.user, **changes))


@dataclass(frozen=True, slots=True)
class MemoryPromote:
    id: str = arg("", least=1, most=200)


def promote(whose: ToolContext, given: MemoryPromote) -> MemoryRecord:
    return _to_record(whose.hf.promote(given.id, user=whose.user))


@dataclass(frozen=True, slots=True)
class MemoryForget:
    id: str | None = arg("", None, least=1, most=200)
    key: str | None = arg("", None, least=1, most=200)
    query: str | None = arg("Every memory that holds all these words.", None, least=1, most=_LONGEST)


@dataclass(frozen=True, slots=True)
class MemoryForgetResult:
    forgotten: int = arg("records removed, copies and what was made from them included")
    ids: tuple[str, ...] = arg()
    left: tuple[str, ...] = arg("where it is still said")


def forget(whose: ToolContext, given: MemoryForget) -> MemoryForgetResult:
    named = {name: value for name in ("id", "key", "query") if (value := getattr(given, name)) is not None}
    if len(named) != 1:
        raise InvalidInput("say what to forget by one of id, key or query")
    done = whose.hf.forget(**named, user=whose.user)
    return MemoryForgetResult(len(done.ids), tuple(done.ids), tuple(map(str, done.left)))


@dataclass(frozen=True, slots=True)
class MemoryList:
    type: str | None = arg("", None, least=1, most=200)
    tag: str | None = arg("", None, least=1, most=200)
    limit: int = arg("", 20, least=1, most=100)
    offset: int = arg("", 0, least=0, most=1_000_000)


@dataclass(frozen=True, slots=True)
class MemoryListResult:
    memories: tuple[MemoryRecord, ...]
    next_offset: int | None = arg("null at the end")


def list_memories(whose: ToolContext, asked: MemoryList) -> MemoryListResult:
    records = whose.hf.records(
        user=whose.user,
        types=[asked.type] if asked.type else None,
        tags=[asked.tag] if asked.tag else None,
        limit=asked.limit + 1,
        offset=asked.offset,
    )
    more = len(records) > asked.limit
    shown = tuple(_to_record(record) for record in records[: asked.limit])
    return MemoryListResult(shown, asked.offset + asked.limit if more else None)


@dataclass(frozen=True, slots=True)
class MemoryNotes:
    action: Literal["read", "append", "write"] = arg("write replaces the whole file: read it first.")
    text: str | None = arg("Markdown.", None, most=_LONGEST)
    version: str | None = arg("For write: as read.", None, least=1, most=100)


@dataclass(frozen=True, slots=True)
class MemoryNotesResult:
    text: str
    version: str = arg("for writing it")


def notes(whose: ToolContext, given: MemoryNotes) -> MemoryNotesResult:
    file = whose.hf.long_term(user=whose.user)
    if given.action == "read":
        return _to_notes(file.read())
    if given.text is None:
        raise InvalidInput(f"{given.action} needs text")
    text = make_redactor(whose.hf.config)(given.text)
    if given.action == "append":
        return _to_notes(file.append(text).text)
    if given.version is None and file.read():
        raise InvalidInput("there are notes already: read them, and write with their version and all that is to stay")
    return _to_notes(file.write(text, version=given.version or compute_version("")).text)


def _to_notes(text: str) -> MemoryNotesResult:
    return MemoryNotesResult(text, compute_version(text))


TOOLS: tuple[AnyTool, ...] = (
    ToolDefinition(
        "memory_search",
        "Search memory",
        "Search what was said and saved in all of this user's conversations. Use it before answering about the user, "
        "earlier talks or decisions, when the prompt does not tell already.",
        MemorySearch,
        MemorySearchResult,
        search,
        reads_only=True,
    ),
    ToolDefinition(
        "memory_save",
        "Save a memory",
        "Save something worth knowing in later conversations: stable facts, preferences, decisions, constraints, or "
        "when the user says to remember. Not small talk, guesses, secrets, what holds only now, or what is saved "
        "already: messages are kept anyway.",
        MemorySave,
        MemoryRecord,
        save,
    ),
    ToolDefinition(
        "memory_update",
        "Correct a memory",
        "Correct a saved memory that became wrong. Find its id with memory_search or memory_list.",
        MemoryUpdate,
        MemoryRecord,
        update,
        repeatable=True,
    ),
    ToolDefinition(
        "memory_promote",
        "Make a memory lasting",
        "Turn an episode (something that happened) into lasting knowledge.",
        MemoryPromote,
        MemoryRecord,
        promote,
        repeatable=True,
    ),
    ToolDefinition(
        "memory_forget",
        "Forget",
        "Remove memories for good, with their copies. Only when the user asks. Give one of id, key, query.",
        MemoryForget,
        MemoryForgetResult,
        forget,
        destroys=True,
        repeatable=True,
    ),
    ToolDefinition(
        "memory_list",
        "List memories",
        "List saved memories, newest first.",
        MemoryList,
        MemoryListResult,
        list_memories,
        reads_only=True,
    ),
    ToolDefinition(
        "memory_notes",
        "The user's notes",
        "Read or write MEMORY.md, the user's own page that stands in every prompt. Keep it short.",
        MemoryNotes,
        MemoryNotesResult,
        notes,
        destroys=True,
    ),
)


def _to_record(record: Record) -> MemoryRecord:
    return MemoryRecord(
        record.id,
        record.content,
        record.type.value,
        record.key,
        tuple(record.tags),
        record.pinned,
        to_iso(record.updated_at),
    )


def _to_hit(hit: Hit) -> MemoryHit:
    source = hit.source
    who = source.name or source.role
    return MemoryHit(source.kind.value, hit.text, source.id, who, source.created_at.isoformat(), round(hit.score, 4))
