"""Who people are to each other, and what is theirs: names, birthdays, addresses."""

from __future__ import annotations

import re
from collections.abc import Iterator

from holdfast.domain.record import RecordType
from holdfast.learn.rules import people, values
from holdfast.learn.rules.clause import NAME, Clause, Narrator
from holdfast.learn.rules.lexicon import COUNTS, DEMONYMS, PETS, RELATIONS, any_of
from holdfast.learn.rules.table import Finding

_AIM = "(?:goal|dream|ambition|resolution)"
_NEW = "(?i:(?:new |current )?)"  # a change is often told so
# What somebody has, and what it is: "my birthday is …".
_OWNED: tuple[tuple[re.Pattern[str], str, bool], ...] = tuple(
    (re.compile(_NEW + text), attribute, exclusive)
    for text, attribute, exclusive in (
        (
            rf"(?i:(?:full |first |real |last )?name is (?:(?:actually )?spelled |(?:Mr|Mrs|Ms|Dr)\.? )?)(?P<v>{NAME})",
            "name",
            True,
        ),
        (rf"(?i:nickname is )(?P<v>{NAME})", "nickname", True),
        (r"(?i:birthday is )(?P<v>.+)", "birthday", True),
        (r"(?i:(?:e-?mail|mail)(?: address)? is )(?P<v>[\w.+-]+@[\w-]+(?:\.[\w-]+)+)", "email", True),
        (r"(?i:(?:(?:phone|mobile|cell|telephone)(?: number)?|number) is )(?P<v>\+?[\d ()./-]{6,20}\d)", "phone", True),
        (r"(?i:time ?zone is )(?P<v>[\w/+-]+(?: time)?)", "timezone", True),
        (r"(?i:(?:home ?town) is )(?P<v>[A-Z].+)", "origin", True),
        (r"(?i:(?:native language|mother tongue|first language) is )(?P<v>\w+)", "language", False),
        (r"(?i:(?:address) is )(?P<v>.*\d.*)", "address", True),
        (r"(?i:(?:job title|title|occupation|profession) is )(?P<v>.+)", "role", True),
        (r"(?i:(?:employer|company) is )(?P<v>[A-Z].+)", "employer", True),
        (rf"(?i:(?:\w+ )?{_AIM}(?: for \w+(?: \w+)?)? is to )(?P<v>.+)", "goal", False),
        (r"(?i:(?:blood type) is )(?P<v>\S+)", "blood type", True),
        (r"(?i:pronouns are )(?P<v>[\w/]+)", "pronouns", True),
    )
)
_OWNED_VALUES = {
    "birthday": values.span,
    "goal": values.deed,
    "role": values.any_role,
    "employer": values.organisation,
    "origin": values.named_place,
}

_DAY = re.compile(people.DAY)
_INTRODUCED = re.compile(
    rf"(?i:(?:have|has|got|adopted|own|bought|met) (?:{COUNTS}|my) (?:[\w-]+ "
    rf"){{0,3}}?)(?P<who>(?i:{any_of(PETS | frozenset(RELATIONS))}))(?i:,? (?:named|called|whose name "
    rf"is)) (?P<v>{NAME})"
)
_AND_ANOTHER = re.compile(
    rf"(?i:(?:and|,) (?:{COUNTS}|my) (?:[\w-]+ ){{0,2}}?)(?P<who>(?i:{any_of(PETS | frozenset(RELATIONS))}))"
    rf"(?i:,? (?:named|called|whose name is)) (?P<v>{NAME})"
)
_KITTEN = re.compile(
    rf"(?i:(?:have|has|got|adopted|bought) {COUNTS} (?:[\w-]+ "
    rf"){{0,3}}?)(?P<who>(?i:{any_of(PETS | frozenset(RELATIONS))}))\b"
)
_CALLED = re.compile(rf"(?i:(?:is|are) (?:called|named) )(?P<v>{NAME})")
_IS_NAMED = re.compile(rf"(?i:is )(?P<v>{NAME})(?=$|[,.!;]| and\b)")
_IS_MY = re.compile(
    rf"(?i:is my (?:\w+ ){{0,2}}?)(?P<who>(?i:{any_of(frozenset(RELATIONS) | PETS)}))(?=$|[,.!;]| and\b| but\b)"
)
_I_AM = re.compile(
    rf"(?:^|(?<=[,.!] )|(?<=hi )|(?<=hey )|(?<=hello ))(?:I am|I'm|[Tt]his is|[Ii]'m) "
    rf"(?P<v>{NAME})(?=$|[,.!]| and\b| from\b| here\b)"
)
_I_AM_FIRST = re.compile(rf"^(?:I am) (?P<v>{NAME}), (?:an? |\d|and |from |the )")
_GREETING = re.compile(r"^\W*(?:hi|hello|hey|good (?:morning|evening|afternoon)|greetings)\b", re.IGNORECASE)
_CALL_ME = re.compile(
    rf"(?i:(?:^|please |just |can |you can |and )call me (?:(?:mr|mrs|ms|dr|prof)\. )?)"
    rf"(?P<v>{NAME})(?=$|[,.!;]| (?:please|instead|everyone|from)\b)"
)
# "He is Catholic" and "he is Puerto Rican" name nobody.
_NO_FIRST_NAMES = DEMONYMS | frozenset(
    """puerto costa south north east west african asian latino latina hispanic european jewish muslim catholic christian
    protestant orthodox buddhist hindu sikh mormon black white native irish god mr mrs ms dr""".split()
)
_CALLS_ME = re.compile(
    rf"(?i:\b(?:everyone|everybody|people|friends|they all|my friends) calls? me )(?P<v>{NAME})(?=$|[,.!;])"
)
_NOW_IN = re.compile(rf"(?i:\b(?:used to live|lived) in\b.*\bI am in )(?P<v>{NAME})(?i: now\b| these days\b)")
_HOME_IS = re.compile(r"\bhome is (?P<v>[A-Z]\w+)(?: now| these days|$|[,.!])")


