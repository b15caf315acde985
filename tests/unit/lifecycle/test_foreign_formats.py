"""What other programs write: found out, read, and nothing of it worth a crash."""

from __future__ import annotations

import json
import shutil
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from limpet.errors import InvalidInput, LimpetError, Unsupported
from limpet.lifecycle.formats.contents import ForeignDocument, ForeignRecord, ForeignSession, clean_text
from limpet.lifecycle.formats.detect import FOREIGN, detect, read
from limpet.lifecycle.formats.markdown import parse_front_matter
from limpet.lifecycle.formats.source import ImportSource, iter_values
from limpet.model.message import FilePart, ImagePart, Role, TextPart
from limpet.model.transfer import ImportSkip
from tests.examples import examples

DATA = Path(__file__).parents[2] / "data" / "import"
FILES = {
    "chatgpt": ("chatgpt", "chatgpt/conversations.json"),
    "claude": ("claude", "claude/conversations.json", "claude/memories.json", "claude/projects/pottery.json"),
    "mem0": ("mem0.json",),
    "mcp-memory": ("mcp-memory.jsonl",),
    "openai": ("openai.json",),
    "anthropic": ("anthropic.json",),
    "markdown": ("markdown", "markdown/clay.md"),
}


def found(name: str, format: str | None = None) -> list[Any]:
    source = ImportSource.of(DATA / name)
    return list(read(source, format or detect(source), 1_000_000))


def skipped(items: list[Any]) -> list[tuple[str, str]]:
    return [(one.place, one.reason) for one in items if isinstance(one, ImportSkip)]


def kinds(items: list[Any], kind: type) -> list[Any]:
    return [one for one in items if isinstance(one, kind)]


@pytest.mark.parametrize(("format", "name"), [(format, name) for format, names in FILES.items() for name in names])
def test_detect_recognizes_every_format(format: str, name: str) -> None:
    assert detect(ImportSource.of(DATA / name)) == format


def test_every_format_has_a_fixture() -> None:
    assert set(FILES) == set(FOREIGN)


@pytest.mark.parametrize("folder", ["chatgpt", "claude"])
def test_import_reads_zip_archive_like_folder(folder: str, tmp_path: Path) -> None:
    archive = shutil.make_archive(str(tmp_path / "export"), "zip", DATA / folder)
    source = ImportSource.of(Path(archive))
    assert detect(source) == folder
    sessions = kinds(list(read(source, folder, 0)), ForeignSession)
    assert [one.messages for one in sessions] == [one.messages for one in kinds(found(folder), ForeignSession)]


