"""Tenants whose text is sealed: what the database holds, what is found, and what becomes of it without the key."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from limpet import Config, FilePart, Limpet, Run, Schedule, TextPart, ToolCall
from limpet.config import EmbeddingSettings, EncryptionSettings, JobSettings, NotesSettings
from limpet.errors import DecryptionFailed, KeyMissing, Unsupported
from limpet.lifecycle.transfer_repository import Imports
from limpet.model.schedule import RunStatus
from limpet.model.scope import Level, Partition
from limpet.schedules.repository import Schedules
from limpet.search.verify import rebuild_index
from limpet.store.copy import copy_store
from limpet.store.encrypted_columns import AAD_COLUMNS, ENCRYPTED_COLUMNS, PLAINTEXT_COLUMNS
from limpet.store.encryption import EncryptionMode
from limpet.store.encryption_keys import key_file, read_keys, write_keys
from limpet.store.jobs import Jobs
from limpet.store.reencrypt import reencrypt_tenant
from limpet.store.tables import TABLES
from limpet.store.tx import Tx
from limpet.testing import FakeClock
from tests.conftest import SEALED as BY_HAND
from tests.contract.processes import run_together
from tests.contract.rows import every_row, faults, sql

pytestmark = [
    pytest.mark.every_backend,
    pytest.mark.skipif(BY_HAND, reason="these say themselves what is sealed"),
]

MARK = "zanzibar"
# Without the notes of the day, which a sealed tenant has not.
PLAIN = Config(
    embedding=EmbeddingSettings(model="hashed"), jobs=JobSettings(worker=False), notes=NotesSettings(write_daily=False)
)


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """A folder with a key for tenant default and one for tenant other."""
    folder = tmp_path / "keys"
    folder.mkdir(mode=0o700)
    for tenant in ("default", "other"):
        write_keys(key_file(folder, tenant), (os.urandom(32),))
    return folder


@pytest.fixture
def config(keys: Path) -> Config:
    return replace(PLAIN, encryption=EncryptionSettings(key_file=str(keys)))


@pytest.fixture
def hf(store_url: str, config: Config, clock: FakeClock) -> Iterator[Limpet]:
    with Limpet.open(store_url, config=config, clock=clock) as opened:
        yield opened


def write_everywhere(hf: Limpet, mark: str = MARK) -> None:
    session = hf.session("cli", "1", user="u", metadata={mark: mark})
    session.append("user", f"The {mark} ferry leaves at noon", name=mark, idempotency_key=mark, metadata={mark: mark})
    call = ToolCall(mark, mark, {mark: mark})
    session.append("assistant", f"My {mark} sister Anna lives in Porto", tool_calls=[call])
    session.append("tool", [TextPart(mark), FilePart(f"file:///{mark}", name=mark)], tool_call_id=mark)
    session.set_summary(f"all about {mark}", 1)
    session.kv.set(mark, {mark: [mark]})
    record = hf.remember(
        f"{mark} is an island",
        "u",
        mark,
        tags=[mark],
        metadata={mark: mark},
        title=mark,
        references=[mark],
        idempotency_key=mark,
    )
    hf.records.update(record.id, content=f"{mark} is an island of spices")
    hf.documents.add(f"doc:{mark}", f"{mark} in a document", user="u", title=mark, metadata={mark: mark})
    with session.turn(f"I live in {mark.title()} and my favourite tea is {mark}") as turn:
        turn.reply(f"Noted: {mark}")
    hf.jobs.run()
    store: Any = hf._runtime.store
    scope, space = session.info.scope, Partition(session.info.tenant, Level.USER, "u")
    now = hf._runtime.clock()
    store.write(lambda tx: Imports(tx).record_import(scope, mark, mark, 1, 1, now))
    store.write(lambda tx: Jobs(tx).enqueue(space, "for nobody here", "", now))
    job = store.claim_job([("for nobody here", "")], now, timedelta(minutes=1))
    assert job is not None
    store.fail_job(job, f"it failed at {mark}", now, dead=True)
    store.write(lambda tx: Imports(tx).save_progress(scope, mark, mark, f'{{"{mark}": 1}}', now))
    schedule(hf, session.id, mark)


def schedule(hf: Limpet, session: str, mark: str) -> Schedule:
    """One whose first run said something, and whose second failed."""
    where: Any = {"session": session, "metadata": {mark: mark}}
    made = hf.schedules.create("u", f"Ask about {mark.upper()}", "every: 1h", **where)
    for status in RunStatus:
        at = hf._runtime.clock()
        told: Any = {"error": f"no {mark} today" if status is RunStatus.FAILED else None, "to_notify": True}
        run = Run(hf._runtime.new_id(), made.id, at, at, at, status, 1, 0, f"On {mark}", **told)
        hf._runtime.store.write(partial(add_run, made=made, run=run, output=f"All about {mark} 🌴, twice: {mark}"))
    return made


def add_run(tx: Tx, *, made: Schedule, run: Run, output: str) -> None:
    Schedules(tx).add_run(made.scope, run, output)


def contents(hf: Limpet) -> dict[str, Any]:
    """What a reader sees."""
    session = hf.session("cli", "1", user="u")
    summary = session.summary()
    by_key = next(record for record in hf.records(user="u") if record.key == MARK)
    scope = session.info.scope
    store: Any = hf._runtime.store
    return {
        "messages": [(m.role, m.content, m.name, m.tool_calls, m.metadata, m.tool_call_id) for m in session.messages()],
        "again": session.append("user", "other", idempotency_key=MARK).content,
        "metadata": session.metadata,
        "summary": summary and summary.text,
        "kv": session.kv.items(),
        "records": sorted(
            (
                r.content,
                r.key or "",
                r.title or "",
                r.tags,
                str(r.metadata),
                r.references,
                r.fingerprint,
                str(r.subject),
            )
            for r in hf.records(user="u")
        ),
        "history": [version.content for version in hf.records.history(by_key.id)],
        "tagged": [record.content for record in hf.records(user="u", tags=[MARK], metadata={MARK: MARK})],
        "documents": [(d.uri, d.title, d.metadata, d.content_hash) for d in hf.documents.list(user="u")],
        "hits": [(hit.text, round(hit.score, 6)) for hit in hf.recall(f"{MARK} island ferry", user="u", k=20)],
        "labelled": [hit.text for hit in hf.recall("island", user="u", tags=[MARK])],
        "graph": sorted(entity.name for entity in hf.graph(user="u").entities),
        "context": sorted(session.context(MARK).text.splitlines()),  # equally old ones stand in any order
        "jobs": [job.error for job in hf.jobs.list()],
        "imported": store.read(lambda tx: Imports(tx).has_digest(scope, MARK)),
        "under way": store.read(lambda tx: Imports(tx).get_progress(scope, MARK)),
        "schedules": [scheduled(hf, made) for made in hf.schedules.search()],
        "goals": [hf.schedules.count(text=text) for text in ("ask ABOUT zan", "100%", "a_k")],
    }


def scheduled(hf: Limpet, made: Schedule) -> list[object]:
    runs = sorted(hf.schedules.runs(made.id), key=lambda run: run.status)
    parts = [hf.schedules.run_output(run.id, offset=10, limit=9) for run in runs]
    return [
        *(made.goal, made.metadata, made.state),
        *((run.status, run.summary, run.error, run.output_characters) for run in runs),
        *((part.text, part.total) for part in parts),
    ]


def test_a_sealed_tenant_answers_what_an_open_one_answers(hf: Limpet):
    """Hits with their scores: to the last digit, but for the rounding of who compares the vectors."""
    open_, sealed = hf.tenant("third"), hf.tenant("other")
    write_everywhere(open_)
    write_everywhere(sealed)
    expected = contents(open_)
    assert contents(sealed) == expected
    assert expected["hits"]
    assert expected["graph"]
    assert expected["labelled"]
    assert expected["schedules"]
    assert expected["goals"] == [1, 0, 0]
    assert MARK in str(sql(hf, "SELECT content FROM messages"))
    assert faults(hf) == []


def test_what_was_written_is_nowhere_in_the_tables(hf: Limpet):
    write_everywhere(hf)
    tables = every_row(hf)
    assert {table for table in ENCRYPTED_COLUMNS if not tables[table]} == set(), (
        "every table must have something to hide"
    )
    [audit] = [table for table in TABLES if table.name == "audit"]
    tables[audit.name] = sql(hf, f"SELECT {', '.join(audit.columns)} FROM audit")
    told = {
        f"{table.name}.{column}"
        for table in TABLES
        for row in tables[table.name]
        for column, value in zip(table.columns, row, strict=True)
        if MARK in str(value).lower() or (isinstance(value, bytes) and MARK.encode() in value.lower())
    }
    assert told == set()


def test_what_was_written_is_nowhere_on_the_disk(durable_url: str, config: Config):
    sealed, plain = (f"{word}{os.urandom(4).hex()}" for word in (MARK, "oslofjord"))  # the log has all tests' writes
    with Limpet.open(durable_url, config=config) as hf:
        write_everywhere(hf, sealed)
        write_everywhere(hf.tenant("third"), plain)
        if durable_url.startswith("postgres"):
            [(folder, oid)] = sql(
                hf,
                "SELECT current_setting('data_directory'), oid FROM pg_database WHERE datname = current_database()",
            )
            checkpoint(durable_url)
            found = on_disk(Path(folder) / "base" / str(oid)) + on_disk(Path(folder) / "pg_wal")
        else:
            found = on_disk(Path(durable_url))
    assert plain.encode() in found, "the search must be able to find something"
    assert sealed.encode() not in found


def checkpoint(url: str) -> None:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CHECKPOINT")


def on_disk(folder: Path) -> bytes:
    return b"".join(file.read_bytes().lower() for file in sorted(folder.rglob("*")) if file.is_file())


def test_every_column_of_text_is_sealed_or_said_to_be_readable(hf: Limpet):
    """A new column must say which: see storage/sql/sealed.py."""
    if hf._runtime.store.backend == "postgres":
        found = sql(
            hf,
            "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = current_schema()"
            " AND udt_name IN ('text', 'bytea', 'varchar', 'json', 'jsonb', 'vector')",
        )
    else:
        found = sql(
            hf,
            "SELECT m.name, c.name FROM sqlite_master m JOIN pragma_table_info(m.name) c"
            " WHERE m.type = 'table' AND c.type NOT IN ('INTEGER', 'BIGINT', 'SMALLINT', 'DOUBLE PRECISION')",
        )
    ours = {(table.name, column) for table in TABLES for column in table.columns}
    known = {table.name for table in TABLES} | {"limpet_migrations", "limpet_writers", "sqlite_sequence"}
    assert {table for table, _ in found} <= known, "a table that is not in storage/sql/tables.py"
    listed = {
        (table, name)
        for lists in (ENCRYPTED_COLUMNS, PLAINTEXT_COLUMNS)
        for table, names in lists.items()
        for name in names
    }
    texts = {(table, column) for table, column in found if (table, column) in ours}
    assert texts - listed == set(), "neither sealed nor readable"
    assert listed - texts == set(), "no such column of text"
    assert not {(t, c) for t, names in ENCRYPTED_COLUMNS.items() for c in names} & {
        (t, c) for t, n in PLAINTEXT_COLUMNS.items() for c in n
    }
    reading = {EncryptionMode.TEXT, EncryptionMode.SOURCE, EncryptionMode.VECTOR}
    bound = {
        table for table, names in ENCRYPTED_COLUMNS.items() if any(column.kind in reading for column in names.values())
    }
    assert bound <= AAD_COLUMNS.keys()


def test_without_its_key_a_tenant_says_so_and_the_others_go_on(
    durable_url: str, config: Config, keys: Path, tmp_path: Path
):
    with Limpet.open(durable_url, config=config) as hf:
        write_everywhere(hf)
        write_everywhere(hf.tenant("other"))
        write_everywhere(hf.tenant("third"))
        before = every_row(hf)
    key_file(keys, "default").unlink()
    with Limpet.open(durable_url, config=config) as hf:
        for attempt in attempts(hf, tmp_path):
            with pytest.raises(KeyMissing, match="tenant 'default' is sealed and its key is not there"):
                attempt()
        assert every_row(hf) == before
        assert contents(hf.tenant("other")) == contents(hf.tenant("third"))
        hf.tenant("other").remember("more", user="u")
        assert faults(hf) == [], "a key that is gone on purpose is no fault"


def attempts(hf: Limpet, folder: Path) -> list[Callable[[], object]]:
    return [
        lambda: hf.session("cli", "1", user="u"),
        lambda: hf.session("cli", "new", user="v"),
        lambda: hf.remember("plain", user="u"),
        lambda: hf.remember("plain", user="somebody new"),
        lambda: hf.recall(MARK, user="u"),
        lambda: hf.records(user="u"),
        lambda: hf.documents.add("doc:plain", "plain", user="u"),
        lambda: hf.documents.list(user="u"),
        lambda: hf.graph(user="u"),
        lambda: hf.schedules.search(user="u"),
        lambda: hf.schedules.create("u", "plain", "every: 1h"),
        lambda: hf.privacy.purge_user("u"),
        lambda: hf.privacy.purge_older("u", days=0),
        lambda: hf.transfer.export(folder / "export"),
        hf.jobs.list,
    ]


@pytest.mark.parametrize("keyless", [False, True], ids=["another key", "no keys at all"])
def test_another_key_and_no_key_at_all(durable_url: str, config: Config, keys: Path, keyless: bool, tmp_path: Path):
    with Limpet.open(durable_url, config=config) as hf:
        write_everywhere(hf)
        before = every_row(hf)
    write_keys(key_file(keys, "default"), (os.urandom(32),))
    with Limpet.open(durable_url, config=PLAIN if keyless else config) as hf:
        for attempt in attempts(hf, tmp_path):
            with pytest.raises(KeyMissing, match="is not there" if keyless else "another key"):
                attempt()
        assert every_row(hf) == before


def test_a_program_without_keys_is_stopped_by_one_that_has_them(durable_url: str, config: Config):
    """Both are open when the tenant is sealed: whoever remembers it as open must notice."""
    with Limpet.open(durable_url, config=PLAIN) as keyless:
        keyless.remember("before", user="u")
        with Limpet.open(durable_url, config=config) as keyed:
            assert reencrypt_tenant(keyed._runtime.store, "default", rebuild_index)
            with pytest.raises(KeyMissing):
                keyless.remember("plain", user="u", key="k")
            with pytest.raises(KeyMissing):
                keyless.recall("before", user="u")
            assert [hit.text for hit in keyed.recall("before", user="u")] == ["before"]
            keyless.tenant("third").remember("open", user="u")


def test_two_processes_share_a_sealed_tenant(durable_url: str, config: Config):
    code = """
