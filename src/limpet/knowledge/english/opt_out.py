"""What a speaker asks not to have remembered. It is heard, answered, and not learned.

Nothing that is known is forgotten by such words: rules misread, and forgetting cannot be taken back.
"""

from __future__ import annotations

import re

_NOT = r"(?:do not|don't|don’t|dont|never)"
# Of a file, too, one says "don't save it": only "this", said alone, means what was said.
_KEEP = r"(?:(?:remember|memori[sz]e)(?: it)?|(?:remember|memori[sz]e|store|save|record|note|learn|keep|write down))"
_THIS = r"(?:this|that|these|any of (?:this|that|it))"
_ALL = re.compile(
    rf"(?:^|[\n.,;:!?(–—-]\s{{0,3}}|\b(?:please|pls|plz|but|and|so|just|also|should|you|u) ){_NOT} (?:ever |please )?"
    rf"{_KEEP}(?:(?<= it)| {_THIS})"
    r"(?=\s*$|\s{0,3}[.,;:!?)\n–—-]|,? (?:please|pls|plz|ok|okay|about me|for later|anywhere|though|either|because|but|"
    r"in (?:your |the )?memory|to (?:your |the )?memory|conversation|chat|message|part)\b)|"
    rf"\b{_NOT} (?:ever |please )?{_KEEP} (?:(?:anything|what|everything) (?:I|we) (?:say|said|tell|told|am|just|write|"
    r"wrote|have)\b|anything (?:about|from|of) (?:this|that|me|us)\b)|"
    r"\boff the record\b|\b(?:keep|keeping|stays?|remain|strictly|just) (?:(?:this|that|it) )?(?:strictly |just )?"
    r"between (?:you and me|us|ourselves)\b|"
    r"\bwithout (?:remembering|saving|storing|memori[sz]ing) (?:this|that|any of)\b",
    re.IGNORECASE,
)
_LEAD = (
    r"^\W*(?:(?:please|pls|plz|ok|okay|oh|actually|hey|hm+|and|so|but|just|no|nah|wait|sorry|well|can you|could you|"
    r"can u|would you|"
    r"you (?:can|should|may)|I want you to|I would like you to|I'd like you to),? )*"
)
_FORGET = re.compile(
    _LEAD + r"(?:forget|ignore|disregard|unlearn|erase|scratch|delete|strike)(?: about)? "
    r"(?:(?:that|what|everything|anything|all|whatever|the fact that|the part where)(?: that| of what| what)? (?:I|"
    r"we|my|our)\b|"
    r"(?:I|we) (?:ever |even )?(?:said|told|mentioned|wrote|asked)\b|my\b|"
    r"(?:this|that|it|the (?:last|previous) (?:message|part|thing|sentence|bit|one))(?=\s*$|[,.;:!?–—-]|,? (?:please|"
    r"pls)\b)).*",
    re.IGNORECASE | re.DOTALL,
)
# "Forget that", after what is meant.
_BACK = re.compile(
    _LEAD + r"(?:forget|ignore|disregard|scratch|strike|delete|do not remember|don't remember|"
    r"dont remember)(?: about)? "
    r"(?:(?:this|that|it)(?=\s*$|[,.;:!?–—-]|,? (?:please|pls)\b)|(?:that )?I (?:ever |even )?(?:said|told|mentioned|"
    r"wrote) "
    r"(?:that|this|it|anything|so)\b|what I (?:just |have just )?(?:said|told|wrote)\b(?! about))",
    re.IGNORECASE,
)
_THAT = re.compile(_LEAD + r"\w+(?: about)? (?:(?:that|the fact that) )?", re.IGNORECASE)
_GOES_ON = re.compile(r"[,;:.!–—]\s*(?=(?:I|we|my|our|let's|use)\b)", re.IGNORECASE)


def is_opt_out(message: str) -> bool:
    """Whether the speaker asks that nothing of the message be kept."""
    return _ALL.search(message) is not None


def is_retraction(sentence: str) -> bool:
    """Whether it asks to forget what was said just before it."""
    return _BACK.match(sentence) is not None


def is_forget_request(sentence: str) -> bool:
    return _FORGET.match(sentence) is not None


def find_forget_start(sentence: str) -> int:
    """Where the words begin that are to be forgotten: after "forget that", after "do not remember this:"."""
    if is_forget_request(sentence) and (found := _THAT.match(sentence)):
        return found.end()
    kept = _ALL.search(sentence)
    colon = sentence.find(":", kept.end(), kept.end() + 30) if kept else -1
    return colon + 1


def find_remainder(sentence: str) -> int | None:
    """Where, behind the words that ask to forget, the speaker goes on to say something: "forget my job, I quit"."""
    found = _GOES_ON.search(sentence)
    return None if found is None else found.end()
