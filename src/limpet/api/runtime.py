"""The composition root: opens stores and providers, and composes the features of each agent."""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from limpet.config import Config, EncryptionSettings
from limpet.documents.repository import list_names
from limpet.errors import ConfigError, InvalidInput, StorageError, StoreReadOnly, Unsupported
from limpet.knowledge.prominence import UseCounter
from limpet.knowledge.remember import RecordChunker, find_learned_sentences
from limpet.model.access import SECRET_BYTES, encode_secret
from limpet.model.dataclass import dataclass, replace
from limpet.model.late import late_property, lazy_property, load_modules
from limpet.model.message import Message
from limpet.model.scope import Scope, resolve_owner
from limpet.model.session import SessionInfo
from limpet.model.tokens import TokenCounter, estimate_tokens
from limpet.model.values import Clock, check_name, uuid7
from limpet.notes.user_notes import UserNotes
from limpet.providers.choose import create_embedder, create_llm, llm_key_variable, llm_model
from limpet.providers.embedder import Embedder
from limpet.providers.llm import LimitedLlm, Llm, parse_price
from limpet.schedules.repository import list_goals
from limpet.schedules.runner import Runner
from limpet.search.embed import BatchEmbedder, ChunkEmbedder, set_embedding_model
from limpet.search.verify import record_analyzer
from limpet.security.audit import AuditLog
from limpet.security.mask import make_mask
from limpet.security.telemetry import Observers
from limpet.sessions.compaction import Compactor
from limpet.sessions.files import session_folder
from limpet.sessions.messages import MessageAppender
from limpet.sessions.repository import Sessions
from limpet.store.jobs import JobQueue
from limpet.store.store import Store
from limpet.store.tx import Caches, Tx
from limpet.store.worker import Worker

if TYPE_CHECKING:
    from limpet.context.build import ContextBuilder
    from limpet.documents.add import DocumentIngester
    from limpet.knowledge.consolidate import Consolidator
    from limpet.knowledge.decay import Fader
    from limpet.knowledge.forget import Forgetter
    from limpet.knowledge.graph.jobs import GraphBuilder
    from limpet.knowledge.learn import Learner
    from limpet.knowledge.profile import Profiler
    from limpet.knowledge.promote import Promoter
    from limpet.lifecycle.import_foreign import SnapshotImporter
    from limpet.lifecycle.importer import Importer
    from limpet.lifecycle.item_sync import ItemSync
    from limpet.lifecycle.purge import Purger
    from limpet.lifecycle.retention import RetentionSweeper
    from limpet.store.encryption_keys import EncryptionKeys

DATABASE = "limpet.db"
DEFAULT_USER = "me"  # whose memory it is where nobody is named


log = logging.getLogger("limpet.jobs")

_UPKEEP_PERIOD = timedelta(minutes=5)


