"""The sections of the settings, a field each: its default, what it may be, and what it means."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal

from limpet.config.setting import Setting, setting
from limpet.errors import ConfigError, InvalidInput
from limpet.model.retention import parse_tenant_days
from limpet.model.times import load_timezone


class _SettingsBase:
    """Checks itself however it was made, so that code cannot hold a setting that a file could not."""

    __slots__ = ()

    def __post_init__(self) -> None:
        section = _NAMES[type(self)]
        for key, known in SETTINGS[section].items():
            object.__setattr__(self, key, known.check(getattr(self, key), f"{section}.{key}"))


def _check_zone(key: str, name: str) -> None:
    try:
        load_timezone(name)
    except InvalidInput as error:
        raise ConfigError(f"{key}: {error}") from None


@dataclass(frozen=True, slots=True)
class StorageSettings(_SettingsBase):
    wal: bool = setting(True, "SQLite keeps a write-ahead log: readers and the writer do not wait for each other")
    busy_timeout_ms: int = setting(5000, "how long a write waits for another process on the SQLite file", 0, 3_600_000)
    synchronous: Literal["full", "normal"] = setting(
        "full", "full survives a power cut; normal a killed process, and is faster", choices=("full", "normal")
    )
    readers: int = setting(8, "SQLite read connections kept open at most", 1, 256)
    group_size: int = setting(256, "writes of concurrent callers that share one commit at most", 1, 10_000)
    postgres_connections: int = setting(8, "PostgreSQL connections open at most", 1, 1000)
    connect_timeout_s: int = setting(10, "how long to wait for PostgreSQL to answer a new connection", 1, 3600)
    silence_s: int = setting(
        30, "seconds of a dead network after which a PostgreSQL connection is given up; 0: as the system does", 0, 3600
    )


@dataclass(frozen=True, slots=True)
class SessionSettings(_SettingsBase):
    kv_cap: int = setting(200, "key-value entries kept per session; beyond it the oldest goes", 1, 1_000_000)
    transcript_cap: int = setting(500, "messages a transcript shows at most", 1, 1_000_000)
    default_agent: str = setting("assistant", "the agent of a session that names none")
    import_snapshot: bool = setting(True, "a sessions.json found in the data folder is imported once")


@dataclass(frozen=True, slots=True)
class MemorySettings(_SettingsBase):
    """Whether and where an agent's memory is kept; mostly set for one agent: ``[agents.NAME.memory]``."""

    enabled: bool = setting(True, "off: every call is accepted and nothing is kept")
    place: Literal["shared", "own"] = setting(
        "shared",
        "shared: in the store that was opened; own: in a folder of its own, agents/NAME/ below it",
        choices=("shared", "own"),
    )
    file_stores: str = setting(
        "basic_session", "store types of a session kept as plain files, separated by commas; the first that can answers"
    )


