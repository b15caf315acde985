"""Extract facts from a turn by rules; every candidate is grounded in its sentence."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

from limpet.knowledge.candidate import Candidate, Echoes, TurnMessage, find_references
from limpet.knowledge.english import people, preferences, project, relations
from limpet.knowledge.english.assertions import FOR_A_WHILE, Aspect, find_statements, parse_aspect
from limpet.knowledge.english.clause import NAME, Clause, ClauseReader, expand_contractions, normalize_subject
from limpet.knowledge.english.coordination import split_statements
from limpet.knowledge.english.lexicon import SINGLE
from limpet.knowledge.english.statement import format_statement
from limpet.knowledge.english.values import Rule, RuleMatch
from limpet.knowledge.similarity import fold_text, is_near_duplicate, is_same_value
from limpet.model.message import Role
from limpet.model.record import Record, RecordType
from limpet.search.analysis import Sentence

__all__ = ["Candidate", "TurnMessage", "extract_candidates"]

# Longer text is pasted: the speaker's own words are before and after it.
_LONG, _EDGE = 4000, 1000
_HEDGED = 0.6  # confidence at most
_BLANK = "\x1f"
_MACHINES = re.compile(r"assistant|bot|agent|ai|gpt|claude|gemini|llama|mistral|model|system|user|human", re.IGNORECASE)
_FIRST_PERSON = frozenset(
    """like love enjoy adore dig hate dislike detest loathe despise prefer use live reside work study speak play own
    drive ride collect am have want eat drink come are""".split()
)
_THIRD_PERSON = frozenset(
    """likes loves enjoys adores hates dislikes prefers uses lives resides works studies speaks plays owns drives
    collects is has wants eats drinks comes""".split()
)
_THIS_DAY = re.compile(
    r"\b(?:today|tonight|tomorrow|right now|at the moment|rn|this (?:morning|afternoon|evening|week|weekend|summer)|"
    r"for now|until|till|(?:the|a|my|our) (?:library|caf[eé]|coffee shop|kitchen|office|airport|dining|living|"
    r"desk))\b",
    re.IGNORECASE,
)
_PROFILE = re.compile(r"\b(?:about me|about myself|who i am|my profile|my details|introduce myself)\b", re.IGNORECASE)
MAX_CANDIDATES = 50  # per turn: more is a document, not a conversation


class OwnStatement(NamedTuple):
    """A statement the speaker asserts: where its words stand in the message, and the same with a subject of its own."""

    start: int
    end: int
    text: str
    sentence: Sentence  # that it is part of
    opening: bool


def extract_candidates(
    turn: Sequence[TurnMessage], recalled: Collection[str] = (), *, unheard_too: bool = False
) -> list[Candidate]:
    """What the rules are sure of, in the order it was said, each once. Never raises, whatever the text.

    ``unheard_too``: also of what a speaker asks not to have remembered. Nobody may learn that, but who forgets
    something has to find it.
    """
    echoes = Echoes(recalled)
    found: list[Candidate] = []
    for said in turn:
        if len(found) >= MAX_CANDIDATES:
            break
        if is_person(said, turn):
            own = [
                each
                for each in find_own_statements(said.text, unheard_too=unheard_too)
                if not echoes.contains(said.text[each.start : each.end])
            ]
            found += [candidate for candidates in extract_statements(said, own) for candidate in candidates]
    found += extract_work(turn, echoes)
    return deduplicate(found)


def deduplicate(found: Sequence[Candidate]) -> list[Candidate]:
    """Each fact of a turn once, in the order they were said."""
    kept = _deduplicate(found[: 2 * MAX_CANDIDATES])
    return sorted(kept, key=lambda candidate: candidate.sequence)[:MAX_CANDIDATES]


def is_person(said: TurnMessage, turn: Sequence[TurnMessage]) -> bool:
    """Return whether a person speaks for themselves: a user, or anybody where people talk with each other."""
    return said.role is Role.USER or (said.role is Role.ASSISTANT and _is_between_people(turn))


def is_named(said: TurnMessage) -> bool:
    return bool(said.speaker) and not _MACHINES.fullmatch(said.speaker or "")


def _is_between_people(turn: Sequence[TurnMessage]) -> bool:
    """Return whether this is a conversation between people: all have names, and none is a machine's."""
    names = [said.speaker for said in turn if said.role in {Role.USER, Role.ASSISTANT}]
    return bool(names) and all(name and not _MACHINES.fullmatch(name) for name in names)


