"""Every setting, once: its default, what it may be, and what it means.

Weakest first: the defaults below, a preset, a file, the environment, overrides. An unknown name or value is an error
that says where it stands.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, fields
from os import PathLike
from typing import Annotated, Any, Literal

from limpet.config.setting import Setting, check_agent_name
from limpet.errors import ConfigError, InvalidInput
from limpet.model.constraints import Choice, Integer, Number, Printable
from limpet.model.dataclass import dataclass
from limpet.model.privacy import parse_tenant_days
from limpet.model.schema import fields_of
from limpet.model.values import load_timezone, parse_user_zones

# One for all agents that share it.
STORE_SECTIONS = ("storage", "chunks", "embedding", "documents", "jobs", "graph", "audit", "schedules", "encryption")
PROCESS_SECTIONS = ("aio", "server", "mcp", "observe")
RECIPES = ("default", "words", "vectors", "weighted", "graph", "graph_global")

Name = Annotated[str, Printable()]
Share = Annotated[float, Number(0, 1)]
Tokens = Annotated[int, Integer(0, 100_000_000)]
Count = Annotated[int, Integer(0, 10_000)]
Amount = Annotated[int, Integer(0, 100_000)]
Several = Annotated[int, Integer(1, 100_000)]
Seconds = Annotated[int, Integer(1, 3600)]
Timeout = Annotated[float, Number(0.1, 3600)]


class _SettingsBase:
    """Checks itself however it was made, so that code cannot hold a setting that a file could not."""

    __slots__ = ()

    def __post_init__(self) -> None:
        section = NAMES[type(self)]
        for key, known in SETTINGS[section].items():
            object.__setattr__(self, key, known.check(getattr(self, key), f"{section}.{key}"))
        self._check()

    def _check(self) -> None:
        """What one setting alone cannot say."""


def _parse(key: str, text: str, parse: Callable[[str], Any]) -> None:
    try:
        parse(text)
    except InvalidInput as error:
        raise ConfigError(f"{key}: {error}") from None


@dataclass(frozen=True, slots=True)
class StorageSettings(_SettingsBase):
    wal: Annotated[bool, "SQLite keeps a write-ahead log: readers and the writer do not wait for each other"] = True
    busy_timeout_ms: Annotated[int, Integer(0, 3_600_000), "how long a write waits for another one"] = 5000
    synchronous: Annotated[Literal["full", "normal"], "full survives a power cut; normal only a killed process"] = (
        "full"
    )
    readers: Annotated[int, Integer(1, 256), "SQLite read connections kept open at most"] = 8
    group_size: Annotated[int, Integer(1, 10_000), "concurrent writes that share one commit on SQLite at most"] = 256
    postgres_connections: Annotated[int, Integer(1, 1000), "PostgreSQL connections at most; half of them write"] = 8
    prepare_statements: Annotated[bool, "PostgreSQL prepares frequent statements; never behind a pooler"] = True
    connect_timeout_s: Annotated[Seconds, "seconds that a new PostgreSQL connection may take"] = 10
    silence_s: Annotated[int, Integer(0, 3600), "seconds until a dead connection is dropped; 0: as the system does"] = (
        30
    )
    read_url: Annotated[Name, "a PostgreSQL standby that answers recalls and contexts, or none"] = "none"
    read_max_age_s: Annotated[int, Integer(0, 3600), "maximum age of a standby's answers, in seconds"] = 5


@dataclass(frozen=True, slots=True)
class TurnSettings(_SettingsBase):
    on_lost_write: Annotated[
        Literal["raise", "log"], "a turn that cannot be kept raises StorageError, or is logged and reply() returns None"
    ] = "raise"


@dataclass(frozen=True, slots=True)
class SessionSettings(_SettingsBase):
    kv_cap: Annotated[int, Integer(1, 1_000_000), "key-value entries per session; then the oldest is removed"] = 200
    transcript_cap: Annotated[int, Integer(1, 1_000_000), "messages a transcript shows at most"] = 500
    default_agent: Annotated[Name, "the agent of a session that names none"] = "assistant"
    import_snapshot: Annotated[bool, "a sessions.json found in the data folder is imported once"] = True


@dataclass(frozen=True, slots=True)
class MemorySettings(_SettingsBase):
    """Whether and where an agent's memory is kept; mostly set for one agent: ``[agents.NAME.memory]``."""

    enabled: Annotated[bool, "off: every call is accepted and nothing is kept"] = True
    place: Annotated[
        Literal["shared", "own"],
        "shared: in the store that was opened; own: in a folder of its own, agents/NAME/ below it",
    ] = "shared"
    file_stores: Annotated[
        Name, "store types of sessions kept as plain files, by commas; the first that supports an operation handles it"
    ] = "basic_session"


