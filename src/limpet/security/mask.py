"""Masking secrets before text reaches long-term memory.

``secrets.toml`` has the formats, and what people write before a password. Here is how they are read and compared.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from limpet.model.dataclass import dataclass
from limpet.model.late import lazy_property, load_modules
from limpet.model.text_cache import cache_texts

_DATA = Path(__file__).with_name("secrets.toml")
_WORDS = re.compile(r"[a-z]+")
_CLAUSE = r"(?=\s{0,2}(?:[.,;!)–—-]|$|\n|(?:and|but|so|und|et|y|e|en|i)\b))"  # it ends, or another begins
_MEASURE = re.compile(r"\d+(?:[.,:]\d+)*[a-z]{0,3}$", re.IGNORECASE)  # 802.11ax, 10:30am
_TOKENS = re.compile(r"[^\s\"'`“”,;<>()]+")
_ENDS = ".,;:)]}"  # of a sentence or a list, not of a password
_PRICE = re.compile(r"[$€£]?\d")
_FREQUENT = "zqjxkvbywgpfmucdlhrsnioate "  # from the rarest; all others are rarer
_PASSES = 3  # what is masked may end a word that hid the next secret
_MARK = re.compile(r"\[secret: ([a-z ]{1,30})\]")
_MARK_WORD = re.compile(r"xsecret00([a-z0]{1,30})x(?![a-z0])", re.IGNORECASE)
_CACHED, _CACHED_CHARS = 1024, 1000  # texts, and the longest
_SEED_LENGTHS = {12, 15, 18, 21, 24}
_INFLECTED = re.compile(r"(?:ing|ed|ly|[^aeious]s)$")  # hardly any word of a seed phrase is


class MaskedText(NamedTuple):
    """``found`` names the kinds of secret in the order they stood, one entry for each."""

    text: str
    found: tuple[str, ...]


class SecretSpan(NamedTuple):
    start: int
    end: int
    kind: str

    @property
    def mark(self) -> str:
        return f"[secret: {self.kind}]"


@dataclass(frozen=True, slots=True)
class SecretPattern:
    """``signs``: one of them, in lower case, stands in every text with a secret of the kind; none: look always.

    Only the group ``v`` is masked, where the pattern has one, without what ``ends`` a sentence.
    """

    kind: str
    source: str
    signs: tuple[str, ...]
    is_one: Callable[[re.Match[str]], bool]
    ends: str = ""

    def find(self, text: str) -> Iterator[SecretSpan]:
        for match in _compile(self.source).finditer(text):
            if self.is_one(match):
                part = _masked_part(match)
                value = match[part].rstrip(self.ends) if self.ends else match[part]
                yield SecretSpan(match.start(part), match.start(part) + len(value), self.kind)


@dataclass(frozen=True)
class _SecretRules:
    """What the data says, with names and words put into the patterns."""

    patterns: tuple[SecretPattern, ...]
    placeholder: str
    plain: frozenset[str]
    sentence: frozenset[str]

    @lazy_property
    def by_character(self) -> Mapping[str, Sequence[tuple[str, tuple[int, ...]]]]:
        """Each sign with the places of its patterns, by its rarest character; those without one, under the empty text.

        Most texts lack most of these characters, so that few signs are looked for.
        """
        places: dict[str, list[int]] = {}
        for at, pattern in enumerate(self.patterns):
            for sign in pattern.signs or ("",):
                places.setdefault(sign, []).append(at)
        found: dict[str, list[tuple[str, tuple[int, ...]]]] = {"": []}
        for sign, each in places.items():
            found.setdefault(min(sign, key=_FREQUENT.find, default=""), []).append((sign, tuple(each)))
        return found

    def select_patterns(self, text: str) -> list[SecretPattern]:
        """The patterns that the text has a sign of, in their order. Most texts have few."""
        lowered, signs = text.lower(), self.by_character
        here = ["", *signs.keys() & set(lowered)]
        places = {at for character in here for sign, each in signs[character] if sign in lowered for at in each}
        return [self.patterns[at] for at in sorted(places)]


def make_mask(*, enabled: bool) -> Callable[[str], str]:
    """Return the function that masks secrets, or one that changes nothing.

    Messages are stored as they are. What is learned, summarized, noted or put into the graph is masked.
    """
    return _mask_text if enabled else str


def _mask_text(text: str) -> str:
    """One function for all: a turn masks a text once for everybody with the same one."""
    return mask_secrets(text).text


def mask_secrets(text: str) -> MaskedText:
    """The text with every secret replaced by what kind it was. Masking twice changes nothing more."""
    return _mask_short(text) if len(text) <= _CACHED_CHARS else _mask(text)


def _mask(text: str) -> MaskedText:
    secrets = Secrets.find(text)
    return MaskedText(secrets.mask(text), tuple(span.kind for span in secrets.spans))


# A message is masked by all that learns from it, and so is each of its sentences.
_mask_short = cache_texts(_CACHED)(_mask)


@dataclass(frozen=True, slots=True)
class Secrets:
    """Where the secrets of a text are, in order and apart, and where their marks are in the masked text."""

    spans: tuple[SecretSpan, ...] = ()
    marks: tuple[int, ...] = ()

    @classmethod
    def find(cls, text: str) -> Secrets:
        secrets = cls()
        for _ in range(1 + _PASSES):
            found = _find_once(secrets.mask(text))
            if not found:
                break
            again = (SecretSpan(*secrets.unmask(start, end), kind) for start, end, kind in found)
            secrets = cls._join((*secrets.spans, *again))
        return secrets

    @classmethod
    def _join(cls, found: Iterable[SecretSpan]) -> Secrets:
        spans: list[SecretSpan] = []
        for span in sorted(found, key=lambda span: (span.start, -span.end)):
            if spans and span.start < spans[-1].end:
                spans[-1] = spans[-1]._replace(end=max(spans[-1].end, span.end))
            else:
                spans.append(span)
        marks, longer = [], 0
        for span in spans:
            marks.append(span.start + longer)
            longer += len(span.mark) - (span.end - span.start)
        return cls(tuple(spans), tuple(marks))

    def mask(self, text: str) -> str:
        pieces, at = [], 0
        for span in self.spans:
            pieces += [text[at : span.start], span.mark]
            at = span.end
        return "".join((*pieces, text[at:])) if pieces else text

    def unmask(self, start: int, end: int) -> tuple[int, int]:
        """Where a part of the masked text is in the text. A mark that it touches stands for its whole secret."""
        first, last = bisect_right(self.marks, start) - 1, bisect_left(self.marks, end) - 1
        return self._unmask(first, start)[0], self._unmask(last, end)[1]

    def _unmask(self, nearest: int, at: int) -> tuple[int, int]:
        if nearest < 0:
            return at, at
        span = self.spans[nearest]
        behind = at - self.marks[nearest] - len(span.mark)
        return (span.start, span.end) if behind < 0 else (span.end + behind, span.end + behind)


def has_mark(text: str) -> bool:
    return _MARK.search(text) is not None


def mark_as_word(text: str) -> str:
    """Each mark as one word of the same length, for readers of sentences: brackets and a colon end what they read."""
    return _MARK.sub(lambda mark: f"xsecret00{mark[1].replace(' ', '0')}x", text)


def unmark_word(text: str) -> str:
    return _MARK_WORD.sub(lambda word: f"[secret: {word[1].replace('0', ' ').lower()}]", text)


def _find_once(text: str) -> list[SecretSpan]:
    found = [span for pattern in _load_rules().select_patterns(text) for span in pattern.find(text)]
    return found + _find_repeated(text, found) if found else found


def _find_repeated(text: str, found: Iterable[SecretSpan]) -> list[SecretSpan]:
    """The same words where nothing tells that they are secret: "the first pet was Mittens2014" beside a password."""
    kinds = {text[span.start : span.end]: span.kind for span in found}
    kinds = {value: kind for value, kind in kinds.items() if _is_mixed_password(value)}
    words = ((match.start(), match[0].rstrip(_ENDS + "!?")) for match in _TOKENS.finditer(text)) if kinds else ()
    return [SecretSpan(start, start + len(word), kinds[word]) for start, word in words if word in kinds]


# Reading the data


_compile = cache(re.compile)  # most patterns are never needed: their signs are rare


@cache
def _load_rules() -> _SecretRules:
    load_modules("tomllib")
    import tomllib  # late: most programs mask nothing

    data = tomllib.loads(_DATA.read_text(encoding="utf-8"))
    password, is_ = data["password"], "|".join(data["password"]["is"])
    names = _join_names(password["names"])
    keys = _join_names(data["key"]["names"], "[ _-]?")
    fragments = {
        "start": r"(?<![A-Za-z0-9_-])",
        "end": r"(?![A-Za-z0-9_-])",
        "word": r"(?<![A-Za-z0-9])",
        "password": names,
        "key": keys,
        "is": is_,
        "locked": rf"\b(?:{'|'.join(data['pin']['locked'])})s?\b",
        "code": "|".join(data["pin"]["codes"]),
        "of": "|".join(data["pin"]["of"]),
        "clause": _CLAUSE,
    }
    qualified = r"(?<![A-Za-z0-9])(?P<name>(?:[A-Za-z0-9]{1,20}[_.-]){0,4}"
    assigned = r"[\"']?[ \t]{0,3}(?:=>|:=|=|:|：)[ \t]{0,3}[\"'`“]?(?P<v>[^\s\"'`”,;<>]{4,200})"
    named_key = (
        rf"(?i){qualified}(?:{keys})(?:[_-][A-Za-z0-9]{{1,10}})?)[\"']?\s{{0,3}}(?::=|=>|=|:|\b(?:{is_})\b)"
        r"\s{0,3}[\"'`]?(?P<v>[A-Za-z0-9+/_.=~!@#$%^&*-]{12,300})"
    )
    named_password = (
        rf"(?i){qualified}[A-Za-z]{{0,20}}?(?:{names})(?:[_-][A-Za-z0-9]{{1,10}})?)[\"']?"
        rf"(?:\s{{0,3}}(?:=>|:=|=|:|：)\s{{0,3}}"
        rf"|\s{{1,3}}(?:{is_})(?:\s{{0,3}}:)?\s{{1,3}}(?:now |set to |still )?)"
        r"(?P<q>[\"'`“]?)(?P<v>[^\s\"'`”,;<>]{4,200})"
    )
    ordinary_password = rf"(?i){qualified}(?:{_join_names(password['ordinary'])})){assigned}"
    short_password = rf"(?i){qualified}(?:{_join_names(password['short'])})){assigned}"
    signs = tuple(password["signs"])
    return _SecretRules(
        (
            *(_read_form(form, fragments, password["signs"]) for form in data["form"]),
            SecretPattern("key or token", named_key, tuple(data["key"]["signs"]), _is_named_key, ".,;"),
            SecretPattern("password", named_password, signs, _is_named_password, _ENDS),
            SecretPattern("password", ordinary_password, signs, _is_ordinary_password, _ENDS),
            SecretPattern("password", short_password, tuple(password["short"]), _is_short_password, _ENDS),
        ),
        placeholder=data["placeholder"]["match"],
        plain=frozenset(data["plain"]["words"].split()),
        sentence=frozenset(data["sentence"]["words"].split()),
    )


def _join_names(names: list[str], space: str = r"\s{1,3}") -> str:
    return "|".join(name.replace(" ", space) for name in sorted(names, key=len, reverse=True))


def _read_form(form: Mapping[str, Any], fragments: Mapping[str, str], password_signs: list[str]) -> SecretPattern:
    pattern, signs = form["match"], form["signs"]
    for name, fragment in fragments.items():
        pattern = pattern.replace(f"@{name}@", fragment)
    signs = [*password_signs, *signs[1:]] if signs[:1] == ["@password@"] else signs
    check, ends = _CHECKS[form.get("check", "")], _ENDS if form["kind"] == "password" else ""
    return SecretPattern(
        form["kind"], pattern, tuple(signs), lambda match: check(match[_masked_part(match)].rstrip(ends)), ends
    )


def _masked_part(match: re.Match[str]) -> str | int:
    return "v" if "v" in match.re.groupindex else 0


# Checks of a match


def _is_named_key(match: re.Match[str]) -> bool:
    """Without a form of its own, told by the name before it."""
    value = match["v"].rstrip(".,;")
    return _is_hex_key(value) or (_looks_random(value) and not _compile(_load_rules().placeholder).match(value))


def _is_named_password(match: re.Match[str]) -> bool:
    spelled = re.search(r"\w", match.string[match.end("name") : match.start("v")]) is not None
    return _is_password(match["v"].rstrip(_ENDS + "!?"), quoted=bool(match["q"]), spelled=spelled)


def _is_ordinary_password(match: re.Match[str]) -> bool:
    value, name = match["v"].rstrip(_ENDS + "!?"), match["name"]
    before = match.string[max(0, match.start() - 40) : match.start()].rstrip(" \t\"'-*")[-1:]
    is_field = before in "\n,;{(|/" or re.search("[_.]", name)  # of a file or a list, not a word of a sentence
    is_set = _is_variable(name) and _is_password(value, quoted=False, spelled=False)
    is_mixed = _is_strong(value) or (is_field and _is_given(value) and _is_mixed(value))
    return is_set or bool(is_mixed and not _PRICE.match(value))


def _is_short_password(match: re.Match[str]) -> bool:
    value = match["v"].rstrip(_ENDS + "!?")
    is_set = _is_variable(match["name"]) or _is_mixed(value)
    return is_set and _is_password(value, quoted=False, spelled=False)


# Checks of a name or a value


def _is_variable(name: str) -> bool:
    """DB_PASS, as environments write it."""
    return name.isupper() and "_" in name


def _looks_random(text: str) -> bool:
    """Letters and digits mixed as nobody types words. Hex alone is a digest, an id or a commit."""
    if len(text) < 16 or re.fullmatch(
        r"[0-9a-fA-F-]+|[a-z-]+|[A-Z-]+|[A-Za-z]+[-_][A-Za-z_-]+|\+?[A-Za-z_]+(?:\.[A-Za-z_]+)+|\d+", text
    ):
        return False
    kinds = sum(bool(re.search(kind, text)) for kind in ("[a-z]", "[A-Z]", "[0-9]"))
    counts = Counter(text)
    entropy = -sum(count / len(text) * math.log2(count / len(text)) for count in counts.values())
    return kinds >= 2 and entropy >= 3.3


def _is_hex_key(text: str) -> bool:
    """Hex, or a UUID: after the name of a key neither is a digest."""
    return bool(re.fullmatch(r"(?:0x)?[0-9a-fA-F]{32,128}|[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}", text))


def _has_digit(text: str) -> bool:
    return any(map(str.isdigit, text))


def _is_card(text: str) -> bool:
    """Luhn's sum, and the beginnings and lengths that card issuers use."""
    digits = [int(digit) for digit in text if digit.isdigit()]
    if not 13 <= len(digits) <= 19 or len(set(digits)) < 3:
        return False
    start = "".join(map(str, digits[:4]))
    lengths = {"4": {13, 16, 19}, "5": {16}, "2": {16}, "3": {14, 15}, "6": {16, 17, 18, 19}}
    issued = {"4": "4", "5": "12345", "2": "234567", "3": "04678", "6": "0245"}
    if (
        start[0] not in lengths
        or len(digits) not in lengths[start[0]]
        or (start[0] != "4" and start[1] not in issued[start[0]])
    ):
        return False
    doubled = (digit if at % 2 == 0 else sum(divmod(2 * digit, 10)) for at, digit in enumerate(reversed(digits)))
    return sum(doubled) % 10 == 0