def extract_work(turn: Sequence[TurnMessage], echoes: Echoes) -> list[Candidate]:
    """What an assistant and its tools report of the work."""
    found = [
        candidate
        for said in turn
        if said.role is Role.ASSISTANT and not is_person(said, turn)
        for candidate in _extract_assistant(said, echoes)
    ]
    return found + [
        _build_candidate(said, line, finding, ran) for said, line, finding, ran in project.find_outcomes(turn)
    ]


def find_own_statements(text: str, *, unheard_too: bool = False) -> Iterator[OwnStatement]:
    """The statements that the speaker asserts, coordinated ones apart."""
    for sentence, opening in find_statements(text, unheard_too=unheard_too):
        if len(text) > _LONG and _EDGE < sentence.start < len(text) - _EDGE:
            continue
        if _BLANK in sentence.text and _BLANK * 3 not in sentence.text:
            continue
        for part in split_statements(sentence.text):
            start, end = sentence.start + part.start, sentence.start + part.end
            yield OwnStatement(start, end, part.text, sentence, opening)


def extract_statements(said: TurnMessage, statements: Sequence[OwnStatement]) -> list[list[Candidate]]:
    """For each statement of a message, in order, what the rules are sure of."""
    me = normalize_subject(said.speaker or "") if is_named(said) else "user"
    narrator = ClauseReader(me or "user")
    about_me = bool(re.search(r"\b(?:I|my|me|I'm)\b", said.text))
    profile = about_me and _PROFILE.search(said.text) is not None
    found: list[list[Candidate]] = []
    for sentence, group in groupby(statements, key=lambda statement: statement.sentence):
        parts = list(group)
        bullet = sentence.bullet and about_me
        whole = list(_match_sentence(sentence, narrator, opening=parts[0].opening, bullet=bullet))
        if profile and sentence.bullet and not whole:
            whole = list(relations.parse_profile_line(sentence.text, me or "user"))
        for part, findings in zip(parts, _assign(parts, whole, narrator, bullet=bullet), strict=True):
            text = sentence.text if len(parts) == 1 else part.text
            found.append([_build(said, part, _set_content(each, findings, said, text, me)) for each in findings])
    return found


def _assign(
    parts: Sequence[OwnStatement], whole: Sequence[RuleMatch], narrator: ClauseReader, *, bullet: bool
) -> list[list[RuleMatch]]:
    """What the rules find in a sentence, each at the statement that says it, and what they find in that alone."""
    found: list[list[RuleMatch]] = [[] for _ in parts]
    for finding in whole:
        said = (at for at, part in enumerate(parts) if finding.value and finding.value in part.text)
        found[next(said, 0)].append(finding)
    if len(parts) > 1:
        for at, part in enumerate(parts):
            alone = Sentence(0, part.text, part.sentence.bullet)
            for finding in _match_sentence(alone, narrator, opening=part.opening, bullet=bullet):
                known = any(_is_same(finding, other) for others in found for other in others)
                if finding.attribute is not None and not known:
                    found[at].append(finding)
    return found


def _build(said: TurnMessage, statement: OwnStatement, finding: RuleMatch) -> Candidate:
    if finding.value is None:  # no words of it say which part it is
        start = statement.sentence.start
        return _build_candidate(said, said.text[start : start + len(statement.sentence.text)], finding)
    return _build_candidate(said, said.text[statement.start : statement.end], finding)


def _set_content(
    finding: RuleMatch, beside: Sequence[RuleMatch], said: TurnMessage, sentence: str, me: str
) -> RuleMatch:
    """Return the sentence itself, unless it states several things, says "she" or names the speaker."""
    alone = len(beside) == 1 and (finding.subject in {me, "project"} or _has_name(sentence, finding.subject))
    if alone or finding.attribute is None or finding.value is None:
        content = f"{said.speaker}: {sentence}" if me != "user" and finding.subject != "project" else sentence
    else:
        name = None if _is_single(finding.subject) else _find_name(finding.subject, beside)
        content = format_statement(
            finding.subject, finding.attribute, finding.value, polarity=finding.polarity, name=name
        )
    return replace(finding, content=content)


