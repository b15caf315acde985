"""The store itself: its files, its health."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from limpet.api import parameters as arg
from limpet.api.handle import Handle
from limpet.api.runtime import Runtime, prepare_store
from limpet.errors import InvalidInput, Unsupported
from limpet.model.dataclass import replace
from limpet.model.job import Finding
from limpet.model.late import load_modules
from limpet.model.scope import DEFAULT_TENANT, Level, Partition
from limpet.model.session import Usage
from limpet.security.operation import IN_PROCESS, ExtraPermission, Interface, On, operation
from limpet.security.telemetry import ActivityResult, Progress
from limpet.sessions import usage
from limpet.store.files import make_folder

if TYPE_CHECKING:
    from limpet.sessions.files import FileSessions

_A_FILE: Mapping[Interface, str] = {
    **dict.fromkeys(("http", "remote"), "a backup is a file beside the store; export streams")
}

_OF_AGENTS = ".agents"  # the folder beside a backup for the own stores of agents


class AdminOperations(Handle):
    """The store as a whole: ``memory.admin``."""

    @operation("admin.file_sessions", On.WHOLE, "read:store write:store", left_out=IN_PROCESS)
    def file_sessions(self) -> FileSessions:
        """Return sessions kept as plain files in the store's folder, for people who read them in an editor."""
        from limpet.sessions.files import FileSessions

        if self._runtime.folder is None:
            raise Unsupported("this store has no folder to keep plain files in; open a folder")
        if self._tenant != DEFAULT_TENANT:
            raise Unsupported("plain files have no tenants; open a folder for each tenant that wants them")
        if not self._runtime.can_write_files(self._tenant):
            raise Unsupported("the default tenant is encrypted, and plain files are not; see encryption.plain_files")
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

    @operation(
        "admin.doctor",
        On.WHOLE,
        "read:store",
        "POST /v1/doctor",
        when=(ExtraPermission("repair", True, "write:store"),),
        cli="doctor",
    )
    def doctor(self, *, repair: arg.Repair = False) -> list[Finding]:
        """Check the store; with ``repair``, repair what can be derived again."""
        load_modules(
            "limpet.knowledge.delete_session",
            "limpet.lifecycle.verify",
            "limpet.search.verify",
            "limpet.store.reencrypt",
        )
        from limpet.knowledge.delete_session import SessionRemover
        from limpet.lifecycle.verify import ChunkChecker, check_knowledge, check_removals
        from limpet.search.verify import check_index
        from limpet.sessions.lifecycle import check_sessions
        from limpet.store.reencrypt import check_encryption

        def check(runtime: Runtime) -> list[Finding]:
            store = runtime.store
            remover = SessionRemover(store, runtime.chunker, runtime.clock)
            removals = check_removals(store, runtime.documents.settle, remover.finish, repair=repair)
            chunks = ChunkChecker(store, runtime.config.chunks, runtime.clock).check(repair=repair)
            return [
                *store.check_files(),
                removals,
                *check_sessions(store, repair=repair),
                *check_knowledge(store, repair=repair),
                *check_index(store, repair=repair),
                *check_encryption(store),
                chunks,
            ]

        return [
            finding if agent is None else replace(finding, check=f"{finding.check} of agent {agent}")
            for agent, runtime in self._stores()
            for finding in check(runtime)
        ]

    @operation("admin.backup", On.WHOLE, "read:store", audited=True, cli="backup", left_out=_A_FILE)
    def backup(self, path: arg.WritePath, progress: Progress | None = None) -> None:
        """Copy the live store to a new SQLite file, and agents' own stores to files in ``PATH.agents``."""
        assert isinstance(path, str)
        (_, shared), *others = self._stores()
        for _, runtime in self._stores():
            runtime.notes.read_files()
        shared.store.backup(path, progress)
        for agent, runtime in others:
            folder = Path(f"{path}{_OF_AGENTS}")
            make_folder(folder)
            runtime.store.backup(str(folder / f"{self._view.agents.own_folder(agent or '')}.db"), progress)

    @operation("admin.restore", On.WHOLE, "read:store write:store", cli="restore", left_out=_A_FILE)
    def restore(
        self, path: arg.ReadPath, *, overwrite: arg.Overwrite = False, progress: Progress | None = None
    ) -> Mapping[str, int]:
        """Restore a file that ``backup`` made. The file does not change. Returns the number of rows by table.

        Refused if the store is not empty, unless ``overwrite`` is set: then everything of every tenant is replaced in
        one transaction. Close other programs that have the store open first. Agents' own stores are restored from
        ``PATH.agents``, each separately.
        """
        from limpet.store.copy import restore_file

        assert isinstance(path, str)
        rows, apart = Counter[str](), list[Path]()
        with suppress(OSError):  # a path that cannot be: restore_file says what is wrong with it
            apart = sorted(Path(f"{path}{_OF_AGENTS}").glob("*.db")) if self._view.agent is None else []
        for runtime, file in [
            (self._runtime, path),
            *((self._view.agents.runtime_in(each.stem), str(each)) for each in apart),
        ]:
            settings = runtime.config.storage
            rows.update(restore_file(runtime.store, file, settings, runtime.clock, progress, overwrite=overwrite))
            prepare_store(runtime.store, runtime.embedding, runtime.clock())
            runtime.notes.write_files()
        return dict(rows)

    @operation(
        "admin.distribute",
        On.WHOLE,
        "read:store write:store",
        "POST /v1/distribute",
        answer="tables",
        audited=True,
        cli="admin distribute",
    )
    def distribute(self) -> Mapping[str, list[str]]:
        """Spread the tables over the machines of a Citus cluster, whose coordinator is this PostgreSQL.

        Nobody else can write during this. Called again, it spreads only new tables. Returns the tables it has spread:
        ``bucket`` and ``tenant`` name the column, ``reference`` means a full copy on every machine.
        """
        return self._runtime.store.distribute()

    @operation("admin.stats", On.WHOLE, "read:store", "GET /v1/stats", cli="stats")
    def stats(self) -> Mapping[str, Any]:
        """Count what is stored, over all tenants and the own stores of agents."""
        stores, counts = self._stores(), Counter[str]()
        for _, runtime in stores:
            counts.update(runtime.store.count_rows())
        shared = self._runtime.store
        apart = {"agents": [agent for agent, _ in stores if agent is not None]} if len(stores) > 1 else {}
        return {"backend": shared.backend, "location": shared.location, **counts, **apart}

    @operation("admin.owners", On.WHOLE, "read:global", "GET /v1/owners", cli="users")
    def owners(self) -> list[Partition]:
        """List who has memory in this tenant: users, agents, and the tenant itself if it has global memory."""
        rows = [
            row for _, each in self._stores() for row in each.store.read(lambda tx: tx.db.all("partitions.list", {}))
        ]
        found = (Partition(tenant, Level(level), owner) for tenant, level, owner in rows if tenant == self._tenant)
        return list(dict.fromkeys(found))

    @operation("admin.observe", On.WHOLE, "read:store", silent=True, left_out=IN_PROCESS)
    def observe(self, callback: Callable[[ActivityResult], object]) -> Callable[[], None]:
        """Call ``callback`` after every call, job and request to a model on this open store.

        It runs on the thread that did the work, for all tenants and handles, so it must be fast and thread-safe. An
        exception in it is logged once and ignored. Returns a function that stops it.
        """
        given: object = callback
        if not callable(given) or inspect.iscoroutinefunction(given):
            raise InvalidInput(f"observe needs a plain function of one argument, not {type(callback).__name__}")
        return self._view.agents.observers.add_end(callback)

    @operation("admin.usage", On.FILTER, "read", "GET /v1/usage", cli="usage")
    def usage(
        self, user: arg.OfUser | None = None, agent: arg.OfAgent | None = None, session: arg.OfSession | None = None
    ) -> Usage:
        """Return the total model usage of a session, a user, an agent, or all that the grants cover."""
        scope = self._scope(user=user, agent=agent, session=session)
        return self._read(lambda tx: usage.read(tx, scope))
