"""What went wrong and what put it right."""

from __future__ import annotations

import re
from collections.abc import Iterator

from limpet.knowledge.english.table import RuleMatch
from limpet.model.record import Layer, RecordType

_FAILED = re.compile(
    r"\b(?:failed|crashed|broke|was failing|is failing|were failing|did not work|does not work|"
    r"timed out|hung|blew up|was red|was broken|errored|stopped working|was slow|"
    r"was flaky)\b.{0,60}?\b(?:because|due to|since|"
    r"when|after)\b .{4,}|\b(?:failed|crashed) with .{4,}",
    re.IGNORECASE,
)
# In the present tense a user reports, and an assistant explains how things are in general.
_FAILS = re.compile(
    r"(?<!\bI )(?<!\bto )\b(?:fails?|crash(?:es)?|times? out)\b(?:(?: on \w+)?(?: \w+)? (?:because|due to|"
    r"since|with|after)|.{0,30} because) .{4,}|"
    r"\b(?:keeps?|kept) (?:failing|dying|crashing|breaking|hanging|timing out|flaking)\b.{0,60}?\b(?:because|due to|"
    r"since|with|after|"
    r"when|whenever) .{4,}|"
    r"\b(?:returns?|gives?|throws?|answers with|responds with) (?:an? |HTTP )?[45]\d\d(?: errors?)? (?:when|whenever|"
    r"if|for|because|on|"
    r"as soon as) .{4,}",
    re.IGNORECASE,
)
# Whatever was tried, it goes on: with what it says, so that somebody can look for it later.
_STILL = re.compile(
    r"\bstill (?:an? )?(?:HTTP )?[45]\d\d(?: errors?)?(?=$|[.!])|"
    r"\bstill (?:get|gets|getting|see|seeing|throws?|throwing|fails? with|failing with|crash(?:es)? with|says?|"
    r"returns?|"
    r"returning)\b.{0,40}?(?:\b(?-i:[A-Z][A-Z0-9]*_[A-Z0-9_]{3,})|\b\w+(?:Error|Exception)\b|\bHTTP \d{3}\b|"
    r"\b[45]\d\d(?:s| errors?)?(?=$|[,.!])|\bE\d{3,}\b|\b(?:exit )?code \d+|\bsegfault|\bout of memory\b|"
    r"\btimeouts?\b)",
    re.IGNORECASE,
)
_CAUSE = re.compile(
    r"\b(?:root cause|culprit|real problem|actual problem|actual issue|real issue|underlying (?:issue|"
    r"problem|cause))\b(?! that\b| which\b| and\b).{0,30}?\b(?:was|is|turned out to be)\b .{4,}"
    r"|\b(?:the|this|that|our|my) (?:\w+ ){0,3}(?:bug|issue|problem|failure|crash|outage|error|test|"
    r"build|leak|regression|timeout)s? (?:was|were|is|are) caused by .{4,}"
    r"|\bthe (?:bug|issue|problem) was (?:that |in |a |an |the ).{4,}",
    re.IGNORECASE,
)
_DID = (
    r"(?:changed|added|removed|pinned|upgraded|replaced|renamed|moved|set|switched|restarted|cleared|updated|"
    r"reverted|mounted|"
    r"deleted|disabled|enabled|installed|reinstalled|downgraded|bumped|wrapped|increased|rebuilt|patched|raised|"
    r"lowered)"
)
# To be quick where there is nothing.
_HINT = re.compile(
    r"[fF]ix|[sS]olved|[cC]ured|[rR]epaired|worke?[ds]?\b|unblocked|trick|[wW]orkaround|[sS]olution|pass|green|"
    r"gone|went away|"
    r"disappeared|runs|builds|again|now\b|stopped|back|fine|did|does|helped"
)
_FIXED_BY = re.compile(
    r"(?<!more )(?<!is )(?<!are )(?<!be )(?<!became )\b(?:fixed|solved|resolved|repaired|worked "
    r"around|unblocked|cured)\b.{0,50}?\b(?:by|with) (?:\w+ing\b|an?\b|the\b|`).{3,}|"
    r"\bthe (?:fix|solution|workaround) (?:was|turned out to be) .{4,}|"
    r"^(?:fix|workaround)\b[^:0-9]{0,40}: .{4,}|"
    r"(?:^|; |, (?=\w+ing\b))(?:turns out )?[\w`./: =<>@'\"-]{3,80}?\b(?:fixed|solved|resolved|cured) "
    r"(?:it|this|that|the \w+|everything)\b|"
    r"^\w+ing .{3,80}\b(?:did the trick|solved it|made it work)\b|"
    r"\b(?:changed|added|removed|pinned|upgraded|replaced|renamed|moved|set|switched|restarted|cleared|updated|"
    r"reverted)\b"
    r".{3,120}, which (?:fixed|solved|resolved) .{2,}|"
    rf"\b(?:I|we) (?:just |then |have )?{_DID}\b .{{3,120}}? and (?:now |then |suddenly )?"
    r"(?:(?:the )?(?:\w+ ){0,2}(?:errors?|warnings?|crash|leak|bug|problem|issue) (?:went away|is gone|"
    r"are gone|disappeared|stopped)|"
    r"(?:it|everything|the (?:build|tests?|app|site|page|deploy|pipeline|server)|(?:all )?(?:the )?tests|ci) "
    r"(?:now )?(?:works?|pass(?:es)?|runs|builds|is (?:fixed|green|back|fine|gone)|are (?:green|passing)|"
    r"went green))\b|"
    rf"\b(?:I|we) (?:just |then |have )?{_DID}\b .{{3,120}}?,? and (?:now )?(?:the )?(?:[\w-]+ ){{1,3}}"
    r"(?:works?|renders?|loads?|starts?|responds?|compiles?|pass(?:es)?|runs?|builds?|is up|is back) (?:again|now|"
    r"fine)\b|"
    r"\b(?:did not|does not) (?:help|work|fix \w+),? but \w+ing .{3,80} (?:did|does|helped|worked)\b",
    re.IGNORECASE,
)
_OPEN = re.compile(
    r"\b(?:could|can|might|may|should|would|will|try|maybe|perhaps|if|to be|needs? to|want to|how to|not|never|"
    r"trying|"
    r"you|hopefully|once|let me|let us|please)\b",
    re.IGNORECASE,
)
_OPEN_TRY = re.compile(r"\b(?:if|could|might|would|will|should|what|why|when)\b", re.IGNORECASE)
_PASSIVE = re.compile(r"\b(?:was|were|been|be|is|are)(?: \w+ly)? $", re.IGNORECASE)
_THING = re.compile(
    r"\b(?:car|boiler|washing|marriage|relationship|(?:my|our|first|blind) date|exam|diet|heart|leg|arm|voice|"
    r"sink|toilet|faucet|tap|roof|door|window|fridge|oven|dishwasher|bike|bicycle|fence|lamp|shower|dress|hair|"
    r"zipper|recipe|"
    r"sauce|cake|dough|dog|cat)\b",
    re.IGNORECASE,
)


