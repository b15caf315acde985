"""What every verb is given: the store, the settings, and the outside world behind functions."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from limpet.config import Config, EncryptionSettings
from limpet.errors import ConfigError, InvalidInput, StoreReadOnly, Unsupported
from limpet.model import api_key
from limpet.model.chunk import ChunkDraft, Vector
from limpet.model.ids import uuid7
from limpet.model.message import Message
from limpet.model.scope import Partition
from limpet.model.session import SessionInfo
from limpet.model.times import Clock
from limpet.model.tokens import TokenCounter, estimate_tokens
from limpet.providers.choose import create_embedder, create_llm, llm_key_variable, llm_model
from limpet.providers.embedder import Embedder
from limpet.providers.embedding import BatchEmbedder
from limpet.providers.llm import Llm, parse_price
from limpet.schedules.runner import Runner
from limpet.search.analysis import strip_names
from limpet.search.chunk_repository import Chunks
from limpet.search.embed import set_embedding_model
from limpet.search.verify import record_analyzer
from limpet.security.audit import AuditLog
from limpet.security.operation import ALLOW_ALL, Authorizer
from limpet.security.telemetry import Observers
from limpet.sessions.repository import Sessions
from limpet.store.cache import Caches
from limpet.store.store import Store
from limpet.store.tx import Tx
from limpet.store.worker import Worker

if TYPE_CHECKING:
    from limpet.store.encryption_keys import EncryptionKeys

DATABASE = "limpet.db"
SNAPSHOT = "sessions.json"  # left by another program, imported once


@dataclass(frozen=True, slots=True)
class Runtime:
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
    ledger: AuditLog | None = None  # who did what; nobody did anything where nothing is kept
    gate: Authorizer = ALLOW_ALL  # what the calls of a handle come through; the program's own work has none
    keys_used: dict[str, datetime] = field(default_factory=dict)  # when a key's use was last noted, by its id
    observers: Observers = field(default_factory=Observers)  # who is told of each call, job and request

    def bind_session(self, info: SessionInfo) -> Runtime:
        """For a session's handle: where nothing is kept, the session is there as long as a call lasts."""
        if not self.keeps_nothing:
            return self
        return replace(self, store=self.store.with_rollback(lambda tx: _add_session(tx, info)))

    def cost(self, message: Message) -> int:
        """What a message costs in a prompt. The estimate was stored with it; another counter counts anew."""
        return message.tokens if self.count is estimate_tokens else self.count(message.searchable)

    def new_id(self) -> str:
        return uuid7(self.clock(), secrets.token_bytes(10))

    def new_secret(self) -> str:
        return api_key.encode_secret(secrets.token_bytes(api_key.SECRET_BYTES))

    def embed_query(self, space: Partition, question: str) -> Vector | None:
        """The question's vector, made before the transaction that searches with it; None where words answer alone."""
        return self.embed_query_for([space], question).get(space)

    def embed_query_for(self, spaces: Sequence[Partition], question: str) -> dict[Partition, Vector]:
        """The same for several spaces; none where nothing is stored. Texts that are equal without the names of those
        who speak there are embedded once."""
        if self.embedding is None or not question.strip():
            return {}
        catalogues = self.store.read(lambda tx: [Chunks(tx).load_catalogue(space) for space in spaces])
        texts = {
            space: strip_names(question, catalogue.names)
            for space, catalogue in zip(spaces, catalogues, strict=True)
            if catalogue is not None and catalogue.chunks
        }
        vectors = {text: self.embedding.embed_question(text) for text in dict.fromkeys(texts.values())}
        return {space: vector for space, text in texts.items() if (vector := vectors[text]) is not None}

    def request_embedding(self, drafts: Iterable[ChunkDraft]) -> None:
        """After chunks were stored: those without a vector get theirs in the background."""
        wanted = self.embedding is not None and self.config.embedding.background
        if wanted and any(draft.vector is None for draft in drafts):
            self.wake_worker()

    def can_write_files(self, tenant: str) -> bool:
        """Plain files beside a sealed tenant would tell what it does not."""
        return self.config.encryption.plain_files or not self.store.is_encrypted(tenant)

    def wake_worker(self) -> None:
        """After a job was asked for: a thread of this process does it, where the settings want one."""
        if self.config.jobs.worker:
            self.worker.start()

    def session_folder(self, session_id: str) -> Path | None:
        """Where a session's own files are; nowhere for a store that has no folder."""
        return None if self.folder is None else self.folder / "sessions" / session_id