@dataclass(frozen=True, slots=True)
class ContextSettings(_SettingsBase):
    layout: Annotated[
        Literal["lean", "golemcore"],
        "lean: about the user, instructions, notes, what is relevant; golemcore: the nine sections of that program",
    ] = "lean"
    standing: Annotated[Count, "statements about the user in the lean layout at most"] = 40
    max_tokens: Annotated[int, Integer(1, 100_000_000), "tokens of a context at most"] = 4000
    reply_reserve: Annotated[Tokens, "tokens of a model's window kept free for its reply"] = 1024
    recent_messages: Annotated[Several, "newest messages in a context"] = 20
    history_share: Annotated[Share, "share of the tokens for messages if memory needs more"] = 0.25
    standing_share: Annotated[Share, "share of the tokens for records and notes if hits or messages need more"] = 0.15
    hits: Annotated[int, Integer(0, 1000), "hits considered at most; as many are shown as fit"] = 100
    facts: Annotated[int, Integer(0, 1000), "records among those hits at most"] = 10
    facts_tokens: Annotated[Tokens, "tokens of those records at most"] = 2000
    user_memories: Annotated[Count, "memories a user stated under a key: the most relevant ones"] = 50
    working_top: Annotated[Count, "working records: the best by score"] = 6
    semantic_top: Annotated[Count, "semantic records: the best by score"] = 6
    procedural_top: Annotated[Count, "procedural records: the best by score"] = 4
    episodic_top: Annotated[Count, "episodic records: the best by score"] = 8
    episodic_days: Annotated[Amount, "how old an episodic record may be that was not recalled"] = 21
    pack_soft: Annotated[Tokens, "tokens of all scored records; past it only strong ones enter"] = 1800
    pack_hard: Annotated[Tokens, "tokens of all scored records at most"] = 3500
    pack_strong: Annotated[float, Number(0, 2), "score from which a record is strong"] = 0.85
    recent_days: Annotated[Count, "days of notes before today"] = 7
    show_long_term: Annotated[bool, "the section of MEMORY.md and pinned records"] = True
    show_user_memories: Annotated[bool, "the section of the user's stated memories"] = True
    show_working: Annotated[bool, "the section of the session's working memory and working records"] = True
    show_semantic: Annotated[bool, "the section of semantic records"] = True
    show_procedural: Annotated[bool, "the section of procedural records"] = True
    show_episodic: Annotated[bool, "the section of episodic records"] = True
    show_today: Annotated[bool, "the section of today's notes"] = True
    show_recent: Annotated[bool, "the section of earlier days' notes"] = True
    show_relevant: Annotated[bool, "the section of hits"] = True
    show_profile: Annotated[bool, "lines of the user's profile that add to the memories shown"] = True
    show_summary: Annotated[bool, "the summary, if older messages were left out"] = True

    def _check(self) -> None:
        if self.history_share + self.standing_share > 1:
            raise ConfigError("context.history_share and context.standing_share are together at most 1")
        if self.pack_hard < self.pack_soft:
            raise ConfigError(f"context.pack_hard must be at least context.pack_soft ({self.pack_soft})")


@dataclass(frozen=True, slots=True)
class ChunkSettings(_SettingsBase):
    max_chars: Annotated[int, Integer(64, 100_000), "characters of a chunk at most"] = 640
    overlap: Annotated[int, Integer(0, 99_999), "characters a chunk repeats of the one before; below max_chars"] = 96

    def _check(self) -> None:
        if self.overlap >= self.max_chars:
            raise ConfigError(f"chunks.overlap must be below chunks.max_chars ({self.max_chars}), not {self.overlap}")