@dataclass(frozen=True, slots=True)
class ContextSettings(_SettingsBase):
    max_tokens: int = setting(4000, "tokens of a context at most", 1, 100_000_000)
    reply_reserve: int = setting(1024, "tokens of a model's window kept free for its reply", 0, 100_000_000)
    recent_messages: int = setting(20, "newest messages in a context", 1, 100_000)
    history_share: float = setting(0.25, "share of the tokens that is the messages' when memory wants more", 0, 1)
    standing_share: float = setting(0.25, "share that is the records' and notes' when hits or messages want more", 0, 1)
    hits: int = setting(100, "recalled passages tried at most; as many enter as fit", 0, 1000)
    facts: int = setting(10, "records among the recalled passages at most", 0, 1000)
    facts_tokens: int = setting(2000, "tokens of those records at most", 0, 100_000_000)
    user_memories: int = setting(50, "memories a user stated under a key: the most relevant ones", 0, 10_000)
    working_top: int = setting(6, "working records: the best by score", 0, 10_000)
    semantic_top: int = setting(6, "semantic records: the best by score", 0, 10_000)
    procedural_top: int = setting(4, "procedural records: the best by score", 0, 10_000)
    episodic_top: int = setting(8, "episodic records: the best by score", 0, 10_000)
    episodic_days: int = setting(21, "how old an episodic record may be that was not recalled", 0, 100_000)
    pack_soft: int = setting(1800, "tokens of all scored records; past it only strong ones enter", 0, 100_000_000)
    pack_hard: int = setting(3500, "tokens of all scored records at most", 0, 100_000_000)
    pack_strong: float = setting(0.85, "score from which a record is strong", 0, 2)
    recent_days: int = setting(7, "days of notes before today", 0, 10_000)
    show_long_term: bool = setting(True, "the section of MEMORY.md and pinned records")
    show_user_memories: bool = setting(True, "the section of the user's stated memories")
    show_working: bool = setting(True, "the section of the session's working memory and working records")
    show_semantic: bool = setting(True, "the section of semantic records")
    show_procedural: bool = setting(True, "the section of procedural records")
    show_episodic: bool = setting(True, "the section of episodic records")
    show_today: bool = setting(True, "the section of today's notes")
    show_recent: bool = setting(True, "the section of the notes of the days before")
    show_relevant: bool = setting(True, "the section of recalled passages")
    show_profile: bool = setting(True, "what the user's profile says beyond the memories that are shown")
    show_summary: bool = setting(True, "the summary, when older messages were cut")

    def __post_init__(self) -> None:
        _SettingsBase.__post_init__(self)
        if self.history_share + self.standing_share > 1:
            raise ConfigError("context.history_share and context.standing_share are together at most 1")
        if self.pack_hard < self.pack_soft:
            raise ConfigError(f"context.pack_hard must be at least context.pack_soft ({self.pack_soft})")


@dataclass(frozen=True, slots=True)
class ChunkSettings(_SettingsBase):
    max_chars: int = setting(640, "characters of a chunk at most", 64, 100_000)
    overlap: int = setting(96, "characters a chunk repeats of the one before; less than max_chars", 0, 99_999)

    def __post_init__(self) -> None:
        _SettingsBase.__post_init__(self)
        if self.overlap >= self.max_chars:
            raise ConfigError(f"chunks.overlap must be below chunks.max_chars ({self.max_chars}), not {self.overlap}")


@dataclass(frozen=True, slots=True)
class EmbeddingSettings(_SettingsBase):
    model: str = setting(
        "auto",
        "auto (MiniLM where it is installed), none, hashed, minilm, openai:MODEL@URL, sentence-transformers:NAME or"
        " fastembed:NAME",
    )
    api_key_env: str = setting("OPENAI_API_KEY", "the environment variable that holds the key for openai:…")
    when: Literal["auto", "now", "later"] = setting(
        "auto",
        "now: a write waits for its vectors; later: a job makes them; auto: now while the embedder is quick",
        choices=("auto", "now", "later"),
    )
    quick_ms: int = setting(100, "milliseconds for one text up to which an embedder is quick", 1, 60_000)
    batch: int = setting(64, "texts handed to the embedder at a time", 1, 2048)
    background: bool = setting(True, "missing vectors wake the thread of this process, if jobs.worker lets it have one")


@dataclass(frozen=True, slots=True)
class LlmSettings(_SettingsBase):
    model: str = setting("none", "none, openai:MODEL@URL, anthropic:MODEL or anthropic:MODEL@URL")
    api_key_env: str = setting(
        "auto",
        "the environment variable that holds the key; auto: OPENAI_API_KEY or ANTHROPIC_API_KEY, as the model says",
    )
    timeout_s: float = setting(60.0, "seconds for an answer at most, whatever asks", 0.1, 3600)
    price: str = setting(
        "none", "of a million tokens, IN/OUT or IN/OUT/CACHED, such as 3/15/0.3; none: costs are not known"
    )


