"""A hundred and sixty turns through a small window: nothing told is out of reach, and no prompt is too long."""

from __future__ import annotations

import itertools
import random
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest

from limpet import Config, Context, Limpet, Session
from limpet.model.tokens import TokenCounter
from limpet.model.values import uuid7
from limpet.providers.fakes import FakeLlm
from limpet.providers.llm import Completion, Llm, LlmRequest

TURNS = 160
# What is learned is there before the next turn, so that two runs can be compared.
QUIET = Config.load(overrides={"jobs.worker": False})
WINDOW = 2000
START = datetime(2026, 2, 2, 8, 0, tzinfo=UTC)

# What is told once, somewhere, and the question that must find it again.
PLANTED = (
    ("By the way, our cat is called Tangerine", "What is the name of our cat?", "Tangerine"),
    ("My locker at the gym has the number 417", "Which number does my gym locker have?", "417"),
    ("I am allergic to hazelnuts, please keep it in mind", "Which nuts am I allergic to?", "hazelnuts"),
    ("My sister Ingrid works as a glassblower in Murano", "What is my sister Ingrid's profession?", "glassblower"),
    ("The wifi password hangs on the fridge, under the moose magnet", "Where is the wifi password?", "moose"),
    (
        "We decided to paint the hallway in a colour called Verdigris",
        "Which colour did we choose for the hallway?",
        "Verdigris",
    ),
    ("Grandfather's watch went to the repair shop of Mr Okonkwo", "Who repairs grandfather's watch?", "Okonkwo"),
    ("My first bicycle was a red Peugeot", "Which bicycle did I have first?", "Peugeot"),
    ("The rent is due on the ninth of each month", "When is the rent due?", "ninth"),
    ("Our holiday house stands in a village named Ardmore", "In which village is our holiday house?", "Ardmore"),
    ("I parked the van on level minus three", "On which level did I park the van?", "minus three"),
    ("The plumber charges eighty euros an hour", "How much does the plumber charge an hour?", "eighty"),
)
TOPICS = (
    "the weather",
    "a crossword",
    "the tram timetable",
    "a soup recipe",
    "the football results",
    "a museum",
    "a novel",
)
WORDS = (
    "maybe tomorrow people walked slowly towards a bright corner while music played and nobody minded the long queue"
    " because coffee smelled wonderful inside that narrow shop beside the river bridge"
).split()


class Line(NamedTuple):
    user: str
    assistant: str


def script() -> list[Line]:
    """The same for everybody: small talk of very different lengths, and every 12 turns something to keep."""
    chance = random.Random(20)
    lines = []
    for number in range(TURNS):
        topic = chance.choice(TOPICS)
        talk = " ".join(chance.choices(WORDS, k=chance.choice((4, 12, 40, 150))))
        user = f"Turn {number}, about {topic}: {talk}"
        if number % 12 == 5 and number // 12 < len(PLANTED):
            user = f"{PLANTED[number // 12][0]}. {talk}"
        answer = " ".join(chance.choices(WORDS, k=chance.choice((3, 25, 90))))
        lines.append(Line(user, f"About {topic}: {answer}"))
    return lines


@dataclass
class Clock:
    now: datetime = START

    def __call__(self) -> datetime:
        return self.now


class Seen(NamedTuple):
    """What one turn saw."""

    text: str
    messages: tuple[str, ...]
    epoch: int
    covered: int


def exact_counter() -> TokenCounter:
    rs_bpe = pytest.importorskip("rs_bpe")
    encoder = rs_bpe.openai.o200k_base()
    return lambda text: int(encoder.count(text))


