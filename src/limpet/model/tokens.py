"""How many tokens a text costs, without a tokenizer.

Byte-pair tokenizers spend about one token on a word with the space before it, one on two or three digits or marks, and
on other scripts a share of a token for each character. Counting those classes separately stays close on English, code,
Chinese and emoji alike, where characters/4 does not. The shares are those of the ``o200k`` vocabulary; older ones spend
more on every script but Latin.
"""

from __future__ import annotations

import logging
import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

from limpet.errors import InvalidInput
from limpet.model.text_cache import cache_texts
from limpet.model.values import short_repr

TokenCounter = Callable[[str], int]
log = logging.getLogger("limpet.providers")

# Longer words fall into pieces of about ten letters, longer numbers of three digits; 's and _name stay whole. ASCII is
# most text and is counted at every append, so it has a pattern of its own. A space counts nothing, but is quicker taken
# with what follows it than passed over.
_ASCII = re.compile(r" ?(?:[A-Za-z]{1,10}|['_][A-Za-z]{1,10}|[0-9]{1,3}|[!-/:-@\[-^`{-~]{1,3}|_+)")
_LONGEST_LINE = 400  # characters, up to which its tokens are remembered
_UNCOUNTED = bytes(code for code in range(128) if not chr(code).isprintable() and code not in b"\t\n\v\f\r")

_OTHER_SHARE = 100
# Hundredths of a token a character, from each code point on. Marks that change the letter or the picture before them
# are among theirs.
_SHARES = {
    0x00C0: 60,  # Latin letters with marks, beside the word they stand in
    0x0250: _OTHER_SHARE,
    0x0300: 60,  # the marks alone
    0x0370: 34,  # Greek, Cyrillic
    0x0530: 40,  # Armenian, Hebrew, Arabic
    0x0900: 42,  # the scripts of India
    0x0E00: 50,  # Thai, Lao, Tibetan, Burmese, Georgian
    0x1100: 76,  # Korean
    0x1200: _OTHER_SHARE,
    0x1E00: 60,
    0x1F00: _OTHER_SHARE,
    0x200D: 175,  # what joins pictures
    0x200E: _OTHER_SHARE,
    0x2190: 175,  # arrows, symbols
    0x2C00: _OTHER_SHARE,
    0x2E80: 76,  # Chinese, its marks, kana
    0xA4D0: _OTHER_SHARE,
    0xAC00: 76,  # Korean
    0xD800: _OTHER_SHARE,
    0xF900: 76,
    0xFB00: _OTHER_SHARE,
    0xFE0F: 175,  # what makes a symbol a picture
    0xFE10: _OTHER_SHARE,
    0xFF00: 76,  # wide marks
    0xFFF0: _OTHER_SHARE,
    0x1F000: 175,  # pictures
    0x1FB00: _OTHER_SHARE,
    0x20000: 76,
}


def estimate_tokens(text: str) -> int:
    if not text:
        return 0
    lines = text.split("\n")
    hundredths = sum([_weigh_line(line) if len(line) <= _LONGEST_LINE else _weigh(line) for line in lines])
    breaks = len(lines) - 1
    if breaks > 1 and "\n\n" in text:  # several line ends together are one token
        breaks = len([line for line in lines if line]) - 1 + (not lines[0]) + (not lines[-1])
    return round(breaks + hundredths / 100) or 1


def _weigh(line: str) -> int:
    """Hundredths of a token, in one line."""
    if line.isascii():
        return 100 * len(_ASCII.findall(line))
    pieces, others, share = _patterns()
    return 100 * len(pieces.findall(line)) + sum(map(share.__getitem__, others.findall(line)))


_weigh_line = cache_texts(1 << 12)(_weigh)  # a prompt repeats most lines of the one before


def min_tokens(text: str) -> int:
    """What the estimate is never below, at a fraction of its price: a word with a sign of ASCII costs one or more."""
    return len(text.encode("ascii", "ignore").translate(None, _UNCOUNTED).split())


