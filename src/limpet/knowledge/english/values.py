"""A rule about a person, and parsing its value from the clause."""

from __future__ import annotations

import re
from collections.abc import Callable

from limpet.knowledge.english.lexicon import GIVEN_NAMES, LANGUAGES, OCCUPATIONS, PLACES, PRODUCTS, SHORT_PLACES
from limpet.model.dataclass import dataclass
from limpet.model.record import Layer, RecordType

_EVER = (
    r"because|since|but|when|while|although|though|tho|if|so|now|currently|lately|recently|these days|nowadays|"
    r"at all|"
    r"right now|at the moment|again|btw|lol|haha|tbh|rn|atm|by the way|anyway|please|who|which|instead|"
    r"last (?:week|month|year|spring|summer|"
    r"autumn|fall|winter|night|weekend|thursday|friday|monday|tuesday|wednesday|saturday|sunday)|next \w+|"
    r"this (?:week|"
    r"month|year|spring|summer|autumn|fall|winter)|yesterday|ages ago|(?:\w+ )?(?:years?|months?|weeks?) ago|n"
)
_PLACE_STOP = re.compile(
    rf"\s+(?:{_EVER}|for|with|where|that|and|as|before|after|until|in|on|around|near|from|to|by|originally|"
    rf"together|full[- ]time|at|all (?:my|his|her|our) life|all along|forever|"
    r"too|also|permanently|alone|yet|during|half|most|part|already|either|anymore|today|tonight|tomorrow|"
    r"rn|atm|tbh|lol|rather|over|via|because|cause|cuz)\b|[;.!?():]|,(?!\s[A-Z])|\s[-–—]\s|,\s(?:I|My|We)\b",
)
_ORG_STOP = re.compile(
    rf"\s+(?:{_EVER}|for (?=\d|like|ages|about|over|almost|nearly|the past|the last|a (?:year|while|decade)|two|"
    rf"three|four|five|ten|years)|with|where|that|as|before|after|until|in|on|around|near|from|by|"
    rf"full[- ]time|"
    rf"part[- ]time|called|named|"
    r"too|also|doing|and|today|tonight|tomorrow|full time)\b|[;,!?():]|(?<!\bSt)\.\s|\s[-–—]\s",
)
_ROLE_STOP = re.compile(
    r"\s+(?:at|for|in|with|who|by|from|and|but|so|now|working|currently|living|because|on|based|these|"
    r"since|specializ\w+|"
    r"specialis\w+|or|too|n|as|there|here|again|myself)\b|[;,.!?():]|\s[-–—]\s",
)
_THING_STOP = re.compile(
    rf"\s+(?:{_EVER}|a lot(?=$|[,.!])|so much|that much|"
    r"very much|more than anything|too|either|though|as well|in general|as a kid|"
    r"any ?more|in case|especially|here|and (?:I|my|we|he|she)\b)(?=\s|$|[,.!?])|[;!?(]|\.(?:\s|$)|,\s|\s[-–—]\s|:\s",
    re.IGNORECASE,
)
_SPAN_STOP = re.compile(rf"\s+(?:{_EVER})\b|[;!?(]|\.(?:\s|$)|,\s|\s[-–—]\s", re.IGNORECASE)
_VAGUE = re.compile(
    r"(?:it|this|that|these|those|them|him|her|you|your|yours|me|us|how|what|when|why|where|who|"
    r"everything|nothing|anything|"
    r"something|regularly|daily|often|mostly|mine|his|hers|theirs|the (?:way|idea|fact|sound|look|first|second|"
    r"third|former|latter|same|one|"
    r"other|thing|last|new (?:logo|"
    r"version|design))|to (?:see|know|think|hear|say|ask|point|add|thank|make sure|be|have|go ahead|"
    r"try|use this)|being|"
    r"their|its|the (?:\w+ ){0,4}(?:ideas?|suggestions?|options?|approach|plan|concept)\b|my (?:mom|dad|mum|parents)|"
    r"some (?:things|of|parts)|I|he|she|they|we|everywhere|there|here|one|ones|more|all|another|so|such|as|than|"
    r"and|or|but|with|to)\b",
    re.IGNORECASE,
)
# Unclear later.
_POINTS_ELSEWHERE = re.compile(
    r"\b(?:it|him|them|they|this|these|those|your|you)\b(?! (?:year|month|week|spring|summer))", re.IGNORECASE
)
_IN_JEST = re.compile(
    r"(?:mornings?|mondays?|work|people|bull\w*|drama|stupid\w*|idiots|exercise|commitment|fun|responsibility|"
    r"adulting|"
    r"meetings?|small talk|nonsense|waking up|getting up|cleaning|cooking|math|bad code)\b",
    re.IGNORECASE,
)
_UNFINISHED = re.compile(r"\b(?:of|with|to|for|in|on|at|by|the|a|an|and|or|about|from)$", re.IGNORECASE)
_ARTICLE = re.compile(r"(?:the|a|an|my|our|his|her|some|this)\s+", re.IGNORECASE)
_NO_PLACES = re.compile(
    r"(?:a|an|the)?\s*(?:fear|bubble|past|peace|hope|house|apartment|flat|present|moment|dream|future|"
    r"city|town|village|"
    r"country|world|same|area|building|right place|middle|big city|suburbs|countryside|closet|room|next|new|my|"
    r"his|her|"
    r"our|their|your|there|here|sin|denial|english|general|it|this|that|hell|heaven|another|different|bed|line)\b",
    re.IGNORECASE,
)
_NO_EMPLOYERS = re.compile(
    r"(?:home|night|nights|fun|free|a living|me|you|him|her|us|them|it|this|that|the moment|least|all|"
    r"once|hours|money|the "
    r"weekend|my desk|peace|what|everyone|anyone|both|most|some|many|\d|a while|years|days|now|the "
    r"(?:same|time)|all|(?:a|an|the|this|that) (?:\w+ )?(?:place|job|project|company|problem|task|presentation|"
    r"report|"
    r"deadline|thing|essay|paper)$)\b",
    re.IGNORECASE,
)
_CALLED = re.compile(r"(?:a|an|the|this) [\w -]{2,30}? (?:called|named) ([A-Z][\w&.-]*(?: [A-Z][\w&.-]*)*)")
_ERRAND = re.compile(
    r"(?:the )?(?:\w+day\b|walmart|target|costco|ikea|starbucks|tesco|aldi|lidl|sainsbury|trader joe|whole foods|"
    r"mcdonald)",
    re.IGNORECASE,
)
# People join and leave people and days as well as companies.
_NO_COMPANIES = (GIVEN_NAMES - {"morgan", "wells", "stanley", "goldman", "philip", "wayne"}) | frozenset(
    """monday tuesday wednesday thursday friday saturday sunday january february march april may june july august
    september october november december mom dad mum christmas easter""".split()
)
_NO_PRODUCTS = frozenset("office rest teams express spring linear node unity spark remix solid vault".split())
# "A great teacher" may be any person.
_PRAISE = frozenset(
    "great good amazing wonderful fantastic excellent terrible bad talented brilliant lousy better awful real".split()
)
_JUNK_END = re.compile(r"[\s,.;:!?*_\"”)]+$")


