"""What a text says: whether it mentions a value, marks it as past, repeats another line, or was said by somebody."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from typing import NamedTuple

_STOP = frozenset(
    "a an the i me my mine we us our ours you your yours he him his she her hers it its they them their theirs user s m"
    " ve re ll d t is are am was were be been being do does did have has had having of to in on at for with and or but"
    " so that this these those as by from can will would".split()
)
_LABELS = frozenset("asked answered assistant okay said says".split())  # words of a layout and of our own replies
_SLACK = 4  # words that may stand between those of a value
_MIN_EQUAL = 3  # content words of a line that can repeat another
_MIN_CONTAINED = 5

_WORD = re.compile(r"[^\W_]+")
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_DATE = re.compile(
    rf"\b(?:\d{{4}}-\d\d(?:-\d\d)?(?:[T ]\d\d:\d\d(?::\d\d)?Z?)?|\d{{1,2}} {_MONTH}(?:,? \d{{4}})?"
    rf"|{_MONTH} \d{{1,2}}(?:, \d{{4}})?\b|{_MONTH} \d{{4}})",
    re.IGNORECASE,
)
_SINCE = re.compile(r"\b(?:since|from|as of)(?: about)? $", re.IGNORECASE)
_PAST = re.compile(
    r"\b(?:until|no longer|was|were|used to|any ?more|ended|former(?:ly)?|previous(?:ly)?|stopped|had been|past"
    r"|superseded|replaced|not true)\b",
    re.IGNORECASE,
)
_INITIALS = re.compile(r"\b([A-Z]{2,})s\b")  # "DJs weddings"
_MARK = re.compile(r"^\s*(?:[-*+•>]|\d+[.)])\s+")
_SPEAKER = re.compile(rf"^[\w .'’-]{{1,40}}(?:\([^)]*\))?(?:, {_DATE.pattern})?:\s+", re.IGNORECASE)
_PUNCTUATION = " ,:;()[]*_–—"
_REST = re.compile(r"\b(?:search|searched|searchable|recall|recalled)\b", re.IGNORECASE)


class ContextLine(NamedTuple):
    text: str
    heading: str  # all headings it stands under


# Words


@lru_cache(maxsize=4096)
def words(text: str) -> tuple[str, ...]:
    """Lower-case words without inflection; every negation is the word "not"."""
    plain = (
        _INITIALS.sub(r"\1", text).lower().replace("’", "'").replace("cannot", "can not").replace("can't", "can not")
    )
    return tuple(map(_stem, _WORD.findall(re.sub(r"n't\b", " not", plain))))


def _stem(word: str) -> str:
    if word in {"no", "never", "not"}:
        return "not"
    if len(word) > 4 and word.endswith("ies"):
        return f"{word[:-3]}y"
    if len(word) > 5 and word.endswith(("ches", "shes", "sses", "xes")):
        return word[:-2]
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


@lru_cache(maxsize=4096)
def content_words(text: str) -> frozenset[str]:
    return frozenset(words(text)) - _STOP


def mentions(text: str, phrases: Iterable[str]) -> bool:
    """Whether one of the phrases stands in the text: as it is, or its content words close together."""
    return any(_mentions(words(text), phrase) for phrase in phrases)


def mentions_all(text: str, phrases: Iterable[str]) -> bool:
    return all(_mentions(words(text), phrase) for phrase in phrases)


def _mentions(spoken: Sequence[str], phrase: str) -> bool:
    wanted = words(phrase)
    if not wanted:
        return False
    if f" {' '.join(wanted)} " in f" {' '.join(spoken)} ":
        return True
    content = content_words(phrase)
    width = len(wanted) + _SLACK
    return len(content) > 1 and any(
        content <= set(spoken[at : at + width]) for at, word in enumerate(spoken) if word in content
    )


def overlaps(one: str, other: str) -> bool:
    """Whether two quotes share a run of words that is at least half of the shorter one."""
    first, second = words(one), words(other)
    if not first or not second:
        return False
    run = SequenceMatcher(None, first, second, autojunk=False).find_longest_match()
    return run.size * 2 >= min(len(first), len(second))


def split_sentences(text: str) -> list[str]:
    parts = re.split(r"(?<=[.!?…])[\s\"”')]+|\n+", text)
    return [part.strip() for part in parts if words(part)]


# Lines of a context


def context_lines(text: str) -> list[ContextLine]:
    """The lines of a context that state something. An indented line goes on with the one before it."""
    found: list[ContextLine] = []
    headings: list[str] = []
    label = ""
    for line in text.splitlines():
        if not line.strip():
            label = ""
        elif line.startswith("#"):
            level = len(line) - len(line.lstrip("#"))
            headings[level - 1 :] = [line.strip("# ")]
            label = ""
        elif _is_label(line):
            label = line.strip()
        elif line[0].isspace() and not _MARK.match(line) and found:
            found[-1] = found[-1]._replace(text=f"{found[-1].text} {line.strip()}")
        else:
            found.append(ContextLine(_MARK.sub("", line).strip(), " / ".join((*headings, label)).strip(" /")))
    return found


def _is_label(line: str) -> bool:
    """A line that only names what follows: a date, or words before a colon at its end."""
    bare = line.strip(" *_:")
    return not _MARK.match(line) and (line.rstrip(" *_").endswith(":") or not words(_DATE.sub("", bare)))


def markers(text: str) -> frozenset[str]:
    """The words of a text that mark something as past."""
    return frozenset(found.lower() for found in _PAST.findall(text))


def is_marked_past(line: ContextLine, said: str = "") -> bool:
    """Whether the line or its heading says that it is over, in words that the quoted message did not have."""
    return bool((markers(line.text) - markers(said)) or markers(line.heading))


def is_dated(line: ContextLine) -> bool:
    """Whether the line, or its heading, has a date. "since" and a date say that it still holds."""
    return any(
        not _SINCE.search(text[: found.start()]) for text in (line.text, line.heading) for found in _DATE.finditer(text)
    )


def find_repeated(lines: Sequence[ContextLine]) -> list[tuple[str, str]]:
    """Lines that say what an earlier line says, with that line."""
    spoken = [content_words(_DATE.sub("", strip_label(line.text))) - _LABELS for line in lines]
    repeated = []
    for at, one in enumerate(spoken):
        earlier = next((before for before in range(at) if _is_same(one, spoken[before])), None)
        if earlier is not None:
            repeated.append((lines[at].text, lines[earlier].text))
    return repeated


def _is_same(one: frozenset[str], other: frozenset[str]) -> bool:
    if one == other:
        return len(one) >= _MIN_EQUAL
    return (one < other or other < one) and min(len(one), len(other)) >= _MIN_CONTAINED


def strip_label(line: str) -> str:
    """The line without the list mark, date, speaker and quotation marks before it."""
    bare = line.replace("\\", "")
    while True:
        rest = _MARK.sub("", bare).lstrip(_PUNCTUATION)
        if found := _DATE.match(rest):
            rest = rest[found.end() :].lstrip(_PUNCTUATION)
        rest = _SPEAKER.sub("", rest)
        if rest == bare:
            return rest.strip(f'{_PUNCTUATION}"“”‘’')
        bare = rest


# Lines of a summary


def find_unsaid(summary: str, said: Sequence[str]) -> tuple[list[str], int]:
    """The lines of a summary that nobody said, and how many lines it has.

    One line may say what else can be searched. Headings and lines that only hold a date are not counted.
    """
    spoken = [_squeeze(text) for text in said]
    unsaid: list[str] = []
    count, spare = 0, True
    for line in summary.splitlines():
        if line.startswith("#") or not words(strip_label(line)) or _is_label(line):
            continue
        quotes = {_squeeze(strip_label(line)), _squeeze(_MARK.sub("", line))}
        if any(quote in text for quote in quotes for text in spoken):
            count += 1
        elif spare and _REST.search(line):
            spare = False
        else:
            count += 1
            unsaid.append(line)
    return unsaid, count


def _squeeze(text: str) -> str:
    return " ".join(text.replace("\\", "").split()).strip(' "“”')
