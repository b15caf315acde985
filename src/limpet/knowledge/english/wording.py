"""Write what somebody said as a sentence about them: in the third person, with its dates resolved.

"I moved to Lisbon last week" becomes "The user moved to Lisbon last week (about 9 Nov 2026)". The words stay those that
were said; only the person, the verb's form and relative dates change.
"""

from __future__ import annotations

import re

from limpet.knowledge.attributes import get_attribute
from limpet.knowledge.candidate import Candidate, TurnMessage
from limpet.knowledge.english import get_pattern, get_words
from limpet.knowledge.english.clause import FIRST_PERSON, KIN_NAMED, find_role_word, is_name, normalize_subject
from limpet.knowledge.english.dates import RELATIVE, find_date
from limpet.knowledge.english.elision import complete_clause
from limpet.knowledge.english.opening import find_opening, is_done, third_person
from limpet.knowledge.english.statement import format_statement, format_subject, is_quote, quote
from limpet.knowledge.similarity import tokenize
from limpet.model.record import RecordType
from limpet.search.analysis import split_sentences

_WORD = re.compile(  # the first is a model or a road: "i20", "I-95"
    r"[^\W\d_]+-?\d[\w-]*|[^\W\d_]+(?:['’][^\W\d_]+)?|\d[\d.,:/]*|\s+|.", re.DOTALL
)
_AT_HOME = re.compile(r"\b(?:at|to|from|near|by|round) (?:my|our|the|his|her|their) [\w-]+$", re.IGNORECASE)
_NUMBER = "(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\\d{1,3})"
_OF_US = re.compile(rf"^there(?:['’]s| are| is) ({_NUMBER}) of us\b", re.IGNORECASE)
_REFERRING = frozenset("it that this they these those".split())
_IT = re.compile(r"\b(?:it|them|that one)\b", re.IGNORECASE)
_LY_VERBS = frozenset("fly apply reply rely supply multiply bully rally tally comply imply ally".split())
_AUXILIARY = {
    "am": "is", "have": "has", "do": "does", "are": "is", "were": "was", "weren't": "wasn't",
    "don't": "doesn't", "dont": "doesn't", "haven't": "hasn't", "havent": "hasn't", "aren't": "isn't", "ain't": "isn't",
}  # fmt: skip
_SINGULAR = {"m": "is", "ve": "has", "d": "would", "ll": "will", "re": "is", "s": "is"}
_PLURAL = {"re": "are", "ve": "have", "d": "would", "ll": "will"}
_MARKS = frozenset('"“”')
_OBJECTS = {
    "me": "{them}", "my": "{their}", "mine": "{theirs}", "myself": "themselves", "us": "{us}", "our": "{their}",
    "ours": "{theirs}", "ourselves": "themselves",
}  # fmt: skip
_SMILE = re.compile(r"(?:\s+(?:[:;=]['-]?[()DPp/|]+|[xX]D+|<3|[\U0001f300-\U0001faff\u2600-\u27bf\ufe0f]+))+\s*$")
_PAIR_LAST = re.compile(r"^The user's ((?:[\w’'-]+ ){0,3}[\w’'-]+) and the user\b")
_PAIR = 4  # words before "and I" at most: "my little sister and I"
_PRONOUN = re.compile(r"(?:He|She)(?:['’](s|ll|d))?\b")
_POSSESSIVE = re.compile(r"^(?:His|Her)\b|(?<=^The user is )(?:his|her)\b|(?<=^The user was )(?:his|her)\b")
_THIRD = ("he ", "he'", "he’", "she ", "she'", "she’", "his ", "her ")
_SELF = frozenset({"", "i", "we"})
_SHORT = 2  # words that name nothing: "sun's out"
_ADDRESSEE = {"you": "the assistant", "your": "the assistant's", "yours": "the assistant's", "yourself": "itself"}


