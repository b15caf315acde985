"""What a message or a record says for the graph, by rules."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from limpet.knowledge.english.assertion_filter import MAX_SENTENCE
from limpet.knowledge.english.opt_out import asks_to_forget, unheard
from limpet.knowledge.graph.find import found_in, read
from limpet.knowledge.graph.relate import IDENTITY, related, way
from limpet.model.graph import USER, EntityKind, Found, GraphSource, RelationKind, Stated, Told, normal
from limpet.model.message import Message, Role
from limpet.model.record import Record

THE_USER = Found(USER, "the user", EntityKind.PERSON)
_PREDICATES = {
    "home": ("lives in", EntityKind.PLACE),
    "employer": ("works at", EntityKind.ORGANISATION),
    "origin": ("is from", EntityKind.PLACE),
    "school": ("studied at", EntityKind.ORGANISATION),
    "visited": ("visited", EntityKind.PLACE),
}
_NAMES = ("name", "nickname")
_MAX_VALUE = 300
MAX_SENTENCE_KEPT = 300


def is_heard(message: Message) -> bool:
    """A tool's output and a system prompt are nobody's word, and what is not to be remembered is not heard."""
    if message.role is Role.USER and unheard(message.text):
        return False
    return message.role in {Role.USER, Role.ASSISTANT} and bool(message.text.strip())


def speaker(message: Message) -> Found | None:
    """Who says "I". An assistant without a name is nobody."""
    if message.name and normal(message.name):
        return Found(normal(message.name), message.name, EntityKind.PERSON)
    return THE_USER if message.role is Role.USER else None


def by_message(message: Message, session_id: str, at: datetime, most: int) -> Told:
    """``most`` names are kept of one message: of a pasted list the first."""
    source = GraphSource(message.created_at or at, session_id, message.sequence)
    if not is_heard(message):
        return Told(source)
    me = speaker(message)
    told = _told(source, message.text, me, most)
    # An assistant names things too, but what it says of them it may only repeat, and it may be over by now.
    return told if me is not None else Told(source, told.entities)


def _told(source: GraphSource, text: str, me: Found | None, most: int) -> Told:
    reading = read(text)
    entities = {found.id: found for found in reading.entities[:most]}
    relations: dict[Stated, None] = {}
    for sentence, spots in reading.sentences:
        if len(sentence.text) > MAX_SENTENCE or asks_to_forget(sentence.text):
            continue
        known = [spot for spot in spots if spot.found.id in entities]
        more = related(sentence, known, me)
        for found in more.entities:
            entities[found.id] = found if found.kind is not EntityKind.THING else entities.get(found.id, found)
        said = text[sentence.start : sentence.start + len(sentence.text)][:MAX_SENTENCE_KEPT]
        relations |= dict.fromkeys(replace(relation, sentence=said) for relation in more.relations)
    return Told(source, tuple(entities.values()), tuple(relations))


def by_record(record: Record, most: int) -> Told:
    """Its names, and what it is about as a relation. Whom it calls "I" only its subject says."""
    source = GraphSource(record.created_at or record.valid_from or record.updated_at, record_id=record.id)  # type: ignore[arg-type]
    me = THE_USER if record.user is not None else None
    told = _told(source, f"{record.title}\n{record.content}" if record.title else record.content, me, most)
    if not (record.subject and record.attribute and record.value):
        return told
    stated = _about(record.subject, record.attribute, record.value, record.source.sentence or record.content)
    if stated is None:
        return told
    entities, relations = stated
    held = [replace(relation, holds=record.polarity) for relation in relations]
    merged = {found.id: found for found in (*told.entities, *entities)}
    return Told(source, tuple(merged.values()), tuple(dict.fromkeys((*held, *told.relations))))


def _about(subject: str, attribute: str, value: str, sentence: str) -> tuple[list[Found], list[Stated]] | None:
    who, relations = _who(subject, sentence)
    if not who or not normal(value):
        return None
    last = who[-1]
    if attribute in _NAMES:
        called = Found(normal(value), value, last.kind)
        relations.append(Stated(last.id, IDENTITY, called.id, None, RelationKind.IDENTITY, True, sentence))
        return [*who, called], relations
    predicate, kind = _PREDICATES.get(attribute, (attribute, None))
    names = [found for found in found_in(value) if found.id == normal(value)]
    if kind is not None or names:
        other = Found(normal(value), value, kind or names[0].kind)
        if other.id != last.id:
            relations.append(Stated(last.id, predicate, other.id, None, RelationKind.FACT, True, sentence))
        return [*who, other], relations
    relations.append(Stated(last.id, predicate, None, value[:_MAX_VALUE], RelationKind.FACT, True, sentence))
    return who, relations


def _who(subject: str, sentence: str) -> tuple[list[Found], list[Stated]]:
    """A way step by step: the user, the user's sister, her husband."""
    first, *steps = [normal(part) for part in subject.split("/")]
    if not first or not all(steps):
        return [], []
    kind = EntityKind.THING if first == "project" else EntityKind.PERSON
    found = [THE_USER if first == USER else Found(first, first.title(), kind)]
    relations = []
    for role in steps:
        further = way(found[-1], role)
        relations.append(Stated(found[-1].id, role, further.id, None, RelationKind.ROLE, True, sentence))
        found.append(further)
    return found, relations
