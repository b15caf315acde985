"""The store itself: its files, its health."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any

from limpet.api.handle import Handle
from limpet.errors import InvalidInput, Unsupported
from limpet.model.finding import Finding
from limpet.model.scope import DEFAULT_TENANT
from limpet.model.session import Usage
from limpet.model.telemetry import ActivityResult, Progress
from limpet.model.text import check_path
from limpet.model.values import check_progress
from limpet.security.operation import operation
from limpet.sessions import usage

if TYPE_CHECKING:
    from limpet.sessions.files.index import FileSessions


class AdminOperations(Handle):
    """The store as a whole: ``memory.admin``."""

    @operation("admin.file_sessions")
    def file_sessions(self) -> FileSessions:
        """Sessions kept as plain files in the store's folder, for people who read their memory with an editor."""
        from limpet.sessions.files.index import FileSessions

        if self._runtime.folder is None:
            raise Unsupported("this store has no folder to keep plain files in; open a folder")
        if self._tenant != DEFAULT_TENANT:
            raise Unsupported("plain files have no tenants; open a folder for each tenant that wants them")
        if not self._runtime.can_write_files(self._tenant):
            raise Unsupported("the default tenant is sealed, and plain files are not; see encryption.plain_files")
        caps = self._runtime.config.session
        return FileSessions(
            self._runtime.folder / "memory",
            clock=self._runtime.clock,
            new_id=self._runtime.new_id,
            kv_cap=caps.kv_cap,
            transcript_cap=caps.transcript_cap,
            store_types=[name.strip() for name in self._runtime.config.memory.file_stores.split(",")],
            agent=self._view.agent or caps.default_agent,
        )

    @operation("admin.doctor")
    def doctor(self, *, repair: bool = False) -> list[Finding]:
        """Look for anything that does not hold; with ``repair``, set right what can be derived again."""
        from limpet.knowledge.verify import check_knowledge
        from limpet.search.verify import check_index
        from limpet.sessions.verify import check_sessions
        from limpet.store.reencrypt import check_encryption

        store, chunks = self._runtime.store, self._runtime.chunk_checker.check(repair=repair)
        return [
            *store.check_files(),
            *check_sessions(store, repair=repair),
            *check_knowledge(store, repair=repair),
            *check_index(store, repair=repair),
            *check_encryption(store),
            chunks,
        ]

    @operation("admin.backup")
    def backup(self, path: str | PathLike[str], progress: Progress | None = None) -> None:
        """Copy the live store to a new SQLite file."""
        self._runtime.store.backup(check_path(path, "the backup's path"), check_progress(progress))

    @operation("admin.stats")
    def stats(self) -> Mapping[str, Any]:
        """How much there is, over all tenants."""
        store = self._runtime.store
        return {"backend": store.backend, "location": store.location, **store.count_rows()}

    @operation("admin.observe")
    def observe(self, callback: Callable[[ActivityResult], object]) -> Callable[[], None]:
        """Tell ``callback`` how every call, job and request to a model on this open store went, from now on.

        It is called on the thread that did the work, over all tenants and handles: it has to be quick and safe to call
        from several threads. What it raises is logged once and harms nothing. Answers a function that ends it.
        """
        given: object = callback
        if not callable(given) or inspect.iscoroutinefunction(given):
            raise InvalidInput(f"observe needs a plain function of one argument, not {type(callback).__name__}")
        return self._view.agents.observers.add(lambda _: callback)

    @operation("admin.usage")
    def usage(self, user: str | None = None, agent: str | None = None, session: str | None = None) -> Usage:
        """What models took in all: of a session, a user, an agent, or as far as the grants reach."""
        scope = self._scope(user=user, agent=agent, session=session)
        return self._read(lambda tx: usage.read(tx, scope))
