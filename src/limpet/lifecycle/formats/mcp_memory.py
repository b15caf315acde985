"""The MCP reference memory's file: a line for each entity with its observations, a line for each relation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from limpet.lifecycle.formats.contents import Found, FoundRecord, clean, label
from limpet.lifecycle.formats.mem0 import related
from limpet.lifecycle.formats.source import Source, json_lines
from limpet.model.transfer import Skipped

NAME = "mcp-memory"


def read(source: Source) -> Iterator[Found]:
    for name in source.names:
        with source.open(name) as file:
            for place, value, problem in json_lines(file, name):
                if problem or not isinstance(value, Mapping):
                    yield Skipped(place, problem or "it is no object")
                elif value.get("type") == "entity":
                    yield from _entity(place, value)
                elif value.get("type") == "relation":
                    yield _relation(place, value)
                else:
                    yield Skipped(place, f"its type is {str(value.get('type'))[:40]!r}, neither entity nor relation")


def _entity(place: str, value: Mapping[str, Any]) -> Iterator[Found]:
    name, kind = clean(value.get("name")).strip(), label(value.get("entityType") or "")
    given = value.get("observations")
    observations = [text for one in given if (text := clean(one)).strip()] if isinstance(given, list) else []
    if not name:
        yield Skipped(place, "the entity has no name")
        return
    if not observations:
        yield Skipped(place, f"nothing was observed of {name[:80]!r}; relations name it all the same")
    about = {"entity": name} | ({"entity_type": kind} if kind else {})
    for text in dict.fromkeys(observations):
        yield FoundRecord(f"observation:{name}:{text}", f"{name}: {text}", tags=(kind,) if kind else (), metadata=about)


def _relation(place: str, value: Mapping[str, Any]) -> Found:
    source, target = clean(value.get("from")).strip(), clean(value.get("to")).strip()
    verb = clean(value.get("relationType")).strip()
    if not (source and target and verb):
        return Skipped(place, "a relation needs from, to and relationType")
    return related(source, verb, target)
