"""New, known, changed or over: and never anybody else's."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from limpet.knowledge.candidate import Candidate
from limpet.knowledge.reconcile import Add, End, ExistingRecord, Ignore, Merge, Supersede, reconcile
from limpet.model.record import Layer, Origin, RecordType, fingerprint
from limpet.model.scope import Level, Owner, Scope
from tests.unit.knowledge.turns import NOON, learned

HOME = Owner(Scope("default", user="alice"), Level.USER)
BEFORE, LATER = NOON - timedelta(days=30), NOON + timedelta(days=30)


def known(text: str, id: str = "old", **more) -> ExistingRecord:
    """A record as it was learned from that sentence a month ago."""
    one = learned(text)[0]
    defaults = {
        "layer": one.layer,
        "type": one.type,
        "content": one.content,
        "fingerprint": fingerprint(one.type, one.content),
        "subject": one.subject,
        "attribute": one.attribute,
        "value": one.value,
        "polarity": one.polarity,
        "valid_from": BEFORE,
        "confidence": 0.8,
        "origin": Origin.EXTRACTED,
    }
    return ExistingRecord(id, HOME, **(defaults | more))


def candidate(text: str, **more) -> Candidate:
    return replace(learned(text)[0], **({"said_at": NOON} | more))


def test_reconcile_move_supersedes_old_home_only():
    sister = known("My sister lives in Porto.", "sister")
    home = known("I live in Porto.")
    assert reconcile(candidate("I moved to Lisbon."), [sister, home]) == Supersede(("old",), NOON)


def test_reconcile_adds_when_nothing_is_known():
    assert reconcile(candidate("I moved to Lisbon."), []) == Add(NOON)


def test_reconcile_merges_repeated_fact_and_raises_confidence():
    record = known("I live in Porto.", tags=("a",), references=("x",))
    merged = reconcile(candidate("i live in PORTO.", tags=("b",)), [record])
    assert isinstance(merged, Merge)
    assert (merged.into, merged.tags, merged.references, merged.agrees) == ("old", ("a", "b"), ("x",), True)
    assert 0.8 < merged.confidence < 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("I live in Porto.", "I'm based in Porto."),
        ("I love hiking in the Alps.", "I really love hiking in the Alps!"),
        ("Never deploy on Fridays.", "never deploy on Fridays, please"),
        ("I hate waiting 34 minutes for a table.", "I hate waiting 12 minutes for a table."),
    ],
)
def test_reconcile_merges_near_duplicates(old, new):
    assert isinstance(reconcile(candidate(new), [known(old)]), Merge)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Never deploy on Fridays.", "Never deploy on Mondays."),
        ("Only use 3 workers in staging.", "Only use 5 workers in staging."),
        ("I love hiking.", "I love sailing."),
        ("I like Formula 1.", "I like Formula 2."),
        ("I hate waiting 12 minutes for a table.", "I hate waiting 12 minutes for the bus."),
        ("My sister lives in Porto.", "My brother lives in Porto."),
        ("We decided to use Go.", "We decided to use Rust."),
    ],
)
def test_reconcile_adds_statement_that_differs_in_one_word(old, new):
    assert reconcile(candidate(new), [known(old, similarity=0.96)]) == Add(NOON)


def test_reconcile_merges_by_vector_similarity_unless_numbers_differ():
    record = known("Always run the linter before you commit.", similarity=0.99)
    assert isinstance(reconcile(candidate("Always run lint checks prior to committing."), [record]), Merge)
    numbered = known("Always run 2 linters.", similarity=0.99)
    assert isinstance(reconcile(candidate("Always run 3 linters."), [numbered]), Add)


def test_reconcile_shorter_correction_supersedes_longer_text():
    """Merging kept the longer one."""
    record = known("My budget for the trip is 3000 euros, flights and all the hotels included.")
    assert reconcile(candidate("My budget for the trip is 300 euros."), [record]) == Supersede(("old",), NOON)


def test_reconcile_more_specific_value_supersedes_less_specific():
    assert reconcile(candidate("I live in Porto, Portugal."), [known("I live in Porto.")]) == Supersede(("old",), NOON)
    assert isinstance(reconcile(candidate("I live in Porto."), [known("I live in Porto, Portugal.")]), Merge)


def test_reconcile_does_not_match_partial_place_names():
    assert isinstance(reconcile(candidate("I live in York."), [known("I live in New York.")]), Supersede)


def test_reconcile_ended_fact_ends_matching_record():
    assert reconcile(candidate("I no longer live in Porto."), [known("I live in Porto.")]) == End(("old",), NOON)
    assert reconcile(candidate("I no longer live in Oslo."), [known("I live in Porto.")]) == Add(NOON)


def test_reconcile_opposite_preference_supersedes():
    assert reconcile(candidate("I hate olives."), [known("I love olives.")]) == Supersede(("old",), NOON)
    assert reconcile(candidate("I love olives."), [known("I hate olives.")]) == Supersede(("old",), NOON)
    assert reconcile(candidate("I hate olives."), [known("I love tea.")]) == Add(NOON)


def test_reconcile_adds_second_preference():
    assert reconcile(candidate("I love tea."), [known("I love olives.")]) == Add(NOON)


@pytest.mark.parametrize("guard", [{"pinned": True}, {"origin": Origin.EXPLICIT}])
@pytest.mark.parametrize("new", ["I moved to Lisbon.", "I no longer live in Porto."])
def test_reconcile_never_supersedes_pinned_or_explicit_record(guard, new):
    decision = reconcile(candidate(new), [known("I live in Porto.", **guard)])
    assert isinstance(decision, Add)
    assert decision.conflicts == ("old",)
    assert decision.confidence is not None
    assert decision.confidence < candidate(new).confidence


def test_reconcile_older_statement_arriving_late_is_history():
    record = known("I live in Lisbon.", valid_from=LATER)
    assert reconcile(candidate("I live in Porto."), [record]) == Add(NOON, valid_to=LATER)
    assert isinstance(reconcile(candidate("I live in Lisbon."), [record]), Merge)
    assert isinstance(reconcile(candidate("I no longer live in Porto."), [record]), Ignore)


def test_reconcile_ignores_known_past_fact():
    past = known("I live in Porto.", "past", valid_to=LATER)
    now = known("I live in Lisbon.", "now", valid_from=LATER)
    assert isinstance(reconcile(candidate("I live in Porto."), [past, now]), Ignore)


def test_reconcile_return_to_past_value_supersedes_current():
    past = known("I live in Porto.", "past", valid_to=BEFORE + timedelta(days=2))
    now = known("I live in Lisbon.", "now", valid_from=BEFORE + timedelta(days=2))
    assert reconcile(candidate("I live in Porto."), [past, now]) == Supersede(("now",), NOON)


def test_reconcile_doubtful_contradiction_lowers_confidence():
    """It could only rise."""
    record = known("Greg lives in Boise.")
    decision = reconcile(candidate("I think Greg lives in Tulsa."), [record])
    assert isinstance(decision, Merge)
    assert not decision.agrees
    assert decision.confidence < record.confidence


def test_reconcile_two_facts_of_one_sentence_are_not_duplicates():
    sentence = "I work at Novartis as a data analyst."
    employer, role = learned(sentence)
    mark = fingerprint(RecordType.FACT, sentence)
    record = known(sentence, type=RecordType.FACT, content=sentence, fingerprint=mark, attribute="employer")
    record = replace(record, value="Novartis", valid_from=None)
    assert isinstance(reconcile(replace(employer, content=sentence), [record]), Merge)
    assert isinstance(reconcile(replace(role, content=sentence), [record]), Add)


def test_reconcile_record_without_subject_is_merged_but_never_superseded():
    said = "I live in Porto."
    record = known(said, "hand", content=said, fingerprint=fingerprint(RecordType.FACT, said))
    record = replace(record, subject=None, attribute=None, value=None, valid_from=None)
    assert isinstance(reconcile(candidate("I live in Porto."), [record]), Merge)
    assert reconcile(candidate("I moved to Lisbon."), [record]) == Add(NOON)


def test_candidate_has_semantic_layer():
    assert candidate("I moved to Lisbon.").layer is Layer.SEMANTIC


def test_reconcile_revoked_decision_is_superseded():
    """The thing decided stands for the attribute: nothing else is touched."""
    redis, flask = known("Let's go with Redis for the queue."), known("Let's go with Flask for the api.", "flask")
    for said in (
        "On second thought, let's not use Redis.",
        "We decided to use RabbitMQ instead of Redis.",
        "Actually let's not use Redis, we'll go with RabbitMQ.",
    ):
        assert reconcile(candidate(said), [redis, flask]) == Supersede(("old",), NOON), said
    assert reconcile(candidate("Let's go with Postgres for the api."), [redis, flask]) == Add(NOON)
    against = known("We decided against Redis.")
    assert reconcile(candidate("Let's use Redis."), [against]) == Supersede(("old",), NOON)


def test_reconcile_lifted_constraint_is_superseded():
    order = known("Never deploy on Fridays.")
    assert reconcile(candidate("You can deploy on Fridays now."), [order]) == Supersede(("old",), NOON)
    assert reconcile(candidate("You can deploy on Mondays now."), [order]) == Add(NOON)


def test_reconcile_limit_is_superseded_only_if_said_to_change():
    budget = known("The budget is 500 euros.")
    assert reconcile(candidate("The budget is 800 euros now."), [budget]) == Supersede(("old",), NOON)
    assert reconcile(candidate("The budget is 300 euros."), [budget]) == Add(NOON)
    deadline = known("The deadline is May 3.")
    assert reconcile(candidate("The deadline was pushed to May 10."), [deadline]) == Supersede(("old",), NOON)


def test_reconcile_narrower_dislike_keeps_preference():
    assert reconcile(candidate("I hate mornings on weekends."), [known("I love mornings.")]) == Add(NOON)
    assert reconcile(candidate("I hate mornings."), [known("I love mornings.")]) == Supersede(("old",), NOON)


def test_reconcile_reversed_preference_supersedes():
    tea = known("I prefer tea over coffee.")
    assert reconcile(candidate("I prefer coffee over tea."), [tea]) == Supersede(("old",), NOON)
    assert reconcile(candidate("I prefer coffee at work."), [tea]) == Add(NOON)


def of(text: str, attribute: str) -> Candidate:
    (one,) = [each for each in learned(text) if each.attribute == attribute]
    return replace(one, said_at=NOON)


def test_reconcile_tells_sisters_apart_by_name():
    porto = of("My sister Anna lives in Porto.", "home")
    record = known("My sister lives in Porto.", content=porto.content)
    assert reconcile(of("My sister Anna moved to Rome.", "home"), [record]) == Supersede(("old",), NOON)
    assert reconcile(of("My sister Kate moved to Rome.", "home"), [record]) == Add(NOON)
    assert reconcile(of("My sister Kate lives in Porto.", "home"), [record]) == Add(NOON), "her own home"


def test_reconcile_changed_number_of_children_supersedes():
    two = known("I have two kids.")
    assert reconcile(candidate("We have three kids now."), [two]) == Supersede(("old",), NOON)
    assert reconcile(candidate("I have three brothers."), [two]) == Add(NOON)


def test_reconcile_change_of_only_known_sister_supersedes():
    porto = known("My sister lives in Porto.")
    assert reconcile(candidate("My sister moved to Lisbon."), [porto]) == Supersede(("old",), NOON)
    assert reconcile(candidate("My sister lives in Lisbon."), [porto]) == Add(NOON), "she may be another one"
    assert reconcile(candidate("My younger sister moved to Lisbon."), [porto]) == Add(NOON)
    assert reconcile(candidate("My sister moved to Lisbon."), [porto, known("I have two sisters.", "two")]) == Add(NOON)
    friend = known("My friend lives in Porto.")
    assert reconcile(candidate("My friend moved to Lisbon."), [friend]) == Add(NOON)


def test_statement_about_somebody_else_makes_the_users_claim_doubtful_and_does_not_end_it():
    apart: dict[str, Any] = {"attribute": None, "value": None}
    bakery = known("I live in Porto.", content="The user runs a bakery with Tom.", contradicted=0.7, **apart)
    words = {"content": "Tom is leaving the bakery.", "sentence": "Tom is leaving the bakery"}
    leaves = candidate("I live in Lisbon.", subject="tom", **words, **apart)
    outcome = reconcile(leaves, [bakery])
    assert isinstance(outcome, Add)
    assert outcome.doubts == ("old",)
    assert isinstance(reconcile(replace(leaves, subject="user"), [bakery]), Supersede)