@dataclass(frozen=True, slots=True)
class EmbeddingSettings(_SettingsBase):
    model: Annotated[
        Name,
        "encoder (Limpet's own), none, minilm, hashed, openai:MODEL@URL, sentence-transformers:NAME or fastembed:NAME",
    ] = "encoder"
    api_key_env: Annotated[Name, "the environment variable that holds the key for openai:…"] = "OPENAI_API_KEY"
    when: Annotated[
        Literal["auto", "now", "later"],
        "now: a write waits for its vectors; later: a job makes them; auto: now, unless the embedder is slow",
    ] = "auto"
    quick_ms: Annotated[int, Integer(1, 60_000), "milliseconds for one text up to which an embedder is quick"] = 100
    batch: Annotated[int, Integer(1, 2048), "texts handed to the embedder at a time"] = 64
    background: Annotated[bool, "missing vectors wake the thread of this process, if jobs.worker allows one"] = True


@dataclass(frozen=True, slots=True)
class LlmSettings(_SettingsBase):
    model: Annotated[Name, "none, openai:MODEL@URL, anthropic:MODEL or anthropic:MODEL@URL"] = "none"
    api_key_env: Annotated[
        Name,
        "the environment variable that holds the key; auto: OPENAI_API_KEY or ANTHROPIC_API_KEY, as the model says",
    ] = "auto"
    timeout_s: Annotated[Timeout, "seconds for an answer at most, whatever asks"] = 60.0
    price: Annotated[Name, "of a million tokens, IN/OUT or IN/OUT/CACHED, such as 3/15/0.3; none: unknown"] = "none"
    daily_cost: Annotated[float, Number(0, 1e9), "what it may cost in a day, of UTC; 0: no limit; needs a price"] = 0.0


@dataclass(frozen=True, slots=True)
class CompactionSettings(_SettingsBase):
    """Each limit stands well above what is kept when it is passed: else every further message would pass it again."""

    enabled: Annotated[bool, "history is compacted automatically when it is due; compact() always works"] = True
    background: Annotated[
        bool, "if a model writes the summaries, a job compacts after a turn, so that the next turn does not wait for it"
    ] = True
    keep: Annotated[Amount, "newest messages kept by compact() and by the rules that name no other number"] = 20
    least_messages: Annotated[Several, "messages without a summary before any rule fires, and compacted at least"] = 4
    window: Annotated[Tokens, "tokens of the model's window if a call names none; 0: unknown"] = 0
    roll_above: Annotated[Share, "share of the window in use above which the oldest messages are compacted"] = 0.8
    roll_to: Annotated[Share, "share of the window to which they are compacted; below roll_above"] = 0.5
    history_tokens: Annotated[
        int, Integer(1, 100_000_000), "tokens of messages without a summary before they are compacted"
    ] = 8000
    history_keep: Annotated[Amount, "newest messages kept then"] = 10
    messages: Annotated[int, Integer(1, 1_000_000), "messages without a summary before all but keep are compacted"] = 40
    characters_per_token: Annotated[float, Number(0.1, 100), "for the quick check against the window"] = 3.5
    overhead_tokens: Annotated[Tokens, "tokens of everything else in a prompt, for the quick check"] = 8000
    check_above: Annotated[Share, "share of the window above which the quick check fires"] = 0.8
    emergency_above: Annotated[Share, "share of the window above which only emergency_keep messages are kept"] = 0.95
    emergency_keep: Annotated[Amount, "newest messages kept then, with the summary"] = 5
    summary_tokens: Annotated[int, Integer(50, 100_000), "tokens of a summary at most"] = 500
    temperature: Annotated[float, Number(0, 2), "temperature of the model that writes the summary"] = 0.3
    timeout_s: Annotated[Timeout, "seconds the model has for it"] = 15.0
    message_characters: Annotated[int, Integer(20, 100_000), "characters of a message that a summary reads"] = 300
    batch: Annotated[int, Integer(1, 10_000), "messages sent to the model at a time"] = 100

    def _check(self) -> None:
        if self.roll_to >= self.roll_above:
            raise ConfigError(f"compact.roll_to must be below compact.roll_above ({self.roll_above})")
        if self.messages < self.keep + self.least_messages:
            raise ConfigError(
                f"compact.messages must be at least compact.keep + compact.least_messages "
                f"({self.keep + self.least_messages}): otherwise each new message would compact again"
            )


