"""Write what somebody said as a sentence about them: in the third person, with its dates resolved.

"I moved to Lisbon last week" becomes "The user moved to Lisbon last week (about 9 Nov 2026)". The words stay those that
were said; only the person, the verb's form and relative dates change.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from limpet.knowledge.candidate import Candidate, TurnMessage
from limpet.knowledge.english import get_pattern, get_words
from limpet.knowledge.english.clause import find_role_word, normalize_subject
from limpet.knowledge.english.coordination import find_opening, third_person
from limpet.knowledge.english.statement import format_statement, format_subject
from limpet.knowledge.english.tense import lies_behind
from limpet.model.record import RecordType
from limpet.search.analysis import parse_spans, split_sentences

_LEAD_IN = re.compile(
    r"(?:(?:so|well|oh|ok|okay|and|but|also|plus|btw|by the way|anyway|yeah|yes|yep|no(?=,)|nope|haha|lol|ha|right|"
    r"actually|whatever|my god|omg|oh my god|"
    r"honestly|basically|hey|hi|hello|look|listen|sorry|thanks|thank you|because|since|fyi|for the record|note that|"
    r"scrap (?:that|it)|correction|never ?mind|forget (?:that|it|what i said)|wait|hang on|update|"
    r"just so you know|remember that|please remember(?: that)?|keep in mind(?: that)?|turns out|as i said|"
    r"i (?:should|must) (?:mention|add|say)(?: that)?|the thing is)\b[\s,:;.!–—-]*)+",
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?|\d[\d.,:/]*|\s+|.", re.DOTALL)
_FIRST_PERSON = re.compile(r"\b(?:i|my|me|mine|myself|we|our|ours|us|ourselves|im|ive)\b|\bi['’]", re.IGNORECASE)
_ADVERBS = frozenset(
    """always never just still also actually now only usually often sometimes really already even probably mostly mainly
    currently recently finally generally rarely hardly soon then once ever both all simply strictly
    personally""".split()
)
_LY_VERBS = frozenset("fly apply reply rely supply multiply bully rally tally comply imply ally".split())
_AUXILIARY = {
    "am": "is", "have": "has", "do": "does", "are": "is",
    "don't": "doesn't", "dont": "doesn't", "haven't": "hasn't", "havent": "hasn't", "aren't": "isn't", "ain't": "isn't",
}  # fmt: skip
_UNCHANGED = frozenset(
    """can can't cannot cant could couldn't will won't wont would wouldn't should shouldn't must mustn't may might shall
    was wasn't wasnt had hadn't did didn't didnt not used is isn't has hasn't does doesn't got gotta wanna gonna
    ought""".split()
)
_COMMON_VERBS = frozenset(
    """live work study eat drink love like hate enjoy prefer need want use drive ride play speak own run go take make
    see teach walk cook read write hope plan think know keep sleep travel train collect help share rent pay own sing
    swim bake garden volunteer manage lead design build code sell buy wear avoid follow call come stay start finish
    move practise practice suffer get have can't don't""".split()
)
_SINGULAR = {"m": "is", "ve": "has", "d": "would", "ll": "will", "re": "is", "s": "is"}
_PLURAL = {"re": "are", "ve": "have", "d": "would", "ll": "will"}
_OBJECTS = {
    "me": "{them}", "my": "{their}", "mine": "{theirs}", "myself": "themselves", "us": "them", "our": "their",
    "ours": "theirs", "ourselves": "themselves",
}  # fmt: skip
_SMILE = re.compile(r"(?:\s+(?:[:;=]['-]?[()DPp/|]+|[xX]D+|<3|[\U0001f300-\U0001faff\u2600-\u27bf\ufe0f]+))+\s*$")
_PAIR = 4  # words before "and I" at most: "my little sister and I"
_TOLD_OF_PAST = re.compile(
    r"\b(?:yesterday|last|ago|once|already|just|finally|when|earlier|this morning|today)\b", re.IGNORECASE
)
_PRONOUN = re.compile(r"(?:He|She)(?:['’](s|ll|d))?\b")
_SELF = frozenset({"", "i", "we"})
_SHORT = 2  # words that name nothing: "sun's out"
_NOT_MINE = frozenset("is are has does were let lets".split())
_REFERENCES = frozenset("it me that them this us".split())  # "keep it short" is an order
_ADDRESSEE = {"you": "the assistant", "your": "the assistant's", "yours": "the assistant's", "yourself": "itself"}


def to_third_person(clause: str, speaker: str | None = None, *, instruction: bool = False, elided: bool = False) -> str:
    """Return the clause as a sentence about its speaker. What has no person in it is quoted.

    ``elided``: a clause without a subject is about the speaker: "drive a Golf", "vegetarian".
    """
    who = speaker or "The user"
    plain = _LEAD_IN.sub("", clause, count=1) if _LEAD_IN.match(clause) else clause
    plain = " ".join(plain.split()).strip(" ,;:–—-") or clause.strip()
    if instruction:
        return _end_sentence(_Converter(who, you="you").convert(plain))
    plain = complete_clause(plain, elided=elided)
    if not _FIRST_PERSON.search(plain):
        return _end_sentence(plain) if _has_own_subject(plain) else _quote(plain, who)
    return _end_sentence(_Converter(who, you="the assistant").convert(plain))


def retell(text: str, speaker: str | None = None) -> str:
    """Return several sentences in the third person, or all of them as they were said where one has no person in it."""
    told = [to_third_person(each.text, speaker, elided=_tells_of_self(each.text)) for each in split_sentences(text)]
    return _quote(" ".join(text.split()), speaker or "The user") if any(map(is_quote, told)) else " ".join(told)


def _tells_of_self(sentence: str) -> bool:
    """Return whether a sentence leaves out "I": "sold mine yesterday". "Stop asking" is an order."""
    opening = find_opening(sentence)
    return (
        opening is not None
        and not opening.subject
        and (opening.verb in get_words("past") or opening.verb.endswith(("ed", "ing")))
    )


def _quote(text: str, who: str) -> str:
    return f"{who} said: “{text}”"


def is_quote(content: str) -> bool:
    """Return whether a claim is worded as what somebody said, word for word."""
    return content.endswith("”") and " said: “" in content


def complete_clause(plain: str, *, elided: bool) -> str:
    """Return the clause with what it leaves out: "my" before one of the speaker's people, and "I" if it is elided."""
    opening, start = find_opening(plain), plain[:1].lower() + plain[1:]
    if opening is not None and opening.subject:
        kin = opening.subject.lower().removeprefix("the ")
        mine = find_role_word(kin) or find_role_word(kin.removesuffix("s"))
        return (
            f"my {start.removeprefix('the ')}" if mine and plain.lower().startswith(opening.subject.lower()) else plain
        )
    if not elided or (opening is not None and not opening.rest):
        return plain
    if opening is None:
        return f"I'm {start}" if get_pattern("part_adjective").match(plain) else plain
    if opening.verb.endswith("ing"):
        return f"I'm {start}"
    if opening.verb == "got":
        return f"I've {start}"
    other = opening.verb in _NOT_MINE or (opening.rest and opening.rest[0].word in _REFERENCES)
    return plain if other or not opening.plain or opening.verb in third_person() else f"I {start}"


