"""The handles of a memory for asyncio: the same names, awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from limpet.api.access import AccessOperations
from limpet.api.admin import AdminOperations
from limpet.api.async_pool import AsyncHandle, Attribute, Child, Pool, run_in_pool, wait_for_result
from limpet.api.documents import DocumentOperations
from limpet.api.graph import GraphOperations
from limpet.api.jobs import JobOperations
from limpet.api.keys import KeyOperations
from limpet.api.notes import LongTermNotes, NoteOperations
from limpet.api.privacy import PrivacyOperations
from limpet.api.records import RecordOperations
from limpet.api.schedules import ScheduleOperations
from limpet.api.transfer import TransferOperations
from limpet.model.schedule import Notification, RunResult
from limpet.schedules.firing import Firing

if TYPE_CHECKING:
    from limpet.api.async_limpet import AsyncLimpet

# A callback may be a coroutine function: it runs in the caller's loop, with an AsyncLimpet in its firing.
AsyncCallback = Callable[[Firing], Awaitable[RunResult | str | None] | RunResult | str | None]
AsyncNotifier = Callable[[Notification], Awaitable[object] | object]


class AsyncRecords(AsyncHandle[RecordOperations]):
    __call__ = run_in_pool(RecordOperations.__call__)
    get = run_in_pool(RecordOperations.get)
    update = run_in_pool(RecordOperations.update)
    promote = run_in_pool(RecordOperations.promote)
    revive = run_in_pool(RecordOperations.revive)
    history = run_in_pool(RecordOperations.history)
    count = run_in_pool(RecordOperations.count)
    search_metadata = run_in_pool(RecordOperations.search_metadata)


class AsyncDocuments(AsyncHandle[DocumentOperations]):
    add = run_in_pool(DocumentOperations.add)
    list = run_in_pool(DocumentOperations.list)
    text = run_in_pool(DocumentOperations.text)
    remove = run_in_pool(DocumentOperations.remove)


class AsyncGraph(AsyncHandle[GraphOperations]):
    __call__ = run_in_pool(GraphOperations.__call__)


class AsyncLongTerm(AsyncHandle[LongTermNotes]):
    path: Attribute[LongTermNotes, Path] = Attribute(lambda notes: notes.path)
    read = run_in_pool(LongTermNotes.read)
    write = run_in_pool(LongTermNotes.write)
    append = run_in_pool(LongTermNotes.append)


class AsyncNotes(AsyncHandle[NoteOperations]):
    def long_term(self, user: str | None = None) -> AsyncLongTerm:
        """The user's MEMORY.md: ``await memory.notes.long_term(user="alice").read()``."""
        return AsyncLongTerm(self._sync.long_term(user), self._pool)

    day = run_in_pool(NoteOperations.day)
    add_turn = run_in_pool(NoteOperations.add_turn)
    export_items = run_in_pool(NoteOperations.export_items)
    import_items = run_in_pool(NoteOperations.import_items)


class AsyncSchedules(AsyncHandle[ScheduleOperations]):
    create = run_in_pool(ScheduleOperations.create)
    get = run_in_pool(ScheduleOperations.get)
    edit = run_in_pool(ScheduleOperations.edit)
    delete = run_in_pool(ScheduleOperations.delete)
    pause = run_in_pool(ScheduleOperations.pause)
    resume = run_in_pool(ScheduleOperations.resume)
    search = run_in_pool(ScheduleOperations.search)
    count = run_in_pool(ScheduleOperations.count)
    due = run_in_pool(ScheduleOperations.due)
    claim = run_in_pool(ScheduleOperations.claim)
    finish = run_in_pool(ScheduleOperations.finish)
    runs = run_in_pool(ScheduleOperations.runs)
    run_output = run_in_pool(ScheduleOperations.run_output)

    async def run(
        self, callback: AsyncCallback, notify: AsyncNotifier | None = None, *, until_idle: bool = True
    ) -> int:
        """Run what is due now, of every tenant. Both functions may be coroutine functions."""
        called, told = to_blocking(callback, self._pool), to_blocking(notify, self._pool)
        running = partial(self._sync.run, called, told, until_idle=until_idle)
        # A thread of its own: those of the pool are for the calls that the callbacks make.
        own = Pool(1)
        try:
            return await own.run(running)
        finally:
            own.shutdown(wait=False)