@dataclass(frozen=True, slots=True)
class CompactionSettings(_SettingsBase):
    """Each limit stands well above what is kept when it is passed: else every further message would pass it again."""

    enabled: bool = setting(True, "history is condensed by itself when it is due; compact() always works")
    background: bool = setting(
        True, "where a model writes the summaries, a job condenses after a turn, so that the next need not wait for it"
    )
    keep: int = setting(20, "newest messages kept by compact() and by the rules that name no other number", 0, 100_000)
    least_messages: int = setting(
        4, "messages without a summary before any rule fires, and condensed at least", 1, 100_000
    )
    window: int = setting(0, "tokens of the model's window where a call does not say; 0: not known", 0, 100_000_000)
    roll_above: float = setting(0.8, "share of the window in use above which the oldest messages are condensed", 0, 1)
    roll_to: float = setting(0.5, "share of the window to which they are condensed; below roll_above", 0, 1)
    history_tokens: int = setting(
        8000, "tokens of messages without a summary above which they are condensed", 1, 100_000_000
    )
    history_keep: int = setting(10, "newest messages kept then", 0, 100_000)
    messages: int = setting(40, "messages without a summary above which all but keep are condensed", 1, 1_000_000)
    characters_per_token: float = setting(3.5, "of the quick check against the window", 0.1, 100)
    overhead_tokens: int = setting(8000, "tokens of everything else in a prompt, for the quick check", 0, 100_000_000)
    check_above: float = setting(0.8, "share of the window above which the quick check fires", 0, 1)
    emergency_above: float = setting(0.95, "share of the window above which it is about to burst", 0, 1)
    emergency_keep: int = setting(5, "newest messages kept then, beside the summary", 0, 100_000)
    summary_tokens: int = setting(500, "tokens of a summary at most", 50, 100_000)
    temperature: float = setting(0.3, "of the model that writes the summary", 0, 2)
    timeout_s: float = setting(15.0, "seconds the model has for it", 0.1, 3600)
    message_characters: int = setting(300, "characters of each message the summary is written from", 20, 100_000)
    batch: int = setting(100, "messages told to the model at a time", 1, 10_000)

    def __post_init__(self) -> None:
        _SettingsBase.__post_init__(self)
        if self.roll_to >= self.roll_above:
            raise ConfigError(f"compact.roll_to must be below compact.roll_above ({self.roll_above})")
        if self.messages < self.keep + self.least_messages:
            raise ConfigError(
                f"compact.messages must be at least compact.keep + compact.least_messages "
                f"({self.keep + self.least_messages}): else every further message would condense again"
            )


@dataclass(frozen=True, slots=True)
class LearningSettings(_SettingsBase):
    enabled: bool = setting(True, "finished turns teach: facts, preferences, decisions and lessons become records")
    extractor: Literal["auto", "rules", "llm", "none"] = setting(
        "auto",
        "what finds them: rules, a language model, auto (the model where there is one), or none",
        choices=("auto", "rules", "llm", "none"),
    )
    turns: bool = setting(True, "each finished turn is an episodic record: what was asked, what was answered")
    secrets: bool = setting(True, "keys, tokens and passwords are masked before they reach long-term memory")
    llm_attempts: int = setting(3, "tries with the model before the rules take over", 1, 1000)
    timeout_s: float = setting(60.0, "seconds the model has for a turn", 0.1, 3600)
    # What becomes of records with time.
    promote: bool = setting(True, "what was learned in an episode and is sure enough becomes lasting knowledge")
    promote_confidence: float = setting(0.75, "how sure it must be", 0, 1)
    decay: bool = setting(True, "records nobody uses fade: they are archived, and deleted later")
    fade_days: int = setting(30, "days without use after which a record of middling worth fades; 0: never", 0, 100_000)
    delete_archived_days: int = setting(180, "days after which an archived record is deleted; 0: never", 0, 100_000)
    delete_past_days: int = setting(
        0, "days after which a learned record that is no longer true is deleted; 0: never", 0, 100_000
    )
    consolidate: bool = setting(True, "duplicates are merged, and the turns of a day condensed, while there is time")
    consolidate_hours: int = setting(24, "hours after a change until that is done", 1, 100_000)
    condense_days: int = setting(7, "days the turns of a day stay as they were; 0: for ever", 0, 100_000)
    condense_tokens: int = setting(300, "tokens of a condensed day at most", 50, 100_000)
    profile: bool = setting(True, "a short text about each user is kept up to date")
    profile_tokens: int = setting(300, "tokens of that text at most", 20, 100_000)


