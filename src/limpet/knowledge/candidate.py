"""What extraction is given, and what it gives; what only repeats memory is left out."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from datetime import datetime, timedelta

from limpet.knowledge.similarity import compute_signature, fold_text, is_near_duplicate, tokenize, tokenize_folded
from limpet.model.dataclass import dataclass, replace
from limpet.model.message import Message, Role, ToolCall
from limpet.model.record import Layer, RecordType
from limpet.search.analysis import split_sentences

PASSING = timedelta(hours=36)  # how long a passing state holds
QUOTED_KEY = "quoted"  # of a reply's metadata: the ranges of its text that repeat what memory had put before the model
_SHORTEST = 3  # words: "I agree" stands in many texts by chance
_MARKS = " \t\r\n-*#>\\|"
_MOST = 400  # recalled sentences that are compared one by one
MAX_REFERENCES = 12

_ENDINGS = (
    "py|js|ts|tsx|jsx|rs|go|java|kt|rb|c|h|cpp|cs|php|swift|sql|sh|toml|ya?ml|json|md|txt|html|css|lock|cfg|ini|env"
)
# "@ana I moved too", not "@ana is moving" or "@ana and I": there the mention is the subject.
_ADDRESS = re.compile(r"\s*(?:@\w[\w.-]{0,63}[,:]?\s+)+(?!(?:and|or|will|would|can|could|should|did|\w+(?:s|ed))\b)")
_LAST_MENTIONS = re.compile(r"(?:\s+@\w[\w.-]{0,63})+[\s.!?]*\Z")
# "I moved too @ana", "I moved to Split @ana", not "I live with @ana" or "I met @ana": there they are spoken of.
_COMPLETE = re.compile(
    r"(?:[,;.!?…)\u2013\u2014]|\b(?:too|also|as well|now|again|already|here|there|ago|yet|today|tonight|tomorrow"
    r"|yesterday|thanks)|\b(?:in|to|at|from|near|since|last|next|this)\s+[\w'-]+)\Z",
    re.IGNORECASE,
)
_LONGEST_END = 400  # characters at the end of a message in which mentions are looked for
_PATTERNS = tuple(
    re.compile(pattern)
    for pattern in (
        r"https?://[^\s<>\"')\]]{3,300}",
        r"\b[\w./-]{1,120}\.py::\w{1,100}(?:::\w{1,100})?",
        r"(?<![\w/])(?:[\w.@~-]{1,60}/){1,12}[\w.@-]{1,60}",
        rf"(?<![\w/.])[\w-]{{1,60}}\.(?:{_ENDINGS})\b",
        r"\btest_\w{2,80}\b",
        r"`([^`\n]{2,120})`",
    )
)


@dataclass(frozen=True, slots=True)
class TurnMessage:
    sequence: int
    role: Role
    text: str
    created_at: datetime
    speaker: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    is_error: bool = False

    @classmethod
    def from_message(cls, message: Message, created_at: datetime, now: datetime | None = None) -> TurnMessage:
        """A stored message, without what it repeats of its prompt and whom it addresses.

        ``created_at`` stands in where it has no time.

        A date to come is taken for ``now``: what was said is true since it was said, whatever its clock says.
        """
        said_at = message.created_at or created_at
        return cls(
            message.sequence,
            message.role,
            _blank_address(blank_ranges(message.text, message.metadata.get(QUOTED_KEY))),
            said_at if now is None else min(said_at, now),
            message.name,
            message.tool_calls,
            message.tool_call_id,
            message.is_error,
        )


def mark_unlearned(message: Message) -> Message:
    """The message with all of its text marked as nothing to learn from."""
    return replace(message, metadata={**message.metadata, QUOTED_KEY: [[0, len(message.text)]]})


def iter_texts(call: ToolCall) -> Iterator[str]:
    for value in call.arguments.values():
        if isinstance(value, str):
            yield value
        elif isinstance(value, (list, tuple)):
            yield " ".join(part for part in value if isinstance(part, str))


@dataclass(frozen=True, slots=True)
class Candidate:
    """Something worth keeping, and the words it was learned from.

    ``subject`` is who or what it is about: ``user``, a name (``caroline``), a way to somebody (``user/sister``) or
    ``project``. ``exclusive``: the attribute holds one value at a time, so that a new one may supersede the old.
    ``polarity`` is False for what is denied or has ended.
    """

    type: RecordType
    layer: Layer
    content: str
    sentence: str
    sequence: int
    subject: str
    said_at: datetime
    speaker: str | None = None
    attribute: str | None = None
    value: str | None = None
    exclusive: bool = False
    polarity: bool = True
    confidence: float = 0.8
    salience: float = 0.5
    tags: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    until: datetime | None = None  # a passing state, or what has a date: it holds until then
    message: str = ""  # all of what was said: a change is looked for in it
    whole: str = ""  # what the message states, in one sentence or a few: it stands for what it takes back
    whole_quote: str = ""  # the same as it was said
    tentative: bool = False  # worth keeping only if it takes back something that is known
    skill: str | None = None  # that was active in its turn


# Whether the speaker said it, or memory did: what a prompt recalled must not be learned again


class Echoes:
    """The texts that memory had put before the model in this turn."""

    def __init__(self, recalled: Collection[str]) -> None:
        self._whole = [f" {' '.join(tokenize(text))} " for text in recalled if text.strip()]
        parts = (sentence.text for text in recalled for sentence in split_sentences(text))
        self._sentences = [part for _, part in zip(range(_MOST), parts, strict=False)]

    def contains(self, sentence: str) -> bool:
        """Word for word, or as good as."""
        said = tokenize(sentence)
        if not self._whole or len(said) < _SHORTEST:
            return False
        run = f" {' '.join(said)} "
        if any(run in text for text in self._whole):
            return True
        return len(compute_signature(sentence).stems) >= 2 and any(
            is_near_duplicate(sentence, part) for part in self._sentences
        )


def find_echoes(text: str, shown: str) -> list[tuple[int, int]]:
    """Where a text repeats, sentence by sentence, what stood in the prompt: from one character up to another."""
    plain = fold_text(shown)
    whole = ""  # of its words; made when a sentence has no other, which few have
    ranges: list[tuple[int, int]] = []
    for sentence in split_sentences(text):
        said = tokenize(sentence.text)
        if len(said) < _SHORTEST or not all(word in plain for word in said):
            continue
        whole = whole or f" {' '.join(tokenize_folded(plain))} "
        if f" {' '.join(said)} " in whole:
            start, end = sentence.start, sentence.start + len(sentence.text)
            joins = bool(ranges) and not text[ranges[-1][1] : start].strip(_MARKS)
            ranges[-1:] = [(ranges[-1][0], end)] if joins else [*ranges[-1:], (start, end)]
    return ranges


def blank_ranges(text: str, ranges: object) -> str:
    """The text with blanks where it repeats. Anything but a list of ranges leaves it as it is."""
    if not isinstance(ranges, list):
        return text
    for pair in ranges:
        if isinstance(pair, list) and len(pair) == 2 and all(type(at) is int and 0 <= at <= len(text) for at in pair):
            text = f"{text[: pair[0]]}{' ' * (pair[1] - pair[0])}{text[pair[1] :]}"
    return text


def _blank_address(text: str) -> str:
    """The text with blanks where it begins or ends with mentions: they say to whom it is said, not who does what."""
    found = _ADDRESS.match(text)
    if found is not None:
        text = " " * found.end() + text[found.end() :]
    start = max(0, len(text) - _LONGEST_END)
    last = _LAST_MENTIONS.search(text[start:])
    if last is None or not _COMPLETE.search(text[start : start + last.start()]):
        return text
    return text[: start + last.start()] + re.sub(r"@[\w.-]*\w|@\w", lambda each: " " * len(each[0]), last[0])


# Files, tests, addresses and commands that a text names


def find_references(text: str) -> tuple[str, ...]:
    """In the order they are found, each once. Dates and "and/or" are no paths."""
    found: dict[str, None] = {}
    for pattern in _PATTERNS:
        for match in pattern.finditer(text[:4000]):
            name = (match[1] if pattern.groups else match.group()).rstrip(".,;:")
            if _is_reference(name) and not any(name in longer for longer in found):
                found[name] = None
    return tuple(found)[:MAX_REFERENCES]


def _is_reference(name: str) -> bool:
    parts = name.split("/")
    if name.startswith("http") or "::" in name or "/" not in name or len(parts) > 2:
        return True
    return "." in parts[-1] or name.endswith("/") or any("_" in part or "-" in part for part in parts)