class Upkeep:
    """Looks for periodic work every few minutes, after a write: a program may stay open for months."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._due_at: datetime | None = None  # what is due when the store is opened is looked for then
        self.run: Callable[[], None] = lambda: None

    def check(self) -> None:
        now = self._clock()
        due_at = self._due_at or now + _UPKEEP_PERIOD
        if due_at - _UPKEEP_PERIOD <= now < due_at:  # else it is due, or the clock was set
            self._due_at = due_at
            return
        self._due_at = now + _UPKEEP_PERIOD
        try:
            self.run()
        except StorageError as error:  # the write that came before was kept
            log.warning("background work was not looked for: %s", error)


@dataclass(frozen=True)
class Runtime:
    """What the calls of one agent run on: a store, the agent's settings, and the features composed of both.

    A feature is made when it is first used. It gets the settings, the language model and the store of this agent, so
    that it cannot use another's.
    """

    store: Store
    config: Config
    clock: Clock
    embedding: BatchEmbedder | None
    worker: Worker
    runner: Runner
    folder: Path | None
    count: TokenCounter = estimate_tokens
    llm: Llm | None = None
    keeps_nothing: bool = False  # memory is switched off: what is written is rolled back
    audit_log: AuditLog | None = None  # who did what; None where nothing is kept
    keys_used: dict[str, datetime] = field(default_factory=dict)  # when a key's use was last noted, by its id
    uses: UseCounter = field(default_factory=UseCounter)  # recalls that are not written yet
    observers: Observers = field(default_factory=Observers)  # they get each call, job and request
    upkeep: Upkeep | None = None  # None where nothing is kept
    choose_llm: Callable[[Config], Llm | None] = lambda _: None

    def for_agent(self, name: str) -> Runtime:
        """The same store with the settings and the language model of an agent."""
        config = self.config.for_agent(name)
        return self if config is self.config else replace(self, config=config, llm=self.choose_llm(config))

    def bind_session(self, info: SessionInfo) -> Runtime:
        """For a session's handle: where nothing is kept, the session exists as long as a call lasts."""
        if not self.keeps_nothing:
            return self

        def add(tx: Tx) -> None:
            Sessions(tx).add(info.scope, info)

        return replace(self, store=self.store.with_rollback(add))

    def cost(self, message: Message) -> int:
        """What a message costs in a prompt. The estimate is stored with it; another counter counts again."""
        return message.tokens if self.count is estimate_tokens else self.count(message.searchable)

    def new_id(self) -> str:
        return uuid7(self.clock(), secrets.token_bytes(10))

    def new_secret(self) -> str:
        return encode_secret(secrets.token_bytes(SECRET_BYTES))

    def can_write_files(self, tenant: str) -> bool:
        """Plain files beside an encrypted tenant would show what it hides."""
        return self.notes.is_allowed(tenant)

    def check_upkeep(self) -> None:
        """After a write."""
        if self.upkeep is not None:
            self.upkeep.check()

    def wake_worker(self) -> None:
        """After a job was enqueued: a thread of this process does it, where the settings want one."""
        if self.config.jobs.worker:
            self.worker.start()

    def flush_audit(self) -> None:
        if self.audit_log is not None:
            self.audit_log.flush()

    def flush_uses(self) -> None:
        """Write how often records were recalled. A store that cannot be written keeps its counts as they are."""
        for partition in self.uses.list_partitions():
            with suppress(StorageError):
                self.store.write(partial(self.uses.write, partition=partition))

    def session_folder(self, session_id: str) -> Path | None:
        """Where a session's own files are; None for a store that has no folder."""
        return None if self.folder is None else session_folder(self.folder, session_id)

    # Features

    @lazy_property
    def mask(self) -> Callable[[str], str]:
        return make_mask(enabled=self.config.learn.secrets)

    @lazy_property
    def embedder(self) -> ChunkEmbedder:
        in_background = self.config.embedding.background
        return ChunkEmbedder(self.store, self.embedding, self.wake_worker if in_background else lambda: None)

    @lazy_property
    def notes(self) -> UserNotes:
        return create_notes(self.store, self.folder, self.config, self.clock)

    @lazy_property
    def appender(self) -> MessageAppender:
        return MessageAppender(self.store, self.config.chunks, self.embedder, self.clock)

    @lazy_property
    def compactor(self) -> Compactor:
        config = self.config
        return Compactor(
            self.store,
            config.compact,
            self.llm,
            config.llm.timeout_s,
            self.count,
            self.cost,
            self.clock,
            lambda tx, scope: find_learned_sentences(tx, scope, self.clock()),
            self.mask,
            config.notes.find_zone,
        )

    @late_property("limpet.context.build:ContextBuilder")
    def context(self, kind: type[ContextBuilder]) -> ContextBuilder:
        return kind(
            self.store, self.config, self.embedder, self.notes, self.compactor, self.count, self.cost, self.clock
        )

    @lazy_property
    def chunker(self) -> RecordChunker:
        return RecordChunker(self.config.chunks, for_graph=self.config.graph.enabled)

    @late_property("limpet.knowledge.learn:Learner")
    def learner(self, kind: type[Learner]) -> Learner:
        return kind(self.store, self.config, self.llm, self.embedder, self.mask, self.clock, self.new_id)

    @late_property("limpet.knowledge.promote:Promoter")
    def promoter(self, kind: type[Promoter]) -> Promoter:
        config = self.config
        return kind(self.store, config.learn, config.chunks, self.embedder, self.clock, self.new_id)

    @late_property("limpet.knowledge.profile:Profiler")
    def profiler(self, kind: type[Profiler]) -> Profiler:
        config, timeout = self.config, self.config.llm.timeout_s
        return kind(self.store, config.learn, config.chunks, self.llm, timeout, self.count, self.clock, self.new_id)

    @late_property("limpet.knowledge.decay:Fader")
    def fader(self, kind: type[Fader]) -> Fader:
        config = self.config
        return kind(self.store, config.learn, config.chunks, self.embedder, self.notes, self.clock)

    @late_property("limpet.knowledge.consolidate:Consolidator")
    def consolidator(self, kind: type[Consolidator]) -> Consolidator:
        return kind(
            self.store,
            self.config.learn,
            self.config.chunks,
            self.config.notes.timezone,
            self.llm,
            self.config.llm.timeout_s,
            self.embedder,
            self.promoter,
            self.profiler,
            self.count,
            self.clock,
            self.new_id,
        )

    @late_property("limpet.knowledge.forget:Forgetter")
    def forgetter(self, kind: type[Forgetter]) -> Forgetter:
        return kind(self.store, self.config, self.notes, self.mask, self.count, self.clock, _list_beside)

    @late_property("limpet.knowledge.graph.jobs:GraphBuilder")
    def graph(self, kind: type[GraphBuilder]) -> GraphBuilder:
        return kind(
            self.store,
            self.config.graph,
            self.llm,
            self.config.llm.timeout_s,
            self.mask,
            self.clock,
            self.wake_worker,
            lambda: Worker(JobQueue(self.store), self.clock, self.config.jobs, lambda: 1.0, self.observers),
        )

    @late_property("limpet.documents.add:DocumentIngester")
    def documents(self, kind: type[DocumentIngester]) -> DocumentIngester:
        config = self.config
        return kind(self.store, config.documents, config.chunks, self.embedder, self.clock, self.new_id)

    def item_sync(self, scope: Scope) -> ItemSync | None:
        """None for a store that has no folder."""
        if self.folder is None:
            return None
        load_modules("limpet.lifecycle.item_sync")
        from limpet.lifecycle.item_sync import ItemSync

        partition = resolve_owner(scope).space
        files = self.notes.files(partition)
        if files is None:
            raise Unsupported(
                f"tenant {scope.tenant!r} is encrypted, and these files would not be;"
                " set encryption.plain_files = true to allow them"
            )
        to_local = partial(self.notes.to_local, user=partition.owner)
        return ItemSync(self.store, files, to_local, scope, self.chunker, self.embedder, self.clock, self.new_id)

    @late_property("limpet.lifecycle.purge:Purger")
    def purger(self, kind: type[Purger]) -> Purger:
        return kind(
            self.store,
            self.config,
            self.notes,
            self.item_sync,
            self.mask,
            self.count,
            self.clock,
            self.new_id,
            self.flush_audit,
            self.wake_worker,
            self.keeps_nothing,
        )

    @late_property("limpet.lifecycle.retention:RetentionSweeper")
    def retention(self, kind: type[RetentionSweeper]) -> RetentionSweeper:
        return kind(self.store, self.config, self.notes, self.count, self.clock)

    @late_property("limpet.lifecycle.import_foreign:SnapshotImporter")
    def snapshots(self, kind: type[SnapshotImporter]) -> SnapshotImporter:
        return kind(self.store, self.config, self.embedder, self.clock, self.new_id)

    @late_property("limpet.lifecycle.importer:Importer")
    def importer(self, kind: type[Importer]) -> Importer:
        return kind(self.store, self.config, self.notes, self.documents, self.snapshots, self.embedder, self.clock)