def create_runtime(
    store: Store,
    config: Config,
    clock: Clock,
    embedding: BatchEmbedder | None,
    folder: Path | None,
    count: TokenCounter,
    llm: Llm | None,
    observers: Observers,
) -> Runtime:
    """Everything together."""
    if embedding is not None:
        with suppress(StoreReadOnly):  # whoever may not write may read: with the vectors that are there
            set_embedding_model(store, embedding.model, clock())
    worker = Worker(store, clock, config.jobs, secrets.SystemRandom().random, observers)
    ledger = AuditLog(store, config.audit, clock, lambda: secrets.token_bytes(10))
    runner = _create_runner(store, config, clock, observers)
    return Runtime(
        store, config, clock, embedding, worker, runner, folder, count, llm, ledger=ledger, observers=observers
    )


def create_stateless_runtime(
    config: Config, clock: Clock, count: TokenCounter, llm: Llm | None, observers: Observers
) -> Runtime:
    """Everything as ever, and nothing stays: memory that is switched off."""
    nothing_sealed = replace(config, encryption=EncryptionSettings())
    store = open_store(":memory:", nothing_sealed, clock, Caches(0))[0].with_rollback()
    worker = Worker(store, clock, config.jobs, secrets.SystemRandom().random, observers)
    runner = _create_runner(store, config, clock, observers)
    return Runtime(
        store, config, clock, None, worker, runner, None, count, llm, keeps_nothing=True, observers=observers
    )


def _add_session(tx: Tx, info: SessionInfo) -> None:
    Sessions(tx).add(info.scope, info)


def _create_runner(store: Store, config: Config, clock: Clock, observers: Observers) -> Runner:
    return Runner(store, clock, config.schedules, lambda: uuid7(clock(), secrets.token_bytes(10)), observers)


def create_observers(config: Config) -> Observers:
    """Nobody listens yet, but OpenTelemetry where the settings want it."""
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


def make_redactor(config: Config) -> Callable[[str], str]:
    """Secrets stay where they were said, and go no further."""
    if not config.learn.secrets:
        return lambda text: text
    from limpet.security.redact import redact  # late: it has many patterns

    return lambda text: redact(text).text


def select_embedding(given: Embedder | None, config: Config, observers: Observers) -> BatchEmbedder | None:
    """The embedder somebody handed over, or else the one the settings name."""
    settings = config.embedding
    embedder = given or create_embedder(settings.model, api_key=os.environ.get(settings.api_key_env))
    return None if embedder is None else BatchEmbedder(embedder, settings, observers)


def select_llm(given: Llm | None, config: Config) -> Llm | None:
    """The language model somebody handed over, or else the one the settings name."""
    settings = config.llm
    key = llm_key_variable(settings.model) if settings.api_key_env == "auto" else settings.api_key_env
    price = parse_price(settings.price)
    prices = None if price is None else {llm_model(settings.model): price}
    return given or create_llm(settings.model, api_key=os.environ.get(key), prices=prices)


def load_encryption_keys(config: Config) -> EncryptionKeys | None:
    """Where the settings name no key, nothing is sealed, and nothing that is sealed is read."""
    settings = config.encryption
    if settings.key_env == settings.key_file == "none":
        if settings.required:
            raise ConfigError("encryption.required wants a key: set encryption.key_env or encryption.key_file")
        return None
    from limpet.store.encryption_keys import EncryptionKeys  # late: most stores are not sealed

    return EncryptionKeys(settings, os.environ, secrets.token_bytes)


def open_store(location: str, config: Config, clock: Clock, caches: Caches | None = None) -> tuple[Store, Path | None]:
    """The store behind a folder, a file, ``:memory:`` or a PostgreSQL address, and its folder if it has one."""
    kept = caches or Caches(config.search.cache_mb)
    keyring = load_encryption_keys(config)
    if location.startswith(("postgresql://", "postgres://")):
        from limpet.store.postgres.store import PostgresStore  # late: the driver is an extra

        return _record_analyzer(PostgresStore(location, config.storage, clock, kept, keyring)), None
    if "://" in location:
        raise InvalidInput(f"{location!r} is neither a folder nor postgresql://…; those are the stores there are")
    from limpet.store.sqlite.store import SqliteStore

    if location == ":memory:":
        return _record_analyzer(SqliteStore(location, config.storage, clock, kept, keyring)), None
    try:
        file = database_file(Path(location).expanduser())
    except (OSError, RuntimeError, ValueError) as error:
        raise InvalidInput(f"{location[:80]!r} names no place a store could be: {error}") from error
    return _record_analyzer(SqliteStore(str(file), config.storage, clock, kept, keyring)), file.parent


def _record_analyzer(store: Store) -> Store:
    """Opened as it should be, or closed again."""
    try:
        record_analyzer(store)
    except BaseException:  # why: whatever stopped the opening, the store must not stay open
        store.close()
        raise
    return store


def database_file(path: Path) -> Path:
    """A file is itself, and so is a name that ends like one; anything else is a folder with a database in it."""
    return path if path.is_file() or (path.suffix == ".db" and not path.is_dir()) else path / DATABASE