@dataclass(frozen=True, slots=True)
class DocumentSettings(_SettingsBase):
    max_file_bytes: int = setting(33_554_432, "bytes of a document's file at most", 1, 1_073_741_824)
    max_text_bytes: int = setting(8_388_608, "bytes of a document's text at most, in UTF-8", 1, 1_073_741_824)


@dataclass(frozen=True, slots=True)
class NotesSettings(_SettingsBase):
    enabled: bool = setting(True, "a context reads the user's own files, where the store has a folder")
    long_term: bool = setting(True, "a context reads MEMORY.md")
    daily: bool = setting(True, "a context reads the daily notes")
    write_daily: bool = setting(True, "each turn adds its line to the notes of its day")
    timezone: str = setting("UTC", "the zone whose days and hours notes follow, such as Europe/Lisbon")
    max_memory_bytes: int = setting(262_144, "bytes of MEMORY.md at most", 1, 4_194_304)
    max_day_bytes: int = setting(1_048_576, "bytes of one day's notes at most", 1024, 67_108_864)

    def __post_init__(self) -> None:
        _SettingsBase.__post_init__(self)
        _check_zone("notes.timezone", self.timezone)


@dataclass(frozen=True, slots=True)
class GraphSettings(_SettingsBase):
    enabled: bool = setting(
        True, "names and relations in what was said are kept as a graph, by a job in the background"
    )
    llm: bool = setting(False, "the language model reads for it, where there is one; without, rules do")
    message_names: int = setting(40, "names kept of one message or record at most", 1, 10_000)
    batch: int = setting(200, "messages read by one run of the job", 1, 10_000)
    llm_messages: int = setting(20, "messages shown to the model at a time", 1, 1000)
    entities: int = setting(
        1000, "entities that one look at the graph shows at most, the most mentioned first", 1, 1_000_000
    )
    mentions: int = setting(1000, "mentions one look at the graph shows at most, the oldest first", 1, 1_000_000)


@dataclass(frozen=True, slots=True)
class SearchSettings(_SettingsBase):
    recipe: str = setting(
        "default",
        "how a recall that names no recipe ranks",
        choices=("default", "words", "vectors", "weighted", "graph", "graph_global"),
    )
    k: int = setting(10, "hits of a recall that names no number", 1, 1000)
    rerank: int = setting(50, "hits a reranker looks at, where one is given", 1, 1000)
    bm25_k1: float = setting(1.2, "how much a word's repetition in one chunk counts", 0, 10)
    bm25_b: float = setting(0.5, "how far long chunks are held back: 0 not at all, 1 in full proportion", 0, 1)
    cache_mb: int = setting(256, "megabytes of vectors a process remembers at most, over all users", 1, 1_000_000)


@dataclass(frozen=True, slots=True)
class JobSettings(_SettingsBase):
    worker: bool = setting(True, "a thread of this process does background work")
    attempts: int = setting(50, "runs of a job that fails, or whose worker dies, before it is laid aside", 1, 10_000)
    # A lease that ends further ahead than an hour is taken for a clock's mistake.
    lease_s: int = setting(300, "seconds a worker holds a job without a word before another may take it", 1, 3600)
    longest_wait_s: int = setting(3600, "seconds a failed job waits at most; the first times less", 1, 86_400)