def _is_given(value: str) -> bool:
    """Not left to be filled in."""
    return len(value) >= 3 and not _compile(_load_rules().placeholder).match(value) and not value.endswith(("(", "()"))


def _is_odd(value: str) -> bool:
    """A digit, a capital or a sign inside: a plain word more likely goes on with the sentence."""
    stripped = value.rstrip(_ENDS + "!?")
    odd = re.search(r"\d|[^\w-]|[a-z][A-Z]|_", stripped[:100])
    return len(stripped) >= 4 and odd is not None and _is_given(stripped)


def _is_mixed(value: str) -> bool:
    """Letters with digits, or with signs that are not part of words and numbers."""
    return bool(re.search(r"[A-Za-z]", value) and re.search(r"\d|[!#$%^&*?@+]", value) and len(value) >= 6)


def _is_mixed_password(value: str) -> bool:
    """Told by what is in it, because no "is" stands before it: a name of an algorithm is none."""
    has_both = _has_digit(value) and re.search(r"[^\W\d_]", value) is not None and not _MEASURE.match(value)
    return has_both and len(value) >= 6 and _is_given(value) and value.casefold() not in _load_rules().plain


def _is_random_key(value: str) -> bool:
    """Long and random, behind a maker's sign: letters of both cases and digits. Hex is an id or a digest."""
    return _looks_random(value) and all(re.search(kind, value) for kind in ("[a-z]", "[A-Z]", "[0-9]"))


