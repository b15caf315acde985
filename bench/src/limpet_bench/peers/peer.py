"""The peer interface: a few calls that every store of messages supports in some form."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Protocol, cast

from limpet.providers.embedder import Embedder
from limpet_bench.datasets import Turn


class Peer(Protocol):
    """An open store of many users. Used by one thread."""

    def add(self, user: str, turns: Sequence[Turn]) -> None:
        """Return when the turns are stored, as far as the peer guarantees it."""

    def search(self, user: str, question: str, k: int, at: datetime | None) -> list[str]:
        """Return ids of turns, best first. ``at`` is the time of the question."""

    def ids(self, user: str) -> set[str]:
        """Return the number of all stored turns, added by this process or another."""

    def close(self) -> None: ...


Opening = Callable[[Path, Embedder | None], Peer]


@dataclass(frozen=True, slots=True)
class About:
    """A registry entry: the name and requirements of a peer. Its module is imported when it is opened."""

    name: str
    what: str
    module: str  # holds a function open_peer(folder, embedder)
    imports: str  # what a program that uses it begins with
    packages: tuple[str, ...] = ()  # the first one is the peer itself
    vectors: bool = True
    own_version: str = ""  # of what need not be installed as a package
    extensions: bool = False  # needs a sqlite3 that loads them
    environment: Mapping[str, str] = field(default_factory=dict)  # switches off what would go over the network

    @property
    def install(self) -> str:
        return f"pip install {' '.join(self.packages)}"

    def version(self) -> str:
        """What is found; empty where it is part of Python."""
        return version(self.packages[0]) if self.packages else self.own_version

    def find_missing(self, *, has_vectors: bool) -> str | None:
        """Why it cannot be measured here, and what to do; None when it can."""
        absent = [name for name in self.packages if not is_installed(name)]
        if absent:
            return f"not installed: {self.install}"
        if self.vectors and not has_vectors:
            return "needs vectors: --model names an embedder"
        if self.extensions and not hasattr(sqlite3.Connection, "enable_load_extension"):
            return "this Python's sqlite3 cannot load extensions: another build of Python can"
        return None


def load_peer(module: str, folder: Path, embedder: Embedder | None) -> Peer:
    return cast("Opening", import_module(module).open_peer)(folder, embedder)


def is_installed(package: str) -> bool:
    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True


def format_turn(turn: Turn) -> str:
    """A turn for whoever has no field for the speaker: the name stands in front, as in a transcript."""
    return turn.text if turn.name is None else f"{turn.name}: {turn.text}"


def embed_texts(embedder: Embedder | None, texts: Sequence[str]) -> list[list[float]]:
    assert embedder is not None  # About.find_missing says so before
    return [list(vector) for vector in embedder.embed(texts)]
