"""Scripted lives: what people say to an agent in a year, and when it is true. Deterministic by seed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from limpet.knowledge.similarity import tokenize
from limpet.model.record import Record
from limpet_bench.life_words import EXPLICIT, LASTING, LISTINGS, POOLS, SLOTS, SMALL_TALK, TOPICS, TRAPS, Topic

_AGAIN = ("As I said: {}", "By the way, did I mention it? {}", "{}")


@dataclass(frozen=True, slots=True)
class Fact:
    """A statement, and the days on which it is true."""

    types: tuple[str, ...]
    attribute: str | None
    sentence: str
    question: str  # empty if there is no natural question
    answer: str
    since: int
    until: int | None = None
    subject: str | None = None
    polarity: bool = True
    several: bool = False
    value: str = ""  # of its record, if that differs from the answer

    def holds(self, day: int) -> bool:
        return self.since <= day and (self.until is None or day < self.until)

    def has_ended(self, day: int) -> bool:
        return self.until is not None and self.until <= day

    def told_by(self, record: Record) -> bool:
        """Return whether a record states exactly this."""
        if record.type.value not in self.types:
            return False
        if self.attribute is None or record.value is None:  # a claim need not name its value: its sentence says it
            return self.polarity == record.polarity and within(self.value or self.answer, record.content)
        right = record.attribute == self.attribute and self.subject in {None, record.subject}
        return right and self.polarity == record.polarity and within(self.value or self.answer, record.value)


@dataclass(frozen=True, slots=True)
class Step:
    """A tool call between question and reply."""

    command: str
    output: str
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Exchange:
    text: str
    reply: str
    chat: str = "home"
    step: Step | None = None


@dataclass(frozen=True, slots=True)
class Stated:
    """What a person asks the agent to remember."""

    day: int
    text: str
    type: str
    question: str
    answer: str
    pinned: bool


@dataclass(slots=True)
class Life:
    user: str
    facts: list[Fact] = field(default_factory=list)
    stated: list[Stated] = field(default_factory=list)
    days: list[list[Exchange]] = field(default_factory=list)


def within(part: str, whole: str | None) -> bool:
    return f" {' '.join(tokenize(part))} " in f" {' '.join(tokenize(whole or ''))} "


def life(user: str, days: int, seed: int) -> Life:
    return _Writer(user, days, random.Random(f"{user} {seed}")).write()  # noqa: S311 - repeatable is the point


class _Writer:
    def __init__(self, user: str, days: int, chance: random.Random) -> None:
        self._life = Life(user)
        self._days = days
        self._chance = chance
        self._pools = {name: chance.sample(pool, len(pool)) for name, pool in POOLS.items()}
        self._told: dict[int, list[Exchange]] = {day: [] for day in range(days)}

    def write(self) -> Life:
        for topic in TOPICS:
            self._topic(topic)
        self._changes_of_taste()
        self._plant_lasting()
        for every, tell in ((30, self._trip), (16, self._decision), (30, self._rule), (18, self._failure)):
            for day in self._now_and_then(every):
                tell(day)
        for day in self._now_and_then(10):
            self._tests(day)
        self._life.stated = [
            Stated(0 if at < 6 else 45 * (at - 5), *one)
            for at, one in enumerate(EXPLICIT)
            if at < 6 or 45 * (at - 5) < self._days
        ]
        self._life.days = [self._day(day) for day in range(self._days)]
        return self._life

    # Planted facts

    def _topic(self, topic: Topic) -> None:
        day, before = self._chance.randint(1, 12), None
        while day < self._days and self._pools[topic.pool]:
            value = self._pools[topic.pool].pop()
            sentence = self._chance.choice(topic.first if before is None else topic.change).format(value)
            fact = Fact(
                (topic.type,),
                topic.attribute,
                sentence,
                topic.question,
                value,
                day,
                subject=topic.subject,
                several=topic.several,
            )
            if before is not None:
                self._ends(before, day)
            self._plant(fact)
            before, day = fact, day + self._chance.randint(*topic.days)

    def _changes_of_taste(self) -> None:
        for _ in range(4):
            day = self._chance.randint(1, 60)
            over = day + self._chance.randint(40, 200)
            value = self._pools["thing"].pop()
            likes = Fact(("preference",), "likes", f"I love {value}.", f"Do I like {value}?", value, day)
            self._plant(likes)
            if over < self._days:
                self._ends(likes, over)
                sentence = f"I don't like {value} any more."
                self._plant(replace(likes, sentence=sentence, since=over, until=None, polarity=False))

    def _plant_lasting(self) -> None:
        for type_, attribute, sentence, question, answer in LASTING:
            self._plant(Fact((type_,), attribute, sentence, question, answer, self._chance.randint(1, 150)))

    def _trip(self, day: int) -> None:
        if not (self._pools["city"] and self._pools["impression"]):
            return
        city, impression = self._pools["city"].pop(), self._pools["impression"].pop()
        sentence, question = f"I went to {city} last weekend and {impression}.", f"How was my weekend in {city}?"
        # The question names the place, so that the answer is what was said about it.
        self._plant(Fact(("fact",), "visited", sentence, question, impression, day, value=city))

    def _decision(self, day: int) -> None:
        if not (self._pools["choice"] and self._pools["component"]):
            return
        choice, component = self._pools["choice"].pop(), self._pools["component"].pop()
        how = self._chance.choice(("We decided to use {} for the {} service.", "Let's use {} for the {} service."))
        question = f"What did we choose for the {component} service?"
        self._plant(Fact(("decision",), None, how.format(choice, component), question, choice, day), "work")

    def _rule(self, day: int) -> None:
        component = self._chance.choice(POOLS["component"])
        sentence = self._chance.choice(POOLS["rule"]).format(component)
        question = f"Which rules are there for the {component} work?"
        if any(fact.sentence == sentence for fact in self._life.facts):
            return
        self._plant(Fact(("constraint",), None, sentence, question, sentence.rstrip("."), day), "work")

    def _failure(self, day: int) -> None:
        """A command that fails, the cause, and the fix."""
        if not self._pools["cause"]:
            return
        at = self._chance.randrange(len(self._pools["cause"]))
        cause = self._pools["cause"].pop(at)
        remedy = POOLS["remedy"][POOLS["cause"].index(cause)]
        component = self._chance.choice(POOLS["component"])
        job = f"{component} import"
        step = Step(f"make {component}", f"make: *** [{component}] Error 2: {cause}", is_error=True)
        why, how = f"The {job} failed because {cause}.", f"I fixed the {job} by {remedy}."
        self._know(Fact(("failure",), None, why, f"Why did the {job} fail?", cause, day))
        self._know(Fact(("fix",), None, how, f"How did you fix the {job}?", remedy, day))
        self._say(day, Exchange(f"Run the {job}, please.", f"{why} {how}", "work", step))

    def _tests(self, day: int) -> None:
        component, count = self._chance.choice(POOLS["component"]), self._chance.randint(20, 400)
        step = Step(f"pytest tests/{component}", f"===== {count} passed in 9.1s =====")
        self._know(Fact(("command_result",), None, step.command, "", f"{count} passed", day))
        self._say(day, Exchange("Run the tests.", "All green.", "work", step))

    def _plant(self, fact: Fact, chat: str = "home") -> None:
        self._know(fact)
        self._say(fact.since, Exchange(fact.sentence, self._chance.choice(("Noted.", "Good to know.", "I see.")), chat))

    def _know(self, fact: Fact) -> None:
        if fact.since < self._days:
            self._life.facts.append(fact)

    def _say(self, day: int, exchange: Exchange) -> None:
        if day < self._days:
            self._told[day].append(exchange)

    def _ends(self, fact: Fact, day: int) -> None:
        facts = self._life.facts
        facts[facts.index(fact)] = replace(fact, until=day)

    def _now_and_then(self, every: int) -> Iterator[int]:
        day = self._chance.randint(2, every)
        while day < self._days:
            yield day
            day += self._chance.randint(every // 2, every + every // 2)

    # A day

    def _day(self, day: int) -> list[Exchange]:
        said = list(self._told[day])
        said += [self._something(day) for _ in range(self._chance.randint(3, 8) - len(said))]
        self._chance.shuffle(said)
        return said

    def _something(self, day: int) -> Exchange:
        lot = self._chance.random()
        known = [fact for fact in self._life.facts if fact.question and fact.holds(day - 1) and fact.holds(day)]
        if lot < 0.18 and known:
            fact = self._chance.choice(known)
            return Exchange(fact.question, f"You told me: {fact.sentence}", self._chat(fact))
        if lot < 0.23 and known:
            fact = self._chance.choice(known)
            return Exchange(self._chance.choice(_AGAIN).format(fact.sentence), "Yes, you told me.", self._chat(fact))
        past = [fact for fact in self._life.facts if fact.has_ended(day)]
        if lot < 0.25 and past:
            fact = self._chance.choice(past)
            return Exchange("What did I tell you before that changed?", f"Long ago you said: {fact.sentence}")
        if lot < 0.29:
            command, output = self._chance.choice(LISTINGS)
            return Exchange("Have a look.", "Nothing unusual.", "work", Step(command, self._fill(output)))
        text, reply = self._chance.choice(TRAPS if lot < 0.42 else SMALL_TALK)
        return Exchange(self._fill(text), self._fill(reply))

    @staticmethod
    def _chat(fact: Fact) -> str:
        return "work" if fact.attribute is None else "home"

    def _fill(self, text: str) -> str:
        for name, values in SLOTS.items():
            while (mark := f"{{{name}}}") in text:
                text = text.replace(mark, self._chance.choice(values), 1)
        return text
