"""A user's profile: made when it is asked for or while there is time, kept until what it was made from changes."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from limpet.api.runtime import Runtime
from limpet.errors import ProviderError, StoreReadOnly
from limpet.knowledge import llm_digest
from limpet.knowledge import profile_text as rules
from limpet.knowledge import remember as memory
from limpet.knowledge.repository import Records
from limpet.model.naming import PROFILE
from limpet.model.profile import Profile, ProfileLine
from limpet.model.record import Record
from limpet.model.scope import Level, Owner, Partition, Scope
from limpet.search.chunk_repository import Chunks
from limpet.store.tx import Tx

log = logging.getLogger("limpet.knowledge")


def load_profile(runtime: Runtime, scope: Scope) -> Profile:
    """Up to date; made anew where something it is made from has changed."""
    if not runtime.config.learn.profile:
        return Profile()
    home, now = Owner(scope, Level.USER), runtime.clock()
    inputs, kept = runtime.store.read(lambda tx: _read_inputs(tx, home, now))
    if kept is not None and rules.is_up_to_date(kept, inputs):
        return rules.to_profile(kept)
    record = rules.to_record(home, compose_lines(runtime, inputs), inputs, runtime.new_id(), now)
    try:
        kept = runtime.store.write(lambda tx: _save_profile(tx, record, inputs, runtime, now))
    except StoreReadOnly:
        kept = None
    return rules.to_profile(kept or record) if inputs else Profile()


def compose_lines(runtime: Runtime, inputs: Sequence[Record]) -> list[ProfileLine]:
    """As a model words it, every sentence with its sources; by rules without one, or where it names none."""
    most, count = runtime.config.learn.profile_tokens, runtime.count
    if runtime.llm is not None and inputs:
        texts = [record.content for record in inputs]
        try:
            told = llm_digest.digest_texts(runtime.llm, "profile", texts, most, runtime.config.llm.timeout_s)
        except ProviderError as error:
            log.warning("%s wrote no profile; rules stand in for it: %s", runtime.llm.name, error)
        except Exception:  # why: a model that somebody handed over may raise anything, and rules need none
            log.warning("%s wrote no profile; rules stand in for it", runtime.llm.name, exc_info=True)
        else:
            found = [ProfileLine(text, tuple(inputs[at].id for at in sources)) for text, sources in told]
            if fitting := rules.fit_lines(found, most, count):
                return fitting
    return rules.build_lines(inputs, most, count)


def _read_inputs(tx: Tx, home: Owner, now: datetime) -> tuple[list[Record], Record | None]:
    records = Records(tx).find_current(home.space, now)
    return rules.select_inputs(records, now), Records(tx).find_by_key(home, PROFILE, lock=False)


def _save_profile(tx: Tx, record: Record, inputs: Sequence[Record], runtime: Runtime, now: datetime) -> Record | None:
    """Unless something changed while it was made: then it is not what is known now, and is not kept."""
    Chunks(tx).lock(record.home.space)
    current, old = _read_inputs(tx, record.home, now)
    if rules.compute_digest(current) != rules.compute_digest(inputs):
        return None
    if not record.content:
        if old is not None:
            Records(tx).delete(record.home.scope, old.id)
        return None
    # What an old profile said is no history worth keeping, and may be what was forgotten.
    if old is not None:
        Records(tx).delete(record.home.scope, old.id)
    return memory.insert(tx, replace(record, id=old.id) if old else record, memory.RecordChunker(runtime.config.chunks))


def refresh(runtime: Runtime, space: Partition) -> None:
    if space.level is Level.USER:
        load_profile(runtime, Scope(space.tenant, user=space.owner))
