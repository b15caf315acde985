"""The ids are those of the Rust library `tokenizers` 0.23 with the tokenizer.json of all-MiniLM-L6-v2."""

from __future__ import annotations

import time

import pytest

from limpet.providers.encoder import END, START, UNKNOWN, _vocabulary, token_ids

KNOWN = [
    ("Hello, world!", [7592, 1010, 2088, 999]),
    (
        "I moved to Lisbon; Biscuit barks at every tram.",
        [1045, 2333, 2000, 11929, 1025, 20377, 28168, 11286, 2015, 2012, 2296, 12517, 1012],
    ),
    (
        "Crème brûlée à la carte — naïve façade",
        [13675, 21382, 7987, 9307, 2063, 1037, 2474, 11122, 2063, 1517, 15743, 8508],
    ),
    ("私は東京に住んでいます", [100, 1672, 1879, 1755, 1668, 100, 1691, 30191, 30173, 30203, 30184]),
    ("我喜歡喝綠茶", [1855, 100, 100, 100, 100, 100]),
    (
        "안녕하세요, 반갑습니다",
        [
            1463,
            30006,
            30021,
            29992,
            30010,
            30025,
            30005,
            30006,
            29997,
            30009,
            29999,
            30013,
            1010,
            1460,
            30006,
            30021,
            29991,
            30006,
            30024,
            29997,
            30017,
            30024,
            29992,
            30019,
            29993,
            30006,
        ],
    ),
    (
        "unaffable tokenization of supercalifragilisticexpialidocious",
        [
            14477,
            20961,
            3468,
            19204,
            3989,
            1997,
            3565,
            9289,
            10128,
            29181,
            24411,
            4588,
            10288,
            19312,
            21273,
            10085,
            6313,
        ],
    ),
    ("I ❤ pizza 🍕!", [1045, 100, 10733, 100, 999]),
    ("don't   stop\tme\nnow", [2123, 1005, 1056, 2644, 2033, 2085]),
    ("", []),
    ("   ", []),
    (
        "ΟΔΥΣΣΕΥΣ και Σίσυφος",
        [
            1169,
            29722,
            29735,
            29733,
            29733,
            29723,
            29735,
            29733,
            1164,
            14608,
            18199,
            1173,
            18199,
            29733,
            29735,
            29736,
            15297,
        ],
    ),
    ("x\x00y\u200dz �\xad!", [1060, 2100, 2480, 999]),
    (
        "e-mail: a_b@c.de, $5.00 (50%)",
        [
            1041,
            1011,
            5653,
            1024,
            1037,
            1035,
            1038,
            1030,
            1039,
            1012,
            2139,
            1010,
            1002,
            1019,
            1012,
            4002,
            1006,
            2753,
            1003,
            1007,
        ],
    ),
    ("STRASSE straße İstanbul", [2358, 8180, 3366, 2358, 27807, 9960]),
    ("Привет, мир", [1194, 16856, 10325, 25529, 15290, 22919, 1010, 1191, 10325, 16856]),
]


def test_vocabulary_is_complete():
    vocabulary = _vocabulary()
    assert len(vocabulary) == 30_522
    assert [vocabulary[mark] for mark in ("[PAD]", "[UNK]", "[CLS]", "[SEP]")] == [0, UNKNOWN, START, END]
    assert vocabulary["##～"] == 30_521


@pytest.mark.parametrize(("text", "ids"), KNOWN)
def test_token_ids_match_reference(text, ids):
    assert token_ids(text, 256) == [START, *ids, END]


def test_token_ids_word_over_100_characters_is_unknown():
    assert token_ids("a" * 101 + " b", 256) == [START, UNKNOWN, 1038, END]
    assert len(token_ids("a" * 100, 256)) == 52


@pytest.mark.parametrize("limit", [2, 3, 4, 6, 256])
def test_token_ids_limit_includes_special_tokens(limit):
    ids = token_ids("hello world, " * 300, limit)
    assert len(ids) == limit
    assert (ids[0], ids[-1]) == (START, END)
    assert ids[1:-1] == [7592, 2088, 1010][: limit - 2] + ids[4:-1]


def test_token_ids_treat_special_token_text_as_text():
    assert token_ids("[SEP]", 256) == [START, 1031, 19802, 1033, END]


@pytest.mark.parametrize(
    "text", ["hello world " * 90_000, "a" * 1_000_000, "猫" * 1_000_000, "é" * 1_000_000, " " * 1_000_000]
)
def test_token_ids_are_fast_on_very_long_text(text):
    started = time.process_time()
    assert len(token_ids(text, 256)) <= 256
    assert time.process_time() - started < 10


def test_token_ids_drop_lone_surrogates():
    assert token_ids("hello \ud800 world", 256) == [START, 7592, 2088, END]