# A list continues after its commas: "rye, oats and barley".
_LIST = re.compile(
    r"[\w'-]+(?: [\w'-]+){0,3}(?:, [\w'-]+(?: [\w'-]+){0,2}){1,4},? and [\w'-]+(?: [\w'-]+)?(?=$|[,.!;])"
)


def _tidy(text: str) -> str:
    return _JUNK_END.sub("", text.strip().strip("\"“”'*_")).strip()


def _cut(text: str, stop: re.Pattern[str]) -> str:
    match = stop.search(text)
    return _tidy(text[: match.start()] if match else text)


def parse_place(text: str) -> str | None:
    """Parse a place, which has a name. In text without capitals it is lowercase."""
    value = _cut(text, _PLACE_STOP)
    if not value or len(value.split()) > 7:
        return None
    if is_product(value):
        return None
    if re.match(r"an? ", value):
        return None  # "a small town near Graz" has a name that is not stated
    if any(word[0].isupper() for word in re.findall(r"[^\W\d_]+", value)):
        return value
    return None if _NO_PLACES.match(value) or len(value.split()) > 2 or text != text.lower() else value


def parse_product(text: str) -> str | None:
    """Parse the name of a tool, a language or a service, with its purpose."""
    value = parse_thing(text)
    return value if value and is_product(value) and value.split()[0].casefold() not in _NO_PRODUCTS else None


