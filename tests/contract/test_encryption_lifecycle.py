"""What goes and what comes back where a tenant is encrypted: purges, retention, exports, and schedules that are due."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from limpet import Config, Firing, Limpet
from limpet.config import NotesSettings, RetentionSettings
from limpet.errors import KeyMissing
from limpet.lifecycle.transfer_repository import Imports
from limpet.model.privacy import Receipt
from limpet.model.scope import Scope
from limpet.schedules.repository import ScheduleQueue
from limpet.store.encryption_keys import key_file
from limpet.testing import FakeClock
from tests.conftest import ENCRYPTED as BY_HAND
from tests.contract.exports import contents as files_of
from tests.contract.rows import every_row, faults, sql
from tests.contract.test_encryption import (  # noqa: F401 - fixtures
    MARK,
    PLAIN,
    config,
    contents,
    keys,
    write_everywhere,
)

pytestmark = [
    pytest.mark.every_backend,
    pytest.mark.skipif(BY_HAND, reason="these say themselves what is encrypted"),
]

ENCRYPTED, OPEN = "other", "third"


@pytest.fixture
def memory(store_url: str, config: Config, clock: FakeClock) -> Iterator[Limpet]:  # noqa: F811
    settings = replace(config, retention=RetentionSettings(messages_days=10, records_days=20, documents_days=20))
    with Limpet.open(store_url, config=settings, clock=clock) as opened:
        yield opened


def both(memory: Limpet) -> tuple[Limpet, Limpet]:
    return memory.tenant(ENCRYPTED), memory.tenant(OPEN)


def told(receipt: Receipt) -> tuple[object, ...]:
    """But for files, which an encrypted tenant has none of."""
    counts = {kind: number for kind, number in receipt.counts.items() if kind != "files"}
    return counts, receipt.verified, len(receipt.left)


def said(memory: Limpet) -> list[object]:
    """What is left, whatever its ids are."""
    return [
        sorted(lines(record.content) for record in memory.records(user="u")),
        sorted(
            lines(past.content) for record in memory.records(user="u") for past in memory.records.history(record.id)
        ),
        [[message.content for message in session.messages()] for session in in_order(memory)],
        [(summary.text if (summary := session.summary()) else None) for session in in_order(memory)],
        sorted(lines(hit.text) for hit in memory.recall("tea soup ferry island document", user="u", k=50)),
        sorted(entity.name for entity in memory.graph(user="u").entities),
        sorted(document.uri for document in memory.documents.list(user="u")),
        sorted(made.goal for made in memory.schedules.search(user="u")),
    ]


def lines(text: str) -> list[str]:
    """Of equally old ones that were merged, any may stand first."""
    return sorted(text.splitlines())


def in_order(memory: Limpet) -> list[Any]:
    found = sorted(memory.sessions(user="u"), key=lambda info: str(info.key))
    return [memory.load_session(info.id) for info in found]


def talk(memory: Limpet, chat: str, place: str) -> str:
    session = memory.session("c", chat, user="u")
    for number in range(3):
        with session.turn(f"I love {place}tea. My favourite food is {place}soup.") as turn:
            turn.reply(f"Noted {number}: {place}.")
    memory.jobs.run()
    return session.id


def is_told(memory: Limpet, *marks: str) -> bool:
    return any(mark in str(every_row(memory)).lower() for mark in marks)


def test_purge_user_in_encrypted_tenant_matches_plain_one(memory: Limpet) -> None:
    receipts = []
    for tenant in both(memory):
        write_everywhere(tenant)
        receipts.append(tenant.privacy.purge_user("u"))
        assert tenant.recall(MARK, user="u") == []
        assert tenant.schedules.search() == []
    assert told(receipts[0]) == told(receipts[1])
    assert receipts[0].verified
    assert receipts[0].counts["schedule_runs"] == 2
    left = {table for table, rows in every_row(memory).items() if rows}
    assert left <= {"partitions", "models", "properties", "imports", "receipts", "tenant_encryption", "jobs"}
    write_everywhere(memory.tenant(ENCRYPTED), "oslofjord")
    assert faults(memory) == []


def test_purge_session_in_encrypted_tenant_matches_plain_one(memory: Limpet) -> None:
    receipts = []
    for tenant in both(memory):
        one = talk(tenant, "1", "porto")
        talk(tenant, "2", "lisbon")
        # A version that came of the session, of a record that stays.
        stays = tenant.remember("The harbour is open", user="u", key="harbour")
        tenant.records.update(stays.id, content="The harbour is closed")
        sql_like = next(record for record in tenant.records(user="u") if "porto" in record.content.lower())
        tenant.records.update(sql_like.id, content=f"{sql_like.content} indeed")
        receipts.append(tenant.privacy.purge_session(one))
    assert told(receipts[0]) == told(receipts[1])
    assert receipts[0].verified
    encrypted, plain = both(memory)
    assert said(encrypted) == said(plain)
    assert "porto" not in str(said(encrypted)).lower()
    assert "lisbon" in str(said(encrypted)).lower()
    assert faults(memory) == []


def test_purge_session_finds_encrypted_versions_page_by_page(memory: Limpet, monkeypatch: pytest.MonkeyPatch) -> None:
    """A past version that names the session, of a record that no longer does: only opening it can tell."""
    monkeypatch.setattr("limpet.lifecycle.purge_repository._PAGE", 2)
    for tenant in both(memory):
        session = tenant.session("c", "1", user="u")
        session.append("user", "hello")
        for number in range(5):
            made = tenant.remember(f"fact {number}", user="u", key=f"k{number}", references=[session.id])
            tenant.records.update(made.id, content=f"fact {number} again", references=[])
        assert tenant.privacy.purge_session(session.id).counts["versions"] == 5
        assert [len(tenant.records.history(record.id)) for record in tenant.records(user="u")] == [1] * 5


def test_purge_older_in_encrypted_tenant_matches_plain_one(memory: Limpet, clock: FakeClock) -> None:
    receipts = []
    for tenant in both(memory):
        talk(tenant, "1", "porto")
        tenant.session("c", "1", user="u").append("user", "I love portotea. Said twice.")
        tenant.remember("An old one", user="u")
    clock.advance(days=5)
    for tenant in both(memory):
        tenant.session("c", "1", user="u").append("user", "I love portotea. My favourite food is portosoup.")
        tenant.session("c", "1", user="u").append("user", "The new ferry leaves at noon")
        tenant.remember("A new one", user="u")
        tenant.jobs.run()
        receipts.append(tenant.privacy.purge_older("u", days=1, everything=True))
    assert told(receipts[0]) == told(receipts[1])
    encrypted, plain = both(memory)
    plain.jobs.run()  # those of the other one were done with the jobs above: texts without vectors rank by words
    assert said(encrypted) == said(plain)
    assert "An old one" not in str(said(encrypted))
    assert [hit.source.first_sequence for hit in encrypted.recall("portosoup", user="u", kinds=["message"])] == [
        hit.source.first_sequence for hit in plain.recall("portosoup", user="u", kinds=["message"])
    ]
    assert encrypted.recall("portosoup", user="u", kinds=["message"]), "said again later: it stays and is found"
    assert faults(memory) == []


@pytest.mark.slow
def test_retention_in_encrypted_tenant_matches_plain_one(memory: Limpet, clock: FakeClock) -> None:
    for tenant in both(memory):
        write_everywhere(tenant)
        talk(tenant, "2", "porto")
        tenant.session("c", "gone", user="u").append("user", "this one expires")
    for word in ("lisbon", "faro"):
        clock.advance(days=15)
        counts = [[dict(each.counts) for each in tenant.privacy.retention()] for tenant in both(memory)]
        assert counts[0] == counts[1]
        assert any(counts[0])
        for tenant in both(memory):
            talk(tenant, word, word)
        encrypted, plain = both(memory)
        assert said(encrypted) == said(plain)
    assert faults(memory) == []


def test_export_and_import_restore_user_of_encrypted_tenant(memory: Limpet, tmp_path: Path) -> None:
    encrypted = memory.tenant(ENCRYPTED)
    write_everywhere(encrypted)
    store: Any = memory._runtime.store
    store.write(lambda tx: Imports(tx).finish(Scope(ENCRYPTED), MARK))
    talk(encrypted, "2", "porto")
    expected = contents(encrypted)
    encrypted.transfer.export(tmp_path / "one", "u")
    assert MARK.encode() in b"".join(files_of(tmp_path / "one").values()), "an export is plain on purpose"
    assert encrypted.privacy.purge_user("u").verified
    assert encrypted.transfer.import_(tmp_path / "one").left_out == 0
    encrypted.transfer.export(tmp_path / "two", "u")
    assert files_of(tmp_path / "two") == files_of(tmp_path / "one")
    assert not is_told(memory, MARK, "porto")
    encrypted.jobs.run()
    for same in ("messages", "records", "history", "tagged", "documents", "kv", "summary", "schedules", "goals"):
        assert contents(encrypted)[same] == expected[same], same
    assert faults(memory) == []


def test_import_into_encrypted_tenant_encrypts_its_progress(
    memory: Limpet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From an open tenant into one that is encrypted with its first row: how far it has come is encrypted too."""
    with Limpet.open(":memory:", config=PLAIN, clock=memory._runtime.clock) as source:
        talk(source, "1", "porto")
        source.schedules.create("u", goal="Ask about portotea", cadence="every: 1h")
        source.transfer.export(tmp_path / "one", "u")
    monkeypatch.setattr("limpet.lifecycle.importer._LINES", 2)
    encrypted = memory.tenant(ENCRYPTED)

    def stop(*_: object) -> None:
        if sql(memory, "SELECT count(*) FROM transfers") == [(1,)]:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        encrypted.transfer.import_(tmp_path / "one", progress=stop)
    [(state, name)] = sql(memory, "SELECT state, name FROM transfers")
    assert "sessions" not in state
    assert "one" not in name
    assert encrypted.transfer.import_(tmp_path / "one").left_out == 0
    assert sql(memory, "SELECT count(*) FROM transfers") == [(0,)]
    assert encrypted.recall("portosoup", user="u")
    assert not is_told(memory, "porto")
    encrypted.transfer.export(tmp_path / "two", "u")
    assert files_of(tmp_path / "two") == files_of(tmp_path / "one")