def talk(
    folder: Path, count: TokenCounter, restarts: frozenset[int], llm: Llm | None = None
) -> Generator[tuple[Session, Context, Seen], None, None]:
    """Every turn of the script; before some, the program is closed and started again."""
    clock = Clock()
    memory = Limpet.open(folder, clock=clock, counter=count, llm=llm, config=QUIET)
    try:
        for number, line in enumerate(script()):
            if number in restarts:
                memory.close()
                memory = Limpet.open(folder, clock=clock, counter=count, llm=llm, config=QUIET)
            clock.now = START + timedelta(minutes=7 * number)
            session = memory.session("test", "1", user="alice")
            with session.turn(line.user, max_tokens=WINDOW) as turn:
                assert turn.failed == ()
                turn.reply(line.assistant)
            memory.jobs.run()
            summary = session.summary()
            seen = Seen(
                turn.context.text,
                tuple(message.text for message in turn.context.messages),
                summary.epoch if summary else 0,
                summary.upper_sequence if summary else 0,
            )
            yield session, turn.context, seen
    finally:
        memory.close()


def cost(context: Context, count: TokenCounter) -> int:
    return count(context.text) + sum(count(message.searchable) for message in context.messages)


def reachable(session: Session, question: str, answer: str, memory: Limpet) -> bool:
    """In the prompt that the question would get, and by recall alone."""
    context = session.context(question, max_tokens=WINDOW)
    shown = [context.text, *(message.text for message in context.messages)]
    hits = [hit.text for hit in memory.recall(question, user="alice")]
    return all(any(answer in text for text in texts) for texts in (shown, hits))


def test_long_conversation_fits_window_and_keeps_every_fact_reachable(tmp_path: Path) -> None:
    count = exact_counter()
    seen: list[Seen] = []
    for session, context, now in talk(tmp_path, count, frozenset(range(50, TURNS, 50))):
        assert cost(context, count) == context.tokens <= WINDOW, f"turn {len(seen)}"
        # Whatever is not among the messages is in the summary's range: nothing falls between the two.
        oldest = context.messages[0].sequence
        assert oldest <= now.covered + 1
        assert context.messages[-1].text == script()[len(seen)].user
        seen.append(now)
        assert session.count() == 2 * len(seen)
    epochs, covered = [now.epoch for now in seen], [now.covered for now in seen]
    assert epochs == sorted(epochs)
    assert covered == sorted(covered)
    assert len(set(covered)) > 10
    assert covered[-1] > 2 * TURNS - 60
    with Limpet.open(tmp_path, counter=count, config=QUIET) as memory:
        session = memory.session("test", "1", user="alice")
        lost = [question for _, question, answer in PLANTED if not reachable(session, question, answer, memory)]
        assert lost == []


@pytest.mark.long
def test_long_conversation_is_unaffected_by_restarts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records of one moment stand in the order of their ids, which are given out in turn here and not by chance."""
    count = exact_counter()

    def told(folder: str, restarts: frozenset[int]) -> list[Seen]:
        ids = itertools.count()
        monkeypatch.setattr("limpet.api.runtime.uuid7", lambda now, _: uuid7(now, next(ids).to_bytes(10, "big")))
        with closing(talk(tmp_path / folder, count, restarts)) as turns:
            return [seen for *_, seen in itertools.islice(turns, TURNS)]

    restarts = frozenset(random.Random(3).sample(range(1, TURNS), 25))
    through, restarted = told("through", frozenset()), told("restarted", restarts)
    different = [at for at, pair in enumerate(zip(through, restarted, strict=True)) if pair[0] != pair[1]]
    assert different == []


@pytest.mark.long
def test_long_conversation_with_failing_llm_fits_window(tmp_path: Path) -> None:
    """Its summaries are used, and where it fails the digest takes over: the budget holds, the watermark moves on."""
    count = exact_counter()
    calls = 0

    def answer(request: LlmRequest) -> Completion:
        nonlocal calls
        calls += 1
        if calls % 3 == 0:
            raise TimeoutError("too slow")
        return Completion(f"Summary number {calls}: they talked about many things.")

    llm = FakeLlm(answer)
    covered = 0
    for number, (_, context, seen) in enumerate(talk(tmp_path, count, frozenset({50, 100}), llm)):
        assert cost(context, count) <= WINDOW, f"turn {number}"
        assert context.messages[0].sequence <= seen.covered + 1
        covered = seen.covered
    assert calls > 10
    assert covered > 2 * TURNS - 60
