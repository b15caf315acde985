from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from limpet.config import EmbeddingSettings
from limpet.errors import ProviderError
from limpet.providers import encoder
from limpet.providers.choose import create_embedder
from limpet.providers.encoder import EncoderEmbedder
from limpet.search.embed import BatchEmbedder

WIDTH, HIDDEN, HEAD, PIECES = 4, 3, 5, 30_522
WORDS = "the dog barks at our postman on every windy morning in may and june".split()
GOLDEN = [0.007228, -0.004183, 0.115185, -0.023994, -0.040855, 0.032494]  # of the file that ships


@pytest.fixture
def arrays():
    """Random weights in the layout of the file that ships."""
    random = np.random.default_rng(0)

    def draw(*shape):
        return random.normal(size=shape).astype(np.float16)

    return {
        "table": random.integers(-127, 128, (PIECES, WIDTH), dtype=np.int8),
        "scale": np.full(PIECES, 0.01, dtype=np.float32),
        "gate": draw(PIECES),
        "first": draw(3 * HIDDEN, WIDTH),
        "first_bias": draw(HIDDEN),
        "second": draw(WIDTH, HIDDEN),
        "second_bias": draw(WIDTH),
        "pool": draw(WIDTH),
        "widen": draw(HEAD, WIDTH),
        "widen_bias": draw(HEAD),
        "narrow": draw(WIDTH, HEAD),
        "narrow_bias": draw(WIDTH),
    }


def write(path, arrays, save=np.savez):
    save(path, **arrays)
    return EncoderEmbedder(path)


def encode_plainly(arrays, pieces):
    """The same arithmetic, one piece at a time."""
    row = {name: values.astype(float) for name, values in arrays.items()}
    seen = [row["table"][piece] * row["scale"][piece] for piece in pieces]
    nothing = np.zeros(WIDTH)
    total = np.zeros(WIDTH)
    for at, piece in enumerate(pieces):
        beside = [seen[at - 1] if at else nothing, seen[at], seen[at + 1] if at + 1 < len(seen) else nothing]
        matrices = row["first"].reshape(3, HIDDEN, WIDTH)
        hidden = sum(matrix @ near for near, matrix in zip(beside, matrices, strict=True)) + row["first_bias"]
        own = seen[at] + row["second"] @ np.maximum(hidden, 0) + row["second_bias"]
        total += own * np.exp(np.clip(row["gate"][piece] + own @ row["pool"], -8, 8))
    whole = total / np.linalg.norm(total)
    whole += row["narrow"] @ np.maximum(row["widen"] @ whole + row["widen_bias"], 0) + row["narrow_bias"]
    return whole / np.linalg.norm(whole)


def test_encoder_computes_what_its_weights_say(tmp_path, arrays):
    embedder = write(tmp_path / "weights.npz", arrays)
    found = embedder.embed(["the dog", "dog", "the dog the"])
    the, dog = 1996, 3899  # their numbers in the vocabulary
    expected = [encode_plainly(arrays, pieces) for pieces in ([the, dog], [dog], [the, dog, the])]
    assert np.allclose(found, expected, atol=1e-4)


def test_encoder_embeds_text_alike_alone_and_among_others():
    embedder = EncoderEmbedder()
    texts = [f"{'word ' * (number % 90)}and {number} more" for number in range(120)]
    together = np.array(embedder.embed(texts))
    alone = np.array([embedder.embed([text])[0] for text in texts[::17]])
    assert np.allclose(together[::17], alone, atol=1e-5)


def test_encoder_gives_same_vectors_to_threads_that_meet_the_same_words_first(tmp_path, arrays):
    texts = [f"{word} {other}" for word in WORDS for other in WORDS]
    expected = write(tmp_path / "alone.npz", arrays).embed(texts)
    for run in range(5):
        embedder = write(tmp_path / f"{run}.npz", arrays)
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(embedder.embed, [texts] * 8))
        assert all(np.allclose(each, expected, atol=1e-6) for each in found)


def test_encoder_makes_room_for_more_pieces_than_it_expects(tmp_path, arrays, monkeypatch):
    monkeypatch.setattr(encoder, "_FIRST_PIECES", 2)
    texts = [*WORDS, " ".join(WORDS)]
    found = write(tmp_path / "weights.npz", arrays).embed(texts * 2)
    expected = [encode_plainly(arrays, encoder.token_ids(text, 99)[1:-1]) for text in texts * 2]
    assert np.allclose(found, expected, atol=1e-4)


def test_encoder_finds_answer_in_other_words():
    said = [
        "We adopted a puppy from the shelter, she chews everything.",
        "The train was late again, I missed the meeting.",
        "I'm allergic to shellfish, so no prawns for me.",
        "My sister moved to Lisbon in March.",
    ]
    asked = [
        "What pets do they have?",
        "Why was he not at work on time?",
        "Which food is dangerous?",
        "Where does she live now?",
    ]
    embedder = EncoderEmbedder()
    cosines = np.array(embedder.embed(asked)) @ np.array(embedder.embed(said)).T
    assert cosines.argmax(axis=1).tolist() == [0, 1, 2, 3]


def test_encoder_gives_same_vectors_on_every_machine():
    (vector,) = EncoderEmbedder().embed(["Biscuit barks at the postman."])
    assert vector[:6] == pytest.approx(GOLDEN, abs=1e-3)


def test_create_embedder_encoder():
    assert isinstance(create_embedder("encoder"), EncoderEmbedder)


def test_encoder_without_its_weights_says_so(tmp_path):
    with pytest.raises(ProviderError, match="Reinstall limpet"):
        EncoderEmbedder(tmp_path / "missing.npz").embed(["text"])


def test_encoder_refuses_compressed_weights(tmp_path, arrays):
    with pytest.raises(ProviderError, match="table is compressed"):
        write(tmp_path / "small.npz", arrays, np.savez_compressed).embed(["text"])


@pytest.mark.parametrize("text", ["Where is it?", "Où est la clé ?", "Gdzie leży klucz?", "42", "", "Wang 王"])
def test_encoder_reads_latin_letters(text: str) -> None:
    assert EncoderEmbedder().reads(text)


@pytest.mark.parametrize("text", ["我什么时候看牙医？", "歯医者の予約はいつですか？", "Где ключ от Audi?"])
def test_encoder_does_not_read_other_scripts(text: str) -> None:
    assert not EncoderEmbedder().reads(text)


def test_question_in_unread_script_has_no_vector() -> None:
    embedding = BatchEmbedder(EncoderEmbedder(), EmbeddingSettings())
    assert embedding.embed_question("我什么时候看牙医？") is None
    assert embedding.embed_question("When do I see the dentist?") is not None
