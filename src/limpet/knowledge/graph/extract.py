"""Extract the graph of a message or a record by rules: names, roles, and relations."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import cache
from typing import NamedTuple

from limpet.knowledge import english
from limpet.knowledge.graph.names import NameSpan, find_entities, scan_text
from limpet.knowledge.opt_out import asks_not_to_keep
from limpet.model.dataclass import replace
from limpet.model.graph import (
    SENTENCE_CHARS,
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
from limpet.search.analysis import Sentence

IDENTITY = "is"
# Single-valued: a later one ends the earlier.
EXCLUSIVE = frozenset({"lives in", "works at"})
_OBJECTS = {
    "lives in": {EntityKind.PLACE, EntityKind.THING},
    "works at": {EntityKind.ORGANISATION, EntityKind.THING, EntityKind.PLACE},
    "is from": {EntityKind.PLACE},
    "studied at": {EntityKind.ORGANISATION, EntityKind.PLACE, EntityKind.THING},
    "is married to": {EntityKind.PERSON},
    "visited": {EntityKind.PLACE, EntityKind.ORGANISATION},
    "met": {EntityKind.PERSON},
    "uses": {EntityKind.THING},
}


@cache
def _load_facts() -> list[tuple[str, re.Pattern[str]]]:
    """The relations that words before a name state, each with its pattern."""
    verbs = english.load_table("patterns.toml")["graph"]
    return [
        (predicate, english.compile_pattern(f"{{fact_subject}}(?:{words}) (?:the )?$"))
        for predicate, words in verbs.items()
    ]


@cache
def load_particular_roles() -> frozenset[str]:
    """People have one or two of these, so "my sister" is a particular person. Friends and colleagues are many."""
    kin = frozenset(role for word in english.get_words("kin") if (role := english.find_role_word(word)) == word)
    return kin | english.get_words("single") | english.get_words("pets")


class SentenceRelations(NamedTuple):
    entities: tuple[EntityDraft, ...]
    relations: tuple[RelationDraft, ...]


def build_relative(owner: EntityDraft, role: str) -> EntityDraft:
    """A person identified by a role, such as "the user's sister"."""
    kind = EntityKind.ANIMAL if role in english.get_words("pets") else EntityKind.PERSON
    return EntityDraft(f"{owner.id}/{role}", f"{owner.name}'s {role}", kind)


def is_exclusive(predicate: str) -> bool:
    return predicate in EXCLUSIVE


def find_role(name: str, sentence: str) -> str | None:
    """Return the role of a name for the speaker: sister, for "my sister Anna"."""
    for found in re.finditer(rf"(?<!\w){re.escape(name)}(?!\w)", sentence):
        before = sentence[max(0, found.start() - 70) : found.start()]
        if role := english.get_pattern("mine_before").search(before) or english.get_pattern("somebodys_before").search(
            before
        ):
            return _parse_role(role)
    return None


def find_relations(sentence: Sentence, spots: Sequence[NameSpan], me: EntityDraft | None) -> SentenceRelations:
    """``me`` is the person who says "my" and "I"; None for an assistant."""
    entities: dict[str, EntityDraft] = {}
    relations: dict[RelationDraft, None] = {}

    def add_entities(*found: EntityDraft) -> None:
        for each in found:
            entities.setdefault(each.id, each)

    for stated, ends in (*_iter_roles(sentence.text, spots, me), *_iter_facts(sentence.text, spots, me)):
        add_entities(*ends)
        relations[stated] = None
    if me is not None:
        for match in english.get_pattern("my_role").finditer(sentence.text):
            role = _parse_role(match)
            if role in load_particular_roles():
                add_entities(me, build_relative(me, role))
                relations[
                    RelationDraft(
                        me.id, role, build_relative(me, role).id, None, RelationKind.ROLE, True, sentence.text
                    )
                ] = None
    return SentenceRelations(tuple(entities.values()), tuple(relations))


_RelationWithEnds = tuple[RelationDraft, tuple[EntityDraft, ...]]


def _iter_roles(text: str, spots: Sequence[NameSpan], me: EntityDraft | None) -> Iterator[_RelationWithEnds]:
    for at, spot in enumerate(spots):
        before, after = text[max(0, spot.start - 70) : spot.start], text[spot.end : spot.end + 60]
        mine = (
            (english.get_pattern("mine_before").search(before) or english.get_pattern("mine_after").search(after))
            if me is not None
            else None
        )
        if mine is not None and me is not None:
            yield from _build_role_relations(me, _parse_role(mine), spot.found, text)
        elif at and (theirs := english.get_pattern("theirs").search(text[spots[at - 1].end : spot.start])):
            owner = _to_person(spots[at - 1].found)
            yield from _build_role_relations(owner, _parse_role(theirs), spot.found, text)


def _parse_role(match: re.Match[str]) -> str:
    word = match["role"].casefold()
    return english.find_role_word(word) or word


def _build_role_relations(owner: EntityDraft, role: str, entity: EntityDraft, text: str) -> Iterator[_RelationWithEnds]:
    entity = (
        EntityDraft(entity.id, entity.name, EntityKind.ANIMAL)
        if role in english.get_words("pets")
        else _to_person(entity)
    )
    if entity.id == owner.id:
        return
    yield RelationDraft(owner.id, role, entity.id, None, RelationKind.ROLE, True, text), (owner, entity)
    if role in load_particular_roles():
        known = build_relative(owner, role)
        yield RelationDraft(known.id, IDENTITY, entity.id, None, RelationKind.IDENTITY, True, text), (known, entity)


def _to_person(entity: EntityDraft) -> EntityDraft:
    return EntityDraft(entity.id, entity.name, EntityKind.PERSON)


def _iter_facts(text: str, spots: Sequence[NameSpan], me: EntityDraft | None) -> Iterator[_RelationWithEnds]:
    if english.extract_assertion(text) != text:
        return
    for at, spot in enumerate(spots):
        before = text[max(0, spot.start - 90) : spot.start]
        for predicate, pattern in _load_facts():
            match = pattern.search(before)
            if match is None or spot.found.kind not in _OBJECTS[predicate]:
                continue
            if predicate == "lives in" and _is_no_home(spot, text):
                break
            subject = _find_subject(text, match, spot.start - len(before), spots[:at], me)
            if subject is not None and subject.id != spot.found.id:
                over = english.get_pattern("fact_over").search(match.group())
                holds = match["not"] is None and not (over and over["over"])
                stated = RelationDraft(subject.id, predicate, spot.found.id, None, RelationKind.FACT, holds, text)
                yield stated, (subject, spot.found)
            break


def _is_no_home(spot: NameSpan, text: str) -> bool:
    """Return whether this is a tool that a team moved to, or a temporary stay."""
    return (
        english.is_product(spot.found.name)
        or english.get_pattern("brief").match(text[spot.end :].lstrip(" ,")) is not None
    )


def _find_subject(
    text: str, match: re.Match[str], shift: int, earlier: Sequence[NameSpan], me: EntityDraft | None
) -> EntityDraft | None:
    """Return the speaker, or the name right before the verb."""
    if match["who"]:
        return me
    verb = shift + match.start("who")
    if earlier and not text[earlier[-1].end : verb].strip() and earlier[-1].found.kind is EntityKind.PERSON:
        return earlier[-1].found
    if me is not None and (own := english.compile_pattern("{my_role}$").search(text[:verb].rstrip())):
        return build_relative(me, role) if (role := _parse_role(own)) in load_particular_roles() else None
    return None


# The graph of a message or a record


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


def is_eligible(message: Message) -> bool:
    """Ignore tool output, system prompts and messages that must not be stored."""
    if message.role is Role.USER and asks_not_to_keep(message.text):
        return False
    return message.role in {Role.USER, Role.ASSISTANT} and bool(message.text.strip())


def find_speaker(message: Message) -> EntityDraft | None:
    """Return the person who says "I"; None for an assistant without a name."""
    if message.name and normalize_name(message.name):
        return EntityDraft(normalize_name(message.name), message.name, EntityKind.PERSON)
    return USER_ENTITY if message.role is Role.USER else None


def extract_from_message(message: Message, session_id: str, at: datetime, most: int) -> GraphDraft:
    """Keep at most ``most`` names of a message: the first ones of a pasted list."""
    source = GraphSource(message.created_at or at, session_id, message.sequence)
    if not is_eligible(message):
        return GraphDraft(source)
    me = find_speaker(message)
    told = _extract_from_text(source, message.text, me, most)
    # An assistant mentions names too, but what it says about them may be repeated or outdated.
    return told if me is not None else GraphDraft(source, told.entities)


def _extract_from_text(source: GraphSource, text: str, me: EntityDraft | None, most: int) -> GraphDraft:
    reading = scan_text(text)
    entities = {found.id: found for found in reading.entities[:most]}
    relations: dict[RelationDraft, None] = {}
    for sentence, spots in reading.sentences:
        if len(sentence.text) > english.MAX_SENTENCE or english.is_forget_request(sentence.text):
            continue
        known = [spot for spot in spots if spot.found.id in entities]
        more = find_relations(sentence, known, me)
        for found in more.entities:
            entities[found.id] = found if found.kind is not EntityKind.THING else entities.get(found.id, found)
        said = text[sentence.start : sentence.start + len(sentence.text)][:SENTENCE_CHARS]
        relations |= dict.fromkeys(replace(relation, sentence=said) for relation in more.relations)
    return GraphDraft(source, tuple(entities.values()), tuple(relations))


def extract_from_record(record: Record, most: int) -> GraphDraft:
    """Return its names and its relation. "I" refers to the record's subject."""
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
    """Resolve a chain step by step: the user, the user's sister, her husband."""
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
