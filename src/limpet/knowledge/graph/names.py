"""Find names in a text by rules: capitalized words, quoted titles, files, and people's roles."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

from limpet.knowledge import english
from limpet.knowledge.candidate import find_references
from limpet.model.graph import MAX_NAME, EntityDraft, EntityKind, normalize_name
from limpet.search.analysis import Sentence, split_sentences

ENDINGS = ("ing", "ed", "ly", "tion", "ness", "ment", "ful", "able", "ible", "ous", "ive", "est")
MAX_TEXT = 20_000  # characters of a message that are read; longer text was pasted


def _char_ranges(chars: list[int]) -> str:
    parts, start, last = [], chars[0], chars[0]
    for char in [*chars[1:], sys.maxunicode]:
        if char != last + 1:
            parts.append(f"{chr(start)}-{chr(last)}")
            start = char
        last = char
    return "".join(parts)


_CAPITAL = "[A-Z" + _char_ranges([at for at in range(0xC0, 0x530) if unicodedata.category(chr(at)) == "Lu"]) + "]"
_WORD = rf"{_CAPITAL}[\w-]*(?:['’](?!s\b|ll\b|re\b|ve\b|d\b|m\b|t\b)[\w-]+)?"
_LINK = r"(?:of the|of|de la|de|del|la|van der|van|von|der|di|da|dos|du|al|bin|&)"
_NAME = re.compile(rf"(?<![\w'’@#/.-]){_WORD}(?: (?:{_LINK} )?{_WORD}){{0,5}}(?![\w@])")
_QUOTED = re.compile(r"[\"“]([^\"“”\n]{2,80})[\"”]")
_TAG = re.compile(r"(?<![\w&/])#([^\W\d_][\w-]{1,40})")
_BEFORE_PLACE = re.compile(r"\b(?:in|near|visit(?:ed|ing)?|moved? to|trip to|fl[ey]w? to)(?: the)? $", re.IGNORECASE)
_BEFORE_WORK = re.compile(
    r"\b(?:work(?:s|ed|ing)? (?:at|for)|job at|hired by|joined|intern(?:ship|ed|ing)? at|studie[sd] at"
    r"|employed (?:at|by))"
    r"(?: the)? $",
    re.IGNORECASE,
)
_BEFORE_PERSON = re.compile(
    r"\b(?:mr|mrs|ms|miss|dr|prof|professor|aunt|auntie|uncle|hi|hey|hello|thanks|dear|grandma|grandpa|coach|nurse"
    r"|named|called|met|told|asked|married|friend|sister|brother|mom|mum|dad|wife|husband|son|daughter|cousin|colleague"
    r"|boss|neighbou?r|niece|nephew|partner|boyfriend|girlfriend|fiancée?)\.?,? $",
    re.IGNORECASE,
)
_AFTER_PERSON = re.compile(
    r"(?:,)? (?:said|says|told|asked|thinks|thought|wants|wanted|loves|loved|likes|liked|hates|called|texted|and i"
    r"|is coming|was born|married|smiled|laughed|lives|works|plays|went|feels|felt|suggested|recommended|mentioned)\b"
    r"|['’]s (?:mom|mum|dad|mother|father|wife|husband|birthday|house|place|party|wedding|sister|brother|son"
    r"|daughter|kids)\b",
    re.IGNORECASE,
)


_SHORT = 3  # letters of a place in capitals only: UK, NYC
_OPENING = 2  # characters before the first word, such as a quotation mark


@cache
def load_nameless() -> frozenset[str]:
    """Capitalized words and first words that are not names."""
    common = frozenset().union(*map(english.get_words, ("no_names", "demonyms", "languages")))
    return (common - english.get_words("tools")) | english.get_words("nameless")


class NameSpan(NamedTuple):
    """A name and its position in the sentence."""

    start: int
    end: int
    found: EntityDraft


class EntityScan(NamedTuple):
    """Return each name once, with its most likely kind, and every sentence with its names."""

    entities: tuple[EntityDraft, ...]
    sentences: tuple[tuple[Sentence, tuple[NameSpan, ...]], ...]


def find_entities(text: str) -> tuple[EntityDraft, ...]:
    return scan_text(text).entities


def scan_text(text: str) -> EntityScan:
    whole = english.mask_quotations(text[:MAX_TEXT])
    calm = [sentence for sentence in split_sentences(_blank_titles(whole)) if not _is_shouted(sentence.text)]
    inner = _find_inner_names(calm)
    said = tuple((sentence, tuple(_iter_spans(sentence.text, inner))) for sentence in calm)
    best: dict[str, EntityDraft] = {}
    for _, spots in said:
        for spot in spots:
            known = best.get(spot.found.id)
            if known is None or known.kind is EntityKind.THING:
                best[spot.found.id] = spot.found
    for name in _iter_titles(whole):
        best.setdefault(normalize_name(name), EntityDraft(normalize_name(name), name))
    for found in (*_iter_tags(whole), *_iter_files(text[:MAX_TEXT])):
        best.setdefault(found.id, found)
    return EntityScan(tuple(found for found in best.values() if found.id), said)


def _blank_titles(text: str) -> str:
    """Remove names inside titles: the words of a title are not names."""
    return _QUOTED.sub(lambda match: " " * len(match.group()) if _is_title(match[1]) else match.group(), text)


def _find_inner_names(calm: Sequence[Sentence]) -> frozenset[str]:
    """Return words that are capitalized in the middle of a sentence: they are names at its start, too."""
    inner: set[str] = set()
    for sentence in calm:
        for match in _NAME.finditer(sentence.text):
            if match.start() > _OPENING:
                inner.update(word.casefold() for word in match.group().split())
    return frozenset(inner - load_nameless())


def _iter_spans(text: str, inner: frozenset[str]) -> Iterator[NameSpan]:
    for match in _NAME.finditer(text):
        for start, name in _trim_name(match.group(), match.start(), inner):
            kind = _classify_name(
                name, text[max(0, start - 40) : start], text[start + len(name) : start + len(name) + 30]
            )
            if id_ := normalize_name(name):
                yield NameSpan(start, start + len(name), EntityDraft(id_, name, kind))


def _is_shouted(text: str) -> bool:
    letters = [char for char in text if char.isalpha()]
    return len(letters) > 12 and sum(map(str.isupper, letters)) > 0.6 * len(letters)


def _trim_name(name: str, start: int, inner: frozenset[str]) -> Iterator[tuple[int, str]]:
    """Strip words that are capitalized for another reason."""
    words = name.split(" ")
    at = start
    opening = start <= _OPENING
    while words and (words[0].casefold() in load_nameless() or (opening and not _begins_name(words, inner))):
        at += len(words[0]) + 1
        words = words[1:]
        opening = False
        while words and not words[0][:1].isupper():  # a connecting word that is now first
            at += len(words[0]) + 1
            words = words[1:]
    while words and (words[-1].casefold() in load_nameless() or not words[-1][:1].isupper()):
        words = words[:-1]
    whole = " ".join(words)
    if words and 1 < len(whole) <= MAX_NAME and not whole.isdigit():
        yield at, whole


def _begins_name(words: list[str], inner: frozenset[str]) -> bool:
    """The first word of a sentence is always capitalized."""
    first = words[0].casefold()
    if first in inner or first in english.get_words("given_names") or first in english.get_words("places"):
        return True
    if len(words[0]) > 1 and any(map(str.isupper, words[0][1:])):  # NATO, O'Brien, GitHub
        return True
    several = len(words) > 1
    return several and not first.endswith(ENDINGS)


def _classify_name(name: str, before: str, after: str) -> EntityKind:
    words = normalize_name(name).split()
    if not words:
        return EntityKind.THING
    if " ".join(words) in english.get_words("places"):
        return EntityKind.PLACE
    if words[0] in english.get_words("tools"):
        return EntityKind.THING
    if words[-1] in english.get_words("organised") or (words[0] in english.get_words("organised") and len(words) > 1):
        return EntityKind.ORGANISATION
    if words[-1] in english.get_words("located") and len(words) > 1:
        return EntityKind.PLACE
    given = words[0] in english.get_words("given_names") and len(words) <= 3
    if given or _BEFORE_PERSON.search(before):
        return EntityKind.PERSON
    if _BEFORE_WORK.search(before):
        return EntityKind.ORGANISATION
    if _BEFORE_PLACE.search(before) and len(words) <= 3 and not (name.isupper() and len(name) > _SHORT):
        return EntityKind.PLACE
    if len(words) <= 2 and not name.isupper() and _AFTER_PERSON.match(after):
        return EntityKind.PERSON
    return EntityKind.THING


def _iter_titles(text: str) -> Iterator[str]:
    for match in _QUOTED.finditer(text):
        if _is_title(match[1]):
            yield " ".join(match[1].strip(" ,.!?").split())


def _is_title(quotation: str) -> bool:
    words = quotation.strip(" ,.!?").split()
    heads = [word for word in words if word[:1].isupper()]
    if not 1 <= len(words) <= 8 or not words[0][:1].isupper() or 2 * len(heads) <= len(words):
        return False
    return len(words) > 1 or words[0].casefold() not in load_nameless()


def _iter_tags(text: str) -> Iterator[EntityDraft]:
    for match in _TAG.finditer(text):
        yield EntityDraft(normalize_name(match[1]), match[1], EntityKind.TOPIC)


def _iter_files(text: str) -> Iterator[EntityDraft]:
    for name in find_references(text):
        if len(name) <= MAX_NAME and "\n" not in name and " " not in name and (id_ := normalize_name(name)):
            yield EntityDraft(id_, name)
