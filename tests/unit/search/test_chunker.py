from __future__ import annotations

import itertools
from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from limpet.model.chunk import ChunkDraft
from limpet.model.document import DocumentKind
from limpet.model.message import Message
from limpet.search.embed import chunk_document, chunk_message, chunk_text, split_pieces

words = st.text("abc", min_size=1, max_size=30)
marks = st.sampled_from(
    [" ", "  ", "\n", "\n\n", ". ", "! ", "?) ", "。", "！", "… ", ".", "\t", "\r\n", "\u3000", "\x1c"]
)
texts = st.one_of(
    st.text(max_size=600),
    st.lists(st.one_of(words, marks), max_size=80).map("".join),
    st.text("字語", max_size=400),
    st.text(" \n", max_size=300),
)
sizes = st.integers(2, 80).flatmap(lambda most: st.tuples(st.just(most), st.integers(0, most - 1)))


def split_text(text: str, most: int, overlap: int) -> list[str]:
    return [piece for _, piece in split_pieces(text, most, overlap)]


@st.composite
def distinct_letters(draw: st.DrawFn) -> str:
    """A text in which no two letters are the same, which shows where a piece was cut from."""
    letters = map(chr, itertools.count(0xE000))
    shapes = draw(st.lists(st.tuples(st.integers(0, 40), marks), max_size=40))
    return "".join("".join(itertools.islice(letters, length)) + mark for length, mark in shapes)


@given(texts, sizes)
def test_chunks_are_within_limit_nonempty_and_stripped(text: str, size: tuple[int, int]) -> None:
    for piece in split_text(text, *size):
        assert 0 < len(piece) <= size[0]
        assert piece == piece.strip()


@given(distinct_letters(), sizes)
def test_chunks_cover_every_character(text: str, size: tuple[int, int]) -> None:
    found = set("".join(split_text(text, *size)))
    assert {letter for letter in text if not letter.isspace()} <= found


@example("！" + "".join(chr(0xE000 + number) for number in range(19)) + "！", (20, 19))
@given(distinct_letters(), sizes)
def test_chunks_are_in_order_and_overlap_within_limit(text: str, size: tuple[int, int]) -> None:
    most, overlap = size
    pieces = split_text(text, most, overlap)
    assert all(piece in text for piece in pieces)
    for one, two in itertools.pairwise(pieces):
        # Those that stand in the text once. A wide exclamation mark, which may come again, is behind them in Unicode.
        both = [letter for letter in two if letter in one and "\ue000" <= letter <= "\uf8ff"]
        # Where a whole chunk is shorter than the overlap, the next one begins one word later all the same.
        assert len(both) <= max(overlap, len(one) - 1)


@given(st.integers(0, 3000), sizes)
def test_chunks_contain_every_word_whole_and_in_order(count: int, size: tuple[int, int]) -> None:
    most, overlap = max(size[0], 24), size[1]
    numbered = [f"w{number}" for number in range(count % 300)]
    pieces = split_text(" ".join(numbered), most, min(overlap, most - 1))
    found = [word for piece in pieces for word in piece.split()]
    assert set(found) == set(numbered)
    firsts = [piece.split()[0] for piece in pieces]
    assert firsts == sorted(firsts, key=lambda word: int(word[1:]))


@given(st.text("xy", min_size=1, max_size=2000), st.integers(4, 64))
def test_chunks_of_unbroken_text_overlap_exactly(text: str, most: int) -> None:
    overlap = most // 4
    pieces = split_text(text, most, overlap)
    assert text == pieces[0] + "".join(piece[overlap:] for piece in pieces[1:])


@given(texts, st.integers(4, 80))
def test_chunks_without_overlap_join_to_the_text(text: str, most: int) -> None:
    assert "".join("".join(split_text(text, most, 0)).split()) == "".join(text.split())


def test_chunk_overlap_starts_at_a_word() -> None:
    text = " ".join(f"word{number:03}" for number in range(300))
    pieces = split_text(text, 640, 96)
    for one, two in itertools.pairwise(pieces):
        shared = next(length for length in range(96, 0, -1) if one.endswith(two[:length]))
        assert shared >= 80
        assert two.startswith("word")


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("", []),
        (" \n\t ", []),
        ("short", ["short"]),
        ("  padded  ", ["padded"]),
        ("One sentence here. Another one.", ["One sentence here.", "Another one."]),
        ("First paragraph.\n\nSecond one here", ["First paragraph.", "Second one here"]),
        ("最初の文章はここです。次の文章はそこです。", ["最初の文章はここです。", "次の文章はそこです。"]),
        ("aaaa bbbb cccc dddd eeee", ["aaaa bbbb cccc dddd", "eeee"]),
    ],
)
def test_chunks_break_at_paragraphs_sentences_and_words(text: str, pieces: list[str]) -> None:
    assert split_text(text, 20, 0) == pieces


