"""Whether a message takes back what is known, in whatever words: a small trained model on the encoder's vectors.

It asks two things. Does a clause tell of a change ("hung up my boots for good")? And is a claim what it is about ("The
user plays football on Sundays"), more than the other claims are? training/change trains it; here it runs on numpy.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from limpet.knowledge import english
from limpet.knowledge.reader import default_reader
from limpet.knowledge.segment import split_clauses
from limpet.knowledge.similarity import TextSignature, compute_signature, find_content_stems, find_name_stems, stem
from limpet.model.dataclass import dataclass
from limpet.model.late import load_modules
from limpet.model.text_cache import cache_texts
from limpet.providers.encoder import default_encoder, embed_text

if TYPE_CHECKING:
    from limpet.knowledge.change_network import ChangeNetwork
    from limpet.knowledge.reader import Reading
    from limpet.store.tx import Array

WEIGHTS = Path(__file__).with_name("change.npz")
_MAX_CLAUSES = 12  # of a message; the rest is not compared
_MAX_COMPARED = 8  # claims most like the message, which are looked at closely
_ALONE = 0.15  # similarity that a lone claim has to beat
_SHARE, _NAMES, _ENDS, _PLAIN = 0.6, 0.25, 0.15, 0.55  # what words alone count for, and from when they do
_TELLS, _UNTOLD = 2.0, 0.55  # logit of a message that may end a claim; below it, this is the most that it counts
_NAMES_IT, _NAMES_HIM, _NAMED = 1.0, 2.5, 0.15  # the same where it has a word or a name in common with the claim
_RETRACTED = 0.95  # what is said never to have been so
_LIFTED, _HALF = 0.9, 0.5  # an instruction that another one replaces; of the words they have in common
_AT_ALL, _DOUBTED = 0.05, 0.105  # of both verdicts, from which a claim is doubtful: the second is for ordinary talk
DOUBTS, CONTRADICTS = 0.2, 0.6  # probability from which a message makes a claim doubtful, or takes it back
_CACHED = 4096
_DATES = frozenset(
    map(
        stem,
        """monday mondays tuesday tuesdays wednesday wednesdays thursday thursdays friday fridays saturday saturdays
    sunday sundays january february march april may june july august september october november december mrs miss dr
    user""".split(),
    )
)  # written like names


@dataclass(frozen=True, slots=True)
class Change:
    """How likely a message takes a claim back, and the clause that does, ``message[start:end]``."""

    probability: float
    start: int = 0
    end: int = 0


@dataclass(frozen=True, slots=True)
class _Text:
    """A claim, a clause or a whole message, as far as it is compared."""

    text: str
    vector: Array
    stems: frozenset[str]
    names: frozenset[str]
    signature: TextSignature
    has_number: bool
    has_change_sign: bool
    has_end_sign: bool
    has_stay_sign: bool


@dataclass(frozen=True, slots=True)
class _Clause:
    start: int
    end: int
    said: _Text
    changes: float  # logit that it tells of a change
    reading: Reading | None


@dataclass(frozen=True, slots=True)
class _Message:
    said: _Text
    clauses: tuple[_Clause, ...]
    changes: float  # logit of the whole

    @property
    def most(self) -> float:
        return max(clause.changes for clause in self.clauses)


def find_changes(message: str, claims: Sequence[str]) -> list[Change]:
    return list(_find_changes(message, tuple(claims)))


@cache_texts(8)  # the claims of one message are compared with the same ones
def _find_changes(message: str, claims: tuple[str, ...]) -> tuple[Change, ...]:
    told = _analyse_message(message)
    lifting = [each for each in told.clauses if english.changes_instructions(each.said.text)] if told else []
    found = [_find_instruction_change(lifting, claim) for claim in claims]
    for at, (clause, features) in measure(message, claims).items():
        if _is_event(_read(claims[at])):
            continue  # what happened stays so
        likely = judge_pair(message, clause, claims[at], features)
        if likely < CONTRADICTS:
            most = min(_UNTOLD, _limit(message, clause, claims[at])) if likely >= _AT_ALL else _NAMED
            likely = min(most, _load().doubt(features) * DOUBTS / _DOUBTED)
        found[at] = max(found[at], Change(likely, clause.start, clause.end), key=lambda each: each.probability)
    return tuple(found)


def _find_instruction_change(lifting: Sequence[_Clause], claim: str) -> Change:
    """Whether a clause lifts or replaces an instruction: the trained model has seen no instructions."""
    found = [Change(_judge_instruction(each, claim), each.start, each.end) for each in lifting]
    best = max(found, key=lambda each: each.probability, default=Change(0.0))
    known = _read(claim) if best.probability else None  # to read a claim takes longest
    return best if known is not None and known.kind in ("instruction", "constraint") else Change(0.0)


def _judge_instruction(clause: _Clause, claim: str) -> float:
    said = clause.said.text
    instructs = clause.reading is not None and clause.reading.kind in ("instruction", "decision")
    if english.replaces_style(said, claim):
        return _LIFTED if instructs else _UNTOLD
    about = _find_instructed(said)
    shared = len(about & _find_instructed(claim)) / max(1, len(about))
    if english.forbids(said):
        return _LIFTED if instructs and shared > _HALF and not english.forbids(claim) else 0.0
    return _UNTOLD if shared >= _HALF and english.allows(said) else 0.0


@cache_texts(1 << 12)  # of a claim, for each message
def _find_instructed(text: str) -> frozenset[str]:
    return frozenset(map(stem, english.list_instructed(text)))


def judge_pair(message: str, clause: _Clause, claim: str, features: list[float]) -> float:
    """How likely the message takes the claim back, by plain words or by the trained model: sure enough to end it."""
    plain = _judge_words(clause.said, _analyse(claim))
    return max(plain, min(_load().judge(features), _limit(message, clause, claim)))


def _limit(message: str, clause: _Clause, claim_text: str) -> float:
    """The most that the trained model's verdict counts for.

    It takes what is like a claim for what takes it back. So a message that names what a claim is about has to tell of a
    change more clearly than one that does not, or say so in plain words; and only what is about the same attribute, or
    says that something is over, ends a claim. All else makes it doubtful at most.
    """
    told, claim = _analyse_message(message), _analyse(claim_text)
    if told is None:
        return 0.0
    mine, theirs, said = clause.reading, _read(claim_text), clause.said
    same = mine is not None and theirs is not None and mine.attribute == theirs.attribute
    heard = told.said.stems & claim.stems
    names = heard & _find_names(claim)
    doing = _begins_with(said, names) and not english.tells_of_loss(said.text)  # what somebody stopped, not who
    if heard and (doing or not said.has_change_sign):
        mentioned = told.changes < _NAMES_IT and not _has_other_number(said, claim)
        if mentioned or (names and not same and told.changes < _NAMES_HIM):
            return _NAMED
    return 1.0 if told.changes >= _TELLS and (same or said.has_end_sign) else _UNTOLD


def _has_other_number(said: _Text, claim: _Text) -> bool:
    return claim.has_number and said.has_number and claim.signature.numbers != said.signature.numbers


def _is_event(claim: Reading | None) -> bool:
    return claim is not None and claim.kind == "event" and claim.status == "past"


def _judge_words(said: _Text, claim: _Text) -> float:
    """How likely a clause with a sign of change takes a claim back, by the words alone: it repeats most of them.

    The trained model has seen few statements as short and plain as "I left Acme". Where it shares a name alone, most of
    the clause has to be about it, and "Rex stopped barking at the postman" is no end of the dog.
    """
    if (off := find_content_stems(english.find_called_off(said.text))) and off <= claim.stems:
        return _UNTOLD if said.has_stay_sign or english.is_passing(said.text) else CONTRADICTS
    if not said.has_change_sign:
        return 0.0
    heard, names = said.stems & claim.stems, _find_names(claim)
    if (retracted := find_content_stems(english.find_retracted(said.text))) and retracted <= claim.stems:
        return _RETRACTED
    if heard and heard <= names and _begins_with(said, heard) and not english.tells_of_loss(said.text):
        return 0.0
    owners = {stem(each.casefold()) for each in english.list_owners(said.text)}
    if heard <= names and (heard <= owners or english.is_kin_still(claim.text, said.text)):
        return 0.0
    size = len(said.stems) if heard <= names else min(len(said.stems), len(claim.stems))
    ends = _ENDS if heard and said.has_end_sign else 0.0
    score = _SHARE * len(heard) / max(1, size) + (_NAMES if heard & claim.names else 0.0) + ends
    if score < _PLAIN:
        return 0.0
    one_of_several = heard <= names and not names <= heard and " and " in claim.text
    return min(score, _UNTOLD) if one_of_several or said.has_stay_sign else score


def _begins_with(said: _Text, stems: frozenset[str]) -> bool:
    return any(stem(word.strip("'’.,;:!?").casefold().removesuffix("'s")) in stems for word in said.text.split()[:2])


def _find_names(text: _Text) -> frozenset[str]:
    return text.names - _DATES


def measure(message: str, claims: Sequence[str]) -> dict[int, tuple[_Clause, list[float]]]:
    """Return, by number, the claims most like the message, each with the clause that is nearest and what is judged."""
    import numpy as np

    told = _analyse_message(message)
    if told is None or not claims:
        return {}
    known = np.array([embed_text(claim) for claim in claims])
    whole = known @ told.said.vector
    # No matrix product: a large one starts threads that mostly wait.
    parts = np.einsum("ij,kj->ik", known, np.array([clause.said.vector for clause in told.clauses]))
    best = parts.max(axis=1)
    found = {}
    for at in np.argsort(-np.maximum(whole, best))[:_MAX_COMPARED].tolist():
        clause = told.clauses[int(parts[at].argmax())]
        others = [np.delete(each, at).max() if len(claims) > 1 else _ALONE for each in (whole, best)]
        alike = [whole[at], best[at], whole[at] - others[0], best[at] - others[1]]
        found[at] = clause, [*map(float, alike), *_compare(told, clause, claims[at])]
    return found


def tells_of_change(message: str) -> bool:
    """Return whether any clause may tell of a change; if not, nothing needs to be compared."""
    told = _analyse_message(message)
    if told is None:
        return False
    signs = told.said.has_change_sign or any(english.changes_instructions(each.said.text) for each in told.clauses)
    return signs or max(told.most, told.changes) >= _load().gate


def measure_telling(message: str) -> float:
    """Return how surely a message as a whole tells of a change, as a logit."""
    told = _analyse_message(message)
    return float("-inf") if told is None else told.changes


def find_telling_clauses(message: str) -> list[tuple[int, int]]:
    """Where the clauses stand that more likely than not tell of a change."""
    told = _analyse_message(message)
    return [] if told is None else [(each.start, each.end) for each in told.clauses if each.changes >= 0]


def _compare(told: _Message, clause: _Clause, claim_text: str) -> list[float]:
    """What tells whether a clause takes a claim back, beside their vectors. In the order of the training."""
    claim, said = _analyse(claim_text), clause.said
    heard = told.said.stems & claim.stems
    return [
        len(heard) / max(1, min(len(told.said.stems), len(claim.stems))),
        float(bool(heard)),
        float(bool(heard & claim.names)),
        min(len(heard), 4) / 4,
        float(told.said.has_change_sign),
        float(told.said.has_end_sign),
        float(said.has_change_sign),
        float(said.has_end_sign),
        *_compare_readings(clause.reading, _read(claim_text)),
        told.changes,
        clause.changes,
        told.most,
        float(bool(claim.names) and not claim.names & told.said.stems),
        float(bool(said.names - claim.names)),
        float(bool(said.names & claim.names)),
        float(claim.has_number),
        float(said.has_number),
        float(_has_other_number(said, claim)),
        float(said.signature.negated),
        float(claim.signature.negated),
        float(said.has_stay_sign),
        float("?" in said.text),
    ]


def _compare_readings(mine: Reading | None, theirs: Reading | None) -> list[float]:
    """Whether the reader takes both to be about the same attribute, how sure it is, and about whom they are."""
    if mine is None or theirs is None:
        return [0.0] * 4
    same = mine.attribute == theirs.attribute
    sure = mine.attribute_sure * theirs.attribute_sure if same else 0.0
    return [float(same), sure, float(mine.about == theirs.about), float(mine.about == "user")]


@cache_texts(_CACHED)
def _analyse_message(text: str) -> _Message | None:
    spans = [(start, end) for start, end in split_clauses(text) if len(text[start:end].strip()) > 3][:_MAX_CLAUSES]
    if not spans:
        return None
    readings = {reading.start: reading for reading in default_reader().read(text)}
    words = [text[start:end].strip() for start, end in spans]
    *scores, whole = _load().score([default_encoder().embed_pieces(each) for each in (*words, text)])
    clauses = tuple(
        _Clause(start, end, _analyse(said), score, readings.get(start))
        for (start, end), said, score in zip(spans, words, scores, strict=True)
    )
    return _Message(_analyse(text), clauses, whole)


@cache_texts(_CACHED)
def _analyse(text: str) -> _Text:
    return _Text(
        text=text,
        vector=embed_text(text),
        stems=find_content_stems(text),
        names=find_name_stems(text),
        signature=compute_signature(text),
        has_number=any(character.isdigit() for character in text),
        has_change_sign=english.has_change_sign(text),
        has_end_sign=english.has_end_sign(text),
        has_stay_sign=english.has_stay_sign(text),
    )


@cache_texts(_CACHED)
def _read(claim: str) -> Reading | None:
    return max(default_reader().read(claim), key=lambda reading: reading.keep, default=None)


@cache
def _load() -> ChangeNetwork:
    load_modules("limpet.knowledge.change_network", "zipfile", "encodings.cp437")
    from limpet.knowledge.change_network import ChangeNetwork

    return ChangeNetwork.load(WEIGHTS)
