"""Read a turn without a language model: which claims it makes, about whom, and how long they hold.

Every statement that the speaker asserts is read on its own, so that "I'm vegetarian and allergic to peanuts" gives two
claims. Rules refuse what is not the speaker's own word (questions, fiction, irony, pasted text), the trained reader
decides whether the rest is worth keeping and what it is about, and rules add attribute and value where they are sure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from limpet.knowledge import english
from limpet.knowledge.attributes import get_attribute
from limpet.knowledge.candidate import PASSING, Candidate, Echoes, TurnMessage, find_references
from limpet.knowledge.change import find_telling_clauses, tells_of_change
from limpet.knowledge.prominence import DOUBTFUL as SURE_ENOUGH
from limpet.knowledge.reader import (
    DOUBTFUL,
    SHOWN,
    SURE,
    VITAL_ATTRIBUTES,
    Reading,
    default_reader,
)
from limpet.knowledge.similarity import fold_text, is_near_duplicate, is_same_value, tokenize
from limpet.knowledge.statements import (
    LEAST,
    ORDERS,
    SCRAP,
    Statement,
    extend_claim,
    list_statements,
    read_statements,
    says_nothing,
)
from limpet.knowledge.work import find_reports, read_outcomes, read_work
from limpet.model.dataclass import replace
from limpet.model.message import Role
from limpet.model.record import Layer, RecordType
from limpet.search.analysis import Sentence

_TYPES = {
    "fact": RecordType.FACT,
    "preference": RecordType.PREFERENCE,
    "constraint": RecordType.CONSTRAINT,
    "instruction": RecordType.INSTRUCTION,
    "decision": RecordType.DECISION,
    "plan": RecordType.PLAN,
    "goal": RecordType.PLAN,
    "event": RecordType.FACT,
    "relationship": RecordType.RELATIONSHIP,
}
_STANDING_KINDS = frozenset("constraint instruction decision plan goal relationship".split())
_RULES = frozenset({"instruction", "constraint"})
_NAMING = frozenset(
    """my our a an the is s m am are called named name and have has i we who it she he in at as to of on with also both
    got was by for her his their its i'm i've we're""".split()
)
_UNBOUND = frozenset("name nickname family birthday origin age".split())  # true also after what else is said is over
_SIDE = frozenset({"name", "family"})  # what a statement says beside its point: "my wife Anna is a nurse"
_TENTATIVE = 0.7
_CLEAR = 0.8  # how sure the reader is of words that say something though they name nothing: "the divorce was final"
_SEEN = 8  # characters that find the words of a statement in it
_NOD = 3  # words of a reply that only says that it was heard
_SAID_IN_FULL = 5  # words of a quotation, with "The user said"
_VAGUE = frozenset("decision event plan other".split())
_MAX_JOINED = 200  # characters of a message that is one claim because each of its parts is doubtful
_MAX_WHOLE = 300  # characters of a message that is kept as a whole for what it takes back
_SOON = timedelta(days=8)  # in which a day lies that is told of a passing state: "he's back on Thursday"
_SPEAKERS = (Role.USER, Role.ASSISTANT)
MAX_CANDIDATES = 50  # per turn: more is a document, not a conversation


def read_turn(
    turn: Sequence[TurnMessage], recalled: Collection[str] = (), before: Sequence[TurnMessage] = ()
) -> list[Candidate]:
    """The claims of a turn, in the order they were made. Never raises, whatever the text.

    ``before`` are the last messages before the turn: its first message may answer their question.
    """
    echoes = Echoes(recalled)
    found: list[Candidate] = []
    earlier = list(before)
    for said in turn:
        if _is_person(said, turn):
            spoken = [each.text for each in earlier if each.role in _SPEAKERS]
            found += _add_whole(said, _join_doubtful(said, list(_read_message(said, spoken, echoes)), spoken))
        earlier.append(said)
    return _deduplicate([*found, *_read_work(turn, echoes)])


