"""A graph in the formats of others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from limpet.model.times import to_iso

if TYPE_CHECKING:
    from limpet.model.graph import Graph, Relation

# What XML 1.0 cannot hold, not even escaped.
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NODE_KEYS = {"name": "string", "kind": "string", "aliases": "string", "could_be": "string", "mentions": "int"}
_EDGE_KEYS = {
    **dict.fromkeys(("predicate", "relation_kind"), "string"),
    "holds": "boolean",
    **dict.fromkeys(("valid_from", "valid_to", "sentence", "sources"), "string"),
}


def to_graphml(graph: Graph) -> str:
    return "\n".join(_iter_lines(graph)) + "\n"


def _iter_lines(graph: Graph) -> Iterator[str]:
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">'
    for target, keys in (("node", _NODE_KEYS), ("edge", _EDGE_KEYS)):
        for key, kind in keys.items():
            yield f'  <key id="{key}" for="{target}" attr.name="{key}" attr.type="{kind}"/>'
    yield '  <graph id="memory" edgedefault="directed">'
    numbers = {entity.id: f"n{at}" for at, entity in enumerate(graph.entities)}
    for entity in graph.entities:
        known: dict[str, str] = {
            "name": entity.name,
            "kind": entity.kind.value,
            "aliases": "; ".join(entity.aliases),
            "could_be": "; ".join(entity.could_be),
            "mentions": str(entity.mentions),
        }
        yield from _element("node", f'id="{numbers[entity.id]}"', known)
    values: dict[str, str] = {}  # a value is no entity, but an edge needs an end
    for relation in graph.relations:
        if relation.object is None and (text := relation.value or "") not in values:
            values[text] = f"v{len(values)}"
            yield from _element("node", f'id="{values[text]}"', {"name": text, "kind": "value"})
    for at, relation in enumerate(graph.relations):
        end = values[relation.value or ""] if relation.object is None else numbers.get(relation.object)
        if relation.subject in numbers and end is not None:
            ends = f'id="e{at}" source="{numbers[relation.subject]}" target="{end}"'
            yield from _element("edge", ends, _edge(relation))
    yield "  </graph>"
    yield "</graphml>"


def _edge(relation: Relation) -> dict[str, str]:
    return {
        "predicate": relation.predicate,
        "relation_kind": relation.kind.value,
        "holds": str(relation.holds).lower(),
        "valid_from": to_iso(relation.valid_from) or "",
        "valid_to": to_iso(relation.valid_to) or "",
        "sentence": relation.sentence,
        "sources": "; ".join(
            source.record_id or f"{source.session_id}#{source.sequence}" for source in relation.sources
        ),
    }


def _element(tag: str, attributes: str, known: dict[str, str]) -> Iterator[str]:
    yield f"    <{tag} {attributes}>"
    for key, value in known.items():
        if value:
            yield f'      <data key="{key}">{_text(value)}</data>'
    yield f"    </{tag}>"


def _text(value: str) -> str:
    """Escaped; a character that XML has no way to write becomes the one that stands for such."""
    plain = _NOT_XML.sub("\ufffd", value)
    for char, written in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("\r", "&#13;")):
        plain = plain.replace(char, written)
    return plain