def _find_name(subject: str, beside: Sequence[RuleMatch]) -> str | None:
    """About one of several: my daughter Mia is five."""
    called = {finding.value for finding in beside if (finding.subject, finding.attribute) == (subject, "name")}
    return called.pop() if len(called) == 1 else None


def _has_name(sentence: str, subject: str) -> bool:
    return subject.rpartition("/")[2] in sentence.casefold()


def _extract_assistant(said: TurnMessage, echoes: Echoes) -> Iterator[Candidate]:
    """Extract what an assistant reports about the work, never about people: it may repeat memory."""
    for sentence, _ in find_statements(said.text):
        plain = expand_contractions(sentence.text)
        findings = [
            *project.find_decisions(plain, "project", proposes=False),
            *project.find_failures(plain),
            *project.find_fixes(plain),
        ]
        if findings and not echoes.contains(sentence.text):
            for finding in findings:
                lowered = replace(finding, confidence=min(finding.confidence, 0.7))
                yield _build_candidate(said, _original_text(said, sentence), lowered)


def _original_text(said: TurnMessage, sentence: Sentence) -> str:
    return said.text[sentence.start : sentence.start + len(sentence.text)]


def _match_sentence(sentence: Sentence, narrator: ClauseReader, *, opening: bool, bullet: bool) -> Iterator[RuleMatch]:
    text = sentence.text.replace(_BLANK, "")
    plain = expand_contractions(text)
    settled = [
        *project.find_decisions(plain, narrator.me, proposes=True),
        *preferences.find_constraints(plain, narrator.me),
        *project.find_failures(plain, reported=True),
        *project.find_fixes(plain),
    ]
    about = [
        *relations.find_names(plain, narrator.me, opening=opening),
        *relations.find_breakup(plain, narrator.me),
        *preferences.find_listed_favourites(text, narrator.me, bullet=bullet),
    ]
    for clause in narrator.read_clauses(text, bullet=bullet):
        about += _match_clause(clause, narrator)
    for finding in relations.find_relatives(text, narrator.me):
        if not any(_is_same(finding, other) for other in about):
            about.append(replace(finding, exclusive=_is_single(finding.subject)))
    if not settled:
        settled = list(project.find_stack(plain))
    settled += project.find_routine(plain)
    if any(finding.type is RecordType.CONSTRAINT for finding in settled):
        about = [finding for finding in about if finding.attribute != "uses"]
    if any(finding.type is RecordType.DECISION for finding in settled):
        about = [finding for finding in about if finding.attribute not in {"plan", "goal", "uses", "owns"}]
    yield from settled
    yield from about
    if not settled and not about:
        yield from preferences.find_notes(plain, narrator.me)


def _match_clause(clause: Clause, narrator: ClauseReader) -> Iterator[RuleMatch]:
    findings: list[RuleMatch] = [*relations.find_relations(clause, narrator)]
    if clause.owned:
        findings += [*preferences.find_favourites(clause), *relations.find_attributes(clause)]
    else:
        seen = parse_aspect(clause.predicate)
        for rule in (*people.RULES, *preferences.RULES):
            finding = _apply_rule(rule, clause, seen, mine=clause.subject == narrator.me)
            if finding and not any(_is_same(finding, other) for other in findings):
                findings.append(finding)
    for finding in findings:
        confidence = min(finding.confidence, _HEDGED) if clause.hedged else finding.confidence
        yield replace(finding, confidence=confidence, exclusive=finding.exclusive and _is_single(finding.subject))


def _is_single(subject: str) -> bool:
    """Return whether the words can mean one person only: "my mother", not "my friend"."""
    _, *way = subject.split("/")
    return all(step in SINGLE for step in way)