@dataclass(frozen=True, slots=True)
class ScheduleSettings(_SettingsBase):
    worker: bool = setting(False, "limpet worker runs schedules, too; without it, limpet worker --schedules does")
    timezone: str = setting("UTC", "the zone of a schedule that names none, such as Europe/Lisbon")
    per_user: int = setting(50, "schedules of a user at most, those that have ended apart", 1, 100_000)
    keep_ended: int = setting(50, "schedules of a user that have ended and are kept at most", 0, 100_000)
    smallest_gap_s: int = setting(60, "seconds between two firings of a schedule at least", 1, 31_536_000)
    gap_firings: int = setting(500, "firings that are looked at for that", 2, 10_000)
    goal_bytes: int = setting(16_384, "bytes of a goal at most", 1, 1_048_576)
    history: int = setting(20, "runs kept of each schedule", 1, 100_000)
    summary_characters: int = setting(500, "characters of what a run said that are its summary", 1, 100_000)
    page_characters: int = setting(4000, "characters of a page of what a run said", 1, 1_000_000)
    attempts: int = setting(3, "runs of one firing that fails, or whose runner dies, before it is given up", 1, 1000)
    first_wait_s: int = setting(60, "seconds before a failed firing is tried again; twice as long each time", 1, 86_400)
    longest_wait_s: int = setting(3600, "seconds of that wait at most", 1, 86_400)
    notify_after: int = setting(3, "failed runs in a row after which somebody is told", 1, 10_000)
    disable_after: int = setting(5, "failed runs in a row after which a schedule is switched off", 1, 10_000)
    lease_s: int = setting(300, "seconds a runner that says nothing holds a firing before another takes it", 1, 3600)
    longest_run_s: int = setting(3600, "seconds a run may take before its runner is taken for hung", 1, 604_800)
    notice_hours: int = setting(24, "hours a notification is tried to be delivered", 1, 8760)

    def __post_init__(self) -> None:
        _SettingsBase.__post_init__(self)
        _check_zone("schedules.timezone", self.timezone)


@dataclass(frozen=True, slots=True)
class RetentionSettings(_SettingsBase):
    """How long things are kept, other days for one agent: ``[agents.NAME.retention]``."""

    enabled: bool = setting(True, "an hourly job removes what is older than this, and sessions whose time is over")
    messages_days: int = setting(90, "days a message is kept; 0: for ever", 0, 100_000)
    records_days: int = setting(
        0, "days a learned record is kept that is neither changed nor used; 0: as long as it does not fade", 0, 100_000
    )
    documents_days: int = setting(0, "days a document is kept that is not changed; 0: for ever", 0, 100_000)
    tenants: str = setting(
        "none", "other days for single tenants, such as acme=30, acme.records=365, beta=0", most=65_536
    )

    def __post_init__(self) -> None:
        _SettingsBase.__post_init__(self)
        try:
            parse_tenant_days(self.tenants)
        except InvalidInput as error:
            raise ConfigError(f"retention.tenants: {error}") from None


@dataclass(frozen=True, slots=True)
class AsyncSettings(_SettingsBase):
    threads: int = setting(8, "threads behind AsyncLimpet", 1, 256)


@dataclass(frozen=True, slots=True)
class McpSettings(_SettingsBase):
    purge: bool = setting(False, "the tool memory_purge is offered over MCP; it asks the user each time")


@dataclass(frozen=True, slots=True)
class AuditSettings(_SettingsBase):
    enabled: bool = setting(True, "who did what is kept in the table `audit`, without what was said")
    reads: bool = setting(True, "calls that only read are counted, too")
    log: bool = setting(True, "a line for each call in the log `limpet.audit`, at level INFO")
    keep_days: int = setting(365, "days an entry is kept; 0: for ever", 0, 36_500)
    operator: str = setting("operator", "the name of whoever opens the store")


