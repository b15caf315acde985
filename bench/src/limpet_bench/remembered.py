"""An embedder with a cache: a second run over the same conversations needs no model."""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from threading import Lock

from limpet.providers.embedder import Embedder


class RememberingEmbedder:
    """Embeds each text once with another embedder, and stores the results in a file."""

    def __init__(self, embedder: Embedder, path: Path) -> None:
        self.name = embedder.name
        self.dimension = embedder.dimension
        self.asked = 0
        self._embedder = embedder
        self._lock = Lock()
        self._file = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._file.execute("PRAGMA synchronous = OFF")
        self._file.execute("CREATE TABLE IF NOT EXISTS vectors (hash BLOB PRIMARY KEY, vector BLOB NOT NULL)")

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        keys = [blake2b(f"{self.name}\n{text}".encode(), digest_size=16).digest() for text in texts]
        with self._lock:
            known = {key: found for key in set(keys) if (found := self._read(key)) is not None}
            missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
            if missing:
                self.asked += len(missing)
                fresh = self._embedder.embed(list(missing.values()))
                known |= {key: list(vector) for key, vector in zip(missing, fresh, strict=True)}
                rows = [(key, array("f", known[key]).tobytes()) for key in missing]
                self._file.executemany("INSERT OR IGNORE INTO vectors VALUES (?, ?)", rows)
        return [known[key] for key in keys]

    def _read(self, key: bytes) -> list[float] | None:
        row = self._file.execute("SELECT vector FROM vectors WHERE hash = ?", (key,)).fetchone()
        return None if row is None else array("f", row[0]).tolist()
