"""Claude's export: ``conversations.json`` with lists of messages, ``projects`` with documents, ``memories.json``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from limpet.errors import InvalidInput
from limpet.lifecycle.formats.blocks import Spoken, spoken
from limpet.lifecycle.formats.contents import (
    Found,
    FoundDocument,
    FoundRecord,
    FoundSession,
    clean,
    dicts,
    key_of,
    name_of,
    when,
)
from limpet.lifecycle.formats.source import Source, values
from limpet.model.message import FilePart, Message, TextPart
from limpet.model.transfer import Skipped

NAME = "claude"
_ROLES = {"human": "user", "user": "user", "assistant": "assistant", "system": "system"}


def read(source: Source) -> Iterator[Found]:
    for name in source.names:
        path = PurePosixPath(name)
        if path.suffix != ".json":
            yield Skipped(name, "it is no JSON")
        elif path.stem.rstrip("-0123456789") == "users":
            yield Skipped(name, "it is about the account, not memory")
        else:
            with source.open(name) as file:
                for place, value in values(file, name):
                    yield from _entry(place, value)


def _entry(place: str, value: object) -> Iterator[Found]:
    if not isinstance(value, Mapping):
        yield Skipped(place, "it is no object")
    elif isinstance(value.get("chat_messages"), list):
        yield from _conversation(place, value)
    elif "conversations_memory" in value or "project_memories" in value:
        yield from _memories(place, value)
    elif isinstance(value.get("docs"), list) or "prompt_template" in value:
        yield from _project(place, value)
    else:
        yield Skipped(place, "it is neither a conversation, nor a project, nor a memory")


def _conversation(place: str, value: Mapping[str, Any]) -> Iterator[Found]:
    id_ = name_of(value.get("uuid"))
    if id_ is None:
        yield Skipped(place, "it has no uuid")
        return
    left: Counter[str] = Counter()
    messages: list[Message] = []
    created = when(value.get("created_at"))
    for number, entry in enumerate(dicts(value.get("chat_messages"))):
        moment = when(entry.get("created_at")) or (messages[-1].created_at if messages else created)
        key = entry.get("uuid") or f"{id_}:{number}"
        for part, one in enumerate(_spoken(entry, left)):
            try:
                messages.append(
                    Message.new(
                        one.role,
                        one.content,
                        name=one.name,
                        tool_calls=one.calls,
                        tool_call_id=one.call_id,
                        is_error=one.is_error,
                        created_at=moment,
                        idempotency_key=key_of(NAME, key, part),
                    )
                )
            except InvalidInput as error:
                left[f"it cannot be kept: {error}"[:200]] += 1
    about = {"title": clean(value.get("name")), "summary": clean(value.get("summary"))[:10_000]}
    metadata = {name: text for name, text in about.items() if text}
    yield FoundSession(id_, tuple(messages), created, when(value.get("updated_at")), metadata)
    yield from (Skipped(place, f"left out {number:,}: {reason}") for reason, number in left.items())


def _spoken(entry: Mapping[str, Any], left: Counter[str]) -> list[Spoken]:
    role = _ROLES.get(str(entry.get("sender")))
    if role is None:
        left[f"of the unknown sender {str(entry.get('sender'))[:40]!r}"] += 1
        return []
    notes: list[str] = []
    content = entry.get("content")
    found = list(spoken(role, content or clean(entry.get("text")), notes))
    left.update(notes)
    files = _files(entry)
    if files and not found:
        found = [Spoken(role)]
    if files:
        found[0].parts += files
    if not found and not notes:
        left["empty"] += 1
    return found


def _files(entry: Mapping[str, Any]) -> list[Any]:
    """What was attached: its name, and its text where Claude had read it."""
    parts: list[Any] = []
    for file in [*dicts(entry.get("attachments")), *dicts(entry.get("files"))]:
        name = clean(file.get("file_name")) or clean(file.get("file_uuid"))
        if name:
            uri = f"claude-file:{clean(file.get('file_uuid')) or name}"
            parts.append(FilePart(uri, name_of(file.get("file_type")), name[:1000]))
        text = clean(file.get("extracted_content"))
        if text.strip():
            parts.append(TextPart(text))
    return parts


def _memories(place: str, value: Mapping[str, Any]) -> Iterator[Found]:
    account = clean(value.get("account_uuid"))
    told = {"": value.get("conversations_memory")}
    projects = value.get("project_memories")
    told |= projects if isinstance(projects, Mapping) else {}
    for project, memory in told.items():
        text = clean(memory)
        if not text.strip():
            continue
        title = "What Claude kept of a project" if project else "What Claude kept of all conversations"
        about = {"project": clean(project)} if project else {}
        yield FoundRecord(f"memory:{account}:{project}", text, title=title, tags=(NAME,), metadata=about)
    if not any(clean(memory).strip() for memory in told.values()):
        yield Skipped(place, "it holds no memory")


def _project(place: str, value: Mapping[str, Any]) -> Iterator[Found]:
    id_, name = clean(value.get("uuid")) or place, clean(value.get("name"))
    about = {"project": name} if name else {}
    instructions = "\n\n".join(filter(None, (clean(value.get("description")), clean(value.get("prompt_template")))))
    if instructions.strip():
        title = f"Instructions of {name}" if name else "Instructions"
        yield FoundDocument(f"claude-project:{id_}/instructions.md", instructions, title[:500], about)
    for number, doc in enumerate(dicts(value.get("docs"))):
        called, text = clean(doc.get("filename")) or str(number), clean(doc.get("content"))
        if text.strip():
            yield FoundDocument(f"claude-project:{id_}/{called}", text, called[:500], about)
        else:
            yield Skipped(f"{place}, docs[{number}]", "it is empty")
