"""How fast recall is and how much memory it uses, compared with a plain scan of the same vectors."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from limpet import Config, Limpet, Message, Session
from limpet.api.runtime import DATABASE
from limpet.providers.choose import create_embedder
from limpet.providers.embedder import Embedder
from limpet.providers.encoder import EncoderEmbedder
from limpet_bench.workload import texts, time_call

if TYPE_CHECKING:
    from limpet_bench.speed import Bench, Times

USER = "asker"
DIMENSION = 384
OTHERS_DIMENSION = 64  # a million longer ones would only fill the disk
NO_MODEL = Config.load(
    env={},  # results must not depend on the environment
    overrides={
        "embedding.model": "none",
        "embedding.when": "now",
        "embedding.background": False,
        "retention.enabled": False,
    },
)


class SpreadEmbedder:
    """Meaningless vectors from the hash of a text: quick to make and hard to search."""

    def __init__(self, dimension: int = DIMENSION) -> None:
        self.dimension = dimension
        self.name = f"spread-{dimension}"

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        import numpy as np

        seeds = (int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little") for text in texts)
        return [np.random.default_rng(seed).standard_normal(self.dimension).tolist() for seed in seeds]


def open_store(folder: Path, embedder: Embedder | None) -> Limpet:
    return Limpet.open(folder, config=NO_MODEL, embedder=embedder)


def talk(memory: Limpet, user: str, chunks: int, note: Callable[[str], None]) -> None:
    """The chats of one user, a few hundred messages each."""
    pool, batch = texts(20_000, seed=5), 500
    for start in range(0, chunks, batch):
        session = memory.session("bench", f"chat {start // batch}", user=user)
        lines = (f"{pool[(start + at) % len(pool)]} {start + at}" for at in range(min(batch, chunks - start)))
        roles = ("user", "assistant")
        session.extend([Message.new(roles[at % 2], line) for at, line in enumerate(lines)])
        note(f"storing {start + batch:,} of {chunks:,} chunks")


def questions(count: int) -> list[str]:
    """Every other word of a stored message: a question without shared words would have no hits."""
    return [" ".join(line.split()[:16:2]) for line in texts(10 * count, seed=5)[::10]]


def recall_against_scan(bench: Bench) -> Times:
    """Everything a recall does except embedding, and one multiplication of the same vectors."""
    import numpy as np

    from limpet_bench.speed import Times

    times = Times()
    matrix = np.random.default_rng(1).standard_normal((bench.effort.chunks, DIMENSION)).astype(np.float32)
    with open_store(bench.fill_chat(bench.effort.chunks), SpreadEmbedder()) as memory:
        memory.recall("first", user=USER)
        for question in questions(bench.effort.questions):
            asked = np.asarray(SpreadEmbedder().embed([question])[0], dtype=np.float32)
            times.ours.append(time_call(lambda question=question: memory.recall(question, user=USER)))  # type: ignore[misc]
            times.plain.append(time_call(lambda asked=asked: matrix @ asked))  # type: ignore[misc]
    return times


def recall_among_others(bench: Bench) -> Times:
    """The same user alone in a store, and in one with many others."""
    from limpet_bench.speed import Times

    times, embedder = Times(), SpreadEmbedder(OTHERS_DIMENSION)
    with open_store(bench.fill_crowd(), embedder) as crowded, open_store(bench.alone(), embedder) as alone:
        for memory in (crowded, alone):
            memory.recall("first", user=USER)
        for question in questions(bench.effort.questions):
            times.ours.append(time_call(lambda question=question: crowded.recall(question, user=USER)))  # type: ignore[misc]
            times.plain.append(time_call(lambda question=question: alone.recall(question, user=USER)))  # type: ignore[misc]
    return times


def first_recall(bench: Bench) -> Times:
    """From opening the store to the first answer, and reading the same vectors with the bare driver."""
    from limpet_bench.speed import Times

    times, folder = Times(), bench.fill_chat(bench.effort.chunks)
    for question in questions(bench.effort.starts):
        started = perf_counter()
        with open_store(folder, SpreadEmbedder()) as memory:
            memory.recall(question, user=USER)
            times.ours.append(perf_counter() - started)
        times.plain.append(time_call(lambda: _read_vectors(folder)))
    return times


def _read_vectors(folder: Path) -> Any:
    import numpy as np

    connection = sqlite3.connect(folder / DATABASE)
    rows = connection.execute("SELECT vector FROM vectors ORDER BY bucket, partition_id, ordinal, model_id").fetchall()
    connection.close()
    return np.frombuffer(b"".join(row[0] for row in rows), dtype="<f4")


def ingest(bench: Bench) -> Times:
    """Store messages with their vectors, and embed the same texts alone."""
    from limpet_bench.speed import Times

    times, embedder = Times(), EncoderEmbedder()
    embedder.embed(["loads the model"])
    with open_store(bench.new_folder(), embedder) as memory:
        session = memory.session("bench", "ingest", user=USER)
        for part in _batches(bench):
            times.ours.append(_extend(session, part))
            times.plain.append(time_call(lambda part=part: embedder.embed(part)) / len(part))  # type: ignore[misc]
    return times


def ingest_against(other: str) -> Callable[[Bench], Times]:
    """Store messages with the encoder's vectors, and the same messages with another embedder, or with none."""

    def measure(bench: Bench) -> Times:
        from limpet_bench.speed import Times

        times, encoder, beside = Times(), EncoderEmbedder(), create_embedder(other)
        with open_store(bench.new_folder(), encoder) as ours, open_store(bench.new_folder(), beside) as theirs:
            sessions = [memory.session("bench", "ingest", user=USER) for memory in (ours, theirs)]
            for session in sessions:
                session.append("user", "loads the model")
            for part in _batches(bench):
                times.ours.append(_extend(sessions[0], part))
                times.plain.append(_extend(sessions[1], part))
        return times

    return measure


def recall_with_encoder(bench: Bench) -> Times:
    """A recall of one user with the encoder's vectors, and the question's vector alone."""
    from limpet_bench.speed import Times

    times, encoder = Times(), EncoderEmbedder()
    with open_store(bench.new_folder(), encoder) as memory:
        talk(memory, USER, bench.effort.few_chunks, lambda _: None)
        memory.recall("first", user=USER)
        for question in questions(bench.effort.questions):
            times.ours.append(time_call(lambda question=question: memory.recall(question, user=USER)))  # type: ignore[misc]
            times.plain.append(time_call(lambda question=question: encoder.embed([question])))  # type: ignore[misc]
    return times


def _batches(bench: Bench) -> Iterator[list[str]]:
    lines = texts(bench.effort.embedded * 4, seed=12)
    for start in range(0, len(lines), bench.effort.embedded):
        yield lines[start : start + bench.effort.embedded]


def _extend(session: Session, lines: Sequence[str]) -> float:
    """Return the seconds for one message."""
    messages = [Message.new("user", line) for line in lines]
    return time_call(lambda: session.extend(messages)) / len(messages)


def memory(bench: Bench) -> Times:
    """Bytes cached per chunk of one user, and the size of their vectors at 32 bits."""
    from limpet_bench.speed import Times

    with open_store(bench.fill_chat(bench.effort.chunks), SpreadEmbedder()) as memory:
        memory.recall("first", user=USER)
        store: Any = memory._runtime.store  # noqa: SLF001 - the bench looks inside
        remembered = store.caches.nbytes
    return Times([float(remembered)], [float(bench.effort.chunks * DIMENSION * 4)])