def _is_strong(value: str) -> bool:
    kinds = sum(bool(re.search(kind, value)) for kind in ("[a-z]", "[A-Z]", "[0-9]", r"[^\w\s]"))
    return kinds >= 3 and _has_digit(value) and _is_given(value) and "://" not in value


def _has_no_sentence(text: str) -> bool:
    return _load_rules().sentence.isdisjoint(_WORDS.findall(text.lower()))


def _is_seed_phrase(text: str) -> bool:
    """Without a name before it: of the right length, each word known by four letters, no sentence and no inflection."""
    words = _WORDS.findall(text)
    starts = {word[:4] for word in words}
    inflected = sum(bool(_INFLECTED.search(word)) for word in set(words))
    return len(words) in _SEED_LENGTHS and len(starts) == len(set(words)) and inflected <= 2 and _has_no_sentence(text)


def _is_password(value: str, *, quoted: bool, spelled: bool) -> bool:
    """After "is" a plain word more likely ends a sentence; a digit, a capital or a sign inside makes it a password."""
    if len(value) < 4 or not _is_given(value):
        return False
    return quoted or _is_odd(value) or (not spelled and value.casefold() not in _load_rules().plain)


_CHECKS: Mapping[str, Callable[[str], bool]] = {
    "": lambda _: True,
    "card": _is_card,
    "digit": _has_digit,
    "given": _is_given,
    "key": _is_random_key,
    "mixed": _is_mixed_password,
    "odd": _is_odd,
    "random": _looks_random,
    "random or hex": lambda text: _looks_random(text) or _is_hex_key(text),
    "seed phrase": _is_seed_phrase,
    "seed words": _has_no_sentence,
    "strong": _is_strong,
}