class AsyncJobs(AsyncHandle[JobOperations]):
    run = run_in_pool(JobOperations.run)
    list = run_in_pool(JobOperations.list)
    retry = run_in_pool(JobOperations.retry)
    drop = run_in_pool(JobOperations.drop)

    async def start_worker(
        self,
        *,
        on_schedule: AsyncCallback | None = None,
        notify: AsyncNotifier | None = None,
        busy: Callable[[], bool] | None = None,
    ) -> None:
        """Do background work in a thread until the store is closed; with ``on_schedule`` also what schedules bring."""
        called, told = to_blocking(on_schedule, self._pool), to_blocking(notify, self._pool)
        await self._pool.run(partial(self._sync.start_worker, on_schedule=called, notify=told, busy=busy))


class AsyncKeys(AsyncHandle[KeyOperations]):
    __call__ = run_in_pool(KeyOperations.__call__)
    create = run_in_pool(KeyOperations.create)
    revoke = run_in_pool(KeyOperations.revoke)
    required = run_in_pool(KeyOperations.required)
    allow_anonymous = run_in_pool(KeyOperations.allow_anonymous)

    async def acting(self, secret: str) -> AsyncLimpet:
        """The same store acting as what the key is bound to. Raises Unauthenticated."""
        from limpet.api.async_limpet import AsyncLimpet

        return AsyncLimpet(await self._pool.run(partial(self._sync.acting, secret)), self._pool)


class AsyncAccess(AsyncHandle[AccessOperations]):
    grant = run_in_pool(AccessOperations.grant)
    revoke = run_in_pool(AccessOperations.revoke)
    grants = run_in_pool(AccessOperations.grants)
    audit = run_in_pool(AccessOperations.audit)

    keys = Child(AsyncKeys)


class AsyncPrivacy(AsyncHandle[PrivacyOperations]):
    purge_session = run_in_pool(PrivacyOperations.purge_session)
    purge_user = run_in_pool(PrivacyOperations.purge_user)
    purge_older = run_in_pool(PrivacyOperations.purge_older)
    receipts = run_in_pool(PrivacyOperations.receipts)
    retention = run_in_pool(PrivacyOperations.retention)


class AsyncTransfer(AsyncHandle[TransferOperations]):
    export = run_in_pool(TransferOperations.export)
    archive = run_in_pool(TransferOperations.archive)
    import_ = run_in_pool(TransferOperations.import_)
    import_file = run_in_pool(TransferOperations.import_file)


class AsyncAdmin(AsyncHandle[AdminOperations]):
    doctor = run_in_pool(AdminOperations.doctor)
    backup = run_in_pool(AdminOperations.backup)
    restore = run_in_pool(AdminOperations.restore)
    stats = run_in_pool(AdminOperations.stats)
    owners = run_in_pool(AdminOperations.owners)
    usage = run_in_pool(AdminOperations.usage)
    observe = run_in_pool(AdminOperations.observe)
    file_sessions = run_in_pool(AdminOperations.file_sessions)


def to_blocking(function: Any, pool: Pool) -> Any:
    """A coroutine function as one that a thread can call; anything else as it is."""
    if not asyncio.iscoroutinefunction(function):
        return function
    from limpet.api.async_limpet import AsyncLimpet

    loop = asyncio.get_running_loop()

    def call(given: Any) -> Any:
        if isinstance(given, Firing):
            given = replace(given, memory=AsyncLimpet(given.memory, pool))
        context = copy_context()

        async def run_task() -> Any:
            # The task has the context of the thread that called: it is part of the same scheduled turn.
            return await loop.create_task(function(given), context=context)

        return wait_for_result(run_task(), loop)

    return call