def _has_own_subject(text: str) -> bool:
    """Return whether it names whom or what it is about: a name or a determined noun, with a verb."""
    if re.match(r"(?:[A-ZÀ-Þ][\w'’-]+|the|his|her|their|he|she|they|it|this|that)\s+\w+\s+\w+", text) or re.match(
        r"[Ff]or [A-ZÀ-Þ][\w'’-]+: \w", text
    ):
        return True
    opening = find_opening(text)
    return opening is not None and bool(opening.subject) and (len(text.split()) > _SHORT or any(map(str.isdigit, text)))


def names_nothing(text: str) -> bool:
    """Return whether a few words about the speaker say nothing by themselves: "I've decided", "don't plan to"."""
    plain = _LEAD_IN.sub("", text, count=1).strip(" .!")
    opening = find_opening(plain)
    if opening is None or opening.subject.lower() not in _SELF:
        return False
    named = any(character.isdigit() or character.isupper() for character in _FIRST_PERSON.sub("", plain)[1:])
    empty = _SELF | get_words("auxiliaries") | get_words("prepositions") | get_words("adverbs")
    words = [token.word for token in opening.rest if token.is_word and token.word not in empty]
    perfect = opening.verb in {"have", "has"}  # whose participle is the verb
    return not named and (len(words) <= perfect or plain.lower().endswith(" to"))


