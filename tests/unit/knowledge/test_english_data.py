"""The words and patterns of the English rules: data that no linter reads."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from limpet.knowledge import english
from limpet.knowledge.attributes import load_attributes

KNOWLEDGE = Path(english.__file__).parents[1]
WORDS = english.load_table("words.toml")
PATTERNS = english.load_table("patterns.toml")
TABLES = ("contractions", "questions", "rule", "owned", "graph")


def list_texts() -> list[str]:
    """Every pattern as it stands in the file, those inside tables too."""
    rules = [rule["pattern"] for kind in ("rule", "owned") for rule in PATTERNS[kind]]
    more = [first for table in ("contractions", "questions") for first, *_ in PATTERNS[table]]
    more += PATTERNS["graph"].values()
    return [text for name, text in PATTERNS.items() if name not in TABLES] + rules + more


@pytest.mark.parametrize("name", [name for name in PATTERNS if name not in TABLES])
def test_pattern_compiles(name):
    assert english.get_pattern(name).pattern


def test_rules_compile_and_name_known_attributes():
    for kind in ("rule", "owned"):
        for rule in PATTERNS[kind]:
            assert english.compile_pattern(rule["pattern"]).groups or rule.get("fixed")
            assert rule["attribute"] in load_attributes()


def test_questions_compile_and_have_a_known_kind_of_answer():
    for asked, kind, _, attribute in PATTERNS["questions"]:
        assert english.compile_pattern(asked).groups
        assert f"answer_{kind}" in PATTERNS
        assert not attribute or attribute in load_attributes()


def test_every_pattern_and_word_list_is_used():
    code = "\n".join(path.read_text("utf-8") for path in KNOWLEDGE.rglob("*.py"))
    named = set(re.findall(r'"([a-z_]+)"', code)) | {f"answer_{kind}" for _, kind, *_ in PATTERNS["questions"]}
    texts = list_texts() + re.findall(r"compile_pattern\((r?f?\".*?\")\)", code)
    referenced = {name for text in texts for name in re.findall(r"\{([a-z_]+)\}", text)}
    unused = {*PATTERNS, *WORDS} - named - referenced
    assert unused == set()


def test_word_lists_are_lowercase_and_hold_each_word_once():
    for name, words in WORDS.items():
        if isinstance(words, str):
            assert words == words.lower(), name
            assert len(words.split()) == len(set(words.split())), name
