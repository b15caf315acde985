"""Relations between people, and their attributes: names, birthdays, addresses."""

from __future__ import annotations

import re
from collections.abc import Iterator

from limpet.knowledge.english import people, values
from limpet.knowledge.english.clause import NAME, Clause, ClauseReader, is_name, normalize_relation
from limpet.knowledge.english.lexicon import (
    COUNTS,
    DEMONYMS,
    DIETS,
    GIVEN_NAMES,
    NO_NAMES,
    PETS,
    PLACES,
    PRODUCTS,
    RELATIONS,
    any_of,
)
from limpet.knowledge.english.values import RuleMatch
from limpet.model.record import RecordType

_DWELLING = "(?:flat|apartment|house|place|home|room)"
_AIM = "(?:goal|dream|ambition|resolution)"
_NEW = "(?i:(?:new |current )?)"  # a change is often stated this way
# An attribute and its value: "my birthday is …".
_OWNED: tuple[tuple[re.Pattern[str], str, bool], ...] = tuple(
    (re.compile(_NEW + text), attribute, exclusive)
    for text, attribute, exclusive in (
        (
            rf"(?i:(?:full |first |real |last )?name is (?:(?:actually )?spelled |(?:Mr|Mrs|Ms|Dr)\.? )?)(?P<v>{NAME})",
            "name",
            True,
        ),
        (rf"(?i:nickname is )(?P<v>{NAME})", "nickname", True),
        (rf"(?i:{_DWELLING} is (?:located )?(?:in|near [\w ]+? in) )(?P<v>[A-Z].+)", "home", True),
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
    "birthday": values.parse_span,
    "goal": values.parse_deed,
    "role": values.parse_any_role,
    "employer": values.parse_organisation,
    "origin": values.parse_named_place,
    "home": values.parse_named_place,
}

_DAY = re.compile(people.DAY)
_INTRODUCED = re.compile(
    rf"(?i:(?:have|has|got|adopted|own|bought|met) (?:{COUNTS}|my) (?:(?!(?:her|his|their|with|for|from|"
    rf"of)\b)[\w-]+ ){{0,3}}?)"
    rf"(?P<who>(?i:{any_of(PETS | frozenset(RELATIONS))}))"
    rf"(?:(?i:,? (?:named|called|whose name is)) |, (?={NAME}(?:$|[,.!]| (?:who|and)\b)))(?P<v>{NAME})"
)
_AND_ANOTHER = re.compile(
    rf"(?i:(?:and|,) (?:{COUNTS}|my) (?:[\w-]+ ){{0,2}}?)(?P<who>(?i:{any_of(PETS | frozenset(RELATIONS))}))"
    rf"(?i:,? (?:named|called|whose name is)) (?P<v>{NAME})"
)
_KITTEN = re.compile(
    rf"(?i:(?:have|has|got|adopted|bought) {COUNTS} (?:[\w-]+ "
    rf"){{0,3}}?)(?P<who>(?i:{any_of(PETS | frozenset(RELATIONS))}))\b"
)
# Former, temporary or played roles.
_PASSING = frozenset("student host guide guard model lead head writer judge author user".split())
_MENTIONED = re.compile(
    rf"(?i:\b(?:my|our) (?:(?:older|younger|little|big|eldest|oldest|youngest|best|close|dear|baby|new) )?)"
    rf"(?P<who>(?i:(?:ex[ -])?{any_of(PETS | frozenset(RELATIONS))}))(?P<apart>,)? (?P<v>{NAME})"
    r"(?(apart)(?=$|[,.!;]| (?:who|and)\b)|(?=$|[,.!;]| [a-z]))"
)
_OWN = re.compile(r"\b(?:[Mm]y|[Oo]ur|MY) ")  # fast check
_CALLED = re.compile(rf"(?i:(?:is|are) (?:called|named) )(?P<v>{NAME})")
_IS_NAMED = re.compile(rf"(?i:is )(?P<v>{NAME})(?=$|[,.!;]| and\b)")
_IS_MY = re.compile(
    rf"(?i:is (?:my|our) (?:\w+ ){{0,2}}?)(?P<who>(?i:{any_of(frozenset(RELATIONS) | PETS)}))(?=$|[,.!;]| and\b|"
    rf" but\b)"
)
_I_AM = re.compile(
    rf"(?:^|(?<=[,.!] )|(?<=hi )|(?<=hey )|(?<=hello ))(?:I am|I'm|[Tt]his is|[Ii]'m) "
    rf"(?P<v>{NAME})(?=$|[,.!]| and\b| from\b| here\b)"
)
_I_AM_FIRST = re.compile(rf"^(?:I am) (?P<v>{NAME}), (?:an? |\d|and |from |the )")
# In text without capitals only known names count.
_I_AM_SMALL = re.compile(
    r"^(?:(?:hi|hey|hello|yo|heya|hiya|good (?:morning|evening|afternoon)|so|there|all|everyone)[,!. ]+){0,3}"
    r"(?:I am|my name is|this is) (?P<v>[a-z]{3,15})(?=$|[,.!]| (?:and|from|here|I am)\b)"
)
_MY_NAME_SMALL = re.compile(r"\b[Mm]y name is (?P<v>[a-z]{2,15})(?=$|[,.!]| (?:and|from|I am)\b)")
_NO_SMALL_NAMES = frozenset("not the what so in on too very hard long mud irrelevant unimportant secret wrong".split())
_NAME_AND_AGE = re.compile(
    rf"^(?:\w+[,! ]+){{0,3}}?(?:I am|[Mm]y name is|[Tt]his is) (?:{NAME}|[a-z]{{3,15}}), (?P<v>\d\d)(?=,|$|[.!]|"
    rf" and\b)"
)
_AS_A = re.compile(
    r"^\W*(?:as|being) an? (?P<v>[\w' -]{3,40}?)(?:$|(?=,? (?:I|my|we)\b)|(?= (?:who|with|in|at|for|living|"
    r"from)\b.{2,40}, (?:I|my|we)\b))"
    r"(?!.*\b(?:you|your|I want|I would|I can|I should|I was|I had|I used|I did|I loved|I went)\b)",
    re.IGNORECASE,
)
_PROFILE_ROLE = re.compile(r"^(?P<v>[A-Za-z][\w /-]{2,40}?)(?: (?:at|for) (?P<at>(?-i:[A-Z]).+))?$")
_HERE = re.compile(rf"^(?i:(?:hi|hey|hello|yo|good (?:morning|evening))[,!. ]+)?(?P<v>{NAME}) here(?=$|[,.!])")
_GREETING = re.compile(r"^\W*(?:hi|hello|hey|good (?:morning|evening|afternoon)|greetings)\b", re.IGNORECASE)
_CALL_ME = re.compile(
    rf"(?i:(?:^|please |just |can |you can |and )call me (?:(?:mr|mrs|ms|dr|prof)\. )?)"
    rf"(?P<v>{NAME})(?=$|[,.!;]| (?:please|instead|everyone|from)\b)"
)
_CALL_ME_SMALL = re.compile(
    r"(?:^|please |pls |just |can |btw |but |and )call me (?P<v>[a-z]{2,10})(?=$|[,.!;]| (?:please|pls|instead|"
    r"everyone)\b)(?!, but\b)"
)
_SMALL_END = r"(?P<v>[a-z]{2,15})(?=$|[,.!;]| (?:and|but|who|btw)\b)"
_NAME_IS_SMALL = re.compile(r"name is " + _SMALL_END)
_CALLED_SMALL = re.compile(r"(?:is|are) (?:called|named) " + _SMALL_END)
_INTRODUCED_SMALL = re.compile(
    rf"(?:have|has|got|adopted|own|bought|met) (?:{COUNTS}|my) (?:(?!(?:her|his|their|with|for|from|"
    rf"of)\b)[\w-]+ ){{0,3}}?"
    rf"(?P<who>{any_of(PETS | frozenset(RELATIONS))}),? (?:named|called|whose name is) {_SMALL_END}"
)
# "He is Catholic" and "he is Puerto Rican" are not names.
_NO_FIRST_NAMES = DEMONYMS | frozenset(
    """puerto costa south north east west african asian latino latina hispanic european jewish muslim catholic christian
    protestant orthodox buddhist hindu sikh mormon black white native irish god mr mrs ms dr""".split()
)
_CALLS_ME = re.compile(
    rf"(?i:\b(?:everyone|everybody|people|friends|they all|my friends) calls? me )(?P<v>{NAME})(?=$|[,.!;]| (?:so|"
    rf"and|but|because)\b)"
)
_NOW_IN = re.compile(rf"(?i:\b(?:used to live|lived) in\b.*\bI am in )(?P<v>{NAME})(?i: now\b| these days\b)")
_HOME_IS = re.compile(r"\bhome is (?P<v>[A-Z]\w+)(?: now| these days|$|[,.!])")

_LOVED = "(?:wife|husband|hubby|partner|spouse|boyfriend|girlfriend|bf|gf|fianc[eé]e?)"
_LATELY = "(?:have |just |recently |finally |sadly |actually )*"
_PARTED = re.compile(
    rf"\b(?:my (?P<a>{_LOVED}) and I|me and my (?P<b>{_LOVED})) {_LATELY}(?:broke up|broken up|split(?: up)?|"
    rf"separated|divorced|"
    rf"got divorced|are (?:divorced|separated|no longer together))(?=$|[,.!;]| (?:last|this|in|on|after|so|and|but|"
    rf"because|"
    rf"yesterday|recently|a|two|three|over)\b)|"
    rf"\bI {_LATELY}(?:broke up with|split up with|divorced|dumped) my (?P<c>{_LOVED})\b",
    re.IGNORECASE,
)


def find_names(sentence: str, me: str, *, opening: bool) -> Iterator[RuleMatch]:
    """Find a person's name outside clauses: greetings, "call me", "home is"."""
    greeted = _I_AM.search(sentence) if opening and _GREETING.match(sentence) else None
    if match := greeted or _I_AM_FIRST.match(sentence):
        first = match["v"].split()[0].casefold()
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
            yield RuleMatch(RecordType.FACT, me, "name", match["v"], exclusive=True, confidence=0.8, salience=0.9)
    elif small := _find_small_name(sentence, opening=opening):
        yield RuleMatch(RecordType.FACT, me, "name", small.title(), exclusive=True, confidence=0.75, salience=0.9)
    if opening and (match := _NAME_AND_AGE.match(sentence)):
        yield RuleMatch(RecordType.FACT, me, "age", match["v"], exclusive=True, confidence=0.8, salience=0.6)
    if (match := _AS_A.match(sentence)) and (finding := _parse_self_description(match["v"], me)):
        yield finding
    if opening and (match := _HERE.match(sentence)) and is_name(match["v"]) and match["v"].casefold() not in PLACES:
        yield RuleMatch(RecordType.FACT, me, "name", match["v"], exclusive=True, confidence=0.75, salience=0.8)
    if match := _CALL_ME.search(sentence):
        yield RuleMatch(RecordType.FACT, me, "nickname", match["v"], exclusive=True, confidence=0.85, salience=0.9)
    elif (match := _CALL_ME_SMALL.search(sentence)) and _is_short_name(match["v"]):
        short = match["v"].title()
        yield RuleMatch(RecordType.FACT, me, "nickname", short, exclusive=True, confidence=0.75, salience=0.9)
    if match := _CALLS_ME.search(sentence):
        yield RuleMatch(RecordType.FACT, me, "nickname", match["v"], exclusive=True, confidence=0.8, salience=0.8)
    if match := _NOW_IN.search(sentence):
        yield RuleMatch(RecordType.FACT, me, "home", match["v"], exclusive=True, confidence=0.8, salience=0.8)
    if match := _HOME_IS.search(sentence):
        yield RuleMatch(RecordType.FACT, me, "home", match["v"], exclusive=True, confidence=0.75, salience=0.8)


def _is_short_name(word: str) -> bool:
    """Return whether it is a name or the start of one: "jo", not "call me crazy"."""
    return word not in _NO_SMALL_NAMES and any(name.startswith(word) for name in GIVEN_NAMES)


def find_breakup(sentence: str, me: str) -> Iterator[RuleMatch]:
    """Find the end of a relationship: "me and my bf broke up"."""
    if match := _PARTED.search(sentence):
        who = normalize_relation(match["a"] or match["b"] or match["c"])
        yield RuleMatch(RecordType.FACT, me, "relationship", who, polarity=False, confidence=0.8, salience=0.7)


def _find_small_name(sentence: str, *, opening: bool) -> str | None:
    if opening and (match := _I_AM_SMALL.match(sentence)) and match["v"] in GIVEN_NAMES:
        return match["v"]
    match = _MY_NAME_SMALL.search(sentence) if "y name is " in sentence else None
    return match["v"] if match and match["v"] not in _NO_SMALL_NAMES else None


def _parse_self_description(what: str, me: str) -> RuleMatch | None:
    diet = what.rsplit(maxsplit=1)[-1].casefold()
    if diet in DIETS:
        return RuleMatch(RecordType.FACT, me, "diet", diet, exclusive=True, confidence=0.8, salience=0.8)
    role = values.parse_role(what)
    if role is None or role.split()[-1].casefold() in _PASSING:
        return None
    return RuleMatch(RecordType.FACT, me, "role", role, exclusive=True, confidence=0.75, salience=0.7)


def parse_profile_line(line: str, me: str) -> Iterator[RuleMatch]:
    """Parse a list line about the speaker: "product designer at Monzo"."""
    match = _PROFILE_ROLE.match(line)
    if match and (role := values.parse_role(match["v"])):
        yield RuleMatch(RecordType.FACT, me, "role", role, exclusive=True, confidence=0.75, salience=0.75)
        if match["at"] and (where := values.parse_employer(match["at"])):
            yield RuleMatch(RecordType.FACT, me, "employer", where, exclusive=True, confidence=0.75, salience=0.75)


def find_relatives(sentence: str, me: str) -> Iterator[RuleMatch]:
    """Find people with their names anywhere: "he scares my daughter Lily"."""
    if not _OWN.search(sentence):
        return
    for found in _MENTIONED.finditer(sentence):
        who, name = normalize_relation(found["who"]), found["v"]
        first = name.split()[0].casefold()
        if is_name(name) and first not in _NO_FIRST_NAMES and first not in PLACES and first not in PRODUCTS:
            yield RuleMatch(
                RecordType.FACT,
                f"{me}/{who}",
                "name",
                name,
                exclusive=True,
                confidence=0.8,
                salience=0.7,
                tags=("people",),
            )


def _build_small_name(subject: str, match: re.Match[str] | None) -> Iterator[RuleMatch]:
    """Parse a stated name, which may be any word, also lowercase."""
    if match and match["v"] not in _NO_SMALL_NAMES and match["v"] not in NO_NAMES:
        yield RuleMatch(
            RecordType.FACT,
            subject,
            "name",
            match["v"].title(),
            exclusive=True,
            confidence=0.75,
            salience=0.7,
            tags=("people",),
        )


def find_attributes(clause: Clause) -> Iterator[RuleMatch]:
    if "/" in clause.subject:
        yield from _build_small_name(clause.subject, _NAME_IS_SMALL.match(clause.predicate))
    for looked_for, attribute, exclusive in _OWNED:
        if match := looked_for.match(clause.predicate):
            value = _OWNED_VALUES.get(attribute, values.parse_value)(match["v"])
            if attribute == "birthday" and (day := _DAY.search(match["v"])):
                value = day.group().removeprefix("the ")
            if attribute == "name" and value and value.casefold() == clause.subject:
                continue
            if attribute == "birthday" and value and not re.search(r"\d|\b[A-Z][a-z]{2,8}\b", value):
                continue
            if value:
                yield RuleMatch(
                    RecordType.FACT,
                    clause.subject,
                    attribute,
                    value.removeprefix("on "),
                    exclusive=exclusive,
                    confidence=0.9,
                    salience=0.8,
                )
            return


def find_relations(clause: Clause, narrator: ClauseReader) -> Iterator[RuleMatch]:
    """Find the people of a person: mentioned in passing, introduced, or stated."""

    def build_name(subject: str, name: str) -> RuleMatch:
        return RuleMatch(
            RecordType.FACT, subject, "name", name, exclusive=True, confidence=0.85, salience=0.75, tags=("people",)
        )

    if clause.name:
        yield build_name(clause.subject, clause.name)
    if match := _INTRODUCED.search(clause.predicate):
        who = match["who"].lower()
        subject = f"{clause.subject}/{RELATIONS.get(who, who)}"
        narrator.introduce(subject)
        yield build_name(subject, match["v"])
        for other in _AND_ANOTHER.finditer(clause.predicate, match.end()):
            who = other["who"].lower()
            yield build_name(f"{clause.subject}/{RELATIONS.get(who, who)}", other["v"])
    elif small := _INTRODUCED_SMALL.search(clause.predicate):
        subject = f"{clause.subject}/{RELATIONS.get(small['who'], small['who'])}"
        narrator.introduce(subject)
        yield from _build_small_name(subject, small)
    elif match := _KITTEN.search(clause.predicate):
        who = match["who"].lower()
        narrator.introduce(f"{clause.subject}/{RELATIONS.get(who, who)}")
    if clause.owned:
        return
    if "/" in clause.subject:
        called = _CALLED.match(clause.predicate) or (None if clause.name else _IS_NAMED.match(clause.predicate))
        if called and called["v"].split()[0].casefold() not in _NO_FIRST_NAMES:
            yield build_name(clause.subject, called["v"])
        elif called is None:
            yield from _build_small_name(clause.subject, _CALLED_SMALL.match(clause.predicate))
    elif not clause.elided and clause.subject != narrator.me and (match := _IS_MY.match(clause.predicate)):
        who = match["who"].lower()
        yield build_name(f"{narrator.me}/{RELATIONS.get(who, who)}", clause.subject.title())
