from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limpet.search.analysis import (
    _ASCII_WORD,
    ANALYZER_VERSION,
    TextFlag,
    _tokenize,
    analyse,
    count_shared_terms,
    extract_terms,
    flag_chunk,
    flag_message,
    pack_terms,
    unpack_terms,
)

anything = st.text(st.characters(exclude_categories=["Cs"]))


def same(one: str, two: str) -> bool:
    return extract_terms(one) == extract_terms(two) != []


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("dog", "dogs"),
        ("dog", "Dog's"),
        ("run", "RUNNING"),
        ("organize", "organizing"),
        ("generous", "generously"),
        ("party", "parties"),
        ("straße", "STRASSE"),
        ("ﬁsh", "fish"),
        ("ＦＵＬＬ", "full"),
        ("ｶﾀｶﾅ", "カタカナ"),
        ("don’t-know", "don't know"),
        ("e\u0301te\u0301", "été"),
        ("café", "cafes"),
        ("été", "ete"),
        ("Ærøskøbing", "aeroskobing"),
        ("Łódź", "lodz"),
        ("Đặng", "dang"),
        ("Χαλκιδική", "χαλκιδικη"),
        ("①", "1"),
        ("snake_case", "snake case"),
        ("a1b2", "A1B2"),
    ],
)
def test_word_forms_share_one_term(one: str, two: str) -> None:
    assert same(one, two)


@pytest.mark.parametrize(("one", "two"), [("cat", "car"), ("が", "か"), ("नमस्ते", "नमसत"), ("1", "10"), ("👍", "👎")])
def test_different_words_have_different_terms(one: str, two: str) -> None:
    assert extract_terms(one) != extract_terms(two)


def test_stop_words_and_punctuation_have_no_terms() -> None:
    assert extract_terms("What is the of and to a I'm don't it’s WHERE") == []
    assert extract_terms("") == extract_terms(" \n.,;!?-—'\"") == []
    assert analyse("the dog and the cat").length == 2


def test_text_without_spaces_becomes_characters_and_bigrams() -> None:
    assert len(extract_terms("日本語")) == 3 + 2
    assert set(extract_terms("本")) < set(extract_terms("日本語"))
    assert set(extract_terms("本語")) < set(extract_terms("日本語"))
    assert not set(extract_terms("日語")) - {*extract_terms("日"), *extract_terms("語")} <= set(extract_terms("日本語"))
    assert set(extract_terms("강아지")) < set(extract_terms("내 강아지의 이름"))
    assert extract_terms("iPhone買った") == [*extract_terms("iphone"), *extract_terms("買った")]
    assert len(extract_terms("𠮷野")) == 3


def test_analyse_counts_terms_and_length() -> None:
    found = analyse("dog dogs cat the dog")
    assert found.length == 4
    assert sorted(found.counts.values()) == [1, 3]
    assert list(found.counts) == extract_terms("dog dogs cat the dog")


def test_term_hashes_never_change() -> None:
    """They are stored in every database. If this fails, ANALYSIS must be another name, and stores must be repaired."""
    assert ANALYZER_VERSION == "snowball-english-3/pairs/dated/unaccented"
    assert extract_terms("running dogs") == [-339162738548374635, 4144657192359730335]
    assert extract_terms("Biscuit") == [-3611544259289642497]
    assert extract_terms("café") == [6355573225834878276]
    assert extract_terms("👍") == [4426778189261467833]
    assert extract_terms("日本語") == [
        -6130655013944843317,
        2469091630161368601,
        -2147448532956662215,
        -1714967866143106246,
        -2252884206267423963,
    ]


@given(anything)
def test_terms_are_64_bit_for_any_text(text: str) -> None:
    found = analyse(text)
    assert all(-(2**63) <= term < 2**63 for term in found.counts)
    assert found.length == sum(found.counts.values())
    assert list(found.counts) == extract_terms(text)


@given(st.text(st.characters(max_codepoint=127)))
def test_ascii_word_has_same_term_next_to_non_ascii_text(text: str) -> None:
    assert extract_terms(f"{text} é") == list(dict.fromkeys([*extract_terms(text), *extract_terms("é")]))


@given(anything, anything)
def test_terms_of_joined_texts_are_union(one: str, two: str) -> None:
    assert set(extract_terms(f"{one} \n {two}")) == {*extract_terms(one), *extract_terms(two)}


@given(anything)
def test_terms_ignore_case(text: str) -> None:
    assert set(extract_terms(text.casefold())) == set(extract_terms(text))


def test_word_of_any_length_is_one_term() -> None:
    [term] = extract_terms("a" * 1_000_000)
    assert [term] == extract_terms("a" * 64)
    assert len(extract_terms("日" * 1000)) == 2


@given(anything)
def test_packed_terms_round_trip(text: str) -> None:
    found = analyse(text)
    terms, counts = unpack_terms(pack_terms(found))
    assert dict(zip(terms, counts, strict=True)) == {term: min(count, 255) for term, count in found.counts.items()}


def test_packed_term_count_is_capped_at_255() -> None:
    _, counts = unpack_terms(pack_terms(analyse("walrus " * 1000)))
    assert list(counts) == [255]


def test_terms_do_not_depend_on_hash_seed() -> None:
    import subprocess

    code = "from limpet.search.analysis import extract_terms; print(extract_terms('running dogs 日本 café'))"
    answers = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert answers == {f"{extract_terms('running dogs 日本 café')}\n"}


@given(st.text(st.characters(max_codepoint=0x7F)))
def test_ascii_fast_path_matches_tokenizer(text: str) -> None:
    assert list(_tokenize(text)) == _ASCII_WORD.findall(text.lower())


@given(anything, anything)
def test_count_shared_terms_is_size_of_intersection(question: str, text: str) -> None:
    assert count_shared_terms(frozenset(extract_terms(question)), text) == len(
        set(extract_terms(question)) & set(extract_terms(text))
    )


@pytest.mark.parametrize(
    ("text", "only_asks"),
    [
        ("What is the capital of Chad?", True),
        ("Can you help? What would it cost?", True),
        ("I'm wondering, are there tools for that?", True),
        ("Do I need a visa, or is a passport enough?", True),
        ("Hmm, so how do I set up the alerts, or can you?", True),
        ("If I moved to Oslo, would I pay more tax?", True),
        ("I'm vegan, is there anything for me on this menu?", False),
        ("Since my son can't have nuts, what could we bake?", False),
        ("Hi, I prefer Django over Flask for this one, can you set up a project?", False),
        ("Any idea? Our flat has no bath \u2013 where do we wash the dog?", False),
        ("I moved to Oslo. Is it cold?", False),
        ("I moved to Oslo.", False),
    ],
)
def test_flag_message_tells_whether_it_only_asks(text: str, only_asks: bool) -> None:
    assert bool(flag_message(text) & TextFlag.ONLY_ASKS) is only_asks


@pytest.mark.parametrize(
    "text",
    [
        "Always answer in French.",
        "Thanks! Please never call me sir",
        "From now on, use metric units",
        "Whenever I say stop, stop.",
        "Make sure you greet Ann",
        "I prefer tea",
        "I strongly prefer trains.",
        "When I ask for a plan, be brief",
        "It is my preference",
        "I'd rather walk",
        "I would like a window seat",
    ],
)
def test_standing_wish_is_flagged(text: str) -> None:
    assert flag_chunk(text) & TextFlag.STANDING_WISH
