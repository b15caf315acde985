"""limpet api-keys."""

from __future__ import annotations

from pathlib import Path

from limpet import Limpet
from tests.unit.cli.conftest import Run


def test_keys_are_made_listed_and_taken(run: Run, data: Path) -> None:
    assert run("api-keys").out == "No API keys: limpet api-keys create NAME makes one.\n"
    options = ("--user", "ana", "--agent", "bot", "--grant", "read:global", "--expires-in", "30d")
    made = run("api-keys", "create", "laptop", *options)
    secret, said = made.out.splitlines()
    assert said == "That is the secret of the key laptop. It is shown only now: keep it safe."
    with Limpet.open(data) as hf:
        assert repr(hf.access.keys.acting(secret)).endswith("as key:laptop>")
    lines = run("api-keys").out.splitlines()
    assert lines[0].split() == ["NAME", "ACTS", "FOR", "UNTIL", "LAST", "USED", "BY", "ID"]
    assert "user ana, agent bot, read:global" in lines[1]
    [listed] = run("api-keys", "list", "--user", "ana", "--json").json
    assert (listed["name"], listed["created_by"], listed["grants"]) == ("laptop", "operator", ["read:global"])
    assert listed["last_used_at"] is not None
    assert listed["expires_at"] is not None
    assert secret not in str(listed)
    assert run("api-keys", "--user", "bob", "--json").json == []
    with Limpet.open(data) as hf:
        hf.access.keys.acting(secret).access.keys.create("second", user="ana")
    assert run("api-keys", "revoke", "laptop").out == "laptop is revoked, and 1 made by it\n"
    assert run("api-keys", "revoke", "laptop", "--json").json == {"revoked": False, "keys": 0}
    assert run("api-keys", "list", "--json").json == []
    assert "revoked" in run("api-keys", "list", "--all").out
    assert "revoked" in run("api-keys", "--all").out


def test_an_admin_key_is_of_its_tenant(run: Run, data: Path) -> None:
    made = run("api-keys", "create", "admin", "--admin", "--tenant", "acme", "--json").json
    assert (made["tenant"], made["grants"]) == ("acme", ["read:store", "write:store"])
    with Limpet.open(data) as hf:
        assert hf.access.keys.acting(made["secret"]).admin.doctor()
    assert run("api-keys", "--json").json == []
    assert len(run("api-keys", "--tenant", "acme", "--json").json) == 1


def test_what_makes_no_key_says_why(run: Run, data: Path) -> None:
    assert "say what the key may" in run("api-keys", "create", "x").err
    for option in (("--expires-in", "0d"), ("--grant", "all")):
        refused = run("api-keys", "create", "x", "--user", "ana", *option, "--json")
        assert refused.error["code"] == "invalid_input"
    assert run("api-keys", "revoke", "x").status == 0
    assert run("api-keys", "create").status == 2
