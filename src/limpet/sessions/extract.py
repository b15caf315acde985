"""A summary without a model: whole sentences that were said, each with its speaker and day.

Sentences are chosen for what they add to the others, within a number of tokens, and printed in their order. A line at
the end says how many messages can be searched. The old summary's lines are chosen from again, with the new messages.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import date
from heapq import heapify, heappop, heappush, nlargest
from typing import NamedTuple

from limpet.model.message import Message, Role
from limpet.model.text_cache import cache_texts
from limpet.model.tokens import TokenCounter
from limpet.search.analysis import extract_terms, says_nothing, split_sentences

_MAX_READ = 4000  # characters of a message; sentences that end later are not read
_MAX_SPEAKER = 40
_CHARACTERS_PER_TOKEN = 8  # at most: a sentence with more characters has no room
_TOKENS_PER_LINE = 8  # of the shortest line worth printing
_CANDIDATES_PER_LINE = 8
_MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
_DAY = rf"\d{{1,2}} (?:{'|'.join(_MONTHS)})(?: \d{{4}})?"
_LINE = re.compile(rf"- (?P<speaker>[^:,]+)(?:, (?P<day>{_DAY}))?: (?P<text>.+)")
_LAST_LINE = re.compile(rf"- (?P<number>\d+) earlier messages?(?:, (?:up to|of) (?P<day>{_DAY}),)? can be searched\.")
_NUMBER_OR_NAME = re.compile(r"\b\w*\d[\w.:,/]*|(?<!^)(?<![.!?] )\b[^\W\d_a-z][\w'’-]+")
_MARKS = re.compile(r"(?:\[[^\]]*\]\s*)*")  # such as [forgotten], in the place of removed words
_EDGES = " .!,;"  # of a sentence: they do not make it another
_REST = 0.4  # share of a sentence that is not worth a line if the others stand elsewhere

# How much of a sentence's worth counts
_QUESTION = 0.2
_OTHERS_THAN_USER = 0.5
_LEARNED = 2.5
_LATEST = 1.2  # the last sentence; the first counts 1: of two that say nearly the same the later one is printed
_MARK_WEIGHT = 2.0  # of a number or a name; other words count 1 and more
_LEAST_LISTED = 3
_MAX_LISTED = 20  # terms of a sentence in a list
_LENGTH = 0.75  # the power of a length by which the worth is divided; 1 would prefer the shortest sentences
_SAME = 0.8  # share of a sentence's words that another one has, from which it says the same, or a changed value


class LearnedSentence(NamedTuple):
    """A sentence from which memory learned something, and whether that still holds."""

    sequence: int
    text: str
    holds: bool


class Quote(NamedTuple):
    """A sentence that somebody said.

    Sentences of one message have the same ``place``. The ``position`` rises by one where only spaces are between them.
    """

    speaker: str
    day: date | None
    text: str
    place: int
    position: int
    is_user: bool
    learned: bool | None = None  # whether what was learned from it holds; None: nothing was learned


class _Candidate(NamedTuple):
    quote: Quote
    terms: frozenset[int]
    marks: frozenset[int]  # terms of numbers and names
    factor: float


def extract_summary(
    old: str,
    messages: Sequence[Message],
    most_tokens: int,
    count: TokenCounter,
    learned: Iterable[LearnedSentence] = (),
) -> str:
    """Return the best lines of an extracted summary and of the messages after it, and what can be searched."""
    before = _parse_summary(old)
    number = before.number + len(messages)
    if not number:
        return ""
    days = [message.created_at.date() for message in messages if message.created_at is not None]
    latest = max((*days, *filter(None, [before.latest])), default=None)
    known = _Knowledge(learned)
    new = _iter_quotes(messages, known, old.count("\n"))
    quotes = [
        quote
        for quote in (*(quote._replace(learned=known.find(quote.text)) for quote in before.quotes), *new)
        if len(quote.text) <= _CHARACTERS_PER_TOKEN * most_tokens
    ]
    last_line = _format_last_line(number, latest)
    chosen = _choose(quotes, most_tokens - count(f"{last_line}\n"), count, latest)
    while count(text := "\n".join((*_format_lines(chosen, latest), last_line))) > most_tokens:
        if not chosen:
            return ""
        chosen.pop()  # a tokenizer may use more tokens for the whole than for its lines
    return text


# What was said


class _Knowledge:
    """What was learned, by the sentence and by the message it was learned from."""

    def __init__(self, learned: Iterable[LearnedSentence]) -> None:
        self._by_text: dict[str, bool] = {}
        self._by_sequence: dict[int, list[tuple[str, bool]]] = {}
        for sequence, text, holds in learned:
            said = normalize(text)
            self._by_text[said] = holds or self._by_text.get(said, False)
            self._by_sequence.setdefault(sequence, []).append((said, holds))

    def find(self, text: str, sequence: int | None = None) -> bool | None:
        """Return whether what was learned from the sentence holds, at least in part; None if nothing was."""
        if sequence is None:
            return self._by_text.get(text)
        states = [holds for said, holds in self._by_sequence.get(sequence, ()) if said in text or text in said]
        return any(states) if states else None


def normalize(text: str) -> str:
    return " ".join(text.split())


def _iter_quotes(messages: Iterable[Message], known: _Knowledge, place: int) -> Iterator[Quote]:
    """Yield the sentences of the messages. Tool results are omitted: the next reply contains what mattered."""
    for at, message in enumerate(messages, start=place):
        if message.role is Role.TOOL:
            continue
        speaker = _format_speaker(message)
        day = message.created_at.date() if message.created_at is not None else None
        for position, text in _iter_sentences(message.text):
            learned = known.find(text, message.sequence)
            yield Quote(speaker, day, text, at, position, message.role is Role.USER, learned)


def _iter_sentences(text: str) -> Iterator[tuple[int, str]]:
    read = text[:_MAX_READ].rstrip()
    position = end = 0
    for sentence in split_sentences(read):
        marks = _MARKS.match(sentence.text)
        start = sentence.start + (marks.end() if marks else 0)
        position += 1 if read[end:start].isspace() else 2
        end = sentence.start + len(sentence.text)
        if end < len(read) or len(text) <= _MAX_READ:  # the last one may be cut off
            yield position, normalize(read[start:end])


def _format_speaker(message: Message) -> str:
    """Return the speaker's name or role, without the marks that end it in a line."""
    name = normalize(re.sub("[:,]", " ", message.name or ""))
    return name[:_MAX_SPEAKER].strip() or str(message.role)


