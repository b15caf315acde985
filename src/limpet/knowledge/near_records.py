"""Which records have vectors so near that they may say the same."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime
from functools import partial

from limpet.api.runtime import Runtime
from limpet.errors import ProviderError
from limpet.knowledge.duplicates import Pair
from limpet.knowledge.reconcile import DUPLICATE_COSINE
from limpet.knowledge.remember import full_text
from limpet.model.chunk import SourceKind, Vector
from limpet.model.record import Record
from limpet.model.scope import Partition
from limpet.search.analysis import strip_names
from limpet.search.chunk_repository import Chunks
from limpet.store.tx import Tx

log = logging.getLogger("limpet.knowledge")

_MOST = 256  # records looked at in one run
_ROUGHLY = 0.03  # what an estimate may be too low
_FEW = 50


def find_near_pairs(runtime: Runtime, space: Partition, records: Sequence[Record], now: datetime) -> dict[Pair, float]:
    """Of each of these with every other of the space; nothing where there are no vectors."""
    if runtime.embedding is None or not records:
        return {}
    asked = records[:_MOST]
    names = runtime.store.read(lambda tx: Chunks(tx).names(space))
    try:
        vectors = runtime.embedding.embed_texts([strip_names(full_text(record), names) for record in asked])
    except ProviderError as error:
        log.warning("duplicates are looked for by words alone: %s", error)
        return {}
    found: dict[Pair, float] = {}
    for record, vector in zip(asked, vectors, strict=True):
        for other, cosine in runtime.store.read(partial(_find_near, space=space, vector=vector, now=now)).items():
            if other != record.id:
                found[frozenset((record.id, other))] = cosine
    return found


def _find_near(tx: Tx, space: Partition, vector: Vector, now: datetime) -> dict[str, float]:
    """By the id of the record."""
    import numpy as np

    catalogue, nearness = Chunks(tx).load_catalogue(space), Chunks(tx).score_vectors(space, vector)
    if catalogue is None or nearness is None:
        return {}
    rough = np.nan_to_num(nearness.cosines, nan=-1.0)
    best = np.argsort(-rough)[:_FEW]
    ordinals = catalogue.ordinals[best[rough[best] >= DUPLICATE_COSINE - _ROUGHLY]].tolist()
    cosines = Chunks(tx).compute_cosines(space, vector, ordinals) if ordinals else {}
    stored = Chunks(tx).read(
        space, [each for each in ordinals if cosines.get(each, 0.0) >= DUPLICATE_COSINE], None, now
    )
    return {
        chunk.source.id: cosines[ordinal] for ordinal, chunk in stored.items() if chunk.source.kind is SourceKind.RECORD
    }