def name_subject(content: str, subject: str) -> str:
    """Return the sentence with the person in the place of "he" or "she": "Moss gets special food"."""
    found = _PRONOUN.match(content)
    if found is None or subject in {"user", "somebody"}:
        return content
    after = content[found.end() :].lstrip().split(maxsplit=1)[:1]
    participle = bool(after) and (after[0] in get_words("past") or after[0].endswith("ed"))
    verb = {"": "", "s": " has" if participle else " is", "ll": " will", "d": " would"}[(found[1] or "").lower()]
    return f"{format_subject(subject)}{verb}{content[found.end() :]}"


class _Converter:
    """Rewrites a clause word by word."""

    def __init__(self, who: str, *, you: str) -> None:
        self._who, self._inside = who, _inside(who)
        self._renames_you = you != "you"
        self._said: list[str] = []
        self._named = False  # the speaker stands in the sentence already
        self._awaits_verb = False  # after "I": the next verb is theirs

    def convert(self, text: str) -> str:
        tokens = _WORD.findall(text)
        for at, token in enumerate(tokens):
            self._said.append(self._convert(tokens, at, token))
        return "".join(self._said)

    def _convert(self, tokens: list[str], at: int, token: str) -> str:
        word = token.lower().replace("’", "'")
        base, _, ending = word.partition("'")
        if base in {"i", "im", "ive"}:
            return self._convert_i(ending or base[1:], joined=_is_second(tokens, at))
        if base == "we":
            self._named = True
            return f"{self._speaker()} and others" + (f" {_PLURAL.get(ending, ending)}" if ending else "")
        if word in _OBJECTS:
            return self._convert_object(word)
        if base in _ADDRESSEE and self._renames_you:
            return _ADDRESSEE[base] + (f" {_SINGULAR.get(ending, ending)}" if ending else "")
        return self._convert_verb(tokens, at, word, token)

    def _speaker(self) -> str:
        before = "".join(self._said[-3:]).rstrip()
        return self._who if not before or before.endswith((".", "!", "?", "…")) else self._inside

    def _convert_i(self, ending: str, *, joined: bool) -> str:
        speaker, self._named = self._speaker(), True
        self._awaits_verb = not ending and not joined
        return f"{speaker} {_SINGULAR.get(ending, ending)}" if ending else speaker

    def _convert_object(self, word: str) -> str:
        their = "their" if self._named else f"{self._speaker()}'s"
        theirs = "theirs" if self._named else their
        self._named = True
        return their if word == "our" else _OBJECTS[word].format(them=self._inside, their=their, theirs=theirs)

    def _convert_verb(self, tokens: list[str], at: int, word: str, token: str) -> str:
        if self._awaits_verb and word[0].isalpha():
            if word in _ADVERBS or (word.endswith("ly") and word not in _LY_VERBS):
                return token
            self._awaits_verb = False
            return _agree(word, token) if word != "read" or _TOLD_OF_PAST.search("".join(tokens)) else "reads"
        alone = self._named and not (self._said and self._said[0].endswith("others"))
        return _agree(word, token) if alone and word in _COMMON_VERBS and _follows_and(tokens, at) else token


