"""The tools on memory: search, save, update, promote, forget, list, and the user's notes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from limpet import Hit, Record
from limpet.api.parameters import RecordId
from limpet.context.quote import format_speaker
from limpet.errors import InvalidInput
from limpet.model.dataclass import dataclass
from limpet.model.lookalikes import drop_invisible
from limpet.model.record import RecordType
from limpet.model.types import Count, HitCount, Key, Label, PageLimit, Tags, Text, Words
from limpet.model.values import to_iso
from limpet.notes.user_notes import compute_version
from limpet.security.mask import make_mask
from limpet.tools.tool import AnyTool, ToolContext, ToolDefinition


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
    kind: Annotated[str, "record, message or document"]
    text: str
    id: Annotated[str, "of the record or document; of the session a message is from"]
    said_by: str | None
    at: str
    score: float


@dataclass(frozen=True, slots=True)
class MemorySearch:
    query: Annotated[Words, "A question or words."]
    limit: HitCount = 8
    kind: Literal["all", "record", "message", "document"] = "all"


@dataclass(frozen=True, slots=True)
class MemorySearchResult:
    hits: tuple[MemoryHit, ...]


def search(whose: ToolContext, asked: MemorySearch) -> MemorySearchResult:
    kinds = None if asked.kind == "all" else [asked.kind]
    found = whose.memory.recall(asked.query, user=whose.user, k=asked.limit, kinds=kinds)
    return MemorySearchResult(tuple(_to_hit(hit) for hit in found))


@dataclass(frozen=True, slots=True)
class MemorySave:
    content: Annotated[Words, "One sentence with names, not pronouns."]
    key: Annotated[Key | None, "A name such as home_city: saving it again replaces."] = None
    type: RecordType = RecordType.FACT
    tags: Tags = ()
    pinned: Annotated[bool, "In every prompt. Rarely."] = False


def save(whose: ToolContext, given: MemorySave) -> MemoryRecord:
    record = whose.memory.remember(
        given.content,
        user=whose.user,
        key=given.key,
        type=given.type,
        tags=given.tags,
        pinned=given.pinned,
        source=whose.session,
    )
    return _to_record(record)


@dataclass(frozen=True, slots=True)
class MemoryUpdate:
    id: Annotated[RecordId, ""]
    content: Words | None = None
    tags: Tags | None = None
    pinned: bool | None = None


def update(whose: ToolContext, given: MemoryUpdate) -> MemoryRecord:
    changes: dict[str, Any] = {
        name: value for name in ("content", "tags", "pinned") if (value := getattr(given, name)) is not None
    }
    if not changes:
        raise InvalidInput("nothing to change: give content, tags or pinned")
    return _to_record(whose.memory.records.update(given.id, user=whose.user, **changes))


@dataclass(frozen=True, slots=True)
class MemoryPromote:
    id: Annotated[RecordId, ""]


def promote(whose: ToolContext, given: MemoryPromote) -> MemoryRecord:
    return _to_record(whose.memory.records.promote(given.id, user=whose.user))


@dataclass(frozen=True, slots=True)
class MemoryForget:
    id: Annotated[RecordId | None, ""] = None
    key: Key | None = None
    query: Annotated[Words | None, "All these words."] = None
    everywhere: bool = False
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class MemoryForgetResult:
    forgotten: Annotated[int, "records removed, copies and what was made from them included"]
    ids: tuple[str, ...]
    left: Annotated[tuple[str, ...], "where it is still said"]
    counts: Annotated[Mapping[str, int], "removed or changed, by kind"]
    sentences: Annotated[tuple[str, ...], "of a dry run: what would go from messages"]


def forget(whose: ToolContext, given: MemoryForget) -> MemoryForgetResult:
    named = {name: value for name in ("id", "key", "query") if (value := getattr(given, name)) is not None}
    if len(named) != 1:
        raise InvalidInput("say what to forget by one of id, key or query")
    done = whose.memory.forget(**named, user=whose.user, everywhere=given.everywhere, dry_run=given.dry_run)
    return MemoryForgetResult(len(done.ids), done.ids, done.left, done.counts, done.sentences)


@dataclass(frozen=True, slots=True)
class MemoryList:
    type: Label | None = None
    tag: Label | None = None
    limit: PageLimit = 20
    offset: Count = 0


@dataclass(frozen=True, slots=True)
class MemoryListResult:
    memories: tuple[MemoryRecord, ...]
    next_offset: Annotated[int | None, "null at the end"]


def list_memories(whose: ToolContext, asked: MemoryList) -> MemoryListResult:
    records = whose.memory.records(
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
    action: Annotated[Literal["read", "append", "write"], "write replaces the file: read first."]
    text: Annotated[Text | None, "Markdown."] = None
    version: Annotated[Text | None, "Of the text read."] = None


@dataclass(frozen=True, slots=True)
class MemoryNotesResult:
    text: str
    version: Annotated[str, "for writing it"]


def notes(whose: ToolContext, given: MemoryNotes) -> MemoryNotesResult:
    file = whose.memory.notes.long_term(user=whose.user)
    if given.action == "read":
        return _to_notes(file.read())
    if given.text is None:
        raise InvalidInput(f"{given.action} needs text")
    text = make_mask(enabled=whose.memory.config.learn.secrets)(given.text)
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
        "Search what was said and saved in all this user's conversations. Use it before answering about the user or "
        "earlier talks, unless the prompt tells.",
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
        "Correct a saved memory. memory_search and memory_list give ids.",
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
        "Remove memories and their copies, only when the user asks. Give one of id, key, query.",
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
        "Read or write MEMORY.md, the user's own page in every prompt. Keep it short.",
        MemoryNotes,
        MemoryNotesResult,
        notes,
        destroys=True,
    ),
)


def _to_record(record: Record) -> MemoryRecord:
    return MemoryRecord(
        record.id,
        drop_invisible(record.content),
        record.type.value,
        record.key,
        tuple(record.tags),
        record.pinned,
        to_iso(record.updated_at),
    )


def _to_hit(hit: Hit) -> MemoryHit:
    source = hit.source
    who = format_speaker(source.role, source.name) if source.role or source.name else None
    text = drop_invisible(hit.text)
    return MemoryHit(source.kind.value, text, source.id, who, source.created_at.isoformat(), round(hit.score, 4))
