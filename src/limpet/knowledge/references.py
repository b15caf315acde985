"""Files, tests, addresses and commands that a text names."""

from __future__ import annotations

import re

MAX_REFERENCES = 12

_ENDINGS = (
    "py|js|ts|tsx|jsx|rs|go|java|kt|rb|c|h|cpp|cs|php|swift|sql|sh|toml|ya?ml|json|md|txt|html|css|lock|cfg|ini|env"
)
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