def is_extracted(text: str) -> bool:
    """Return whether the text ends like an extracted summary."""
    return _LAST_LINE.fullmatch(text.rpartition("\n")[2]) is not None


class _ParsedSummary(NamedTuple):
    quotes: tuple[Quote, ...]
    number: int = 0
    latest: date | None = None


@cache_texts(1 << 8)
def _parse_summary(text: str) -> _ParsedSummary:
    """Remembered: every turn of a session shows the same one, in parts."""
    lines = text.splitlines()
    last = _LAST_LINE.fullmatch(lines[-1]) if lines else None
    if last is None:
        return _ParsedSummary(())
    latest = _parse_day(last["day"], None)
    quotes: list[Quote] = []
    for place, line in enumerate(lines[:-1]):
        if match := _LINE.fullmatch(line):
            day, is_user = _parse_day(match["day"], latest), match["speaker"] != Role.ASSISTANT
            quotes += [
                Quote(match["speaker"], day, said, place, position, is_user)
                for position, said in _iter_sentences(match["text"])
            ]
    return _ParsedSummary(tuple(quotes), int(last["number"]), latest)


def trim_summary(text: str, shown: Iterable[str], ended: Iterable[str]) -> str:
    """Return an extracted summary without what is quoted elsewhere, and without words that no longer hold."""
    parsed = _parse_summary(text)
    words = sorted({each.strip(_EDGES) for each in (*shown, *ended)} - {""}, key=len, reverse=True)
    over = [each for each in ended if each.strip(_EDGES)]
    kept = [quote for quote in parsed.quotes if not _is_told(quote.text, words)]
    if not parsed.number or (len(kept) == len(parsed.quotes) and not over):
        return text
    marked = [quote._replace(text=_mark_ended(quote.text, over)) for quote in kept]
    return "\n".join((*_format_lines(marked, parsed.latest), text.rpartition("\n")[2]))


def _is_told(sentence: str, words: Iterable[str]) -> bool:
    """Whether most of a sentence stands elsewhere, or no longer holds."""
    rest = said = sentence.strip(_EDGES)
    for each in words:
        if said in each:
            return True
        rest = rest.replace(each, "")
    return len(rest) <= _REST * len(said)


def _mark_ended(sentence: str, ended: Iterable[str]) -> str:
    return f"{sentence} (in part no longer true)" if any(each.strip(_EDGES) in sentence for each in ended) else sentence


# Choice


