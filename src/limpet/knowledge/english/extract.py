"""What a turn teaches, found by rules: every candidate grounded in the sentence it came from."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from limpet.knowledge.candidate import Candidate, Said
from limpet.knowledge.echo import Echoes
from limpet.knowledge.english import commands, constraints, decisions, failures, people, preferences, project, relations
from limpet.knowledge.english.aspect import FOR_A_WHILE, Aspect, aspect
from limpet.knowledge.english.assertion_filter import statements
from limpet.knowledge.english.clause import Clause, Narrator, as_subject, expanded
from limpet.knowledge.english.lexicon import SINGLE
from limpet.knowledge.english.statement import stated
from limpet.knowledge.english.table import Finding, Rule
from limpet.knowledge.references import references
from limpet.knowledge.similarity import alike, folded, same_value
from limpet.model.message import Role
from limpet.model.record import RecordType
from limpet.model.sentences import Sentence

__all__ = ["Candidate", "Said", "extract"]

# What is longer is pasted: the speaker's own words stand before and after it.
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
MAX_CANDIDATES = 50  # of one turn: more is a document, not a conversation


def extract(turn: Sequence[Said], recalled: Collection[str] = (), *, unheard_too: bool = False) -> list[Candidate]:
    """Candidates in the order they were said, each once. Never raises, whatever the text.

    ``unheard_too``: also of what a speaker asks not to have remembered. Nobody may learn that, but who forgets
    something has to find it.
    """
    echoes = Echoes(recalled)
    named = _is_named(turn)
    found: list[Candidate] = []
    for said in turn:
        if len(found) >= MAX_CANDIDATES:
            break
        if said.role is Role.USER or (named and said.role is Role.ASSISTANT):
            found += _of_person(said, echoes, unheard_too=unheard_too)
        elif said.role is Role.ASSISTANT:
            found += _of_assistant(said, echoes)
    for said, line, finding, ran in commands.outcomes(turn):
        found.append(_candidate(said, line, finding, ran))
    return sorted(_distinct(found[: 2 * MAX_CANDIDATES]), key=lambda candidate: candidate.sequence)[:MAX_CANDIDATES]


def _is_named(turn: Sequence[Said]) -> bool:
    """A conversation between people: everybody has a name, and nobody's is that of a machine."""
    names = [said.speaker for said in turn if said.role in {Role.USER, Role.ASSISTANT}]
    return bool(names) and all(name and not _MACHINES.fullmatch(name) for name in names)


def _of_person(said: Said, echoes: Echoes, *, unheard_too: bool) -> Iterator[Candidate]:
    me = as_subject(said.speaker) if said.speaker and not _MACHINES.fullmatch(said.speaker) else "user"
    narrator = Narrator(me or "user")
    about_me = bool(re.search(r"\b(?:I|my|me|I'm)\b", said.text))
    profile = about_me and _PROFILE.search(said.text) is not None
    for sentence, opening in statements(said.text, unheard_too=unheard_too):
        if len(said.text) > _LONG and _EDGE < sentence.start < len(said.text) - _EDGE:
            continue
        if _BLANK in sentence.text and _BLANK * 3 not in sentence.text:
            continue
        findings = list(_findings(sentence, narrator, opening=opening, bullet=sentence.bullet and about_me))
        if profile and sentence.bullet and not findings:
            findings = list(relations.in_profile(sentence.text, me or "user"))
        if findings and not echoes.holds(sentence.text):
            original = _original(said, sentence)
            yield from (
                _candidate(said, original, _worded(finding, findings, said, original, me)) for finding in findings
            )


def _worded(finding: Finding, beside: Sequence[Finding], said: Said, sentence: str, me: str) -> Finding:
    """The sentence itself, unless it says several things, or "she", or who speaks is part of it."""
    alone = len(beside) == 1 and (finding.subject in {me, "project"} or _names(sentence, finding.subject))
    if alone or finding.attribute is None or finding.value is None:
        content = f"{said.speaker}: {sentence}" if me != "user" and finding.subject != "project" else sentence
    else:
        name = None if _is_one(finding.subject) else _name_of(finding.subject, beside)
        content = stated(finding.subject, finding.attribute, finding.value, polarity=finding.polarity, name=name)
    return replace(finding, content=content)


