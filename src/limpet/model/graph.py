"""The knowledge graph: who and what is mentioned, how they are related, and where."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from limpet.model.dataclass import dataclass
from limpet.model.schema import FLATTEN, to_json
from limpet.model.types import Id, Moment, Text, Words
from limpet.model.values import to_iso

SENTENCE_CHARS = 300  # characters of a sentence that are kept with a relation
USER = "user"  # the person who speaks to the assistant
MAX_NAME = 120  # characters; what is longer is a sentence

_SPACE = re.compile(r"\s+")
_EDGE = " \t\"'“”‘’«»`*_.,;:!?()[]{}<>…"
_POSSESSIVE = re.compile(r"['’]s?$")
_TITLE = re.compile(r"^(?:mr|mrs|ms|miss|dr|prof|professor|sir|the)\.?\s+(?=\S)", re.IGNORECASE)


class EntityKind(StrEnum):
    """In the order in which they are believed where as much speaks for one as for the other."""

    PERSON = "person"
    ANIMAL = "animal"
    ORGANISATION = "organisation"
    PLACE = "place"
    TOPIC = "topic"
    THING = "thing"  # also everything of which only the name is known


class RelationKind(StrEnum):
    IDENTITY = "identity"  # two names of one: the user's sister is Anna
    ROLE = "role"  # who somebody is to somebody: the user has the sister Anna
    FACT = "fact"


def normalize_name(name: str) -> str:
    """What two spellings of one name have in common. Empty if it is not a name."""
    text, before = name, ""
    while text != before:  # a title may stand before a title; each round makes it shorter
        before = text
        text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
        text = _SPACE.sub(" ", text)[:MAX_NAME].strip(_EDGE)
        text = _TITLE.sub("", _POSSESSIVE.sub("", text).strip(_EDGE))
    return text


def first_word(id: str) -> str:
    """By which a name and the longer ones that begin with it are found together. A way to somebody is one word."""
    return id if "/" in id else id.partition(" ")[0]


@dataclass(frozen=True, slots=True)
class EntityDraft:
    """A name that stands in a text. A way to somebody, such as ``user/sister``, is one too."""

    id: Annotated[Words, "the normalized name"]
    name: Annotated[Words, "as it is written"]
    kind: Annotated[EntityKind, "what it is"] = EntityKind.THING


@dataclass(frozen=True, slots=True)
class RelationDraft:
    """That somebody or something stands in a relation, as one sentence states it. Either ``object`` or ``value``."""

    subject: Annotated[Text, "id of an entity"]
    predicate: Annotated[Words, "what relates them"]
    object: Annotated[Text | None, "id of an entity"] = None
    value: Annotated[Text | None, "a value that is not an entity"] = None
    kind: Annotated[RelationKind, "what kind of relation it is"] = RelationKind.FACT
    holds: Annotated[bool, "false: it is denied"] = True
    sentence: Annotated[Text, "where it was said, word for word"] = ""


@dataclass(frozen=True, slots=True)
class GraphSource:
    """A message of a session, or a record."""

    at: Annotated[Moment, "when it was said"]
    session_id: Annotated[Id | None, "the session it was said in; null: in none"] = None
    sequence: Annotated[int | None, "the message; null: no message"] = None
    record_id: Annotated[Id | None, "the record; null: no record"] = None


@dataclass(frozen=True, slots=True)
class GraphDraft:
    """Everything one source says for the graph."""

    source: Annotated[GraphSource, FLATTEN]
    entities: Annotated[tuple[EntityDraft, ...], "the names in it, each with `id`, `name` and `kind`"] = ()
    relations: Annotated[
        tuple[RelationDraft, ...],
        "what it states, each with `subject`, `predicate`, `object` or `value`, `kind`, `holds`, `sentence`",
    ] = ()


@dataclass(frozen=True, slots=True)
class Node:
    """A name as the store keeps it. ``kinds`` counts what it was taken for."""

    number: int
    id: str
    name: str
    kinds: Mapping[EntityKind, int] = field(default_factory=dict)

    @property
    def kind(self) -> EntityKind:
        known = {kind: count for kind, count in self.kinds.items() if kind is not EntityKind.THING}
        order = list(EntityKind)
        return max(known, key=lambda kind: (known[kind], -order.index(kind)), default=EntityKind.THING)


@dataclass(frozen=True, slots=True)
class Link:
    """A relation as the store keeps it, between the numbers of nodes. What a record states holds as long as it does."""

    subject: int
    predicate: str
    object: int | None
    value: str | None
    kind: RelationKind
    holds: bool
    sentence: str
    source: GraphSource
    valid_from: datetime | None
    valid_to: datetime | None = None


@dataclass(frozen=True, slots=True)
class NodeMention:
    """A mention as the store keeps it."""

    node: int
    source: GraphSource


# What is handed out


@dataclass(frozen=True, slots=True)
class Entity:
    """Somebody or something under all its names. ``could_be`` are those a name may mean, where more than one does."""

    id: Annotated[str, "its normalized name"]
    name: Annotated[str, "its most frequent spelling"]
    kind: Annotated[EntityKind, "what it is"]
    aliases: Annotated[tuple[str, ...], "its other names"] = ()
    could_be: Annotated[tuple[str, ...], "ids of the entities it may mean, if there are several"] = ()
    mentions: Annotated[int, "how often it was mentioned"] = 0


@dataclass(frozen=True, slots=True)
class Relation:
    """``subject`` and ``object`` are ids of entities; a relation to what is none has a ``value``."""

    subject: Annotated[str, "id of an entity"]
    predicate: Annotated[str, "what relates them"]
    object: Annotated[str | None, "id of an entity; null: it has a value"]
    value: Annotated[str | None, "a value that is not an entity; null: it has an object"]
    kind: Annotated[RelationKind, "identity, role or fact"]
    holds: Annotated[bool, "false: it is denied"]
    valid_from: Annotated[Moment | None, "when it became true; null: always"]
    valid_to: Annotated[Moment | None, "when it stopped being true; null: it is true"]
    sentence: Annotated[str, "where it was said, word for word"]
    sources: Annotated[tuple[GraphSource, ...], "the messages and records that say so"]

    def is_valid_at(self, moment: datetime) -> bool:
        begun = self.valid_from is None or self.valid_from <= moment
        return self.holds and begun and (self.valid_to is None or self.valid_to > moment)


@dataclass(frozen=True, slots=True)
class Mention:
    entity: Annotated[str, "id of the entity"]
    source: Annotated[GraphSource, FLATTEN]


@dataclass(frozen=True, slots=True)
class Graph:
    """A space's graph, or the part of it around an entity. ``cut`` where there is more than was asked for."""

    entities: Annotated[tuple[Entity, ...], "who and what is mentioned"] = ()
    relations: Annotated[tuple[Relation, ...], "how they are related"] = ()
    mentions: Annotated[tuple[Mention, ...], "where they were mentioned"] = ()
    cut: Annotated[bool, "whether there is more than was returned"] = False

    def entity(self, id: str) -> Entity | None:
        return next((entity for entity in self.entities if entity.id == id), None)

    def to_json(self) -> dict[str, Any]:
        """As plain values, for ``json.dumps``."""
        written: dict[str, Any] = to_json(self)
        return written

    def to_graphml(self) -> str:
        """As GraphML, which graph tools such as Gephi, yEd and networkx read."""
        return "\n".join(_iter_lines(self)) + "\n"


# What XML 1.0 cannot hold, not even escaped.
_NOT_XML = "[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"  # compiled when used: that takes long
_NODE_KEYS = {"name": "string", "kind": "string", "aliases": "string", "could_be": "string", "mentions": "int"}
_EDGE_KEYS = {
    **dict.fromkeys(("predicate", "relation_kind"), "string"),
    "holds": "boolean",
    **dict.fromkeys(("valid_from", "valid_to", "sentence", "sources"), "string"),
}


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
    values: dict[str, str] = {}  # a value is not an entity, but an edge needs an end
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
    plain = re.sub(_NOT_XML, "\ufffd", value)
    for char, written in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("\r", "&#13;")):
        plain = plain.replace(char, written)
    return plain
