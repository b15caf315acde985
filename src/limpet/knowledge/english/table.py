"""A rule about somebody: what it looks for in a predicate, and what it makes of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from limpet.knowledge.english.values import parse_value
from limpet.model.record import Layer, RecordType


@dataclass(frozen=True, slots=True)
class Rule:
    """``when`` says which aspects it accepts: ``now`` (also denied or over), ``future``, ``any`` of both.

    ``over``: the words themselves say that something ended. ``denies``: they say that it is not so.
    """

    attribute: str
    pattern: re.Pattern[str]
    value: Callable[[str], str | None] = parse_value
    type: RecordType = RecordType.FACT
    layer: Layer = Layer.SEMANTIC
    exclusive: bool = False
    when: str = "now"
    over: bool = False
    denies: bool = False
    confidence: float = 0.85
    salience: float = 0.6
    tags: tuple[str, ...] = ()
    fixed: str | None = None  # the value, where the words are only a sign of it


@dataclass(frozen=True, slots=True)
class RuleMatch:
    """What a rule found, before it is tied to its message."""

    type: RecordType
    subject: str
    attribute: str | None = None
    value: str | None = None
    layer: Layer = Layer.SEMANTIC
    exclusive: bool = False
    polarity: bool = True
    confidence: float = 0.8
    salience: float = 0.5
    tags: tuple[str, ...] = ()
    content: str | None = None  # the sentence, where there is nothing shorter to say


def compile_pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.IGNORECASE)