@dataclass(frozen=True, slots=True)
class EncryptionSettings(_SettingsBase):
    key_env: str = setting("none", "the environment variable that holds a master key for all tenants, or none")
    key_file: str = setting("none", "a file with a master key, a folder with a key file for each tenant, or none")
    required: bool = setting(False, "a tenant that is not sealed is not written to")
    plain_files: bool = setting(False, "a sealed tenant's notes and items may be written as plain files")

    def __post_init__(self) -> None:
        _SettingsBase.__post_init__(self)
        if "none" not in (self.key_env, self.key_file):
            raise ConfigError("encryption.key_env and encryption.key_file are two places for keys: set one of them")


@dataclass(frozen=True, slots=True)
class ServerSettings(_SettingsBase):
    """What `limpet serve` does."""

    host: str = setting("127.0.0.1", "the address it listens on; others than this machine's own need API keys")
    port: int = setting(8420, "the port it listens on; 0: any that is free", 0, 65_535)
    hosts: str = setting("none", "further names it answers to, such as memory.example.org, another.example", most=4096)
    max_body_bytes: int = setting(8 * 2**20, "bytes of a request at most", 1024, 2**30)
    header_seconds: int = setting(10, "how long the headers of a request may take", 1, 3600)
    body_seconds: int = setting(30, "how long a body may take", 1, 3600)
    answer_seconds: int = setting(60, "how long a caller may take nothing of an answer", 1, 3600)
    requests_per_minute: int = setting(6000, "requests of one API key a minute; 0: as many as come", 0, 10_000_000)
    threads: int = setting(8, "requests that are worked on at once", 1, 256)
    waiting: int = setting(1000, "requests that wait or are worked on; beyond it they are refused", 1, 100_000)
    streams: int = setting(100, "readers of live events at once", 0, 10_000)
    shutdown_seconds: int = setting(10, "how long it waits for requests that were begun when it stops", 0, 3600)


@dataclass(frozen=True, slots=True)
class TelemetrySettings(_SettingsBase):
    opentelemetry: bool = setting(False, "spans and metrics go to OpenTelemetry as this program has set it up")
    names: bool = setting(False, "spans and observers are told names of users and ids, too")
    log_format: Literal["text", "json"] = setting(
        "text", "the log lines of commands that stay: words, or a JSON object each", choices=("text", "json")
    )
    log_level: Literal["debug", "info", "warning", "error"] = setting(
        "warning", "the least they tell", choices=("debug", "info", "warning", "error")
    )
    error_words: bool = setting(False, "they tell the words of errors, which may quote what somebody said")


SECTIONS: dict[str, Any] = {
    "storage": StorageSettings,
    "session": SessionSettings,
    "memory": MemorySettings,
    "context": ContextSettings,
    "compact": CompactionSettings,
    "learn": LearningSettings,
    "chunks": ChunkSettings,
    "documents": DocumentSettings,
    "embedding": EmbeddingSettings,
    "llm": LlmSettings,
    "notes": NotesSettings,
    "graph": GraphSettings,
    "search": SearchSettings,
    "jobs": JobSettings,
    "retention": RetentionSettings,
    "aio": AsyncSettings,
    "audit": AuditSettings,
    "schedules": ScheduleSettings,
    "encryption": EncryptionSettings,
    "server": ServerSettings,
    "mcp": McpSettings,
    "observe": TelemetrySettings,
}
_NAMES = {kind: name for name, kind in SECTIONS.items()}
SETTINGS: dict[str, dict[str, Setting]] = {
    name: {entry.name: entry.metadata["setting"] for entry in fields(kind)} for name, kind in SECTIONS.items()
}
# One for all agents that share it.
STORE_SECTIONS = ("storage", "chunks", "embedding", "documents", "jobs", "graph", "audit", "schedules", "encryption")
PROCESS_SECTIONS = ("aio", "server", "mcp", "observe")
KEYS = [f"{section}.{key}" for section, settings in SETTINGS.items() for key in settings]