@pytest.mark.parametrize("content", [b"", b"\x00\x01", b"walrus", b'"text"', b"5", b"PK\x03\x04broken"])
def test_detect_rejects_unknown_content_and_lists_formats(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "odd"
    file.write_bytes(content)
    with pytest.raises(Unsupported, match=r"chatgpt, claude, mem0, mcp-memory, openai, anthropic, markdown"):
        detect(ImportSource.of(file))


def test_detect_rejects_empty_folder_and_missing_file(tmp_path: Path) -> None:
    with pytest.raises(Unsupported):
        detect(ImportSource.of(tmp_path))
    with pytest.raises(InvalidInput, match="No such file"):
        ImportSource.of(tmp_path / "missing")


# ChatGPT


def test_chatgpt_import_follows_current_branch() -> None:
    [shed, empty] = kinds(found("chatgpt"), ForeignSession)
    assert not empty.messages
    assert shed.id == "6f0a2b1c-0000-4000-8000-000000000001"
    assert shed.metadata == {"title": "A kiln for the shed", "model": "gpt-x"}
    assert [message.role.value for message in shed.messages] == ["user", "assistant", "tool", "assistant", "user"]
    assert [message.idempotency_key for message in shed.messages] == [f"chatgpt:n{one}" for one in (2, 4, 5, 6, 8)]
    question, call, quote, answer, last = shed.messages
    assert question.content == (
        ImagePart("file-service://file-shed"),
        TextPart("Will a kiln fit in this shed?"),
        FilePart("chatgpt-file:file-plan", "application/pdf", "plan.pdf"),
    )
    assert [(one.name, one.arguments) for one in call.tool_calls] == [("browser.search", {"query": "kiln sizes"})]
    assert (quote.name, quote.text.splitlines()[0]) == ("browser", "Kiln sizes https://kilns.example/sizes")
    assert (answer.text, answer.created_at) == ("A small one fits,\n60 cm wide.", quote.created_at)
    assert last.text == "Half a pair: \ufffd and thanks"


def test_chatgpt_import_reports_skipped_messages() -> None:
    reasons = {reason for _, reason in skipped(found("chatgpt"))}
    assert reasons == {
        "left out 1: on branches that were left",
        "left out 1: hidden by ChatGPT",
        "left out 1: the model's thoughts",
        "left out 1: of the unknown kind 'holograms'",
        "it is not a conversation: it has no mapping",
        "it is not a conversation",
    }


def test_chatgpt_import_terminates_on_cyclic_tree(tmp_path: Path) -> None:
    said = {"author": {"role": "user"}, "content": {"content_type": "text", "parts": ["round"]}}
    mapping = {
        "a": {"parent": "b", "message": {**said, "id": "a"}},
        "b": {"parent": "a", "message": {**said, "id": "b"}},
    }
    file = tmp_path / "conversations.json"
    file.write_text(json.dumps([{"id": "x", "current_node": "a", "mapping": mapping}]))
    [session] = kinds(list(read(ImportSource.of(file), "chatgpt", 0)), ForeignSession)
    assert len(session.messages) == 2


# Claude


def test_claude_import_splits_tool_turn_into_messages() -> None:
    items = found("claude")
    [glazes, _] = kinds(items, ForeignSession)
    assert [(message.role.value, message.text.splitlines()[:1]) for message in glazes.messages] == [
        ("user", ["Why does my glaze run?"]),
        ("assistant", ["Let me look."]),
        ("tool", ["Ash is a flux."]),
        ("assistant", ["There is too much ash in it."]),
    ]
    assert glazes.messages[0].content[1:] == (
        FilePart("claude-file:recipe.txt", "text/plain", "recipe.txt"),
        TextPart("Feldspar 40, ash 60"),
        FilePart("claude-file:pot.jpg", None, "pot.jpg"),
    )
    assert glazes.messages[2].tool_call_id == glazes.messages[1].tool_calls[0].id == "t1"
    assert [message.idempotency_key for message in glazes.messages][1:3] == ["claude:m2:0", "claude:m2:1"]
    assert [record.content for record in kinds(items, ForeignRecord)] == [
        "Makes ash glazes in a small shed.",
        "Wants every recipe in grams.",
    ]
    assert [document.uri.rpartition("/")[2] for document in kinds(items, ForeignDocument)] == [
        "instructions.md",
        "clay.md",
    ]
    assert ("users.json", "it is about the account, not memory") in skipped(items)
    assert ("conversations.json[0]", "left out 1: of the unknown sender 'ghost'") in skipped(items)


# Memories


def test_mem0_import_reads_memories_and_relations() -> None:
    items = found("mem0.json")
    first, second, nobody, relation = kinds(items, ForeignRecord)
    assert (first.content, first.user, first.tags) == ("Prefers stoneware to porcelain", "nadia", ("craft", "taste"))
    assert first.metadata == {"category": "craft", "sure": "0.9", "nested": '{"a": [1]}'}
    assert first.created_at is not None
    assert first.created_at.isoformat() == "2026-01-05T18:00:00+00:00"
    assert (second.metadata, nobody.user) == ({"agent_id": "helper"}, None)
    assert (relation.content, relation.subject, relation.attribute) == (
        "nadia shares shed with Omar",
        "nadia",
        "shares shed with",
    )
    assert len(skipped(items)) == 3


def test_mem0_import_accepts_bare_list(tmp_path: Path) -> None:
    file = tmp_path / "all.json"
    file.write_text(json.dumps(json.loads((DATA / "mem0.json").read_text())["results"][:2]))
    assert detect(ImportSource.of(file)) == "mem0"
    assert len(kinds(list(read(ImportSource.of(file), "mem0", 0)), ForeignRecord)) == 2


def test_mcp_memory_import_reads_entities_and_relations() -> None:
    items = found("mcp-memory.jsonl")
    assert [record.content for record in kinds(items, ForeignRecord)] == [
        "Anna Berg: Throws bowls on Tuesdays",
        "Anna Berg: Has a red kiln",
        "Anna Berg works at Blue Harbour",
    ]
    assert [place for place, _ in skipped(items)] == [f"mcp-memory.jsonl, line {line}" for line in (2, 4, 5, 6)]


# Lists of messages


def test_openai_import_reads_messages() -> None:
    items = found("openai.json")
    [session] = kinds(items, ForeignSession)
    assert [message.role for message in session.messages] == [
        Role.SYSTEM,
        Role.USER,
        Role.ASSISTANT,
        Role.TOOL,
        Role.ASSISTANT,
    ]
    assert session.messages[1].name == "Nadia"
    assert session.messages[1].content[1] == ImagePart("https://pots.example/1.png")
    assert session.messages[2].tool_calls[0].arguments == {"at": "pot"}
    assert session.messages[3].tool_call_id == "c1"
    assert skipped(items) == [
        ("openai.json, messages[5]", "it has no role that is known"),
        ("openai.json, messages[6]", "a block of the unknown kind 'hologram'"),
    ]


def test_anthropic_import_reads_messages() -> None:
    items = found("anthropic.json")
    [session] = kinds(items, ForeignSession)
    assert [(message.role.value, message.text) for message in session.messages] == [
        ("system", "You help potters."),
        ("user", "How hot is the kiln?\n![](data:image/png;base64)"),
        ("assistant", "Let me ask it."),
        ("tool", "no answer"),
        ("user", "Guess."),
        ("assistant", "About a thousand degrees."),
    ]
    assert session.messages[3].is_error
    assert skipped(items) == [("anthropic.json, messages[2]", "the model's thoughts")]


def test_jsonl_import_reads_one_conversation_per_line(tmp_path: Path) -> None:
    file = tmp_path / "tuning.jsonl"
    line = json.dumps({"messages": [{"role": "user", "content": "hi"}]})
    file.write_text(f"{line}\n{line}\n[]\n")
    assert detect(ImportSource.of(file)) == "openai"
    items = list(read(ImportSource.of(file), "openai", 0))
    assert [session.id for session in kinds(items, ForeignSession)] == ["tuning:0", "tuning:1"]
    assert len(skipped(items)) == 1


# Markdown


def test_markdown_import_reads_folder() -> None:
    items = found("markdown")
    clay, beds = kinds(items, ForeignDocument)
    assert (clay.title, clay.metadata) == (
        "All about clay",
        {"tags": "craft, clay", "author": "Nadia", "places": "shed, studio"},
    )
    assert clay.text.startswith("# Clay")
    assert (beds.title, beds.uri) == ("Beds", (DATA / "markdown" / "garden" / "beds.md").absolute().as_uri())
    assert dict(skipped(items)) == {
        ".obsidian": "it is hidden, or a link",
        "empty.md": "it is empty",
        "garden/yields.csv": "it is not Markdown; `limpet documents add` takes other files",
    }


def test_parse_front_matter() -> None:
    assert parse_front_matter("a: 'x: y'\nb:\n  - 1\n  - \"2\"\nc: []\nnot a field\n d: 1") == {
        "a": "x: y",
        "b": "1, 2",
    }


# Values, one by one


@settings(max_examples=examples(60))
@given(st.lists(st.recursive(st.none() | st.integers() | st.text(), st.lists, max_leaves=5)))
@example(["x" * 600_000, {"é": "y" * 300_000}, 5])
@example([])
def test_iter_values_streams_json_list(given: list[Any]) -> None:
    data = json.dumps(given, ensure_ascii=True, indent=1).encode()
    assert [value for _, value in iter_values(BytesIO(data), "x")] == given
    assert [value for _, value in iter_values(BytesIO(b"\xef\xbb\xbf" + data), "x")] == given


@pytest.mark.parametrize(
    "data", [b"[1 2]", b"[1,", b"[", b"[1]]", b"[NaN]", b'["\xff"]', b"[" * 100_000, b"{", b"", b"[1,]", b"[,1]"]
)
def test_iter_values_rejects_malformed_json(data: bytes) -> None:
    with pytest.raises(InvalidInput):
        list(iter_values(BytesIO(data), "x"))


def test_clean_text_joins_surrogate_pairs() -> None:
    assert clean_text("\ud83d\ude00 \ud83d \x00") == "\U0001f600 \ufffd \ufffd"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                "mapping current_node message author role content content_type parts metadata id uuid chat_messages "
                "sender text type tool_calls function name arguments results memory user_id relations source "
                "conversations_memory docs messages system observations entityType from to attachments input".split()
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=15,
)


@settings(max_examples=examples(150))
@given(json_values, st.sampled_from([format for format in FOREIGN if format != "markdown"]))
def test_import_formats_accept_or_reject_any_json(
    tmp_path_factory: pytest.TempPathFactory, value: Any, format: str
) -> None:
    file = tmp_path_factory.mktemp("any") / "conversations.json"
    for data in (value, [value]):
        file.write_text(json.dumps(data))
        source = ImportSource.of(file)
        try:
            detect(source)
            list(read(source, format, 0))
        except LimpetError:
            pass


def test_import_rejects_broken_archive(tmp_path: Path) -> None:
    file = tmp_path / "broken.zip"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations.json", json.dumps([{"id": "x", "mapping": {}}] * 1000))
    data = bytearray(file.read_bytes())
    data[60:90] = b"\xff" * 30
    file.write_bytes(data)
    with pytest.raises(InvalidInput):
        list(read(ImportSource.of(file), "chatgpt", 0))