def create_runtime(
    store: Store,
    config: Config,
    clock: Clock,
    embedding: BatchEmbedder | None,
    folder: Path | None,
    count: TokenCounter,
    choose_llm: Callable[[Config], Llm | None],
    observers: Observers,
    *,
    keeps_nothing: bool = False,
) -> Runtime:
    """The runtime on an open store; with ``keeps_nothing`` on one that is rolled back."""

    def choose_limited(config: Config) -> Llm | None:
        return choose_llm(config) if keeps_nothing else limit_llm(choose_llm(config), config, store, clock)

    chance = secrets.SystemRandom().random
    made = Runtime(
        store,
        config,
        clock,
        embedding,
        Worker(JobQueue(store, chance), clock, config.jobs, chance, observers),
        Runner(store, clock, config.schedules, lambda: uuid7(clock(), secrets.token_bytes(10)), observers),
        folder,
        count,
        choose_limited(config),
        keeps_nothing,
        observers=observers,
        choose_llm=choose_limited,
    )
    if keeps_nothing:
        return made
    with suppress(StoreReadOnly):  # a store that is read only is searched with the words and vectors it has
        prepare_store(store, embedding, clock())
    audit_log = AuditLog(store, config.audit, clock, lambda: secrets.token_bytes(10))
    return replace(made, audit_log=audit_log, upkeep=Upkeep(clock))


def _list_beside(tx: Tx, scope: Scope) -> Iterator[tuple[str, str]]:
    """What a user's schedules are to do and documents are called, for who looks for words everywhere."""
    yield from list_goals(tx, scope)
    yield from list_names(tx, scope)


def create_notes(store: Store, folder: Path | None, config: Config, clock: Clock) -> UserNotes:
    mask = make_mask(enabled=config.learn.secrets)
    return UserNotes(store, folder, config.notes, config.encryption.plain_files, mask, clock)


