"""What goes and what comes back where a tenant is sealed: purges, retention, exports, and schedules that are due."""

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
from limpet.model.receipt import Receipt
from limpet.model.scope import Scope
from limpet.schedules.repository import ScheduleQueue
from limpet.store.encryption_keys import key_file
from limpet.testing import FakeClock
from tests.conftest import SEALED as BY_HAND
from tests.contract.rows import every_row, faults, sql
from tests.contract.test_sealed import (  # noqa: F401 - fixtures
    MARK,
    PLAIN,
    config,
    contents,
    keys,
    write_everywhere,
)
from tests.contract.whole import contents as files_of

pytestmark = [
    pytest.mark.every_backend,
    pytest.mark.skipif(BY_HAND, reason="these say themselves what is sealed"),
]

SEALED, OPEN = "other", "third"


@pytest.fixture
def hf(store_url: str, config: Config, clock: FakeClock) -> Iterator[Limpet]:  # noqa: F811
    settings = replace(config, retention=RetentionSettings(messages_days=10, records_days=20, documents_days=20))
    with Limpet.open(store_url, config=settings, clock=clock) as opened:
        yield opened


def both(hf: Limpet) -> tuple[Limpet, Limpet]:
    return hf.tenant(SEALED), hf.tenant(OPEN)


def told(receipt: Receipt) -> tuple[object, ...]:
    return dict(receipt.counts), receipt.verified, len(receipt.left)


def said(hf: Limpet) -> list[object]:
    """What is left, whatever its ids are."""
    return [
        sorted(lines(record.content) for record in hf.records(user="u")),
        sorted(lines(past.content) for record in hf.records(user="u") for past in hf.records.history(record.id)),
        [[message.content for message in session.messages()] for session in in_order(hf)],
        [(summary.text if (summary := session.summary()) else None) for session in in_order(hf)],
        sorted(lines(hit.text) for hit in hf.recall("tea soup ferry island document", user="u", k=50)),
        sorted(entity.name for entity in hf.graph(user="u").entities),
        sorted(document.uri for document in hf.documents.list(user="u")),
        sorted(made.goal for made in hf.schedules.search(user="u")),
    ]


def lines(text: str) -> list[str]:
    """Of equally old ones that were merged, any may stand first."""
    return sorted(text.splitlines())


def in_order(hf: Limpet) -> list[Any]:
    found = sorted(hf.sessions(user="u"), key=lambda info: str(info.key))
    return [hf.load_session(info.id) for info in found]


def talk(hf: Limpet, chat: str, place: str) -> str:
    session = hf.session("c", chat, user="u")
    for number in range(3):
        with session.turn(f"I love {place}tea. My favourite food is {place}soup.") as turn:
            turn.reply(f"Noted {number}: {place}.")
    hf.jobs.run()
    return session.id


def is_told(hf: Limpet, *marks: str) -> bool:
    return any(mark in str(every_row(hf)).lower() for mark in marks)


def test_a_user_goes(hf: Limpet) -> None:
    receipts = []
    for tenant in both(hf):
        write_everywhere(tenant)
        receipts.append(tenant.privacy.purge_user("u"))
        assert tenant.recall(MARK, user="u") == []
        assert tenant.schedules.search() == []
    assert told(receipts[0]) == told(receipts[1])
    assert receipts[0].verified
    assert receipts[0].counts["schedule_runs"] == 2
    left = {table for table, rows in every_row(hf).items() if rows}
    assert left <= {"partitions", "models", "properties", "imports", "receipts", "tenant_encryption", "jobs"}
    write_everywhere(hf.tenant(SEALED), "oslofjord")
    assert faults(hf) == []


def test_a_session_goes_with_what_was_learned_from_it_alone(hf: Limpet) -> None:
    receipts = []
    for tenant in both(hf):
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
    sealed, open_ = both(hf)
    assert said(sealed) == said(open_)
    assert "porto" not in str(said(sealed)).lower()
    assert "lisbon" in str(said(sealed)).lower()
    assert faults(hf) == []


def test_versions_that_tell_of_a_session_are_looked_for_by_page(hf: Limpet, monkeypatch: pytest.MonkeyPatch) -> None:
    """A past version that names the session, of a record that no longer does: only opening it can tell."""
    monkeypatch.setattr("limpet.lifecycle.purge_repository._PAGE", 2)
    for tenant in both(hf):
        session = tenant.session("c", "1", user="u")
        session.append("user", "hello")
        for number in range(5):
            made = tenant.remember(f"fact {number}", user="u", key=f"k{number}", references=[session.id])
            tenant.records.update(made.id, content=f"fact {number} again", references=[])
        assert tenant.privacy.purge_session(session.id).counts["versions"] == 5
        assert [len(tenant.records.history(record.id)) for record in tenant.records(user="u")] == [1] * 5


