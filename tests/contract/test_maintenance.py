"""What becomes of records with time: promoted, merged, condensed, faded, had back; and the profile made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from limpet import Config, Limpet, Record
from limpet.errors import InvalidInput, RecordNotFound
from limpet.knowledge.decay import DecayCounts
from limpet.knowledge.repository import Records
from limpet.model.record import Layer, Origin
from limpet.model.scope import Level, Owner, Partition, Scope
from limpet.model.values import PROFILE
from limpet.providers.fakes import FakeEmbedder, FakeLlm
from limpet.testing import FakeClock
from tests.contract.rows import faults
from tests.extracted_records import learn, of_session, turn

ALICE = Partition("default", Level.USER, "alice")
UNKNOWN = "01890000-0000-7000-8000-0000000000ff"
Opening = Callable[..., Limpet]


@pytest.fixture
def opening(store_url: str, clock: FakeClock) -> Iterator[Opening]:
    """A store that does its background work only when told to, and learns nothing by itself."""
    opened: list[Limpet] = []

    def open_(llm: Any = None, embedder: Any = None, **settings: Any) -> Limpet:
        given = {name.replace("__", "."): value for name, value in settings.items()}
        config = Config.load(overrides={"jobs.worker": False, "learn.extractor": "none", **given})
        opened.append(Limpet.open(store_url, config=config, clock=clock, llm=llm, embedder=embedder))
        return opened[-1]

    yield open_
    for memory in opened:
        assert faults(memory) == []
        memory.close()


@pytest.fixture
def ageing(opening: Opening) -> Limpet:
    """With archiving by age, which is off by default."""
    return opening(learn__decay=True, learn__delete_archived_days=180)


def texts(records: list[Record]) -> set[str]:
    return {record.content for record in records}


def a_day_later(memory: Limpet, clock: FakeClock, days: float = 1) -> int:
    clock.advance(days=days, minutes=1)
    return memory.jobs.run()


def say(memory: Limpet, text: str, chat: str = "1", reply: str = "I see.") -> None:
    with memory.session("test", chat, user="alice").turn(text) as talk:
        talk.reply(reply)


# Promotion


def test_consolidate_job_promotes_confident_episode_only_once(ageing: Limpet, clock: FakeClock) -> None:
    sure = learn(ageing, "Alice must have quiet mornings", layer="episodic", type="constraint", tags=("home",))
    learn(ageing, "Alice might like jazz", layer="episodic", type="preference", confidence=0.7)
    say(ageing, "hello")
    a_day_later(ageing, clock)
    [copy] = ageing.records(user="alice", layers=["semantic"])
    assert (copy.content, copy.origin, copy.inputs) == (sure.content, Origin.PROMOTED, (sure.id,))
    assert (copy.source, copy.tags, copy.home) == (sure.source, sure.tags, sure.home)
    assert ageing.records.get(sure.id).archived_at == clock()  # the copy stands for it
    assert [hit.source.id for hit in ageing.recall("quiet mornings", user="alice")] == [copy.id]
    assert ageing._runtime.promoter.promote_due(ALICE, clock()) == 0
    assert "Alice might like jazz" in texts(ageing.records(user="alice", layers=["episodic"]))


def test_promote_ignores_confidence_and_is_idempotent(ageing: Limpet) -> None:
    unsure = ageing.remember("The build needs node 20", user="alice", layer="episodic", type="fix", confidence=0.1)
    copy = ageing.records.promote(unsure.id)
    assert (copy.layer, copy.origin, copy.level) == (Layer.PROCEDURAL, Origin.PROMOTED, "user")
    assert ageing.records.promote(unsure.id) == copy
    assert ageing.records.get(unsure.id).archived_at is None  # what somebody stated stays where they put it
    assert ageing.records.count(user="alice") == 2
    with pytest.raises(RecordNotFound):
        ageing.records.promote(UNKNOWN)
    with pytest.raises(InvalidInput, match="already"):
        ageing.records.promote(copy.id)
    with pytest.raises(InvalidInput, match="scope"):
        ageing.records.promote(unsure.id, scope="session")  # type: ignore[arg-type]


def test_promote_merges_into_existing_record(ageing: Limpet) -> None:
    known = ageing.remember("Alice eats no nuts", user="alice", type="constraint", key="nuts", tags=["diet"])
    episode = learn(ageing, "alice eats  no nuts", layer="episodic", type="constraint", tags=("food",))
    merged = ageing.records.promote(episode.id)
    assert (merged.id, merged.content, merged.said, merged.tags) == (known.id, known.content, 2, ("diet", "food"))
    assert ageing.records.promote(episode.id).said == 2
    assert texts(ageing.records(user="alice")) == {known.content}


def test_promote_widens_scope_only_when_named(ageing: Limpet) -> None:
    chat, other = ageing.session("test", "1", user="alice"), ageing.session("test", "2", user="alice")
    secret = learn(ageing, "The party is on Friday", layer="episodic", home=of_session(chat))
    assert ageing.records.promote(secret.id).session_id == chat.id
    assert "Friday" not in other.context("When is the party?").text
    wider = ageing.records.promote(secret.id, scope="user")
    assert (wider.level, wider.session_id, wider.user) == ("user", None, "alice")
    assert "Friday" in other.context("When is the party?").text
    assert ageing.recall("party", user="bob") == []
    everybody = ageing.records.promote(secret.id, scope="global")
    assert (everybody.level, everybody.user) == ("global", None)
    assert "Friday" in ageing.session("test", "9", user="bob").context("When is the party?").text
    assert ageing.records.promote(secret.id, scope="global").id == everybody.id


def test_promote_skips_episode_with_outdated_value(ageing: Limpet, clock: FakeClock) -> None:
    about: dict[str, Any] = {"subject": "user", "attribute": "home"}
    learn(ageing, "Alice lives in Porto", layer="episodic", value="Porto", **about)
    clock.advance(days=1)
    learn(ageing, "Alice lives in Lisbon", value="Lisbon", **about)
    assert ageing._runtime.promoter.promote_due(ALICE, clock()) == 0


# Fading


def test_decay_archives_unused_records_then_deletes_them(ageing: Limpet, clock: FakeClock) -> None:
    faded = learn(ageing, "Alice liked the walrus picture")
    stated = ageing.remember("Alice's dog is Biscuit", user="alice")
    pinned = learn(ageing, "Alice's cat is Tom", pinned=True)
    say(ageing, "hello", reply="Hi.")
    a_day_later(ageing, clock, 100)
    assert {stated.content, pinned.content} <= texts(ageing.records(user="alice"))
    assert faded.content not in texts(ageing.records(user="alice"))
    assert faded.content in texts(ageing.records(user="alice", archived=True))
    assert ageing.recall("walrus picture", user="alice") == []
    assert "walrus" not in ageing.session("test", "1", user="alice").context("the walrus picture").text
    assert len(ageing.records.history(faded.id)) > 1
    a_day_later(ageing, clock, 181)
    assert ageing.records(user="alice", archived=True) == []
    with pytest.raises(RecordNotFound):
        ageing.records.get(faded.id)
    assert {stated.content, pinned.content} <= texts(ageing.records(user="alice"))


def test_decay_is_idempotent(ageing: Limpet, clock: FakeClock) -> None:
    for number in range(450):  # more than two pages, none of which may hide the next
        learn(ageing, f"word{number}", uses=1000 if number < 300 else 0)
    clock.advance(days=40)
    done = ageing._runtime.fader.fade(ALICE, clock())
    assert (done.archived, done.deleted) == (150, 0)
    assert ageing._runtime.fader.fade(ALICE, clock()) == DecayCounts()


def test_decay_and_deletion_can_be_disabled(opening: Opening, clock: FakeClock) -> None:
    memory = opening(learn__decay=True, learn__delete_archived_days=0)
    faded = learn(memory, "Alice liked the walrus picture")
    clock.advance(days=100)
    memory._runtime.fader.fade(ALICE, clock())
    clock.advance(days=5000)
    assert memory._runtime.fader.fade(ALICE, clock()) == DecayCounts()
    assert memory.records.get(faded.id).archived_at is not None
    off = opening(learn__consolidate=False, learn__promote=False, learn__profile=False)
    kept = learn(off, "Alice liked the seal picture")
    say(off, "hello")
    assert not {"decay", "consolidate"} & {job.kind for job in off.jobs.list()}
    assert off.records.get(kept.id).archived_at is None
    assert off.profile("alice").text == ""


def test_revive_restores_archived_record(ageing: Limpet, clock: FakeClock) -> None:
    faded = learn(ageing, "Alice liked the walrus picture")
    clock.advance(days=100)
    ageing._runtime.fader.fade(ALICE, clock())
    revived = ageing.records.revive(faded.id)
    assert (revived.archived_at, revived.content) == (None, faded.content)
    assert [hit.source.id for hit in ageing.recall("walrus picture", user="alice")] == [faded.id]
    assert ageing.records.revive(faded.id) == revived
    clock.advance(days=10)
    assert ageing._runtime.fader.fade(ALICE, clock()) == DecayCounts()
    with pytest.raises(RecordNotFound):
        ageing.records.revive(UNKNOWN)


def test_remember_with_key_restores_archived_record(ageing: Limpet, clock: FakeClock) -> None:
    learned = learn(ageing, "Alice lives in Porto", key="home")
    clock.advance(days=100)
    ageing._runtime.fader.fade(ALICE, clock())
    assert ageing.remember("Alice lives in Lisbon", user="alice", key="home").id == learned.id
    assert texts(ageing.records(user="alice")) == {"Alice lives in Lisbon"}


def test_recall_counts_use_and_standing_in_a_context_does_not(ageing: Limpet, clock: FakeClock) -> None:
    shown = learn(ageing, "Alice plays the harpsichord")
    clock.advance(days=20)
    session = ageing.session("test", "1", user="alice")
    with session.turn("What about my harpsichord?") as talk:
        assert shown.id in talk.context.records
        talk.reply("It is out of tune.")
    assert ageing.records.get(shown.id).uses == 0
    ageing.recall("harpsichord", user="alice")
    ageing.recall("the harpsichord of Alice", user="alice")
    say(ageing, "Hello")  # counts are written along with another write
    used = ageing.records.get(shown.id)
    assert (used.uses, used.last_used_at, used.version) == (2, clock(), 1)


def test_recall_writes_counts_itself_after_a_minute(ageing: Limpet, clock: FakeClock) -> None:
    known = learn(ageing, "Alice plays the harpsichord")
    for _ in range(2):
        ageing.recall("harpsichord", user="alice")
        clock.advance(minutes=1)
    assert ageing.records.get(known.id).uses == 2


def test_closing_writes_counts(opening: Opening) -> None:
    memory = opening()
    known = learn(memory, "Alice plays the harpsichord")
    memory.recall("harpsichord", user="alice")
    memory._runtime.flush_uses()
    assert memory.records.get(known.id).uses == 1


# Consolidation


def test_consolidate_merges_near_duplicates(ageing: Limpet, clock: FakeClock) -> None:
    first = learn(ageing, "Alice really enjoys oat milk", type="preference", tags=("food",), references=("a",))
    clock.advance(minutes=1)
    second = learn(ageing, "Alice enjoys oat milk", type="preference", tags=("drink",))
    learn(ageing, "Alice enjoys soy milk", type="preference")
    learn(ageing, "Bob enjoys oat milk", type="preference", home=Owner(Scope("default", user="bob"), Level.USER))
    say(ageing, "hello")
    a_day_later(ageing, clock)
    found = {record.content: record for record in ageing.records(user="alice", types=["preference"])}
    assert found.keys() == {"Alice enjoys oat milk", "Alice enjoys soy milk"}
    kept = found["Alice enjoys oat milk"]
    assert (kept.id, kept.said, kept.tags, kept.references) == (second.id, 2, ("drink", "food"), ("a",))
    gone = ageing.records.get(first.id)
    assert (gone.superseded_by, gone.valid_to) == (second.id, clock())
    assert ageing._runtime.consolidator.merge_duplicates(ALICE, clock()) == 0
    assert texts(ageing.records(user="bob")) == {"Bob enjoys oat milk"}


def test_consolidate_merges_duplicates_by_vector_similarity(opening: Opening, clock: FakeClock) -> None:
    near = {"Alice adores cats": (1.0, 0.0), "Alice is fond of felines": (0.999, 0.045), "Alice runs": (0.0, 1.0)}
    memory = opening(embedder=Placed(near))
    for text in near:
        learn(memory, text, type="preference")
        clock.advance(minutes=1)
    memory.jobs.run()
    assert memory._runtime.consolidator.merge_duplicates(ALICE, clock()) == 1
    assert texts(memory.records(user="alice")) == {"Alice is fond of felines", "Alice runs"}


class Placed(FakeEmbedder):
    """Texts where we want them."""

    def __init__(self, places: dict[str, tuple[float, float]]) -> None:
        super().__init__(dimension=2)
        self._places = places

    def embed(self, texts: Any) -> Any:
        return [next((at for text, at in self._places.items() if text in each), (0.7, -0.7)) for each in texts]


def test_consolidate_merges_turns_of_a_day_into_one_record(ageing: Limpet, clock: FakeClock) -> None:
    turns = [turn(ageing, f"topic{number}", f"thing{number}") for number in range(3)]
    say(ageing, "topic3", reply="thing3")
    a_day_later(ageing, clock, 2)
    assert ageing._runtime.consolidator.condense_turns(ALICE, clock()) == 0  # not yet
    a_day_later(ageing, clock, 6)
    [day] = [record for record in ageing.records(user="alice") if record.origin is Origin.CONDENSED]
    assert (day.layer, day.title, day.metadata["turns"]) == (Layer.EPISODIC, "2026-03-10", "4")
    assert all(f"topic{number}" in day.content and f"thing{number}" in day.content for number in range(4))
    assert {each.id for each in turns} < set(day.inputs)
    assert all(ageing.records.get(id).archived_at is not None for id in day.inputs)
    # Search finds the messages themselves: a day that tells them again would take a place of theirs.
    assert ageing.recall("topic2", user="alice", kinds=["record"]) == []
    assert ageing.recall("topic3", user="alice", kinds=["message"])
    assert ageing._runtime.consolidator.condense_turns(ALICE, clock()) == 0
    assert ageing.jobs.list(kind="consolidate") == []  # nothing is left to condense


def test_consolidate_falls_back_to_rules_for_turns_missing_from_llm_digest(opening: Opening, clock: FakeClock) -> None:
    answer = {
        "sentences": [
            {"text": "The flight lands in Porto at 18:40.", "from": [1]},
            {"text": "The hotel costs 300 euros.", "from": [2]},
        ]
    }
    memory = opening(llm=FakeLlm(answer))
    turn(memory, "When does my flight land?", "It lands in Porto at 18:40")
    clock.advance(minutes=1)
    turn(memory, "And the hotel?", "It costs 200 euros")
    clock.advance(days=9)
    assert memory._runtime.consolidator.condense_turns(ALICE, clock()) == 1
    [day] = memory.records(user="alice")
    assert day.content.splitlines() == [
        "- The flight lands in Porto at 18:40.",
        "- asked: And the hotel? | answered: It costs 200 euros",
    ]


@pytest.mark.parametrize("llm", [FakeLlm("nothing to say"), FakeLlm(failures=-1), FakeLlm(ValueError("broken"))])
def test_consolidate_falls_back_to_rules_when_llm_fails(opening: Opening, clock: FakeClock, llm: FakeLlm) -> None:
    memory = opening(llm=llm)
    turn(memory, "topic", "thing")
    learn(memory, "Alice lives in Lisbon")
    clock.advance(days=9)
    assert memory._runtime.consolidator.condense_turns(ALICE, clock()) == 1
    assert "topic" in texts(memory.records(user="alice", layers=["episodic"])).pop()
    assert memory.profile("alice").text == "Known: Alice lives in Lisbon"


# The profile


def test_profile_is_cached_until_a_record_changes(ageing: Limpet, clock: FakeClock) -> None:
    assert ageing.profile("alice").text == ""
    home = ageing.remember("Alice lives in Porto", user="alice", key="home")
    nuts = learn(ageing, "Alice eats no nuts", type="constraint")
    made = ageing.profile("alice")
    assert made.text.splitlines() == ["Must: Alice eats no nuts", "Known: Alice lives in Porto"]
    assert set(made.sources) == {home.id, nuts.id}
    clock.advance(days=1)
    assert ageing.profile("alice") == made
    ageing.remember("Alice lives in Lisbon", user="alice", key="home")
    anew = ageing.profile("alice")
    assert "Lisbon" in anew.text
    assert "Porto" not in anew.text
    assert anew.updated_at == clock()


def test_profile_record_is_hidden_from_lists_and_recall(ageing: Limpet) -> None:
    ageing.remember("Alice lives in Porto", user="alice")
    ageing.profile("alice")
    kept = ageing._read(
        lambda tx: Records(tx).find_by_key(Owner(Scope("default", user="alice"), Level.USER), PROFILE, lock=False)
    )
    assert kept is not None
    for history in (False, True):
        assert texts(ageing.records(user="alice", history=history)) == {"Alice lives in Porto"}
    assert ageing.records.count(user="alice") == 1
    assert [hit.source.id == kept.id for hit in ageing.recall("Known: Porto", user="alice")] == [False]
    assert ageing.profile("bob").text == ""


def test_profile_omits_forgotten_record(ageing: Limpet) -> None:
    facts = [ageing.remember(f"Alice knows thing{number}", user="alice") for number in range(3)]
    ageing.profile("alice")
    gone = ageing.forget(facts[1].id)
    assert len(gone.ids) == 2  # with the profile that told it
    rows = ageing._read(lambda tx: Records(tx).find_derived_from(ALICE, [facts[1].id]))
    assert rows == []
    assert "thing1" not in ageing.profile("alice").text
    assert "thing2" in ageing.profile("alice").text


def test_context_adds_profile_lines_not_already_shown(opening: Opening, clock: FakeClock) -> None:
    memory = opening(context__layout="golemcore", context__semantic_top=1, context__hits=0)
    facts = [learn(memory, f"Alice knows thing{number}") for number in range(4)]
    session = memory.session("test", "1", user="alice")
    assert "Known:" not in session.context("hello").text
    memory.profile("alice")
    context = session.context("hello")
    assert context.sections["Long-term Memory"].count("Known: Alice knows thing") == 3
    for number in range(4):
        assert context.text.count(f"thing{number}") == 1
    memory.records.update(facts[0].id, content="Alice forgot thing0")
    assert "Known:" not in session.context("hello").text  # until it is made anew
    memory._runtime.profiler.refresh(ALICE)
    assert "Known: Alice knows thing0" not in session.context("hello").text


def test_context_omits_profile_when_disabled(opening: Opening) -> None:
    memory = opening(context__layout="golemcore", context__semantic_top=0, context__hits=0, context__show_profile=False)
    learn(memory, "Alice knows thing1")
    assert "thing1" in memory.profile("alice").text
    assert "thing1" not in memory.session("test", "1", user="alice").context("hello").text


def test_profile_written_by_llm_keeps_its_sources(opening: Opening) -> None:
    answer = {"sentences": [{"text": "The user lives in Lisbon and eats no nuts.", "from": [1, 2]}]}
    memory = opening(llm=FakeLlm(answer))
    facts = {learn(memory, "Alice lives in Lisbon").id, learn(memory, "Alice eats no nuts", type="constraint").id}
    made = memory.profile("alice")
    assert made.text == "The user lives in Lisbon and eats no nuts."
    assert set(made.sources) == facts


# Forgetting covers what was made


def test_forget_deletes_all_promoted_copies(ageing: Limpet, clock: FakeClock) -> None:
    episode = learn(ageing, "Alice eats no nuts", layer="episodic", type="constraint")
    copy = ageing.records.promote(episode.id)
    everybody = ageing.records.promote(episode.id, scope="global")
    gone = ageing.forget(copy.id, dry_run=True)
    assert set(gone.ids) == {episode.id, copy.id, everybody.id}
    assert ageing.forget(copy.id).counts["records"] == 3
    assert ageing.records(history=True) == []


def test_forget_turn_keeps_other_turns_of_same_day(ageing: Limpet, clock: FakeClock) -> None:
    turns = [turn(ageing, f"topic{number}", f"thing{number}") for number in range(3)]
    clock.advance(days=9)
    ageing._runtime.consolidator.condense_turns(ALICE, clock())
    ageing.forget(turns[1].id)
    assert ageing._runtime.consolidator.condense_turns(ALICE, clock()) == 1
    [day] = ageing.records(user="alice")
    assert "topic1" not in day.content
    assert "topic0" in day.content
    assert len(ageing.forget(day.id).ids) == 3
    assert ageing.records(user="alice", history=True) == []


# R8


def test_records_recipe_sums_component_scores(ageing: Limpet, clock: FakeClock) -> None:
    fix = learn(ageing, "walrus build fix", type="fix", layer="procedural", salience=1.0, metadata={"skill": "deploy"})
    note = learn(ageing, "walrus build note", type="note", salience=0.0, confidence=0.0)
    old = learn(ageing, "walrus build episode", layer="episodic")
    clock.advance(days=22)
    recent = learn(ageing, "walrus build happened", layer="episodic")
    hits = ageing.recall("walrus build", user="alice", recipe="records", kinds=["record"], skill="deploy")
    assert {hit.source.id for hit in hits} == {fix.id, note.id, recent.id}  # the old episode is out of sight
    assert ageing.records.get(old.id).archived_at is None
    parts = ("relevance", "recency", "salience", "confidence", "type", "skill")
    for hit in hits:
        assert hit.score == pytest.approx(sum(hit.signals[part].score for part in parts))
    best = next(hit for hit in hits if hit.source.id == fix.id).signals
    assert (best["salience"].score, best["type"].score, best["skill"].score) == (0.20, 0.12, 0.10)
    assert best["recency"].score == pytest.approx(0.2 * 0.5 ** (22 / 7))
    assert ageing.recall("zebra", user="alice", recipe="records", kinds=["record"]) == []


def live_on(memory: Limpet, clock: FakeClock, days: int, *, recalling: str | None = None) -> None:
    """Days in which the work that is due is done, and perhaps something is recalled."""
    for _ in range(days):
        clock.advance(days=1)
        if recalling is not None:
            memory.recall(recalling, user="alice")
        memory.jobs.run()


@pytest.mark.slow
def test_decay_spares_stated_preferences_and_records_in_use(ageing: Limpet, clock: FakeClock) -> None:
    stated = ageing.remember("I prefer tea", user="alice", type="preference", confidence=0.1, salience=0.0)
    used = learn(ageing, "Alice plays the harpsichord")
    unused = learn(ageing, "Alice once saw a walrus", layer="procedural", confidence=0.1, salience=0.1)
    with ageing.session("test", "1", user="alice").turn("Hello") as turn:
        turn.reply("Hello.")
    live_on(ageing, clock, 100)
    assert ageing.records.get(stated.id).archived_at is None
    assert ageing.records.get(unused.id).archived_at is not None
    assert [hit.source.id for hit in ageing.recall("tea", user="alice")] == [stated.id]
    assert ageing.records.get(used.id).archived_at is not None
    ageing.records.revive(used.id)
    live_on(ageing, clock, 100, recalling="Does Alice play the harpsichord?")
    assert ageing.records.get(used.id).archived_at is None
    live_on(ageing, clock, 400)
    assert ageing.records.get(stated.id).archived_at is None


def test_record_promoted_by_job_stays_in_its_chat(ageing: Limpet, clock: FakeClock) -> None:
    chat, other = (ageing.session("test", key, user="alice") for key in ("1", "2"))
    learn(ageing, "The surprise party is on Friday", layer="episodic", confidence=0.99, home=of_session(chat))
    with chat.turn("Hello") as turn:
        turn.reply("Hello.")
    live_on(ageing, clock, 2)
    [promoted] = [record for record in ageing.records(user="alice") if record.origin == "promoted"]
    assert promoted.session_id == chat.id
    assert "Friday" in chat.context("When is the surprise party?").text
    assert "Friday" not in other.context("When is the surprise party?").text
    assert "Friday" not in ageing.profile("alice").text
    assert ageing.recall("surprise party", user="alice", session=other.id) == []
