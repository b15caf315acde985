from __future__ import annotations

import random
import subprocess
import sys
import time

import pytest

from limpet.providers.hashed import HashEmbedder

SENTENCES = [
    "I moved to Lisbon, and Biscuit barks at every tram",
    "The quarterly invoice has to be paid before Monday",
    "My sister grows tomatoes on the roof of her house",
    "Please restart the database after each failed backup",
    "Wir haben gestern im Garten zusammen Schach gespielt",
    "Мы вчера вечером играли в шахматы в саду у бабушки",
]
VECTOR = """
    21:-0.3641 22:0.1214 46:0.2427 52:0.1214 62:-0.1699 66:-0.2427 67:0.1699 80:0.2427
    98:-0.2427 118:0.2427 144:-0.2427 147:-0.2427 159:-0.1214 165:-0.0485 182:0.2427 185:-0.1699
    195:-0.2427 197:-0.1214 209:0.1699 210:-0.1214 213:0.1699 227:-0.1699 238:0.1699 246:0.2427
"""  # of "Biscuit 猫": place and value
CODE = "import sys; from limpet.providers.hashed import HashEmbedder; print(HashEmbedder().embed(sys.argv[1:]))"


def cosine(one, other):
    left, right = HashEmbedder().embed([one, other])
    return sum(a * b for a, b in zip(left, right, strict=True))


@pytest.mark.parametrize("sentence", SENTENCES)
def test_hash_embedder_one_changed_letter_stays_similar(sentence):
    chance = random.Random(1)
    for place in [index for index, letter in enumerate(sentence) if letter.isalpha()]:
        assert cosine(sentence, sentence[:place] + chance.choice("qzxжö") + sentence[place + 1 :]) > 0.8


def test_hash_embedder_unrelated_texts_are_dissimilar():
    pairs = [(one, other) for one in SENTENCES for other in SENTENCES if one < other]
    found = [cosine(*pair) for pair in pairs]
    assert max(found) < 0.25
    assert abs(sum(found) / len(found)) < 0.1


def test_hash_embedder_ignores_case_spacing_and_width():
    assert cosine("Hello  World", "hello\nworld") == pytest.approx(1)
    assert cosine("ｆｕｌｌ width", "full width") == pytest.approx(1)


def test_hash_embedder_spelling_variants_are_similar():
    assert cosine("the dogs barked", "the dog barks") > 0.4 > cosine("the dogs barked", "an unpaid invoice")


@pytest.mark.parametrize(
    ("text", "near", "far"),
    [
        ("我喜欢喝绿茶", "他也喜欢绿茶", "明天会议取消了"),
        ("私は東京に住んでいます", "東京に住んでいる友達", "犬の名前はポチ"),
        ("저는 서울에 살아요", "서울에 사는 친구", "강아지 이름은 뽀삐"),
        ("🍕 and beer tonight", "beer and 🍕 again", "another 🚲 tour"),
    ],
)
def test_hash_embedder_handles_other_scripts_and_emoji(text, near, far):
    assert cosine(text, near) > cosine(text, far) + 0.15


def test_hash_embedder_tells_punctuation_apart():
    assert cosine("?!", "?!") == pytest.approx(1)
    assert cosine("?!", "->") < 0.5


@pytest.mark.slow
def test_hash_embedder_is_stable_across_processes():
    texts = [*SENTENCES, "猫", ""]
    seen = {
        subprocess.run(
            [sys.executable, "-c", CODE, *texts],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "4242")
    }
    assert len(seen) == 1


def test_hash_embedder_vectors_are_stable_for_version():
    """Stored vectors are compared with new ones: who changes these numbers changes the name."""
    assert HashEmbedder.name == "hashed-256-1"
    (vector,) = HashEmbedder().embed(["Biscuit 猫"])
    assert [f"{place}:{value:.4f}" for place, value in enumerate(vector) if value] == VECTOR.split()


def test_hash_embedder_is_fast():
    started = time.process_time()
    HashEmbedder().embed(["a sentence of the usual length, said in a chat " * 3] * 500)
    assert time.process_time() - started < 20
