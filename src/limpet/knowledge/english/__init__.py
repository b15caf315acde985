"""The rules for English: how facts, names and relations are found in a text without a language model.

They are precise and find little. The names below are all that the rest of Limpet uses of them; nothing outside imports
the modules of this package. Each module is imported, and its many patterns compiled, when one of its names is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from limpet.knowledge.english.assertions import find_statements, is_forget_request, is_opt_out
    from limpet.knowledge.english.extract import apply_correction, extract_candidates, find_corrections
    from limpet.knowledge.english.graph import (
        extract_from_message,
        extract_from_record,
        find_role,
        find_speaker,
        is_eligible,
        is_exclusive,
    )
    from limpet.knowledge.english.lexicon import find_role_word
    from limpet.knowledge.english.statement import (
        find_name,
        has_count_changed,
        has_several,
        is_change,
        is_contradiction,
        is_correction_of,
        is_one_of_several,
        is_reversal,
    )

__all__ = [
    "apply_correction",
    "extract_candidates",
    "extract_from_message",
    "extract_from_record",
    "find_corrections",
    "find_name",
    "find_role",
    "find_role_word",
    "find_speaker",
    "find_statements",
    "has_count_changed",
    "has_several",
    "is_change",
    "is_contradiction",
    "is_correction_of",
    "is_eligible",
    "is_exclusive",
    "is_forget_request",
    "is_one_of_several",
    "is_opt_out",
    "is_reversal",
]

_HOMES = {
    "assertions": "find_statements is_forget_request is_opt_out",
    "extract": "apply_correction extract_candidates find_corrections",
    "graph": "extract_from_message extract_from_record find_role find_speaker is_eligible is_exclusive",
    "lexicon": "find_role_word",
    "statement": (
        "find_name has_count_changed has_several is_change is_contradiction is_correction_of is_one_of_several"
        " is_reversal"
    ),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    return value