def _apply_rule(rule: Rule, clause: Clause, seen: Aspect, *, mine: bool) -> RuleMatch | None:
    if not is_applicable(rule, clause, seen) or not has_person_agreement(seen, mine=mine):
        return None
    text = clause.predicate if rule.when == "possible" or rule.over else seen.core
    match = rule.pattern.match(text)
    if not match:
        return None
    value = rule.fixed or rule.value(match["v"])
    if not value or _BLANK in value:
        return None
    if rule.attribute == "home" and value == value.lower() and clause.whole != clause.whole.lower():
        return None  # a place has a name; it is lowercase only if all the text is
    past = match.group().startswith(("lived", "worked")) and not _is_ongoing(seen, clause)
    ended = seen.ended or rule.over or past
    if rule.attribute == "origin":
        ended = False  # a past origin still holds
    negated = seen.negated or re.match(r"can not (?:eat|drink|have)\b", match.group(), re.IGNORECASE) is not None
    polarity = not (negated or ended) if not rule.denies else seen.negated
    if (rule.attribute == "status" and "/" not in clause.subject) or _is_empty_claim(rule, match, seen, clause):
        return None
    third = clause.subject.count("/") or clause.elided
    confidence = rule.confidence - (0.05 if third else 0.0)
    if past and not seen.ended and not re.search(r"\b(?:until|till|before|back then)\b", clause.predicate):
        confidence = min(confidence, _HEDGED)  # a former employee may work there again
    return RuleMatch(
        rule.type,
        clause.subject,
        rule.attribute,
        value,
        rule.layer,
        exclusive=rule.exclusive,
        polarity=polarity,
        confidence=confidence,
        salience=rule.salience,
        tags=rule.tags,
    )


def _is_empty_claim(rule: Rule, match: re.Match[str], seen: Aspect, clause: Clause) -> bool:
    """ "Not thirty" or "not moved" is not a state, and a short stay is not a lasting one."""
    if rule.attribute == "age" or (rule.attribute == "home" and match.group().startswith(("moved", "relocated"))):
        return seen.negated
    if rule.attribute == "home":
        brief = FOR_A_WHILE.search(clause.predicate) or f"{clause.predicate} until " in expand_contractions(
            clause.whole
        )
        return not seen.perfect and not seen.ended and bool(brief)
    if rule.attribute == "uses":  # what "we" use is a team convention, not a personal preference
        return re.search(r"\bwe (?:\w+ )?use\b", clause.whole, re.IGNORECASE) is not None
    if rule.attribute == "drinks" and rule.fixed is None:
        return re.match(r"\w+ (?:in|since|last|for|a|two|three|at|on|this) ", match.group()) is not None
    if rule.attribute == "employer" and re.match(r"(?:am|is|are) working\b|working\b", match.group()):
        return _THIS_DAY.search(clause.predicate) is not None
    return False


def is_applicable(rule: Rule, clause: Clause, seen: Aspect) -> bool:
    """Return whether the rule accepts this modality: a state, a plan, a negation, a habit."""
    match rule.when:
        case "holds":
            return seen.holds and not seen.future and not seen.possible
        case "future":
            return seen.future and not seen.negated
        case "others":  # "she is only four": about oneself it could be a time, a rank, anything
            return "/" in clause.subject and seen.holds and not seen.future and not seen.possible
        case "possible":
            return seen.possible
        case "denied":
            forbidden = re.match(r"(?:really |just )*can not (?:eat|drink)\b", clause.predicate) is not None
            return (seen.negated or seen.ended or forbidden) and not seen.future
        case "habit":
            return bool(seen.habit) and not seen.possible and not seen.future
        case "quit":
            return seen.ended and re.match(r"(?:have |has |just |finally )*quit\b", clause.predicate) is not None
        case _:
            plain = not seen.future and (not seen.possible or seen.core.startswith("can not"))
            return plain and not (seen.perfect and rule.attribute == "likes" and not seen.holds)


def has_person_agreement(seen: Aspect, *, mine: bool) -> bool:
    """I like, she likes. "Sounds like rain" has no subject called Sounds."""
    first = seen.core.split(" ", 1)[0].lower()
    if first == "learning" and not seen.perfect:
        return False
    if mine:
        return first not in _THIRD_PERSON
    return first not in _FIRST_PERSON or seen.negated or seen.ended or seen.possible or seen.future


