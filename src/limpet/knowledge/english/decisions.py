"""What was settled."""

from __future__ import annotations

import re
from collections.abc import Iterator

from limpet.knowledge.english import values
from limpet.knowledge.english.lexicon import PETS, RELATIONS, any_of
from limpet.knowledge.english.table import RuleMatch
from limpet.model.record import RecordType

_LETS = re.compile(
    r"(?:^|[,;:] |\b(?:so|ok|okay|right|then|alright|and|yes|actually|no|hmm|thought|well) )"
    r"let'?s (?:just |please )?(?:go with|"
    r"use|stick (?:with|to)|switch to|drop|keep(?! \w+ing\b| at\b| up\b| it up| in touch| this up| "
    r"each other)|"
    r"choose|pick|settle (?:on|for)|adopt|call it|name it|move to|skip|postpone|ship|target|standardi[sz]e on|"
    r"not use|"
    r"go for|do it with|build (?:it|this) (?:with|in|on))\b (?P<v>.+)",
    re.IGNORECASE,
)
_SETTLED = re.compile(
    r"(?<!which )(?<!that )(?<!what )(?<!where )\b(?P<who>I|we|my \w+ and I|the team|us) (?:have |both |all |"
    r"finally |just |already |had |now )*"
    r"(?:(?:decided|agreed|chose|opted|resolved|voted)(?: not)? (?:to|on|against|for|that)|settled on|"
    r"chose|picked(?! up| out)|went with(?! (?:my|our|him|her|them|some friends|a friend|friends))|"
    r"are not going to (?:support|use|ship|add|build|maintain)|are going with|am going with|will go with|"
    r"are switching to|ended up (?:going with|choosing|using)|have chosen|"
    r"have settled on|will stick with|are sticking (?:with|to)) (?P<v>.+)",
    re.IGNORECASE,
)
# A change that was made is a decision that was taken, where it is about tools: people move too.
_CHANGED = re.compile(
    r"\bwe (?:will|are going to) (?:use|stay (?:on|with)) (?P<w>.+)|"
    r"^(?:let'?s )?(?:scrap|ditch|forget|drop) the [\w -]{3,40}, we (?:are|will) (?:just )?(?P<x>(?:keep|"
    r"going to (?!be\b|talk\b|discuss\b|see\b)|us(?:e|ing)|do (?:it|this)).+)|"
    r"\bwe (?:have |just |already |recently )*(?:switched|migrated|moved)(?: over)?(?: away)?"
    r"(?: from (?P<old>[\w.+#-]+))?(?: over)? to (?P<v>.+)",
    re.IGNORECASE,
)
_STATED = re.compile(
    r"\b(?:the |our |my |final )+decision (?:is|was)(?: to)?:? (?!final\b|hard\b|not\b|up to\b|mine\b|"
    r"yours\b)(?P<v>.+)|"
    r"^(?:ok,? |okay,? |so,? )?(?:final )?(?:decision|verdict): (?P<d>.+)",
    re.IGNORECASE,
)
_OPEN = re.compile(
    r"\b(?:have not|has not|had not|did not|not yet|never|yet to|before (?:I|we)|once (?:I|we)|until "
    r"(?:I|we)|if (?:I|we)|undecided|can not|could not|when (?:I|we))\b[^.]{0,25}\b(?:decide|agree|"
    r"chosen|choose|settled|pick)",
    re.IGNORECASE,
)

# An assistant also drafts other people's letters: what it decided is about the work when it says what it did.
_OF_THE_WORK = re.compile(
    r"\b(?:decided|chose|opted)(?: not)? (?:to|for) (?:use|keep|add|drop|switch|split|move|store|make|implement|skip|"
    r"leave|put|rename|pin|go with|reuse|write|remove|replace|extract|cache|index)\b",
    re.IGNORECASE,
)
# Nobody can tell later what was meant, or it was no choice: "go with my sister", "call it a day".
_IDLE = re.compile(
    r"(?:them|it|this|that|these|those|him|her|me|you|your|one|both|some|something|someone)\b|"
    rf"(?:my|our|his|her|their) (?:\w+ )?(?:{any_of(frozenset(RELATIONS) | PETS)}s?|children|parents|family|folks)\b|"
    r"(?:the )?(?:option|plan|version|choice|number|answer|variant) (?:[a-z]|\d+|one|two|three)$|the \w+ one\b|"
    r"(?:stay|stayed) (?:in|home|at home|up)\b|(?:a|the|another) (?:time|date|day|night|break|walk|look|few|"
    r"moment)\b|by\b|in on\b|off\b|to disagree|disagree\b|"
    r"(?:the |an )?(?:next|last|first|second|third|other|former|latter|same) "
    r"(?:one|option|question|topic|step|part|point|item|section|task)s?\b|"
    r"(?:go|going) (?:to (?:bed|sleep|the)|home|out|for a)\b|.{0,40}\bup$|quits$",
    re.IGNORECASE,
)
_REFUSED = re.compile(
    r"\b(?:let'?s (?:just |please )?not use|are not going to|decided not to|decided against|opted against|"
    r"let'?s drop)\b",
    re.IGNORECASE,
)


def find_decisions(sentence: str, me: str, *, proposes: bool) -> Iterator[RuleMatch]:
    """``proposes``: "let's" counts. What an assistant proposes is no decision; what it reports as settled is."""
    if _OPEN.search(sentence):
        return
    settled = _SETTLED.search(sentence)
    if settled and _IDLE.match(settled["v"].strip(" .!")):
        return
    lets = _LETS.search(sentence) if proposes and "let" in sentence.casefold() else None
    if lets and (settled is None or not _REFUSED.search(lets.group())):  # what it gives way to says more
        if not _IDLE.match(lets["v"].strip(" .!")):
            yield _build_decision("project", lets)
    elif settled:
        mine = settled["who"].lower() == "i" or settled["who"].lower().endswith(" i")
        if mine and not proposes and not _OF_THE_WORK.search(settled.group()):
            return
        yield _build_decision(me if mine and proposes else "project", settled)
    elif (changed := _CHANGED.search(sentence)) and _is_about_tools(changed, proposes=proposes):
        yield _build_decision("project", changed)
    elif (found := _STATED.search(sentence)) and (proposes or not found["d"]):
        yield _build_decision("project", found)


def _is_about_tools(changed: re.Match[str], *, proposes: bool) -> bool:
    if changed["v"]:
        return values.parse_product(changed["v"]) is not None
    return proposes and bool(changed["x"] or values.parse_product(changed["w"]))


def _build_decision(subject: str, found: re.Match[str]) -> RuleMatch:
    salience = 0.75 if subject == "project" else 0.5  # which dessert somebody chose matters less than which database
    named = found.groupdict()
    value = next(text for text in map(named.get, "vdwx") if text)
    return RuleMatch(
        RecordType.DECISION,
        subject,
        None,
        value.strip(" .!")[:200] or None,
        polarity=_REFUSED.search(found.group()) is None,
        confidence=0.85,
        salience=salience,
    )