def names(sentence: str, me: str, *, opening: bool) -> Iterator[Finding]:
    """What somebody is called, where no clause says it: greetings, "call me", "home is"."""
    greeted = _I_AM.search(sentence) if opening and _GREETING.match(sentence) else None
    if found := greeted or _I_AM_FIRST.match(sentence):
        first = found["v"].split()[0].casefold()
        if first not in DEMONYMS and first not in {
            "sorry",
            "glad",
            "happy",
            "new",
            "so",
            "very",
            "just",
            "not",
            "good",
        }:
            yield Finding(RecordType.FACT, me, "name", found["v"], exclusive=True, confidence=0.8, salience=0.9)
    if found := _CALL_ME.search(sentence):
        yield Finding(RecordType.FACT, me, "nickname", found["v"], exclusive=True, confidence=0.85, salience=0.9)
    if found := _CALLS_ME.search(sentence):
        yield Finding(RecordType.FACT, me, "nickname", found["v"], exclusive=True, confidence=0.8, salience=0.8)
    if found := _NOW_IN.search(sentence):
        yield Finding(RecordType.FACT, me, "home", found["v"], exclusive=True, confidence=0.8, salience=0.8)
    if found := _HOME_IS.search(sentence):
        yield Finding(RecordType.FACT, me, "home", found["v"], exclusive=True, confidence=0.75, salience=0.8)


def owned(clause: Clause) -> Iterator[Finding]:
    for looked_for, attribute, exclusive in _OWNED:
        if found := looked_for.match(clause.predicate):
            value = _OWNED_VALUES.get(attribute, values.given)(found["v"])
            if attribute == "birthday" and (day := _DAY.search(found["v"])):
                value = day.group().removeprefix("the ")
            if attribute == "name" and value and value.casefold() == clause.subject:
                continue
            if attribute == "birthday" and value and not re.search(r"\d|\b[A-Z][a-z]{2,8}\b", value):
                continue
            if value:
                yield Finding(
                    RecordType.FACT,
                    clause.subject,
                    attribute,
                    value.removeprefix("on "),
                    exclusive=exclusive,
                    confidence=0.9,
                    salience=0.8,
                )
            return


def relations(clause: Clause, narrator: Narrator) -> Iterator[Finding]:
    """Who somebody's people are: told in passing, introduced, or said outright."""

    def named(subject: str, name: str) -> Finding:
        return Finding(
            RecordType.FACT, subject, "name", name, exclusive=True, confidence=0.85, salience=0.75, tags=("people",)
        )

    if clause.name:
        yield named(clause.subject, clause.name)
    if found := _INTRODUCED.search(clause.predicate):
        who = found["who"].lower()
        subject = f"{clause.subject}/{RELATIONS.get(who, who)}"
        narrator.meet(subject)
        yield named(subject, found["v"])
        for other in _AND_ANOTHER.finditer(clause.predicate, found.end()):
            who = other["who"].lower()
            yield named(f"{clause.subject}/{RELATIONS.get(who, who)}", other["v"])
    elif found := _KITTEN.search(clause.predicate):
        who = found["who"].lower()
        narrator.meet(f"{clause.subject}/{RELATIONS.get(who, who)}")
    if clause.owned:
        return
    if "/" in clause.subject:
        called = _CALLED.match(clause.predicate) or (None if clause.name else _IS_NAMED.match(clause.predicate))
        if called and called["v"].split()[0].casefold() not in _NO_FIRST_NAMES:
            yield named(clause.subject, called["v"])
    elif not clause.elided and clause.subject != narrator.me and (found := _IS_MY.match(clause.predicate)):
        who = found["who"].lower()
        yield named(f"{narrator.me}/{RELATIONS.get(who, who)}", clause.subject.title())
