"""What ranking needs to know of every chunk of a space, as arrays: whose, when, beside what. No text.

Read once, then only what is new. Any removal, also by another process, shows in the space's counter and starts it over.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.domain.traits import Trait

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]
else:
    Array = Any  # annotations can be read without numpy

# How many chunks a process remembers at most, over all spaces; about a hundred bytes each.
MAX_CHUNKS = 2_000_000
# The speaker of a record: whoever is asked about, since it was kept for its own sake.
KEPT = -2


class ChunkFacts(NamedTuple):
    """A row of the catalogue as the store reads it."""

    ordinal: int
    session: str | None
    sequence: int | None
    role: str | None
    name: str | None
    created_at: int
    words: int
    traits: int


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Per chunk: its ordinal, its message. Per message, numbered by session and sequence: everything else.

    A record's chunks count as a message in a session of its own.
    """

    ordinals: Array
    message: Array
    words: Array
    time_word: Array
    standing_wish: Array
    session: Array
    is_user: Array
    speaker: Array
    time: Array
    ends_asking: Array
    only_asks: Array
    previous: Array
    following: Array
    names: tuple[str, ...]

    @property
    def chunks(self) -> int:
        return len(self.ordinals)

    @property
    def messages(self) -> int:
        return len(self.session)


def build(facts: Sequence[ChunkFacts]) -> Catalogue:
    import numpy as np  # late: most commands never search

    names = tuple(dict.fromkeys(fact.name for fact in facts if fact.name))
    numbers = {name: number for number, name in enumerate(names)}
    sessions: dict[str, int] = {}
    # A record stands alone, at a number no session has.
    session = [
        sessions.setdefault(fact.session, len(sessions)) if fact.session else -1 - at for at, fact in enumerate(facts)
    ]
    keys = np.array([session, [fact.sequence or 0 for fact in facts]], dtype=np.int64).T.reshape(-1, 2)
    unique, first, message = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    traits = np.array([fact.traits for fact in facts], dtype=np.int16)
    count = len(unique)
    beside = np.zeros(count, dtype=bool)
    beside[1:] = (unique[1:, 0] == unique[:-1, 0]) & (unique[1:, 1] == unique[:-1, 1] + 1)
    index = np.arange(count)
    # ``count`` stands for none: whoever looks there finds a zero.
    return Catalogue(
        ordinals=np.array([fact.ordinal for fact in facts], dtype=np.int64),
        message=message.reshape(-1),
        words=np.array([fact.words for fact in facts], dtype=np.int32),
        time_word=(traits & Trait.TIME_WORD) != 0,
        standing_wish=(traits & Trait.STANDING_WISH) != 0,
        session=np.unique(unique[:, 0], return_inverse=True)[1].reshape(-1) if count else index,
        is_user=np.array([fact.role == "user" or not fact.session for fact in facts], dtype=bool)[first],
        speaker=np.array(
            [numbers.get(fact.name or "", -1) if fact.session else KEPT for fact in facts], dtype=np.int32
        )[first],
        time=np.array([fact.created_at / 1e6 for fact in facts], dtype=np.float64)[first],
        ends_asking=((traits & Trait.ENDS_ASKING) != 0)[first],
        only_asks=((traits & Trait.ONLY_ASKS) != 0)[first],
        previous=np.where(beside, index - 1, count),
        following=np.where(np.append(beside[1:], np.zeros(1 if count else 0, dtype=bool)), index + 1, count),
        names=names,
    )


@dataclass(slots=True)
class _Remembered:
    removals: int
    facts: list[ChunkFacts]
    catalogue: Catalogue


class Catalogues:
    """The catalogues a process remembers, the longest unused forgotten first."""

    def __init__(self, max_chunks: int = MAX_CHUNKS) -> None:
        self._max_chunks = max_chunks
        self._lock = threading.Lock()
        self._spaces: OrderedDict[int, _Remembered] = OrderedDict()

    def known(self, space_id: int, removals: int) -> list[ChunkFacts]:
        """What is remembered of the space, if nothing of it was removed since."""
        with self._lock:
            found = self._spaces.get(space_id)
            return found.facts if found is not None and found.removals == removals else []

    def get(self, space_id: int, removals: int, facts: list[ChunkFacts]) -> Catalogue:
        """The catalogue of these facts, made anew only when there are others than before."""
        with self._lock:
            found = self._spaces.get(space_id)
            if found is not None and found.removals == removals and found.facts is facts:
                self._spaces.move_to_end(space_id)
                return found.catalogue
        catalogue = build(facts)
        with self._lock:
            self._spaces[space_id] = _Remembered(removals, facts, catalogue)
            self._spaces.move_to_end(space_id)
            while len(self._spaces) > 1 and sum(len(kept.facts) for kept in self._spaces.values()) > self._max_chunks:
                self._spaces.popitem(last=False)
        return catalogue
