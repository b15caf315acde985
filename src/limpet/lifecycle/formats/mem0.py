"""mem0's memories: what ``get_all`` answers, as a list or under ``results``, with its relations."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from limpet.lifecycle.formats.contents import (
    ForeignItem,
    ForeignRecord,
    clean_label,
    clean_name,
    clean_text,
    flatten_metadata,
    iter_objects,
    try_parse_time,
)
from limpet.lifecycle.formats.source import ImportSource
from limpet.model.transfer import ImportSkip
from limpet.model.values import FOREIGN_ID

NAME = "mem0"
_LISTS = ("results", "memories")
_TEXTS = ("memory", "text", "data", "content")
_ABOUT = ("agent_id", "run_id", "actor_id", "app_id")


def read(source: ImportSource) -> Iterator[ForeignItem]:
    for name in source.names:
        for place, value in source.iter_values(name):
            yield from _read_entry(place, value)


def _read_entry(place: str, value: object) -> Iterator[ForeignItem]:
    if not isinstance(value, Mapping):
        yield ImportSkip(place, "it is not a memory")
        return
    held = next((listed for listed in _LISTS if isinstance(value.get(listed), list)), None)
    if held is None:
        yield _read_memory(place, value)
        return
    for number, item in enumerate(value[held]):
        where = f"{place}, {held}[{number}]"
        yield _read_memory(where, item) if isinstance(item, Mapping) else ImportSkip(where, "it is not a memory")
    for number, relation in enumerate(iter_objects(value.get("relations"))):
        yield _read_relation(f"{place}, relations[{number}]", relation)


def _read_memory(place: str, value: Mapping[str, Any]) -> ForeignItem:
    text = next((text for name in _TEXTS if (text := clean_text(value.get(name))).strip()), "")
    id_ = clean_text(value.get("id"))
    if not text:
        return ImportSkip(place, "it says nothing")
    if not id_:
        return ImportSkip(place, "it has no id to be known by again")
    categories = value.get("categories")
    tags = tuple(dict.fromkeys(filter(None, map(clean_label, categories if isinstance(categories, list) else ()))))[
        :100
    ]
    about = flatten_metadata(value.get("metadata")) | flatten_metadata({name: value.get(name) for name in _ABOUT})
    created = try_parse_time(value.get("created_at"))
    updated = try_parse_time(value.get("updated_at")) or created
    external = id_ if re.fullmatch(FOREIGN_ID, id_) else None
    user = clean_name(value.get("user_id"))
    return ForeignRecord(id_, text, user, None, tags, about, created, updated, external_id=external)


def _read_relation(place: str, value: Mapping[str, Any]) -> ForeignItem:
    source, verb = clean_text(value.get("source")), clean_text(value.get("relationship") or value.get("relation"))
    target = clean_text(value.get("destination") or value.get("target"))
    if not (source and verb and target):
        return ImportSkip(place, "a relation needs a source, a relationship and a destination")
    return build_relation(source, verb, target, clean_name(value.get("user_id")))


def build_relation(source: str, verb: str, target: str, user: str | None = None) -> ForeignRecord:
    """That one stands in a relation to another, as a memory that the graph reads."""
    said = " ".join(verb.replace("_", " ").replace("-", " ").split())
    subject, value = clean_name(source.replace("/", " ")), clean_name(target)
    return ForeignRecord(
        f"relation:{source}:{verb}:{target}",
        f"{source} {said} {target}",
        user,
        tags=("relation",),
        subject=None if subject is None else subject.lower(),
        attribute=clean_name(said),
        value=value,
    )