def test_what_is_older_goes(hf: Limpet, clock: FakeClock) -> None:
    receipts = []
    for tenant in both(hf):
        talk(tenant, "1", "porto")
        tenant.session("c", "1", user="u").append("user", "I love portotea. Said twice.")
        tenant.remember("An old one", user="u")
    clock.advance(days=5)
    for tenant in both(hf):
        tenant.session("c", "1", user="u").append("user", "I love portotea. My favourite food is portosoup.")
        tenant.session("c", "1", user="u").append("user", "The new ferry leaves at noon")
        tenant.remember("A new one", user="u")
        tenant.jobs.run()
        receipts.append(tenant.privacy.purge_older("u", days=1))
    assert told(receipts[0]) == told(receipts[1])
    sealed, open_ = both(hf)
    assert said(sealed) == said(open_)
    assert "An old one" not in str(said(sealed))
    assert [hit.source.first_sequence for hit in sealed.recall("portosoup", user="u", kinds=["message"])] == [
        hit.source.first_sequence for hit in open_.recall("portosoup", user="u", kinds=["message"])
    ]
    assert sealed.recall("portosoup", user="u", kinds=["message"]), "said again later: it stays and is found"
    assert faults(hf) == []


@pytest.mark.slow
def test_retention_is_the_same(hf: Limpet, clock: FakeClock) -> None:
    for tenant in both(hf):
        write_everywhere(tenant)
        talk(tenant, "2", "porto")
        tenant.session("c", "gone", user="u").append("user", "this one expires")
    clock.advance(days=15)
    for tenant in both(hf):
        talk(tenant, "3", "lisbon")
    for days in (0, 15):
        clock.advance(days=days)
        counts = [[dict(each.counts) for each in tenant.privacy.retention()] for tenant in both(hf)]
        assert counts[0] == counts[1]
        assert any(counts[0])
        sealed, open_ = both(hf)
        assert said(sealed) == said(open_)
    assert faults(hf) == []


def test_a_user_comes_back_as_they_were(hf: Limpet, tmp_path: Path) -> None:
    sealed = hf.tenant(SEALED)
    write_everywhere(sealed)
    store: Any = hf._runtime.store
    store.write(lambda tx: Imports(tx).finish(Scope(SEALED), MARK))
    talk(sealed, "2", "porto")
    expected = contents(sealed)
    sealed.transfer.export(tmp_path / "one", "u")
    assert MARK.encode() in b"".join(files_of(tmp_path / "one").values()), "an export is plain on purpose"
    assert sealed.privacy.purge_user("u").verified
    assert sealed.transfer.import_(tmp_path / "one").left_out == 0
    sealed.transfer.export(tmp_path / "two", "u")
    assert files_of(tmp_path / "two") == files_of(tmp_path / "one")
    assert not is_told(hf, MARK, "porto")
    sealed.jobs.run()
    for same in ("messages", "records", "history", "tagged", "documents", "kv", "summary", "schedules", "goals"):
        assert contents(sealed)[same] == expected[same], same
    assert faults(hf) == []