@pytest.mark.parametrize("allowed", [False, True])
def test_import_into_encrypted_tenant_writes_no_files_unless_allowed(
    tmp_path: Path,
    config: Config,  # noqa: F811
    allowed: bool,
) -> None:
    with Limpet.open(tmp_path / "open", config=replace(PLAIN, notes=NotesSettings())) as source:
        source.notes.long_term("u").write("# Me\n")
        source.transfer.export(tmp_path / "export", "u")
    encryption = replace(config.encryption, plain_files=allowed)
    with Limpet.open(tmp_path / "encrypted", config=replace(config, encryption=encryption)) as memory:
        done = memory.transfer.import_(tmp_path / "export")
        assert (done.notes, done.skipped) == (1, ())
        assert memory.notes.long_term("u").read() == "# Me\n"
    assert bool(list((tmp_path / "encrypted").rglob("MEMORY.md"))) is allowed


def due_everywhere(memory: Limpet, clock: FakeClock) -> None:
    for tenant in ("default", ENCRYPTED, OPEN):
        memory.tenant(tenant).schedules.create("u", goal=f"Ask about {MARK} in {tenant}", cadence="every: 1h")
    clock.advance(hours=1)


def goals_run(memory: Limpet) -> list[str]:
    goals: list[str] = []

    def callback(firing: Firing) -> str:
        goals.append(firing.schedule.goal.rpartition(" ")[2])
        return "done"

    memory.schedules.run(callback, lambda _: None)
    return sorted(goals)