def find_notes_folder(store: Store, config: Config) -> Path | None:
    """The folder that the settings name; None for a store that has its own, or goes with its process."""
    named = config.notes.folder
    return None if named == "none" or store.backend != "postgres" else Path(named).expanduser().absolute()


def limit_llm(llm: Llm | None, config: Config, store: Store, clock: Clock) -> Llm | None:
    """The model, asked no more once all programs on the store have spent what it may cost in a day."""
    if llm is None or not config.llm.daily_cost:
        return llm
    from limpet.sessions.usage import DailySpending  # late: few programs set a limit

    spending = DailySpending(store, clock)
    return LimitedLlm(llm, config.llm.daily_cost, spending.read, spending.add)


def open_stateless(config: Config, clock: Clock) -> Store:
    """For memory that is switched off: calls work as usual, and what they write is rolled back."""
    without_keys = replace(config, encryption=EncryptionSettings())
    return open_store(":memory:", without_keys, clock, Caches(0))[0].with_rollback()


def prepare_store(store: Store, embedding: BatchEmbedder | None, now: datetime) -> None:
    """Note which analyzer and which embedding model the store's words and vectors are made with."""
    record_analyzer(store)
    if embedding is not None:
        set_embedding_model(store, embedding.model, now)


def create_observers(config: Config) -> Observers:
    """Without observers, except OpenTelemetry if the settings want it."""
    observers = Observers(names=config.observe.names)
    if config.observe.opentelemetry:
        try:
            from limpet.security.otel import Telemetry  # late: it is an extra
        except ImportError as missing:
            raise Unsupported(
                f"observe.opentelemetry needs {missing.name}, which is not installed: pip install 'limpet[otel]'"
            ) from None
        observers.add(Telemetry().begin)
    return observers


def read_default_user() -> str:
    """LIMPET_USER, else "me"."""
    return check_name(os.environ.get("LIMPET_USER") or DEFAULT_USER, "LIMPET_USER")


def select_embedding(given: Embedder | None, config: Config, observers: Observers) -> BatchEmbedder | None:
    """The embedder that was passed, else the one in the settings."""
    settings = config.embedding
    embedder = given or create_embedder(settings.model, api_key=os.environ.get(settings.api_key_env))
    return None if embedder is None else BatchEmbedder(embedder, settings, observers)


def select_llm(given: Llm | None, config: Config) -> Llm | None:
    """The language model that was passed, else the one in the settings."""
    settings = config.llm
    key = llm_key_variable(settings.model) if settings.api_key_env == "auto" else settings.api_key_env
    price = parse_price(settings.price)
    prices = None if price is None else {llm_model(settings.model): price}
    return given or create_llm(settings.model, api_key=os.environ.get(key), prices=prices)


def load_encryption_keys(config: Config) -> EncryptionKeys | None:
    """None if the settings name no key: then nothing is encrypted, and encrypted tenants cannot be read."""
    settings = config.encryption
    if settings.key_env == settings.key_file == "none":
        if settings.required:
            raise ConfigError("encryption.required needs a key: set encryption.key_env or encryption.key_file")
        return None
    from limpet.store.encryption_keys import EncryptionKeys  # late: most stores are not encrypted

    return EncryptionKeys(settings, os.environ, secrets.token_bytes)


def open_store(location: str, config: Config, clock: Clock, caches: Caches | None = None) -> tuple[Store, Path | None]:
    """The store behind a folder, a file, ``:memory:`` or a PostgreSQL address, and its folder if it has one."""
    kept = caches or Caches(config.search.cache_mb)
    keyring = load_encryption_keys(config)
    if location.startswith(("postgresql://", "postgres://")):
        from limpet.store.postgres.store import PostgresStore  # late: the driver is an extra

        return PostgresStore(location, config.storage, clock, kept, keyring), None
    if "://" in location:
        raise InvalidInput(f"{location!r} is neither a folder nor postgresql://…; name one of these")
    from limpet.store.sqlite.store import SqliteStore

    if location == ":memory:":
        return SqliteStore(location, config.storage, clock, kept, keyring), None
    try:
        file = database_file(Path(location).expanduser())
    except (OSError, RuntimeError, ValueError) as error:
        raise InvalidInput(f"{location[:80]!r} is not a place for a store: {error}") from error
    return SqliteStore(str(file), config.storage, clock, kept, keyring), file.parent


def database_file(path: Path) -> Path:
    """The path itself if it is a file or ends in .db; else the database in that folder."""
    return path if path.is_file() or (path.suffix == ".db" and not path.is_dir()) else path / DATABASE