def _is_second(tokens: list[str], at: int) -> bool:
    """Return whether "I" is the second of two that share a verb: "Tom and I are separated"."""
    words = [token.lower() for token in tokens[:at] if token.strip()]
    first = words[:-1]
    verbs = get_words("verbs") | get_words("auxiliaries") | get_words("past") | third_person()
    nouns = all(word[0].isalpha() and word not in verbs for word in first)
    return words[-1:] == ["and"] and 0 < len(first) <= _PAIR and nouns


def _inside(who: str) -> str:
    return "the user" if who == "The user" else who


def _follows_and(tokens: list[str], at: int) -> bool:
    """Return whether a word stands right after "and": "I live in Oslo and work from home"."""
    before = [token.lower() for token in tokens[max(0, at - 2) : at]]
    return len(before) == 2 and before[0] in {"and", "but", "or"} and before[1].isspace()


def _agree(word: str, token: str) -> str:
    """Return the verb as "the user" needs it: live, lives."""
    if word in _AUXILIARY:
        return _AUXILIARY[word]
    other = word in _UNCHANGED or word in get_words("past") or not word.isalpha()
    if other or (word.endswith(("ed", "ing")) and word not in get_words("verbs")):
        return token
    if word.endswith(("s", "x", "z", "ch", "sh", "o")):
        return f"{token}es" if not word.endswith("s") or word.endswith("ss") else token
    if word.endswith("y") and word[-2:-1] not in "aeiou":
        return f"{token[:-1]}ies"
    return f"{token}s"


def _end_sentence(text: str) -> str:
    text = _SMILE.sub("", text).strip()
    if text and text[0].islower():
        text = text[0].upper() + text[1:]
    return text if text.endswith((".", "!", "?", "…", "”")) else f"{text}."


_TEMPLATED = frozenset("home employer role diet age birthday origin nationality pronouns name".split())
_ROOM = 5  # words a statement may have beside its value and still say no more than the short form


def word_claim(candidate: Candidate, text: str) -> str:
    """Return a claim as a sentence: the short form where it says all that was said, else the statement's own words."""
    speaker = candidate.speaker if candidate.subject != "user" and "/" not in candidate.subject else None
    if candidate.attribute in _TEMPLATED and candidate.value and candidate.subject.split("/")[0] == "user":
        beside = len(text.split()) - len(candidate.value.split())
        dated = _RELATIVE.search(text)
        if beside <= _ROOM + (2 if dated else 0):
            short = format_statement(
                candidate.subject, candidate.attribute, candidate.value, polarity=candidate.polarity
            )
            when = None if dated is None else find_date(dated, candidate.said_at)
            return (
                short if when is None else f"{short.rstrip('.')} ({'since' if candidate.polarity else 'until'} {when})."
            )
    instruction = candidate.type is RecordType.INSTRUCTION or (
        candidate.type is RecordType.CONSTRAINT and candidate.subject == "project"
    )
    return to_third_person(text, speaker, instruction=instruction)


_KIN_NAMED = re.compile(
    r"\b(?:my|our)\s+(?:[\w-]+\s+){0,2}?(?P<kin>[a-z-]+)\b(?:\s+(?P<name>[A-ZÀ-Þ][\w’-]+))?", re.IGNORECASE
)
_NAME = re.compile(
    r"(?:^|[\s,])(?P<name>[A-ZÀ-Þ][a-zß-ÿ]+(?: [A-ZÀ-Þ][a-zß-ÿ]+)?)(?=['’]s\b|\s+(?:is|was|has|had|lives|works|will|"
    r"can|does|said|moved|got|loves|likes|hates|wants|needs|and)\b)"
)


_NO_NAMES = frozenset(
    """he she they it this that there what who my our his her their the an we you yes no so but and also then now today
    tomorrow yesterday monday tuesday wednesday thursday friday saturday sunday everyone everybody nobody
    somebody""".split()
)


