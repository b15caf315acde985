"""Claude's export: ``conversations.json`` with lists of messages, ``projects`` with documents, ``memories.json``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from limpet.errors import InvalidInput
from limpet.lifecycle.formats.contents import (
    ForeignDocument,
    ForeignItem,
    ForeignRecord,
    ForeignSession,
    MessageDraft,
    clean_name,
    clean_text,
    iter_objects,
    make_key,
    split_messages,
    try_parse_time,
)
from limpet.lifecycle.formats.source import ImportSource
from limpet.model.message import FilePart, Message, TextPart
from limpet.model.transfer import ImportSkip

NAME = "claude"
_ROLES = {"human": "user", "user": "user", "assistant": "assistant", "system": "system"}


def read(source: ImportSource) -> Iterator[ForeignItem]:
    for name in source.names:
        path = PurePosixPath(name)
        if path.suffix != ".json":
            yield ImportSkip(name, "it is not valid JSON")
        elif path.stem.rstrip("-0123456789") == "users":
            yield ImportSkip(name, "it is about the account, not memory")
        else:
            for place, value in source.iter_values(name):
                yield from _read_entry(place, value)


def _read_entry(place: str, value: object) -> Iterator[ForeignItem]:
    if not isinstance(value, Mapping):
        yield ImportSkip(place, "it is not an object")
    elif isinstance(value.get("chat_messages"), list):
        yield from _read_conversation(place, value)
    elif "conversations_memory" in value or "project_memories" in value:
        yield from _read_memories(place, value)
    elif isinstance(value.get("docs"), list) or "prompt_template" in value:
        yield from _read_project(place, value)
    else:
        yield ImportSkip(place, "it is neither a conversation, nor a project, nor a memory")


def _read_conversation(place: str, value: Mapping[str, Any]) -> Iterator[ForeignItem]:
    id_ = clean_name(value.get("uuid"))
    if id_ is None:
        yield ImportSkip(place, "it has no uuid")
        return
    left: Counter[str] = Counter()
    messages: list[Message] = []
    created = try_parse_time(value.get("created_at"))
    for number, entry in enumerate(iter_objects(value.get("chat_messages"))):
        moment = try_parse_time(entry.get("created_at")) or (messages[-1].created_at if messages else created)
        key = entry.get("uuid") or f"{id_}:{number}"
        for part, one in enumerate(_parse_messages(entry, left)):
            try:
                messages.append(one.build(make_key(NAME, key, part), moment))
            except InvalidInput as error:
                left[f"it cannot be kept: {error}"[:200]] += 1
    about = {"title": clean_text(value.get("name")), "summary": clean_text(value.get("summary"))[:10_000]}
    metadata = {name: text for name, text in about.items() if text}
    yield ForeignSession(id_, tuple(messages), created, try_parse_time(value.get("updated_at")), metadata)
    yield from (ImportSkip(place, f"left out {number:,}: {reason}") for reason, number in left.items())


def _parse_messages(entry: Mapping[str, Any], left: Counter[str]) -> list[MessageDraft]:
    role = _ROLES.get(str(entry.get("sender")))
    if role is None:
        left[f"of the unknown sender {str(entry.get('sender'))[:40]!r}"] += 1
        return []
    notes: list[str] = []
    content = entry.get("content")
    found = list(split_messages(role, content or clean_text(entry.get("text")), notes))
    left.update(notes)
    files = _parse_files(entry)
    if files and not found:
        found = [MessageDraft(role)]
    if files:
        found[0].parts += files
    if not found and not notes:
        left["empty"] += 1
    return found


def _parse_files(entry: Mapping[str, Any]) -> list[Any]:
    """What was attached: its name, and its text where Claude had read it."""
    parts: list[Any] = []
    for file in [*iter_objects(entry.get("attachments")), *iter_objects(entry.get("files"))]:
        name = clean_text(file.get("file_name")) or clean_text(file.get("file_uuid"))
        if name:
            uri = f"claude-file:{clean_text(file.get('file_uuid')) or name}"
            parts.append(FilePart(uri, clean_name(file.get("file_type")), name[:1000]))
        text = clean_text(file.get("extracted_content"))
        if text.strip():
            parts.append(TextPart(text))
    return parts


def _read_memories(place: str, value: Mapping[str, Any]) -> Iterator[ForeignItem]:
    account = clean_text(value.get("account_uuid"))
    told = {"": value.get("conversations_memory")}
    projects = value.get("project_memories")
    told |= projects if isinstance(projects, Mapping) else {}
    for project, memory in told.items():
        text = clean_text(memory)
        if not text.strip():
            continue
        title = "What Claude kept of a project" if project else "What Claude kept of all conversations"
        about = {"project": clean_text(project)} if project else {}
        yield ForeignRecord(f"memory:{account}:{project}", text, title=title, tags=(NAME,), metadata=about)
    if not any(clean_text(memory).strip() for memory in told.values()):
        yield ImportSkip(place, "it holds no memory")


def _read_project(place: str, value: Mapping[str, Any]) -> Iterator[ForeignItem]:
    id_, name = clean_text(value.get("uuid")) or place, clean_text(value.get("name"))
    about = {"project": name} if name else {}
    instructions = "\n\n".join(
        filter(None, (clean_text(value.get("description")), clean_text(value.get("prompt_template"))))
    )
    if instructions.strip():
        title = f"Instructions of {name}" if name else "Instructions"
        yield ForeignDocument(f"claude-project:{id_}/instructions.md", instructions, title[:500], about)
    for number, doc in enumerate(iter_objects(value.get("docs"))):
        called, text = clean_text(doc.get("filename")) or str(number), clean_text(doc.get("content"))
        if text.strip():
            yield ForeignDocument(f"claude-project:{id_}/{called}", text, called[:500], about)
        else:
            yield ImportSkip(f"{place}, docs[{number}]", "it is empty")
