"""Every setting, once: its default, what it may be, and what it means.

Weakest first: the defaults below, a file, the environment, overrides. A name or a value nobody knows is an error that
says where it stands, never a setting silently ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from os import PathLike
from typing import Any, Literal

from holdfast.domain.setting import Setting, setting
from holdfast.domain.text import checked_name
from holdfast.domain.times import zone_named
from holdfast.errors import ConfigError, InvalidInput, InvalidKey

AGENTS = "agents"  # where settings of single agents stand


class _Section:
    """Checks itself however it was made, so that code cannot hold a setting that a file could not."""

    __slots__ = ()

    def __post_init__(self) -> None:
        section = type(self).__name__.lower()
        for key, known in _SETTINGS[section].items():
            object.__setattr__(self, key, known.check(getattr(self, key), f"{section}.{key}"))


@dataclass(frozen=True, slots=True)
class Storage(_Section):
    wal: bool = setting(True, "SQLite keeps a write-ahead log: readers and the writer do not wait for each other")
    busy_timeout_ms: int = setting(5000, "how long a write waits for another process on the SQLite file", 0, 3_600_000)
    synchronous: Literal["full", "normal"] = setting(
        "full", "full survives a power cut; normal a killed process, and is faster", choices=("full", "normal")
    )
    readers: int = setting(8, "SQLite read connections kept open at most", 1, 256)
    group_size: int = setting(256, "writes of concurrent callers that share one commit at most", 1, 10_000)
    postgres_connections: int = setting(8, "PostgreSQL connections open at most", 1, 1000)
    connect_timeout_s: int = setting(10, "how long to wait for PostgreSQL to answer a new connection", 1, 3600)


@dataclass(frozen=True, slots=True)
class Session(_Section):
    kv_cap: int = setting(200, "key-value entries kept per session; beyond it the oldest goes", 1, 1_000_000)
    transcript_cap: int = setting(500, "messages a transcript shows at most", 1, 1_000_000)
    default_agent: str = setting("assistant", "the agent of a session that names none")
    import_snapshot: bool = setting(True, "a sessions.json found in the data folder is imported once")


@dataclass(frozen=True, slots=True)
class Memory(_Section):
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
class Context(_Section):
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
        _Section.__post_init__(self)
        if self.history_share + self.standing_share > 1:
            raise ConfigError("context.history_share and context.standing_share are together at most 1")
        if self.pack_hard < self.pack_soft:
            raise ConfigError(f"context.pack_hard must be at least context.pack_soft ({self.pack_soft})")


@dataclass(frozen=True, slots=True)
class Chunks(_Section):
    max_chars: int = setting(640, "characters of a chunk at most", 64, 100_000)
    overlap: int = setting(96, "characters a chunk repeats of the one before; less than max_chars", 0, 99_999)

    def __post_init__(self) -> None:
        _Section.__post_init__(self)
        if self.overlap >= self.max_chars:
            raise ConfigError(f"chunks.overlap must be below chunks.max_chars ({self.max_chars}), not {self.overlap}")


@dataclass(frozen=True, slots=True)
class Embedding(_Section):
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
class Llm(_Section):
    model: str = setting("none", "none, openai:MODEL@URL, anthropic:MODEL or anthropic:MODEL@URL")
    api_key_env: str = setting(
        "auto",
        "the environment variable that holds the key; auto: OPENAI_API_KEY or ANTHROPIC_API_KEY, as the model says",
    )
    timeout_s: float = setting(60.0, "seconds for an answer at most, whatever asks", 0.1, 3600)


@dataclass(frozen=True, slots=True)
class Compact(_Section):
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
        _Section.__post_init__(self)
        if self.roll_to >= self.roll_above:
            raise ConfigError(f"compact.roll_to must be below compact.roll_above ({self.roll_above})")
        if self.messages < self.keep + self.least_messages:
            raise ConfigError(
                f"compact.messages must be at least compact.keep + compact.least_messages "
                f"({self.keep + self.least_messages}): else every further message would condense again"
            )


@dataclass(frozen=True, slots=True)
class Learn(_Section):
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
class Documents(_Section):
    max_file_bytes: int = setting(33_554_432, "bytes of a document's file at most", 1, 1_073_741_824)
    max_text_bytes: int = setting(8_388_608, "bytes of a document's text at most, in UTF-8", 1, 1_073_741_824)


@dataclass(frozen=True, slots=True)
class Notes(_Section):
    enabled: bool = setting(True, "a context reads the user's own files, where the store has a folder")
    long_term: bool = setting(True, "a context reads MEMORY.md")
    daily: bool = setting(True, "a context reads the daily notes")
    write_daily: bool = setting(True, "each turn adds its line to the notes of its day")
    timezone: str = setting("UTC", "the zone whose days and hours notes follow, such as Europe/Lisbon")
    max_memory_bytes: int = setting(262_144, "bytes of MEMORY.md at most", 1, 4_194_304)
    max_day_bytes: int = setting(1_048_576, "bytes of one day's notes at most", 1024, 67_108_864)

    def __post_init__(self) -> None:
        _Section.__post_init__(self)
        try:
            zone_named(self.timezone)
        except InvalidInput as error:
            raise ConfigError(f"notes.timezone: {error}") from None


@dataclass(frozen=True, slots=True)
class Graph(_Section):
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
class Search(_Section):
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
class Jobs(_Section):
    worker: bool = setting(True, "a thread of this process does background work")
    attempts: int = setting(50, "runs of a job that fails, or whose worker dies, before it is laid aside", 1, 10_000)
    # A lease that ends further ahead than an hour is taken for a clock's mistake.
    lease_s: int = setting(300, "seconds a worker holds a job without a word before another may take it", 1, 3600)
    longest_wait_s: int = setting(3600, "seconds a failed job waits at most; the first times less", 1, 86_400)


@dataclass(frozen=True, slots=True)
class Aio(_Section):
    threads: int = setting(8, "threads behind AsyncHoldfast", 1, 256)


@dataclass(frozen=True, slots=True)
class Encryption(_Section):
    key_env: str = setting("none", "the environment variable that holds a master key for all tenants, or none")
    key_file: str = setting("none", "a file with a master key, a folder with a key file for each tenant, or none")
    required: bool = setting(False, "a tenant that is not sealed is not written to")
    plain_files: bool = setting(False, "a sealed tenant's notes and items may be written as plain files")

    def __post_init__(self) -> None:
        _Section.__post_init__(self)
        if "none" not in (self.key_env, self.key_file):
            raise ConfigError("encryption.key_env and encryption.key_file are two places for keys: set one of them")


_KINDS: tuple[Any, ...] = (
    *(Storage, Session, Memory, Context, Compact, Learn, Chunks, Documents),
    *(Embedding, Llm, Notes, Graph, Search, Jobs, Aio, Encryption),
)
_SECTIONS = {kind.__name__.lower(): kind for kind in _KINDS}
_SETTINGS: dict[str, dict[str, Setting]] = {
    name: {entry.name: entry.metadata["setting"] for entry in fields(kind)} for name, kind in _SECTIONS.items()
}
# One for all agents that share it.
_OF_A_STORE = ("storage", "chunks", "embedding", "documents", "jobs", "graph", "encryption")
_OF_A_PROCESS = ("aio",)
_KEYS = [f"{section}.{key}" for section, settings in _SETTINGS.items() for key in settings]


@dataclass(frozen=True, slots=True)
class Config:
    storage: Storage = field(default_factory=Storage)
    session: Session = field(default_factory=Session)
    memory: Memory = field(default_factory=Memory)
    context: Context = field(default_factory=Context)
    compact: Compact = field(default_factory=Compact)
    learn: Learn = field(default_factory=Learn)
    chunks: Chunks = field(default_factory=Chunks)
    embedding: Embedding = field(default_factory=Embedding)
    llm: Llm = field(default_factory=Llm)
    documents: Documents = field(default_factory=Documents)
    notes: Notes = field(default_factory=Notes)
    graph: Graph = field(default_factory=Graph)
    search: Search = field(default_factory=Search)
    jobs: Jobs = field(default_factory=Jobs)
    aio: Aio = field(default_factory=Aio)
    encryption: Encryption = field(default_factory=Encryption)
    agents: Mapping[str, Config] = field(default_factory=dict)  # settings of agents that have some of their own

    def __post_init__(self) -> None:
        given: list[tuple[object, object]] = list(self.agents.items())
        for name, settings in given:
            where = f"agents.{_agent_name(name)}"
            if not isinstance(settings, Config) or settings.agents:
                raise ConfigError(f"{where} must be a Config without agents")
            shared = settings.memory.place == "shared"
            for section in (*(_OF_A_STORE if shared else ()), *_OF_A_PROCESS):
                if getattr(settings, section) != getattr(self, section):
                    raise ConfigError(
                        f"{where}.{section} must be what {section} is"
                        + (f": the agent shares the store; {where}.memory.place = 'own' parts them" * shared)
                    )

    def of_agent(self, name: str | None) -> Config:
        """The settings for an agent: its own where it has some."""
        return self if name is None else self.agents.get(name, self)

    @classmethod
    def load(
        cls,
        path: str | PathLike[str] | None = None,
        *,
        env: Mapping[str, str] | None = None,
        overrides: Mapping[str, Any] | None = None,
    ) -> Config:
        """Reads only what is given: the command line passes os.environ; ``overrides`` maps "section.key" to a value."""
        chosen: dict[str | None, _Chosen] = {None: {section: {} for section in _SETTINGS}}
        layers = (_from_file(path) if path is not None else (), _from_env(env or {}), _from_overrides(overrides or {}))
        for where, agent, section, key, value in (given for layer in layers for given in layer):
            known = _SETTINGS[section].get(key)
            if known is None:
                raise ConfigError(f"{where}: {section}.{key} is not a setting{_suggestion(f'{section}.{key}', _KEYS)}")
            own = chosen.setdefault(agent, {section: {} for section in _SETTINGS})
            own[section][key] = known.check(value, f"{where}: {f'agents.{agent}.' if agent else ''}{section}.{key}")
        general = chosen.pop(None)
        agents = {
            str(name): cls(**_sections({section: {**general[section], **own[section]} for section in _SETTINGS}))
            for name, own in chosen.items()
        }
        return cls(**_sections(general), agents=agents)

    @staticmethod
    def describe() -> Iterator[tuple[str, str, Any, str]]:
        """Key, what it may be, default, and what it means: a row of the documentation for each setting."""
        for section, settings in _SETTINGS.items():
            for key, known in settings.items():
                yield f"{section}.{key}", known.allowed, known.default, known.doc


_Given = Iterator[tuple[str, str | None, str, str, Any]]  # where it stands, agent, section, key, value
_Chosen = dict[str, dict[str, Any]]


def _sections(chosen: _Chosen) -> dict[str, Any]:
    return {name: kind(**chosen[name]) for name, kind in _SECTIONS.items()}


def _agent_name(name: object) -> str:
    try:
        return checked_name(name, "an agent's name")
    except InvalidKey as error:
        raise ConfigError(str(error)) from None


def _from_file(path: str | PathLike[str]) -> _Given:
    from pathlib import Path

    file = Path(path)
    where = str(file)
    try:
        content = file.read_bytes()
    except OSError as error:
        raise ConfigError(f"{where}: cannot be read: {error.strerror}") from None
    tree = (_yaml if file.suffix in {".yaml", ".yml"} else _toml)(content, where)
    if not isinstance(tree, Mapping):
        raise ConfigError(f"{where}: holds {type(tree).__name__}, not sections with settings")
    agents = tree.get(AGENTS)
    yield from _from_tree({name: table for name, table in tree.items() if name != AGENTS}, where)
    if agents is not None and not isinstance(agents, Mapping):
        raise ConfigError(f"{where}: {AGENTS} holds a table for each agent, not {agents!r}")
    for name, own in (agents or {}).items():
        if not isinstance(own, Mapping):
            raise ConfigError(f"{where}: {AGENTS}.{name} holds sections with settings, not {own!r}")
        yield from _from_tree(own, where, _agent_name(name))


def _from_tree(tree: Mapping[Any, Any], where: str, agent: str | None = None) -> _Given:
    for section, table in tree.items():
        name = _known_section(section, where)
        settings = {} if table is None else table  # a YAML section may have all its settings commented out
        if not isinstance(settings, Mapping):
            raise ConfigError(f"{where}: {name} is a section that holds settings, not {table!r}")
        yield from ((where, agent, name, str(key), value) for key, value in settings.items())


def _toml(content: bytes, where: str) -> object:
    import tomllib

    try:
        return tomllib.loads(content.decode())
    except ValueError as error:
        raise ConfigError(f"{where}: is not TOML: {error}") from None


def _yaml(content: bytes, where: str) -> object:
    try:
        import yaml
    except ImportError:
        raise ConfigError(f"{where}: reading YAML needs PyYAML: pip install 'holdfast[yaml]', or write TOML") from None
    try:
        return yaml.safe_load(content) or {}
    except yaml.YAMLError as error:
        raise ConfigError(f"{where}: is not YAML: {error}") from None


_NO_SETTINGS = ("HOLDFAST_DATA", "HOLDFAST_CONFIG", "HOLDFAST_KEY")  # where the store and the settings are; a key


def _from_env(env: Mapping[str, str]) -> _Given:
    """HOLDFAST_SEARCH_K is search.k. Variables of other names belong to others, unless they look like a slip of one."""
    variables = {f"HOLDFAST_{key.replace('.', '_').upper()}": key.partition(".") for key in _KEYS}
    prefixes = tuple(f"HOLDFAST_{section.upper()}_" for section in _SETTINGS)
    for name, text in env.items():
        if name in _NO_SETTINGS:
            continue
        if name in variables:
            section, _, key = variables[name]
            yield name, None, section, key, _SETTINGS[section][key].parse(text)
        elif name.startswith("HOLDFAST_") and (name.startswith(prefixes) or _suggestion(name, variables, 0.9)):
            raise ConfigError(f"environment: {name} is not a setting{_suggestion(name, variables)}")


def _from_overrides(overrides: Mapping[str, Any]) -> _Given:
    """``section.key``, or ``agents.NAME.section.key`` for one agent, whose name may have dots too."""
    for name, value in overrides.items():
        agent, setting_name = None, name
        if name.startswith(f"{AGENTS}.") and name.count(".") >= 3:
            agent, section, key = name.removeprefix(f"{AGENTS}.").rsplit(".", 2)
            agent, setting_name = _agent_name(agent), f"{section}.{key}"
        section, _, key = setting_name.partition(".")
        yield "override", agent, _known_section(section, "override"), key, value


def _known_section(section: object, where: str) -> str:
    if section not in _SETTINGS:
        raise ConfigError(f"{where}: {section} is not a section{_suggestion(str(section), (*_SETTINGS, AGENTS))}")
    return str(section)


def _suggestion(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    import difflib

    close = difflib.get_close_matches(word, known, n=1, cutoff=cutoff)
    return f"; did you mean {close[0]}?" if close else ""