def extract_candidates(
    turn: Sequence[TurnMessage], recalled: Collection[str] = (), *, unheard_too: bool = False
) -> list[Candidate]:
    """What the rules alone are sure of, in the order it was said, each once. Never raises, whatever the text.

    ``unheard_too``: also of what a speaker asks not to have remembered. Nobody may learn that, but who forgets
    something has to find it.
    """
    echoes = Echoes(recalled)
    found: list[Candidate] = []
    for said in turn:
        if _is_person(said, turn) and len(found) < MAX_CANDIDATES:
            statements = english.find_own_statements(said.text, unheard_too=unheard_too)
            own = [each for each in statements if not echoes.contains(said.text[each.start : each.end])]
            found += [candidate for candidates in _apply_rules(said, own) for candidate in candidates]
    return _deduplicate([*found, *_read_work(turn, echoes)])


def _is_person(said: TurnMessage, turn: Sequence[TurnMessage]) -> bool:
    """Whether a person speaks for themselves: a user, or anybody where people talk with each other by name."""
    names = [each for each in turn if each.role in _SPEAKERS]
    return said.role is Role.USER or (said.role is Role.ASSISTANT and all(map(english.is_named, names)))


def _read_work(turn: Sequence[TurnMessage], echoes: Echoes) -> Iterator[Candidate]:
    for said in turn:
        if said.role is Role.ASSISTANT and not _is_person(said, turn):
            yield from read_work(said, echoes)
    yield from read_outcomes(turn)


def _apply_rules(said: TurnMessage, statements: Sequence[english.OwnStatement]) -> Iterator[list[Candidate]]:
    """For each statement, what rules are sure of. A report on the work is a sentence, told at its first statement."""
    before = None
    for statement, candidates in zip(statements, english.extract_statements(said, statements), strict=True):
        sentence = statement.sentence
        words = said.text[sentence.start : sentence.start + len(sentence.text)]
        reports = find_reports(said, words, by_user=True) if sentence != before else []
        yield [*reports, *candidates]
        before = sentence


