"""Facts that rules are sure of: the values of what a person has one of, names, and the orders of a project.

What else a statement says the trained reader finds; rules add what reconciliation needs: subject, attribute and value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache

from limpet.knowledge.attributes import get_attribute
from limpet.knowledge.candidate import Candidate, TurnMessage, find_references
from limpet.knowledge.english import compile_pattern, get_pattern, get_words, load_table
from limpet.knowledge.english.assertions import OwnStatement
from limpet.knowledge.english.change import has_change_sign
from limpet.knowledge.english.clause import (
    Aspect,
    Clause,
    ClauseReader,
    expand_contractions,
    find_role_word,
    is_name,
    normalize_role,
    normalize_subject,
    parse_aspect,
)
from limpet.knowledge.english.statement import format_statement
from limpet.knowledge.similarity import is_same_value
from limpet.model.dataclass import dataclass, replace
from limpet.model.record import Layer, RecordType

_HEDGED = 0.6  # confidence at most
_VITAL = frozenset("name nickname allergy home diet health".split())
_PREFERENCES = frozenset({"likes", "prefers"})


@dataclass(frozen=True, slots=True)
class Fact:
    """What a rule found, before it is linked to its message."""

    subject: str
    attribute: str | None = None
    value: str | None = None
    type: RecordType = RecordType.FACT
    polarity: bool = True
    confidence: float = 0.8
    exclusive: bool | None = None  # None: as its attribute is

    def is_same(self, other: Fact) -> bool:
        mine, theirs = ((each.subject, each.attribute, each.polarity) for each in (self, other))
        return mine == theirs and is_same_value(self.value, other.value)

    @property
    def is_exclusive(self) -> bool:
        """One value at a time, of a person that the words name exactly: "my mother", not "my friend"."""
        attribute = self.attribute or ""
        single = get_attribute(attribute).is_single or attribute.startswith("favourite:")
        return (single if self.exclusive is None else self.exclusive) and _is_single(self.subject)


def _is_single(subject: str) -> bool:
    """Return whether the words can mean one person only."""
    return all(step in get_words("single") for step in subject.split("/")[1:])


# Values: a contiguous span of what was said


def _cut(text: str, stop: str) -> str:
    match = get_pattern(stop).search(text)
    text = (text[: match.start()] if match else text).strip().strip("\"“”'*_")
    return re.sub(r"[\s,.;:!?*_\"”)]+$", "", text).strip()


def _drop_article(text: str) -> str:
    return get_pattern("article").sub("", text, count=1) if get_pattern("article").match(text) else text


def parse_place(text: str) -> str | None:
    """Parse a place, which has a name; the last of several stops. In text without capitals it is lowercase."""
    last = re.split(r"(?:,| and| then)(?: then| later| finally| now)? to (?=[A-Z])", text)[-1]
    dwelling = get_pattern("dwelling").match(last)
    value = _cut(last[dwelling.end() :] if dwelling else last, "place_stop")
    if not value or len(value.split()) > 7 or is_product(value) or re.match(r"an? ", value):
        return None
    capital = any(word[0].isupper() for word in re.findall(r"[^\W\d_]+", value))
    plain = text == text.lower() and len(value.split()) <= 2
    return value if capital or plain else None


def parse_named_place(text: str) -> str | None:
    value = parse_place(text)
    if value and value.split(maxsplit=1)[0].casefold() in get_words("days"):
        return None  # "I'm on days from Monday"
    return value if value and (re.match(r"(?:the )?[A-ZÀ-Þ]", value) or value in get_words("places")) else None


def is_product(name: str) -> bool:
    """Teams move to Kubernetes, and data lives in S3."""
    first = name.split(maxsplit=1)[0].strip(".,!'’")
    plain = re.sub(r"\bMa?c(?=[A-Z])", "", first)
    if first.casefold() in get_words("products") or re.search(r"[a-z]{2}[A-Z]|\d|\.\w|[+#_/]", plain):
        return True
    short = first.isupper() and 1 < len(first) <= 3 and first.isascii()
    return short and first.casefold() not in get_words("short_places")


def parse_employer(text: str) -> str | None:
    if called := get_pattern("called").match(text):
        return called[1]
    value = _cut(text, "employer_stop")
    if not value or len(value.split()) > 7 or get_pattern("no_employer").match(value):
        return None
    bare = _drop_article(value)
    return bare if value[0].isupper() or bare != value or " " not in value else None


def parse_organisation(text: str) -> str | None:
    """Parse a named employer, after words that others may follow: "joined", "left", "a nurse for"."""
    if called := get_pattern("called").match(text):
        return called[1]
    value = _cut(_drop_article(text), "employer_stop")
    if not get_pattern("organisation").fullmatch(value) or value.endswith(("'s", "’s")):
        return None  # "left Google Docs open" is not an employer
    first = value.split()[0].casefold()
    people = first in get_words("given_names") and first not in get_words("company_names")
    return None if people or first in get_words("no_companies") or value.casefold() in get_words("places") else value


def parse_role(text: str) -> str | None:
    value = _cut(text, "role_stop")
    words = value.lower().replace(" of ", " ").split()
    if not words or words[0] in get_words("praise") or words[-2:] == ["role", "model"] or len(words) > 6:
        return None
    known = words[-1] in get_words("occupations") or words[0] in {"head", "director", "vp", "lead", "chief"}
    return value if known or (len(words) > 1 and words[-1] in {"worker", "servant", "owner", "assistant"}) else None


def parse_any_role(text: str) -> str | None:
    """Parse what follows "work as" or "promoted to": always a role."""
    value = _cut(text, "role_stop")
    vague = get_pattern("vague").match(value) or re.search(r"\d", value) or len(value.split()) > 6
    return None if vague else value or None


def parse_thing(text: str) -> str | None:
    """Parse what is liked or counted: not a pronoun, not half a sentence."""
    value = _cut(text, "thing_stop")
    if len(value.split()) > 9 or get_pattern("vague").match(value):
        return None
    return value if any(map(str.isalpha, value)) else None


def parse_bare_thing(text: str) -> str | None:
    value = parse_thing(text)
    return _drop_article(value) if value else None


def parse_allergen(text: str) -> str | None:
    """Reject jokes: "allergic to Mondays"."""
    value = parse_thing(re.sub(r" (?:in|since) (?:[A-Z][a-z]+|\d{4})\b.*", "", text))
    return None if value is None or get_pattern("jest").match(value) else value


def parse_choice(text: str) -> str | None:
    """Parse what is preferred, without the alternative."""
    return parse_thing(re.split(r" (?:over|rather than|instead of|to|than) ", text, maxsplit=1)[0])


_PARSERS: dict[str, Callable[[str], str | None]] = {
    "place": parse_place,
    "named_place": parse_named_place,
    "employer": parse_employer,
    "organisation": parse_organisation,
    "role": parse_role,
    "any_role": parse_any_role,
    "thing": parse_thing,
    "bare_thing": parse_bare_thing,
    "allergen": parse_allergen,
    "choice": parse_choice,
}


# Rules about a person


@dataclass(frozen=True, slots=True)
class Rule:
    attribute: str
    pattern: re.Pattern[str]
    value: str = ""
    over: bool = False
    denies: bool = False
    denied: bool = False
    others: bool = False
    fixed: str = ""

    def read_value(self, match: re.Match[str] | None) -> str | None:
        if match is None or self.fixed:
            return self.fixed or None
        text = next((each for each in match.groupdict().values() if each), None)
        if text is None or not self.value:
            return text
        return _PARSERS[self.value](text)


@cache
def _load_rules(kind: str) -> tuple[Rule, ...]:
    table = load_table("patterns.toml")[kind]
    return tuple(Rule(**(fields | {"pattern": compile_pattern(fields["pattern"])})) for fields in table)


def _agrees(seen: Aspect, *, mine: bool) -> bool:
    """I like, she likes."""
    verb = seen.core.split(" ", 1)[0].lower()
    if mine:
        return verb not in get_words("third_person")
    return verb not in get_words("first_person") or seen.negated or seen.ended


def _match_clause(clause: Clause, *, mine: bool) -> Iterator[Fact]:
    """What the rules find in a clause about a person, who may be the speaker."""
    if clause.owned:
        yield from _match_owned(clause)
        return
    seen = parse_aspect(clause.predicate)
    if not (seen.is_real or seen.core.startswith("can not")) or not _agrees(seen, mine=mine):
        return
    found: set[str] = set()
    for rule in _load_rules("rule"):
        if rule.attribute not in found and (fact := _apply_rule(rule, clause, seen)):
            found.add(rule.attribute)
            yield fact


def _apply_rule(rule: Rule, clause: Clause, seen: Aspect) -> Fact | None:
    match = rule.pattern.match(seen.core)
    value = rule.read_value(match)
    forbidden = seen.negated or seen.ended or seen.core.startswith("can not")
    if match is None or not value or (rule.others and "/" not in clause.subject) or (rule.denied and not forbidden):
        return None
    if rule.attribute == "home" and value.islower() and not clause.whole.islower():
        return None  # a place has a name; it is lowercase only if all the text is
    verb, text = match.group().split()[0].lower(), clause.predicate
    if (seen.negated or seen.ended) and (rule.attribute == "age" or verb in {"moved", "relocated", "emigrated"}):
        return None  # "not thirty" or "not moved" is not a state
    if (
        rule.attribute in {"home", "employer"}
        and not (seen.perfect or seen.ended)
        and get_pattern("brief").search(text)
    ):
        return None
    ongoing = seen.perfect and re.search(r"\b(?:for|since|all my life|always)\b", text)
    past = verb in {"lived", "worked"} and not ongoing
    ended = (seen.ended or rule.over or past) and rule.attribute != "origin"  # a past origin still holds
    confidence = 0.85 - (0.05 if "/" in clause.subject else 0.0)
    if past and not seen.ended and not re.search(r"\b(?:until|till|before|back then)\b", text):
        confidence = _HEDGED  # a former employee may work there again
    kind = RecordType.PREFERENCE if rule.attribute in _PREFERENCES else RecordType.FACT
    polarity = seen.negated if rule.denies else not (seen.negated or ended or rule.denied)
    return Fact(clause.subject, rule.attribute, value, kind, polarity, confidence)


def _match_owned(clause: Clause) -> Iterator[Fact]:
    """An attribute and its value: "my birthday is …"."""
    yield from _build_favourite(clause.subject, get_pattern("favourite").match(clause.predicate))
    predicate = re.sub(r"^(?:new|current) ", "", clause.predicate)
    for rule in _load_rules("owned"):
        value = rule.read_value(rule.pattern.match(predicate))
        if value and value.casefold() != clause.subject and (rule.attribute != "name" or is_name(value)):
            value = value.title() if rule.attribute == "name" and value.islower() else value
            yield Fact(clause.subject, rule.attribute, value, confidence=0.9)
            return


def _build_favourite(subject: str, match: re.Match[str] | None) -> Iterator[Fact]:
    what = match["what"].casefold().strip() if match else ""
    what = {"color": "colour", "flavor": "flavour", "movie": "film"}.get(what, re.sub(r"(?<!s)s$", "", what))
    value = parse_thing(match["v"]) if match else None
    if value and not get_words("parts").intersection(what.split()):
        yield Fact(subject, f"favourite:{what}", value, RecordType.PREFERENCE, confidence=0.9)


# Orders, limits and decisions


def _find_orders(sentence: str, me: str) -> Iterator[Fact]:
    """Find standing orders, limits and decisions, about a project unless the words say otherwise."""
    for name, attribute in (("budget", "budget"), ("deadline", "deadline"), ("release", "deadline")):
        if match := get_pattern(name).search(sentence):
            named = match.groupdict()
            what = named.get("for") or named.get("of")
            subject = me if named.get("whose") or (name == "budget" and match.start() == 0) else "project"
            label = f"{attribute}:{what.lower().strip()}" if what else attribute
            exclusive = what is not None or has_change_sign(sentence)
            value = match["v"].strip(" .,") if name == "budget" else _cut(match["v"], "thing_stop")
            yield Fact(subject, label, value, RecordType.CONSTRAINT, confidence=0.85, exclusive=exclusive)
            return
    if get_pattern("chat_order").match(sentence):
        yield Fact(me, "assistant_rule", None, RecordType.INSTRUCTION, confidence=0.8)
        return
    if lifted := get_pattern("lifted").search(sentence):
        yield Fact("project", None, lifted["v"].strip(" .!"), RecordType.CONSTRAINT, polarity=False, confidence=0.75)
    elif get_pattern("order").search(sentence):
        yield Fact(me if sentence.startswith("I ") else "project", None, None, RecordType.CONSTRAINT, confidence=0.75)
    yield from _find_decisions(sentence, me)


def _find_decisions(sentence: str, me: str | None) -> Iterator[Fact]:
    """``me`` is None for an assistant: its proposal is not a decision; what it reports as settled is."""
    match = get_pattern("decision").search(sentence)
    if match is None and me:
        match = get_pattern("proposal").search(sentence)
    if match is None and (switched := get_pattern("switch").search(sentence)) and is_product(switched["v"]):
        match = switched
    if match is None or get_pattern("idle").match(match["v"]):
        return
    named = match.groupdict()
    subject = me if me and (named.get("who") or "").lower() == "i" else "project"
    refused = named.get("not") is not None or named.get("against") is not None
    value = match["v"].strip(" .!")[:200]
    yield Fact(subject, None, value, RecordType.DECISION, polarity=not refused, confidence=0.85)


def extract_decisions(said: TurnMessage, sentence: str) -> Iterator[Candidate]:
    """Find what an assistant says it has settled."""
    for fact in _find_decisions(expand_contractions(sentence), None):
        yield _build_candidate(said, sentence, replace(fact, confidence=0.7), sentence)


# Names of the speaker and of their people


def _find_own_names(sentence: str, me: str, *, opening: bool, whole: str) -> Iterator[Fact]:
    """Find the speaker's name outside clauses: greetings, "call me"; and "as a vegan". ``whole``: with what follows."""
    greeted = get_pattern("i_am").search(sentence) if opening and get_pattern("greeting").match(sentence) else None
    if (match := greeted or get_pattern("i_am_first").match(whole)) and _is_person(match["v"]):
        yield Fact(me, "name", match["v"])
    elif opening and (match := get_pattern("i_am_small").match(sentence)) and match["v"] in get_words("given_names"):
        yield Fact(me, "name", match["v"].title())
    elif opening and (match := get_pattern("here").match(sentence)) and _is_person(match["v"]):
        yield Fact(me, "name", match["v"])
    if opening and (match := get_pattern("name_and_age").match(sentence)):
        yield Fact(me, "age", match["v"])
    if (match := get_pattern("call_me").search(sentence)) and _is_nickname(match["v"]):
        yield Fact(me, "nickname", match["v"].title() if match["v"].islower() else match["v"])
    if match := get_pattern("as_a").match(sentence):
        word = match["v"].rsplit(maxsplit=1)[-1].casefold()
        if word in get_words("diets"):
            yield Fact(me, "diet", word)
        elif word not in get_words("played_roles") and (role := parse_role(match["v"])):
            yield Fact(me, "role", role)