def _choose(quotes: Sequence[Quote], room: int, count: TokenCounter, latest: date | None) -> list[Quote]:
    """Return the sentences that add the most to the others for their tokens, the best first."""
    frequency, candidates = _rate(quotes, max(1, room // _TOKENS_PER_LINE) * _CANDIDATES_PER_LINE)
    chosen: dict[tuple[int, int], _Candidate] = {}
    covered: set[int] = set()

    def rate(at: int) -> float:
        candidate = candidates[at]
        gain = sum(map(weights[at].__getitem__, candidate.terms - covered)) + 0.1 * len(candidate.terms)
        return candidate.factor * gain / math.pow(costs[at], _LENGTH)

    common = {term: math.log2(number) / 4 for term, number in frequency.items()}
    weights = [
        {term: (_MARK_WEIGHT if term in each.marks else 1.0) + common[term] for term in each.terms}
        for each in candidates
    ]
    lists = _find_lists(candidates)
    costs = [count(f"{_format_line([candidate.quote], latest)}\n") for candidate in candidates]
    heap = [(-rate(at), at) for at in range(len(candidates))]
    heapify(heap)
    while heap:
        _, at = heappop(heap)
        now = -rate(at)
        if heap and now > heap[0][0]:
            heappush(heap, (now, at))  # others were chosen since: it adds less than it did
            continue
        candidate = candidates[at]
        quote = candidate.quote
        beside = any((quote.place, quote.position + step) in chosen for step in (-1, 1))
        cost = count(f" {quote.text}") if beside else costs[at]
        if cost <= room and not any(_repeats(candidate, other, lists) for other in chosen.values()):
            chosen[quote.place, quote.position] = candidate
            covered |= candidate.terms
            room -= cost
    return [candidate.quote for candidate in chosen.values()]


def _rate(quotes: Sequence[Quote], most: int) -> tuple[Counter[int], list[_Candidate]]:
    """Return how many sentences have each term, and the sentences most worth printing, in their order."""
    frequency: Counter[int] = Counter()
    found: dict[str, _Candidate] = {}
    for at, quote in enumerate(quotes):
        terms = frozenset(extract_terms(quote.text))
        frequency.update(terms)
        marks = frozenset(extract_terms(" ".join(_NUMBER_OR_NAME.findall(quote.text))))
        if _is_worth_printing(quote, terms, marks):
            factor = _rate_kind(quote) * (1 + (_LATEST - 1) * at / len(quotes))
            found[quote.text] = _Candidate(quote, terms, marks, factor)

    def rate(candidate: _Candidate) -> float:
        worth = len(candidate.terms) + len(candidate.marks) * (_MARK_WEIGHT - 1)
        return candidate.factor * worth / math.pow(len(candidate.quote.text), _LENGTH)

    best = nlargest(most, found.values(), key=rate)
    return frequency, sorted(best, key=lambda candidate: (candidate.quote.place, candidate.quote.position))


def _find_lists(candidates: Iterable[_Candidate]) -> set[frozenset[int]]:
    """Return the terms that several sentences share which differ in one term: a list, not a value that changed."""
    short = [candidate.terms for candidate in candidates if len(candidate.terms) <= _MAX_LISTED]
    sums = [(sum(terms), terms) for terms in short]
    # Equal terms have equal sums, which few others have: only those are compared.
    numbers = Counter(total - term for total, terms in sums for term in terms)
    listed = {total for total, number in numbers.items() if number >= _LEAST_LISTED}
    found = Counter(terms - {term} for total, terms in sums for term in terms if total - term in listed)
    return {terms for terms, number in found.items() if number >= _LEAST_LISTED}


def _repeats(candidate: _Candidate, other: _Candidate, lists: Collection[frozenset[int]]) -> bool:
    """Return whether it says the same but for a word, as of a thing that changed. Two claims that hold do not."""
    shared = candidate.terms & other.terms
    unlike = len(candidate.terms) - len(shared)
    if candidate.quote.learned or len(shared) < 2 or shared in lists:
        return not unlike
    return unlike <= max(1, (1 - _SAME) * len(candidate.terms))


def _is_worth_printing(quote: Quote, terms: frozenset[int], marks: frozenset[int]) -> bool:
    """Leave out thanks and greetings, what no longer holds, and what nothing is left of."""
    if not quote.text:
        return False
    if quote.learned is not None:
        return quote.learned
    if says_nothing(quote.text):
        return False
    return bool(len(terms) > 1 or marks)


def _rate_kind(quote: Quote) -> float:
    factor = 1.0 if quote.is_user else _OTHERS_THAN_USER
    if quote.text.rstrip("\"')”’*_ ").endswith(("?", "？")):
        factor *= _QUESTION
    return factor * _LEARNED if quote.learned else factor


# Lines


def _format_lines(chosen: Iterable[Quote], latest: date | None) -> Iterator[str]:
    """Yield the lines in their order. Neighbouring sentences of a message share one."""
    line: list[Quote] = []
    for quote in sorted(chosen, key=lambda quote: (quote.place, quote.position)):
        if line and (quote.place, quote.position) != (line[-1].place, line[-1].position + 1):
            yield _format_line(line, latest)
            line = []
        line.append(quote)
    if line:
        yield _format_line(line, latest)


def _format_line(quotes: Sequence[Quote], latest: date | None) -> str:
    first = quotes[0]
    label = first.speaker if first.day is None else f"{first.speaker}, {_format_day(first.day, latest)}"
    return f"- {label}: {' '.join(quote.text for quote in quotes)}"


def _format_last_line(number: int, latest: date | None) -> str:
    messages = "message" if number == 1 else "messages"
    until = "" if latest is None else f", {'of' if number == 1 else 'up to'} {_format_day(latest, None)},"
    return f"- {number} earlier {messages}{until} can be searched."


def _format_day(day: date, latest: date | None) -> str:
    """A day of the latest message's year needs no year: the last line has it."""
    short = f"{day.day} {_MONTHS[day.month - 1]}"
    return short if latest is not None and day.year == latest.year else f"{short} {day.year:04}"


def _parse_day(text: str | None, latest: date | None) -> date | None:
    if text is None:
        return None
    day, month, *year = text.split()
    try:
        return date(int(year[0]) if year else latest.year if latest else 1, _MONTHS.index(month) + 1, int(day))
    except ValueError:
        return None  # such as 31 Feb, which nobody here wrote
