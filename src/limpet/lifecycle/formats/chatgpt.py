"""ChatGPT's export: ``conversations.json``, a tree of messages for each conversation.

Of the tree the branch is followed that the user last saw, from ``current_node`` up. What was regenerated or edited away
stays out, as do messages ChatGPT hides itself and the model's thoughts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from limpet.errors import InvalidInput
from limpet.lifecycle.formats.contents import (
    ForeignItem,
    ForeignSession,
    MessageDraft,
    clean_name,
    clean_text,
    iter_objects,
    join_texts,
    make_call,
    make_key,
    try_parse_time,
)
from limpet.lifecycle.formats.source import ImportSource
from limpet.model.dataclass import replace
from limpet.model.message import FilePart, ImagePart, Message, Part, TextPart
from limpet.model.transfer import ImportSkip

NAME = "chatgpt"
_ROLES = {"user", "assistant", "system", "tool"}
_HIDDEN = {
    "user_editable_context": "custom instructions",
    "model_editable_context": "ChatGPT's own memory",
    "thoughts": "the model's thoughts",
    "reasoning_recap": "the model's thoughts",
}
_OTHERS = ("message_feedback", "model_comparisons", "shared_conversations", "user", "user_settings")


def read(source: ImportSource) -> Iterator[ForeignItem]:
    conversations = source.find_json("conversations") if source.kind != "file" else source.names
    for name in conversations:
        for place, value in source.iter_values(name):
            yield from _read_conversation(place, value)
    if source.kind != "file":
        for name in source.find_json(*_OTHERS):
            yield ImportSkip(name, "it is not a conversation")
        others = [name for name in source.names if not name.endswith(".json")]
        if others:
            yield ImportSkip(others[0], f"{len(others):,} files of pictures, sounds and pages; messages name theirs")


def _read_conversation(place: str, value: object) -> Iterator[ForeignItem]:
    mapping = value.get("mapping") if isinstance(value, Mapping) else None
    if not isinstance(value, Mapping) or not isinstance(mapping, Mapping):
        yield ImportSkip(place, "it is not a conversation: it has no mapping")
        return
    id_ = clean_name(value.get("conversation_id") or value.get("id"))
    if id_ is None:
        yield ImportSkip(place, "it has no id")
        return
    branch = _find_branch(mapping, value.get("current_node"))
    left: Counter[str] = Counter()
    elsewhere = sum(1 for node in mapping.values() if isinstance(node, Mapping) and node.get("message")) - sum(
        1 for node in branch if node.get("message")
    )
    left["on branches that were left"] = elsewhere
    created, messages = try_parse_time(value.get("create_time")), []
    last = created
    for node in branch:
        message, reason = _parse_message(node)
        if message is not None:
            last = message.created_at or last
            messages.append(replace(message, created_at=last))
        elif reason:
            left[reason] += 1
    about = {"title": clean_text(value.get("title")), "model": clean_text(value.get("default_model_slug"))}
    metadata = {name: text for name, text in about.items() if text}
    yield ForeignSession(id_, tuple(messages), created, try_parse_time(value.get("update_time")), metadata)
    yield from (ImportSkip(place, f"left out {number:,}: {reason}") for reason, number in left.items() if number > 0)


def _find_branch(mapping: Mapping[str, Any], leaf: object) -> list[Mapping[str, Any]]:
    """From the root to the leaf; without one, to the leaf that was said last. Never in a circle."""
    if not isinstance(leaf, str) or leaf not in mapping:
        leaf = max(mapping, key=lambda id_: _message_time(mapping[id_]), default=None)
    found: list[Mapping[str, Any]] = []
    seen: set[str] = set()
    while isinstance(leaf, str) and leaf in mapping and leaf not in seen:
        seen.add(leaf)
        node = mapping[leaf]
        if not isinstance(node, Mapping):
            break
        found.append(node)
        leaf = node.get("parent")
    return found[::-1]


def _message_time(node: object) -> float:
    message = node.get("message") if isinstance(node, Mapping) else None
    at = message.get("create_time") if isinstance(message, Mapping) else None
    return float(at) if isinstance(at, (int, float)) else 0.0


def _parse_message(node: Mapping[str, Any]) -> tuple[Message | None, str]:
    message = node.get("message")
    if not isinstance(message, Mapping):
        return None, ""
    about, kind = _get_object(message, "metadata"), str(_get_object(message, "content").get("content_type"))
    role = str(_get_object(message, "author").get("role"))
    if kind in _HIDDEN:
        return None, _HIDDEN[kind]
    if about.get("is_visually_hidden_from_conversation"):
        return None, "hidden by ChatGPT"
    if role not in _ROLES:
        return None, f"of the unknown role {role[:40]!r}"
    try:
        return _build_message(message, MessageDraft(role), about, kind)
    except InvalidInput as error:
        return None, f"it cannot be kept: {error}"[:200]


def _build_message(
    message: Mapping[str, Any], draft: MessageDraft, about: Mapping[str, Any], kind: str
) -> tuple[Message | None, str]:
    parts = _parse_parts(_get_object(message, "content"), kind)
    if parts is None:
        return None, f"of the unknown kind {kind[:40]!r}"
    recipient = message.get("recipient")
    if draft.role == "assistant" and isinstance(recipient, str) and recipient not in ("all", ""):
        text = join_texts(parts)
        given = text if text.lstrip().startswith("{") else {"input": text}
        draft.calls, parts = [make_call(message.get("id"), recipient, given)], []
    for file in iter_objects(about.get("attachments")):
        id_ = clean_text(file.get("id")) or clean_text(file.get("name"))
        if id_:
            name, media = clean_text(file.get("name")), clean_name(file.get("mime_type"))
            parts.append(FilePart(f"chatgpt-file:{id_}", media, name))
    draft.parts = parts
    if draft.is_empty:
        return None, "empty" if draft.role != "system" else ""
    draft.name = clean_name(_get_object(message, "author").get("name")) if draft.role == "tool" else None
    draft.is_error, model = kind == "system_error", clean_text(about.get("model_slug"))
    metadata = {"model": model} if model else None
    return draft.build(make_key(NAME, message.get("id")), try_parse_time(message.get("create_time")), metadata), ""


def _parse_parts(content: Mapping[str, Any], kind: str) -> list[Part] | None:
    if kind in ("text", "multimodal_text"):
        given = content.get("parts")
        found = [_parse_part(part) for part in given] if isinstance(given, list) else []
        return [part for part in found if part is not None]
    if kind in ("code", "execution_output", "system_error"):
        return [TextPart(clean_text(content.get("text")))]
    if kind == "tether_quote":
        head = " ".join(filter(None, (clean_text(content.get("title")), clean_text(content.get("url")))))
        return [TextPart("\n".join(filter(None, (head, clean_text(content.get("text"))))))]
    if kind == "tether_browsing_display":
        return [TextPart(clean_text(content.get("result")) or clean_text(content.get("summary")))]
    return None


def _parse_part(part: object) -> Part | None:
    if isinstance(part, str):
        return TextPart(clean_text(part))
    if not isinstance(part, Mapping):
        return None
    kind, pointer = part.get("content_type"), clean_text(part.get("asset_pointer"))
    if kind == "image_asset_pointer" and pointer:
        prompt = _get_object(_get_object(part, "metadata"), "dalle").get("prompt")
        return ImagePart(pointer, alt=clean_text(prompt)[:1000])
    if pointer:
        return FilePart(pointer, name=str(kind or "")[:200])
    text = clean_text(part.get("text"))
    return TextPart(text) if text else None


def _get_object(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = value.get(name)
    return found if isinstance(found, Mapping) else {}
