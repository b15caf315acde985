"""The rules for English: what in a text is the speaker's own word, and what of it rules are sure of.

They are precise and find little. The names below are all that the rest of Limpet uses of them; nothing outside imports
the modules of this package. Each module is imported when one of its names is used. Words and patterns are data, in
words.toml, patterns.toml, styles.toml and topics.toml.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from limpet.model.late import load_modules

if TYPE_CHECKING:
    from limpet.knowledge.english.answers import *  # noqa: F403
    from limpet.knowledge.english.assertions import *  # noqa: F403
    from limpet.knowledge.english.beside import *  # noqa: F403
    from limpet.knowledge.english.change import *  # noqa: F403
    from limpet.knowledge.english.clause import *  # noqa: F403
    from limpet.knowledge.english.coordination import *  # noqa: F403
    from limpet.knowledge.english.dates import *  # noqa: F403
    from limpet.knowledge.english.elision import *  # noqa: F403
    from limpet.knowledge.english.facts import *  # noqa: F403
    from limpet.knowledge.english.presupposed import *  # noqa: F403
    from limpet.knowledge.english.statement import *  # noqa: F403
    from limpet.knowledge.english.wording import *  # noqa: F403

_HOMES = {
    "answers": "Answer complete_answer",
    "assertions": (
        "MAX_SENTENCE OwnStatement extract_assertion find_kept find_own_statements find_statements is_chat_rule"
        " is_forget_request is_opt_out mask_quotations tells_reaction tells_style"
    ),
    "beside": "find_beside",
    "change": (
        "allows changes_instructions find_called_off find_retracted find_return find_topics forbids has_change_sign"
        " has_end_sign has_stay_sign is_kin_still is_last is_passing list_instructed list_owners replaces_style"
        " tells_of_loss"
    ),
    "clause": "expand_contractions find_asked_subjects find_role_word speaks_of_user",
    "coordination": "is_comment is_order is_standing_order lacks_verb states_fact states_habit",
    "dates": "find_bound find_last_date is_dated_event resolve_dates tells_of_start",
    "elision": "complete_clause lacks_person name_things",
    "facts": "extract_decisions extract_statements is_named is_product",
    "presupposed": "find_presupposed",
    "statement": (
        "apply_correction find_corrections find_name has_count_changed has_several is_change is_contradiction"
        " is_correction_of is_one_of_several is_quote is_reversal"
    ),
    "wording": (
        "drop_lead find_subject name_subject names_nothing points_away refers_back retell to_third_person word_claim"
    ),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = f"{__name__}.{_HOME[name]}"
    load_modules(home)
    value = globals()[name] = getattr(import_module(home), name)
    return value


@cache
def load_table(name: str) -> Mapping[str, Any]:
    load_modules("tomllib")
    import tomllib  # late: only what learns needs the tables

    return tomllib.loads(Path(__file__).with_name(name).read_text("utf-8"))


@cache
def get_words(name: str) -> frozenset[str]:
    """One of the closed lists of words.toml."""
    return frozenset(word.replace("_", " ") for word in load_table("words.toml")[name].split())


@cache
def get_pattern(name: str) -> re.Pattern[str]:
    """One of the patterns of patterns.toml."""
    return compile_pattern(load_table("patterns.toml")[name])


@cache
def get_signs(name: str) -> re.Pattern[str]:
    """One of the patterns of whole words for text in small letters: ignoring case takes four times as long."""
    return re.compile(rf"\b(?:{_expand(load_table('patterns.toml')[name])})\b")


def compile_pattern(text: str) -> re.Pattern[str]:
    """Compile a pattern as it stands in patterns.toml: alternatives by line, {names} of other patterns or of words."""
    return re.compile(_expand(text), re.IGNORECASE)


def _expand(text: str) -> str:
    alternatives = text.strip("\n").replace("\n  ", "").replace("\n", "|")
    return re.sub(r"\{([a-z_]+)\}", lambda match: f"(?:{_expand_name(match[1])})", alternatives)


@cache
def _expand_name(name: str) -> str:
    patterns = load_table("patterns.toml")
    if name in patterns:
        return _expand(patterns[name])
    return "|".join(sorted(get_words(name), key=lambda word: (-len(word), word)))
