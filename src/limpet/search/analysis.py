"""Text as search reads it: terms, flags, sentences, and what a question asks.

There is one analysis for stored texts and questions. Words are case-folded, lose their accents, and are stemmed
(Snowball English). Chinese, Japanese and Korean runs become overlapping pairs, since they have no spaces. An emoji is a
word. A term is stored as a 64-bit hash, so that index rows contain no readable text.
"""

from __future__ import annotations

import re
import struct
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from enum import IntFlag
from functools import cache
from hashlib import blake2b
from itertools import islice, pairwise
from typing import NamedTuple

from limpet.model.chunk import Terms
from limpet.model.dataclass import dataclass
from limpet.model.late import load_modules
from limpet.model.text_cache import cache_texts
from limpet.search import english

# Stored in every database: an index built with another analysis is rebuilt, never mixed.
ANALYZER_VERSION = "snowball-english-3/pairs/dated/unaccented"

_CJK = (
    "\u1100-\u11ff\u3040-\u30ff\u3130-\u318f\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff"
    "\uf900-\ufaff\U00020000-\U0003134f"
)
_EMOJI = "\u2600-\u27bf\U0001f300-\U0001faff"
_ASCII_WORD = re.compile(r"[a-z0-9]+(?:'[a-z0-9]+)*")
# For ASCII: lowercase letters, and a space for every character outside words.
_ASCII_TRANSLATION = "".join(char.lower() if char.isalnum() else " " for char in map(chr, range(128)))
_ACCENTS = re.compile("[\u0300-\u036f]+")  # combining marks; those of other scripts, as in Hindi, are letters
_PLAIN_LETTERS = str.maketrans(
    {"\u2019": "'", "æ": "ae", "œ": "oe", "ø": "o", "đ": "d", "ð": "d", "þ": "th", "ł": "l", "ħ": "h", "ı": "i"}
)
_PLAIN_WORD = re.compile(r"[a-z]+|\d+")
_MAX_WORD = 64
_MAX_COUNT = 255
_MAX_NAMES = 200
_MAX_REMEMBERED = 400  # characters of a text whose terms are remembered
MAX_QUESTION = 16_000  # characters
_LONGEST_REQUEST = 100  # characters
_LONGEST_NOTICE = 80  # characters of a reply that says nothing
_MAX_SPANS = 50  # times that a question names

# Terms


def analyse(text: str) -> Terms:
    terms = _list_terms(text)
    return Terms(Counter(terms), len(terms))


def extract_terms(text: str) -> list[int]:
    """Return the distinct terms, in order of first occurrence."""
    return list(dict.fromkeys(_list_terms(text)))


def count_shared_terms(question: frozenset[int], text: str) -> int:
    return len(question & find_terms(text))


def find_terms(text: str) -> frozenset[int]:
    """Return the distinct terms. Those of a short text are remembered: it is compared with many questions."""
    return _find_terms(text) if len(text) <= _MAX_REMEMBERED else frozenset(_list_terms(text))


@cache_texts(1 << 11)
def _find_terms(text: str) -> frozenset[int]:
    return frozenset(_list_terms(text))


def format_index_text(text: str, name: str | None, at: datetime) -> str:
    """Return the text to index for a message's chunk: a question may name the speaker or the date."""
    spoken = f"{name}: {text}" if name else text
    return f"[{at.day} {english.MONTHS[at.month - 1]} {at.year}] {spoken}"


def add_words(text: str, words: str | None) -> str:
    """Return the text to index for a record's chunk: people ask for what it states in other words."""
    return f"{words}: {text}" if words else text


def strip_names(text: str, names: tuple[str, ...]) -> str:
    """Return the text to embed, without names: names that occur everywhere make all texts similar."""
    if not names:
        return text
    bare = " ".join(_name_pattern(names[:_MAX_NAMES]).sub(" ", text).split())
    return bare or text


