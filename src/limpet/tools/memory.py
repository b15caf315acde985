"""The tools on memory: search, save, update, promote, forget, list, and the user's notes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from limpet import Hit, Record
from limpet.api import parameters as arg
from limpet.context.quote import format_speaker
from limpet.errors import InvalidInput
from limpet.model.dataclass import dataclass
from limpet.model.lookalikes import drop_invisible
from limpet.model.note import compute_version
from limpet.model.record import RecordType
from limpet.model.types import Count, HitCount, Key, Label, PageLimit, Tags, Text, Words
from limpet.model.values import to_iso
from limpet.tools.tool import ToolContext, tool


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
class MemorySearchResult:
    hits: tuple[MemoryHit, ...]


@tool(
    "memory_search",
    "Search memory",
    "Search what was said and saved in all this user's conversations. Use it before answering about the user or "
    "earlier talks, unless the prompt tells.",
    reads_only=True,
)
def search(
    whose: ToolContext,
    query: Annotated[Words, "A question or words."],
    limit: HitCount = 8,
    kind: Literal["all", "record", "message", "document"] = "all",
) -> MemorySearchResult:
    found = whose.memory.recall(query, user=whose.user, k=limit, kinds=None if kind == "all" else [kind])
    return MemorySearchResult(tuple(_to_hit(hit) for hit in found))


@tool(
    "memory_save",
    "Save a memory",
    "Save something worth knowing in later conversations: stable facts, preferences, decisions, constraints, or "
    "when the user says to remember. Not small talk, guesses, secrets, what holds only now, or what is saved "
    "already: messages are kept anyway.",
)
def save(
    whose: ToolContext,
    content: Annotated[Words, "One sentence with names, not pronouns."],
    key: Annotated[Key | None, "A name such as home_city: saving it again replaces."] = None,
    type: RecordType = RecordType.FACT,
    tags: Tags = (),
    pinned: Annotated[bool, "In every prompt. Rarely."] = False,
) -> MemoryRecord:
    record = whose.memory.remember(
        content, user=whose.user, key=key, type=type, tags=tags, pinned=pinned, source=whose.session
    )
    return _to_record(record)


@tool(
    "memory_update",
    "Correct a memory",
    "Correct a saved memory. memory_search and memory_list give ids.",
    repeatable=True,
)
def update(
    whose: ToolContext,
    id: Annotated[arg.RecordId, ""],
    content: Words | None = None,
    tags: Tags | None = None,
    pinned: bool | None = None,
) -> MemoryRecord:
    given: dict[str, Any] = {"content": content, "tags": tags, "pinned": pinned}
    changes = {name: value for name, value in given.items() if value is not None}
    if not changes:
        raise InvalidInput("nothing to change: give content, tags or pinned")
    return _to_record(whose.memory.records.update(id, user=whose.user, **changes))


@tool(
    "memory_promote",
    "Make a memory lasting",
    "Turn an episode (something that happened) into lasting knowledge.",
    repeatable=True,
)
def promote(whose: ToolContext, id: Annotated[arg.RecordId, ""]) -> MemoryRecord:
    return _to_record(whose.memory.records.promote(id, user=whose.user))


@dataclass(frozen=True, slots=True)
class MemoryForgetResult:
    forgotten: Annotated[int, "records removed, copies and what was made from them included"]
    ids: tuple[str, ...]
    left: Annotated[tuple[str, ...], "where it is still said"]
    counts: Annotated[Mapping[str, int], "removed or changed, by kind"]
    sentences: Annotated[tuple[str, ...], "of a dry run: what would go from messages"]


@tool(
    "memory_forget",
    "Forget",
    "Remove memories and their copies, only when the user asks. Give one of id, key, query.",
    destroys=True,
    repeatable=True,
)
def forget(
    whose: ToolContext,
    id: Annotated[arg.RecordId | None, ""] = None,
    key: Key | None = None,
    query: Annotated[Words | None, "All these words."] = None,
    everywhere: bool = False,
    dry_run: bool = False,
) -> MemoryForgetResult:
    if [id, key, query].count(None) != 2:
        raise InvalidInput("say what to forget by one of id, key or query")
    done = whose.memory.forget(id, key=key, query=query, user=whose.user, everywhere=everywhere, dry_run=dry_run)
    return MemoryForgetResult(len(done.ids), done.ids, done.left, done.counts, done.sentences)


@dataclass(frozen=True, slots=True)
class MemoryListResult:
    memories: tuple[MemoryRecord, ...]
    next_offset: Annotated[int | None, "null at the end"]


@tool("memory_list", "List memories", "List saved memories, newest first.", reads_only=True)
def list_memories(
    whose: ToolContext, type: Label | None = None, tag: Label | None = None, limit: PageLimit = 20, offset: Count = 0
) -> MemoryListResult:
    types, tags = [type] if type else None, [tag] if tag else None
    records = whose.memory.records(user=whose.user, types=types, tags=tags, limit=limit + 1, offset=offset)
    shown = tuple(_to_record(record) for record in records[:limit])
    return MemoryListResult(shown, offset + limit if len(records) > limit else None)


@dataclass(frozen=True, slots=True)
class MemoryNotesResult:
    text: str
    version: Annotated[str, "for writing it"]


@tool(
    "memory_notes",
    "The user's notes",
    "Read or write MEMORY.md, the user's own page in every prompt. Keep it short.",
    destroys=True,
)
def notes(
    whose: ToolContext,
    action: Annotated[Literal["read", "append", "write"], "write replaces the file: read first."],
    text: Annotated[Text | None, "Markdown."] = None,
    version: Annotated[Text | None, "Of the text read."] = None,
) -> MemoryNotesResult:
    file = whose.memory.notes.long_term(user=whose.user)
    if action == "read":
        return _to_notes(file.read())
    if text is None:
        raise InvalidInput(f"{action} needs text")
    if action == "append":
        return _to_notes(file.append(text, mask_secrets=True).text)
    if version is None and file.read():
        raise InvalidInput(
            "there are notes already: read them, and write with their version and everything that is to stay"
        )
    return _to_notes(file.write(text, version=version or compute_version(""), mask_secrets=True).text)


def _to_notes(text: str) -> MemoryNotesResult:
    return MemoryNotesResult(text, compute_version(text))


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
