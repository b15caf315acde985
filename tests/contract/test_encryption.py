"""Tenants whose text is encrypted: what the database holds, what is found, and what becomes of it without the key."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from limpet import Config, FilePart, Limpet, Run, Schedule, TextPart, ToolCall
from limpet.config import EmbeddingSettings, EncryptionSettings, JobSettings, NotesSettings
from limpet.errors import DecryptionFailed, KeyMissing, Unsupported
from limpet.knowledge.prominence import FOLLOWS
from limpet.lifecycle.transfer_repository import Imports
from limpet.model.schedule import RunStatus
from limpet.model.scope import Level, Partition
from limpet.schedules.repository import Schedules
from limpet.search.verify import rebuild_index
from limpet.store.encryption import EncryptionMode
from limpet.store.encryption_keys import key_file, write_keys
from limpet.store.jobs import JobQueue, Jobs
from limpet.store.reencrypt import reencrypt_tenant
from limpet.store.tables import TABLES
from limpet.store.tx import Tx
from limpet.testing import FakeClock
from tests.citus_server import CITUS_VIEWS
from tests.conftest import ENCRYPTED as BY_HAND
from tests.contract.processes import run_together
from tests.contract.rows import every_row, faults, sql

pytestmark = [
    pytest.mark.every_backend,
    pytest.mark.skipif(BY_HAND, reason="these say themselves what is encrypted"),
]

MARK = "zanzibar"
# Without the notes of the day, which an encrypted tenant has not.
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
def memory(store_url: str, config: Config, clock: FakeClock) -> Iterator[Limpet]:
    with Limpet.open(store_url, config=config, clock=clock) as opened:
        yield opened


def write_everywhere(memory: Limpet, mark: str = MARK) -> None:
    session = memory.session("cli", "1", user="u", metadata={mark: mark})
    session.append("user", f"The {mark} ferry leaves at noon", name=mark, idempotency_key=mark, metadata={mark: mark})
    call = ToolCall(mark, mark, {mark: mark})
    session.append("assistant", f"My {mark} sister Anna lives in Porto", tool_calls=[call])
    session.append("tool", [TextPart(mark), FilePart(f"file:///{mark}", name=mark)], tool_call_id=mark)
    session.set_summary(f"all about {mark}", 1)
    session.kv.set(mark, {mark: [mark]})
    record = memory.remember(
        f"{mark} is an island",
        "u",
        mark,
        tags=[mark],
        metadata={mark: mark},
        title=mark,
        references=[mark],
        idempotency_key=mark,
    )
    memory.records.update(record.id, content=f"{mark} is an island of spices")
    memory.notes.long_term("u").append(f"- likes {mark}")
    memory.documents.add(f"doc:{mark}", f"{mark} in a document", user="u", title=mark, metadata={mark: mark})
    with session.turn(f"I live in {mark.title()} and my favourite tea is {mark}") as turn:
        turn.reply(f"Noted: {mark}")
    memory.jobs.run()
    store: Any = memory._runtime.store
    scope, space = session.info.scope, Partition(session.info.tenant, Level.USER, "u")
    now = memory._runtime.clock()
    store.write(lambda tx: Imports(tx).record_import(scope, mark, mark, 1, 1, now))
    store.write(lambda tx: Jobs(tx).enqueue(space, "for nobody here", "", now))
    job = JobQueue(store).claim([("for nobody here", "")], now, timedelta(minutes=1))
    assert job is not None
    JobQueue(store).fail(job, f"it failed at {mark}", now, dead=True)
    store.write(lambda tx: Imports(tx).save_progress(scope, mark, mark, f'{{"{mark}": 1}}', now))
    schedule(memory, session.id, mark)


def schedule(memory: Limpet, session: str, mark: str) -> Schedule:
    """One whose first run said something, and whose second failed."""
    where: Any = {"session": session, "metadata": {mark: mark}}
    made = memory.schedules.create("u", goal=f"Ask about {mark.upper()}", cadence="every: 1h", **where)
    for status in RunStatus:
        at = memory._runtime.clock()
        told: Any = {"error": f"no {mark} today" if status is RunStatus.FAILED else None, "to_notify": True}
        run = Run(memory._runtime.new_id(), made.id, at, at, at, status, 1, 0, f"On {mark}", **told)
        memory._runtime.store.write(partial(add_run, made=made, run=run, output=f"All about {mark} 🌴, twice: {mark}"))
    return made


def add_run(tx: Tx, *, made: Schedule, run: Run, output: str) -> None:
    Schedules(tx).add_run(made, run, output)


def contents(memory: Limpet) -> dict[str, Any]:
    """What a reader sees."""
    session = memory.session("cli", "1", user="u")
    summary = session.summary()
    by_key = next(record for record in memory.records(user="u") if record.key == MARK)
    scope = session.info.scope
    store: Any = memory._runtime.store
    return {
        "messages": [(m.role, m.content, m.name, m.tool_calls, m.metadata, m.tool_call_id) for m in session.messages()],
        "again": session.append(
            "user", f"The {MARK} ferry leaves at noon", name=MARK, idempotency_key=MARK, metadata={MARK: MARK}
        ).content,
        "metadata": session.metadata,
        "summary": summary and summary.text,
        "kv": session.kv.items(),
        "records": sorted(
            (
                r.content,
                r.key or "",
                r.title or "",
                r.tags,
                str({name: value for name, value in r.metadata.items() if name != FOLLOWS}),  # ids differ
                r.references,
                r.fingerprint,
                str(r.subject),
            )
            for r in memory.records(user="u")
        ),
        "history": [version.content for version in memory.records.history(by_key.id)],
        "tagged": [record.content for record in memory.records(user="u", tags=[MARK], metadata={MARK: MARK})],
        "documents": [(d.uri, d.title, d.metadata, d.content_hash) for d in memory.documents.list(user="u")],
        "hits": [(hit.text, round(hit.score, 6)) for hit in memory.recall(f"{MARK} island ferry", user="u", k=20)],
        "labelled": [hit.text for hit in memory.recall("island", user="u", tags=[MARK])],
        "graph": sorted(entity.name for entity in memory.graph(user="u").entities),
        "context": sorted(session.context(MARK).text.splitlines()),  # equally old ones stand in any order
        "jobs": [job.error for job in memory.jobs.list()],
        "imported": store.read(lambda tx: Imports(tx).has_digest(scope, MARK)),
        "under way": store.read(lambda tx: Imports(tx).get_progress(scope, MARK)),
        "schedules": [scheduled(memory, made) for made in memory.schedules.search()],
        "goals": [memory.schedules.count(text=text) for text in ("ask ABOUT zan", "100%", "a_k")],
    }


def scheduled(memory: Limpet, made: Schedule) -> list[object]:
    runs = sorted(memory.schedules.runs(made.id), key=lambda run: run.status)
    parts = [memory.schedules.run_output(run.id, offset=10, limit=9) for run in runs]
    return [
        *(made.goal, made.metadata, made.state),
        *((run.status, run.summary, run.error, run.output_characters) for run in runs),
        *((part.text, part.total) for part in parts),
    ]


def test_encrypted_tenant_returns_same_results_as_plain_one(memory: Limpet):
    """Hits with their scores: to the last digit, but for the rounding of who compares the vectors."""
    plain, encrypted = memory.tenant("third"), memory.tenant("other")
    write_everywhere(plain)
    write_everywhere(encrypted)
    expected = contents(plain)
    assert contents(encrypted) == expected
    assert expected["hits"]
    assert expected["graph"]
    assert expected["labelled"]
    assert expected["schedules"]
    assert expected["goals"] == [1, 0, 0]
    assert MARK in str(sql(memory, "SELECT content FROM messages"))
    assert faults(memory) == []


def test_encrypted_tenant_stores_no_plaintext_in_tables(memory: Limpet):
    write_everywhere(memory)
    tables = every_row(memory)
    empty = {table.name for table in TABLES if table and not tables[table.name]}
    assert empty == set(), "every table must have something to hide"
    [audit] = [table for table in TABLES if table.name == "audit"]
    tables[audit.name] = sql(memory, f"SELECT {', '.join(audit.columns)} FROM audit")
    told = {
        f"{table.name}.{column}"
        for table in TABLES
        for row in tables[table.name]
        for column, value in zip(table.columns, row, strict=True)
        if MARK in str(value).lower() or (isinstance(value, bytes) and MARK.encode() in value.lower())
    }
    assert told == set()


def test_encrypted_tenant_stores_no_plaintext_on_disk(durable_url: str, config: Config):
    encrypted, plain = (f"{word}{os.urandom(4).hex()}" for word in (MARK, "oslofjord"))  # the log has all tests' writes
    with Limpet.open(durable_url, config=config) as memory:
        write_everywhere(memory, encrypted)
        write_everywhere(memory.tenant("third"), plain)
        if durable_url.startswith("postgres"):
            [(folder, oid)] = sql(
                memory,
                "SELECT current_setting('data_directory'), oid FROM pg_database WHERE datname = current_database()",
            )
            checkpoint(durable_url)
            found = on_disk(Path(folder) / "base" / str(oid)) + on_disk(Path(folder) / "pg_wal")
        else:
            found = on_disk(Path(durable_url))
    assert plain.encode() in found, "the search must be able to find something"
    assert encrypted.encode() not in found


def checkpoint(url: str) -> None:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CHECKPOINT")


def on_disk(folder: Path) -> bytes:
    return b"".join(file.read_bytes().lower() for file in sorted(folder.rglob("*")) if file.is_file())


def test_every_text_column_is_listed_as_encrypted_or_plaintext(memory: Limpet):
    """A new column must say which: see store/tables.py."""
    if memory._runtime.store.backend == "postgres":
        found = sql(
            memory,
            "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = current_schema()"
            " AND udt_name IN ('text', 'bytea', 'varchar', 'json', 'jsonb', 'vector')",
        )
    else:
        found = sql(
            memory,
            "SELECT m.name, c.name FROM sqlite_master m JOIN pragma_table_info(m.name) c"
            " WHERE m.type = 'table' AND c.type NOT IN ('INTEGER', 'BIGINT', 'SMALLINT', 'DOUBLE PRECISION')",
        )
    ours = {(table.name, column) for table in TABLES for column in table.columns}
    known = {table.name for table in TABLES} | {"limpet_migrations", "limpet_writers", "sqlite_sequence"}
    known |= {*CITUS_VIEWS}
    assert {table for table, _ in found} <= known, "a table that is not in store/tables.py"
    listed = {(table.name, name) for table in TABLES for name in (*table, *table.readable)}
    texts = {(table, column) for table, column in found if (table, column) in ours}
    assert texts - listed == set(), "neither encrypted nor readable"
    assert listed - texts == set(), "no such column of text"
    assert not [table.name for table in TABLES if table.keys() & table.readable.keys()]
    reading = {EncryptionMode.TEXT, EncryptionMode.SOURCE, EncryptionMode.BYTES}
    assert not [t.name for t in TABLES if not t.bound_to and any(column.kind in reading for column in t.values())]


def test_missing_encryption_key_blocks_only_its_tenant(durable_url: str, config: Config, keys: Path, tmp_path: Path):
    with Limpet.open(durable_url, config=config) as memory:
        write_everywhere(memory)
        write_everywhere(memory.tenant("other"))
        write_everywhere(memory.tenant("third"))
        before = every_row(memory)
    key_file(keys, "default").unlink()
    with Limpet.open(durable_url, config=config) as memory:
        for attempt in attempts(memory, tmp_path):
            with pytest.raises(KeyMissing, match="tenant 'default' is encrypted and its key is missing"):
                attempt()
        assert every_row(memory) == before
        assert contents(memory.tenant("other")) == contents(memory.tenant("third"))
        memory.tenant("other").remember("more", user="u")
        assert faults(memory) == [], "a key that is gone on purpose is no fault"


def attempts(memory: Limpet, folder: Path) -> list[Callable[[], object]]:
    return [
        lambda: memory.session("cli", "1", user="u"),
        lambda: memory.session("cli", "new", user="v"),
        lambda: memory.remember("plain", user="u"),
        lambda: memory.remember("plain", user="somebody new"),
        lambda: memory.recall(MARK, user="u"),
        lambda: memory.records(user="u"),
        lambda: memory.documents.add("doc:plain", "plain", user="u"),
        lambda: memory.documents.list(user="u"),
        lambda: memory.graph(user="u"),
        lambda: memory.schedules.search(user="u"),
        lambda: memory.schedules.create("u", goal="plain", cadence="every: 1h"),
        lambda: memory.privacy.purge_user("u"),
        lambda: memory.privacy.purge_older("u", days=0, everything=True),
        lambda: memory.transfer.export(folder / "export"),
        memory.jobs.list,
    ]


@pytest.mark.parametrize("keyless", [False, True], ids=["another key", "no keys at all"])
def test_wrong_or_missing_encryption_key_raises_key_missing(
    durable_url: str, config: Config, keys: Path, keyless: bool, tmp_path: Path
):
    with Limpet.open(durable_url, config=config) as memory:
        write_everywhere(memory)
        before = every_row(memory)
    write_keys(key_file(keys, "default"), (os.urandom(32),))
    with Limpet.open(durable_url, config=PLAIN if keyless else config) as memory:
        for attempt in attempts(memory, tmp_path):
            with pytest.raises(KeyMissing, match="is missing" if keyless else "another key"):
                attempt()
        assert every_row(memory) == before


def test_process_without_keys_is_stopped_after_tenant_is_encrypted(durable_url: str, config: Config):
    """Both are open when the tenant is encrypted: whoever remembers it as open must notice."""
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


def test_encrypted_tenant_is_shared_by_two_processes(durable_url: str, config: Config):
    code = """
