"""Agents with settings of their own: on the shared store, on one of their own, or without memory.

Each is opened when it is first used, kept, and closed together with the others.
"""

from __future__ import annotations

import atexit
import logging
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Lock
from typing import NamedTuple
from weakref import WeakSet

from limpet.api.runtime import (
    DATABASE,
    Runtime,
    create_observers,
    create_runtime,
    database_file,
    find_notes_folder,
    open_stateless,
    open_store,
    select_embedding,
    select_llm,
)
from limpet.config import Config, EmbeddingSettings
from limpet.errors import ConfigError, LimpetError, StoreUnavailable
from limpet.model.tokens import TokenCounter
from limpet.model.values import Clock
from limpet.notes.files import bind_folder
from limpet.providers.embedder import Embedder
from limpet.providers.llm import Llm, TelemetryLlm
from limpet.search.embed import BatchEmbedder
from limpet.security.telemetry import Observers
from limpet.store.files import folder_name

FOLDER = "agents"
MEMORY = ":memory:"

log = logging.getLogger("limpet.jobs")

_EXIT_WAIT_S = 10.0  # how long a program that ends waits for the job at hand


class OpenOptions(NamedTuple):
    """What the program passed when it opened its memory."""

    location: str
    clock: Clock
    count: TokenCounter
    embedder: Embedder | None = None
    llm: Llm | None = None


@dataclass(slots=True, weakref_slot=True, eq=False)
class Agents:
    """Safe to share between threads."""

    config: Config
    given: OpenOptions
    begin: Callable[[Runtime], None]  # background work, once a store is open
    observers: Observers = field(init=False)  # of all of them
    _shared: Runtime | None = None
    _apart: dict[str | None, Runtime] = field(default_factory=dict)
    _embeddings: dict[EmbeddingSettings, BatchEmbedder | None] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)
    _closed: bool = False
    _pid: int = field(default_factory=os.getpid)

    def __post_init__(self) -> None:
        self.observers = create_observers(self.config)
        _open.add(self)
        for name in self.config.agents:  # reported when opening, not at the first call of the agent
            if self._has_own_store(name):
                self._store_location(name)

    def runtime(self, name: str | None = None) -> Runtime:
        """What the agent's calls run on; without a name, the shared one."""
        key = name if name in self.config.agents else None
        return self._get_runtime(key, lambda: self._create_runtime(key))

    def _get_runtime(self, key: str | None, create: Callable[[], Runtime]) -> Runtime:
        with self._lock:
            if self._closed:
                raise StoreUnavailable("this store is closed; open it again")
            if key not in self._apart:
                self._apart[key] = create()
            return self._apart[key]

    def find_own_stores(self) -> Iterator[tuple[str, Callable[[], Runtime]]]:
        """The agents whose own store exists already, also without the settings that made it: found by its folder.

        Each with what opens it.
        """
        known = set()
        for name in filter(self._has_own_store, self.config.agents):
            known.add(folder_name(name))
            if name in self._apart or database_file(Path(self._store_location(name))).exists():
                yield name, partial(self.runtime, name)
        root = self._own_stores_folder()
        for path in [] if root is None else sorted(root.glob(f"*/{DATABASE}")):
            if path.parent.name not in known and not path.parent.is_symlink():
                yield path.parent.name, partial(self.runtime_in, path.parent.name)

    def runtime_in(self, folder: str) -> Runtime:
        """What runs on the own store in this folder, of an agent that may be configured or not. Makes it if need be."""
        if (known := self.find_own(folder)) is not None:
            return known
        root = self._own_stores_folder()
        if root is None:
            raise ConfigError(f"{self.given.location} has no folder for an agent's own store")
        return self._get_runtime(f"/{folder}", lambda: self._open(str(root / folder), self.config))  # no agent's name

    def own_folder(self, name: str) -> str:
        """The folder of an own store, below that of all of them. One that is not configured is named by it."""
        return folder_name(name) if name in self.config.agents else name

    def find_own(self, folder: str) -> Runtime | None:
        """What runs on the own store that the settings give to the agent of this folder; None where they do not."""
        names = filter(self._has_own_store, self.config.agents)
        return next((self.runtime(name) for name in names if folder_name(name) == folder), None)

    def _own_stores_folder(self) -> Path | None:
        location = self.given.location
        if location == MEMORY or "://" in location or not self.config.memory.enabled:
            return None
        return database_file(Path(location).expanduser()).parent / FOLDER

    def close(self, wait_s: float | None = None) -> None:
        """Wait for the job and the firing at hand, at most so long, then write what is left and close the stores."""
        if os.getpid() != self._pid:
            return  # a forked child has none of the threads, and a lock may be held there for ever
        with self._lock:
            self._closed = True
            runtimes = [*self._apart.values(), *([self._shared] if self._shared else [])]
            stores = {id(runtime.store): runtime for runtime in runtimes}
        for runtime in stores.values():
            if not (runtime.runner.stop(wait_s) and runtime.worker.stop(wait_s)):
                log.warning("a job or schedule was still at work when the program ended; the next one does it again")
                continue  # its thread uses the store
            runtime.flush_uses()
            runtime.flush_audit()
            runtime.store.close()

    def _create_runtime(self, name: str | None) -> Runtime:
        config = self.config.for_agent(name)
        if not config.memory.enabled:
            store, count, clock = open_stateless(config, self.given.clock), self.given.count, self.given.clock
            return create_runtime(
                store, config, clock, None, None, count, self._llm, self.observers, keeps_nothing=True
            )
        if name is not None and self._has_own_store(name):
            return self._open(self._store_location(name), config)
        if self._shared is None:
            self._shared = self._open(self.given.location, self.config)
        return self._shared if name is None else self._shared.for_agent(name)

    def _open(self, location: str, config: Config) -> Runtime:
        if config.embedding not in self._embeddings:  # a model is loaded once for all agents
            self._embeddings[config.embedding] = select_embedding(self.given.embedder, config, self.observers)
        embedding = self._embeddings[config.embedding]
        store, folder = open_store(location, config, self.given.clock)
        try:
            count, clock = self.given.count, self.given.clock
            named = find_notes_folder(store, config)
            folder = named or folder
            runtime = create_runtime(store, config, clock, embedding, folder, count, self._llm, self.observers)
            if named is not None and bind_folder(store, named, runtime.new_id()):
                runtime.notes.write_files()
            self.begin(runtime)
            runtime.worker.owner = self
            return runtime
        except BaseException:  # why: whatever stopped the opening, the store must not stay open
            store.close()
            raise

    def _llm(self, config: Config) -> Llm | None:
        llm = select_llm(self.given.llm, config)
        return None if llm is None else TelemetryLlm(llm, self.observers)

    def _has_own_store(self, name: str) -> bool:
        memory = self.config.for_agent(name).memory
        return name in self.config.agents and memory.enabled and memory.place == "own"

    def _store_location(self, name: str) -> str:
        location = self.given.location
        if location == MEMORY:
            return MEMORY
        if "://" in location:
            raise ConfigError(
                f"agents.{name}.memory.place = 'own' needs a folder below the store's, and a server has none;"
                " leave it 'shared', or open a folder"
            )
        return str(database_file(Path(location).expanduser()).parent / FOLDER / folder_name(name))


_open: WeakSet[Agents] = WeakSet()


@atexit.register
def _close_all() -> None:
    """A program that ends without close(). Its threads must not be inside a library while that is taken down."""
    for agents in list(_open):
        try:
            agents.close(_EXIT_WAIT_S)
        except LimpetError as error:
            log.warning("%s could not be closed at the end of the program: %s", agents.given.location, error)
