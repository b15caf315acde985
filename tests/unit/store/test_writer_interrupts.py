"""An interrupt between any two steps of passing the lead on leaves no writer waiting."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from limpet import Limpet
from limpet.store.writer import WriteRequest


def test_next_writer_is_woken_though_an_interrupt_came_before(monkeypatch: pytest.MonkeyPatch) -> None:
    with Limpet.open(":memory:") as memory:
        writer: Any = memory._runtime.store._writer
        leader, follower = WriteRequest(lambda _: None), WriteRequest(lambda _: None)
        writer._enqueue(leader)
        writer._enqueue(follower)
        leader.done = True
        wake, calls = WriteRequest.wake, []

        def interrupted(self: WriteRequest[Any]) -> None:
            calls.append(self)
            if self is follower and calls.count(self) == 1:
                raise KeyboardInterrupt
            wake(self)

        monkeypatch.setattr(WriteRequest, "wake", interrupted)
        with pytest.raises(KeyboardInterrupt):
            writer._pass_leadership(leader)
        writer._cancel(leader)
        assert follower.leads
        woken = threading.Thread(target=follower.gate.acquire, kwargs={"timeout": 60})
        woken.start()
        woken.join(50)
        assert not woken.is_alive()
        writer._lead_group()
        writer._pass_leadership(follower)
        assert memory.session(user="alice").append("user", "goes on").sequence == 1