def _is_person(name: str) -> bool:
    first = name.split(maxsplit=1)[0].casefold()
    return is_name(name) and not any(
        first in get_words(kind) for kind in ("no_first_names", "demonyms", "places", "products")
    )


def _is_nickname(word: str) -> bool:
    """Return whether it is a name or the start of one: "jo", not "call me crazy"."""
    return word[0].isupper() or any(name.startswith(word) for name in get_words("given_names"))


def _match_profile_line(line: str, me: str) -> Iterator[Fact]:
    """Parse a list line about the speaker: "product designer at Monzo"."""
    match = get_pattern("profile_role").match(line)
    if match and (role := parse_role(match["v"])):
        yield Fact(me, "role", role, confidence=0.75)
        if match["at"] and (where := parse_employer(match["at"])):
            yield Fact(me, "employer", where, confidence=0.75)


def _find_relatives(sentence: str, me: str) -> Iterator[Fact]:
    """Find people with their names anywhere: "he scares my daughter Lily", "our two kids, Mia and Leo"."""
    for found in get_pattern("mentioned").finditer(sentence):
        yield from _build_name(f"{me}/{normalize_role(found['role'])}", found["v"])
    if match := get_pattern("children").search(sentence):
        yield Fact(me, "family", match["v"])


def _find_relations(clause: Clause, narrator: ClauseReader) -> Iterator[Fact]:
    """Find the people of a person: mentioned in passing, introduced, or stated."""
    text = clause.predicate
    if clause.name:
        yield Fact(clause.subject, "name", clause.name)
    if match := get_pattern("introduced").search(text):
        narrator.introduce(subject := f"{clause.subject}/{normalize_role(match['role'])}")
        yield from _build_name(subject, match["v"] or match["w"])
    if clause.owned:
        return
    if "/" in clause.subject:
        called = get_pattern("is_called").match(text) or (None if clause.name else get_pattern("is_named").match(text))
        yield from _build_name(clause.subject, called["v"] if called else None)


