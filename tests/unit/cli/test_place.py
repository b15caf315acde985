from __future__ import annotations

import os

import pytest

from limpet.cli.options import user_folder


def test_user_folder_follows_platform_conventions(monkeypatch):
    monkeypatch.setenv("HOME", "/home/ana")
    assert user_folder({}, "linux") == "/home/ana/.local/share/limpet"
    assert user_folder({"XDG_DATA_HOME": "/srv/data"}, "linux") == "/srv/data/limpet"
    assert user_folder({"XDG_DATA_HOME": "relative"}, "linux") == "/home/ana/.local/share/limpet"
    assert user_folder({}, "darwin") == "/home/ana/Library/Application Support/limpet"
    assert user_folder({"LOCALAPPDATA": "C:\\Ana"}, "win32") == os.path.join("C:\\Ana", "limpet")
    assert user_folder({}, "win32") == os.path.join("/home/ana", "AppData", "Local", "limpet")


def test_data_defaults_to_platform_user_folder(run, monkeypatch, tmp_path):
    monkeypatch.delenv("LIMPET_DATA")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "xdg"))
    assert run("remember", "x", "--user", "a").status == 0
    assert (tmp_path / "xdg" / "limpet" / "limpet.db").exists()


def test_data_option_overrides_environment(run, tmp_path, data):
    run("remember", "x", "--user", "a", "--data", str(tmp_path / "other"))
    assert (tmp_path / "other" / "limpet.db").exists()
    assert not data.exists()


@pytest.mark.parametrize(
    "reading", [["sessions"], ["records"], ["records", "count"], ["recall", "x", "--user", "a"], ["sessions", "--json"]]
)
def test_read_commands_do_not_create_store(run, data, reading):
    done = run(*reading)
    assert done.status == 0
    assert done.err == f"limpet: note: there is no store at {data} yet\n"
    assert not data.exists()


@pytest.mark.parametrize(
    "reading",
    [
        ["doctor"],
        ["backup", "b.db"],
        ["sessions", "show", "00000000-0000-7000-8000-000000000000"],
        ["records", "show", "00000000-0000-7000-8000-000000000000"],
        ["forget", "00000000-0000-7000-8000-000000000000"],
        ["context", "x", "--session", "00000000-0000-7000-8000-000000000000"],
    ],
)
def test_commands_that_need_store_fail_without_one(run, data, reading):
    done = run(*reading)
    assert done.status == 1
    assert done.err == f"limpet: there is no store at {data}; name another with --data\n"
    assert not data.exists()


def test_data_folder_with_snapshot_is_imported_on_open(run, data):
    data.mkdir()
    (data / "sessions.json").write_text('[{"id": "telegram:7", "messages": [{"role": "user", "content": "hi"}]}]')
    assert [session["key"] for session in run("sessions", "--json").json] == ["telegram:7"]


@pytest.mark.parametrize("where", ["", " "])
def test_data_option_rejects_empty_value(run, where, tmp_path):
    done = run("remember", "x", "--user", "a", "--data", where)
    assert done.status == 1
    assert "--data is empty" in done.err
    assert not (tmp_path / "limpet.db").exists()


def test_data_in_unwritable_place_fails(run, tmp_path):
    (tmp_path / "file").write_text("")
    done = run("remember", "x", "--user", "a", "--data", str(tmp_path / "file" / "below"), "--json")
    assert (done.status, done.error["code"]) == (1, "store_read_only")


def test_data_file_that_is_not_a_database_is_corrupt(run, tmp_path):
    (tmp_path / "file").write_text("not a database, but long enough to look like one" * 100)
    done = run("remember", "x", "--user", "a", "--data", str(tmp_path / "file"), "--json")
    assert (done.status, done.error["code"]) == (1, "store_corrupt")


def test_data_option_rejects_unsupported_url_scheme(run):
    done = run("sessions", "--data", "mysql://localhost/x")
    assert done.status == 1
    assert "postgresql://" in done.err


def test_data_on_unreachable_postgres_is_unavailable(run):
    done = run("sessions", "--data", "postgresql://limpet@127.0.0.1:1/none", "--json")
    assert (done.status, done.error["code"]) == (1, "store_unavailable")


def test_data_with_foreign_tables_is_rejected(run, data):
    import sqlite3

    data.mkdir()
    raw = sqlite3.connect(data / "limpet.db")
    raw.execute("CREATE TABLE theirs (x)")
    raw.close()
    done = run("remember", "x", "--user", "a", "--json")
    assert (done.status, done.error["code"]) == (1, "store_corrupt")


def test_config_with_agent_sections_is_accepted(run, tmp_path):
    file = tmp_path / "settings.toml"
    file.write_text("[agents.coder.context]\nmax_tokens = 777\n")
    assert run("remember", "x", "--user", "a", "--config", str(file)).status == 0
    assert run("records", "--config", str(file)).status == 0