def _name_of(subject: str, beside: Sequence[Finding]) -> str | None:
    """Of one of several: my daughter Mia is five."""
    called = {finding.value for finding in beside if (finding.subject, finding.attribute) == (subject, "name")}
    return called.pop() if len(called) == 1 else None


def _names(sentence: str, subject: str) -> bool:
    return subject.rpartition("/")[2] in sentence.casefold()


def _of_assistant(said: Said, echoes: Echoes) -> Iterator[Candidate]:
    """What it reports about the work, never what it says about people: that is memory talking to itself."""
    for sentence, _ in statements(said.text):
        plain = expanded(sentence.text)
        findings = [
            *decisions.decisions(plain, "project", proposes=False),
            *failures.failures(plain),
            *failures.fixes(plain),
        ]
        if findings and not echoes.holds(sentence.text):
            for finding in findings:
                lowered = replace(finding, confidence=min(finding.confidence, 0.7))
                yield _candidate(said, _original(said, sentence), lowered)


def _original(said: Said, sentence: Sentence) -> str:
    return said.text[sentence.start : sentence.start + len(sentence.text)]


def _findings(sentence: Sentence, narrator: Narrator, *, opening: bool, bullet: bool) -> Iterator[Finding]:
    text = sentence.text.replace(_BLANK, "")
    plain = expanded(text)
    settled = [
        *decisions.decisions(plain, narrator.me, proposes=True),
        *constraints.constraints(plain, narrator.me),
        *failures.failures(plain, reported=True),
        *failures.fixes(plain),
    ]
    about = [
        *relations.names(plain, narrator.me, opening=opening),
        *relations.parted(plain, narrator.me),
        *preferences.favourites_in(text, narrator.me, bullet=bullet),
    ]
    for clause in narrator.clauses(text, bullet=bullet):
        about += _of_clause(clause, narrator)
    for finding in relations.mentioned(text, narrator.me):
        if not any(_same(finding, other) for other in about):
            about.append(replace(finding, exclusive=_is_one(finding.subject)))
    if not settled:
        settled = list(project.made_of(plain))
    settled += project.routine(plain)
    if any(finding.type is RecordType.CONSTRAINT for finding in settled):
        about = [finding for finding in about if finding.attribute != "uses"]
    if any(finding.type is RecordType.DECISION for finding in settled):
        about = [finding for finding in about if finding.attribute not in {"plan", "goal", "uses", "owns"}]
    yield from settled
    yield from about
    if not settled and not about:
        yield from constraints.notes(plain, narrator.me)


def _of_clause(clause: Clause, narrator: Narrator) -> Iterator[Finding]:
    findings: list[Finding] = [*relations.relations(clause, narrator)]
    if clause.owned:
        findings += [*preferences.favourites(clause), *relations.owned(clause)]
    else:
        seen = aspect(clause.predicate)
        for rule in (*people.RULES, *preferences.RULES):
            finding = _applied(rule, clause, seen, mine=clause.subject == narrator.me)
            if finding and not any(_same(finding, other) for other in findings):
                findings.append(finding)
    for finding in findings:
        confidence = min(finding.confidence, _HEDGED) if clause.hedged else finding.confidence
        yield replace(finding, confidence=confidence, exclusive=finding.exclusive and _is_one(finding.subject))


def _is_one(subject: str) -> bool:
    """Whether the words can only mean one somebody: "my mother", not "my friend"."""
    _, *way = subject.split("/")
    return all(step in SINGLE for step in way)


