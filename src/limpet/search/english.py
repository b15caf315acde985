"""What search knows of English, as data: filler words, kinds of question, time expressions, ends of sentences.

To support another language, replace these lists.
"""

from __future__ import annotations

import re

MONTHS = "January February March April May June July August September October November December".split()
WEEKDAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
_CALENDAR = [*WEEKDAYS, *(month.lower() for month in MONTHS)]
NUMBERS = {
    word: number
    for number, word in enumerate("one two three four five six seven eight nine ten eleven twelve".split(), 1)
}

# Words

STOP_WORDS = frozenset(
    """a an and are as at be been but by did do does for from had has have he her him his how i if in into is it
    its me my of on or our she so than that the their them then there these they this those to us was we were
    what when where which who whom whose why will with would you your am being could should can't don't i'm it's
    you're""".split()
)
# They say that something is asked, not what. In a question without other words they count fully.
FILLER_WORDS = """
can could some any about not no all just more most very much many up out also get got please tell know let
one like give want need us too here now over such only own same other both each few suggest suggestion suggestions
recommend recommendation recommendations tip tips advice idea ideas help think thinking remind mention mentioned discuss
discussed talk talked chat conversation conversations previous previously earlier said say wondering"""
# They say when: a date answers them, not a text that repeats them.
TIME_WORDS = " ".join(
    (
        "ago last next past previous yesterday today tomorrow day days week weeks weekend month months year years",
        "couple few",
        *_CALENDAR,
        *NUMBERS,
        *map(str, range(1, 32)),
    )
)
# A text with one of them says when something happens.
DATING_WORDS = frozenset(
    """yesterday today tonight tomorrow ago last next week weeks weekend month months year years day days morning
    evening recently soon since spring summer fall autumn winter""".split()
).union(_CALENDAR, map(str, range(1900, 2100)))
# Every standing wish contains one of these: most texts need no closer look, which is one at small letters.
WISH_WORDS = frozenset("always never now whenever sure prefer ask preference rather like".split())
STANDING_WISH = re.compile(
    r"(?:^|[.!?]\s+)(?:please )?(?:always|never|from now on|whenever|make sure (?:to|you))\b"
    r"|\b(?:i (?:really |would |'d |strongly |generally )?prefer|i(?:'d| would) (?:rather|like))\b"
    r"|\b(?:when i ask|my preference)\b"
)

# A reply of these and at most one other word takes notice of what was said, and says nothing itself.
REPLY_WORDS = """
noted okay ok understood thanks thank sure great good nice cool congratulations congrats lovely sweet wonderful sorry
hear glad course luck welcome enjoy care exciting know telling sounds awesome fine perfect hello hi hey morning evening
meet help hope goes well pleasure got keep mind"""

# Questions

ASKS_WHEN = re.compile(
    r"\bwhen\b|\bwhat (?:date|day|month|year|time)\b|\bhow (?:long|many (?:days|weeks|months|years))\b", re.IGNORECASE
)
ASKS_BACK = re.compile(
    r"\b(?:original(?:ly)?|previous(?:ly)?|former(?:ly)?|back then|used to|at the time|in the beginning|ago"
    r"|last (?:week|month|year|time))\b"
    # Other words mean the past only beside a past tense: "before Tuesday" and "what comes first" are of today.
    r"|\b(?:did|was|were|had|been)\b.*\b(?:first|initial(?:ly)?|earlier|before|changed?)\b"
    r"|\b(?:first|initial(?:ly)?|earlier|before|changed?)\b.*\b(?:did|was|were|had|been)\b"
    r"|\bbefore\W*$|\bwhat (?:has )?changed\b",
    re.IGNORECASE,
)
ABOUT_ASSISTANT = re.compile(
    r"\b(?:remind me|you (?:\w+ )?(?:said|told|suggested|recommended|gave|mentioned|provided|listed|wrote|described"
    r"|explained|shared|advised|helped|came up|showed|created|made)|(?:did|had|have|were) you"
    r"|your (?:previous |last |earlier )?(?:suggestion|recommendation|advice|answer|reply|response|list|explanation)s?"
    r"|(?:we|we've|we had) (?:\w+ )?(?:discussed|talked|spoke|chatted|went over)"
    r"|our (?:previous|last|earlier|past) \w+)\b",
    re.IGNORECASE,
)
REQUEST = re.compile(
    r"^(?:can|could|would|will) you|^(?:please|show|help|suggest|recommend|give|write|explain"
    r"|what (?:are|should|would|libraries|tools)|how (?:should|can|do|would))"
    r"|\b(?:suggest|recommend|advice|tips|ideas|help me)\b",
    re.IGNORECASE,
)
# How a message begins that asks for something, with or without a question mark.
ASKS_FOR = re.compile(
    r"(?:(?:hi|hey|ok|please|and|so)\b[\s,!]*)*(?:(?:what|where|which|how|when|why|who)(?:['’]s)?\b"
    r"|(?:can|could|would|will|do|does|is|are|should) (?:you|i|we|it|there|that|this)\b"
    r"|(?:show|help|suggest|recommend|give|write|explain|draft|tell|find|make|list) (?:me|us|an?|the)\b"
    r"|(?:suggest|recommend|explain|draft|translate|spell|summari[sz]e|convert|compare|define|calculate)\b"
    r"|any (?:idea|tips|ideas)\b)",
    re.IGNORECASE,
)
# What asks for something may also say something: of the user ("do I" says nothing), or in another clause.
SAYS_BESIDE = re.compile(
    r"(?<!\bdo )(?<!\bdid )(?<!\bcan )(?<!\bcould )(?<!\bshould )(?<!\bshall )\b(?:i|we)\b"
    r"|\b(?:my|mine|myself|our|ours)\b|[,:;—\n]|[.!?]\s",
    re.IGNORECASE,
)
ASKS_AMOUNT = re.compile(
    r"\bhow (?:much|many|long|old|far|big|tall|often)\b|\bwhen\b|\bwhat (?:time|price|number|size)\b", re.IGNORECASE
)