def find_subject(said: TurnMessage, statement: str, earlier: str, *, about_other: bool) -> str:
    """Return whom a statement is about: the speaker, one of theirs (user/sister), or somebody it names.

    "She" is whom the words before spoke of last.
    """
    me = "user"
    if said.speaker and said.speaker.casefold() not in {"user", "human"}:
        me = normalize_subject(said.speaker)
    if not about_other:
        return me
    return _find_person(statement, me) or _find_person(earlier[-400:], me, last=True) or "somebody"


def _find_person(text: str, me: str, *, last: bool = False) -> str | None:
    found = [
        (match.start(), f"{me}/{role}")
        for match in _KIN_NAMED.finditer(text)
        if (role := find_role_word(match["kin"].lower()))
    ]
    found += [
        (match.start(), normalize_subject(match["name"]))
        for match in _NAME.finditer(text)
        if match["name"].split()[0].lower() not in _NO_NAMES
    ]
    return None if not found else (max if last else min)(found)[1]


# Dates


_WEEKDAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
_MONTHS = "january february march april may june july august september october november december".split()
_NUMBERS = {
    word: number
    for number, word in enumerate("one two three four five six seven eight nine ten eleven twelve".split(), start=1)
} | {"a": 1, "an": 1, "a few": 3, "a couple of": 2, "couple of": 2}
_COUNT = rf"(\d{{1,3}}|{'|'.join(sorted(_NUMBERS, key=len, reverse=True))})"
_UNITS = {"day": 1, "night": 1, "week": 7, "fortnight": 14, "month": 30, "year": 365}
_UNIT = rf"({'|'.join(_UNITS)})s?"
_RELATIVE = re.compile(
    rf"\b(?:(?P<ago>{_COUNT} {_UNIT} ago)|(?P<ahead>in {_COUNT} {_UNIT}(?:'s? time)?)"
    rf"|(?P<side>last|next|this) (?P<unit>week(?:end)?|month|year|{'|'.join(_WEEKDAYS)}|{'|'.join(_MONTHS)})"
    rf"|(?P<day>yesterday|today|tonight|tomorrow|the day (?:after tomorrow|before yesterday)|last night|this morning)"
    rf"|on (?P<weekday>{'|'.join(_WEEKDAYS)}))\b",
    re.IGNORECASE,
)
_DAYS = {
    "yesterday": -1, "today": 0, "tonight": 0, "tomorrow": 1, "the day after tomorrow": 2,
    "the day before yesterday": -2, "last night": -1, "this morning": 0,
}  # fmt: skip


def resolve_dates(sentence: str, said_at: datetime) -> str:
    """Return the sentence with the date after each relative one: "tomorrow (17 Nov 2026)". A quotation stays."""
    if is_quote(sentence):
        return sentence

    def note(match: re.Match[str]) -> str:
        found = find_date(match, said_at)
        return match.group() if found is None else f"{match.group()} ({found})"

    return _RELATIVE.sub(note, sentence)


def find_date(match: re.Match[str], said_at: datetime) -> str | None:
    """Return what a relative date means, as people write it."""
    try:
        if match["side"]:
            return _name_beside(said_at, match["side"].lower(), match["unit"].lower())
        if match["day"] or match["weekday"]:
            return _name_day(_find_day(match, said_at))
        days, unit = _count_days(match)
        moment = said_at + timedelta(days=days)
    except (OverflowError, ValueError):
        return None
    if unit in ("day", "night"):
        return _name_day(moment)
    return f"about {moment.year if unit == 'year' else _name_month(moment) if unit == 'month' else _name_day(moment)}"


def _find_day(match: re.Match[str], said_at: datetime) -> datetime:
    if match["day"]:
        return said_at + timedelta(days=_DAYS[match["day"].lower()])
    days = (_WEEKDAYS.index(match["weekday"].lower()) - said_at.weekday()) % 7
    return said_at + timedelta(days=days - 7 if lies_behind(match.string, *match.span()) else days)


