"""What the work is made of, and how it goes on."""

from __future__ import annotations

import re
from collections.abc import Iterator

from limpet.knowledge.english import values
from limpet.knowledge.english.table import RuleMatch
from limpet.model.record import RecordType

_PART = (
    r"(?:back-?end|front-?end|app|api|project|services?|site|website|codebase|repo|server|client|cli|bot|pipeline|"
    r"product|platform|dashboard)"
)
_MADE_OF = re.compile(
    r"\b(?:(?:our|the) (?:tech )?stack is|we are (?:still )?(?:on|running(?: on)?)) (?P<w>[\w.+#-]+.*)|"
    rf"\b(?:the|our|my|this) (?:[\w-]+ )?{_PART} (?:is|are) (?:all |mostly |entirely )?"
    r"(?:written|built|implemented|coded) (?:in|with|on(?: top of)?) (?P<v>[\w.+#-]+.*)|"
    rf"\b(?:the|our) (?:[\w-]+ ){{0,2}}(?:{_PART}|database|db|queue|cache|ci|hosting|infrastructure|infra|orm|"
    rf"test runner)"
    r" (?:is|are|runs? on|(?:is|are) hosted on|uses?|lives? on) (?:an? |all |still |now )?(?P<x>[A-Za-z][\w.+#-]*.*)",
    re.IGNORECASE,
)
# When it happens, of a team: "we release every second Thursday".
_ROUTINE = re.compile(
    r"\bwe (?:only |always |usually )?(?:release|deploy|ship|cut a release) (?:to (?:prod|production|staging) )?"
    r"(?:every|each|once an?|twice an?|weekly|daily|monthly|on (?:\w+days?|the (?:first|second|last)))\b",
    re.IGNORECASE,
)
# To be quick where there is nothing.
_HINT = re.compile(
    r"stack|written|built|implemented|coded|we are|\b(?:the|our) .{2,60}(?:is|are|runs?|uses?|lives?) ", re.IGNORECASE
)
# Languages whose names are words or letters, too.
_SHORT_NAMES = re.compile(r"(?:go|c|r|d|zig|haskell|clojure|erlang)\b(?! (?:down|to|away|live)\b)", re.IGNORECASE)


def find_stack(sentence: str) -> Iterator[RuleMatch]:
    found = _MADE_OF.search(sentence) if _HINT.search(sentence) else None
    made = (found["v"] or found["w"] or found["x"]) if found else None
    if made and (values.is_product(made) or _SHORT_NAMES.match(made)):
        yield RuleMatch(RecordType.FACT, "project", None, None, confidence=0.8, salience=0.6)


def find_routine(sentence: str) -> Iterator[RuleMatch]:
    if _ROUTINE.search(sentence):
        yield RuleMatch(RecordType.FACT, "project", None, None, confidence=0.8, salience=0.6)
