"""grants and audit on the command line."""

from __future__ import annotations


def test_grants_add_list_and_remove(run, talk):
    assert run("grants").out == "No grants: everybody has their own memory, and nothing else.\n"
    assert run("grants", "--json").json == []
    assert run("grants", "add", "bob", "read:user:alice").out == "bob may now: read:user:alice\n"
    assert run("grants", "add", "bob", "read:user:alice").out == "bob had already: read:user:alice\n"
    assert run("grants", "add", "carol", "write:global", "--json").json == {"granted": True}
    listed = run("grants").out.splitlines()
    assert listed[0].split() == ["USER", "GRANT", "SINCE", "BY"]
    assert [line.split()[:2] for line in listed[1:]] == [["bob", "read:user:alice"], ["carol", "write:global"]]
    [one] = run("grants", "list", "--user", "bob", "--json").json
    assert (one["user"], one["grant"], one["by"]) == ("bob", "read:user:alice", "operator")
    assert run("grants", "--tenant", "acme", "--json").json == []
    assert run("grants", "remove", "bob", "read:user:alice").out == "bob no longer has: read:user:alice\n"
    assert run("grants", "remove", "bob", "read:user:alice", "--json").json == {"revoked": False}


def test_grants_add_rejects_invalid_grant(run, talk):
    done = run("grants", "add", "bob", "everything")
    assert done.status == 1
    assert "a grant is read or write" in done.err
    assert run("grants", "add", "bob").status == 2


def test_audit_lists_and_filters_entries(run, talk):
    run("recall", "dog", "--user", "alice")
    run("forget", "--query", "nothing like it", "--user", "alice", "--yes")
    run("grants", "add", "bob", "read:global")
    [entry] = run("audit", "--operation", "access.grant", "--json").json
    assert (entry["principal"], entry["access"], entry["outcome"], entry["user"], entry["calls"]) == (
        "operator",
        "write",
        "done",
        "bob",
        1,
    )
    lines = run("audit", "--user", "alice", "--operation", "recall").out.splitlines()
    assert lines[0].split() == ["WHEN", "WHO", "DID", "CALLS", "OUTCOME", "WHOSE"]
    assert lines[1].endswith("user alice")
    assert "--offset 1 shows the next" in run("audit", "--limit", "1").out
    assert run("audit", "--outcome", "refused").out == "No such entries.\n"
    assert run("audit", "--since", "2999-01-01", "--json").json == []
    assert run("audit", "--offset", "9999").out.startswith("No entries so far down.")
    assert run("audit", "--outcome", "maybe").status == 2


def test_audit_reports_empty_log(run):
    done = run("audit")
    assert done.out == "No entries: nobody has done anything yet, or audit.enabled is off.\n"
    assert "there is no store" in done.err
    assert run("grants", "remove", "bob", "read:global").status == 1