def test_split_text_runs_in_linear_time() -> None:
    for text in ("word " * 400_000, "x" * 2_000_000, "\n" * 1_000_000 + "x", ". " * 500_000, "。" * 600_000):
        assert sum(map(len, split_text(text, 640, 96))) >= len("".join(text.split())) // 2


def test_chunk_draft_hash_and_terms_depend_on_speaker_and_date() -> None:
    at = datetime(2026, 3, 10, tzinfo=UTC)
    [mine] = chunk_message(Message.new("user", "The dogs ran"), at, 640, 96)
    [same] = chunk_message(Message.new("user", "The dogs ran"), at, 640, 96)
    [theirs] = chunk_message(Message.new("assistant", "The dogs ran"), at, 640, 96)
    [kept] = chunk_text("The dogs ran", 640, 96)
    assert isinstance(mine, ChunkDraft)
    assert mine == same
    assert mine.hash != theirs.hash
    assert kept.terms.length == sum(kept.terms.counts.values()) == 2
    # The day, the month and the year are indexed with what was said.
    assert mine.terms.length == 5
    assert kept.terms.counts.keys() < mine.terms.counts.keys()
    assert len(mine.hash) == 16
    assert mine.vector is None


# Documents


def drafts(text: str, kind: str, most: int = 60, overlap: int = 10) -> list[ChunkDraft]:
    return chunk_document(text, DocumentKind(kind), most, overlap)


@given(texts, st.sampled_from(DocumentKind), sizes)
def test_document_chunk_offsets_point_into_the_text(text: str, kind: DocumentKind, size: tuple[int, int]) -> None:
    found = chunk_document(text, kind, *size)
    places = [draft.offset or 0 for draft in found]
    assert places == sorted(places)
    for draft, place in zip(found, places, strict=True):
        assert 0 < len(draft.text) <= size[0]
        assert text[place : place + len(draft.text)] == draft.text
    covered = {at for draft, place in zip(found, places, strict=True) for at in range(place, place + len(draft.text))}
    assert all(at in covered or letter.isspace() for at, letter in enumerate(text))


def test_markdown_chunks_break_at_headings() -> None:
    text = "intro\n\n# One\n\nfirst\n\n## Two\n\nsecond\n\n# Three #\nthird"
    assert [draft.text for draft in drafts(text, "markdown")] == [
        "intro", "# One\n\nfirst", "## Two\n\nsecond", "# Three #\nthird"
    ]  # fmt: skip
    assert len(drafts(text, "text")) == 1


def test_markdown_heading_without_text_joins_next_section() -> None:
    assert [draft.text for draft in drafts("# One\n\n## Two\n\n### Three\ntext\n\n# Four", "markdown")] == [
        "# One\n\n## Two\n\n### Three\ntext", "# Four"
    ]  # fmt: skip


@pytest.mark.parametrize("fence", ["```", "~~~~"])
def test_markdown_chunks_ignore_headings_in_code_blocks(fence: str) -> None:
    text = f"# One\n\n{fence}sh\n# not a heading\n{fence[:2]}\n{fence}\n\n#hashtag\n\n# Two\ntext"
    assert [draft.text.partition("\n")[0] for draft in drafts(text, "markdown", 200)] == ["# One", "# Two"]


def test_markdown_long_section_breaks_at_sentences() -> None:
    found = drafts("# One\n\n" + "A sentence of words. " * 20 + "\n# Two\nend", "markdown")
    assert len(found) > 6
    assert all(draft.text.endswith((".", "end")) for draft in found)
    assert found[-1].text == "# Two\nend"


def test_code_chunks_break_between_definitions() -> None:
    parts = [f"def part{number}(value):\n    first = value\n\n    return first + {number}" for number in range(6)]
    found = [draft.text for draft in drafts("\n\n\n".join(parts), "code", 140, 0)]
    assert found == ["\n\n\n".join(parts[at : at + 2]) for at in (0, 2, 4)]


def test_code_chunks_break_at_lines_and_keep_indentation() -> None:
    lines = [f"{'    ' * (number % 4)}line number {number};" for number in range(40)]
    apart, overlapping = (drafts("\n".join(lines), "code", 100, overlap) for overlap in (0, 30))
    for found in (apart, overlapping):
        assert {line for draft in found for line in draft.text.split("\n")} == set(lines)
    for one, two in itertools.pairwise(overlapping):
        assert two.text.split("\n")[0] in one.text.split("\n")


@pytest.mark.slow
def test_chunk_document_runs_in_linear_time() -> None:
    for text in ("# a\n" * 250_000, "```\n" * 250_000, "\n" * 1_000_000, "x" * 1_000_000, "    x\n\n" * 150_000):
        for kind in ("markdown", "code"):
            assert len(chunk_document(text, DocumentKind(kind), 640, 96)) <= 3000
