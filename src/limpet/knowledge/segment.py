"""Cut a message for the trained networks: into clauses, and a clause into word pieces.

A clause is a sentence, or one of the coordinated predicates in it. Their spans are contiguous, in order, and leave out
nothing but space.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

_SENTENCE = re.compile(r"[.!?…]+[\"'”’)\]*_]*(?=\s|$)|\n+|(?<=[^\W\d_])[.!?](?=[A-ZÀ-Þ][a-zß-ÿ])")
# A full stop after these does not end a sentence.
_ABBREVIATION = re.compile(
    r"(?:^|[\s(.])(?:mr|mrs|ms|dr|dra|sr|sra|st|prof|jr|vs|etc|e\.g|i\.e|approx|dept|mt|ave|inc|ltd|[b-hj-z])\.$",
    re.IGNORECASE,
)


def _any_of(words: str) -> str:
    return "|".join(word.replace("'", "['’]").replace("_", " ") for word in words.split())


_SUBJECT = (
    "(?:"
    + _any_of(
        """i i'm im i've ive i'd i'll we we're we've we'll he he's hes she she's shes they they're they've it it's
        its that's there's you you're my our his her their this that there please never don't dont do_not always
        from_now_on"""
    )
    + r"|(?-i:[A-ZÀ-Þ][\wà-ÿ'’-]+) (?:is|was|has|had|lives|works|does|will|can|likes|loves|hates|prefers|wants|"
    r"needs|died|left|moved|got))"
)
_PREDICATE = (
    "(?:"
    + _any_of(
        """am is are was were have has had live lives lived work works worked love loves like likes hate hates prefer
        prefers enjoy enjoys study studies studied moved moving speak speaks play plays own owns drive drives
        joined dislike dislikes can't cant cannot won't don't doesn't didn't do_not does_not no_longer never
        always got quit left started stopped bought sold adopted turned became used_to want wants plan plans
        planning need needs teach teaches run runs collect collects living working studying based originally_from
        allergic vegan vegetarian coeliac celiac diabetic lactose married divorced widowed single retired pregnant
        deaf blind dyslexic autistic intolerant take takes taking keep use write call stick remember train trains
        training sing sings coach coaches volunteer volunteers"""
    )
    + ")"
)
_QUESTION = (
    r"(?:(?:what|where|which|how|when|why|who)(?:['’]s)? (?:is|are|was|do|does|did|can|could|should|would|will|"
    r"kind|much|many|about)|(?:what|which|how) (?:[\w'’-]+ ){1,3}?"
    r"(?:is|are|do|does|did|can|could|should|would|will|has|have)|"
    r"(?:can|could|should|would|will|do|does|is|are) (?:you|i|we|it|there|that|this)|"
    r"any (?:idea|tips|ideas)|(?:suggest|recommend|list|draft|help me|show me|find me|tell me|plan (?:me|a|my|our)"
    r"|(?:write|give) (?:[\w'’-]+ )?(?:a|an|some|ideas)))"
)
_CONDITION = re.compile(
    r"(?:(?:and|but|so|also),?\s+)?(?:if|when|whenever|unless|once|until|as soon as)\b", re.IGNORECASE
)
_PAIR = re.compile(r"(?:^|[,:]\s*|\b(?:and|but|so)\s+)(?:(?:my|our|his|her|me|the)\s+)?[\w'’-]+$", re.IGNORECASE)
_AND_I = re.compile(r"\s+(?:and|n|&)\s+$", re.IGNORECASE)
_JOINT = re.compile(
    rf"\s*;\s*|\s+[–—]+\s+|\s+--?\s+|(?<=\w)—(?=\w)"
    rf"|,?\s+(?:and|but|so|because|cos|cuz|coz|bc|though|although|while|whereas|plus|yet|then|also|since|n|&)\s+"
    rf"(?:(?:also|now|then|currently|still|actually|just|please|btw)\s+)?(?={_SUBJECT}\b)"
    rf"|,?\s+(?:and|but|n|&|plus)\s+(?:(?:also|now|then|currently|still|am|i'm)\s+)?(?={_PREDICATE}\b)"
    rf"|,\s+(?:(?:oh|and|also|btw|by the way|anyway|so|well|but),?\s+){{0,3}}(?=(?:{_SUBJECT}|{_PREDICATE})\b)"
    rf"|,?\s+(?:btw|by the way|fyi),?\s+"
    rf"|,\s+(?:(?:so|and|but)\s+)?(?={_QUESTION}\b)",
    re.IGNORECASE,
)
_WORDS = re.compile(r"\w+")
_WORD = re.compile(r"[^\W_]+|[^\w\s]|_")
MAX_CACHED = 50_000
SMALL, CAPITAL, CAPITALS, NUMBER = range(4)


def split_sentences(text: str) -> list[tuple[int, int]]:
    """Return the span of each sentence, without the space around it."""
    ends = [
        end.end()
        for end in _SENTENCE.finditer(text)
        if end.group()[0] != "." or not _ABBREVIATION.search(text[max(0, end.start() - 8) : end.start() + 1])
    ]
    spans, start = [], 0
    for end in [*ends, len(text)]:
        span = _trim(text, start, end)
        if span[0] < span[1]:
            spans.append(span)
        start = end
    return spans


def split_clauses(text: str) -> list[tuple[int, int]]:
    """Return the span of each clause: a sentence, or one of the coordinated predicates in it."""
    return [clause for start, end in split_sentences(text) for clause in _split(text, start, end)]


def _split(text: str, start: int, end: int) -> list[tuple[int, int]]:
    spans, at = [], start
    for joint in _JOINT.finditer(text, start, end):
        cut = joint.start() if joint.group()[:1] not in ",;" else joint.start() + 1
        if (
            _is_short(text[at : min(cut, at + 60)])
            or _is_short(text[joint.end() : min(end, joint.end() + 60)])
            or _belongs_together(text, at, joint)
        ):
            continue
        spans.append(_trim(text, at, cut))
        at = cut
    spans.append(_trim(text, at, end))
    return [span for span in spans if span[0] < span[1]]


def _is_short(part: str) -> bool:
    """Whether a part is too short to state something by itself: "and I", "so yes"."""
    return len(_WORDS.findall(part[:60])) < 2


def _belongs_together(text: str, at: int, joint: re.Match[str]) -> bool:
    """Whether a joint stands inside one clause: "if my sister writes, don't answer", "my wife and I are vegan"."""
    if joint.group().startswith(","):
        return bool(_CONDITION.match(text, at)) and text.find(",", at, joint.start()) < 0
    return bool(_AND_I.fullmatch(joint.group()) and _PAIR.search(text[max(at, joint.start() - 60) : joint.start()]))


def _trim(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    return start, end


class Pieces:
    """The vocabulary of word pieces. Safe between threads: a cached word is only ever written with the same value."""

    def __init__(self, vocabulary: Sequence[str], unknown: int) -> None:
        self._known = {piece: number for number, piece in enumerate(vocabulary)}
        self._unknown = unknown
        self._cache: dict[str, list[int]] = {}

    def cut(self, text: str) -> tuple[list[int], list[int], list[int]]:
        """Return for each piece its number, the place of its word in the text, and its shape."""
        numbers: list[int] = []
        places: list[int] = []
        shapes: list[int] = []
        for found in _WORD.finditer(text):
            word = found.group()
            pieces = self._cache.get(word)
            if pieces is None:
                pieces = self._cut_word(word)
                if len(self._cache) < MAX_CACHED:
                    self._cache[word] = pieces
            numbers += pieces
            places += [found.start()] * len(pieces)
            shapes += [_shape(word)] * len(pieces)
        return numbers, places, shapes

    def _cut_word(self, word: str) -> list[int]:
        word = word.lower()
        if not word.isascii():
            word = "".join(c for c in unicodedata.normalize("NFD", word) if unicodedata.category(c) != "Mn")
            word = {"’": "'", "‘": "'", "“": '"', "”": '"', "—": "-", "–": "-", "…": "."}.get(word, word)
        if len(word) > 60:
            return [self._unknown]
        numbers, start = [], 0
        while start < len(word):
            for end in range(len(word), start, -1):
                number = self._known.get(("##" if start else "") + word[start:end])
                if number is not None:
                    break
            else:
                return [self._unknown]
            numbers.append(number)
            start = end
        return numbers or [self._unknown]


def _shape(word: str) -> int:
    first = word[0]
    if first.isdigit():
        return NUMBER
    if not first.isupper():
        return SMALL
    return CAPITALS if len(word) > 1 and word.isupper() else CAPITAL
