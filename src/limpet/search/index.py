"""What a search reads of a partition: a catalogue of its chunks as arrays, and the scores of words and vectors.

The catalogue holds what ranking needs to know of every chunk: speaker, time, neighbours. No text. It is loaded once,
then updated incrementally. Any removal, also by another process, changes the partition's counter; removed chunks are
then found by comparing ordinals.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, get_type_hints

from limpet.model.chunk import SourceKind, Vector
from limpet.model.dataclass import dataclass, replace
from limpet.model.late import load_modules
from limpet.model.scope import Partition
from limpet.model.values import from_seconds
from limpet.search.analysis import TextFlag
from limpet.search.vectors import VECTORS, PartitionVectors, VectorPage, VectorScores, VectorsVersion, normalize
from limpet.search.word_index import MAX_LENGTH, TAILS, WordTail, find_tail, load_tail
from limpet.store.encryption import RowLayout
from limpet.store.tables import CHUNKS
from limpet.store.tx import Array, CacheKind, Cipher, Query, Row, Tx, compute_cosines

if TYPE_CHECKING:
    from limpet.search.chunk_repository import PartitionRow

# The speaker of a record: matches every question about a speaker.
RECORD_SPEAKER = -2
# Before the first message of a session and after its last: arrays end with a zero.
NO_MESSAGE = -1
_KINDS = {kind.value: number for number, kind in enumerate(SourceKind)}
_CATALOGUE_ROW = RowLayout(CHUNKS, "ordinal session_id first_sequence role name created_at word_count flags kind")
_MIN_CHUNK_COUNT = 500
_VECTOR_PAGE = 4096
_MAX_ORDINAL = (1 << 63) - 1


class CatalogueRow(NamedTuple):
    """A catalogue row as loaded from the store."""

    ordinal: int
    session: str | None
    sequence: int | None
    role: str | None
    name: str | None
    created_at: int
    words: int
    flags: int
    kind: str = SourceKind.MESSAGE.value


class CatalogueFacts(NamedTuple):
    starts: Array  # where the chunks of each message start
    messages: Array  # which message that is
    in_order: bool  # each message is in one place, and they follow each other
    is_plain: bool  # and each has one chunk
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
            in_order = len(messages) <= self.messages and bool((messages == np.arange(len(messages))).all())
            is_plain = in_order and len(messages) == self.messages == self.chunks
            years = range(from_seconds(float(self.time.min())).year, from_seconds(float(self.time.max())).year + 1)
            self._facts.append(CatalogueFacts(starts, messages, in_order, is_plain, years, has_records))
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

    def mark_kinds(self, kinds: Iterable[SourceKind]) -> Array:
        """Return a mask of the chunks of these kinds."""
        import numpy as np

        marked: Array = np.isin(self.kind, [_KINDS[kind.value] for kind in kinds])[self.message]
        return marked

    def mark_ordinals(self, ordinals: Sequence[int]) -> Array:
        """Return a mask of the chunks with these ordinals."""
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
        return _CatalogueBuilder(self).add_rows(added) if added else self


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
        self._sessions = dict(base.sessions)
        self._session_count = base.session_count

    def add_rows(self, added: Sequence[CatalogueRow]) -> Catalogue:
        import numpy as np

        columns: Any = zip(*added, strict=True)
        base, rows = self._base, CatalogueRow(*columns)  # a tuple of each column
        session = np.array([self._session_number(each) for each in rows.session or ()], dtype="i8")
        sequence = np.array([each or 0 for each in rows.sequence], dtype="i8")  # type: ignore[union-attr]
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
            "ordinals": rows.ordinal,
            "message": number[inverse[len(near) :]],
            "words": rows.words,
            **self._describe_messages(rows, opening, session, sequence),
        }
        flags = np.array(rows.flags, dtype="i8")
        arrays |= {"time_word": flags & TextFlag.TIME_WORD.value, "standing_wish": flags & TextFlag.STANDING_WISH.value}
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

    def _session_number(self, session_id: str | None) -> int:
        number = None if session_id is None else self._sessions.get(session_id)
        if number is None:
            number = self._session_count
            self._session_count += 1
            if session_id is not None:
                self._sessions[session_id] = number
        return number

    def _describe_messages(self, rows: CatalogueRow, opening: Array, session: Array, sequence: Array) -> dict[str, Any]:
        """What is known of each new message, by the first of its rows."""
        import numpy as np

        first: list[int] = opening.tolist()
        columns: Any = rows
        said = [columns.session[at] is not None for at in first]
        flags = np.array([columns.flags[at] for at in first], dtype="i8")
        return {
            "session": session[opening],
            "sequence": sequence[opening],
            "kind": [_KINDS[columns.kind[at]] for at in first],
            "is_user": [not is_said or columns.role[at] == "user" for at, is_said in zip(first, said, strict=True)],
            "speaker": [
                self._speaker_number(columns.name[at]) if is_said else RECORD_SPEAKER
                for at, is_said in zip(first, said, strict=True)
            ],
            "time": np.array([columns.created_at[at] for at in first], dtype="f8") / 1e6,
            "ends_asking": flags & TextFlag.ENDS_ASKING.value,
            "only_asks": flags & TextFlag.ONLY_ASKS.value,
            "previous": np.full(len(first), NO_MESSAGE),
            "following": np.full(len(first), NO_MESSAGE),
        }

    def _speaker_number(self, name: str | None) -> int:
        return self._names.setdefault(name, len(self._names)) if name else -1

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
            sessions=self._sessions,
            session_count=self._session_count,
        )


class WordScores(NamedTuple):
    """By ordinal: BM25 and the share of the question's weight that a chunk contains; and the share known at all."""

    scores: Array
    covered: Array
    known: float