@dataclass(frozen=True, slots=True)
class LearningSettings(_SettingsBase):
    enabled: Annotated[bool, "learn facts, preferences, decisions and lessons from finished turns"] = True
    extractor: Annotated[
        Literal["auto", "rules", "llm", "none"],
        "what finds them: rules, a language model, auto (the model where there is one), or none",
    ] = "auto"
    turns: Annotated[bool, "each finished turn is an episodic record: what was asked, what was answered"] = True
    secrets: Annotated[bool, "keys, tokens and passwords are masked before they reach long-term memory"] = True
    llm_attempts: Annotated[int, Integer(1, 1000), "tries with the model before the rules take over"] = 3
    timeout_s: Annotated[Timeout, "seconds the model has for a turn"] = 60.0
    # What becomes of records with time.
    promote: Annotated[bool, "episodic records that are sure enough become lasting knowledge"] = True
    promote_confidence: Annotated[Share, "how sure it must be"] = 0.75
    decay: Annotated[bool, "learned records nobody uses are archived after fade_days, and not recalled"] = False
    fade_days: Annotated[Amount, "days without use after which an average record fades; 0: never"] = 30
    delete_archived_days: Annotated[Amount, "days an archived record is kept; 0: forever"] = 0
    delete_past_days: Annotated[Amount, "days until a learned record that is no longer true is deleted; 0: never"] = 0
    consolidate: Annotated[bool, "duplicates are merged, and the turns of a day summarized, while there is time"] = True
    consolidate_hours: Annotated[Several, "hours after a change until that is done"] = 24
    summary_days: Annotated[Amount, "days until the turns of a day become one summary; 0: never"] = 7
    summary_tokens: Annotated[int, Integer(50, 100_000), "tokens of the summary of a day at most"] = 300
    profile: Annotated[bool, "a short text about each user is kept up to date"] = True
    profile_tokens: Annotated[int, Integer(20, 100_000), "tokens of that text at most"] = 300


@dataclass(frozen=True, slots=True)
class DocumentSettings(_SettingsBase):
    max_file_bytes: Annotated[int, Integer(1, 1_073_741_824), "bytes of a document's file at most"] = 33_554_432
    max_text_bytes: Annotated[int, Integer(1, 1_073_741_824), "bytes of a document's text at most"] = 8_388_608


@dataclass(frozen=True, slots=True)
class NotesSettings(_SettingsBase):
    enabled: Annotated[bool, "a context reads the user's own notes"] = True
    long_term: Annotated[bool, "a context reads MEMORY.md"] = True
    daily: Annotated[bool, "a context reads the daily notes"] = True
    write_daily: Annotated[bool, "each turn adds its line to the notes of its day"] = True
    items: Annotated[bool, "where there is a folder, a job copies records to items/…jsonl after they changed"] = True
    folder: Annotated[
        Name, "where a store on PostgreSQL has its plain files, the same for all programs on it; none: it has none"
    ] = "none"
    timezone: Annotated[Name, "the zone whose days and hours notes follow, such as Europe/Lisbon"] = "UTC"
    timezones: Annotated[str, Printable(65_536), "zones of users, for their days and hours: ana=Asia/Tokyo, …"] = "none"
    max_memory_bytes: Annotated[int, Integer(1, 4_194_304), "bytes of MEMORY.md at most"] = 262_144
    max_day_bytes: Annotated[int, Integer(1024, 67_108_864), "bytes of one day's notes at most"] = 1_048_576

    def _check(self) -> None:
        _parse("notes.timezone", self.timezone, load_timezone)
        _parse("notes.timezones", self.timezones, parse_user_zones)

    def find_zone(self, user: str | None, default: str | None = None) -> str:
        """The zone of this user, else the default, which is that of all notes."""
        return parse_user_zones(self.timezones).get(user or "") or default or self.timezone