def test_an_import_is_sealed_and_goes_on_where_it_was(
    hf: Limpet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From an open tenant into one that is sealed with its first row: how far it has come is sealed too."""
    with Limpet.open(":memory:", config=PLAIN, clock=hf._runtime.clock) as source:
        talk(source, "1", "porto")
        source.schedules.create("u", "Ask about portotea", "every: 1h")
        source.transfer.export(tmp_path / "one", "u")
    monkeypatch.setattr("limpet.lifecycle.import_export._LINES", 2)
    sealed = hf.tenant(SEALED)

    def stop(*_: object) -> None:
        if sql(hf, "SELECT count(*) FROM transfers") == [(1,)]:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        sealed.transfer.import_(tmp_path / "one", progress=stop)
    [(state, name)] = sql(hf, "SELECT state, name FROM transfers")
    assert "sessions" not in state
    assert "one" not in name
    assert sealed.transfer.import_(tmp_path / "one").left_out == 0
    assert sql(hf, "SELECT count(*) FROM transfers") == [(0,)]
    assert sealed.recall("portosoup", user="u")
    assert not is_told(hf, "porto")
    sealed.transfer.export(tmp_path / "two", "u")
    assert files_of(tmp_path / "two") == files_of(tmp_path / "one")


@pytest.mark.parametrize("allowed", [False, True])
def test_files_of_an_export_follow_the_setting(tmp_path: Path, config: Config, allowed: bool) -> None:  # noqa: F811
    with Limpet.open(tmp_path / "open", config=replace(PLAIN, notes=NotesSettings())) as source:
        source.notes.long_term("u").write("# Me\n")
        source.transfer.export(tmp_path / "export", "u")
    encryption = replace(config.encryption, plain_files=allowed)
    with Limpet.open(tmp_path / "sealed", config=replace(config, encryption=encryption)) as hf:
        done = hf.transfer.import_(tmp_path / "export")
        assert done.files == int(allowed)
        assert [("plain_files" in note.reason) for note in done.skipped] == ([] if allowed else [True])
    assert bool(list((tmp_path / "sealed").rglob("MEMORY.md"))) is allowed


def due_everywhere(hf: Limpet, clock: FakeClock) -> None:
    for tenant in ("default", SEALED, OPEN):
        hf.tenant(tenant).schedules.create("u", f"Ask about {MARK} in {tenant}", "every: 1h")
    clock.advance(hours=1)


def goals_run(hf: Limpet) -> list[str]:
    goals: list[str] = []

    def callback(firing: Firing) -> str:
        goals.append(firing.schedule.goal.rpartition(" ")[2])
        return "done"

    hf.schedules.run(callback, lambda _: None)
    return sorted(goals)


def test_schedules_of_a_tenant_without_its_key_hold_up_nobody(
    durable_url: str,
    config: Config,  # noqa: F811
    keys: Path,  # noqa: F811
    clock: FakeClock,
) -> None:
    with Limpet.open(durable_url, config=config, clock=clock) as hf:
        due_everywhere(hf, clock)
    key = key_file(keys, "default").read_bytes()
    key_file(keys, "default").unlink()
    with Limpet.open(durable_url, config=config, clock=clock) as hf:
        assert goals_run(hf) == [SEALED, OPEN]
        soon = hf._runtime.store.read(lambda tx: ScheduleQueue(tx).find_next_due())
        assert soon is not None
        assert soon > clock.now, "what cannot be run here is nothing to wait for"
        assert goals_run(hf) == []
    key_file(keys, "default").touch(mode=0o600)
    key_file(keys, "default").write_bytes(key)
    with Limpet.open(durable_url, config=config, clock=clock) as hf:
        assert goals_run(hf) == ["default"]
        assert not is_told(hf.tenant(SEALED), "ask about zanzibar in default", "ask about zanzibar in other")


def test_where_sealing_is_required_an_open_tenants_schedule_waits(
    durable_url: str,
    config: Config,  # noqa: F811
    clock: FakeClock,
) -> None:
    with Limpet.open(durable_url, config=PLAIN, clock=clock) as hf:
        hf.tenant(OPEN).schedules.create("u", f"Ask in {OPEN}", "every: 1h")
    strict = replace(config, encryption=replace(config.encryption, required=True))
    with Limpet.open(durable_url, config=strict, clock=clock) as hf:
        hf.tenant(SEALED).schedules.create("u", f"Ask in {SEALED}", "every: 1h")
        clock.advance(hours=1)
        assert goals_run(hf) == [SEALED]


def test_retention_goes_on_without_one_tenants_key(
    durable_url: str,
    config: Config,  # noqa: F811
    keys: Path,  # noqa: F811
    clock: FakeClock,
) -> None:
    settings = replace(config, retention=RetentionSettings(messages_days=10))
    with Limpet.open(durable_url, config=settings, clock=clock) as hf:
        for tenant in ("default", SEALED, OPEN):
            talk(hf.tenant(tenant), "1", "porto")
    key_file(keys, "default").unlink()
    clock.advance(days=11)
    with Limpet.open(durable_url, config=settings, clock=clock) as hf:
        clock.advance(hours=2)
        hf.jobs.run()
        left = sql(
            hf,
            "SELECT DISTINCT s.tenant FROM messages m JOIN sessions s ON s.bucket = m.bucket AND s.id = m.session_id",
        )
        assert left == [("default",)]
        with pytest.raises(KeyMissing):
            hf.privacy.retention()


def test_work_beside_is_done_once_when_a_tenant_is_met_first(hf: Limpet) -> None:
    """What has to be in the same transaction is neither lost nor done twice when the work begins anew."""
    store: Any = hf._runtime.store
    tries: list[int] = []

    def beside(tx: Any) -> None:
        tries.append(1)
        tx.db.run("purge.count", {})

    def note(tx: Any) -> None:
        Imports(tx).record_import(Scope(SEALED), "digest", "name", 0, 0, hf._runtime.clock())

    with store.prepend_to_next_write(beside) as is_done:
        assert not is_done()
        store.write(note)
        assert is_done()
        store.write(lambda tx: None)
    assert len(tries) == 2, "it was begun anew"
    assert sql(hf, "SELECT value FROM properties WHERE name = 'purges'") == [("1",)]
    assert sql(hf, "SELECT state FROM tenant_encryption") == [("sealed",)]
