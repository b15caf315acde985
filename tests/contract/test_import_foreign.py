"""What other programs wrote, on every backend: taken in once, however often it is brought."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from limpet import Limpet
from limpet.errors import InvalidInput, RecordNotFound, Unsupported
from limpet.model.record import Origin
from limpet.model.session import SessionStatus
from tests.contract.rows import every_row, faults

DATA = Path(__file__).parents[1] / "data" / "import"
TAKEN = {
    "chatgpt": ("chatgpt", 1, 5, 0, 0),
    "claude": ("claude", 1, 4, 2, 2),
    "mem0.json": ("mem0", 0, 0, 3, 0),
    "mcp-memory.jsonl": ("mcp-memory", 0, 0, 3, 0),
    "openai.json": ("openai", 1, 5, 0, 0),
    "anthropic.json": ("anthropic", 1, 6, 0, 0),
    "markdown": ("markdown", 0, 0, 0, 2),
}


@pytest.mark.parametrize("name", TAKEN)
def test_import_is_idempotent(memory: Limpet, name: str) -> None:
    looked = memory.transfer.import_(DATA / name, user="nadia", dry_run=True)
    assert memory.admin.stats()["messages"] == memory.admin.stats()["records"] == memory.admin.stats()["documents"] == 0
    done = memory.transfer.import_(DATA / name, user="nadia")
    counts = (done.format, done.sessions, done.messages, done.records, done.documents)
    assert counts == TAKEN[name]
    assert (looked.sessions, looked.messages, looked.documents) == counts[1:3] + counts[4:]
    assert done.left_out >= len(done.skipped) > 0
    memory.jobs.run(until_idle=True)
    rows = every_row(memory)
    again = memory.transfer.import_(DATA / name, user="nadia")
    assert (again.already, again.sessions, again.messages, again.records, again.documents) == (True, 0, 0, 0, 0)
    assert every_row(memory) == rows
    assert faults(memory) == []


def test_import_learns_from_conversation(memory: Limpet, tmp_path: Path) -> None:
    file = tmp_path / "said.json"
    said = [{"role": "user", "content": text} for text in ("I live in Porto.", "I am allergic to peanuts.")]
    file.write_text(json.dumps({"messages": said}))
    looked = memory.transfer.import_(file, user="nadia", format="openai", dry_run=True)
    assert looked.learning == 0
    done = memory.transfer.import_(file, user="nadia", format="openai")
    assert (done.sessions, done.messages, done.learning) == (1, 2, 1)
    memory.jobs.run(until_idle=True)
    assert {record.value for record in memory.records(user="nadia")} == {"Porto", "peanuts"}
    assert memory.transfer.import_(file, user="nadia", format="openai").learning == 0


def test_import_without_learning_teaches_nothing(memory: Limpet) -> None:
    done = memory.transfer.import_(DATA / "openai.json", user="nadia", learn=False)
    assert (done.messages > 0, done.learning) == (True, 0)
    memory.jobs.run(until_idle=True)
    assert [record for record in memory.records(user="nadia") if record.origin is Origin.EXTRACTED] == []


def test_import_of_newer_export_adds_only_new_messages(memory: Limpet, tmp_path: Path) -> None:
    folder = tmp_path / "later"
    shutil.copytree(DATA / "chatgpt", folder)
    memory.transfer.import_(folder, user="nadia")
    file = folder / "conversations.json"
    conversations = json.loads(file.read_text())
    said = {"author": {"role": "assistant"}, "content": {"content_type": "text", "parts": ["You are welcome"]}}
    conversations[0]["mapping"]["n9"] = {"id": "n9", "parent": "n8", "message": {**said, "id": "n9"}}
    conversations[0]["current_node"] = "n9"
    file.write_text(json.dumps(conversations))
    done = memory.transfer.import_(folder, user="nadia")
    assert (done.sessions, done.messages) == (0, 1)
    [info] = memory.sessions(user="nadia")
    session = memory.load_session(info.id)
    assert [message.text for message in session.messages()][-2:] == [
        "Half a pair: \ufffd and thanks",
        "You are welcome",
    ]
    assert info.state is SessionStatus.TERMINATED
    assert info.created_at.isoformat() == "2026-01-05T08:00:00.250000+00:00"
    assert memory.recall("kiln shed", user="nadia")[0].source.session_id == info.id


def test_import_of_truncated_file_changes_nothing(memory: Limpet, tmp_path: Path) -> None:
    file = tmp_path / "conversations.json"
    file.write_bytes((DATA / "chatgpt" / "conversations.json").read_bytes()[:-30])
    rows = every_row(memory)
    with pytest.raises(InvalidInput, match="not JSON"):
        memory.transfer.import_(file, user="nadia")
    assert every_row(memory) == rows


def test_import_keeps_users_and_times_of_memories(memory: Limpet) -> None:
    memory.transfer.import_(DATA / "mem0.json")
    [omar] = memory.records(user="omar")
    assert (omar.content, omar.origin) == ("Fires the kiln on Sundays", Origin.EXPLICIT)
    assert omar.created_at is not None
    assert omar.created_at.isoformat() == "2026-01-06T10:00:00+00:00"
    assert len(memory.records(user="nadia")) == 2


def test_imported_memory_is_found_by_the_id_it_had(memory: Limpet, tmp_path: Path) -> None:
    """Ids of other programs need not be UUIDs. They stay with the record through an export, too."""
    told = "1712345678901234567-0-3"
    path = tmp_path / "memories.json"
    path.write_text(json.dumps([{"id": told, "memory": "Alice likes tea", "user_id": "alice"}]))
    assert memory.transfer.import_(path).records == 1
    assert memory.transfer.import_(path).already
    record = memory.records.get(told)
    assert memory.records.update(told, user="alice", content="Alice likes green tea").id == record.id
    with pytest.raises(RecordNotFound):
        memory.records.get(told, user="bob")
    memory.transfer.export(tmp_path / "out")
    with Limpet.open(":memory:") as other:
        other.transfer.import_(tmp_path / "out")
        assert other.records.get(told).content == "Alice likes green tea"
    assert memory.forget(told).ids == (record.id,)


def test_import_updates_memory_with_changed_text(memory: Limpet, tmp_path: Path) -> None:
    file = tmp_path / "all.json"
    fact = {"id": "1", "memory": "Likes tea", "user_id": "nadia", "created_at": "2026-01-05T10:00:00Z"}
    file.write_text(json.dumps([fact]))
    memory.transfer.import_(file)
    file.write_text(json.dumps([fact | {"memory": "Likes coffee"}]))
    assert memory.transfer.import_(file).records == 1
    [record] = memory.records(user="nadia")
    assert [version.content for version in memory.records.history(record.id)] == ["Likes tea", "Likes coffee"]


def test_import_with_user_skips_memories_of_other_users(memory: Limpet) -> None:
    done = memory.transfer.import_(DATA / "mem0.json", user="anna")
    assert {record.content for record in memory.records(user="anna")} == {
        "Prefers stoneware to porcelain",
        "Belongs to nobody",
        "nadia shares shed with Omar",
    }
    assert any("it is of 'omar'" in one.reason for one in done.skipped)


def test_import_adds_relations_to_graph(memory: Limpet) -> None:
    memory.transfer.import_(DATA / "mcp-memory.jsonl", user="nadia")
    memory.jobs.run()
    [relation] = [one for one in memory.graph(user="nadia").relations if one.predicate == "works at"]
    assert (relation.subject, relation.object) == ("anna berg", "blue harbour")
    assert faults(memory) == []


def test_import_of_same_file_by_two_users_is_separate(memory: Limpet) -> None:
    for user in ("nadia", "omar"):
        assert memory.transfer.import_(DATA / "claude", user=user).messages == 4
    assert memory.tenant("other").transfer.import_(DATA / "claude", user="nadia").messages == 4
    assert len({info.id for user in ("nadia", "omar") for info in memory.sessions(user=user)}) == 2
    assert faults(memory) == []


@pytest.mark.parametrize("name", [name for name in TAKEN if name != "mem0.json"])
def test_import_without_user_is_rejected(memory: Limpet, name: str) -> None:
    rows = every_row(memory)
    with pytest.raises(InvalidInput, match="name a user"):
        memory.transfer.import_(DATA / name)
    assert every_row(memory) == rows


def test_import_rejects_unknown_format_by_name(memory: Limpet) -> None:
    with pytest.raises(Unsupported, match="use one of auto, limpet-export, chatgpt"):
        memory.transfer.import_(DATA / "chatgpt", user="nadia", format="word perfect")


def test_import_uses_explicit_format(memory: Limpet, tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_text((DATA / "anthropic.json").read_text())
    assert memory.transfer.import_(file, user="nadia", format="openai").messages == 6


def test_import_of_snapshot_assigns_given_user(memory: Limpet, tmp_path: Path) -> None:
    file = tmp_path / "sessions.json"
    sessions: list[dict[str, Any]] = [{"id": "telegram:1", "messages": [{"role": "user", "content": "a walrus"}]}]
    file.write_text(json.dumps(sessions))
    assert memory.transfer.import_(file, user="nadia", dry_run=True).messages == 1
    assert memory.transfer.import_(file, user="nadia").format == "sessions.json"
    assert [info.user for info in memory.sessions()] == ["nadia"]
