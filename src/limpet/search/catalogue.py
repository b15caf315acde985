"""The catalogue of a partition: what ranking needs to know of every chunk, as arrays. No text.

It holds speaker, time and neighbours. It is loaded once, then updated incrementally. Any removal, also by another
process, changes the partition's counter; removed chunks are then found by comparing ordinals.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from itertools import count
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, get_type_hints

from limpet.model.chunk import SourceKind
from limpet.model.dataclass import dataclass, replace
from limpet.model.late import load_modules
from limpet.model.values import from_seconds
from limpet.search.analysis import TextFlag
from limpet.store.encryption import RowLayout
from limpet.store.tables import CHUNKS
from limpet.store.tx import Array, CacheKind, Cipher, Query, Tx

if TYPE_CHECKING:
    from limpet.search.chunk_repository import PartitionRow

# The speaker of a record: matches every question about a speaker.
RECORD_SPEAKER = -2
# Before the first message of a session and after its last: arrays end with a zero.
NO_MESSAGE = -1
_KINDS = {kind.value: number for number, kind in enumerate(SourceKind)}
NAME = RowLayout(CHUNKS, "name")


class CatalogueRow(NamedTuple):
    ordinal: int
    session: str | None
    sequence: int | None
    role: str | None
    name: str | None
    created_at: int
    words: int
    flags: int
    kind: str = SourceKind.MESSAGE.value


class CatalogueColumns(NamedTuple):
    """Many rows of a catalogue, column by column."""

    ordinals: Array
    sessions: Sequence[str | None]
    sequences: Array
    names: Sequence[str | None]
    times: Array
    words: Array
    flags: Array
    kinds: Array
    by_user: Array

    @classmethod
    def of(cls, rows: Sequence[CatalogueRow]) -> CatalogueColumns:
        import numpy as np

        columns: Any = zip(*rows, strict=True)
        ordinals, sessions, sequences, roles, names, times, words, flags, kinds = columns
        return cls(
            np.array(ordinals, "i8"),
            sessions,
            np.array([each or 0 for each in sequences], "i8"),
            names,
            np.array(times, "i8"),
            np.array(words, "i8"),
            np.array(flags, "i8"),
            np.array([_KINDS[each] for each in kinds], "i8"),
            np.array([each == "user" for each in roles], bool),
        )


class CatalogueFacts(NamedTuple):
    in_order: bool  # the chunks of each message are in one place
    firsts: Array  # if so, where they begin, by message; behind them that of no message
    sizes: Array  # and how many they are
    years: range  # of everything
    has_records: bool


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Per chunk, by ordinal: its message and its own values. Per message: everything else.

    A record's chunk counts as a message in its own session.
    """

    removals: int
    ordinals: Annotated[Array, "i8"]
    message: Annotated[Array, "i4"]
    words: Annotated[Array, "i4"]
    time_word: Annotated[Array, "?"]
    standing_wish: Annotated[Array, "?"]
    session: Annotated[Array, "i4"]
    sequence: Annotated[Array, "i8"]
    kind: Annotated[Array, "i1"]
    is_user: Annotated[Array, "?"]
    speaker: Annotated[Array, "i4"]
    time: Annotated[Array, "f8"]
    ends_asking: Annotated[Array, "?"]
    only_asks: Annotated[Array, "?"]
    previous: Annotated[Array, "i4"]
    following: Annotated[Array, "i4"]
    names: tuple[str, ...]
    sessions: dict[str, int]
    session_count: int
    _facts: list[CatalogueFacts] = field(init=False, default_factory=list, compare=False, repr=False)

    @property
    def facts(self) -> CatalogueFacts:
        """What every search needs to know of all chunks; computed for the first one."""
        import numpy as np

        if not self._facts:
            starts = np.flatnonzero(np.diff(self.message, prepend=-1))
            has_records = bool((self.kind == _KINDS[SourceKind.RECORD.value]).any())
            messages = self.message[starts]
            firsts, sizes = np.zeros((2, self.messages + 1), dtype="i8")
            firsts[messages], sizes[messages] = starts, np.diff(starts, append=self.chunks)
            in_order = np.count_nonzero(sizes) == len(starts)
            years = range(from_seconds(float(self.time.min())).year, from_seconds(float(self.time.max())).year + 1)
            self._facts.append(CatalogueFacts(in_order, firsts, sizes, years, has_records))
        return self._facts[0]

    @property
    def chunks(self) -> int:
        return len(self.ordinals)

    @property
    def messages(self) -> int:
        return len(self.session)

    @property
    def is_among_people(self) -> bool:
        """Return whether several named people speak, rather than a user and an assistant."""
        return len(self.names) > 1

    @property
    def nbytes(self) -> int:
        arrays: int = sum(getattr(self, name).nbytes for name in _TYPES)
        return arrays + 100 * len(self.sessions)

    @property
    def last_ordinal(self) -> int:
        return int(self.ordinals[-1]) if self.chunks else -1

    def has_message(self, session_id: str | None, sequences: Sequence[int]) -> bool:
        """Return whether one of these messages of a session is still there. Only messages have sequence numbers."""
        number = self.sessions.get(session_id or "")
        if number is None:
            return False
        there = self.sequence[self.session == number]
        return any((there == sequence).any() for sequence in sequences)

    def mark_kinds(self, kinds: Iterable[SourceKind]) -> Array:
        import numpy as np

        marked: Array = np.isin(self.kind, [_KINDS[kind.value] for kind in kinds])[self.message]
        return marked

    def mark_ordinals(self, ordinals: Sequence[int]) -> Array:
        import numpy as np

        marked: Array = np.isin(self.ordinals, np.asarray(ordinals, dtype=np.int64))
        return marked

    def truncate(self, ordinal: int) -> Catalogue:
        """Keep only chunks below this ordinal. Messages stay, even without chunks."""
        import numpy as np

        count = int(np.searchsorted(self.ordinals, ordinal))
        return replace(self, **{name: getattr(self, name)[:count] for name in _CHUNK_ARRAYS})

    def filter_ordinals(self, ordinals: Array, removals: int) -> Catalogue:
        """Keep only chunks with these ordinals, and drop messages, sessions and speakers without chunks."""
        import numpy as np

        stays = np.isin(self.ordinals, ordinals, assume_unique=True)
        arrays = {name: getattr(self, name)[stays] for name in _CHUNK_ARRAYS}
        used = np.zeros(self.messages + 1, dtype=bool)  # the last one has no neighbours
        used[arrays["message"]] = True
        number = np.where(used, np.cumsum(used) - 1, NO_MESSAGE)
        arrays["message"] = number[arrays["message"]].astype("i4")
        arrays |= {name: getattr(self, name)[used[:-1]] for name in _TYPES if name not in _CHUNK_ARRAYS}
        for beside in ("previous", "following"):
            arrays[beside] = number[arrays[beside]].astype("i4")
        arrays["speaker"], names = _renumber_speakers(arrays["speaker"], self.names)
        left, session = np.unique(arrays["session"], return_inverse=True)
        arrays["session"], place = session.astype("i4"), {at: place for place, at in enumerate(left.tolist())}
        sessions = {id_: place[at] for id_, at in self.sessions.items() if at in place}
        return replace(self, removals=removals, **arrays, names=names, sessions=sessions, session_count=len(left))

    def append_rows(self, added: Sequence[CatalogueRow]) -> Catalogue:
        """Add these chunks; their ordinals are above all existing ones."""
        return self.append_columns(CatalogueColumns.of(added)) if added else self

    def append_columns(self, added: CatalogueColumns) -> Catalogue:
        return _CatalogueBuilder(self).add_columns(added) if len(added.ordinals) else self


