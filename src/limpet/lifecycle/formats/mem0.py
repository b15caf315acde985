"""mem0's memories: what ``get_all`` answers, as a list or under ``results``, with its relations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from limpet.lifecycle.formats.contents import Found, FoundRecord, clean, dicts, label, labels, name_of, when
from limpet.lifecycle.formats.source import Source, values
from limpet.model.transfer import Skipped

NAME = "mem0"
_LISTS = ("results", "memories")
_TEXTS = ("memory", "text", "data", "content")
_ABOUT = ("agent_id", "run_id", "actor_id", "app_id")


def read(source: Source) -> Iterator[Found]:
    for name in source.names:
        with source.open(name) as file:
            for place, value in values(file, name):
                yield from _entry(place, value)


def _entry(place: str, value: object) -> Iterator[Found]:
    if not isinstance(value, Mapping):
        yield Skipped(place, "it is no memory")
        return
    held = next((listed for listed in _LISTS if isinstance(value.get(listed), list)), None)
    if held is None:
        yield _memory(place, value)
        return
    for number, item in enumerate(value[held]):
        where = f"{place}, {held}[{number}]"
        yield _memory(where, item) if isinstance(item, Mapping) else Skipped(where, "it is no memory")
    for number, relation in enumerate(dicts(value.get("relations"))):
        yield _relation(f"{place}, relations[{number}]", relation)


def _memory(place: str, value: Mapping[str, Any]) -> Found:
    text = next((text for name in _TEXTS if (text := clean(value.get(name))).strip()), "")
    id_ = clean(value.get("id"))
    if not text:
        return Skipped(place, "it says nothing")
    if not id_:
        return Skipped(place, "it has no id to be known by again")
    categories = value.get("categories")
    tags = tuple(dict.fromkeys(filter(None, map(label, categories if isinstance(categories, list) else ()))))[:100]
    about = labels(value.get("metadata")) | labels({name: value.get(name) for name in _ABOUT})
    created = when(value.get("created_at"))
    user = name_of(value.get("user_id"))
    return FoundRecord(id_, text, user, None, tags, about, created, when(value.get("updated_at")) or created)


def _relation(place: str, value: Mapping[str, Any]) -> Found:
    source, verb = clean(value.get("source")), clean(value.get("relationship") or value.get("relation"))
    target = clean(value.get("destination") or value.get("target"))
    if not (source and verb and target):
        return Skipped(place, "a relation needs a source, a relationship and a destination")
    return related(source, verb, target, name_of(value.get("user_id")))


def related(source: str, verb: str, target: str, user: str | None = None) -> FoundRecord:
    """That one stands in a relation to another, as a memory that the graph reads."""
    said = " ".join(verb.replace("_", " ").replace("-", " ").split())
    subject, value = name_of(source.replace("/", " ")), name_of(target)
    return FoundRecord(
        f"relation:{source}:{verb}:{target}",
        f"{source} {said} {target}",
        user,
        tags=("relation",),
        subject=None if subject is None else subject.lower(),
        attribute=name_of(said),
        value=value,
    )
