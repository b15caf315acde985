"""Answers to a question that the assistant just asked: "How old is she?" "Seven" says that the daughter is seven.

Only sure patterns: the question and its answer become the sentence that the speaker could have said instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from limpet.knowledge.english import get_words
from limpet.knowledge.english.assertions import is_opt_out
from limpet.knowledge.english.clause import find_role_word
from limpet.knowledge.english.opening import inflect
from limpet.search.analysis import split_sentences


class Answer(NamedTuple):
    """``words`` from ``start`` to ``end`` of a message answer a question; ``text`` is what they say in full."""

    start: int
    end: int
    text: str
    attribute: str
    value: str


_WHO = r"(?P<who>you|he|she|they|it|(?:your|his|her|their) (?:\w+ )?[\w-]+|[A-Z][\w-]+)"
_OWNER = r"(?P<who>your|his|her|its|their|your \w+['’]s|[A-Z]\w+['’]s)"
_NOW = r"(?: now| currently| these days| at the moment)?"
_PERSON = r"(?P<who>you|he|she|your (?:\w+ )?[\w-]+)"
_HOW = r"(?P<how> usually| normally| mostly| mainly)?"
_DOES = r"(?P<verb>[a-z]+)(?P<rest>(?: [\w'’]+){0,6}?)"
_DOING = r"(?P<doing>[a-z]{2,}ing)(?P<rest> (?:for|on|in|with|at))?"
_ASKS_MORE = r"(?:think|mean|want|need|do|say|know|feel|suggest|recommend|expect|see|plan|have|get|prefer)\b"
_NUMBER = re.compile(
    r"(?:(?:just )?turned |almost |nearly |about )?(?P<value>\d{1,3}|(?:(?:twenty|thirty|forty|fifty|sixty|seventy|"
    r"eighty|ninety)(?:[- ])?)?(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|"
    r"fifteen|sixteen|seventeen|eighteen|nineteen)?)(?: (?:years?|yrs?)(?: old)?)?",
    re.IGNORECASE,
)
_COUNT = re.compile(
    r"(?:just |only )?(?P<value>\d|one|two|three|four|five|six|seven|eight)(?: (?:kids|children))?", re.IGNORECASE
)
_PLACE = re.compile(
    r"(?i:(?:in|near|at|from|just outside(?: of)?|outside) )?(?P<value>[A-ZÀ-Þ][\w'’.-]+(?:,? (?:[A-ZÀ-Þ][\w'’.-]+|de|"
    r"la|do|am|upon|on)){0,3})"
)
_NAME = re.compile(r"(?:called |named )?(?P<value>[^\W\d_][\w'’-]*(?: [A-ZÀ-Þ][\w'’-]+){0,2})")
_DATE = re.compile(
    r"(?:on |in )?(?:the )?(?P<value>(?:\d{1,2}(?:st|nd|rd|th)?(?: of)? )?(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|"
    r"nov|dec)[a-z]*(?: (?:the )?\d{1,2}(?:st|nd|rd|th)?)?(?:,? \d{4})?|"
    r"\d{1,2}[./]\d{1,2}(?:[./]\d{2,4})?|\d{4}-\d\d-\d\d)",
    re.IGNORECASE,
)
_NICKNAME = re.compile(r"(?P<value>(?!Whatever|Anything)[A-ZÀ-Þ][\w'’-]*)(?: is fine| will do| please)?")
_AMOUNT = re.compile(
    r"(?P<value>(?:an? |one |two |three |four |five |six |seven |eight |\d{1,2} )[\w -]{2,40})", re.IGNORECASE
)
_JOB = re.compile(r"(?:(?:I work|work|working) as )?(?P<value>(?:an? )?[^\W\d_][\w-]*(?: [\w-]+){0,3})")
_THINGS = re.compile(r"(?i:to |at |for )?(?P<value>[^\W_][\w'’&.-]*(?:,? (?:and )?[\w'’&.-]+){0,4})")
_OBJECT = re.compile(
    r"(?!(?:stop|skip|next|leave|forget|ask|tell|never mind|none|whatever|the (?:first|second|third|last|former|latter|"
    r"same|other)|same|both|that|this|these|those)\b)" + _THINGS.pattern,
    re.IGNORECASE,
)  # no order, and nothing that was named before
_YES = re.compile(r"(?:yes|yeah|yep|yup|correct|right|i am|i do|she is|he is|she does|he does|that's right|indeed)\b")
_NO = re.compile(r"(?:no|nope|nah|i'm not|i am not|i don't|not)\b(?! (?:sure|really|yet|idea))")
_FILLERS = re.compile(
    r"(?:(?:oh|um+|uh+|hm+|well|so|yes|yeah|yep|ok|okay|sure|actually|ah|haha|right|it['’]?s|it is|that['’]?s|"
    r"she['’]?s|he['’]?s|they['’]?re|she is|he is|they are|i['’]?m|i am|that would be|his name is|her name is|"
    r"its name is|my name is|her name['’]?s|his name['’]?s|we call (?:him|her|it)|just)\b[\s,.:!–—-]*)+",
    re.IGNORECASE,
)
_STOP = re.compile(
    r"[,;:!.](?=\s|$)|\s[–—-]\s|\s(?:and|but) (?=(?:s?he|i|we|they|it|my)\b)", re.IGNORECASE
)  # what follows is said beside the answer
_UNSURE = re.compile(
    r"\?|\b(?:not sure|don['’]t know|dunno|no idea|maybe|perhaps|guess|rather not|prefer not|secret|why|none|nothing|"
    r"nowhere|nobody|depends|can['’]t say|doesn['’]t|isn['’]t|not|never|no|joking|kidding|wish)\b",
    re.IGNORECASE,
)
_STATES = (
    r"(?:an? )?(?:vegetarian|vegan|pescatarian|coeliac|celiac|diabetic|asthmatic|married|single|engaged|divorced|"
    r"widowed|left-handed|right-handed|colou?r-?blind|deaf|pregnant|retired|lactose[- ]intolerant|gluten[- ]intolerant|"
    r"allergic to (?!any|some)[\w ]{2,30}|from [A-Z][\w ]{2,30})"
)


class _Pattern(NamedTuple):
    question: re.Pattern[str]
    answer: re.Pattern[str]
    text: str  # with {who}, {whose}, {is}, {s} and {value}
    attribute: str


def _ask(question: str, answer: re.Pattern[str], text: str, attribute: str) -> _Pattern:
    return _Pattern(re.compile(rf"(?:^|[\s,]){question}{_NOW}\s*\?$", re.IGNORECASE), answer, text, attribute)


_PATTERNS = (
    _ask(rf"how old (?:is|are) {_WHO}(?: turning)?", _NUMBER, "{who} {is} {value}", "age"),
    _ask(rf"where (?:do|does) {_WHO} live", _PLACE, "{who} live{s} in {value}", "home"),
    _ask(rf"where (?:are|is) {_WHO} (?:based|living)", _PLACE, "{who} live{s} in {value}", "home"),
    _ask(r"(?:which|what) (?:city|town|country) do (?P<who>you) live in", _PLACE, "{who} live in {value}", "home"),
    _ask(rf"where (?:are|is) {_WHO} (?:originally )?from(?: originally)?", _PLACE, "{who} {is} from {value}", "origin"),
    _ask(rf"where (?:do|does) {_WHO} work", _THINGS, "{who} work{s} at {value}", "employer"),
    _ask(rf"who (?:do|does) {_WHO} work for", _THINGS, "{who} work{s} for {value}", "employer"),
    _ask(rf"what(?:['’]s| is| are) {_OWNER} names?", _NAME, "{whose} name is {value}", "name"),
    _ask(r"what(?:['’]s| is) (?P<who>your (?:\w+ )?\w+|he|she|it) called", _NAME, "{who} is called {value}", "name"),
    _ask(r"what did you (?:name|call) (?P<who>your \w+|him|her|it|them)", _NAME, "{who} is called {value}", "name"),
    _ask(rf"when(?:['’]s| is) {_OWNER} birthday", _DATE, "{whose} birthday is {value}", "birthday"),
    _ask(rf"when (?:were|was) {_WHO} born", _DATE, "{whose} birthday is {value}", "birthday"),
    _ask(rf"what (?:do|does) {_WHO} do(?: for (?:a living|work))?", _JOB, "{who} {is} {value}", "role"),
    _ask(r"what(?:['’]s| is) (?P<who>your) (?:job|profession|occupation)", _JOB, "I am {value}", "role"),
    _ask(rf"what (?:are|is) {_WHO} allergic to", _THINGS, "{who} {is} allergic to {value}", "allergy"),
    _ask(r"(?:are|is) (?P<who>you|she|he|your \w+) allergic to any\w*(?: foods?)?", _THINGS,
         "{who} {is} allergic to {value}", "allergy"),
    _ask(r"(?:do (?P<who>you) have )?any (?:food )?allergies(?: I should know about)?", _THINGS,
         "I am allergic to {value}", "allergy"),
    _ask(rf"(?:what|which) languages? (?:do|does) {_WHO} speak", _THINGS, "{who} speak{s} {value}", "language"),
    _ask(rf"what (?:do|does|are|is) {_WHO} study(?:ing)?", _THINGS, "{who} stud{ies} {value}", "studies"),
    _ask(r"what are (?P<who>your) pronouns", _THINGS, "My pronouns are {value}", "pronouns"),
    _ask(r"what(?:['’]s| is) (?P<who>your) (?P<what>favou?rite \w+|time ?zone|email(?: address)?|phone number)",
         _THINGS, "My {what} is {value}", ""),
    _ask(r"(?:what|how) (?:should|can|may) I (?:call|address) (?P<who>you)", _NICKNAME, "Call me {value}", "name"),
    _ask(r"(?:do (?P<who>you) have )?(?:any )?(?P<what>kids|children|siblings|brothers or sisters)", _COUNT,
         "I have {value} {what}", "family"),
    _ask(r"(?:do (?P<who>you) have )?any (?:pets|animals)(?: [\w' ]{1,40})?", _AMOUNT, "I have {value}", "pet"),
    # Any other: the verb of the question is the verb of the answer.
    _ask(rf"what time (?:do|does) {_PERSON}{_HOW} {_DOES}", _OBJECT, "{who}{how} {verb}{rest} at {value}", ""),
    _ask(rf"when (?:do|does) {_PERSON}{_HOW} (?!{_ASKS_MORE}){_DOES}", _OBJECT, "{who}{how} {verb}{rest} {value}", ""),
    _ask(rf"(?:what|which)(?: [\w ]{{1,30}}?)? (?:do|does) {_PERSON}{_HOW} (?!{_ASKS_MORE}){_DOES}", _OBJECT,
         "{who}{how} {verb} {object}", ""),
    _ask(rf"(?:what|which) [\w ]{{1,30}}? (?:are|is) {_PERSON} {_DOING}", _OBJECT, "{who} {is} {doing} {object}", ""),
)  # fmt: skip
_YES_NO = re.compile(
    rf"(?:^|[\s,])(?:are|is) (?P<who>you|he|she|your [\w-]+) (?:also |still )?(?P<state>{_STATES})\s*\?$", re.IGNORECASE
)
_ATTRIBUTES = {
    "allergic": "allergy", "vegetarian": "diet", "vegan": "diet", "pescatarian": "diet", "married": "relationship",
    "single": "relationship", "engaged": "relationship", "divorced": "relationship", "from": "origin",
}  # fmt: skip
_FEMALE = frozenset("mother sister daughter wife girlfriend aunt grandmother niece fiancee".split())
_MALE = frozenset("father brother son husband boyfriend uncle grandfather nephew fiance".split())


def complete_answer(message: str, before: Sequence[str]) -> Answer | None:
    """What the beginning of a message says in full, where the last text ``before`` it ends with a question.

    Texts before are the user's and the assistant's in turn, the last one the assistant's.
    """
    asked = _find_question(before[-1]) if before else None
    if asked is None or is_opt_out(message):
        return None
    first = next(iter(split_sentences(message)), None)
    if first is None or first.text.rstrip().endswith("?"):
        return None
    found = _answer_yes_no(asked, first.text, before) or _fill(asked, first.text, before)
    return None if found is None else found._replace(start=first.start, end=first.start + found.end)


def _find_question(text: str) -> str | None:
    sentences = list(split_sentences(text[-1000:]))
    last = sentences[-1].text.strip() if sentences else ""
    return last if last.endswith("?") else None


def _answer_yes_no(asked: str, said: str, before: Sequence[str]) -> Answer | None:
    match = _YES_NO.search(asked)
    if match is None:
        return None
    who = _name_subject(match["who"], before)
    lowered = said.lower().lstrip()
    agrees, denies = _YES.match(lowered), _NO.match(lowered)
    if who is None or not (agrees or denies) or len(said.split()) > 4:
        return None
    state = match["state"]
    is_ = "am" if who == "I" else "is"
    text = f"{_capitalize(who)} {is_} {'' if agrees else 'not '}{state}."
    value = re.sub(r"^(?:an? |allergic to |from )", "", state)
    return Answer(0, len(said), text, _ATTRIBUTES.get(state.split()[0].lower(), "health"), value)


def _fill(asked: str, said: str, before: Sequence[str]) -> Answer | None:
    for pattern in _PATTERNS:
        match = pattern.question.search(asked)
        who = None if match is None else _name_subject(match["who"] or "you", before)
        if match is None or who is None:
            continue
        lead = _FILLERS.match(said)
        start = lead.end() if lead else 0
        stop = _STOP.search(said, start)
        end = stop.start() if stop else len(said)
        words = said[start:end].strip()
        full = pattern.answer.fullmatch(words)
        if full is None or not full["value"] or _UNSURE.search(words) or len(words.split()) > 6:
            return None
        value = full["value"].strip()
        if pattern.answer is _NUMBER or value.split()[0].lower() in get_words("determiners"):
            value = f"{value[0].lower()}{value[1:]}" if pattern.answer is not _NUMBER else value.lower()
        return Answer(0, end, _write(pattern, match, who, value), pattern.attribute, value)
    return None


def _write(pattern: _Pattern, question: re.Match[str], who: str, value: str) -> str:
    mine, asked = who == "I", {name: words or "" for name, words in question.groupdict().items()}
    if pattern.attribute == "role" and not re.match(r"an? |the |retired|unemployed|self", value, re.IGNORECASE):
        value = f"{'an' if value[0].lower() in 'aeiou' else 'a'} {value}"
    words = {
        "who": who,
        "whose": "my" if mine else f"{who}'s",
        "value": value,
        "is": "am" if mine else "is",
        "s": "" if mine else "s",
        "ies": "y" if mine else "ies",
        "verb": inflect(asked["verb"]) if asked.get("verb") and not mine else asked.get("verb"),
    }
    return _capitalize(pattern.text.format(**{**asked, **words, "object": _place(value, asked.get("rest", ""))}) + ".")


def _place(value: str, rest: str) -> str:
    """The answer and what the question has behind its verb: "Granny Smith in a pie", but "to the Y"."""
    ahead = rest.startswith(" to ") or rest.rpartition(" ")[2].lower() in get_words("prepositions")
    return f"{rest.strip()} {value}" if ahead else f"{value}{rest}"


def _capitalize(text: str) -> str:
    return text[:1].upper() + text[1:]


def _name_subject(who: str, before: Sequence[str]) -> str | None:
    """Whom the question is about, as the speaker says it: I, my daughter, a name. None where that is not clear."""
    lowered = who.lower()
    if lowered in {"you", "your"}:
        return "I"
    if lowered.startswith("your "):
        return f"my {who[5:].removesuffix(chr(39) + 's').removesuffix('’s')}"
    if lowered in {"she", "her"}:
        return _find_last(before, lambda role: role not in _MALE)
    if lowered in {"he", "him", "his"}:
        return _find_last(before, lambda role: role not in _FEMALE)
    if lowered in {"it", "its"}:
        return _find_last(before, lambda role: role in get_words("pets"))
    if lowered in {"they", "them", "their"} or " " in who:
        return None
    return re.sub(r"['’]s$", "", who)


def _find_last(before: Sequence[str], fits: Callable[[str], bool]) -> str | None:
    """The relative or pet that was spoken of last."""
    for text in reversed(before):
        found = [
            word
            for match in re.finditer(r"\b(?:my|our|your)\s+((?:[\w-]+\s+){0,2}[\w-]+)", text, re.IGNORECASE)
            if (word := next((each for each in match[1].lower().split() if find_role_word(each)), None))
            and fits(find_role_word(word) or "")
        ]
        if found:
            return f"my {found[-1]}"
    return None