def _deduplicate(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Each fact of a turn once, in the order they were said. Two homes both stay: reconciliation decides."""
    kept: dict[tuple[object, ...], list[Candidate]] = {}
    for candidate in candidates[: 2 * MAX_CANDIDATES]:
        same = kept.setdefault((candidate.type, candidate.subject, candidate.attribute, candidate.polarity), [])
        at = next((at for at, other in enumerate(same) if _is_repeat(candidate, other)), None)
        if at is None:
            same.append(candidate)
        elif same[at].confidence < SURE_ENOUGH <= candidate.confidence:
            same[at] = candidate
    found = [candidate for same in kept.values() for candidate in same]
    return sorted(found, key=lambda candidate: candidate.sequence)[:MAX_CANDIDATES]


def _is_repeat(one: Candidate, other: Candidate) -> bool:
    if one.attribute is not None and (one.value is not None or other.value is not None):
        return is_same_value(one.value, other.value)
    return fold_text(one.content) == fold_text(other.content) or is_near_duplicate(one.content, other.content)


def _add_whole(said: TurnMessage, candidates: Iterable[Candidate]) -> Iterator[Candidate]:
    """The claims of a message that may tell of a change, each with all that it states: one clause says what is over,
    and another what is so now."""
    found = list(candidates)
    words = _find_statement(said.text, found) if found and tells_of_change(said.text) else ""
    if not words or len(words) > _MAX_WHOLE:
        yield from found
        return
    speaker = said.speaker if english.is_named(said) else None
    whole = english.resolve_dates(english.retell(words, speaker), said.created_at)
    all_read = _are_all_read(said.text, found)
    for candidate in found:
        if all_read and not english.has_end_sign(candidate.sentence):
            yield candidate
        else:
            yield replace(candidate, message=said.text, whole=whole, whole_quote=words)


def _are_all_read(text: str, candidates: Sequence[Candidate]) -> bool:
    """Whether each statement of a message is a claim of its own: then what is so now need not stand for the rest."""
    read = {each.sentence for each in candidates if not each.tentative and each.confidence >= SURE_ENOUGH}
    return all(text[each.start : each.end] in read for each in list_statements(text))


def _join_doubtful(said: TurnMessage, found: list[Candidate], before: Sequence[str]) -> list[Candidate]:
    """Keep a message as one claim where each of its parts is doubtful: all of it together may be sure."""
    parts = [each for each in found if not each.tentative]
    if len(parts) < 2 or any(each.confidence >= SURE_ENOUGH or each.value for each in parts):
        return found
    own = list_statements(said.text)
    words = said.text[own[0].start : own[-1].end]
    if len(words) > _MAX_JOINED:
        return found
    reading = default_reader().read_whole(words, _get_last(before))
    speaker = said.speaker if english.is_named(said) else None
    content = english.resolve_dates(english.retell(words, speaker), said.created_at)
    whole = _build(said, Statement(own[0]._replace(end=own[-1].end, text=words), words, reading), reading)
    best = _rate(said, reading, quoted=False) if reading.keep >= SHOWN else max(each.confidence for each in parts)
    return [replace(whole, content=content, confidence=best), *(each for each in found if each.tentative)]


def _find_statement(text: str, candidates: Sequence[Candidate]) -> str:
    """All that a message states; of a long one, from the first to the last claim or clause that tells of a change."""
    whole = [(each.start, each.end) for each in list_statements(text)]
    if whole and whole[-1][1] - whole[0][0] <= _MAX_WHOLE:
        return text[whole[0][0] : whole[-1][1]].strip()
    read = [each.sentence for each in candidates if not each.tentative and each.sentence in text]
    kept = [*((text.find(each), text.find(each) + len(each)) for each in read), *find_telling_clauses(text)]
    own = [each for each in whole if any(min(each[1], end) > max(each[0], start) for start, end in kept)]
    return text[own[0][0] : own[-1][1]].strip() if own else ""


def _read_message(said: TurnMessage, before: Sequence[str], echoes: Echoes) -> Iterator[Candidate]:
    answer = english.complete_answer(said.text, before)
    answered = 0
    if answer is not None:
        answered = answer.end
        yield from _read_answer(said, answer)
    statements = [
        each
        for each in read_statements(said.text, _get_last(before))
        if said.text[answered : each.own.end].strip(" .,;:!") and not echoes.contains(each.words)
    ]
    sure = list(_apply_rules(said, [each.own for each in statements]))
    found: list[Candidate] = []
    last: Sentence | None = None
    for statement, candidates in _join_fragments(said.text, statements, sure):
        apart = statement.own.sentence != last
        known = [each.own.text for each in statements if each.own.end <= statement.own.start]
        read = [_name_things(each, known) for each in _read_statement(said, statement, candidates)]
        longer = None
        if found and not candidates:
            longer = extend_claim(said.text, found[-1], statement, read[0] if read else None, apart=apart)
        if longer is not None:
            found[-1] = longer
        elif read and statement.reading is not None and not candidates and says_nothing(statement, read[0]):
            found.append(replace(read[0], confidence=_rate(said, statement.reading, quoted=True)))
        else:
            found += read
        last = statement.own.sentence
    yield from found
    if not english.is_named(said):
        yield from _find_presupposed(said, found, echoes)


def _find_presupposed(said: TurnMessage, found: Sequence[Candidate], echoes: Echoes) -> Iterator[Candidate]:
    """What a message takes for granted, where no lasting claim says it."""
    sure = [each for each in found if each.confidence >= SURE_ENOUGH and not each.tentative]
    lasting = [each.content.casefold() for each in sure if each.until is None]
    for each in english.find_presupposed(said.text):
        sentence = said.text[each.sentence.start : each.sentence.start + len(each.sentence.text)]
        if any(each.value.casefold() in content for content in lasting) or echoes.contains(sentence):
            continue
        yield Candidate(
            type=RecordType.FACT,
            layer=Layer.SEMANTIC,
            content=each.text,
            sentence=sentence,
            sequence=said.sequence,
            subject=f"user/{each.role}" if each.role else "user",
            said_at=said.created_at,
            speaker=said.speaker,
            attribute=each.attribute or None,
            value=each.value if each.attribute else None,
            exclusive=each.attribute == "name" and each.role in english.get_words("single"),
            salience=0.8 if each.attribute in VITAL_ATTRIBUTES else 0.5,
        )


def _read_statement(said: TurnMessage, statement: Statement, candidates: Sequence[Candidate]) -> Iterator[Candidate]:
    """The claims of a statement: those that rules are sure of, or else what the reader makes of it."""
    reading = statement.reading
    if candidates:
        yield from _word_all(said, candidates, statement)
    if candidates and not _says_more(statement, candidates):
        return
    if reading is not None and reading.keep >= DOUBTFUL:
        yield _build(said, statement, reading)
    elif reading is not None and tells_of_change(said.text):
        yield replace(_build(said, statement, reading), confidence=_TENTATIVE, tentative=True)


def _name_things(candidate: Candidate, before: Sequence[str]) -> Candidate:
    """The claim with the thing it is about, where it says only "it" or "them"."""
    if english.is_quote(candidate.content) or not before:
        return candidate
    return replace(candidate, content=english.name_things(candidate.content, before))


def _get_last(before: Sequence[str]) -> str:
    """The last text before a message. A word or two that ask nothing say nothing about what follows: "Got it."."""
    last = before[-1] if before else ""
    return last if "?" in last or len(last.split()) > _NOD else ""


def _join_fragments(
    text: str, statements: Sequence[Statement], sure: Sequence[list[Candidate]]
) -> list[tuple[Statement, list[Candidate]]]:
    """The statements with what rules found in them. A word or two without a verb goes with the next sentence, or at the
    end with the one before: "Wool. I come up like a tomato"."""
    joined: list[tuple[Statement, list[Candidate]]] = []
    for statement, candidates in zip(statements, sure, strict=True):
        before, found = joined[-1] if joined else (None, [])
        apart = before is None or before.own.sentence == statement.own.sentence
        last = statement is statements[-1] and _is_scrap(statement)
        if before is None or apart or candidates or found or not (last or _is_scrap(before)):
            joined.append((statement, candidates))
        else:
            joined[-1] = (_join(text, before, statement), [])
    return joined


def _is_scrap(statement: Statement) -> bool:
    keep = 0.0 if statement.reading is None else statement.reading.keep
    return len(statement.words.split()) <= SCRAP and keep >= LEAST and statement.text.strip() == statement.words.strip()


def _join(text: str, one: Statement, other: Statement) -> Statement:
    start, end = one.own.start, other.own.end
    read = [each.reading for each in (one, other) if each.reading is not None]
    own = other.own._replace(start=start, text=text[start:end])
    return Statement(own, text[start:end], max(read, key=lambda each: each.keep, default=None))


def _word_all(said: TurnMessage, candidates: Sequence[Candidate], statement: Statement) -> Iterator[Candidate]:
    """The claims that rules take from a statement. Where it says more, the chief one keeps all of its words."""
    chief = max(candidates, key=lambda each: (each.attribute not in _SIDE, each.attribute != "name"))
    spoken = len(candidates) > 1 and chief.attribute != "name" and bool(_find_rest(statement, candidates))
    for candidate in candidates:
        worded = _word(said, candidate, statement, len(candidates))
        if spoken and candidate is chief:
            speaker = said.speaker if english.is_named(said) else None
            content = english.resolve_dates(english.to_third_person(statement.text, speaker), said.created_at)
            worded = worded if english.is_quote(content) else replace(worded, content=content)
        yield worded


def _find_rest(statement: Statement, candidates: Sequence[Candidate]) -> set[str]:
    """The words of a statement that its claims leave out."""
    parts = ((each.value or "", each.subject.replace("/", " "), _get_words(each)) for each in candidates)
    return set(tokenize(statement.text)) - set(tokenize(" ".join(map(" ".join, parts)))) - _NAMING


def _get_words(candidate: Candidate) -> str:
    known = get_attribute(candidate.attribute)
    return f"{known.words} {known.says} {known.denies}"


def _says_more(statement: Statement, candidates: Sequence[Candidate]) -> bool:
    """Whether rules took only names from a statement that says more: "my kid Ash uses ze and zir"."""
    if not all(each.attribute == "name" and each.subject != "user" for each in candidates):
        return False
    return bool(_find_rest(statement, candidates))


def _read_answer(said: TurnMessage, answer: english.Answer) -> Iterator[Candidate]:
    """The claims of an answer, read as the sentence that says it in full; its words are the quote."""
    whole = replace(said, text=answer.text)
    quote = said.text[answer.start : answer.end].strip()
    own = list(english.find_own_statements(answer.text))
    found = [each for candidates in english.extract_statements(whole, own) for each in candidates]
    for candidate in found:
        content = english.resolve_dates(english.word_claim(candidate, answer.text), said.created_at)
        yield replace(candidate, content=content, sentence=quote)
    if not found:
        other = not answer.text.startswith(("I ", "My pronouns", "My name", "My birthday"))
        speaker = said.speaker if english.is_named(said) else None
        yield Candidate(
            type=RecordType.FACT,
            layer=Layer.SEMANTIC,
            content=english.resolve_dates(english.to_third_person(answer.text, speaker), said.created_at),
            sentence=quote,
            sequence=said.sequence,
            subject=english.find_subject(said, answer.text, "", about_other=other),
            said_at=said.created_at,
            speaker=said.speaker,
            attribute=answer.attribute or None,
            value=answer.value,
            salience=0.8 if answer.attribute in VITAL_ATTRIBUTES else 0.5,
            polarity=" not " not in answer.text,
        )


def _word(said: TurnMessage, candidate: Candidate, statement: Statement, beside: int) -> Candidate:
    """A claim that a rule is sure of: quoted as it was said, worded as a sentence about its subject."""
    content = candidate.content
    if beside == 1 and content.strip() == statement.text.strip():
        content = english.word_claim(candidate, statement.text)
    elif content.strip() == statement.own.sentence.text.strip():
        content = english.to_third_person(content, candidate.speaker if english.is_named(said) else None)
    content = english.resolve_dates(content, candidate.said_at)
    until = candidate.until
    reading = statement.reading
    passing = reading is not None and reading.status == "passing" and reading.keep >= SURE
    if passing and not _is_lasting(candidate) and not english.is_dated_event(statement.text):
        until = candidate.said_at + PASSING
    if candidate.attribute not in _UNBOUND:
        until = english.find_bound(statement.text, candidate.said_at) or until
    return replace(candidate, content=content, sentence=statement.words, until=until)


def _is_lasting(candidate: Candidate) -> bool:
    return candidate.attribute is not None and get_attribute(candidate.attribute).lasts == "lasting"


def _build(said: TurnMessage, statement: Statement, reading: Reading) -> Candidate:
    """A claim that only the reader found."""
    ended = reading.status == "ended" and english.has_end_sign(statement.text)
    attribute = reading.attribute if reading.attribute_sure >= 0.5 and reading.attribute != "other" else None
    if ended and get_attribute(attribute).is_single:
        attribute = None  # that a job ended does not say where somebody works
    reading = _settle_kind(said, statement, reading)
    kind = _TYPES[reading.kind]
    text, named = _complete(said, statement, reading)
    subject = english.find_subject(said, text, said.text[: statement.own.clause], about_other=reading.about == "other")
    speaker = said.speaker if english.is_named(said) else None
    content = english.to_third_person(text, speaker, instruction=kind is RecordType.INSTRUCTION)
    content = english.name_subject(content, named)
    return Candidate(
        type=kind,
        layer=Layer.SEMANTIC,
        content=english.resolve_dates(content, said.created_at),
        sentence=statement.words,
        sequence=said.sequence,
        subject=subject,
        said_at=said.created_at,
        speaker=said.speaker,
        attribute=attribute,
        confidence=_rate(said, reading, quoted=_is_fragment(content, reading) or _says_little(statement.text, reading)),
        salience=0.8 if attribute in VITAL_ATTRIBUTES else 0.5,
        references=find_references(statement.words),
        polarity=not ended,
        until=_find_end(statement.text, reading, said.created_at),
    )


def _settle_kind(said: TurnMessage, statement: Statement, reading: Reading) -> Reading:
    """The reading with its kind as the words show it: an order behind "so", or nothing that has to be heeded."""
    standing = english.is_standing_order(statement.words)
    ordered = standing and said.text[: statement.own.start].rstrip().endswith("so")
    if ordered or english.is_chat_rule(statement.text):
        return replace(reading, kind="instruction")
    if reading.kind in _RULES and not _is_order(statement) and english.states_fact(statement.text):
        return replace(reading, kind="fact")
    return reading


def _is_order(statement: Statement) -> bool:
    return english.is_order(statement.words) and not statement.own.listed


def _complete(said: TurnMessage, statement: Statement, reading: Reading) -> tuple[str, str]:
    """A statement with what it leaves out, and whom the words before it named last."""
    text = statement.words if reading.kind == "instruction" and _is_order(statement) else statement.text
    text = english.drop_lead(_quote_again(text, statement.words)) or text
    text = text[:1].upper() + text[1:] if statement.own.sentence.text[:1].isupper() else text
    earlier = said.text[: statement.own.clause]
    named = english.find_subject(said, "", earlier, about_other=True) if earlier.strip() else "somebody"
    if english.lacks_person(text) and named != "somebody":
        text = f"he {text[:1].lower()}{text[1:]}"
    elided = reading.about == "user" and reading.kind != "instruction"
    return english.complete_clause(text, elided=elided, ordered=reading.kind in ORDERS), named


def _quote_again(text: str, words: str) -> str:
    """A statement with the quotation that rules do not see: "stop saying “Great question”"."""
    start = text.find(words[:_SEEN])
    return f"{text[:start]}{words}" if start >= 0 and '"' in words[_SEEN:] else text


def _rate(said: TurnMessage, reading: Reading, *, quoted: bool) -> float:
    """How sure a claim is. What the reader doubts, or what names nobody, is kept below what is ever shown alone."""
    # The orders of people who talk with each other are for each other.
    shown = reading.keep >= SHOWN if english.is_named(said) else reading.shown
    if shown and not quoted:
        return round(min(0.9, reading.keep), 3)
    return round(0.3 + 0.15 * (min(reading.keep, SHOWN) - DOUBTFUL) / (SHOWN - DOUBTFUL), 3)


def _is_fragment(content: str, reading: Reading) -> bool:
    """Whether words that name nobody are too few to be shown. On health, diet or a rule they say enough."""
    vital = reading.attribute in VITAL_ATTRIBUTES and reading.attribute_sure >= 0.5 and reading.keep >= SHOWN
    return english.is_quote(content) and not (vital and len(content.split()) > _SAID_IN_FULL)


def _says_little(text: str, reading: Reading) -> bool:
    """Whether few words name nothing: "I've decided", "we made up"."""
    vague = reading.attribute in _VAGUE or reading.attribute_sure < 0.5 or reading.keep < _CLEAR
    return english.points_away(text) or (vague and english.names_nothing(text))


def _find_end(text: str, reading: Reading, said_at: datetime) -> datetime | None:
    """When it is past: a passing state after a day or so, a dated one after its date, what happened never."""
    if english.is_dated_event(text) or english.tells_of_start(text):
        return None
    if (bound := english.find_bound(text, said_at)) is not None:
        return bound
    told = reading.kind in _STANDING_KINDS
    if reading.status == "passing" or (not told and english.is_passing(text)):
        named = english.find_last_date(text, said_at)
        return max(said_at + PASSING, named) if named and named <= said_at + _SOON else said_at + PASSING
    if reading.status == "planned" or get_attribute(reading.attribute).lasts == "dated":
        return english.find_last_date(text, said_at)
    return None