def read_catalogue(tx: Tx, row: PartitionRow, cipher: Cipher, low: int) -> list[CatalogueRow]:
    """Return the rows of the catalogue from an ordinal on."""
    stored = tx.db.all("chunks.catalogue", row.tail_params(low)) if low < row.next_ordinal else ()
    return _decrypt_catalogue(row, cipher, stored)


def _decrypt_catalogue(row: PartitionRow, cipher: Cipher, stored: Iterable[Row]) -> list[CatalogueRow]:
    if not cipher.is_encrypted:
        return [*map(CatalogueRow._make, stored)]
    return [CatalogueRow(*cipher.decrypt_row(_CATALOGUE_ROW, (row.id, each[0]), each)) for each in stored]


def postings_query(row: PartitionRow, terms: Any) -> Query:
    return Query("postings.find", {**row.key, "terms": terms})


def vector_queries(row: PartitionRow, question: Vector) -> list[Query]:
    """What a search by meaning reads before vectors."""
    return [Query("models.get", {"name": question.model}), Query("vectors.last_late", row.key)]


class SearchIndex:
    """A partition in one transaction, as a search reads it."""

    def __init__(self, tx: Tx, partition: Partition, row: PartitionRow, cipher: Cipher) -> None:
        self.tx = tx
        self.partition = partition
        self.row = row
        self.cipher = cipher  # also if all is cached: a search needs the key
        self.catalogue = self._load_catalogue()

    def _load_catalogue(self) -> Catalogue:
        load_modules("numpy", "numpy.ma")  # the first import in a search; np.unique imports the second
        import numpy as np

        row, cache = self.row, self.tx.caches.get(CATALOGUES)
        cached = cache.get(row.id)
        # A snapshot from before a removal must load its own catalogue, which is not cached.
        outdated = cached is not None and cached.removals > row.removals
        known = make_empty_catalogue(row.removals) if cached is None or outdated else cached
        if known.removals < row.removals:
            ordinals = [ordinal for (ordinal,) in self.tx.db.all("chunks.ordinals", row.key)]
            known = known.filter_ordinals(np.array(ordinals, dtype="i8"), row.removals)
        if known.last_ordinal + 1 < row.next_ordinal:
            known = known.append_rows(self._read_new_rows(known.last_ordinal + 1))
        if known is not cached and not outdated:
            cache.put(row.id, known)
        # A later snapshot may have added what this one does not see.
        return known if known.last_ordinal < row.next_ordinal else known.truncate(row.next_ordinal)

    def _read_new_rows(self, low: int) -> list[CatalogueRow]:
        """Return the rows of the catalogue from an ordinal on. Where the tail ends there, it grows by the same read."""
        tail = None if self.cipher.is_encrypted else find_tail(self.tx, self.row)
        if tail is None or tail.next_ordinal != low:
            return read_catalogue(self.tx, self.row, self.cipher, low)
        rows = self.tx.db.all("chunks.new", self.row.tail_params(low))
        grown = tail.extend([(row[0], row[6], row[-1]) for row in rows], self.row.next_ordinal)
        self.tx.caches.get(TAILS).put(self.row.id, grown)
        return _decrypt_catalogue(self.row, self.cipher, (row[:-1] for row in rows))

    def _find_model(self, vector: Vector) -> int | None:
        """Return the number of the model whose vectors the question can be compared with."""
        row = self.tx.db.one("models.get", {"name": vector.model})
        return int(row[0]) if row is not None and row[1] == len(vector.values) else None

    def score_vectors(self, question: Vector) -> VectorScores | None:
        """Return fast cosines for every chunk of the catalogue; None if none has a vector of the question's model."""
        import numpy as np

        model_id = self._find_model(question)
        if model_id is None:
            return None
        late = self.tx.db.one("vectors.last_late", self.row.key)
        key = (self.row.id, model_id)
        cache = self.tx.caches.get(VECTORS)
        vectors = cache.get(key) or cache.setdefault(key, PartitionVectors(len(question.values)))
        cosines = vectors.score(
            self.catalogue.ordinals,
            VectorsVersion(self.row.removals, late[0] if late else 0),
            lambda first: self._read_pages(model_id, first, _MAX_ORDINAL),
            lambda number: self._read_late_pages(model_id, number),
            normalize(np.asarray(question.values, dtype=np.float32)),
        )
        cache.put(key, vectors)  # it may have grown: evict others to make room
        return cosines

    def _read_late_pages(self, model_id: int, number: int) -> Iterator[VectorPage]:
        for low, high in self.tx.db.all("vectors.late_ranges", {**self.row.key, "number": number}):
            yield from self._read_pages(model_id, low, high)

    def _read_pages(self, model_id: int, low: int, high: int) -> Iterator[VectorPage]:
        import numpy as np

        query = "vectors.encrypted_page" if self.cipher.is_encrypted else "vectors.page"
        params = {**self.row.key, "model_id": model_id, "high": high, "limit": _VECTOR_PAGE}
        while found := self.tx.db.all(query, {**params, "low": low}):
            ordinals = np.array([ordinal for ordinal, _ in found], dtype=np.int64)
            matrix = (
                self._decrypt_matrix(model_id, found)
                if self.cipher.is_encrypted
                else self.tx.db.unpack_matrix([each for _, each in found])
            )
            yield VectorPage(ordinals, normalize(matrix))
            low = found[-1][0] + 1

    def compute_cosines(self, question: Vector, ordinals: Sequence[int]) -> dict[int, float]:
        """Return exact cosines from the stored vectors, by ordinal."""
        model_id = self._find_model(question)
        if model_id is None or not ordinals:
            return {}
        if not self.cipher.is_encrypted:
            return self.tx.db.compute_cosines(self.row.key, model_id, ordinals, question.values)
        params = {**self.row.key, "model_id": model_id, "ordinals": self.tx.db.to_array(ordinals)}
        stored = self.tx.db.all("vectors.encrypted_some", params)
        matrix = self._decrypt_matrix(model_id, stored)
        return compute_cosines([ordinal for ordinal, _ in stored], matrix, question.values)

    def _decrypt_matrix(self, model_id: int, rows: Sequence[Row]) -> Array:
        """Decode vectors stored as bytes, to compare them here as the database would."""
        import numpy as np

        opened = [self.cipher.decrypt_vector((self.row.id, at, model_id), bytes(stored)) for at, stored in rows]
        return np.frombuffer(b"".join(opened), dtype="<f4").reshape(len(rows), -1) if rows else np.zeros((0, 0), "<f4")

    def score_words(self, weights: Mapping[int, float], optional: frozenset[int], k1: float, b: float) -> WordScores:
        """Return BM25 of every chunk by ordinal, and how much of the question is known here.

        ``optional`` terms count for scores, but not for how much of the question is covered.
        """
        import numpy as np

        tail = load_tail(self.tx, self.row, is_cached=not self.cipher.is_encrypted)
        # Summed in the order of the plain term numbers, encrypted or not, so that sums are equal to the last digit.
        stored = {term: self.cipher.hash_term(term) for term in weights}
        known_terms = self._load_entries(list(stored.values()), tail)
        chunk_count = self.row.chunk_count + tail.chunk_count
        average = max(1.0, (self.row.word_count + tail.word_count) / max(1, chunk_count))
        matches: list[tuple[Array, float, float]] = []  # the entries of a term, its rarity, its mass
        total = known = 0.0
        for term in sorted(weights):
            entries = known_terms.get(stored[term])
            matching = 0 if entries is None else len(entries)
            # A young store knows few words: a missing word says less than in an old one.
            share = 0.0 if term in optional else weights[term]
            mass = share * math.log1p((max(chunk_count, _MIN_CHUNK_COUNT) - matching + 0.5) / (matching + 0.5))
            total += mass
            if entries is None:
                continue
            known += mass
            rarity = weights[term] * math.log1p((chunk_count - matching + 0.5) / (matching + 0.5))
            matches.append((entries, rarity, mass))
        if not matches:
            return WordScores(np.zeros(0), np.zeros(0), 0.0)
        # All terms at once: of a few hundred entries each, a call costs more than its work.
        found, rarities, masses = zip(*matches, strict=True)
        counts, entries = [len(each) for each in found], np.concatenate(found)
        where, packed = entries[:, 0].astype(np.int64), entries[:, 1]
        frequency, length = (packed >> 16).astype(np.float64), (packed & MAX_LENGTH).astype(np.float64)
        score = np.repeat(rarities, counts) * frequency * (k1 + 1) / (frequency + k1 * (1 - b + b * length / average))
        scores = np.bincount(where, weights=score)
        if not total:
            return WordScores(scores, np.zeros(0), 0.0)
        covered = np.bincount(where, weights=np.repeat(masses, counts)) / total
        return WordScores(scores, covered, known / total)

    def _load_entries(self, terms: Sequence[int], tail: WordTail) -> Mapping[int, Array]:
        """Return an array of (ordinal, count and length) for each term that occurs."""
        import numpy as np

        pieces: defaultdict[int, list[bytes]] = defaultdict(list)
        if self.row.merged_ordinal:  # else there are none
            [blocks] = self.tx.db.all_together([postings_query(self.row, self.tx.db.to_array(terms))])
            for term, data in blocks:
                pieces[term].append(bytes(data))
        found = {}
        for term in terms:
            newest = tail.entries[np.flatnonzero(tail.terms == term)]
            if term in pieces:
                merged = np.frombuffer(b"".join(pieces[term]), dtype="<u4").reshape(-1, 2)
                found[term] = np.concatenate([merged, newest])
            elif len(newest):
                found[term] = newest
        return found
