"""limpet api-keys."""

from __future__ import annotations

from pathlib import Path

from limpet import Limpet
from tests.unit.cli.conftest import Run


def test_api_keys_create_list_and_revoke(run: Run, data: Path) -> None:
    assert run("api-keys").out == "No API keys: limpet api-keys create NAME makes one.\n"
    options = ("--user", "ana", "--agent", "bot", "--grant", "read:global", "--expires-in", "30d")
    made = run("api-keys", "create", "laptop", *options)
    secret, said = made.out.splitlines()
    assert said == "That is the secret of the key laptop. It is shown only now: keep it safe."
    with Limpet.open(data) as memory:
        assert repr(memory.access.keys.acting(secret)).endswith("as key:laptop>")
    lines = run("api-keys").out.splitlines()
    assert lines[0].split() == ["NAME", "ACTS", "FOR", "UNTIL", "LAST", "USED", "BY", "ID"]
    assert "user ana, agent bot, read:global" in lines[1]
    [listed] = run("api-keys", "list", "--user", "ana", "--json").json
    assert (listed["name"], listed["created_by"], listed["grants"]) == ("laptop", "operator", ["read:global"])
    assert listed["last_used_at"] is not None
    assert listed["expires_at"] is not None
    assert secret not in str(listed)
    assert run("api-keys", "--user", "bob", "--json").json == []
    with Limpet.open(data) as memory:
        memory.access.keys.acting(secret).access.keys.create("second", user="ana")
    assert run("api-keys", "revoke", "laptop").out == "laptop is revoked, and 1 made by it\n"
    assert run("api-keys", "revoke", "laptop", "--json").json == {"revoked": False, "keys": 0}
    assert run("api-keys", "list", "--json").json == []
    assert "revoked" in run("api-keys", "list", "--all").out
    assert "revoked" in run("api-keys", "--all").out


def test_api_keys_allow_anonymous_only_without_keys(run: Run, data: Path) -> None:
    run("api-keys", "create", "laptop", "--user", "ana")
    assert "revoke all of them first" in run("api-keys", "allow-anonymous").err
    run("api-keys", "revoke", "laptop")
    with Limpet.open(data) as memory:
        assert memory.access.keys.required()
    assert "need no key until the next one" in run("api-keys", "allow-anonymous").out
    with Limpet.open(data) as memory:
        assert not memory.access.keys.required()


def test_api_keys_create_admin_key_belongs_to_its_tenant(run: Run, data: Path) -> None:
    made = run("api-keys", "create", "admin", "--admin", "--tenant", "acme", "--json").json
    assert (made["tenant"], made["grants"]) == ("acme", ["read:store", "write:store"])
    with Limpet.open(data) as memory:
        assert memory.access.keys.acting(made["secret"]).admin.doctor()
    assert run("api-keys", "--json").json == []
    assert len(run("api-keys", "--tenant", "acme", "--json").json) == 1


def test_api_keys_create_explains_refused_arguments(run: Run, data: Path) -> None:
    assert "say what the key may" in run("api-keys", "create", "x").err
    for option in (("--expires-in", "0d"), ("--grant", "all")):
        refused = run("api-keys", "create", "x", "--user", "ana", *option, "--json")
        assert refused.error["code"] == "invalid_input"
    assert run("api-keys", "revoke", "x").status == 0
    assert run("api-keys", "create").status == 2
