"""Quote recalled text as data, so that it cannot pass for the structure of the prompt."""

from __future__ import annotations

import re

# Every character that some reader treats as a line end is one, so that no hidden line starts.
_BREAKS = re.compile(r"\r\n|[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_BLANK_LINES = re.compile(r"\n\s*\n")
# Control characters and direction overrides hide what a line says.
_HIDDEN = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
_ROLES = "system|developer|user|human|assistant|model|tool|function"
_TAG = re.compile(rf"<(?=[/!?|]|[^\W\d]|\s*/?\s*(?:{_ROLES}|instructions?|memory)\b)", re.IGNORECASE)
_CHAT_MARK = re.compile(r"\[(?=\s*/?\s*(?:INST|SYS)\b)", re.IGNORECASE)
_FENCES = {"```": re.compile("```+"), "~~~": re.compile("~~~+")}
_ROLE = rf"(?:{_ROLES})\s*(?::|[—–]|-\s)"
_RULE = r"(?:[-_*=][^\S\n]*)+$"
_MARK = rf"(?=[\#>]|{_RULE}|{_ROLE})"
# Each starts with the previous line end, which is faster to search than line starts.
_MARKS = re.compile(rf"\n([^\S\n]*+){_MARK}", re.MULTILINE | re.IGNORECASE)
# A heading is still a heading after list marks.
_LISTED = r"(?:[^\S\n]*+(?:[-+*]|\d{1,9}[.)])[^\S\n]++(?=\S))*+"
_MARKS_IN_LISTS = re.compile(rf"\n({_LISTED}[^\S\n]*+){_MARK}", re.MULTILINE | re.IGNORECASE)
_BULLET = re.compile(r"\n([^\S\n]*)(?=[-+*](?:\s|$))")
_NUMBER = re.compile(r"\n([^\S\n]*\d{1,9})(?=[.)](?:\s|$))")
_ESCAPED = r"\n\1\\"
# Most recalled text is one line of plain words without any of the above.
_PLAIN = re.compile(
    rf"(?!{_ROLE})(?:[^\W\d_]|[\"'(])[^\n\r\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff<\[`~]*",
    re.IGNORECASE,
)


def quote(text: str) -> str:
    """Escape everything that would be structure: headings, lists, rules, fences, tags, role headers."""
    if _PLAIN.fullmatch(text):
        return text
    # Strip blank lines at the ends too: an empty bullet would be a rule.
    lines = "\n" + _BLANK_LINES.sub("\n", f"\n{_escape_markup(text)}\n").strip("\n")
    for structure in (_MARKS, _BULLET, _NUMBER):
        lines = structure.sub(_ESCAPED, lines)
    return lines[1:]


def quote_document(text: str) -> str:
    """Quote a text that has its own section: lists and paragraphs stay."""
    return _MARKS_IN_LISTS.sub(_ESCAPED, f"\n{_escape_markup(text)}").strip("\n")


def quote_inline(text: str) -> str:
    """Quote a name or a title inside a line."""
    return quote(" ".join(text.split()))


def format_speaker(role: str | None, name: str | None) -> str:
    """Return the speaker. A name that claims another role is shown as a name."""
    if not name:
        return role or "somebody"
    claims = name.strip().casefold() in _ROLES.split("|") and name != role
    return f'{role} "{quote_inline(name)}"' if claims else quote_inline(name)


def _escape_markup(text: str) -> str:
    if not text.replace("\n", "").replace("\t", "").isprintable():  # most texts are printable and hide nothing
        text = _HIDDEN.sub("", _BREAKS.sub("\n", text))
    if "<" in text:
        text = _TAG.sub("&lt;", text)
    if "[" in text:
        text = _CHAT_MARK.sub(r"\[", text)
    for sign, fence in _FENCES.items():
        if sign in text:
            text = fence.sub(lambda match: "\\" + "\\".join(match.group()), text)
    return text


def format_item(label: str, text: str) -> str:
    """Format a list item. Further lines are indented, so that every line at the margin is ours."""
    body = quote(text)
    return f"- {label}{body if body.strip() else '…'}".replace("\n", "\n  ")
