"""What a message or a record says for the graph, by rules."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from limpet.knowledge.english.assertion_filter import MAX_SENTENCE
from limpet.knowledge.english.opt_out import is_forget_request, is_opt_out
from limpet.knowledge.graph.find import find_entities, scan_text
from limpet.knowledge.graph.relate import IDENTITY, build_relative, find_relations
from limpet.model.graph import (
    USER,
    EntityDraft,
    EntityKind,
    GraphDraft,
    GraphSource,
    RelationDraft,
    RelationKind,
    normalize_name,
)
from limpet.model.message import Message, Role
from limpet.model.record import Record

USER_ENTITY = EntityDraft(USER, "the user", EntityKind.PERSON)
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


def is_eligible(message: Message) -> bool:
    """A tool's output and a system prompt are nobody's word, and what is not to be remembered is not heard."""
    if message.role is Role.USER and is_opt_out(message.text):
        return False
    return message.role in {Role.USER, Role.ASSISTANT} and bool(message.text.strip())


def find_speaker(message: Message) -> EntityDraft | None:
    """Who says "I". An assistant without a name is nobody."""
    if message.name and normalize_name(message.name):
        return EntityDraft(normalize_name(message.name), message.name, EntityKind.PERSON)
    return USER_ENTITY if message.role is Role.USER else None


def extract_from_message(message: Message, session_id: str, at: datetime, most: int) -> GraphDraft:
    """``most`` names are kept of one message: of a pasted list the first."""
    source = GraphSource(message.created_at or at, session_id, message.sequence)
    if not is_eligible(message):
        return GraphDraft(source)
    me = find_speaker(message)
    told = _extract_from_text(source, message.text, me, most)
    # An assistant names things too, but what it says of them it may only repeat, and it may be over by now.
    return told if me is not None else GraphDraft(source, told.entities)


def _extract_from_text(source: GraphSource, text: str, me: EntityDraft | None, most: int) -> GraphDraft:
    reading = scan_text(text)
    entities = {found.id: found for found in reading.entities[:most]}
    relations: dict[RelationDraft, None] = {}
    for sentence, spots in reading.sentences:
        if len(sentence.text) > MAX_SENTENCE or is_forget_request(sentence.text):
            continue
        known = [spot for spot in spots if spot.found.id in entities]
        more = find_relations(sentence, known, me)
        for found in more.entities:
            entities[found.id] = found if found.kind is not EntityKind.THING else entities.get(found.id, found)
        said = text[sentence.start : sentence.start + len(sentence.text)][:MAX_SENTENCE_KEPT]
        relations |= dict.fromkeys(replace(relation, sentence=said) for relation in more.relations)
    return GraphDraft(source, tuple(entities.values()), tuple(relations))


def extract_from_record(record: Record, most: int) -> GraphDraft:
    """Its names, and what it is about as a relation. Whom it calls "I" only its subject says."""
    source = GraphSource(record.created_at or record.valid_from or record.updated_at, record_id=record.id)  # type: ignore[arg-type]
    me = USER_ENTITY if record.user is not None else None
    told = _extract_from_text(source, f"{record.title}\n{record.content}" if record.title else record.content, me, most)
    if not (record.subject and record.attribute and record.value):
        return told
    stated = _extract_attribute(
        record.subject, record.attribute, record.value, record.source.sentence or record.content
    )
    if stated is None:
        return told
    entities, relations = stated
    held = [replace(relation, holds=record.polarity) for relation in relations]
    merged = {found.id: found for found in (*told.entities, *entities)}
    return GraphDraft(source, tuple(merged.values()), tuple(dict.fromkeys((*held, *told.relations))))


def _extract_attribute(
    subject: str, attribute: str, value: str, sentence: str
) -> tuple[list[EntityDraft], list[RelationDraft]] | None:
    who, relations = _resolve_subject(subject, sentence)
    if not who or not normalize_name(value):
        return None
    last = who[-1]
    if attribute in _NAMES:
        called = EntityDraft(normalize_name(value), value, last.kind)
        relations.append(RelationDraft(last.id, IDENTITY, called.id, None, RelationKind.IDENTITY, True, sentence))
        return [*who, called], relations
    predicate, kind = _PREDICATES.get(attribute, (attribute, None))
    names = [found for found in find_entities(value) if found.id == normalize_name(value)]
    if kind is not None or names:
        other = EntityDraft(normalize_name(value), value, kind or names[0].kind)
        if other.id != last.id:
            relations.append(RelationDraft(last.id, predicate, other.id, None, RelationKind.FACT, True, sentence))
        return [*who, other], relations
    relations.append(RelationDraft(last.id, predicate, None, value[:_MAX_VALUE], RelationKind.FACT, True, sentence))
    return who, relations


def _resolve_subject(subject: str, sentence: str) -> tuple[list[EntityDraft], list[RelationDraft]]:
    """A way step by step: the user, the user's sister, her husband."""
    first, *steps = [normalize_name(part) for part in subject.split("/")]
    if not first or not all(steps):
        return [], []
    kind = EntityKind.THING if first == "project" else EntityKind.PERSON
    found = [USER_ENTITY if first == USER else EntityDraft(first, first.title(), kind)]
    relations = []
    for role in steps:
        further = build_relative(found[-1], role)
        relations.append(RelationDraft(found[-1].id, role, further.id, None, RelationKind.ROLE, True, sentence))
        found.append(further)
    return found, relations
