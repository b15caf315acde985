"""Extract the graph of a message or a record by rules: names, roles, and relations."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from limpet.knowledge.english.assertions import (
    FOR_A_WHILE,
    MAX_SENTENCE,
    extract_assertion,
    is_forget_request,
    is_opt_out,
)
from limpet.knowledge.english.graph_names import NameSpan, find_entities, scan_text
from limpet.knowledge.english.lexicon import KIN, PETS, RELATIONS, SINGLE, any_of
from limpet.knowledge.english.values import is_product
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
# People have one or two of these, so "my sister" is a particular person. Friends and colleagues are many.
PARTICULAR = (KIN & frozenset(RELATIONS.values())) | SINGLE | PETS

_ROLES = any_of(frozenset(RELATIONS) | PETS)
_EX = r"(?!ex\b|former\b|previous\b)"  # an ex-wife is not a wife
_MY = rf"(?i:\b(?:my|our) {_EX}(?:[a-z-]{{2,12}} {_EX}){{0,2}}?(?P<role>{_ROLES}))\b"
_CALLED = r"(?i:['’]s name is|,? (?:is |was |who is |whose name is )?(?:called|named))?"
_MINE_BEFORE = re.compile(rf"{_MY}{_CALLED},? $")
_SOMEBODYS_BEFORE = re.compile(rf"['’]s (?i:(?P<role>{_ROLES})),? $")  # as in records: the user's sister Anna
_MINE = re.compile(_MY)
_MINE_AFTER = re.compile(rf"^(?:,| is| was|, who is)? {_MY}")
_THEIRS = re.compile(rf"^['’]s (?i:(?:[a-z-]{{2,12}} ){{0,2}}?(?P<role>{_ROLES})){_CALLED},? $")

_NOT = r"(?P<not>(?i:don['’]t |doesn['’]t |didn['’]t |never |no longer |used to |not |wasn['’]t |isn['’]t ))?"
_OFTEN = r"(?i:(?:also|now|currently|just|still|recently|already|really|have|has|had|['’]ve) )*"


class _FactPattern(NamedTuple):
    predicate: str
    verbs: str


_FACTS = tuple(
    (
        fact.predicate,
        re.compile(
            rf"(?:^|[ ,;])(?P<who>I|i|We|we|)(?:['’](?:m|ve|re|s))? ?{_OFTEN}{_NOT}{_OFTEN}"
            rf"(?i:{fact.verbs}) (?:the )?$"
        ),
    )
    for fact in (
        _FactPattern(
            "lives in", r"live[sd]? in|living in|moved (?:back )?to|moving to|am based in|is based in|based in"
        ),
        _FactPattern(
            "works at", r"works? (?:at|for)|worked (?:at|for)|working (?:at|for)|(?:got|have|has) a job at|joined"
        ),
        _FactPattern("is from", r"(?:am |is |was |are )?from|grew up in|come from|comes from|was born in"),
        _FactPattern(
            "studied at", r"stud(?:y|ies|ied) at|studying at|graduated from|graduate of|go(?:es)? to school at"
        ),
        _FactPattern("is married to", r"(?:am |is |was )?married to|married"),
        _FactPattern("visited", r"visited|visiting|went to|travell?ed to|flew to|been to|trip to"),
        _FactPattern("met", r"met(?: with)?"),
        _FactPattern("uses", r"use|uses|using|switched to"),
    )
)
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


_WAS = re.compile(r"\b(?:lived in|worked (?:at|for))", re.IGNORECASE)
_HAS = re.compile(r"\b(?:have|has)\b|['’]ve\b", re.IGNORECASE)


class SentenceRelations(NamedTuple):
    entities: tuple[EntityDraft, ...]
    relations: tuple[RelationDraft, ...]


def build_relative(owner: EntityDraft, role: str) -> EntityDraft:
    """A person identified by a role, such as "the user's sister"."""
    kind = EntityKind.ANIMAL if role in PETS else EntityKind.PERSON
    return EntityDraft(f"{owner.id}/{role}", f"{owner.name}'s {role}", kind)


def is_exclusive(predicate: str) -> bool:
    """Return whether it holds for one value at a time."""
    return predicate in EXCLUSIVE


def find_role(name: str, sentence: str) -> str | None:
    """Return the role of a name for the speaker: sister, for "my sister Anna"."""
    for found in re.finditer(rf"(?<!\w){re.escape(name)}(?!\w)", sentence):
        before = sentence[max(0, found.start() - 70) : found.start()]
        if role := _MINE_BEFORE.search(before) or _SOMEBODYS_BEFORE.search(before):
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
        for match in _MINE.finditer(sentence.text):
            role = _parse_role(match)
            if role in PARTICULAR:
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
        mine = (_MINE_BEFORE.search(before) or _MINE_AFTER.search(after)) if me is not None else None
        if mine is not None and me is not None:
            yield from _build_role_relations(me, _parse_role(mine), spot.found, text)
        elif at and (theirs := _THEIRS.search(text[spots[at - 1].end : spot.start])):
            owner = _to_person(spots[at - 1].found)
            yield from _build_role_relations(owner, _parse_role(theirs), spot.found, text)


def _parse_role(match: re.Match[str]) -> str:
    word = match["role"].casefold()
    return RELATIONS.get(word, word)


def _build_role_relations(owner: EntityDraft, role: str, entity: EntityDraft, text: str) -> Iterator[_RelationWithEnds]:
    entity = EntityDraft(entity.id, entity.name, EntityKind.ANIMAL) if role in PETS else _to_person(entity)
    if entity.id == owner.id:
        return
    yield RelationDraft(owner.id, role, entity.id, None, RelationKind.ROLE, True, text), (owner, entity)
    if role in PARTICULAR:
        known = build_relative(owner, role)
        yield RelationDraft(known.id, IDENTITY, entity.id, None, RelationKind.IDENTITY, True, text), (known, entity)


def _to_person(entity: EntityDraft) -> EntityDraft:
    return EntityDraft(entity.id, entity.name, EntityKind.PERSON)


def _iter_facts(text: str, spots: Sequence[NameSpan], me: EntityDraft | None) -> Iterator[_RelationWithEnds]:
    if extract_assertion(text) != text:
        return
    for at, spot in enumerate(spots):
        before = text[max(0, spot.start - 90) : spot.start]
        for predicate, pattern in _FACTS:
            match = pattern.search(before)
            if match is None or spot.found.kind not in _OBJECTS[predicate]:
                continue
            if predicate == "lives in" and _is_no_home(spot, text):
                break
            subject = _find_subject(text, match, spot.start - len(before), spots[:at], me)
            if subject is not None and subject.id != spot.found.id:
                over = _WAS.search(match.group()) and not _HAS.search(match.group())
                holds = match["not"] is None and not over
                yield (
                    RelationDraft(subject.id, predicate, spot.found.id, None, RelationKind.FACT, holds, text),
                    (
                        subject,
                        spot.found,
                    ),
                )
            break


def _is_no_home(spot: NameSpan, text: str) -> bool:
    """Return whether this is a tool that a team moved to, or a temporary stay."""
    return is_product(spot.found.name) or FOR_A_WHILE.match(text[spot.end :].lstrip(" ,")) is not None


def _find_subject(
    text: str, match: re.Match[str], shift: int, earlier: Sequence[NameSpan], me: EntityDraft | None
) -> EntityDraft | None:
    """Return the speaker, or the name right before the verb."""
    if match["who"]:
        return me
    verb = shift + match.start("who")
    if earlier and not text[earlier[-1].end : verb].strip() and earlier[-1].found.kind is EntityKind.PERSON:
        return earlier[-1].found
    if me is not None and (own := re.search(rf"{_MY}$", text[:verb].rstrip())):
        return build_relative(me, role) if (role := _parse_role(own)) in PARTICULAR else None
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
    if message.role is Role.USER and is_opt_out(message.text):
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
        if len(sentence.text) > MAX_SENTENCE or is_forget_request(sentence.text):
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