def parse_tools(text: str) -> str | None:
    """Parse tool names only: "Vim and tmux" in "Vim and tmux on an old laptop"."""
    match = re.match(r"[\w.+#-]+(?:(?:, and|,| and) (?!I\b|we\b|it\b|then\b)[\w.+#-]+){0,3}", text)
    if match is None:
        return None
    first = re.split(r"[\s,]", match.group(), maxsplit=1)[0].casefold().strip(".")
    return match.group().strip(".") if first in PRODUCTS and first not in _NO_PRODUCTS else None


def is_product(name: str) -> bool:
    """Teams move to Kubernetes, and data lives in S3."""
    first = name.split(maxsplit=1)[0].strip(",'’")
    if first.casefold() in PRODUCTS or re.search(
        r"[a-z]{2}[A-Z]|\d|\.\w|[+#_/]", re.sub(r"\bMa?c(?=[A-Z])", "", first)
    ):
        return True
    return first.isupper() and 1 < len(first) <= 3 and first.isascii() and first.casefold() not in SHORT_PLACES


def parse_new_place(text: str) -> str | None:
    """Parse where a person moved to; the last of several stops."""
    further = re.split(r"(?:,| and| then)(?: then| later| finally| now)? to (?=[A-Z])", text)
    return parse_place(further[-1])


def parse_named_place(text: str) -> str | None:
    value = parse_place(text)
    known = value and (re.match(r"(?:the )?[A-ZÀ-Þ]", value) or value in PLACES)
    return value if known else None


def parse_destination(text: str) -> str | None:
    """Parse a place a person visited, if it is worth storing: no shop and no Sunday mass."""
    value = parse_named_place(text)
    return None if value is None or _ERRAND.match(value) else value


def parse_employer(text: str) -> str | None:
    if called := _CALLED.match(text):
        return called[1]
    value = _cut(text, _ORG_STOP)
    if not value or len(value.split()) > 7 or _NO_EMPLOYERS.match(value):
        return None
    named = value[0].isupper() or _ARTICLE.match(value)
    return _ARTICLE.sub("", value, count=1) if named or len(value.split()) == 1 else None


def parse_named_employer(text: str) -> str | None:
    """Parse an employer after a role, where "for fun" and "for ten years" may follow as well."""
    value = parse_employer(text)
    return value if value and any(word[0].isupper() for word in value.split()) else None


def parse_organisation(text: str) -> str | None:
    """Parse a named employer, after general verbs such as "joined" and "left"."""
    if called := _CALLED.match(text):
        return called[1]
    value = _cut(text, _ORG_STOP)
    if not value or not value[0].isupper() or value.endswith(("'s", "’s")):
        return None
    name = re.match(r"[A-Z0-9][\w&.'’-]*(?: (?:of |for |and |& )?[A-Z0-9][\w&.'’-]*)*", value)
    if name is None or name.end() < len(value):
        return None  # "left Google Docs open" is not an employer
    first = value.split()[0].casefold().removesuffix("'s").removesuffix("’s")
    return None if first in _NO_COMPANIES or value.casefold() in PLACES or len(value.split()) > 5 else value


def parse_role(text: str) -> str | None:
    value = _cut(text, _ROLE_STOP)
    words = value.lower().replace(" of ", " ").split()
    if words and (words[0] in _PRAISE or words[-2:] == ["role", "model"]):
        return None
    known = words and (words[-1] in OCCUPATIONS or words[0] in {"head", "director", "vp", "lead", "chief"})
    if words and not known and len(words) > 1 and words[-1] in {"student", "worker", "servant", "owner", "assistant"}:
        known = True
    return value if known and len(words) <= 6 else None


def parse_any_role(text: str) -> str | None:
    """Parse what follows "work as": always a role."""
    value = _cut(text, _ROLE_STOP)
    settled = value and not re.match(r"(?:yet|still|not|to be|unclear|undecided)\b", value, re.IGNORECASE)
    return value if settled and len(value.split()) <= 6 and not _VAGUE.match(value) else None


def parse_promoted_role(text: str) -> str | None:
    value = _cut(text, re.compile(r"\s+(?:at|in|with|and|but|last|this|yesterday|today)\b|[;,.!?():]"))
    return (
        value
        if value and len(value.split()) <= 6 and not re.search(r"\d|\bago\b|\b(?:months|weeks|years)\b", value)
        else None
    )


