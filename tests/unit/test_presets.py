"""The presets hold the numbers of the programs they are named after."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from limpet import Config
from limpet.config import CompactionSettings, LearningSettings, RetentionSettings
from limpet.config.load import PRESETS
from limpet.errors import ConfigError
from limpet.search.recipes import WEIGHTED


def settings(config: Config, *keys: str) -> tuple[Any, ...]:
    return tuple(getattr(getattr(config, key.partition(".")[0]), key.partition(".")[2]) for key in keys)


def test_default_config_archives_and_deletes_nothing_by_age() -> None:
    assert (RetentionSettings().messages_days, RetentionSettings().records_days) == (0, 0)
    assert (LearningSettings().decay, LearningSettings().delete_archived_days) == (False, 0)


def test_picobot_keeps_messages_90_days_and_its_context_budget() -> None:
    config = Config.preset("picobot")
    assert settings(config, "retention.messages_days", "retention.enabled") == (90, True)
    keys = "context.max_tokens", "context.recent_messages", "context.user_memories"
    assert settings(config, *keys) == (4000, 20, 50)
    assert settings(config, "compact.history_tokens", "compact.history_keep") == (8000, 10)


def test_golemcore_archives_after_30_days_and_has_its_layout() -> None:
    config = Config.preset("golemcore")
    assert settings(config, "context.layout", "context.recent_days") == ("golemcore", 7)
    assert settings(config, "context.pack_soft", "context.pack_hard") == (1800, 3500)
    tops = (f"context.{layer}_top" for layer in ("working", "episodic", "semantic", "procedural"))
    assert settings(config, *tops) == (6, 8, 6, 4)
    learn = "learn.promote", "learn.promote_confidence", "learn.decay", "learn.fade_days"
    assert settings(config, *learn) == (True, 0.75, True, 30)
    compact = "window", "keep", "characters_per_token", "overhead_tokens", "check_above"
    assert settings(config, *(f"compact.{key}" for key in compact)) == (50_000, 20, 3.5, 8000, 0.8)
    summary = "summary_tokens", "temperature", "timeout_s", "message_characters"
    assert settings(config, *(f"compact.{key}" for key in summary)) == (500, 0.3, 15.0, 300)


def test_sclaw_keeps_100_messages_and_10_facts() -> None:
    config = Config.preset("sclaw")
    assert settings(config, "storage.wal", "storage.busy_timeout_ms", "memory.enabled") == (True, 5000, True)
    assert settings(config, "context.recent_messages", "context.facts", "context.facts_tokens") == (100, 10, 2000)
    assert config.search.recipe == "words"


def test_araliya_caps_entries_and_transcript() -> None:
    config = Config.preset("araliya")
    assert settings(config, "session.kv_cap", "session.transcript_cap", "context.recent_messages") == (200, 500, 20)
    assert config.memory.file_stores == "basic_session"


def test_oxydra_chunks_and_weighs() -> None:
    config = Config.preset("oxydra")
    assert settings(config, "chunks.max_chars", "chunks.overlap", "search.recipe") == (640, 96, "weighted")
    assert (WEIGHTED.dense, WEIGHTED.words) == (0.7, 0.3)
    rolling = "compact.least_messages", "compact.roll_above", "compact.roll_to"
    assert settings(config, *rolling) == (4, 0.80, 0.50)
    assert config.schedules.summary_characters == 500


@pytest.mark.parametrize("name", PRESETS)
def test_preset_sets_known_settings(name: str) -> None:
    config = Config.preset(name)
    assert all(settings(config, key) == (value,) for key, value in PRESETS[name].items())


def test_preset_is_weaker_than_file_environment_and_overrides(tmp_path: Path) -> None:
    file = tmp_path / "limpet.toml"
    file.write_text('preset = "golemcore"\n[learn]\nfade_days = 60\n[context]\nworking_top = 1\nsemantic_top = 1\n')
    env = {"LIMPET_CONTEXT_SEMANTIC_TOP": "2"}
    config = Config.load(file, env=env, overrides={"context.procedural_top": 3})
    tops = ("context.working_top", "context.semantic_top", "context.procedural_top", "context.episodic_top")
    assert settings(config, "learn.fade_days", "learn.decay", *tops) == (60, True, 1, 2, 3, 8)


def test_preset_of_environment_takes_the_place_of_the_file_s(tmp_path: Path) -> None:
    file = tmp_path / "limpet.toml"
    file.write_text('preset = "golemcore"\n')
    config = Config.load(file, env={"LIMPET_PRESET": "picobot"})
    assert settings(config, "context.layout", "retention.messages_days") == ("lean", 90)


def test_agent_may_have_a_preset_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "limpet.toml"
    file.write_text('[agents.coder]\npreset = "golemcore"\n[agents.coder.compact]\nkeep = 7\n')
    config = Config.load(file, env={})
    coder = config.for_agent("coder")
    assert (config.compact, config.context.layout) == (CompactionSettings(), "lean")
    assert (coder.context.layout, coder.compact.window, coder.compact.keep) == ("golemcore", 50_000, 7)


def test_unknown_preset_is_an_error_with_a_suggestion(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"'golemcor' is not a preset; did you mean golemcore\?; there are picobot,"):
        Config.preset("golemcor")
    file = tmp_path / "limpet.toml"
    file.write_text("preset = 3\n")
    with pytest.raises(ConfigError, match=r"limpet.toml: 3 is not a preset"):
        Config.load(file, env={})