def to_third_person(clause: str, speaker: str | None = None, *, instruction: bool = False, elided: bool = False) -> str:
    """Return the clause as a sentence about its speaker. What has no person in it is quoted.

    ``elided``: a clause without a subject is about the speaker: "drive a Golf", "vegetarian".
    """
    who = speaker or "The user"
    plain = drop_lead(clause)
    plain = get_pattern("tail").sub("", " ".join(plain.split()).strip(" ,;:–—-"), count=1) or clause.strip()
    if instruction:
        return _end_sentence(_Converter(who, you="you").convert(plain))
    plain = get_pattern("short_has").sub(" has", get_pattern("short_is").sub(_write_is, plain))
    plain = _OF_US.sub(r"we are \1", plain)
    plain = complete_clause(
        get_pattern("counted").sub(r"\1 one of", get_pattern("collective").sub(r"\1 part of ", plain)), elided=elided
    )
    if not FIRST_PERSON.search(plain):
        return _end_sentence(plain) if _has_own_subject(plain) else quote(plain, who)
    told = _Converter(who, you="the assistant").convert(plain)
    return _end_sentence(_PAIR_LAST.sub(rf"{who} and their \1", told))


def drop_lead(clause: str) -> str:
    """Return a clause without what only leads to it: "So, by the way, I moved"."""
    lead = get_pattern("lead_in").match(clause)
    return clause[lead.end() :] if lead else clause


def _write_is(match: re.Match[str]) -> str:
    """Write "'s" as "is", unless it stands for somebody's house: "at my gran's in Bergen"."""
    return match.group() if _AT_HOME.search(match.string, 0, match.start()) else " is"


def retell(text: str, speaker: str | None = None) -> str:
    """Return several sentences in the third person, or all of them as they were said where one has no person in it."""
    told = [to_third_person(each.text, speaker, elided=_tells_of_self(each.text)) for each in split_sentences(text)]
    return quote(" ".join(text.split()), speaker or "The user") if any(map(is_quote, told)) else " ".join(told)


def _tells_of_self(sentence: str) -> bool:
    """Return whether a sentence leaves out "I": "sold mine yesterday". "Stop asking" is an order."""
    opening = find_opening(sentence)
    return (
        opening is not None
        and not opening.subject
        and (opening.verb in get_words("past") or opening.verb.endswith(("ed", "ing")))
    )


def _has_own_subject(text: str) -> bool:
    """Return whether it names whom or what it is about: a name or a determined noun, with a verb."""
    if re.match(r"(?:[A-ZÀ-Þ][\w'’-]+|the|his|her|their|he|she|they|it|this|that)\s+\w+\s+\w+", text) or re.match(
        r"[Ff]or [A-ZÀ-Þ][\w'’-]+: \w", text
    ):
        return True
    opening = find_opening(text)
    return opening is not None and bool(opening.subject) and (len(text.split()) > _SHORT or any(map(str.isdigit, text)))


def points_away(text: str) -> bool:
    """Return whether a statement is about something that it does not name: "that took 49 minutes"."""
    return get_pattern("pointing").match(text.strip()) is not None


def refers_back(content: str, words: str) -> bool:
    """Return whether a claim is about something named before: "It is new", "The user reads them".

    ``words``: as it was said. "Them" may stand for "us".
    """
    if content.split(maxsplit=1)[0].lower() in _REFERRING:
        return True
    return get_pattern("refers").match(content) is not None and _IT.search(words) is not None


def names_nothing(text: str) -> bool:
    """Return whether a few words say nothing by themselves: "I've decided", "the hills were steep"."""
    plain = drop_lead(text).strip(" .!")
    opening = find_opening(plain)
    if opening is None:
        return False
    named = any(character.isdigit() or character.isupper() for character in FIRST_PERSON.sub("", plain)[1:])
    if opening.subject.lower() not in _SELF:
        impression = opening.subject.lower().startswith("the ") and opening.verb in {"was", "were"}
        return impression and not named and not FIRST_PERSON.search(plain)
    empty = _SELF | get_words("auxiliaries") | get_words("prepositions") | get_words("adverbs")
    words = [token.word for token in opening.rest if token.is_word and token.word not in empty]
    perfect = opening.verb in {"have", "has"} and any(map(is_done, words[:1]))  # whose participle is the verb
    return not named and " never " not in plain and (len(words) <= perfect or plain.lower().endswith(" to"))


