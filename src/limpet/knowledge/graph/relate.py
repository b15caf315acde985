"""Who is who to whom, and what is stated of them: patterns around the names of a sentence."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from limpet.knowledge.english.aspect import FOR_A_WHILE
from limpet.knowledge.english.assertion_filter import extract_assertion
from limpet.knowledge.english.lexicon import KIN, PETS, RELATIONS, SINGLE, any_of
from limpet.knowledge.english.values import is_product
from limpet.knowledge.graph.find import NameSpan
from limpet.model.graph import EntityDraft, EntityKind, RelationDraft, RelationKind
from limpet.search.english import Sentence

IDENTITY = "is"
# Of these people have one or two, so that "my sister" is somebody in particular. Friends and colleagues are many.
PARTICULAR = (KIN & frozenset(RELATIONS.values())) | SINGLE | PETS

_ROLES = any_of(frozenset(RELATIONS) | PETS)
_EX = r"(?!ex\b|former\b|previous\b)"  # an ex-wife is no wife
_MY = rf"(?i:\b(?:my|our) {_EX}(?:[a-z-]{{2,12}} {_EX}){{0,2}}?(?P<role>{_ROLES}))\b"
_CALLED = r"(?i:['’]s name is|,? (?:is |was |who is |whose name is )?(?:called|named))?"
_MINE_BEFORE = re.compile(rf"{_MY}{_CALLED},? $")
_SOMEBODYS_BEFORE = re.compile(rf"['’]s (?i:(?P<role>{_ROLES})),? $")  # as records put it: the user's sister Anna
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
# Of these there is one at a time: a later one ends the earlier.
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
    """Somebody known by who they are to somebody."""
    kind = EntityKind.ANIMAL if role in PETS else EntityKind.PERSON
    return EntityDraft(f"{owner.id}/{role}", f"{owner.name}'s {role}", kind)


def find_role(name: str, sentence: str) -> str | None:
    """Who a name is to whoever says the sentence: a sister, of "my sister Anna"."""
    for found in re.finditer(rf"(?<!\w){re.escape(name)}(?!\w)", sentence):
        before = sentence[max(0, found.start() - 70) : found.start()]
        if role := _MINE_BEFORE.search(before) or _SOMEBODYS_BEFORE.search(before):
            return _parse_role(role)
    return None


def find_relations(sentence: Sentence, spots: Sequence[NameSpan], me: EntityDraft | None) -> SentenceRelations:
    """``me`` is who says "my" and "I"; nobody for an assistant."""
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


def _build_role_relations(owner: EntityDraft, role: str, found: EntityDraft, text: str) -> Iterator[_RelationWithEnds]:
    found = EntityDraft(found.id, found.name, EntityKind.ANIMAL) if role in PETS else _to_person(found)
    if found.id == owner.id:
        return
    yield RelationDraft(owner.id, role, found.id, None, RelationKind.ROLE, True, text), (owner, found)
    if role in PARTICULAR:
        known = build_relative(owner, role)
        yield RelationDraft(known.id, IDENTITY, found.id, None, RelationKind.IDENTITY, True, text), (known, found)


def _to_person(found: EntityDraft) -> EntityDraft:
    return EntityDraft(found.id, found.name, EntityKind.PERSON)


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
    """What a team moved to, or where somebody is for three months."""
    return is_product(spot.found.name) or FOR_A_WHILE.match(text[spot.end :].lstrip(" ,")) is not None


def _find_subject(
    text: str, match: re.Match[str], shift: int, earlier: Sequence[NameSpan], me: EntityDraft | None
) -> EntityDraft | None:
    """I, or whoever stands right before the verb."""
    if match["who"]:
        return me
    verb = shift + match.start("who")
    if earlier and not text[earlier[-1].end : verb].strip() and earlier[-1].found.kind is EntityKind.PERSON:
        return earlier[-1].found
    if me is not None and (own := re.search(rf"{_MY}$", text[:verb].rstrip())):
        return build_relative(me, role) if (role := _parse_role(own)) in PARTICULAR else None
    return None