class _ShareTable(dict[str, int]):
    """The share of each character that was met."""

    def __missing__(self, char: str) -> int:
        starts = list(_SHARES)
        at = bisect_right(starts, ord(char)) - 1
        self[char] = found = _SHARES[starts[at]] if at >= 0 else _OTHER_SHARE
        return found


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str], _ShareTable]:
    """What is counted as words and marks, and what by character. Made when the first text that is not ASCII comes."""
    letter, marks = r"[A-Za-z\u00c0-\u024f\u1e00-\u1eff]", r"\u2010-\u2027"
    pieces = rf"{letter}{{1,10}}|['\u2019_]{letter}{{1,10}}|[0-9]{{1,3}}|[!-/:-@\[-^`{{-~{marks}]{{1,3}}|_+"
    return re.compile(pieces), re.compile(rf"[^\x00-\x7f\s{marks}]"), _ShareTable()


_SHORTEST = 40  # characters of a line; where there is no room for them, the oldest lines share one
_END = " …"
_JOINTS = ("…", "·")
_WORD = re.compile(r"\S{1,16}")  # a script without spaces is cut somewhere
_SPEAKER = re.compile(r"the \w+: |[^:]{1,80} \(\w+\): ")
_DIGIT = re.compile(r"\d")
# What a shortened line keeps first, after numbers and names: the words that make a decision, a wish or a refusal.
_DECIDING = frozenset(
    "agreed always because can't cannot chose decided decision deadline don't due fixed forgot hate hates like likes"
    " love loves moved must need needs never no not plan prefer prefers promised remember should stop want wants will"
    " won't".split()
)
_MARKS = ".,;:!?\"'()[]"


class DigestLine(NamedTuple):
    text: str
    number: int = 1
    of: str = "messages"

    def __str__(self) -> str:
        return f"- {self.text}" if self.number == 1 else f"- ({self.number} {self.of}) {self.text}"


def fit_lines(lines: Sequence[DigestLine], most_tokens: int, count: TokenCounter) -> str:
    """All of them within the tokens."""
    characters = 4 * most_tokens
    lines = _merge_oldest(lines, _max_lines(characters))
    while (
        count(text := "\n".join(map(str, _fit_to_length(lines, characters)))) > most_tokens and characters > _SHORTEST
    ):
        characters = characters * 7 // 8  # names, numbers and most scripts spend more tokens on a character
    return text