# A catalogue takes about a tenth of the memory of its vectors.
CATALOGUES: CacheKind[Catalogue] = CacheKind("catalogues", 1 / 4)

_CHUNK_ARRAYS = ("ordinals", "message", "words", "time_word", "standing_wish")
# The type of each array, as declared.
_TYPES: dict[str, str] = {
    name: hint.__metadata__[0]
    for name, hint in get_type_hints(Catalogue, include_extras=True).items()
    if hasattr(hint, "__metadata__")
}


def _renumber_speakers(speaker: Array, names: tuple[str, ...]) -> tuple[Array, tuple[str, ...]]:
    """Return the speakers' numbers, and the remaining names in order of first message."""
    import numpy as np

    found, first = np.unique(speaker[speaker >= 0], return_index=True)
    order = found[np.argsort(first)]
    number = np.full(len(names) + 2, -1, dtype="i4")  # the last two: no speaker, and RECORD_SPEAKER
    number[order] = np.arange(len(order))
    number[RECORD_SPEAKER] = RECORD_SPEAKER
    return number[speaker], tuple(names[at] for at in order.tolist())


def make_empty_catalogue(removals: int) -> Catalogue:
    load_modules("numpy", "numpy.ma")  # np.unique imports the second
    import numpy as np  # late: most commands never search

    arrays = {name: np.zeros(0, dtype=kind) for name, kind in _TYPES.items()}
    return Catalogue(removals, **arrays, names=(), sessions={}, session_count=0)


