from __future__ import annotations

import builtins
import subprocess
import sys
from dataclasses import FrozenInstanceError, fields
from pathlib import Path
from typing import Any

import pytest

from limpet.config import ChunkSettings, Config, SearchSettings, StorageSettings
from limpet.errors import ConfigError


def config_file(folder: Path, text: str, name: str = "limpet.toml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_config_defaults_match_specification():
    config = Config()
    assert config.storage == StorageSettings(wal=True, busy_timeout_ms=5000, synchronous="full")
    assert (config.session.kv_cap, config.session.transcript_cap) == (200, 500)
    assert (config.context.max_tokens, config.context.recent_messages) == (4000, 20)
    assert (config.chunks.max_chars, config.chunks.overlap) == (640, 96)
    assert (config.search.k, config.search.bm25_k1, config.search.bm25_b) == (10, 1.2, 0.5)
    assert Config.load(env={}) == config


def test_config_is_frozen():
    with pytest.raises(FrozenInstanceError):
        Config().search.k = 3  # type: ignore[misc]


def test_config_overrides_beat_environment_and_file(tmp_path):
    path = config_file(tmp_path, "[search]\nk = 1\nbm25_b = 0.5\n[storage]\nwal = false\n[session]\nkv_cap = 7\n")
    env = {"LIMPET_SEARCH_K": "2", "LIMPET_STORAGE_WAL": "on", "PATH": "/bin"}
    config = Config.load(path, env=env, overrides={"search.k": 3})
    assert (config.search.k, config.search.bm25_b, config.storage.wal, config.session.kv_cap) == (3, 0.5, True, 7)


def test_config_loads_yaml(tmp_path):
    path = config_file(tmp_path, "search:\n  k: 4\nstorage:\n  # wal: false\n", "limpet.yaml")
    assert Config.load(path).search.k == 4
    assert Config.load(config_file(tmp_path, "", "empty.yml"), env={}) == Config()


def test_config_yaml_without_pyyaml_names_extra(tmp_path, monkeypatch):
    path = config_file(tmp_path, "search: {k: 4}", "limpet.yaml")
    real = builtins.__import__

    def without_yaml(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "yaml":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_yaml)
    with pytest.raises(ConfigError, match=r"limpet\[yaml\]"):
        Config.load(path)


@pytest.mark.parametrize(
    ("text", "message"),
    (
        ("[serach]\nk = 1", "serach is not a section; did you mean search?"),
        ("[search]\nkk = 1", "search.kk is not a setting; did you mean search.k?"),
        ("[search]\nnothing_like_it = 1", "search.nothing_like_it is not a setting"),
        ("wal = true", "wal is not a section"),
        ("search = 3", "search is a section that holds settings, not 3"),
        ("[search]\nk = '5'", "search.k must be an integer from 1 to 1000, not '5'"),
        ("[search]\nk = true", "search.k must be an integer from 1 to 1000, not True"),
        ("[search]\nk = 1.0", "search.k must be an integer from 1 to 1000, not 1.0"),
        ("[search]\nk = 0", "search.k must be an integer from 1 to 1000, not 0"),
        ("[search]\nbm25_b = nan", "search.bm25_b must be a number from 0 to 1, not nan"),
        (f"[search]\nbm25_b = 1{'0' * 400}", "search.bm25_b must be a number from 0 to 1, not 1000"),
        ("[storage]\nwal = 1", "storage.wal must be true or false, not 1"),
        ("[storage]\nsynchronous = 'off'", 'storage.synchronous must be "full" or "normal", not \'off\''),
        ("[session]\ndefault_agent = ''", "session.default_agent is empty"),
        ("[search", "is not TOML"),
    ),
)
def test_config_rejects_invalid_file_with_its_path(tmp_path, text, message):
    path = config_file(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        Config.load(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)


@pytest.mark.parametrize("text", ("- a", "search: [", "3"))
def test_config_rejects_invalid_yaml_with_its_path(tmp_path, text):
    path = config_file(tmp_path, text, "limpet.yml")
    with pytest.raises(ConfigError) as caught:
        Config.load(path)
    assert str(caught.value).startswith(f"{path}: ")


def test_config_missing_file_is_config_error(tmp_path):
    with pytest.raises(ConfigError, match=r"nowhere\.toml: cannot be read"):
        Config.load(tmp_path / "nowhere.toml")


def test_config_non_text_file_is_config_error(tmp_path):
    (tmp_path / "limpet.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="is not TOML"):
        Config.load(tmp_path / "limpet.toml")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    (
        ("LIMPET_SEARCH_KK", "1", "LIMPET_SEARCH_KK is not a setting; did you mean LIMPET_SEARCH_K?"),
        ("LIMPET_STORGE_WAL", "1", "LIMPET_STORGE_WAL is not a setting; did you mean LIMPET_STORAGE_WAL?"),
        (
            "LIMPET_AGENTS_CODER_SERCH_K",
            "1",
            "LIMPET_AGENTS_CODER_SERCH_K is not a setting of an agent; did you mean LIMPET_AGENTS_CODER_SEARCH_K?",
        ),
        ("LIMPET_AGENTS_X", "1", "LIMPET_AGENTS_X is not a setting of an agent"),
        (
            "LIMPET_AGENT_CODER_SEARCH_K",
            "1",
            "LIMPET_AGENT_CODER_SEARCH_K is not a setting; did you mean LIMPET_AGENTS_CODER_SEARCH_K?",
        ),
        ("LIMPET_AGENT_CODER_SERCH_K", "1", "LIMPET_AGENT_CODER_SERCH_K is not a setting; did you mean LIMPET_AGENTS_"),
        ("LIMPET_AGNETS_CODER_SEARCH_K", "1", "did you mean LIMPET_AGENTS_CODER_SEARCH_K?"),
        ("LIMPET_CODER_SEARCH_K", "1", "did you mean LIMPET_AGENTS_CODER_SEARCH_K?"),
        ("LIMPET_AGENTS_CODER_SEARCH_K", "ten", "agents.coder.search.k must be an integer from 1 to 1000, not 'ten'"),
        ("LIMPET_SEARCH_K", "ten", "LIMPET_SEARCH_K: search.k must be an integer from 1 to 1000, not 'ten'"),
        ("LIMPET_SEARCH_K", "", "search.k must be an integer from 1 to 1000, not ''"),
        ("LIMPET_SEARCH_BM25_B", "inf", "search.bm25_b must be a number from 0 to 1, not inf"),
        ("LIMPET_STORAGE_WAL", "maybe", "storage.wal must be true or false, not 'maybe'"),
    ),
)
def test_config_rejects_invalid_environment_variable(name, text, message):
    with pytest.raises(ConfigError) as caught:
        Config.load(env={name: text})
    assert message in str(caught.value)


def test_config_ignores_unrelated_environment_variables():
    others = ("LIMPET_DATA", "LIMPET_CONFIG", "LIMPET_TEST_POSTGRES", "LIMPET_REQUIRE_POSTGRES", "SEARCH_K")
    assert Config.load(env=dict.fromkeys(others, "x")) == Config()


def test_the_environment_of_the_process_is_read_unless_another_is_given(monkeypatch):
    monkeypatch.setenv("LIMPET_SEARCH_K", "3")
    assert Config.load().search.k == 3
    assert Config.load(overrides={"search.k": 4}).search.k == 4
    assert Config.load(env={}).search.k == 10


def test_an_agent_has_variables_of_its_own(tmp_path):
    path = config_file(tmp_path, '[agents."Code-Helper".search]\nk = 1\n')
    env = {
        "LIMPET_SEARCH_K": "2",
        "LIMPET_AGENTS_CODE_HELPER_CONTEXT_MAX_TOKENS": "900",
        "LIMPET_AGENTS_CODER_SEARCH_K": "3",
    }
    config = Config.load(path, env=env)
    assert set(config.agents) == {"Code-Helper", "coder"}
    assert (config.search.k, config.for_agent("Code-Helper").search.k, config.for_agent("coder").search.k) == (2, 1, 3)
    assert config.for_agent("Code-Helper").context.max_tokens == 900


@pytest.mark.parametrize(("text", "wal"), (("true", True), ("1", True), ("Off", False), ("no", False)))
def test_config_parses_booleans_from_environment(text, wal):
    assert Config.load(env={"LIMPET_STORAGE_WAL": text}).storage.wal is wal


def test_config_says_how_a_setting_of_an_agent_is_named():
    with pytest.raises(ConfigError, match=r"agents\.NAME\.SECTION\.KEY"):
        Config.load(overrides={"agents.coder.own_store": True})


@pytest.mark.parametrize("name", ("search.kk", "search", "k", "serach.k"))
def test_config_rejects_unknown_override(name):
    with pytest.raises(ConfigError, match=r"override: .* is not a se"):
        Config.load(overrides={name: 1})


def test_settings_constructed_in_code_are_validated():
    with pytest.raises(ConfigError, match=r"search\.k must be an integer"):
        SearchSettings(k="3")  # type: ignore[arg-type]
    assert isinstance(SearchSettings(bm25_k1=1).bm25_k1, float)


def test_chunk_settings_reject_overlap_not_below_max_chars():
    with pytest.raises(ConfigError, match=r"chunks\.overlap must be below chunks\.max_chars"):
        ChunkSettings(max_chars=100, overlap=100)


def test_config_describe_covers_every_field():
    sections = [section.name for section in fields(Config) if section.name != "agents"]
    held = {f"{section}.{key}" for section in sections for key in _keys(getattr(Config(), section))}
    rows = list(Config.describe())
    assert {key for key, *_ in rows} == held
    assert all(kind and doc for _, kind, _, doc in rows)


def _keys(section: Any) -> list[str]:
    return [entry.name for entry in fields(section)]


def test_config_settings_work_in_every_layer(tmp_path):
    rows = list(Config.describe())
    overrides = {key: default for key, _, default, _ in rows}
    env = {f"LIMPET_{key.replace('.', '_').upper()}": str(default) for key, default in overrides.items()}
    assert Config.load(env=env) == Config.load(overrides=overrides) == Config()


def test_config_import_loads_no_heavy_modules():
    code = "import sys, limpet.config; print(*{'tomllib', 'yaml', 'numpy', 'psycopg'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
