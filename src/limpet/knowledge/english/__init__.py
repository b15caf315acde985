"""The rules for English: how facts, names and relations are found in a text without a language model.

They are precise and find little. The names below are all that the rest of Limpet uses of them; nothing outside imports
the modules of this package. Each module is imported, and its many patterns compiled, when one of its names is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from limpet.knowledge.english.answers import Answer, complete_answer
    from limpet.knowledge.english.assertions import find_statements, is_forget_request, is_opt_out
    from limpet.knowledge.english.change import has_change_sign, has_end_sign, is_passing
    from limpet.knowledge.english.extract import (
        OwnStatement,
        apply_correction,
        deduplicate,
        extract_candidates,
        extract_statements,
        extract_work,
        find_corrections,
        find_own_statements,
        is_named,
        is_person,
    )
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
    from limpet.knowledge.english.wording import (
        find_asked_subjects,
        find_last_date,
        find_subject,
        resolve_dates,
        to_third_person,
        word_claim,
    )

__all__ = [
    "Answer",
    "OwnStatement",
    "apply_correction",
    "complete_answer",
    "deduplicate",
    "extract_candidates",
    "extract_from_message",
    "extract_from_record",
    "extract_statements",
    "extract_work",
    "find_asked_subjects",
    "find_corrections",
    "find_last_date",
    "find_name",
    "find_own_statements",
    "find_role",
    "find_role_word",
    "find_speaker",
    "find_statements",
    "find_subject",
    "has_change_sign",
    "has_count_changed",
    "has_end_sign",
    "has_several",
    "is_change",
    "is_contradiction",
    "is_correction_of",
    "is_eligible",
    "is_exclusive",
    "is_forget_request",
    "is_named",
    "is_one_of_several",
    "is_opt_out",
    "is_passing",
    "is_person",
    "is_reversal",
    "resolve_dates",
    "to_third_person",
    "word_claim",
]

_HOMES = {
    "answers": "Answer complete_answer",
    "assertions": "find_statements is_forget_request is_opt_out",
    "change": "has_change_sign has_end_sign is_passing",
    "extract": (
        "OwnStatement apply_correction deduplicate extract_candidates extract_statements extract_work find_corrections"
        " find_own_statements is_named is_person"
    ),
    "graph": "extract_from_message extract_from_record find_role find_speaker is_eligible is_exclusive",
    "lexicon": "find_role_word",
    "statement": (
        "find_name has_count_changed has_several is_change is_contradiction is_correction_of is_one_of_several"
        " is_reversal"
    ),
    "wording": "find_asked_subjects find_last_date find_subject resolve_dates to_third_person word_claim",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    return value