def name_subject(content: str, subject: str) -> str:
    """Return the sentence with the person in the place of "he", "she" or "her": "Moss gets special food"."""
    if subject in {"user", "somebody"}:
        return content
    content = _POSSESSIVE.sub(f"{format_subject(subject)}'s", content)
    found = _PRONOUN.match(content)
    if found is None:
        return content
    words = content[found.end() :].split()
    after = [word for word in words if word not in get_words("between_subject_and_verb")][:1]
    past = get_words("past") | get_words("participles")
    participle = bool(after) and (after[0] in past or after[0].endswith("ed"))
    verb = {"": "", "s": " has" if participle else " is", "ll": " will", "d": " would"}[(found[1] or "").lower()]
    return f"{format_subject(subject)}{verb}{content[found.end() :]}"


class _Converter:
    """Rewrites a clause word by word."""

    def __init__(self, who: str, *, you: str) -> None:
        self._who, self._inside = who, _inside(who)
        self._renames_you = you != "you"
        self._said: list[str] = []
        self._named = False  # the speaker stands in the sentence already
        self._paired = False  # the speaker and somebody the sentence names: "Tom and I"
        self._awaits_verb = False  # after "I" or "we": the next verb is theirs
        self._addressed = False  # after "you": the next word may be its verb

    def convert(self, text: str) -> str:
        tokens = _WORD.findall(text)
        quoted = False
        for at, token in enumerate(tokens):
            quoted = quoted != (token in _MARKS and (quoted or not _MARKS.isdisjoint(tokens[at + 1 :])))
            self._said.append(token if quoted else self._convert(tokens, at, token))
        return " ".join("".join(self._said).split())

    def _convert(self, tokens: list[str], at: int, token: str) -> str:
        word = token.lower().replace("’", "'")
        base, _, ending = word.partition("'")
        if base in {"i", "im", "ive"}:
            return self._convert_i(ending or base[1:], joined=_is_second(tokens, at))
        if base == "we":
            return self._convert_we(ending)
        if word in _OBJECTS:
            return self._convert_object(word)
        if base in _ADDRESSEE and self._renames_you:
            self._addressed = word == "you"
            return _ADDRESSEE[base] + (f" {_SINGULAR.get(ending, ending)}" if ending else "")
        return self._convert_verb(tokens, at, word, token)

    def _speaker(self) -> str:
        before = "".join(self._said[-3:]).rstrip()
        return self._who if not before or before.endswith((".", "!", "?", "…")) else self._inside

    def _convert_i(self, ending: str, *, joined: bool) -> str:
        speaker, self._named = self._speaker(), True
        self._awaits_verb, self._paired = not ending and not joined, self._paired or joined
        return f"{speaker} {_SINGULAR.get(ending, ending)}" if ending else speaker

    def _convert_we(self, ending: str) -> str:
        """Who else is meant is mostly not said: what "we" do the speaker does."""
        if not self._paired:
            return self._convert_i(ending, joined=False)
        return "they" + (f" {_PLURAL.get(ending, ending)}" if ending else "")

    def _convert_object(self, word: str) -> str:
        their = "their" if self._named else f"{self._speaker()}'s"
        theirs, us = ("theirs", "them") if self._named else (their, self._inside)
        self._named = True
        return _OBJECTS[word].format(them=self._inside, their=their, theirs=theirs, us=us)

    def _convert_verb(self, tokens: list[str], at: int, word: str, token: str) -> str:
        if self._awaits_verb and word[0].isalpha():
            if word in {"both", "all"}:
                return ""
            if word in get_words("between_subject_and_verb") or (word.endswith("ly") and word not in _LY_VERBS):
                return token
            self._awaits_verb = False
            return (
                _agree(word, token)
                if word != "read" or get_pattern("told_of_past").search("".join(tokens))
                else "reads"
            )
        if self._addressed and word[0].isalpha():
            self._addressed = word in get_words("between_subject_and_verb")
            asked = [each.lower() for each in tokens[:at] if each.strip()][-2:-1]  # "would you believe"
            if asked and asked[0] in get_words("auxiliaries"):
                return token
            return _agree(word, token) if word in get_words("verbs") or word in _AUXILIARY else token
        alone = self._named and not self._paired and self._renames_you  # an order keeps its form
        return (
            _agree(word, token) if alone and word in get_words("common_verbs") and _follows_and(tokens, at) else token
        )