def test_schedules_without_encryption_key_do_not_block_others(
    durable_url: str,
    config: Config,  # noqa: F811
    keys: Path,  # noqa: F811
    clock: FakeClock,
) -> None:
    with Limpet.open(durable_url, config=config, clock=clock) as memory:
        due_everywhere(memory, clock)
    key = key_file(keys, "default").read_bytes()
    key_file(keys, "default").unlink()
    with Limpet.open(durable_url, config=config, clock=clock) as memory:
        assert goals_run(memory) == [ENCRYPTED, OPEN]
        soon = memory._runtime.store.read(lambda tx: ScheduleQueue(tx).find_next_due())
        assert soon is not None
        assert soon > clock.now, "what cannot be run here is nothing to wait for"
        assert goals_run(memory) == []
    key_file(keys, "default").touch(mode=0o600)
    key_file(keys, "default").write_bytes(key)
    with Limpet.open(durable_url, config=config, clock=clock) as memory:
        assert goals_run(memory) == ["default"]
        assert not is_told(memory.tenant(ENCRYPTED), "ask about zanzibar in default", "ask about zanzibar in other")


def test_schedules_of_plain_tenant_wait_when_encryption_is_required(
    durable_url: str,
    config: Config,  # noqa: F811
    clock: FakeClock,
) -> None:
    with Limpet.open(durable_url, config=PLAIN, clock=clock) as memory:
        memory.tenant(OPEN).schedules.create("u", goal=f"Ask in {OPEN}", cadence="every: 1h")
    strict = replace(config, encryption=replace(config.encryption, required=True))
    with Limpet.open(durable_url, config=strict, clock=clock) as memory:
        memory.tenant(ENCRYPTED).schedules.create("u", goal=f"Ask in {ENCRYPTED}", cadence="every: 1h")
        clock.advance(hours=1)
        assert goals_run(memory) == [ENCRYPTED]


