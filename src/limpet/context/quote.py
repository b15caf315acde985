"""Recalled text as quoted data: whatever it says, it cannot pass for a part of the prompt's own structure."""

from __future__ import annotations

import re

# Whatever some reader takes for the end of a line is one, so that no line begins unseen.
_BREAKS = re.compile(r"\r\n|[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_BLANK_LINES = re.compile(r"\n\s*\n")
# Controls, and what reverses the direction of text, hide what a line says.
_HIDDEN = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
_ROLES = "system|developer|user|human|assistant|model|tool|function"
_TAG = re.compile(rf"<(?=[/!?|]|[^\W\d]|\s*/?\s*(?:{_ROLES}|instructions?|memory)\b)", re.IGNORECASE)
_CHAT_MARK = re.compile(r"\[(?=\s*/?\s*(?:INST|SYS)\b)", re.IGNORECASE)
_FENCES = {"```": re.compile("```+"), "~~~": re.compile("~~~+")}
_ROLE = rf"(?:{_ROLES})\s*(?::|[—–]|-\s)"
_RULE = r"(?:[-_*=][^\S\n]*)+$"
_MARK = rf"(?=[\#>]|{_RULE}|{_ROLE})"
# Each begins with the end of the line before it, which is quicker to look for than places where a line may begin.
_MARKS = re.compile(rf"\n([^\S\n]*+){_MARK}", re.MULTILINE | re.IGNORECASE)
# Behind the marks of a list a heading is one still.
_LISTED = r"(?:[^\S\n]*+(?:[-+*]|\d{1,9}[.)])[^\S\n]++(?=\S))*+"
_MARKS_IN_LISTS = re.compile(rf"\n({_LISTED}[^\S\n]*+){_MARK}", re.MULTILINE | re.IGNORECASE)
_BULLET = re.compile(r"\n([^\S\n]*)(?=[-+*](?:\s|$))")
_NUMBER = re.compile(r"\n([^\S\n]*\d{1,9})(?=[.)](?:\s|$))")
_ESCAPED = r"\n\1\\"
# Most of what is recalled is a line of plain words, with none of the above in it.
_PLAIN = re.compile(
    rf"(?!{_ROLE})(?:[^\W\d_]|[\"'(])[^\n\r\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff<\[`~]*",
    re.IGNORECASE,
)


def quote(text: str) -> str:
    """The text with every mark escaped that would be structure: headings, lists, rules, fences, tags, role headers."""
    if _PLAIN.fullmatch(text):
        return text
    # Without blank lines at its ends, too: a bullet of ours with nothing behind it would be a rule.
    lines = "\n" + _BLANK_LINES.sub("\n", f"\n{_escape_markup(text)}\n").strip("\n")
    for structure in (_MARKS, _BULLET, _NUMBER):
        lines = structure.sub(_ESCAPED, lines)
    return lines[1:]


def quote_document(text: str) -> str:
    """The same for a text that has a section to itself: its lists and paragraphs stay as they are."""
    return _MARKS_IN_LISTS.sub(_ESCAPED, f"\n{_escape_markup(text)}").strip("\n")


def quote_inline(text: str) -> str:
    """A name or a title inside a line of ours."""
    return quote(" ".join(text.split()))


def format_speaker(role: str | None, name: str | None) -> str:
    """Who said it. A name that claims to be another role is shown as the name it is."""
    if not name:
        return role or "somebody"
    claims = name.strip().casefold() in _ROLES.split("|") and name != role
    return f'{role} "{quote_inline(name)}"' if claims else quote_inline(name)


def _escape_markup(text: str) -> str:
    if not text.replace("\n", "").replace("\t", "").isprintable():  # most texts are: nothing hides in them
        text = _HIDDEN.sub("", _BREAKS.sub("\n", text))
    if "<" in text:
        text = _TAG.sub("&lt;", text)
    if "[" in text:
        text = _CHAT_MARK.sub(r"\[", text)
    for sign, fence in _FENCES.items():
        if sign in text:
            text = fence.sub(lambda found: "\\" + "\\".join(found.group()), text)
    return text


def format_item(label: str, text: str) -> str:
    """An entry of a list. Its further lines are indented, so that every line at the margin is ours."""
    body = quote(text)
    return f"- {label}{body if body.strip() else '…'}".replace("\n", "\n  ")
