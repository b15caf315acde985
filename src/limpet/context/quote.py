"""Quote recalled text as data, so that it cannot pass for the structure of the prompt."""

from __future__ import annotations

import re
from datetime import datetime

from limpet.model.lookalikes import INVISIBLE, ROLES, claims_role, contains_role, drop_invisible
from limpet.model.text_cache import cache_texts

_MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
# Every character that some reader treats as a line end is one, so that no hidden line starts.
_BREAKS = re.compile(r"\r\n|[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_BLANK_LINES = re.compile(r"\n\s*\n")
# Tags, and the control tokens of models: <|im_start|>, <start_of_turn>, <<SYS>>, <｜User｜>, <0x0A>. Tokenizers make
# full-width signs plain, so that those count as well.
_TAG = re.compile(rf"[<＜﹤](?=[/!?|｜]|[^\W\d]|0x|\s*/?\s*(?:{ROLES}|instructions?|memory)\b)", re.IGNORECASE)
_CHAT_MARK = re.compile(
    r"[\[［](?=\s*/?\s*(?:(?i:INST|SYS|SYSTEM(?:_PROMPT|_MESSAGE)?|g?MASK|[BE]OS)\b"
    r"|(?:TOOL|AVAILABLE_TOOLS|TOOL_\w+|TOOLS|IMG\w*|PREFIX|SUFFIX|MIDDLE|THINK|ARGS|CALL_ID|CLS|SEP|PAD|UNK|control_\d+)[\]］]))"
)
_FENCES = {"```": re.compile("```+"), "~~~": re.compile("~~~+")}
_RULE = r"(?:[-_*=][^\S\n]*)+$"
_MARK = rf"(?=[\#＃﹟>]|{_RULE})"
# Each starts with the previous line end, which is faster to search than line starts.
_MARKS = re.compile(rf"\n([^\S\n]*+){_MARK}", re.MULTILINE)
# A heading is still a heading after list marks.
_LISTED = r"(?:[^\S\n]*+(?:[-+*]|\d{1,9}[.)])[^\S\n]++(?=\S))*+"
_MARKS_IN_LISTS = re.compile(rf"\n({_LISTED}[^\S\n]*+){_MARK}", re.MULTILINE)
# Who speaks, as transcripts write it: "system:", "**system** —", "(system) …".
_SAYS = r"(?:[:：﹕︓︰꞉∶⁚˸ː։׃܃܄፡፥፦᠄⦂=|｜>→—–]|-\s)"
_LONGEST_SPEAKER = 60
_LONGEST_REMEMBERED = 400  # characters
_LONGEST_DOCUMENT = 4000  # characters of a summary or of notes that is remembered
_WRAPPED = r"[(\[{*_\"'“‘«]{1,4}[^\n()\[\]{}*_\"'”’»]{2,40}[)\]}*_\"'”’»]"
_SPEAKER = rf"(?!\\)(?=([^\n]{{2,{_LONGEST_SPEAKER}}}?){_SAYS}|({_WRAPPED}))"
_SPEAKERS = re.compile(rf"\n([^\S\n]*+){_SPEAKER}")
_SPEAKERS_IN_LISTS = re.compile(rf"\n({_LISTED}[^\S\n]*+){_SPEAKER}")
_BULLET = re.compile(r"\n([^\S\n]*)[-+*](?=\s|$)")
_NUMBER = re.compile(r"\n([^\S\n]*\d{1,9})(?=[.)](?:\s|$))")
_ESCAPED = r"\n\1\\"
# Most recalled text is one line of plain words without any of the above, and names no speaker.
_PLAIN = re.compile(rf"(?![{INVISIBLE}])[^\W\d_][^\n\r\x0b\x0c\u2028\u2029<＜﹤\[［`~{INVISIBLE}]*")
_SAYS_SOMETHING = re.compile(_SAYS).search
_HIDDEN = re.compile(f"[{INVISIBLE}]").search
# In a speaker's name these could end the name, and begin a line of somebody else.
_NAME_ENDS = re.compile(rf"{_SAYS}|^[-+\d]|[<>＜＞\[\]［］{{}}#＃`*~\"\\]").search


def quote(text: str) -> str:
    """Escape everything that would be structure: headings, lists, rules, fences, tags, control tokens, speakers."""
    return _quote_short(text) if len(text) <= _LONGEST_REMEMBERED else _quote(text)


def _quote(text: str) -> str:
    if _PLAIN.fullmatch(text) and not _SAYS_SOMETHING(text, 0, _LONGEST_SPEAKER + 2):
        return text
    # Strip blank lines at the ends too: an empty bullet would be a rule.
    lines = "\n" + _BLANK_LINES.sub("\n", f"\n{_escape_markup(text)}\n").strip("\n")
    lines = _BULLET.sub(r"\n\1•", lines)  # what no reader takes for a list of ours
    for structure in (_MARKS, _NUMBER):
        lines = structure.sub(_ESCAPED, lines)
    return _SPEAKERS.sub(_escape_role, lines)[1:]


_quote_short = cache_texts(1 << 11)(_quote)  # a prompt repeats most entries of the one before


def quote_document(text: str) -> str:
    """Quote a text that has its own section: lists and paragraphs stay."""
    return _quote_known_document(text) if len(text) <= _LONGEST_DOCUMENT else _quote_document(text)


def _quote_document(text: str) -> str:
    lines = _MARKS_IN_LISTS.sub(_ESCAPED, f"\n{_escape_markup(text)}")
    return _SPEAKERS_IN_LISTS.sub(_escape_role, lines).strip("\n")


_quote_known_document = cache_texts(1 << 8)(_quote_document)  # the same at every turn until it changes


def quote_inline(text: str) -> str:
    """Quote a name or a title inside a line."""
    return quote(" ".join(text.split()))


def format_speaker(role: str | None, name: str | None) -> str:
    """Return the speaker. A name that claims another role, or is more than a name, is shown in quotation marks."""
    shown = " ".join(drop_invisible(_BREAKS.sub(" ", name)).split()) if name else ""
    if not shown:
        return role or "somebody"
    if shown == role or not (_NAME_ENDS(shown) or contains_role(shown)):
        return shown
    inner = quote_inline(shown.replace('"', "'"))
    return f'{role or "somebody"} "{inner}"'


def _escape_role(found: re.Match[str]) -> str:
    return f"{found[0]}\\" if _claims_role(found[2] or found[3]) else found[0]


_claims_role = cache_texts(1 << 11)(claims_role)  # most lines have one of a few speakers


def _escape_markup(text: str) -> str:
    text = _BREAKS.sub("\n", text)
    if _HIDDEN(text):
        text = drop_invisible(text)
    text = _TAG.sub("&lt;", text)
    text = _CHAT_MARK.sub("&#91;", text)
    for sign, fence in _FENCES.items():
        if sign in text:
            text = fence.sub(lambda match: "\\" + "\\".join(match.group()), text)
    return text


def format_item(label: str, text: str) -> str:
    """Format a list item. Further lines are indented, so that every line at the margin is ours."""
    body = quote(text)
    return f"- {label}{body if body.strip() else '…'}".replace("\n", "\n  ")


def strip_lead(text: str) -> str:
    """Return a statement without short words before it that only bring it up: "You told me: …", "As I said: …"."""
    for mark in (": ", "? "):
        _, found, rest = text.partition(mark)
        if found and 2 * len(rest) >= len(text):
            return rest
    return text


def normalize(text: str) -> str:
    """Return a statement without case, extra space and its full stop."""
    return _normalize_short(text) if len(text) <= _LONGEST_REMEMBERED else _normalize(text)


def _normalize(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip(".!")


_normalize_short = cache_texts(1 << 12)(_normalize)  # each claim is compared at every turn


def format_day(moment: datetime) -> str:
    return f"{moment.day} {_MONTHS[moment.month - 1]} {moment.year}"


def find_wording(said: str, stated: str) -> tuple[str, str, str]:
    """Return what was said, the statement, and that without what only brings it up, each normalized."""
    words, bare = normalize(said), strip_lead(stated)
    statement = words if stated is said else normalize(stated)
    return words, statement, statement if bare is stated else normalize(bare)


def preview(text: str, most: int = 60) -> str:
    """Return the start of a text, to identify what was omitted."""
    line = " ".join(text[: 2 * most].split())
    return line if len(line) <= most and len(text) <= 2 * most else f"{line[:most].rstrip()}…"