from limpet.config import Config, EmbeddingSettings, EncryptionSettings
settings = Config(encryption=EncryptionSettings(key_file=given["keys"]), embedding=EmbeddingSettings(model="hashed"))
memory = Limpet.open(given["url"], config=settings)
begin()
for at in range(5):
    memory.remember(f"walrus {number} {at}", user="u", key=f"k{number}_{at}")
memory.close()
answer(number)
"""
    run_together(code, {"url": durable_url, "keys": config.encryption.key_file})
    with Limpet.open(durable_url, config=config) as memory:
        assert len(memory.records(user="u")) == 10
        assert len(memory.recall("walrus", user="u", k=20)) == 10
        assert "walrus" not in str(every_row(memory))
        assert faults(memory) == []


@pytest.mark.parametrize(
    ("table", "change"),
    [
        ("messages.content", "UPDATE messages SET content = 'zanzibar' WHERE sequence = 1"),
        ("messages.content", "UPDATE messages SET content = (SELECT max(content) FROM messages)"),
        ("records.content", "UPDATE records SET content = title WHERE title IS NOT NULL"),
        ("chunks.text", "UPDATE chunks SET text = (SELECT max(text) FROM chunks)"),
    ],
    ids=["plain text", "another row's", "another column's", "another chunk's"],
)
def test_doctor_names_tampered_encrypted_column(memory: Limpet, table: str, change: str):
    write_everywhere(memory)
    sql(memory, change)
    found = [finding for finding in faults(memory) if finding.startswith("encryption: ")]
    assert len(found) == 1
    assert f"{table} of row " in found[0]
    with pytest.raises(DecryptionFailed, match=table):
        memory.session("cli", "1", user="u").messages()
        memory.records(user="u")
        memory.recall(f"{MARK} island ferry", user="u", k=20)


def test_encryption_required_rejects_plaintext_writes(durable_url: str, config: Config):
    with Limpet.open(durable_url, config=PLAIN) as memory:
        memory.remember("before", user="u")
    strict = replace(config, encryption=replace(config.encryption, required=True))
    with Limpet.open(durable_url, config=strict) as memory:
        for tenant in ("default", "third"):
            with pytest.raises(KeyMissing, match="not encrypted"):
                memory.tenant(tenant).remember("plain", user="u")
        memory.tenant("other").remember("encrypted", user="u")
        assert [record.content for record in memory.records(user="u")] == ["before"]
        assert reencrypt_tenant(memory._runtime.store, "default", rebuild_index)
        memory.remember("after", user="u")


@pytest.mark.slow
def test_forget_in_encrypted_tenant_leaves_nothing(memory: Limpet):
    write_everywhere(memory)
    memory.session("cli", "1", user="u").delete()
    while records := memory.records(user="u"):
        memory.forget(records[0].id)
    left = {table for table, rows in every_row(memory).items() if rows}
    assert left & {"messages", "records", "record_tags", "record_metadata", "relations", "kv", "summaries"} == set()
    assert [hit.source.kind.value for hit in memory.recall("what is in the document", user="u", k=20)] == ["document"]
    assert faults(memory) == []


def test_encrypted_tenant_writes_no_plain_files_unless_allowed(tmp_path: Path, config: Config):
    data = tmp_path / "data"
    config = replace(config, notes=NotesSettings())
    with Limpet.open(data, config=config) as memory:
        with memory.session("cli", "1", user="u").turn(f"I like {MARK}") as turn:
            turn.reply("Noted")
        for refused in (lambda: memory.notes.export_items("u"), memory.admin.file_sessions):
            with pytest.raises(Unsupported, match="plain_files"):
                refused()
        memory.notes.long_term("u").write(f"- likes {MARK}")
        assert MARK in memory.notes.day("u")
        assert memory.notes.long_term("u").path is None
        assert not (data / "memory").exists()
        memory.tenant("third").notes.long_term("u").write("open tenants keep their files")
    allowed = replace(config, encryption=replace(config.encryption, plain_files=True))
    with Limpet.open(data, config=allowed) as memory:
        with memory.session("cli", "1", user="u").turn(f"I like {MARK}") as turn:
            turn.reply("Noted")
        assert MARK in memory.notes.day("u")