@dataclass(frozen=True, slots=True)
class GraphSettings(_SettingsBase):
    enabled: Annotated[bool, "names and relations in what was said are kept as a graph, in the background"] = True
    llm: Annotated[bool, "the language model reads for the graph, if there is one; else rules do"] = False
    message_names: Annotated[int, Integer(1, 10_000), "names kept of one message or record at most"] = 40
    batch: Annotated[int, Integer(1, 10_000), "messages read by one run of the job"] = 200
    llm_messages: Annotated[int, Integer(1, 1000), "messages shown to the model at a time"] = 20
    entities: Annotated[int, Integer(1, 1_000_000), "entities returned at most, the most mentioned first"] = 1000
    mentions: Annotated[int, Integer(1, 1_000_000), "mentions returned at most, oldest first"] = 1000


@dataclass(frozen=True, slots=True)
class SearchSettings(_SettingsBase):
    recipe: Annotated[str, Choice(RECIPES), "how a recall that names no recipe ranks"] = "default"
    k: Annotated[int, Integer(1, 1000), "hits of a recall that names no number"] = 10
    rerank: Annotated[int, Integer(1, 1000), "hits passed to a reranker, if there is one"] = 50
    bm25_k1: Annotated[float, Number(0, 10), "how much a word's repetition in one chunk counts"] = 1.2
    bm25_b: Annotated[Share, "how much long chunks are penalized: 0 not at all, 1 in full proportion"] = 0.5
    cache_mb: Annotated[int, Integer(1, 1_000_000), "megabytes of vectors that a process caches, over all users"] = 256


@dataclass(frozen=True, slots=True)
class JobSettings(_SettingsBase):
    worker: Annotated[bool, "a thread of this process does background work"] = True
    attempts: Annotated[
        int, Integer(1, 10_000), "runs of a job that fails, or whose worker dies, before it is dead"
    ] = 50
    # A lease that ends further ahead than an hour is taken for a clock's mistake.
    lease_s: Annotated[Seconds, "seconds a silent worker holds a job before another takes it"] = 300
    longest_wait_s: Annotated[int, Integer(1, 86_400), "seconds a failed job waits at most; less at first"] = 3600


@dataclass(frozen=True, slots=True)
class ScheduleSettings(_SettingsBase):
    worker: Annotated[bool, "limpet worker runs schedules, too; without it, limpet worker --schedules does"] = False
    timezone: Annotated[Name, "the zone of a schedule that names none, such as Europe/Lisbon"] = "UTC"
    per_user: Annotated[Several, "schedules of a user at most, not counting ended ones"] = 50
    keep_ended: Annotated[Amount, "ended schedules kept for a user at most"] = 50
    smallest_gap_s: Annotated[int, Integer(1, 31_536_000), "seconds between two firings of a schedule at least"] = 60
    gap_firings: Annotated[int, Integer(2, 10_000), "firings checked for that"] = 500
    goal_bytes: Annotated[int, Integer(1, 1_048_576), "bytes of a goal at most"] = 16_384
    history: Annotated[Several, "runs kept of each schedule"] = 20
    summary_characters: Annotated[Several, "characters of a run's output in its summary"] = 500
    page_characters: Annotated[int, Integer(1, 1_000_000), "characters of a page of a run's output"] = 4000
    attempts: Annotated[int, Integer(1, 1000), "runs of a firing that fails, or whose runner dies, at most"] = 3
    first_wait_s: Annotated[int, Integer(1, 86_400), "seconds before a failed firing is retried, then doubled"] = 60
    longest_wait_s: Annotated[int, Integer(1, 86_400), "seconds of that wait at most"] = 3600
    notify_after: Annotated[int, Integer(1, 10_000), "consecutive failed firings after which it is reported"] = 3
    disable_after: Annotated[int, Integer(1, 10_000), "consecutive failed firings that disable a schedule"] = 5
    lease_s: Annotated[Seconds, "seconds a silent runner holds a firing before another takes it"] = 300
    longest_run_s: Annotated[int, Integer(1, 604_800), "seconds of a run after which its runner counts as hung"] = 3600
    notice_hours: Annotated[int, Integer(1, 8760), "hours during which delivery of a notification is retried"] = 24

    def _check(self) -> None:
        _parse("schedules.timezone", self.timezone, load_timezone)


