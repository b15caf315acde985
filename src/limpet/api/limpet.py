"""Limpet: the composition root. Its methods check what they were given, say whose memory it is, and call one verb."""

from __future__ import annotations

import os
from os import PathLike
from types import TracebackType
from typing import Self

from limpet.api import job_handlers
from limpet.api.access import Acting
from limpet.api.admin import Keeping
from limpet.api.agents import Agents, Given
from limpet.api.documents import DocumentOperations
from limpet.api.graph import Graphs
from limpet.api.jobs import JobOperations
from limpet.api.knowledge import Ageing
from limpet.api.notes import Notes
from limpet.api.privacy import Purging
from limpet.api.records import RecordOperations
from limpet.api.search import Asking
from limpet.api.sessions import SessionOperations
from limpet.api.transfer import Moving
from limpet.config import Config
from limpet.errors import ConfigError
from limpet.model.scope import DEFAULT_TENANT
from limpet.model.text import checked_name, checked_path
from limpet.model.times import Clock, checked_clock, system_clock
from limpet.model.tokens import TokenCounter
from limpet.providers.counter import checked_counter
from limpet.providers.embedder import Embedder, checked_embedder
from limpet.providers.llm import Llm, checked_llm
from limpet.security.operation import verb


class Limpet(
    SessionOperations,
    Asking,
    RecordOperations,
    Ageing,
    DocumentOperations,
    Graphs,
    Notes,
    JobOperations,
    Keeping,
    Moving,
    Purging,
    Acting,
):
    """An agent's memory. Safe to share between threads; ``open`` one for each store a process uses."""

    @classmethod
    def open(
        cls,
        location: str | PathLike[str],
        *,
        config: Config | None = None,
        llm: Llm | None = None,
        embedder: Embedder | None = None,
        clock: Clock | None = None,
        counter: TokenCounter | None = None,
        tenant: str = DEFAULT_TENANT,
    ) -> Limpet:
        """Open or create the store at a folder, at ``:memory:``, or at a ``postgresql://`` address.

        Without an embedder or a language model the settings choose one, or none. ``counter`` counts tokens exactly
        where budgets are kept; without one they are estimated.
        """
        if config is not None and not isinstance(config, Config):
            raise ConfigError(f"config must be a Config, not {type(config).__name__}; Config.load(…) reads a file")
        settings = Config.load(env=os.environ) if config is None else config
        now = checked_clock(system_clock if clock is None else clock)
        checked_name(tenant, "tenant")
        checked_embedder(embedder)
        checked_llm(llm)
        place = checked_path(location, "the store's place")
        given = Given(place, now, checked_counter(counter), embedder, llm)
        opened = cls(Agents(settings, given, job_handlers.begin), tenant)
        if settings.session.import_snapshot:
            opened._import_found()
        return opened

    def close(self) -> None:
        """Finish what is being written and close the store, and those of agents that have their own. Twice is fine.

        A handle that acts for somebody does not close what is not its own.
        """
        if self._is_operator and self._closes:
            self._agents.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        acting = "" if self._is_operator else f" as {self._principal.name}"
        return f"<Limpet {self._runtime.store.features.location} tenant={self._tenant}{acting}>"

    @verb("tenant")
    def tenant(self, name: str) -> Limpet:
        """The same store seen as another tenant, with nothing in common but the file."""
        return self._seen_as(Limpet(self._agents, name, self._agent, self._elsewhere(name)))

    def agent(self, name: str) -> Limpet:
        """Memory as this agent has it: with its settings, in its own store if it has one, or kept nowhere at all.

        ``hf.session(agent=…)`` finds the right one by itself. All are closed together.
        """
        return self._seen_as(Limpet(self._agents, self._tenant, checked_name(name, "agent"), self._principal))
