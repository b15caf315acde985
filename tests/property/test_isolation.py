"""Nothing leaks: whoever asks with one scope gets that scope's rows, whatever everybody is called.

Everything stored carries the mark of its owner, and every public verb has its entry below. A new verb without one fails
the first test.
"""

from __future__ import annotations

import itertools
from ast import literal_eval
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, example, given, settings

from limpet import Limpet
from limpet.security.operation import OPERATIONS
from tests.examples import examples
from tests.property.isolation_reads import READS
from tests.property.isolation_world import HOSTILE, World, few
from tests.property.isolation_writes import NEITHER, WRITES


def test_every_operation_is_watched() -> None:
    watched = {verb for verb in READS.keys() | WRITES.keys() if " " not in verb}
    assert OPERATIONS.keys() - watched - NEITHER.keys() == set(), "a new operation: show here that it leaks nothing"
    assert watched - OPERATIONS.keys() == set(), "gone: remove its entry"


EXAMPLES = {"memory": 4, "sqlite": 2, "postgres": 1}
worlds = {"tenants": few, "users": few, "agents": few}
look_alike = {
    "tenants": ["acme", "ACME"],
    "users": ["\N{LATIN SMALL LETTER E WITH ACUTE}", "e\N{COMBINING ACUTE ACCENT}", "' OR 1=1"],
    "agents": ["a:b", "a%3Ab"],
}
paths = {"tenants": ["acme", "../acme"], "users": ["alice", "../alice", "x" * 256], "agents": ["a", "../a"]}


def _in_worlds(test: Callable[..., None]) -> Callable[[Limpet], None]:
    def run(memory: Limpet) -> None:
        @settings(
            max_examples=examples(EXAMPLES[memory.admin.stats()["backend"]]),
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(**worlds)
        @example(**look_alike)
        @example(**paths)
        def on_one_store(tenants: list[str], users: list[str], agents: list[str]) -> None:
            test(World.of(memory, tenants, users, agents))

        on_one_store()

    return run


@pytest.mark.hypothesis
@pytest.mark.slow
def test_reads_never_return_data_of_others(memory: Limpet) -> None:
    def look(world: World) -> None:
        for me in world.talkers()[:: max(1, len(world.talkers()) // 6)]:
            for verb, probe in READS.items():
                for answer, allowed in probe(world, me):
                    assert world.seen_in(answer) == allowed, f"{verb} asked by {me}"

    _in_worlds(look)(memory)


def _within(partitions: set[int], rows: list[str]) -> list[str]:
    return [row for row in rows if literal_eval(row)[1] in partitions]


@pytest.mark.hypothesis
@pytest.mark.slow
def test_writes_never_change_data_of_others(memory: Limpet) -> None:
    def attack(world: World) -> None:
        for owner in world.talkers():
            world.plan(owner)
        before = world.rows()
        known = {literal_eval(row)[1] for row in before["partitions"]}
        for me in world.talkers()[:: max(1, len(world.talkers()) // 4)]:
            for verb, attempt in WRITES.items():
                attempt(world, me)
                after = world.rows()
                if verb in ("transfer.import_", "transfer.import_file"):
                    after = {**after, "imports": before["imports"]}
                if verb == "documents.add":
                    before = {**before, "partitions": after["partitions"]}  # the newcomer's own
                if verb == "notes.add_turn":  # the newcomers' own
                    assert _within(known, after["notes"]) == _within(known, before["notes"])
                    before = {**before, "partitions": after["partitions"], "notes": after["notes"]}
                if verb == "notes.import_items":
                    before = {**before, "imports": after["imports"]}  # the mark of one's own files
                if verb.startswith("privacy.purge_"):  # of nobody: a receipt
                    before = {**before, "receipts": after["receipts"], "properties": after["properties"]}
                assert after == before, f"{verb} by {me}"

    _in_worlds(attack)(memory)


@pytest.mark.hypothesis
@pytest.mark.slow
def test_forget_and_delete_keep_data_of_others(memory: Limpet) -> None:
    def remove(world: World) -> None:
        me = world.talkers()[0]
        assert me.user
        mine = world.of_user(me.tenant, me.user)
        others = {owner.number for owner in world.owners} - mine
        before = world.rows_of(others)
        assert world.on(me).forget(query="secret", user=me.user).total == len(mine)
        world.on(me).documents.remove("same:uri", user=me.user)
        for owner in world.talkers():
            if owner.number in mine:
                world.on(owner).load_session(owner.session or "").delete()
        assert world.rows_of(others) == before
        assert world.rows_of(mine) == []
        assert [finding for finding in world.memory.admin.doctor() if not finding.ok] == []

    _in_worlds(remove)(memory)


@pytest.mark.hypothesis
@pytest.mark.slow
def test_purge_keeps_data_of_others(memory: Limpet) -> None:
    def purge(world: World) -> None:
        me = world.talkers()[0]
        assert me.user
        mine = world.of_user(me.tenant, me.user)
        others = {owner.number for owner in world.owners} - mine
        before = world.rows_of(others)
        assert world.on(me).privacy.purge_older(me.user, 1).total == 0
        assert world.on(me).privacy.purge_user(me.user).verified
        assert world.rows_of(others) == before
        assert world.rows_of(mine) == []
        assert [finding for finding in world.memory.admin.doctor() if not finding.ok] == []

    _in_worlds(purge)(memory)


def test_session_ids_differ_for_every_key_user_agent_and_tenant(memory: Limpet) -> None:
    """Keys are built from parts: no part may reach into the next."""
    seen: dict[str, tuple[str | None, ...]] = {}
    parts = ("a", "a:b", "b", "b:c", "c", "a%3Ab", "%", "%25", "%3A")
    for channel, chat, thread in itertools.product(parts[:5], parts, (None, *parts[2:5])):
        made = memory.session(channel, chat, thread, user="u")
        assert seen.setdefault(made.id, (channel, chat, thread)) == (channel, chat, thread)
    for user, agent in itertools.product(HOSTILE, ("a", "A", "a:b")):
        made = memory.session("a", "b", user=user, agent=agent)
        assert seen.setdefault(made.id, (user, agent)) == (user, agent)
    for tenant in HOSTILE:
        made = memory.tenant(f"t {tenant}"[:256]).session("a", "b", user="u", agent="a")
        assert seen.setdefault(made.id, (tenant,)) == (tenant,)