def _build_name(subject: str, name: str | None) -> Iterator[Fact]:
    if name and _is_person(name):
        yield Fact(subject, "name", name.title() if name.islower() else name)


# Statements of a message


def is_named(said: TurnMessage) -> bool:
    return bool(said.speaker) and (said.speaker or "").casefold() not in get_words("machines")


def extract_statements(said: TurnMessage, statements: Sequence[OwnStatement]) -> list[list[Candidate]]:
    """For each statement of a message, in order, what the rules are sure of."""
    me = (normalize_subject(said.speaker or "") if is_named(said) else "") or "user"
    narrator = ClauseReader(me)
    about_me = bool(re.search(r"\b(?:I|my|me|I'm)\b", said.text))
    profile = about_me and get_pattern("profile").search(said.text) is not None
    found: list[list[Candidate]] = []
    heard = 0
    for statement in statements:
        narrator.hear(said.text[heard : statement.sentence.start])
        heard = max(heard, statement.sentence.start + len(statement.sentence.text))
        facts = _match(statement, narrator, bullet=statement.sentence.bullet and about_me)
        if profile and statement.sentence.bullet and not facts:
            facts = list(_match_profile_line(statement.text, me))
        words = said.text[statement.start : statement.end]
        found.append([_build_candidate(said, words, fact, _word(fact, facts, statement, said, me)) for fact in facts])
    return found


