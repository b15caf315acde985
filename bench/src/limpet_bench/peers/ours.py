"""Limpet, as its tutorial uses it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import groupby
from pathlib import Path

from limpet import Config, Hit, Limpet, Message, Session
from limpet.providers.embedder import Embedder
from limpet_bench.datasets import Turn

# A write waits for its vectors, as with the others; the given embedder is the only model.
CONFIG = Config.load(env={}, overrides={"embedding.model": "none", "embedding.when": "now", "retention.enabled": False})
_ID = "turn"


class Ours:
    def __init__(self, memory: Limpet) -> None:
        self._memory = memory
        self._sessions: dict[tuple[str, str], Session] = {}
        self._ids: dict[tuple[str, int], str] = {}

    def add(self, user: str, turns: Sequence[Turn]) -> None:
        for name, part in groupby(turns, key=lambda turn: turn.session):
            session, said = self._session(user, name), list(part)
            if len(said) == 1:
                (turn,) = said
                kept = [
                    session.append(turn.role, turn.text, name=turn.name, created_at=turn.at, metadata={_ID: turn.id})
                ]
            else:
                kept = session.extend([_message(turn) for turn in said])
            for turn, message in zip(said, kept, strict=True):
                self._ids[session.id, message.sequence] = turn.id

    def search(self, user: str, question: str, k: int, at: datetime | None) -> list[str]:
        return [self._id(hit) for hit in self._memory.recall(question, user=user, k=k, at=at)]

    def _id(self, hit: Hit) -> str:
        """A hit is a part of one message, which another process may have stored."""
        session, sequence = hit.source.session_id or "", hit.source.first_sequence or 0
        if (session, sequence) not in self._ids:
            (message,) = self._memory.load_session(session).messages(after=sequence - 1, limit=1)
            self._ids[session, sequence] = str(message.metadata[_ID])
        return self._ids[session, sequence]

    def ids(self, user: str) -> set[str]:
        sessions = [self._memory.load_session(found.id) for found in self._memory.sessions(user=user, limit=1000)]
        return {str(message.metadata[_ID]) for session in sessions for message in session.messages()}

    def close(self) -> None:
        self._memory.close()

    def _session(self, user: str, name: str) -> Session:
        if (user, name) not in self._sessions:
            self._sessions[user, name] = self._memory.session("bench", name, user=user)
        return self._sessions[user, name]


def _message(turn: Turn) -> Message:
    return Message.new(turn.role, turn.text, name=turn.name, created_at=turn.at, metadata={_ID: turn.id})


def open_peer(folder: Path, embedder: Embedder | None) -> Ours:
    return Ours(Limpet.open(folder, config=CONFIG, embedder=embedder))
