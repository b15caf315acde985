"""How something is said: denied, over, still to come, merely possible."""

from __future__ import annotations

import re
from dataclasses import dataclass

_ADVERB = re.compile(
    r"(?:really|actually|currently|now|also|still|just|recently|absolutely|totally|honestly|finally|"
    r"already|even|both|all|"
    r"kinda|kind of|sort of|literally|definitely|truly|originally|basically|simply|officially|generally|strongly|"
    r"particularly|especially|"
    r"do(?:es)?(?= (?:work|live|speak|like|love|have|own|play|use|want|eat|drink|enjoy|hate|prefer)\b)|"
    r"sadly|mainly|secretly|genuinely|personally|too|sometimes|once)\s+",
    re.IGNORECASE,
)
_HABIT = re.compile(
    r"(always|usually|mostly|only|exclusively|often|normally|regularly|typically|primarily)\s+", re.IGNORECASE
)
_NOT = re.compile(
    r"(?:do not|does not|no longer|not|never|have not|has not|have never|has never)\s+(?:any ?more\s+)?",
    re.IGNORECASE,
)
_IRREALIS = re.compile(
    r"(?:would|could|might|may|should|must|can|shall|wish|hope|ought to|need to|had better)\b", re.IGNORECASE
)
_FUTURE = re.compile(
    r"(?:will|going to|(?:am|is|are) (?:going|planning|about|due|set) to|(?:plan|plans|intend|"
    r"intends) to)\s+(?!(?-i:[A-Z]))",
    re.IGNORECASE,
)
_ENDED = re.compile(
    r"(?:used to|stopped|quit|gave up|have stopped|has stopped|have quit|has quit|have given up)\s+", re.IGNORECASE
)
_PERFECT_ING = re.compile(r"(?:have|has) been (?=\w+ing\b)", re.IGNORECASE)
_PERFECT = re.compile(r"(?:have|has) (?=\w+(?:ed|en|t|wn|ught)\b|been\b|moved\b|become\b|grown\b)", re.IGNORECASE)
_WAS = re.compile(
    r"(?:was|were)\s+(?!born\b|diagnosed\b|laid\b|fired\b|promoted\b|raised\b|made\b|hired\b|adopted\b|let go\b)",
    re.IGNORECASE,
)
FOR_A_WHILE = re.compile(
    r"\b(?:until|till|temporarily|for (?:a|an|one|two|three|four|five|six|\d+|a few|a couple of|the|this|another) "
    r"(?:night|day|week|weekend|month|semester|term|summer|winter|spring|autumn|moment|time being)s?)\b",
    re.IGNORECASE,
)
_OVER = re.compile(r"\b(?:any ?more|any longer)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Aspect:
    """``core`` is what is left of the predicate: a verb in some form and what follows it."""

    core: str
    negated: bool = False
    ended: bool = False
    future: bool = False
    perfect: bool = False
    possible: bool = False
    habit: str = ""

    @property
    def holds(self) -> bool:
        return not (self.negated or self.ended)


def parse_aspect(predicate: str) -> Aspect:
    core = predicate
    negated = ended = future = perfect = possible = False
    habit = ""
    for _ in range(8):
        if found := _ADVERB.match(core):
            pass
        elif found := _HABIT.match(core):
            habit = found[1].lower()
        elif found := _NOT.match(core):
            if "no longer" in found.group().lower():
                ended = True
            else:
                negated = not negated
        elif found := re.match(r"can not (?=stand|bear|eat|drink|tolerate|stomach)", core, re.IGNORECASE):
            break
        elif found := _FUTURE.match(core):
            future = True
        elif found := _IRREALIS.match(core):
            possible = True
            break
        elif found := _ENDED.match(core):
            ended = True
        elif found := _PERFECT_ING.match(core) or _PERFECT.match(core):
            perfect = True
        elif found := _WAS.match(core):
            core, ended, found = f"is {core[found.end() :]}", True, None
            continue
        elif found := re.match(
            r"(am|is|are)\s+(not|no longer|now|currently|also|both|still|just|really|actually|originally)\s+",
            core,
            re.IGNORECASE,
        ):
            if found[2].lower() == "not":
                negated = not negated
            elif found[2].lower() == "no longer":
                ended = True
            core = f"{found[1]} {core[found.end() :]}"
            continue
        else:
            break
        core = core[found.end() :]
    if negated and _OVER.search(core):
        negated, ended = False, True
    return Aspect(_OVER.sub("", core).strip(), negated, ended, future, perfect, possible, habit)