def test_retention_skips_tenant_without_encryption_key(
    durable_url: str,
    config: Config,  # noqa: F811
    keys: Path,  # noqa: F811
    clock: FakeClock,
) -> None:
    settings = replace(config, retention=RetentionSettings(messages_days=10))
    with Limpet.open(durable_url, config=settings, clock=clock) as memory:
        for tenant in ("default", ENCRYPTED, OPEN):
            talk(memory.tenant(tenant), "1", "porto")
    key_file(keys, "default").unlink()
    clock.advance(days=11)
    with Limpet.open(durable_url, config=settings, clock=clock) as memory:
        clock.advance(hours=2)
        memory.jobs.run()
        left = sql(
            memory,
            "SELECT DISTINCT s.tenant FROM messages m JOIN sessions s ON s.bucket = m.bucket AND s.id = m.session_id",
        )
        assert left == [("default",)]
        with pytest.raises(KeyMissing):
            memory.privacy.retention()


def test_prepended_write_runs_once_when_tenant_is_first_encrypted(memory: Limpet) -> None:
    """What has to be in the same transaction is neither lost nor done twice when the work begins anew."""
    store: Any = memory._runtime.store
    tries: list[int] = []

    def beside(tx: Any) -> None:
        tries.append(1)
        tx.db.run("purge.count", {})

    def note(tx: Any) -> None:
        Imports(tx).record_import(Scope(ENCRYPTED), "digest", "name", 0, 0, memory._runtime.clock())

    with store.prepend_to_next_write(beside) as is_done:
        assert not is_done()
        store.write(note)
        assert is_done()
        store.write(lambda tx: None)
    assert len(tries) == 2, "it was begun anew"
    assert sql(memory, "SELECT value FROM properties WHERE name = 'purges'") == [("1",)]
    assert sql(memory, "SELECT state FROM tenant_encryption") == [("encrypted",)]