@cache_texts(256)
def _name_pattern(names: tuple[str, ...]) -> re.Pattern[str]:
    longest_first = sorted(names, key=len, reverse=True)  # "Anna Maria" before "Anna"
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, longest_first))})(?:['\u2019]s)?\b", re.IGNORECASE)


def _list_terms(text: str) -> list[int]:
    return [term for word in _tokenize(text) if (term := _hash_word(word)) is not None]


def _tokenize(text: str) -> Iterable[str]:
    if not text.isascii():
        return _tokenize_unicode(text)
    # An apostrophe inside a word belongs to it. Most texts have none and are faster to split.
    return _ASCII_WORD.findall(text.lower()) if "'" in text else text.translate(_ASCII_TRANSLATION).split()


def _tokenize_unicode(text: str) -> Iterator[str]:
    for run, word in _word_pattern().findall(_fold(text)):
        if run:
            # Each character and each pair: a one-character question matches, a longer one ranks by pairs.
            yield from run
            yield from map("".join, pairwise(run))
        else:
            yield word


def _fold(text: str) -> str:
    """Return the text in lower case and without accents: a question may leave them out."""
    lowered = unicodedata.normalize("NFKC", text).casefold().translate(_PLAIN_LETTERS)
    return unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFD", lowered)))


@cache
def _word_pattern() -> re.Pattern[str]:
    """Match a run of ideographs, or another word. Compiled on the first non-ASCII text."""
    letter = f"[^\\W_{_CJK}]"
    return re.compile(f"([{_CJK}]+)|({letter}+(?:'{letter}+)*|[{_EMOJI}])")


@cache_texts(1 << 16)
def _hash_word(word: str) -> int | None:
    if word in english.STOP_WORDS:
        return None
    # A long base64 run is identified by its start.
    stem = _load_stemmer()(word[:_MAX_WORD]) if word.isascii() else word[:_MAX_WORD]
    return int.from_bytes(blake2b(stem.encode(), digest_size=8).digest(), "big", signed=True)


@cache
def _load_stemmer() -> Callable[[str], str]:
    load_modules("Stemmer")
    from Stemmer import Stemmer  # late: most commands analyse no text

    stemmer = Stemmer("english")
    stemmer.maxCacheSize = 0  # _hash_word has its own cache
    stem: Callable[[str], str] = stemmer.stemWord
    return stem


def pack_terms(terms: Terms) -> bytes:
    counts = terms.counts.values()
    try:
        packed = bytes(counts)
    except ValueError:  # a word that occurs more often than a byte can count
        packed = bytes(min(count, _MAX_COUNT) for count in counts)
    return struct.pack(f"<{len(terms.counts)}q", *terms.counts) + packed


def unpack_terms(data: bytes) -> tuple[tuple[int, ...], bytes]:
    size = len(data) // 9
    return struct.unpack_from(f"<{size}q", data), data[size * 8 :]


# Flags of a text, computed when it is stored, so that ranking never reads texts


class TextFlag(IntFlag):
    ENDS_ASKING = 1  # the message ends in a question mark
    ONLY_ASKS = 2  # every sentence of the message is a question, and none says something first
    TIME_WORD = 4  # the chunk says when
    STANDING_WISH = 8  # the chunk states a permanent preference


_ENDS_ASKING, _ONLY_ASKS, _TIME_WORD, _STANDING_WISH = map(int, TextFlag)  # to combine flags takes a microsecond


def flag_message(text: str) -> int:
    if "?" not in text:
        return 0
    flags = _ENDS_ASKING if text.rstrip().endswith("?") else 0
    ends = english.QUESTION_END.findall(text)
    *sentences, rest = english.QUESTION_END.split(text)
    only_asks = ends and all("?" in end for end in ends) and not any(map(str.isalnum, rest))
    if only_asks and not any(map(english.STATEMENT_FIRST.match, sentences)):
        flags |= _ONLY_ASKS
    return flags


def only_requests(text: str) -> bool:
    """Return whether a message asks for something, with or without a question mark, and says nothing beside."""
    said = text.strip()
    return len(said) <= _LONGEST_REQUEST and bool(english.ASKS_FOR.match(said)) and not english.SAYS_BESIDE.search(said)


def says_nothing(text: str) -> bool:
    """Return whether a reply only takes notice of what was said: "Noted.", "Lovely family!"."""
    if len(text) > _LONGEST_NOTICE or any(map(str.isdigit, text)):
        return False
    terms = frozenset(extract_terms(text))
    return len(terms - _reply_terms()) <= min(1, len(terms) - 1)


@cache
def _reply_terms() -> frozenset[int]:
    return frozenset(extract_terms(english.REPLY_WORDS))


def flag_chunk(text: str) -> int:
    lowered = text.lower()
    words = set(_PLAIN_WORD.findall(lowered))
    flags = 0 if words.isdisjoint(english.DATING_WORDS) else _TIME_WORD
    if not words.isdisjoint(english.WISH_WORDS) and english.STANDING_WISH.search(lowered):
        return flags | _STANDING_WISH
    return flags


# Sentences


class Sentence(NamedTuple):
    """``start`` is the position of its first character; a bullet mark is not part of it."""

    start: int
    text: str
    bullet: bool = False


def split_sentences(text: str) -> Iterator[Sentence]:
    """Return the sentences in order, stripped. Runs in linear time."""
    start = 0
    for mark in english.SENTENCE_END.finditer(text):
        end = mark.end()
        if mark.group() == "." and _is_mid_sentence(text, start, end):
            continue
        if sentence := _make_sentence(text, start, end):
            yield sentence
        start = end
    if sentence := _make_sentence(text, start, len(text)):
        yield sentence


def _is_mid_sentence(text: str, start: int, end: int) -> bool:
    """Return whether this follows an abbreviation, an initial (but not the word I), or a list number."""
    before = text[max(start, end - 10) : end]
    if english.NUMBERED.match(text[start:end] if end - start < 8 else ""):
        return True
    match = english.ABBREVIATION.search(before)
    return match is not None and match.group().strip(" (\n\t").casefold() not in {"i.", "no."}


def _make_sentence(text: str, start: int, end: int) -> Sentence | None:
    bullet = english.BULLET.match(text, start, min(end, start + 200))
    whole = text[bullet.end() if bullet else start : end]
    stripped = whole.strip()
    if not any(map(str.isalnum, stripped[:1000])):
        return None
    return Sentence(end - len(whole.lstrip()), stripped, bullet is not None)


# Questions: what one says besides its words: who, when, and what kind of question it is


def cut_question(text: str) -> str:
    """The part of a question that is read: of a long one its beginning and its end, where people ask.

    A turn asks with the whole message, which may be a pasted file.
    """
    half = MAX_QUESTION // 2
    return text if len(text) <= MAX_QUESTION else f"{text[:half]}\n{text[-half:]}"


class Span(NamedTuple):
    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class Question:
    text: str
    terms: tuple[int, ...]
    asks_when: bool
    asks_back: bool  # asks for the past, not the present
    about_assistant: bool
    requests: bool
    at: datetime | None

    @classmethod
    def parse(cls, text: str, at: datetime | None) -> Question:
        text = cut_question(text)
        about_assistant = bool(english.ABOUT_ASSISTANT.search(text))
        return cls(
            text,
            tuple(extract_terms(text)),
            bool(english.ASKS_WHEN.search(text)),
            bool(english.ASKS_BACK.search(text)),
            about_assistant,
            not about_assistant and bool(english.REQUEST.search(text)),
            at,
        )

    def weigh_terms(self, asking: float) -> dict[int, float]:
        """Return the terms with their weights; filler words weigh less if there are others."""
        fillers = _terms_of(english.FILLER_WORDS)
        if asking == 1.0 or fillers.issuperset(self.terms):
            return dict.fromkeys(self.terms, 1.0)
        return {term: asking if term in fillers else 1.0 for term in self.terms}

    def find_optional_terms(self, names: Sequence[str]) -> frozenset[int]:
        """Return terms that a relevant text may lack: names and times."""
        return _terms_of(english.TIME_WORDS).union(extract_terms(" ".join(names)))

    def find_names(self, names: Sequence[str]) -> list[int]:
        text = self.text.casefold()  # fast check: most names do not occur
        return [
            number
            for number, name in enumerate(names)
            if name.casefold() in text and re.search(rf"\b{re.escape(name)}\b", self.text, re.IGNORECASE)
        ]


@cache
def _terms_of(words: str) -> frozenset[int]:
    return frozenset(extract_terms(words))


def parse_spans(question: str, now: datetime | None, years: Iterable[int]) -> list[Span]:
    """Parse times. A date without a year may be in any of ``years``; relative times need ``now``."""
    text = question.lower()
    spans = dict.fromkeys(_find_absolute(text, list(years)))
    if now is not None:
        spans |= dict.fromkeys(_find_relative(text, now.replace(hour=0, minute=0, second=0, microsecond=0)))
    return list(islice(spans, _MAX_SPANS))


def _find_absolute(text: str, years: list[int]) -> Iterator[Span]:
    used = bytearray(len(text) + 1)  # 1 for every character of an expression that is read
    for pattern, day_first in ((english.DAY_MONTH, True), (english.MONTH_DAY, False)):
        for match in pattern.finditer(text):
            day, month = (match[1], match[2]) if day_first else (match[2], match[1])
            _mark(used, match)
            for year in [int(match[3])] if match[3] else years:
                with suppress(ValueError, OverflowError):  # there is no such day
                    start = datetime(year, _month_number(month), int(day), tzinfo=UTC)
                    yield Span(start, start + timedelta(1))
    for match in english.MONTH_ALONE.finditer(text):
        if used[match.start(2)]:
            continue
        if match[2] in english.AMBIGUOUS_MONTHS and not match[1] and not match[3]:
            continue
        _mark(used, match)
        number = _month_number(match[2])
        for year in [int(match[3])] if match[3] else years:
            with suppress(ValueError):
                start = datetime(year, number, 1, tzinfo=UTC)
                yield Span(start, datetime(year + number // 12, number % 12 + 1, 1, tzinfo=UTC))
    for match in english.YEAR.finditer(text):
        if not used[match.start(1)]:
            year = int(match[1])
            yield Span(datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 1, 1, tzinfo=UTC))


def _mark(used: bytearray, match: re.Match[str]) -> None:
    start, end = match.span()
    used[start:end] = b"\1" * (end - start)


def _month_number(text: str) -> int:
    return next(number for number, month in enumerate(english.MONTHS, 1) if month.lower().startswith(text[:3]))


def _find_relative(text: str, today: datetime) -> Iterator[Span]:
    for start, end in _find_offsets(text, today.weekday()):
        with suppress(OverflowError):  # before the year 1
            yield Span(today + timedelta(start), today + timedelta(end))


def _find_offsets(text: str, weekday: int) -> Iterator[tuple[float, float]]:
    """Return the days from today to the start and the end of each relative time."""
    for match in english.AGO.finditer(text):
        days, slack = _parse_amount(match[1]) * english.UNIT_DAYS[match[2]], english.UNIT_SLACK[match[2]]
        yield -days - slack, 1 - days + slack
    for word, days in (("yesterday", 1), ("today", 0)):
        if re.search(rf"\b{word}\b", text):
            yield -days, 1 - days
    for match in english.LAST_ONE.finditer(text):
        if match[1] in english.WEEKDAYS:
            days = (weekday - english.WEEKDAYS.index(match[1]) - 1) % 7 + 1
            yield -days, 1 - days
        elif match[1] == "weekend":
            yield -weekday - 2, -weekday
        else:
            yield -2 * english.UNIT_DAYS[match[1]], 1
    for match in english.LAST_MANY.finditer(text):
        yield -1.15 * _parse_amount(match[1]) * english.UNIT_DAYS[match[2]], 1


def _parse_amount(text: str) -> int:
    return int(text) if text.isdigit() else english.AMOUNTS[text]
