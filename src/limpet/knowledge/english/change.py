"""Signs that something changed or ended: the words people use when they say so."""

from __future__ import annotations

import re

_CHANGE = re.compile(
    r"\b(?:now|nowadays|these days|from now on|no longer|not any ?more|any ?more|any longer|moved|switched|changed|"
    r"change of plans?|"
    r"swapped|replaced|instead|actually|correction|scrap (?:that|it)|forget (?:that|what i said)|never ?mind|"
    r"turns out|i (?:was wrong|misspoke|meant)|not \w+ but|rather than|used to|as of|starting|started|became|got "
    r"(?:promoted|married|divorced|engaged|hired)|new (?:job|place|flat|apartment|house|phone|car|number|boss|role|"
    r"doctor|landlord|address)|back (?:to|on)|gave up|given up|finished with|done with|over with)\b",
    re.IGNORECASE,
)
_END = re.compile(
    r"\b(?:no longer|not any ?more|(?:n['’]?t|not|never)\b[^.;]{1,60}\bany ?(?:more|longer)|quit|quitting|stopped|stop|"
    r"gave up|giving up|given up|left|leaving|resigned|handed in my notice|sold|got rid of|cancelled|canceled|"
    r"called off|"
    r"dropped|dropped out|broke up|split up|separated|divorced|passed away|died|is dead|moved out|closed|lost my|"
    r"finished with|done with|ended|is over|used to|retired from|sacked|fired|laid off|let go)\b",
    re.IGNORECASE,
)
_CORRECTION = re.compile(
    r"\b(?:actually|correction|scrap (?:that|it)|i (?:was wrong|misspoke|meant)|sorry,? (?:i meant|it'?s|its)|"
    r"not \w+(?: \w+)?,? (?:but|it'?s)|, not \w+|i got that wrong|wrong (?:day|date|time|number)|typo)\b",
    re.IGNORECASE,
)


def has_change_sign(sentence: str) -> bool:
    return _CHANGE.search(sentence) is not None or has_end_sign(sentence)


def has_end_sign(sentence: str) -> bool:
    return _END.search(sentence) is not None


def has_correction_sign(sentence: str) -> bool:
    return _CORRECTION.search(sentence) is not None