from limpet.config import Config, EmbeddingSettings, EncryptionSettings
settings = Config(encryption=EncryptionSettings(key_file=given["keys"]), embedding=EmbeddingSettings(model="hashed"))
hf = Limpet.open(given["url"], config=settings)
begin()
for at in range(5):
    hf.remember(f"walrus {number} {at}", user="u", key=f"k{number}_{at}")
hf.close()
answer(number)
"""
    run_together(code, {"url": durable_url, "keys": config.encryption.key_file})
    with Limpet.open(durable_url, config=config) as hf:
        assert len(hf.records(user="u")) == 10
        assert len(hf.recall("walrus", user="u", k=20)) == 10
        assert "walrus" not in str(every_row(hf))
        assert faults(hf) == []


@pytest.mark.parametrize(
    ("table", "change"),
    [
        ("messages.content", "UPDATE messages SET content = 'zanzibar' WHERE sequence = 1"),
        (
            "messages.content",
            "UPDATE messages SET content = (SELECT content FROM messages WHERE sequence = 2) WHERE sequence = 1",
        ),
        ("records.content", "UPDATE records SET content = title WHERE title IS NOT NULL"),
        ("chunks.text", "UPDATE chunks SET text = (SELECT max(text) FROM chunks)"),
    ],
    ids=["plain text", "another row's", "another column's", "another chunk's"],
)
def test_what_was_tampered_with_is_named(hf: Limpet, table: str, change: str):
    write_everywhere(hf)
    sql(hf, change)
    found = [finding for finding in faults(hf) if finding.startswith("sealed: ")]
    assert len(found) == 1
    assert f"{table} of row " in found[0]
    with pytest.raises(DecryptionFailed, match=table):
        hf.session("cli", "1", user="u").messages()
        hf.records(user="u")
        hf.recall(f"{MARK} island ferry", user="u", k=20)


# Sealing what is there already, and sealing anew


def test_a_tenant_that_has_text_stays_open_until_it_is_sealed(
    durable_url: str, config: Config, caplog: pytest.LogCaptureFixture, clock: FakeClock
):
    with Limpet.open(durable_url, config=PLAIN, clock=clock) as hf:
        write_everywhere(hf)
    with Limpet.open(durable_url, config=config, clock=clock) as hf:
        expected = contents(hf)
        assert "stays open" in caplog.text
        before = every_row(hf)
        assert reencrypt_tenant(hf._runtime.store, "default", rebuild_index)
        assert not reencrypt_tenant(hf._runtime.store, "default", rebuild_index)
        assert MARK in str(before)
        assert MARK not in str(every_row(hf))
        assert contents(hf) == expected
        assert faults(hf) == []


class Stopped(Exception):
    pass


def test_sealing_goes_on_where_it_was_stopped(
    durable_url: str, config: Config, monkeypatch: pytest.MonkeyPatch, clock: FakeClock
):
    monkeypatch.setattr("limpet.store.reencrypt._BATCH", 2)
    with Limpet.open(durable_url, config=PLAIN, clock=clock) as hf:
        write_everywhere(hf)
        expected = contents(hf)
    steps = stops = 0
    with Limpet.open(durable_url, config=config, clock=clock) as hf:

        def stop(*_: object) -> None:
            nonlocal steps
            steps += 1
            if steps % 4 == 0:
                raise Stopped

        while True:
            try:
                reencrypt_tenant(hf._runtime.store, "default", rebuild_index, stop)
                break
            except Stopped:
                stops += 1
                halves = sql(hf, "SELECT count(*) FROM tenant_encryption WHERE state = 'sealing'")[0][0]
                with pytest.raises(KeyMissing, match="being sealed") if halves else nullcontext():
                    hf.recall(MARK, user="u")
        assert stops > 5
        assert contents(hf) == expected
        assert MARK not in str(every_row(hf))
        assert faults(hf) == []


def test_sealing_anew_with_another_key(durable_url: str, config: Config, keys: Path, clock: FakeClock):
    file = key_file(keys, "default")
    with Limpet.open(durable_url, config=config, clock=clock) as hf:
        write_everywhere(hf)
        expected = contents(hf)
    old = read_keys(file)
    fresh = os.urandom(32)
    write_keys(file, (fresh, *old))
    with Limpet.open(durable_url, config=config, clock=clock) as hf:
        assert contents(hf) == expected, "the old key still opens it"
        assert reencrypt_tenant(hf._runtime.store, "default", rebuild_index)
        assert contents(hf) == expected
    write_keys(file, (fresh,))
    with Limpet.open(durable_url, config=config, clock=clock) as hf:
        assert contents(hf) == expected
        assert faults(hf) == []
    write_keys(file, old)
    with Limpet.open(durable_url, config=config) as hf, pytest.raises(KeyMissing, match="another key"):
        hf.recall(MARK, user="u")


@pytest.mark.slow
def test_a_copy_stays_sealed_in_both_directions(
    hf: Limpet, config: Config, tmp_path: Path, postgres_url: str, clock: FakeClock
):
    write_everywhere(hf)
    write_everywhere(hf.tenant("third"))
    expected, rows = contents(hf), every_row(hf)
    is_postgres = hf._runtime.store.backend == "postgres"
    places = [str(tmp_path / "copy"), *([] if is_postgres else [postgres_url])]
    source: Any = hf._runtime.store
    for place in places:
        with Limpet.open(place, config=PLAIN, clock=clock) as keyless:  # who copies needs no key
            copy_store(source, keyless._runtime.store)
            assert every_row(keyless) == rows
            with pytest.raises(KeyMissing):
                keyless.recall(MARK, user="u")
        with Limpet.open(place, config=config, clock=clock) as copied:
            assert contents(copied) == expected
            assert faults(copied) == []


def test_a_backup_stays_sealed(hf: Limpet, config: Config, tmp_path: Path, clock: FakeClock):
    write_everywhere(hf)
    hf.admin.backup(tmp_path / "backup.db")
    assert MARK.encode() not in (tmp_path / "backup.db").read_bytes().lower()
    expected = contents(hf)
    with Limpet.open(tmp_path / "backup.db", config=config, clock=clock) as restored:
        assert contents(restored) == expected


def test_where_sealing_is_required_nothing_is_written_openly(durable_url: str, config: Config):
    with Limpet.open(durable_url, config=PLAIN) as hf:
        hf.remember("before", user="u")
    strict = replace(config, encryption=replace(config.encryption, required=True))
    with Limpet.open(durable_url, config=strict) as hf:
        for tenant in ("default", "third"):
            with pytest.raises(KeyMissing, match="not sealed"):
                hf.tenant(tenant).remember("plain", user="u")
        hf.tenant("other").remember("sealed", user="u")
        assert [record.content for record in hf.records(user="u")] == ["before"]
        assert reencrypt_tenant(hf._runtime.store, "default", rebuild_index)
        hf.remember("after", user="u")


@pytest.mark.slow
def test_forgetting_in_a_sealed_tenant_leaves_nothing(hf: Limpet):
    write_everywhere(hf)
    hf.session("cli", "1", user="u").delete()
    while records := hf.records(user="u"):
        hf.forget(records[0].id)
    left = {table for table, rows in every_row(hf).items() if rows}
    assert left & {"messages", "records", "record_tags", "record_metadata", "relations", "kv", "summaries"} == set()
    assert [hit.source.kind.value for hit in hf.recall("what is in the document", user="u", k=20)] == ["document"]
    assert faults(hf) == []


def test_plain_files_are_not_written_beside_a_sealed_tenant(tmp_path: Path, config: Config):
    data = tmp_path / "data"
    config = replace(config, notes=NotesSettings())
    with Limpet.open(data, config=config) as hf:
        with hf.session("cli", "1", user="u").turn(f"I like {MARK}") as turn:
            turn.reply("Noted")
        for refused in (
            lambda: hf.notes.long_term("u"),
            lambda: hf.notes.add_turn("u", MARK, MARK),
            lambda: hf.notes.export_items("u"),
            hf.admin.file_sessions,
        ):
            with pytest.raises(Unsupported, match="plain_files"):
                refused()
        assert hf.notes.day("u") == ""
        assert not (data / "memory").exists()
        hf.tenant("third").notes.long_term("u").write("open tenants keep their files")
    allowed = replace(config, encryption=replace(config.encryption, plain_files=True))
    with Limpet.open(data, config=allowed) as hf:
        with hf.session("cli", "1", user="u").turn(f"I like {MARK}") as turn:
            turn.reply("Noted")
        assert MARK in hf.notes.day("u")
