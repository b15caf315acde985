"""Limpet: the composition root. Its methods check what they were given, say whose memory it is, and call one verb."""

from __future__ import annotations

import os
from os import PathLike
from types import TracebackType
from typing import Self

from limpet.api import job_handlers
from limpet.api.access import AccessOperations
from limpet.api.admin import AdminOperations
from limpet.api.agents import Agents, OpenOptions
from limpet.api.documents import DocumentOperations
from limpet.api.graph import GraphOperations
from limpet.api.jobs import JobOperations
from limpet.api.knowledge import KnowledgeOperations
from limpet.api.notes import NoteOperations
from limpet.api.privacy import PrivacyOperations
from limpet.api.records import RecordOperations
from limpet.api.search import SearchOperations
from limpet.api.sessions import SessionOperations
from limpet.api.transfer import TransferOperations
from limpet.config import Config
from limpet.errors import ConfigError
from limpet.model.scope import DEFAULT_TENANT
from limpet.model.text import check_name, check_path
from limpet.model.times import Clock, check_clock, system_clock
from limpet.model.tokens import TokenCounter
from limpet.providers.counter import check_counter
from limpet.providers.embedder import Embedder, check_embedder
from limpet.providers.llm import Llm, check_llm
from limpet.security.operation import operation


class Limpet(
    SessionOperations,
    SearchOperations,
    RecordOperations,
    KnowledgeOperations,
    DocumentOperations,
    GraphOperations,
    NoteOperations,
    JobOperations,
    AdminOperations,
    TransferOperations,
    PrivacyOperations,
    AccessOperations,
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
        now = check_clock(system_clock if clock is None else clock)
        check_name(tenant, "tenant")
        check_embedder(embedder)
        check_llm(llm)
        place = check_path(location, "the store's place")
        given = OpenOptions(place, now, check_counter(counter), embedder, llm)
        opened = cls(Agents(settings, given, job_handlers.register_handlers), tenant)
        if settings.session.import_snapshot:
            opened._import_snapshot()
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
        return f"<Limpet {self._runtime.store.location} tenant={self._tenant}{acting}>"

    @operation("tenant")
    def tenant(self, name: str) -> Limpet:
        """The same store seen as another tenant, with nothing in common but the file."""
        return self._inherit_flags(Limpet(self._agents, name, self._agent, self._principal_in(name)))

    def agent(self, name: str) -> Limpet:
        """Memory as this agent has it: with its settings, in its own store if it has one, or kept nowhere at all.

        ``hf.session(agent=…)`` finds the right one by itself. All are closed together.
        """
        return self._inherit_flags(Limpet(self._agents, self._tenant, check_name(name, "agent"), self._principal))