class _CatalogueBuilder:
    """Append new rows without changing the old arrays, which others may be reading."""

    def __init__(self, base: Catalogue) -> None:
        self._base = base
        self._names = {name: number for number, name in enumerate(base.names)}
        self._free = count(base.session_count)  # the next numbers of sessions
        self._sessions = defaultdict(self._free.__next__, base.sessions)

    def add_columns(self, added: CatalogueColumns) -> Catalogue:
        import numpy as np

        base, sequence = self._base, added.sequences
        session = self._number_sessions(added.sessions)
        near = self._find_neighbours(session, sequence)
        # Each message by one number; those of consecutive messages differ by one.
        span = int(sequence.max(initial=int(base.sequence.max(initial=0)))) + 3
        keys = np.concatenate([base.session[near], session]) * span + np.concatenate([base.sequence[near], sequence])
        found, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        is_new = first >= len(near)
        opening = np.sort(first[is_new]) - len(near)  # the first row of each new message
        number = np.where(is_new, np.searchsorted(opening, first - len(near)) + base.messages, 0)
        number[~is_new] = near[first[~is_new]]
        arrays = {
            "ordinals": added.ordinals,
            "message": number[inverse[len(near) :]],
            "words": added.words,
            "time_word": added.flags & TextFlag.TIME_WORD.value,
            "standing_wish": added.flags & TextFlag.STANDING_WISH.value,
            **self._describe_messages(added, opening, session),
        }
        links = np.flatnonzero(np.diff(found) == 1)
        return self._build(arrays, number[links], number[links + 1])

    def _find_neighbours(self, session: Array, sequence: Array) -> Array:
        """Return existing messages that a new one may belong to or follow."""
        import numpy as np

        known, found = session < self._base.session_count, [np.zeros(0, dtype="i8")]
        for each in np.unique(session[known]).tolist():
            lowest = int(sequence[session == each].min())
            found.append(np.flatnonzero((self._base.session == each) & (self._base.sequence >= lowest - 1)))
        return np.concatenate(found)

    def _number_sessions(self, sessions: Sequence[str | None]) -> Array:
        """Return the number of each session, by where it comes first. Each row without a session has one of its own."""
        import numpy as np

        return np.array([next(self._free) if each is None else self._sessions[each] for each in sessions], dtype="i8")

    def _describe_messages(self, added: CatalogueColumns, opening: Array, session: Array) -> dict[str, Any]:
        """What is known of each new message, by the first of its rows."""
        import numpy as np

        flags = added.flags[opening]
        said = np.array([each is not None for each in added.sessions], dtype=bool)[opening]
        return {
            "session": session[opening],
            "sequence": added.sequences[opening],
            "kind": added.kinds[opening],
            "is_user": ~said | added.by_user[opening].astype(bool),
            "speaker": self._number_speakers(added, opening, said),
            "time": added.times[opening] / 1e6,
            "ends_asking": flags & TextFlag.ENDS_ASKING.value,
            "only_asks": flags & TextFlag.ONLY_ASKS.value,
            "previous": np.full(len(opening), NO_MESSAGE),
            "following": np.full(len(opening), NO_MESSAGE),
        }

    def _number_speakers(self, added: CatalogueColumns, opening: Array, said: Array) -> Array:
        import numpy as np

        speakers = np.where(said, -1, RECORD_SPEAKER)
        if any(added.names):
            for at in np.flatnonzero(said).tolist():
                if name := added.names[opening[at]]:
                    speakers[at] = self._names.setdefault(name, len(self._names))
        return speakers

    def _build(self, added: Mapping[str, Any], earlier: Array, later: Array) -> Catalogue:
        import numpy as np

        base = self._base
        arrays = {
            name: np.concatenate([getattr(base, name), np.asarray(added[name]).astype(kind)])
            for name, kind in _TYPES.items()
        }
        arrays["following"][earlier] = later
        arrays["previous"][later] = earlier
        return Catalogue(
            base.removals,
            **arrays,
            names=tuple(self._names),
            sessions=dict(self._sessions),
            session_count=next(self._free),
        )


def read_catalogue(tx: Tx, row: PartitionRow, cipher: Cipher, low: int) -> CatalogueColumns:
    ordinals, sessions, sequences, names, times, words, marks = tx.db.columns(
        Query("chunks.catalogue", row.tail_params(low)),
        ordinal="number",
        session_id="text",
        sequence="number",
        name="text",
        created_at="number",
        word_count="number",
        marks="number",
    )
    if cipher.is_encrypted:
        stored = zip(ordinals.tolist(), names, strict=True)
        names = [cipher.decrypt_row(NAME, (row.id, ordinal), (name,))[0] for ordinal, name in stored]
    return CatalogueColumns(ordinals, sessions, sequences, names, times, words, marks >> 3, marks >> 1 & 3, marks & 1)
