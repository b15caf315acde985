"""Split a sentence into statements that stand alone: "I'm vegetarian and allergic to peanuts" is two."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from limpet.search.analysis import split_sentences

_PERSON = r"(?i:i|we|he|she|they|it)"
_THEIRS = r"(?i:my|our|his|her|their) (?:[a-zß-ÿ'’-]+ ){0,2}?[a-zß-ÿ-]+(?: [A-ZÀ-Þ][\w’-]+)?"
_NAMED = r"[A-ZÀ-Þ][\w’-]+(?: and [A-ZÀ-Þ][\w’-]+)?"
_BE = r"(?:am|is|are|was|were|['’]m|['’]s|['’]re|m(?=\s))"
_VERB = (
    r"(?:(?:just |also |now |still |never |always |usually |recently |finally |really |only )*"
    r"(?:am|is|are|was|were|have|has|had|do not|don['’]?t|does not|doesn['’]?t|did not|didn['’]?t|can['’]?t|cannot|can|"
    r"will|won['’]?t|would|need|needs|want|wants|like|likes|love|loves|hate|hates|prefer|prefers|live|lives|lived|work|"
    r"works|worked|study|studies|studied|moved|speak|speaks|play|plays|own|owns|drive|drives|bought|sold|use|uses|"
    r"take|takes|took|teach|teaches|run|runs|go|goes|went|eat|eats|drink|drinks|quit|left|got|started|start|starts|"
    r"joined|stopped|switched|adopted|married|divorced|retired|graduated|turned|became|gave up|broke|grew|came|"
    r"collect|collects|train|trains|sing|sings|volunteer|volunteers|share|shares|rent|rents|pay|pays|keep|keeps|"
    r"avoid|avoids|sleep|sleeps|wake|wakes|finish|finished|begin|began|wear|wears|suffer|suffers|am not|is not))\b"
)
_STATE = (
    r"(?:allergic|intolerant|vegetarian|vegan|pescatarian|diabetic|coeliac|celiac|asthmatic|epileptic|dyslexic|autistic|"
    r"colou?r-?blind|deaf|blind|pregnant|married|single|engaged|divorced|widowed|retired|unemployed|self-employed|"
    r"afraid|scared|terrified|based|living|working|studying|learning|training|taking|training|recovering|"
    r"(?:originally )?from|on (?!the other)|off|in a wheelchair|\d{1,3}(?: years? old)?$|\d{1,3}(?= years? old)|"
    r"an? (?=\w+))"
)
_JOINT = re.compile(r"\s*(?:[,;]\s*(?:and|but|so|plus|though|while)?|\band\b|\bbut\b|\bplus\b)\s+", re.IGNORECASE)
_PREDICATE = rf"\s*(?i:{_BE}\s|(?<=\s){_VERB})"
_NEW_SUBJECT = re.compile(rf"(?:{_PERSON}|{_THEIRS}|{_NAMED}){_PREDICATE}")
_OPENING = re.compile(
    rf"^(?:.{{0,40}}?[\s,])??(?P<subject>\b(?:{_PERSON}|{_THEIRS}|{_NAMED}))"
    rf"(?P<be>\s*(?i:{_BE})\s+(?:not |now |also |both )?|\s+(?=(?i:{_VERB})))"
)
_SAME_SUBJECT = re.compile(_VERB, re.IGNORECASE)
_SAME_BE = re.compile(_STATE, re.IGNORECASE)
_CONDITIONAL = re.compile(
    r"\b(?:if|when|whenever|unless|because|until|in case|so that|that|who|which|where)\b", re.IGNORECASE
)
_UNREAL = re.compile(
    r"\b(?:if|imagine|wish|would|could|might|pretend|suppose|supposing|hypothetically)\b", re.IGNORECASE
)
_FILLER = re.compile(r"like\b|you know\b|i mean\b|i think\b|i guess\b", re.IGNORECASE)
_MAX_PARTS = 8


class StatementSpan(NamedTuple):
    """``start`` and ``end``: its words in the text. ``text``: the same with the subject it shares."""

    start: int
    end: int
    text: str


def split_statements(text: str) -> Iterator[StatementSpan]:
    """The statements of a text in order, each with a subject of its own. Runs in linear time."""
    for sentence in split_sentences(text):
        yield from _split_sentence(sentence.text, sentence.start)


def _split_sentence(sentence: str, offset: int) -> Iterator[StatementSpan]:
    cuts = [0]
    shared: list[str] = [""]
    opening = _OPENING.match(sentence[:200])
    for joint in _JOINT.finditer(sentence):
        rest = sentence[joint.end() : joint.end() + 80]
        if len(cuts) >= _MAX_PARTS or not rest:
            break
        before = sentence[cuts[-1] : joint.start()]
        if (
            _CONDITIONAL.match(before.strip())
            or _UNREAL.search(before)
            or len(before.split()) < 2
            or _FILLER.match(rest)
        ):
            continue
        if _NEW_SUBJECT.match(rest):
            cuts.append(joint.end())
            shared.append("")
            opening = _OPENING.match(rest) or opening
        elif opening is not None and not before.rstrip().endswith(("not only", "both")):
            prefix = _share(opening, rest)
            if prefix is not None:
                cuts.append(joint.end())
                shared.append(prefix)
    ends = [*cuts[1:], len(sentence)]
    for start, end, prefix in zip(cuts, ends, shared, strict=True):
        words = _JOINT_END.sub("", sentence[start:end]).rstrip(" ,;")
        if any(map(str.isalnum, words)):
            yield StatementSpan(offset + start, offset + start + len(words), f"{prefix}{words}")


_JOINT_END = re.compile(r"\s*(?:[,;]\s*(?:and|but|so|plus|though|while)?|\band|\bbut|\bplus)\s*$", re.IGNORECASE)


def _share(opening: re.Match[str], rest: str) -> str | None:
    """What the words after "and" share with the beginning: "I'm " before "allergic to nuts", "I " before "work"."""
    if _SAME_SUBJECT.match(rest):
        return f"{opening['subject']} "
    if opening["be"].strip() and _SAME_BE.match(rest):
        return f"{opening['subject']}{opening['be']}"
    return None
