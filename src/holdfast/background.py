"""Every kind of job there is, and what does it in this process.

To add a kind: name it in ``domain/job.py`` with what its detail is, write a function here that gives its handler, or
None where this process cannot do it, and put it into ``KINDS``. Whoever needs the work asks for it inside the
transaction that makes it necessary: ``tx.jobs.ask(space, KIND, detail, now)``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import NamedTuple

from holdfast.domain.job import EMBED
from holdfast.runtime import Runtime
from holdfast.schedule.claim import Claim, Handler
from holdfast.write.embed import PATIENCE, embed_missing

_SLICE = 512  # chunks embedded by one run of a job, so that the spaces of others get their turn


class Doing(NamedTuple):
    """A handler, and the detail of the jobs it does; all of the kind when that is empty."""

    handler: Handler
    detail: str = ""


def embedding(runtime: Runtime) -> Doing | None:
    if runtime.embedding is None:
        return None
    store, model = runtime.store, runtime.embedding

    def run(claim: Claim) -> datetime | None:
        # Each try passes over more texts that cannot be embedded, so that they do not hold up the others for good.
        patience = PATIENCE * claim.job.attempts
        done = embed_missing(
            store,
            model,
            claim.job.space,
            _SLICE,
            patience,
            stopping=claim.stopping,
            between=claim.renew,
            finish=claim.finish,
        )
        return claim.now() if done == _SLICE or claim.stopping() else None

    return Doing(run, model.model)


KINDS: Mapping[str, Callable[[Runtime], Doing | None]] = {EMBED: embedding}


def begin(runtime: Runtime) -> None:
    """Let the worker know what it can do, and do what was left over."""
    for kind, make in KINDS.items():
        doing = make(runtime)
        if doing is not None:
            runtime.worker.register(kind, doing.handler, doing.detail)
    settings, wanted = runtime.config, runtime.worker.wanted
    wanted = [each for each in wanted if each[0] != EMBED or settings.embedding.background]
    if settings.jobs.worker and wanted and runtime.store.next_job(wanted) is not None:
        runtime.worker.start()
