from __future__ import annotations

import os
import signal
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from limpet import Limpet
from limpet.errors import StoreUnavailable
from tests.crash.check import NOTHING_STORED
from tests.crash.lossy_network import LossyNetwork, Moment
from tests.postgres_server import PostgresServer

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

CALLERS = 8
CALLS = 12


@pytest.mark.parametrize("refusals", [0, 1, 2])
@pytest.mark.parametrize("moment", ["before", "after", "late"])
def test_commit_without_response_is_neither_lost_nor_repeated(moment: Moment, refusals: int, postgres_url: str) -> None:
    """The server is asked what became of it; when it cannot be asked, the call is not repeated on a guess."""
    Limpet.open(postgres_url).close()
    # A socket's path is short, and pytest's folders are deep.
    with (
        tempfile.TemporaryDirectory(prefix="limpet-") as folder,
        LossyNetwork(postgres_url, Path(folder), moment=moment, every=12, refusals=refusals) as network,
        Limpet.open(network.url) as memory,
    ):
        session = memory.session("test", "lossy", user="u")

        def call(number: int) -> tuple[str, str]:
            text = f"call{number}"
            try:
                session.append("user", text)
            except StoreUnavailable as error:
                return text, str(error)
            return text, ""

        with ThreadPoolExecutor(CALLERS) as pool:
            answers = dict(pool.map(call, range(CALLERS * CALLS)))
    assert network.cuts > 0
    with Limpet.open(postgres_url) as memory:
        found = Counter(message.text for message in memory.session("test", "lossy", user="u").messages())
        faults = [finding for finding in memory.admin.doctor() if not finding.ok]
    acknowledged = {text for text, error in answers.items() if not error}
    denied = {text for text, error in answers.items() if NOTHING_STORED in error}
    assert {text: count for text, count in found.items() if count > 1} == {}
    assert acknowledged - found.keys() == set()
    assert denied & found.keys() == set(), "the caller was told that nothing was stored"
    assert faults == []
    if refusals == 0 and moment == "after":
        assert set(answers) == acknowledged, "the server said the commit happened"


def test_transaction_id_reused_after_crash_is_not_taken_as_committed(private_postgres: PostgresServer) -> None:
    """A server that crashes gives out numbers again that it has forgotten: somebody else's commit is not ours."""
    url = private_postgres.create_database()
    with (
        Limpet.open(url) as other,
        tempfile.TemporaryDirectory(prefix="limpet-") as folder,
    ):

        def crash() -> None:
            [pid] = private_postgres.run("SELECT pid FROM pg_stat_activity WHERE state = 'idle in transaction'")[0]
            os.kill(pid, signal.SIGKILL)
            while True:
                try:
                    other.remember("somebody else's", user="other")
                except StoreUnavailable:
                    time.sleep(0.02)
                else:
                    return

        with (
            LossyNetwork(url, Path(folder), moment="before", every=4, meanwhile=crash) as network,
            Limpet.open(network.url) as memory,
        ):
            acknowledged = [kept for number in range(16) if (kept := _remembered(memory, f"ours {number}"))]
        assert network.cuts > 2
        found = {record.content for record in other.records(user="us")}
        assert [text for text in acknowledged if text not in found] == []


def _remembered(memory: Limpet, text: str) -> str | None:
    try:
        return memory.remember(text, user="us").content
    except StoreUnavailable:
        return None
