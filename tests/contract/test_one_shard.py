"""On a Citus cluster a statement that calls send all the time asks one shard: the one of its user's bucket."""

from __future__ import annotations

import re
from typing import Any

import pytest

from limpet import Config, Limpet
from limpet.store.tables import TABLES, load_queries
from tests.contract.statements import Recorder, find_several

# Sent now and then by a worker, for all users at once: where there is work.
BY_WORKER = {"jobs.due_buckets", "jobs.find_misdated", "jobs.count", "jobs.next"}
# For everybody at once: checks and repairs, retention, whole tenants, what an operator asks.
FOR_EVERYBODY = set(
    """
    chunks.count documents.find_unsettled encryption.has_rows entities.find_unmentioned idempotency_keys.trim
    items.list_outdated jobs.drop jobs.make_due jobs.redate jobs.release_misdated jobs.retry jobs.take_over
    mentions.find_lost models.counts notes.pending partitions.find_purged partitions.ids partitions.list
    partitions.list_tenants records.all_inputs records.all_metadata records.all_tags records.labels relations.find_lost
    retention.agents retention.count_messages retention.documents retention.records retention.users schedules.tenants
    sessions.find_deleted sessions.find_miscounted store.count_rows summaries.find_too_high transfers.document_owners
    transfers.partitions transfers.run_owners transfers.schedule_owners vectors.delete_model
    """.split()
)
AFTER_PURGE = {"partitions.find_purged"}  # of all users that this process has cached something of
NEW_USER = {"partitions.add"}  # reads its shard before it writes there


def test_query_of_rows_of_a_partition_names_the_bucket() -> None:
    """Or takes its clauses from code that does; what asks everybody is listed above."""
    spread = {table.name for table in TABLES if table.placement == "bucket"}
    queries = load_queries("postgres")
    asked = {name: set(re.findall(r"\b(?:FROM|JOIN|INTO|UPDATE)\s+(\w+)", sql)) for name, sql in queries.items()}
    anywhere = {name for name, sql in queries.items() if ":bucket" not in sql and "{where}" not in sql}
    assert {name for name in anywhere if asked[name] & spread} == FOR_EVERYBODY | {"jobs.find_misdated"}


@pytest.mark.citus
@pytest.mark.postgres
def test_statements_of_daily_calls_ask_one_shard(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder()
    config = Config.load(env={}, overrides={"jobs.worker": False})
    with Limpet.open(postgres_url, config=config) as memory:
        with recorder.record(monkeypatch):
            for user in ("ana", "tom"):
                live_a_day(memory, user)
        store: Any = memory._runtime.store
        several = store.write(lambda tx: find_several(tx.db, recorder.list_named()))
    sent = {name for name, _, _ in recorder.list_named()}
    assert sent >= {"messages.insert", "chunks.insert_once", "jobs.due", "partitions.get"}
    assert {name: found for name, found in several.items() if name not in BY_WORKER | AFTER_PURGE | NEW_USER} == {}


def live_a_day(memory: Limpet, user: str) -> None:
    for _ in range(2):
        session = memory.session("app", "main", user=user)
        for number in range(3):
            session.append("user", f"We sailed to island {number} with Maria", idempotency_key=f"{number}")
        memory.remember(f"{user} keeps bees", user=user, tags=("hobby",), metadata={"since": "2019"})
        memory.remember(f"{user} lives in Porto", user=user, key="home")
        memory.recall("islands", user=user)
        session.context("Which islands?")
        with session.turn("Which islands did we sail to? I moved to Braga.") as turn:
            turn.reply("To all three of them.")
        session.kv.set("mood", "calm")
        assert session.kv.get("mood") == "calm"
        session.messages()
        memory.documents.add("bees.txt", "Bees keep warm in winter.", user)
        memory.records(user)
        memory.jobs.run()
    memory.forget(user=user, key="home")