def _count_days(match: re.Match[str]) -> tuple[int, str]:
    """Return the days of "two weeks ago" or "in a month", and the unit they were counted in."""
    words = (match["ago"] or match["ahead"].removeprefix("in ").removeprefix("In ")).lower()
    count, unit = re.match(_COUNT, words), re.search(_UNIT, words)
    assert count is not None
    assert unit is not None
    number = int(count[1]) if count[1].isdigit() else _NUMBERS[count[1]]
    return number * _UNITS[unit[1]] * (-1 if match["ago"] else 1), unit[1]


def _name_beside(said_at: datetime, side: str, unit: str) -> str:
    step = {"last": -1, "this": 0, "next": 1}[side]
    if unit in _WEEKDAYS or unit == "weekend":
        ahead = (_WEEKDAYS.index("saturday" if unit == "weekend" else unit) - said_at.weekday()) % 7
        return _name_day(said_at + timedelta(days=ahead - 7 if step < 0 else ahead or 7 * step))
    if unit in _MONTHS:
        number = _MONTHS.index(unit) + 1
        year = said_at.year - (step < 0 and number >= said_at.month) + (step > 0 and number <= said_at.month)
        return f"{unit.title()[:3]} {year}"
    if unit == "week":
        return f"about {_name_day(said_at + timedelta(days=7 * step))}"
    if unit == "month":
        month = said_at.month - 1 + step
        return f"{_MONTHS[month % 12].title()[:3]} {said_at.year + month // 12}"
    return str(said_at.year + step)


def _name_day(moment: datetime) -> str:
    return f"{moment.day} {_name_month(moment)}"


def _name_month(moment: datetime) -> str:
    return f"{_MONTHS[moment.month - 1].title()[:3]} {moment.year}"


def find_last_date(text: str, said_at: datetime) -> datetime | None:
    """Return the end of the last day a text names, if it is still to come."""
    years = (_find_ends(text, year) for year in (said_at.year, said_at.year + 1))
    ends = next((found for each in years if (found := [end for end in each if end > said_at])), [])
    moments = [_find_latest(match, said_at) for match in _RELATIVE.finditer(text)]
    ends += [_end_of_day(moment) for moment in moments if moment is not None and moment >= said_at]
    return max(ends, default=None)


def _find_ends(text: str, year: int) -> list[datetime]:
    """Return the ends of the days and months that a text names, without those that a past tense puts behind."""
    return [] if lies_behind(text, len(text), len(text)) else [span.end for span in parse_spans(text, None, (year,))]


def _end_of_day(moment: datetime) -> datetime:
    return moment.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)


def _find_latest(match: re.Match[str], said_at: datetime) -> datetime | None:
    """Return the last day that a relative date may mean; None for one that is past."""
    if match["day"] or match["weekday"]:
        return _find_day(match, said_at)
    if match["ahead"]:
        days, unit = _count_days(match)
        return said_at + timedelta(days=days + _UNITS[unit] - 1)
    if not match["side"] or match["side"].lower() == "last":
        return None
    unit, step = match["unit"].lower(), 1 if match["side"].lower() == "next" else 0
    if unit in _WEEKDAYS:
        return said_at + timedelta(days=(_WEEKDAYS.index(unit) - said_at.weekday()) % 7 or 7 * step)
    days = {"week": 7, "weekend": 7, "month": 31, "year": 366}.get(unit, 366)
    return said_at + timedelta(days=days * (step + 1))


_ASKS_FOR_SELF = re.compile(r"\b(?:i|my|me|mine|i'm|im|myself)\b", re.IGNORECASE)


def find_asked_subjects(question: str) -> frozenset[str]:
    """Return whom a question is about: the user, or one of theirs. Empty: it does not say."""
    kin = [role for match in _KIN_NAMED.finditer(question) if (role := find_role_word(match["kin"].lower()))]
    if kin:
        return frozenset(f"user/{role}" for role in kin)
    return frozenset({"user"}) if _ASKS_FOR_SELF.search(question) else frozenset()