@dataclass(frozen=True, slots=True)
class RetentionSettings(_SettingsBase):
    """How long things are kept, other days for one agent: ``[agents.NAME.retention]``."""

    enabled: Annotated[bool, "an hourly job removes what is older than this, and expired sessions"] = True
    messages_days: Annotated[Amount, "days a message is kept; 0: forever"] = 0
    records_days: Annotated[Amount, "days a learned record is kept that is neither changed nor used; 0: forever"] = 0
    documents_days: Annotated[Amount, "days an unchanged document is kept; 0: forever"] = 0
    notes_days: Annotated[int, Integer(-1, 100_000), "days a daily note is kept; -1: as messages; 0: forever"] = -1
    tenants: Annotated[str, Printable(65_536), "other days for tenants, such as acme=30, acme.records=365, beta=0"] = (
        "none"
    )

    def _check(self) -> None:
        _parse("retention.tenants", self.tenants, parse_tenant_days)


@dataclass(frozen=True, slots=True)
class AsyncSettings(_SettingsBase):
    threads: Annotated[int, Integer(1, 256), "threads behind AsyncLimpet"] = 8


@dataclass(frozen=True, slots=True)
class McpSettings(_SettingsBase):
    purge: Annotated[bool, "the tool memory_purge is offered over MCP; it asks the user each time"] = False


@dataclass(frozen=True, slots=True)
class AuditSettings(_SettingsBase):
    enabled: Annotated[bool, "keep who did what in the table `audit`, without content"] = True
    reads: Annotated[bool, "calls that only read are counted, too"] = True
    log: Annotated[bool, "a line for each call in the log `limpet.audit`, at level INFO"] = True
    keep_days: Annotated[int, Integer(0, 36_500), "days an entry is kept; 0: forever"] = 365
    operator: Annotated[Name, "the name of the program that opens the store"] = "operator"


@dataclass(frozen=True, slots=True)
class EncryptionSettings(_SettingsBase):
    key_env: Annotated[Name, "the environment variable that holds a master key for all tenants, or none"] = "none"
    key_file: Annotated[Name, "a file with a master key, a folder with a key file for each tenant, or none"] = "none"
    required: Annotated[bool, "a tenant that is not encrypted is not written to"] = False
    plain_files: Annotated[bool, "an encrypted tenant's notes and items may be written as plain files"] = False

    def _check(self) -> None:
        if "none" not in (self.key_env, self.key_file):
            raise ConfigError("encryption.key_env and encryption.key_file are two places for keys: set one of them")


@dataclass(frozen=True, slots=True)
class ServerSettings(_SettingsBase):
    """What `limpet serve` does."""

    host: Annotated[Name, "the address it listens on; others than this machine's own need API keys"] = "127.0.0.1"
    port: Annotated[int, Integer(0, 65_535), "the port it listens on; 0: any that is free"] = 8420
    hosts: Annotated[str, Printable(4096), "further names it answers to, such as memory.example.org, b.example"] = (
        "none"
    )
    max_body_bytes: Annotated[int, Integer(1024, 2**30), "bytes of a request at most"] = 8 * 2**20
    max_import_bytes: Annotated[int, Integer(1024, 2**40), "bytes of an imported file at most"] = 2**30
    header_seconds: Annotated[Seconds, "seconds the headers of a request may take"] = 10
    body_seconds: Annotated[Seconds, "seconds a body may take"] = 30
    answer_seconds: Annotated[Seconds, "seconds a client may read nothing of a response"] = 60
    requests_per_minute: Annotated[int, Integer(0, 10_000_000), "requests of an API key a minute; 0: no limit"] = 6000
    threads: Annotated[int, Integer(1, 256), "requests handled at once"] = 8
    waiting: Annotated[Several, "waiting and running requests; more are refused"] = 1000
    streams: Annotated[Count, "readers of live events at once"] = 100
    shutdown_seconds: Annotated[int, Integer(0, 3600), "seconds to finish open requests when it stops"] = 10


@dataclass(frozen=True, slots=True)
class TelemetrySettings(_SettingsBase):
    opentelemetry: Annotated[bool, "send spans and metrics to OpenTelemetry as this program has configured it"] = False
    names: Annotated[bool, "spans and observers get names of users and ids, too"] = False
    log_format: Annotated[Literal["text", "json"], "how long-running commands write log lines"] = "text"
    log_level: Annotated[Literal["debug", "info", "warning", "error"], "the lowest level they log"] = "warning"
    error_words: Annotated[bool, "they include error texts, which may quote what somebody said"] = False


