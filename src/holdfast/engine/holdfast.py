"""Holdfast: the composition root. Its methods check what they were given, say whose memory it is, and call one verb."""

from __future__ import annotations

import os
from os import PathLike
from types import TracebackType
from typing import Self

from holdfast import background
from holdfast.agents import Agents, Given
from holdfast.config import Config
from holdfast.domain.scope import DEFAULT_TENANT
from holdfast.domain.text import checked_name, checked_path
from holdfast.domain.times import Clock, checked_clock, system_clock
from holdfast.domain.tokens import TokenCounter
from holdfast.domain.verb import verb
from holdfast.engine.acting import Acting
from holdfast.engine.ageing import Ageing
from holdfast.engine.asking import Asking
from holdfast.engine.documents import Documents
from holdfast.engine.graphs import Graphs
from holdfast.engine.jobs import Jobs
from holdfast.engine.keeping import Keeping
from holdfast.engine.moving import Moving
from holdfast.engine.notes import Notes
from holdfast.engine.purging import Purging
from holdfast.engine.records import Records
from holdfast.engine.sessions import Sessions
from holdfast.errors import ConfigError
from holdfast.providers.counter import checked_counter
from holdfast.providers.embedder import Embedder, checked_embedder
from holdfast.providers.llm import Llm, checked_llm


class Holdfast(Sessions, Asking, Records, Ageing, Documents, Graphs, Notes, Jobs, Keeping, Moving, Purging, Acting):
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
    ) -> Holdfast:
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
        opened = cls(Agents(settings, given, background.begin), tenant)
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
        return f"<Holdfast {self._runtime.store.features.location} tenant={self._tenant}{acting}>"

    @verb("tenant")
    def tenant(self, name: str) -> Holdfast:
        """The same store seen as another tenant, with nothing in common but the file."""
        return self._seen_as(Holdfast(self._agents, name, self._agent, self._elsewhere(name)))

    def agent(self, name: str) -> Holdfast:
        """Memory as this agent has it: with its settings, in its own store if it has one, or kept nowhere at all.

        ``hf.session(agent=…)`` finds the right one by itself. All are closed together.
        """
        return self._seen_as(Holdfast(self._agents, self._tenant, checked_name(name, "agent"), self._principal))
