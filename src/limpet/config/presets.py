"""The defaults of five programs whose memory Limpet includes. A preset is weaker than every other setting."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from limpet.config.setting import suggest
from limpet.errors import ConfigError

_PICOBOT = {
    "retention.messages_days": 90,
    "context.max_tokens": 4000,
    "context.recent_messages": 20,
    "context.user_memories": 50,
    "context.show_user_memories": True,
    "context.show_summary": True,
    "compact.enabled": True,
    "compact.history_tokens": 8000,
    "compact.history_keep": 10,
}
_GOLEMCORE = {
    "context.layout": "golemcore",
    "context.recent_days": 7,
    "context.pack_soft": 1800,
    "context.pack_hard": 3500,
    "context.working_top": 6,
    "context.episodic_top": 8,
    "context.semantic_top": 6,
    "context.procedural_top": 4,
    "learn.promote": True,
    "learn.promote_confidence": 0.75,
    "learn.decay": True,
    "learn.fade_days": 30,
    "notes.write_daily": True,
    "compact.enabled": True,
    "compact.window": 50_000,
    "compact.keep": 20,
    "compact.characters_per_token": 3.5,
    "compact.overhead_tokens": 8000,
    "compact.check_above": 0.8,
    "compact.summary_tokens": 500,
    "compact.temperature": 0.3,
    "compact.timeout_s": 15.0,
    "compact.message_characters": 300,
}
_SCLAW = {
    "storage.wal": True,
    "storage.busy_timeout_ms": 5000,
    "memory.enabled": True,
    "context.recent_messages": 100,
    "context.facts": 10,
    "context.facts_tokens": 2000,
    "search.recipe": "words",
}
_ARALIYA = {
    "session.kv_cap": 200,
    "session.transcript_cap": 500,
    "memory.file_stores": "basic_session",
    "context.recent_messages": 20,
}
_OXYDRA = {
    "chunks.max_chars": 640,
    "chunks.overlap": 96,
    "search.recipe": "weighted",
    "compact.least_messages": 4,
    "compact.roll_above": 0.8,
    "compact.roll_to": 0.5,
    "schedules.summary_characters": 500,
}
PRESETS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {"picobot": _PICOBOT, "golemcore": _GOLEMCORE, "sclaw": _SCLAW, "araliya": _ARALIYA, "oxydra": _OXYDRA}
)


def get_preset(name: object, where: str) -> Mapping[str, Any]:
    """The settings of a preset, each under "section.key"."""
    if not isinstance(name, str) or name not in PRESETS:
        known = ", ".join(PRESETS)
        raise ConfigError(f"{where}: {name!r} is not a preset{suggest(str(name), PRESETS)}; there are {known}")
    return PRESETS[name]