@dataclass(frozen=True, slots=True)
class Config:
    storage: StorageSettings = field(default_factory=StorageSettings)
    session: SessionSettings = field(default_factory=SessionSettings)
    turn: TurnSettings = field(default_factory=TurnSettings)
    memory: MemorySettings = field(default_factory=MemorySettings)
    context: ContextSettings = field(default_factory=ContextSettings)
    compact: CompactionSettings = field(default_factory=CompactionSettings)
    learn: LearningSettings = field(default_factory=LearningSettings)
    chunks: ChunkSettings = field(default_factory=ChunkSettings)
    documents: DocumentSettings = field(default_factory=DocumentSettings)
    embedding: EmbeddingSettings = field(default_factory=EmbeddingSettings)
    llm: LlmSettings = field(default_factory=LlmSettings)
    notes: NotesSettings = field(default_factory=NotesSettings)
    graph: GraphSettings = field(default_factory=GraphSettings)
    search: SearchSettings = field(default_factory=SearchSettings)
    jobs: JobSettings = field(default_factory=JobSettings)
    retention: RetentionSettings = field(default_factory=RetentionSettings)
    aio: AsyncSettings = field(default_factory=AsyncSettings)
    audit: AuditSettings = field(default_factory=AuditSettings)
    schedules: ScheduleSettings = field(default_factory=ScheduleSettings)
    encryption: EncryptionSettings = field(default_factory=EncryptionSettings)
    server: ServerSettings = field(default_factory=ServerSettings)
    mcp: McpSettings = field(default_factory=McpSettings)
    observe: TelemetrySettings = field(default_factory=TelemetrySettings)
    agents: Mapping[str, "Config"] = field(default_factory=dict)  # settings of agents that have some of their own

    def __post_init__(self) -> None:
        given: list[tuple[object, object]] = list(self.agents.items())
        for name, settings in given:
            where = f"agents.{check_agent_name(name)}"
            if not isinstance(settings, Config) or settings.agents:
                raise ConfigError(f"{where} must be a Config without agents")
            shared = settings.memory.place == "shared"
            for section in (*(STORE_SECTIONS if shared else ()), *PROCESS_SECTIONS):
                if getattr(settings, section) != getattr(self, section):
                    raise ConfigError(
                        f"{where}.{section} must be what {section} is"
                        + (f": the agent shares the store; {where}.memory.place = 'own' separates them" * shared)
                    )

    def for_agent(self, name: str | None) -> "Config":
        """The settings for an agent: its own where it has some."""
        return self if name is None else self.agents.get(name, self)

    @classmethod
    def load(
        cls,
        path: str | PathLike[str] | None = None,
        *,
        env: Mapping[str, str] | None = None,
        overrides: Mapping[str, Any] | None = None,
        preset: str | None = None,
    ) -> "Config":
        """The preset, then the file, then the environment, then ``overrides``, which map "section.key" to a value.

        ``env`` stands for the process's environment; an empty one reads none. The preset is the one given here, else
        that of the environment, else that of the file.
        """
        from limpet.config.load import build_config  # late: a Config may be made without it

        return build_config(path, os.environ if env is None else env, overrides or {}, preset)

    @classmethod
    def preset(cls, name: str, *, overrides: Mapping[str, Any] | None = None) -> "Config":
        """The defaults of another program: picobot, golemcore, sclaw, araliya or oxydra. It reads no environment."""
        return cls.load(env={}, preset=name, overrides=overrides)

    @staticmethod
    def describe() -> Iterator[tuple[str, str, Any, str]]:
        """Key, what it may be, default, and what it means: a row of the documentation for each setting."""
        for section, settings in SETTINGS.items():
            for key, known in settings.items():
                yield f"{section}.{key}", known.constraint, known.default, known.doc


SECTIONS: dict[str, Any] = {each.name: each.default_factory for each in fields(Config) if each.name != "agents"}
NAMES = {kind: name for name, kind in SECTIONS.items()}
SETTINGS: dict[str, dict[str, Setting]] = {
    name: {entry.name: Setting(entry) for entry in fields_of(kind)} for name, kind in SECTIONS.items()
}
