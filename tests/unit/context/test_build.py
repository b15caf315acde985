"""What a turn reads and compacts so that each message is in its context, or in its summary."""

from __future__ import annotations

import pytest

from limpet import Config, Limpet, Message
from limpet.model.scope import Scope
from limpet.sessions.repository import Messages


def test_turn_reads_what_no_summary_covers_once_when_it_shows_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[int] = []
    read = Messages.list_unsummarised

    def count(self: Messages, scope: Scope) -> list[Message]:
        found = read(self, scope)
        reads.append(len(found))
        return found

    config = Config.load(env={}, overrides={"embedding.model": "none", "jobs.worker": False})
    with Limpet.open(":memory:", config=config) as memory:
        session = memory.session("test", "one", user="alice")
        session.extend([Message.new("user", f"Crate {number} is packed.") for number in range(30)])
        session.compact(keep=4)
        monkeypatch.setattr(Messages, "list_unsummarised", count)
        with session.turn("Which crates?") as turn:
            assert len(turn.context.messages) == 5
        assert reads == [4]  # before the question was stored
        with session.turn("And the others?", max_tokens=60) as turn:
            assert turn.compacted is not None
        assert len(reads) > 2