def _is_second(tokens: list[str], at: int) -> bool:
    """Return whether "I" is the second of two that share a verb: "Tom and I are separated"."""
    words = [token.lower() for token in tokens[:at] if token.strip()]
    first = "".join(tokens[:at]).lower().rpartition(",")[2].split()[:-1]
    verbs = get_words("verbs") | get_words("auxiliaries") | get_words("past") | third_person()
    nouns = all(word[0].isalpha() and word not in verbs for word in first)
    return words[-1:] == ["and"] and 0 < len(first) <= _PAIR and nouns


def _inside(who: str) -> str:
    return "the user" if who == "The user" else who


def _follows_and(tokens: list[str], at: int) -> bool:
    """Return whether a word stands right after "and": "I live in Oslo and work from home"."""
    before = [token.lower() for token in tokens[:at] if not token.isspace()]
    while before and before[-1] in get_words("between_subject_and_verb"):
        before.pop()
    return before[-1:] in (["and"], ["but"], ["or"])


def _agree(word: str, token: str) -> str:
    """Return the verb as "the user" needs it: live, lives."""
    if word in _AUXILIARY:
        return _AUXILIARY[word]
    other = word in get_words("same_in_third_person") or word in get_words("past") or not word.isalpha()
    if other or (word.endswith(("ed", "ing")) and word not in get_words("verbs")):
        return token
    if word.endswith(("s", "x", "z", "ch", "sh", "o")):
        return f"{token}es" if not word.endswith("s") or word.endswith("ss") else token
    if word.endswith("y") and word[-2:-1] not in "aeiou":
        return f"{token[:-1]}ies"
    return f"{token}s"


def _end_sentence(text: str) -> str:
    text = re.sub(r"!+$", ".", _SMILE.sub("", text).strip())
    if text and text[0].islower():
        text = text[0].upper() + text[1:]
    return text if text.endswith((".", "!", "?", "…", "”")) else f"{text}."


_TEMPLATED = frozenset("home employer role diet age birthday origin nationality pronouns name nickname".split())


def _find_rest(candidate: Candidate, text: str) -> set[str]:
    """Return the words of a statement that the short form of its claim would leave out."""
    known = get_attribute(candidate.attribute)
    short = f"{candidate.value} {candidate.subject.replace('/', ' ')} {known.words} {known.says} {known.denies}"
    closed = (get_words(kind) for kind in ("adverbs", "prepositions", "determiners", "auxiliaries", "persons"))
    return set(tokenize(text)).difference(tokenize(short), get_words("said_by_short_form"), *closed)


