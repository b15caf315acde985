"""What the work is made of."""

from __future__ import annotations

import re
from collections.abc import Iterator

from holdfast.domain.record import RecordType
from holdfast.learn.rules import values
from holdfast.learn.rules.table import Finding

_MADE_OF = re.compile(
    r"\b(?:(?:our|the) (?:tech )?stack is|we are (?:still )?(?:on|running(?: on)?)) (?P<w>[\w.+#-]+.*)|"
    r"\b(?:the|our|my|this) (?:[\w-]+ )?(?:back-?end|front-?end|app|api|project|service|services|site|website|"
    r"codebase|repo|"
    r"server|client|cli|bot|pipeline|product|platform|dashboard) (?:is|are) (?:all |mostly |entirely )?"
    r"(?:written|built|implemented|coded) (?:in|with|on(?: top of)?) (?P<v>[\w.+#-]+.*)",
    re.IGNORECASE,
)
_HINT = re.compile(r"stack|written|built|implemented|coded|we are")  # to be quick where there is nothing
# Languages whose names are words or letters, too.
_SHORT_NAMES = re.compile(r"(?:go|c|r|d|zig|haskell|clojure|erlang)\b", re.IGNORECASE)


def made_of(sentence: str) -> Iterator[Finding]:
    found = _MADE_OF.search(sentence) if _HINT.search(sentence) else None
    made = (found["v"] or found["w"]) if found else None
    if made and (values.is_product(made) or _SHORT_NAMES.match(made)):
        yield Finding(RecordType.FACT, "project", None, None, confidence=0.8, salience=0.6)
