"""What people like, use and prefer."""

from __future__ import annotations

import re
from collections.abc import Iterator

from limpet.knowledge.english import values
from limpet.knowledge.english.clause import Clause
from limpet.knowledge.english.table import Rule, RuleMatch, compile_pattern
from limpet.model.record import RecordType

_P = RecordType.PREFERENCE
_BE = r"(?:am|is|are)"
_VERY = r"(?:really |very |super |so |quite |pretty |totally |huge |big |a big |a huge |a |the biggest |not )*"

RULES: tuple[Rule, ...] = (
    Rule(
        "likes",
        compile_pattern(
            r"(?:(?:like|likes|dig|digs) (?!the (?!\w+(?: \w+)? of\b))|(?:love|loves|enjoy|enjoys|adore|"
            r"adores) )(?P<v>.+)"
        ),
        values.parse_thing,
        _P,
    ),
    Rule(
        "likes",
        compile_pattern(
            rf"{_BE} {_VERY}(?:into|fond of|fan of|fans of|crazy about|obsessed with|keen on|passionate about) "
            rf"(?P<v>.+)"
        ),
        values.parse_thing,
        _P,
    ),
    Rule(
        "likes",
        compile_pattern(
            r"(?:hate|hates|dislike|dislikes|detest|detests|loathe|loathes|despise|despises|can not (?:stand|"
            r"bear|stomach|tolerate)) (?P<v>.+)"
        ),
        values.parse_thing,
        _P,
        denies=True,
    ),
    Rule("prefers", compile_pattern(r"(?:prefer|prefers) (?P<v>.+)"), values.parse_choice, _P, salience=0.7),
    Rule(
        "prefers",
        compile_pattern(r"would (?:much |really )?(?:rather|prefer) (?P<v>(?!die\b|not\b)(?!.* here$).+)"),
        values.parse_choice,
        _P,
        when="possible",
        salience=0.7,
    ),
    Rule("uses", compile_pattern(r"(?:use|uses) (?P<v>[^,.;]+? for .+)"), values.parse_thing, _P),
    Rule("uses", compile_pattern(r"(?:use|uses) (?P<v>.+)"), values.parse_thing, _P, when="habit"),
    Rule("uses", compile_pattern(r"(?:use|uses) (?P<v>.+)"), values.parse_tools, _P, confidence=0.75),
)
_FAVOURITE = re.compile(
    r"(?:all-time |absolute |current |new |latest )?favou?rites? (?P<what>[\w -]{2,40}?)(?: of all time| ever)?"
    r"(?: (?:is|are|was) | ?[:=] ?)(?P<v>.+)",
    re.IGNORECASE,
)
_IS_FAVOURITE = re.compile(
    r"^(?:the )?(?P<v>[\w' -]{2,50}?) (?:is|are) (?P<whose>my|our) (?:all-time |absolute |current |new |latest )?"
    r"favou?rite (?P<what>[\w -]{2,30}?)(?=$|[,.!;]| (?:and|but|because|so)\b)",
    re.IGNORECASE,
)
# Of something that was spoken of before, and that nobody can tell later.
_PARTS = frozenset("part bit thing one line section option moment version feature aspect".split())
_SPELLINGS = {"color": "colour", "flavor": "flavour", "neighborhood": "neighbourhood", "movie": "film"}


def find_favourites(clause: Clause) -> Iterator[RuleMatch]:
    if clause.owned and (found := _FAVOURITE.match(clause.predicate)):
        yield from _build_favourite(clause.subject, found)


def find_listed_favourites(sentence: str, me: str, *, bullet: bool) -> Iterator[RuleMatch]:
    if (bullet and (found := _FAVOURITE.match(sentence))) or (found := _IS_FAVOURITE.match(sentence)):
        yield from _build_favourite(me, found)


def _build_favourite(subject: str, found: re.Match[str]) -> Iterator[RuleMatch]:
    what = found["what"].casefold().strip()
    what = _SPELLINGS.get(what, what.removesuffix("s") if not what.endswith("ss") else what)
    value = values.parse_thing(found["v"])
    if value and not _PARTS.intersection(what.split()) and not what.startswith("so far"):
        yield RuleMatch(
            _P, subject, f"favourite:{what}", value, exclusive=True, confidence=0.9, salience=0.7, tags=("favourite",)
        )