def find_failures(sentence: str, *, reported: bool = False) -> Iterator[RuleMatch]:
    """With a cause, or it is only a complaint. ``reported``: by a user, of what happens now."""
    now = _FAILS.search(sentence) if reported else None
    still = _STILL.search(sentence) if reported and "still " in sentence else None
    if still and not _OPEN_TRY.search(sentence[: still.start()]):
        yield RuleMatch(RecordType.FAILURE, "project", layer=Layer.PROCEDURAL, confidence=0.7, salience=0.7)
        return
    for found in (_FAILED.search(sentence), _CAUSE.search(sentence), now):
        if found and not _OPEN.search(sentence[: found.start()]) and not _THING.search(sentence):
            yield RuleMatch(RecordType.FAILURE, "project", layer=Layer.PROCEDURAL, confidence=0.75, salience=0.7)
            return


def find_fixes(sentence: str) -> Iterator[RuleMatch]:
    found = _FIXED_BY.search(sentence) if _HINT.search(sentence) else None
    before = "" if found and found.group().startswith(";") else sentence[: found.start() if found else 0]
    instead = found is not None and re.match(r"(?:did|does) not ", found.group(), re.IGNORECASE)
    if not found or _THING.search(sentence) or (not instead and _OPEN.search(before + found.group()[:25])):
        return
    if re.match(
        r"(?:that|this|it|yes|you|which)\b[^,]{0,20}\b(?:fixed|solved|resolved|cured)", sentence, re.IGNORECASE
    ):
        return  # what did, nobody can tell later
    # "was resolved by pinning it" is a fix; "was resolved with the help of …" is any story.
    if _PASSIVE.search(sentence[: found.start()]) and not re.search(r"\bby \w+ing\b", found.group(), re.IGNORECASE):
        return
    yield RuleMatch(RecordType.FIX, "project", layer=Layer.PROCEDURAL, confidence=0.75, salience=0.75)