def parse_thing(text: str) -> str | None:
    """Parse what is liked, used or owned: not a pronoun, not half a sentence."""
    listed = _LIST.match(text)
    value = _tidy(listed.group()) if listed else _cut(text, _THING_STOP)
    if not value or len(value.split()) > 9 or _UNFINISHED.search(value):
        return None
    if _VAGUE.match(value) or _POINTS_ELSEWHERE.search(value):
        return None
    return value if any(map(str.isalpha, value)) else None


def parse_choice(text: str) -> str | None:
    """Parse what is preferred, without the alternative."""
    return (
        None
        if re.match(r"not\b", text, re.IGNORECASE)
        else parse_thing(re.split(r" (?:over|rather than|instead of|to|than) ", text, maxsplit=1)[0])
    )


def parse_allergen(text: str) -> str | None:
    """Reject jokes: "allergic to Mondays"."""
    value = parse_thing(re.sub(r" (?:in|since) (?:[A-Z][a-z]+|\d{4})\b.*", "", text))
    if value is None or _IN_JEST.match(value):
        return None
    return (
        None
        if re.match(r"my (?!(?:\w+ )?(?:cats?|dogs?|pets?|rabbits?|medication|meds)\b)", value, re.IGNORECASE)
        else value
    )


def parse_bare_thing(text: str) -> str | None:
    value = parse_thing(text)
    return _ARTICLE.sub("", value, count=1) or None if value else None


def parse_deed(text: str) -> str | None:
    """Parse a plan with its time."""
    value = _tidy(re.split(r"[;!?(]|\.\s|\s[-–—]\s|,\s|\s(?:because|but|so that|so|since|if)\s", text, maxsplit=1)[0])
    if _POINTS_ELSEWHERE.search(value):
        return None
    return value if value and 1 < len(value.split()) <= 16 else None


def parse_intent(text: str) -> str | None:
    """Parse a plan that may be one word: retiring."""
    return parse_deed(text) or _tidy(text) or None


def parse_span(text: str) -> str | None:
    value = re.sub(r"^(?:actually |really |on )+", "", _cut(text, _SPAN_STOP))
    return value if value and len(value.split()) <= 8 and not _UNFINISHED.search(value) else None


def parse_languages(text: str) -> str | None:
    """Parse a list; if more is said of each item, only the names: French in "French at work"."""
    listed = re.match(
        r"[\w-]+(?:(?:, and|,| and| but| plus) (?:(?:some|a bit of|a little|fluent|basic|broken|good|"
        r"also) )?[\w-]+){0,6}"
        r"(?=$|[.!;])",
        text,
    )
    if listed:
        return _tidy(listed.group())
    named = dict.fromkeys(word for word in re.findall(r"[\w-]+", text) if word.casefold() in LANGUAGES)
    first, *others = named or [""]
    return first if not others else f"{', '.join([first, *others[:-1]])} and {others[-1]}"


def parse_value(text: str) -> str | None:
    return _tidy(text) or None


# A rule about a person: what it matches in a predicate, and the fact it produces


@dataclass(frozen=True, slots=True)
class Rule:
    """``when`` says which aspects it accepts: ``now`` (also denied or over), ``future``, ``any`` of both.

    ``over``: the words themselves say that something ended. ``denies``: they say that it is not so.
    """

    attribute: str
    pattern: re.Pattern[str]
    value: Callable[[str], str | None] = parse_value
    type: RecordType = RecordType.FACT
    layer: Layer = Layer.SEMANTIC
    exclusive: bool = False
    when: str = "now"
    over: bool = False
    denies: bool = False
    confidence: float = 0.85
    salience: float = 0.6
    tags: tuple[str, ...] = ()
    fixed: str | None = None  # the value, if the words only imply it


@dataclass(frozen=True, slots=True)
class RuleMatch:
    """What a rule matched, before it is linked to its message."""

    type: RecordType
    subject: str
    attribute: str | None = None
    value: str | None = None
    layer: Layer = Layer.SEMANTIC
    exclusive: bool = False
    polarity: bool = True
    confidence: float = 0.8
    salience: float = 0.5
    tags: tuple[str, ...] = ()
    content: str | None = None  # the sentence, if there is no shorter form


def compile_pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.IGNORECASE)