def word_claim(candidate: Candidate, text: str) -> str:
    """Return a claim as a sentence: the short form where it says all that was said, else the statement's own words."""
    speaker = candidate.speaker if candidate.subject != "user" and "/" not in candidate.subject else None
    bare = candidate.attribute == "employer" and (candidate.value or "").islower()  # its article was left out
    if candidate.attribute in _TEMPLATED and candidate.value and not bare and candidate.subject.split("/")[0] == "user":
        dated = RELATIVE.search(text)
        named = candidate.attribute == "name" and candidate.subject == "user"
        if named or text.rstrip().endswith("?") or not _find_rest(candidate, RELATIVE.sub(" ", text)):
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
    return to_third_person(text, speaker, instruction=instruction, elided=candidate.subject == "user")


_NAME = re.compile(
    r"(?:(?P<before>[\w’']+)[\s,:]+|^)"
    r"(?P<name>(?:(?:Dr|Mr|Mrs|Ms|Mme|Prof)\.? )?[A-ZÀ-Þ][a-zß-ÿ]+(?: [A-ZÀ-Þ][a-zß-ÿ]+)?)(?![\w’'-])"
)


def find_subject(said: TurnMessage, statement: str, earlier: str, *, about_other: bool) -> str:
    """Return whom a statement is about: the speaker, one of theirs (user/sister), or somebody it names.

    "She" is whom the words before spoke of last.
    """
    statement = drop_lead(statement)
    me = "user"
    if said.speaker and said.speaker.casefold() not in {"user", "human"}:
        me = normalize_subject(said.speaker)
    if statement.lower().startswith(_THIRD):
        return _find_person(earlier[-400:], me, last=True) or ("somebody" if about_other else me)
    stated = _find_stated(statement, me, about_other=about_other)
    if stated or not about_other:
        return stated or me
    opening = find_opening(statement)
    last = None if opening is not None and opening.subject else _find_person(earlier[-400:], me, last=True)
    return _find_person(statement, me) or last or "somebody"


def _find_stated(statement: str, me: str, *, about_other: bool) -> str | None:
    """Return whom the subject of a clause names. "My team" and "our oven" are the speaker's affairs."""
    opening = find_opening(statement)
    first, *rest = opening.subject.split() if opening is not None and opening.subject else [""]
    if first.lower() in {"i", "we"}:
        return me
    if first.lower() in {"my", "our"}:
        roles = [role for word in rest if (role := _find_role(re.sub(r"['’]s$", "", word.lower())))]
        return "/".join([me, *roles]) if "and" not in rest else me
    name = _NAME.match(" ".join([first, *rest]))
    acts = opening is not None and opening.verb in get_words("done_by_people")
    known = about_other or acts or first.lower() in get_words("given_names")
    return _resolve(name, me) if name and known and _is_person(name) else None


def _find_role(word: str) -> str | None:
    """Return the normal form of a role. An ex-wife is not a wife."""
    plain = word.removeprefix("ex-")
    role = find_role_word(plain)
    return f"ex-{role}" if role and plain != word else role


def _find_person(text: str, me: str, *, last: bool = False) -> str | None:
    found = [
        (match.start(), f"{me}/{role}")
        for match in KIN_NAMED.finditer(text)
        if (role := find_role_word(match["kin"].lower()))
    ]
    found += [(match.start(), _resolve(match, me)) for match in _NAME.finditer(text) if _is_person(match)]
    return None if not found else (max if last else min)(found)[1]


def _resolve(match: re.Match[str], me: str) -> str:
    """Return whom a name means: "Mum" is the speaker's mother."""
    role = find_role_word(match["name"].lower())
    return f"{me}/{role}" if role else normalize_subject(match["name"])


def _is_person(match: re.Match[str]) -> bool:
    """Return whether a name may be somebody's: "for Easter" and "in Porto" are not."""
    before, name = (match.groupdict()["before"] or "").lower(), match["name"]
    placed = before in get_words("prepositions") - {"with", "by"} or name.lower() in get_words("places")
    placed = placed or re.match(r"[A-ZÀ-Þ].*['’]s$", match["before"] or "") is not None  # "a Jehovah's Witness"
    return not placed and is_name(name) and name.lower() not in get_words("demonyms") | get_words("products")
