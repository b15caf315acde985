"""The MCP reference memory's file: a line for each entity with its observations, a line for each relation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from limpet.lifecycle.formats.contents import ForeignItem, ForeignRecord, clean_label, clean_text
from limpet.lifecycle.formats.mem0 import build_relation
from limpet.lifecycle.formats.source import ImportSource
from limpet.model.transfer import ImportSkip

NAME = "mcp-memory"


def read(source: ImportSource) -> Iterator[ForeignItem]:
    for name in source.names:
        for place, value, problem in source.iter_lines(name):
            if problem or not isinstance(value, Mapping):
                yield ImportSkip(place, problem or "it is not an object")
            elif value.get("type") == "entity":
                yield from _read_entity(place, value)
            elif value.get("type") == "relation":
                yield _read_relation(place, value)
            else:
                yield ImportSkip(place, f"its type is {str(value.get('type'))[:40]!r}, neither entity nor relation")


def _read_entity(place: str, value: Mapping[str, Any]) -> Iterator[ForeignItem]:
    name, kind = clean_text(value.get("name")).strip(), clean_label(value.get("entityType") or "")
    given = value.get("observations")
    observations = [text for one in given if (text := clean_text(one)).strip()] if isinstance(given, list) else []
    if not name:
        yield ImportSkip(place, "the entity has no name")
        return
    if not observations:
        yield ImportSkip(place, f"nothing was observed of {name[:80]!r}; relations name it all the same")
    about = {"entity": name} | ({"entity_type": kind} if kind else {})
    for text in dict.fromkeys(observations):
        yield ForeignRecord(
            f"observation:{name}:{text}", f"{name}: {text}", tags=(kind,) if kind else (), metadata=about
        )


def _read_relation(place: str, value: Mapping[str, Any]) -> ForeignItem:
    source, target = clean_text(value.get("from")).strip(), clean_text(value.get("to")).strip()
    verb = clean_text(value.get("relationType")).strip()
    if not (source and target and verb):
        return ImportSkip(place, "a relation needs from, to and relationType")
    return build_relation(source, verb, target)