def _is_ongoing(seen: Aspect, clause: Clause) -> bool:
    return seen.perfect and re.search(r"\b(?:for|since|all my life|always)\b", clause.predicate) is not None


def _is_same(one: RuleMatch, other: RuleMatch) -> bool:
    return (one.subject, one.attribute, one.polarity) == (
        other.subject,
        other.attribute,
        other.polarity,
    ) and is_same_value(one.value, other.value)


def _build_candidate(said: TurnMessage, sentence: str, finding: RuleMatch, ran: tuple[str, ...] = ()) -> Candidate:
    named = (name for name in find_references(sentence) if name not in ran)
    return Candidate(
        type=finding.type,
        layer=finding.layer,
        content=finding.content or sentence,
        sentence=sentence,
        sequence=said.sequence,
        subject=finding.subject,
        said_at=said.created_at,
        speaker=said.speaker,
        attribute=finding.attribute,
        value=finding.value,
        exclusive=finding.exclusive,
        polarity=finding.polarity,
        confidence=round(finding.confidence, 3),
        salience=finding.salience,
        tags=finding.tags,
        references=(*ran, *named),
    )


def _deduplicate(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Deduplicate the facts of a turn. Two homes in a turn both stay: reconciliation decides."""
    kept: dict[tuple[object, ...], list[Candidate]] = {}
    for candidate in candidates:
        key = (candidate.type, candidate.subject, candidate.attribute, candidate.polarity)
        same = kept.setdefault(key, [])
        if not any(_is_repeat(candidate, other) for other in same):
            same.append(candidate)
    return [candidate for same in kept.values() for candidate in same]


def _is_repeat(one: Candidate, other: Candidate) -> bool:
    if one.attribute is not None:
        return is_same_value(one.value, other.value)
    return fold_text(one.content) == fold_text(other.content) or is_near_duplicate(one.content, other.content)


# Corrections that name only what they correct: "her name is Alexis, not Alexa"


# Single-valued attributes: a wrong value can only be the same fact, misstated.
_CORRECTED = frozenset("name nickname home employer age origin birthday school".split())
_VALUE = rf"(?:{NAME}|\d{{1,3}})"
_NOT = re.compile(
    rf"(?:(?i:\b(?:is|it's|it’s|was|meant|mean|called|named|spelled))|(?<=\w)['’]s) (?P<new>{_VALUE}),? (?i:and )?"
    rf"not (?P<old>{_VALUE})(?=$|[\s,.!;])"
)


class Correction(NamedTuple):
    said: TurnMessage
    sentence: str
    new: str
    old: str


def find_corrections(turn: Sequence[TurnMessage], found: Iterable[Candidate]) -> Iterator[Correction]:
    """Return the user's corrections that no rule could assign to a subject."""
    placed = {candidate.sentence for candidate in found}
    for said in turn:
        if said.role is Role.USER:
            for sentence, _ in find_statements(said.text):
                match = _NOT.search(sentence.text)
                if match and sentence.text not in placed:
                    yield Correction(said, sentence.text, match["new"], match["old"])


def apply_correction(correction: Correction, records: Iterable[Record]) -> Candidate | None:
    """Return the correction of the one fact with the wrong value; nothing if there are two."""
    wrong = [
        record
        for record in records
        if record.attribute in _CORRECTED
        and record.polarity
        and fold_text(record.value or "") == fold_text(correction.old)
    ]
    if len({(record.subject, record.attribute) for record in wrong}) != 1:
        return None
    (record, *_) = wrong
    return Candidate(
        type=record.type,
        layer=record.layer,
        content=format_statement(record.subject or "user", record.attribute or "", correction.new),
        sentence=correction.sentence,
        sequence=correction.said.sequence,
        subject=record.subject or "user",
        said_at=correction.said.created_at,
        speaker=correction.said.speaker,
        attribute=record.attribute,
        value=correction.new,
        confidence=0.8,
        salience=record.salience,
        tags=record.tags,
    )