def _applied(rule: Rule, clause: Clause, seen: Aspect, *, mine: bool) -> Finding | None:
    if not accepts(rule, clause, seen) or not agrees(seen, mine=mine):
        return None
    text = clause.predicate if rule.when == "possible" or rule.over else seen.core
    found = rule.pattern.match(text)
    if not found:
        return None
    value = rule.fixed or rule.value(found["v"])
    if not value or _BLANK in value:
        return None
    if rule.attribute == "home" and value == value.lower() and clause.whole != clause.whole.lower():
        return None  # a place has a name; only who writes everything small writes it small
    past = found.group().startswith(("lived", "worked")) and not _still(seen, clause)
    ended = seen.ended or rule.over or past
    if rule.attribute == "origin":
        ended = False  # where somebody was from they are from
    negated = seen.negated or re.match(r"can not (?:eat|drink|have)\b", found.group(), re.IGNORECASE) is not None
    polarity = not (negated or ended) if not rule.denies else seen.negated
    if (rule.attribute == "status" and "/" not in clause.subject) or _says_nothing(rule, found, seen, clause):
        return None
    third = clause.subject.count("/") or clause.elided
    confidence = rule.confidence - (0.05 if third else 0.0)
    if past and not seen.ended and not re.search(r"\b(?:until|till|before|back then)\b", clause.predicate):
        confidence = min(confidence, _HEDGED)  # who worked there once may work there again
    return Finding(
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


def _says_nothing(rule: Rule, found: re.Match[str], seen: Aspect, clause: Clause) -> bool:
    """Not to be thirty, or not to have moved, is no state; to be somewhere for a while is none that lasts."""
    if rule.attribute == "age" or (rule.attribute == "home" and found.group().startswith(("moved", "relocated"))):
        return seen.negated
    if rule.attribute == "home":
        brief = FOR_A_WHILE.search(clause.predicate) or f"{clause.predicate} until " in expanded(clause.whole)
        return not seen.perfect and not seen.ended and bool(brief)
    if rule.attribute == "uses":  # what we use is a house's way, and nobody's taste
        return re.search(r"\bwe (?:\w+ )?use\b", clause.whole, re.IGNORECASE) is not None
    if rule.attribute == "drinks" and rule.fixed is None:
        return re.match(r"\w+ (?:in|since|last|for|a|two|three|at|on|this) ", found.group()) is not None
    if rule.attribute == "employer" and re.match(r"(?:am|is|are) working\b|working\b", found.group()):
        return _THIS_DAY.search(clause.predicate) is not None
    return False


def accepts(rule: Rule, clause: Clause, seen: Aspect) -> bool:
    """Whether what is said in that way is the rule's business: a state, a plan, a denial, a habit."""
    match rule.when:
        case "holds":
            return seen.holds and not seen.future and not seen.possible
        case "future":
            return seen.future and not seen.negated
        case "others":  # "she is only four": of oneself it would be a time, a place in a list, anything
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


def agrees(seen: Aspect, *, mine: bool) -> bool:
    """I like, she likes. "Sounds like rain" is about nobody called Sounds."""
    first = seen.core.split(" ", 1)[0].lower()
    if first == "learning" and not seen.perfect:
        return False
    if mine:
        return first not in _THIRD_PERSON
    return first not in _FIRST_PERSON or seen.negated or seen.ended or seen.possible or seen.future


def _still(seen: Aspect, clause: Clause) -> bool:
    return seen.perfect and re.search(r"\b(?:for|since|all my life|always)\b", clause.predicate) is not None


def _same(one: Finding, other: Finding) -> bool:
    return (one.subject, one.attribute, one.polarity) == (
        other.subject,
        other.attribute,
        other.polarity,
    ) and same_value(one.value, other.value)


def _candidate(said: Said, sentence: str, finding: Finding, ran: tuple[str, ...] = ()) -> Candidate:
    named = (name for name in references(sentence) if name not in ran)
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


def _distinct(found: Sequence[Candidate]) -> list[Candidate]:
    """One fact once, however often a turn says it; of two homes in a turn both stay, reconciling decides."""
    kept: dict[tuple[object, ...], list[Candidate]] = {}
    for candidate in found:
        key = (candidate.type, candidate.subject, candidate.attribute, candidate.polarity)
        same = kept.setdefault(key, [])
        if not any(_repeats(candidate, other) for other in same):
            same.append(candidate)
    return [candidate for same in kept.values() for candidate in same]


def _repeats(one: Candidate, other: Candidate) -> bool:
    if one.attribute is not None:
        return same_value(one.value, other.value)
    return folded(one.content) == folded(other.content) or alike(one.content, other.content)