# Times in a question: "last Tuesday", "in March", "two weeks ago", "8 May 2023"

AMOUNTS = NUMBERS | {"a": 1, "an": 1, "few": 3, "a few": 3, "couple of": 2, "a couple of": 2}
UNIT_DAYS = {"day": 1.0, "week": 7.0, "month": 30.4, "year": 365.25}
UNIT_SLACK = {"day": 0.0, "week": 2.0, "month": 10.0, "year": 60.0}
# Also ordinary words: they mean a month only next to a word that says so.
AMBIGUOUS_MONTHS = ("may", "march", "mar")
_MONTH = (
    r"(jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sep(?:t(?:ember)?)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
_AMOUNT = r"(\d{1,4}|" + "|".join(sorted(AMOUNTS, key=len, reverse=True)) + ")"
DAY_MONTH = re.compile(rf"\b(\d{{1,2}})(?:st|nd|rd|th)?(?: of)? {_MONTH}\b,?(?: (\d{{4}}))?")
MONTH_DAY = re.compile(rf"\b{_MONTH} (\d{{1,2}})(?:st|nd|rd|th)?\b(?:,? (\d{{4}}))?")
MONTH_ALONE = re.compile(
    rf"(\b(?:in|of|during|since|early|late|mid|last|this|by|until|from) )?\b{_MONTH}\b(?:,? (?:of )?(\d{{4}}))?"
)
YEAR = re.compile(r"\b(?:in|during|of|since) ((?:19|20)\d\d)\b")
AGO = re.compile(rf"\b{_AMOUNT} (day|week|month|year)s? ago\b")
LAST_ONE = re.compile(rf"\b(?:last|past|previous) ({'|'.join(WEEKDAYS)}|week(?:end)?|month|year)\b")
LAST_MANY = re.compile(rf"\b(?:last|past|previous) {_AMOUNT} (day|week|month|year)s?\b")

# Sentences

QUESTION_END = re.compile(r"[.!?…]+[\"')\]]*(?:\s|$)")
# "I'm vegan, is there anything for me?": it asks, but says something first.
STATEMENT_FIRST = re.compile(
    r"\W*(?:(?:so|and|but|well|ok|okay|hi|hello|hey|also|oh|thanks|sorry)\b[\s,]*){0,4}"
    r"(?:(?:since|because|as|now that|given that)\s+)?(?:i|we|my|our)\b(?:['\u2019](?:m|re|ve|d|ll))?\s+"
    r"(?!(?:\w+\s+)?(?:wonder|wondering|curious|guess)\b).{3,400}?[,;:\u2013\u2014-]\s*(?:and\s+|but\s+|so\s+)?"
    r"(?:can|could|would|will|do|does|did|is|are|was|were|should|may|might|has|have|any"
    r"|what|how|why|which|when|where|who)\b",
    re.IGNORECASE | re.DOTALL,
)
# A mark ends a sentence only before white space: 3.14, main.py and v1.2 stay whole.
SENTENCE_END = re.compile(r"[.!?…]{1,50}[\"')\]”’»*_]{0,5}(?=\s|$)|[。！？]{1,50}|[/]s(?=\s*$)|\n")
ABBREVIATION = re.compile(
    r"(?:^|[\s(])(?:mrs?|ms|dr|prof|st|sr|jr|vs|etc|e\.g|i\.e|approx|no|fig|dept|inc|ltd|co|mt|[a-z])\.$", re.IGNORECASE
)
BULLET = re.compile(r"\s*(?:[-*•–—‣▪]|\(?\d{1,3}[.)]|\[[ xX]?\])\s+")
NUMBERED = re.compile(r"\s*\(?\d{1,3}[.)]$")