def _max_lines(characters: int) -> int:
    return max(1, characters // _SHORTEST)


def _fit_to_length(lines: Sequence[DigestLine], characters: int) -> list[DigestLine]:
    lines = _merge_oldest(lines, _max_lines(characters))
    room = characters - sum(len(str(line)) - len(line.text) + 1 for line in lines)
    most = _max_line_length(sorted(len(line.text) for line in lines), room)
    return [line._replace(text=shorten_text(line.text, most)) for line in lines]


def _merge_oldest(lines: Sequence[DigestLine], most: int) -> list[DigestLine]:
    """At most so many lines: neighbours share one, the oldest first."""
    found = list(lines)
    while len(found) > most:
        pairs = min(len(found) - most, len(found) // 2)
        joined = [_join_lines(*found[at : at + 2]) for at in range(0, 2 * pairs, 2)]
        found = joined + found[2 * pairs :]
    return found


def _join_lines(one: DigestLine, other: DigestLine) -> DigestLine:
    """Who spoke matters less now than what about."""
    texts = (
        shorten_text(_SPEAKER.sub("", line.text, count=1).removesuffix(_END), 2 * _SHORTEST) for line in (one, other)
    )
    return DigestLine(" · ".join(texts), one.number + other.number, one.of)


def _max_line_length(lengths: Sequence[int], room: int) -> int:
    """How long a line may be, when the short ones leave to the long ones what they do not need."""
    for at, length in enumerate(lengths):
        share = room // (len(lengths) - at)
        if length > share:
            return max(share, _SHORTEST // 2)
        room -= length
    return max(lengths, default=0)


def shorten_text(text: str, most: int) -> str:
    """The words that matter, each once and in their order, and a mark that there were others."""
    if len(text) <= most:
        return text
    words = [word for word in _WORD.finditer(text) if word.group() not in _JOINTS]
    weights = _weights([word.group() for word in words])
    kept: set[int] = set()
    seen: set[str] = set()
    room = most - len(_END)
    for at in sorted(range(len(words)), key=lambda at: (-weights[at], at)):
        word = words[at].group()
        if len(word) + 1 <= room and word not in seen:
            kept.add(at)
            seen.add(word)
            room -= len(word) + 1
    return _join_words(words, kept) + _END if kept else f"{text[: max(0, most - 1)]}…"


def _weights(words: Sequence[str]) -> list[int]:
    # Who speaks stands before the first colon.
    colon = next((at for at, word in enumerate(words[:4]) if word.endswith(":")), -1)
    found = []
    begins, decided = True, False
    for at, word in enumerate(words):
        deciding = word.strip(_MARKS).lower() in _DECIDING
        named = word[0].isupper() and not begins and len(word) > 1
        weight = 8 * (at <= colon) + 4 * bool(_DIGIT.search(word)) + 3 * named + 2 * deciding
        # What was decided stands behind the word that says so; long words say more than short ones.
        found.append(2 * weight + 2 * decided + (len(word) > 4))
        begins, decided = word[-1] in ".!?:·", deciding
    return found


def _join_words(words: Sequence[re.Match[str]], kept: set[int]) -> str:
    shown = ""
    for at in sorted(kept):
        beside = at - 1 in kept and words[at - 1].end() == words[at].start()
        shown += words[at].group() if beside or not shown else f" {words[at].group()}"
    return shown


_JOINER = "\u200d"
_LONGEST_CLUSTER = 64  # characters that are looked back over for a place to cut


def truncate_text(text: str, most: int) -> str:
    """The beginning of a text, at most so long, that ends where what a reader sees as one character ends."""
    if len(text) <= most:
        return text
    for at in range(most, max(0, most - _LONGEST_CLUSTER), -1):
        if not _extends_cluster(text, at):
            return text[:at]
    return text[:most]


def _extends_cluster(text: str, at: int) -> bool:
    """Whether the sign at a place belongs to the one before it."""
    before, sign = text[at - 1], text[at]
    if _JOINER in (before, sign) or (before, sign) == ("\r", "\n"):
        return True
    if sign < "\u0300":
        return False
    from unicodedata import category  # late: few texts are cut inside anything but plain letters

    return category(sign)[0] == "M" or _is_modifier(sign) or _splits_flag(text, at) or _splits_syllable(before, sign)


def _is_modifier(sign: str) -> bool:
    """Skin tones and the invisible letters of flags."""
    return "\U0001f3fb" <= sign <= "\U0001f3ff" or "\U000e0020" <= sign <= "\U000e007f"


def _splits_flag(text: str, at: int) -> bool:
    """A flag is two letters of the regional alphabet; they pair up from where a row of them begins."""
    begin = at
    while begin and _is_regional(text[begin - 1]):
        begin -= 1
    return _is_regional(text[at]) and (at - begin) % 2 == 1


def _is_regional(sign: str) -> bool:
    return "\U0001f1e6" <= sign <= "\U0001f1ff"


def _splits_syllable(before: str, sign: str) -> bool:
    """Vowels and finals of Hangul written in parts."""
    return "\u1160" <= sign <= "\u11ff" and ("\u1100" <= before <= "\u11ff" or "\uac00" <= before <= "\ud7a3")


def check_counter(counter: object) -> TokenCounter:
    """Check and wrap a counter. If it fails later, the estimate is used instead. None selects the estimate."""
    if counter is None:
        return estimate_tokens
    if not callable(counter):
        raise InvalidInput(f"counter must be a function from a text to its number of tokens, not {short_repr(counter)}")
    try:
        first = counter("How many tokens?")
    except Exception as error:  # why: a counter may raise anything; report it as invalid input
        raise InvalidInput(f"counter failed on a short text: {error}") from error
    if not _is_count(first):
        raise InvalidInput(f"counter must return a whole number of tokens, not {short_repr(first)}")

    def count(text: str) -> int:
        if not text:
            return 0
        try:
            tokens = counter(text)
        except Exception as error:  # why: a tokenizer may raise anything, and the prompt must still be built
            log.warning("the token counter failed; using the estimate: %s", error)
            return estimate_tokens(text)
        if _is_count(tokens):
            return int(tokens)
        log.warning("the token counter returned %s; using the estimate", short_repr(tokens))
        return estimate_tokens(text)

    return count


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
