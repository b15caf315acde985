"""What is done with one peer in a process of its own, so that one that hangs or falls ends only its own line.

``python -m limpet_bench.peers.stages GIVEN.json`` writes what it found beside it, into the file that ``out`` names.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import count, groupby
from operator import truediv
from pathlib import Path
from time import perf_counter
from typing import Any

from limpet.providers.choose import create_embedder
from limpet.providers.embedder import Embedder
from limpet_bench.datasets import Conversation, Turn, load
from limpet_bench.peers.asked import first_turns
from limpet_bench.peers.peer import Peer, format_turn, load_peer
from limpet_bench.peers.registry import OUR_MODULE
from limpet_bench.remembered import RememberingEmbedder

UNCOUNTED = 3  # warm-up calls, which include late loading
DEPTH = 10
ROUND = 5  # messages per turn of each side
SOUGHT = 10  # messages of another process
MARKS = ("ready", "written")
WRITER = "writer"  # the user of those stages that only count


@dataclass(frozen=True, slots=True)
class Given:
    stage: str
    module: str  # of the peer
    store: str
    work: str
    model: str
    vectors: str
    out: str
    messages: int = 0
    seconds: float = 0.0
    patience: float = 60.0
    writer: int = 0
    writers: int = 1

    def embedder(self) -> Embedder | None:
        """Return an embedder with all vectors cached; it loads the model only for unknown texts."""
        model = create_embedder(self.model)
        return None if model is None else RememberingEmbedder(model, Path(self.vectors))

    def open_peer(self) -> Peer:
        return load_peer(self.module, Path(self.store), self.embedder())


def make(given: Given) -> dict[str, Any]:
    given.open_peer().close()
    return {}


class Sides:
    """The peer and Limpet in alternation, so that other load on the machine affects both."""

    def __init__(self, given: Given) -> None:
        self.peers = [given.open_peer()]
        if given.module != OUR_MODULE:
            self.peers.append(load_peer(OUR_MODULE, Path(f"{given.store}.beside"), given.embedder()))
        self._times: list[list[float]] = [[] for _ in self.peers]
        self._rounds: list[list[float]] = [[] for _ in self.peers]

    def time(self, actions: Sequence[Callable[[Peer], Any]]) -> list[Any]:
        """What the peer answered."""
        answers = []
        for peer, times, rounds in zip(self.peers, self._times, self._rounds, strict=True):
            for action in actions:
                start = perf_counter()
                answers.append(action(peer))
                times.append(perf_counter() - start)
            rounds.append(sum(times[-len(actions) :]) / len(actions))
        return answers[: len(actions)]

    def close(self) -> None:
        for peer in self.peers:
            peer.close()

    def summarize(self) -> dict[str, float]:
        """Of the peer, and under the same names with ``beside_`` in front of Limpet."""
        found = {}
        for before, times, rounds in zip(("", "beside_"), self._times, self._rounds, strict=False):
            counted = sorted(times[UNCOUNTED:] or times)
            found[f"{before}per_second"] = 1 / statistics.median(rounds[1:] or rounds)
            found[f"{before}mean_per_second"] = len(counted) / sum(counted)
            found[f"{before}p50_ms"] = counted[len(counted) // 2] * 1e3
            found[f"{before}p95_ms"] = counted[int(len(counted) * 0.95)] * 1e3
        if len(self.peers) > 1:  # the two of a round were there at the same time
            found["time_ratio"] = statistics.median(map(truediv, *(rounds[1:] or rounds for rounds in self._rounds)))
        return found


def keep(given: Given) -> dict[str, Any]:
    """One message at a time, each stored before the next."""
    sides = Sides(given)
    said = first_turns(load(Path(given.work)), given.messages + UNCOUNTED)
    ends, done = perf_counter() + given.seconds, 0
    while done < len(said) and perf_counter() < ends:
        part = said[done : done + ROUND]
        sides.time([lambda peer, user=user, turn=turn: peer.add(user, [turn]) for user, turn in part])  # type: ignore[misc]
        done += len(part)
    sides.close()
    size = sum(file.stat().st_size for file in Path(given.store).rglob("*") if file.is_file())
    return {"messages": done, "bytes": size, **sides.summarize()}


def fill(peer: Peer, conversations: Iterable[Conversation]) -> int:
    """A session at a time, like an import."""
    done = 0
    for conversation in conversations:
        for _, part in groupby(conversation.turns, key=lambda turn: turn.session):
            turns = list(part)
            peer.add(conversation.id, turns)
            done += len(turns)
    return done


def ask(given: Given) -> dict[str, Any]:
    conversations = load(Path(given.work))
    sides = Sides(given)
    start = perf_counter()
    stored = fill(sides.peers[0], conversations)
    took = perf_counter() - start
    for peer in sides.peers[1:]:
        fill(peer, conversations)
    questions = [(each.id, question) for each in conversations for question in each.questions]
    found = {}
    for user, question in [*questions[:UNCOUNTED], *questions]:
        wanted = (user, question.text, DEPTH, question.at)
        (found[question.id],) = sides.time([lambda peer, wanted=wanted: peer.search(*wanted)])  # type: ignore[misc]
    sides.close()
    return {"stored": stored, "load_per_second": stored / took, "found": found, **sides.summarize()}


def _texts(given: Given, writer: int) -> list[Turn]:
    """Different texts for each writer, as far as there are enough."""
    turns = [turn for _, turn in first_turns(load(Path(given.work)), given.messages * given.writers)]
    return turns[writer * given.messages :] or turns


def _endless(given: Given) -> Iterator[Turn]:
    """The same texts repeatedly, each time with a new id, in a chat of this writer."""
    turns = _texts(given, given.writer)
    for number in count():
        turn = turns[number % len(turns)]
        yield replace(turn, id=f"{given.writer}/{number}", session=f"chat of {given.writer}")


def write(given: Given) -> dict[str, Any]:
    """Log every acknowledged message, until the count is reached; alone, until it is killed."""
    raised, said = 0, ""
    with notes_path(given.store, given.writer).open("a", encoding="utf-8") as notes:
        peer = given.open_peer()
        _wait_for_others(given, "ready")
        ends = perf_counter() + given.seconds
        for number, turn in enumerate(_endless(given)):
            if perf_counter() > ends or (given.writers > 1 and number == given.messages):
                break
            try:
                peer.add(WRITER, [turn])
            except Exception as error:  # why: a peer may raise anything, and failures are counted
                if given.writers == 1:
                    raise
                raised, said = raised + 1, said or format_error(error)
                continue
            notes.write(f"{turn.id}\n")
            notes.flush()
    _wait_for_others(given, "written")
    seen = _count_seen(given, peer) if given.writer == 0 else {}
    peer.close()
    return {"raised": raised, "said": said, **seen}


def _count_seen(given: Given, peer: Peer) -> dict[str, int]:
    """Return whether an open store finds what another process has added, each by its own words."""
    mine, theirs = (_texts(given, writer)[: given.messages] for writer in (0, 1))
    often = Counter(turn.text for turn in (*mine, *theirs))
    kept = set(notes_path(given.store, 1).read_text("utf-8").split())
    once = {f"1/{at}": turn for at, turn in enumerate(theirs) if often[turn.text] == 1 and f"1/{at}" in kept}
    sought = list(once.items())[-SOUGHT:]
    seen = sum(id_ in peer.search(WRITER, format_turn(turn), DEPTH, None) for id_, turn in sought)
    return {"sought": len(sought), "seen": seen}


def notes_path(store: str, writer: int) -> Path:
    return Path(f"{store}.noted-{writer}")


def _wait_for_others(given: Given, mark: str) -> None:
    """Wait until all have got this far or failed."""
    Path(f"{given.store}.{mark}-{given.writer}").touch()
    ends, here = perf_counter() + given.patience, Path(given.store)
    while len(list(here.parent.glob(f"{here.name}.{mark}-*"))) < given.writers and perf_counter() < ends:
        time.sleep(0.01)


def check(given: Given) -> dict[str, Any]:
    """Return how many of the logged messages a process finds that opens the store afterwards."""
    acknowledged = {
        id_ for writer in range(given.writers) for id_ in notes_path(given.store, writer).read_text("utf-8").split()
    }
    peer = given.open_peer()
    there = peer.ids(WRITER)
    peer.close()
    return {"acknowledged": len(acknowledged), "there": len(acknowledged & there)}


STAGES: dict[str, Callable[[Given], dict[str, Any]]] = {
    "make": make,
    "keep": keep,
    "ask": ask,
    "write": write,
    "check": check,
}


def format_error(error: BaseException) -> str:
    """Format an error in one line."""
    words = " ".join(str(error).split())
    return f"{type(error).__name__}: {words}"[:200].removesuffix(": ")


def write_given(path: Path, given: Given) -> None:
    path.write_text(json.dumps(asdict(given)), encoding="utf-8")


def main(path: str) -> None:
    given = Given(**json.loads(Path(path).read_text(encoding="utf-8")))
    try:
        found = STAGES[given.stage](given)
    except Exception as error:  # why: a peer may raise anything; its failure is a line in the table
        found = {"error": format_error(error)}
    for mark in MARKS:  # nobody waits for one that could not open the store
        Path(f"{given.store}.{mark}-{given.writer}").touch()
    whole = Path(f"{given.out}.part")
    whole.write_text(json.dumps(found), encoding="utf-8")
    whole.replace(given.out)


if __name__ == "__main__":
    main(sys.argv[1])