def _match(statement: OwnStatement, narrator: ClauseReader, *, bullet: bool) -> list[Fact]:
    text, me = statement.text, narrator.me
    whole = statement.sentence.text if statement.start == statement.sentence.start else text
    found = list(_find_orders(expand_contractions(text), me))
    found += _find_own_names(text, me, opening=statement.opening, whole=whole)
    if statement.start == 0 and get_pattern("state_alone").match(text):
        text = f"I am {text[:1].lower()}{text[1:]}"
    for clause in narrator.read_clauses(text, statement.sentence.text, bullet=bullet):
        for fact in (*_find_relations(clause, narrator), *_match_clause(clause, mine=clause.subject == me)):
            if not any(fact.is_same(other) for other in found):
                found.append(replace(fact, confidence=min(fact.confidence, _HEDGED)) if clause.hedged else fact)
    return found + [fact for fact in _find_relatives(text, me) if not any(fact.is_same(other) for other in found)]


def _build_candidate(said: TurnMessage, sentence: str, fact: Fact, content: str) -> Candidate:
    return Candidate(
        type=fact.type,
        layer=Layer.SEMANTIC,
        content=content,
        sentence=sentence,
        sequence=said.sequence,
        subject=fact.subject,
        said_at=said.created_at,
        speaker=said.speaker,
        attribute=fact.attribute,
        value=fact.value,
        exclusive=fact.is_exclusive,
        polarity=fact.polarity,
        confidence=round(fact.confidence, 3),
        salience=0.9 if fact.attribute in _VITAL else 0.7,
        references=find_references(sentence),
    )


def _word(fact: Fact, beside: Sequence[Fact], statement: OwnStatement, said: TurnMessage, me: str) -> str:
    """Return the statement itself, unless it states several things, says "she" or names the speaker."""
    role = fact.subject.rpartition("/")[2]
    named = any(role in {word, find_role_word(word)} for word in re.findall(r"[\w-]+", statement.text.casefold()))
    alone = len(beside) == 1 and (fact.subject in {me, "project"} or (named and fact.attribute != "name"))
    if alone or fact.attribute is None or fact.value is None:
        return f"{said.speaker}: {statement.text}" if me != "user" and fact.subject != "project" else statement.text
    names = {each.value for each in beside if (each.subject, each.attribute) == (fact.subject, "name")}
    name = names.pop() if len(names) == 1 and not _is_single(fact.subject) else None
    return format_statement(fact.subject, fact.attribute, fact.value, polarity=fact.polarity, name=name)
