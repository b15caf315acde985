"""What in a message is the speaker's own word, and how it is said.

Not their word are code, quotations, fiction, questions, irony, tasks on a text; not learned is what they ask not to
have remembered.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from limpet.knowledge.english import get_pattern
from limpet.knowledge.english.coordination import StatementSpan, split_statements
from limpet.knowledge.english.opening import find_opening
from limpet.model.text_cache import cache_texts
from limpet.search.analysis import Sentence, split_sentences

# "Don't save it" may refer to a file: only "this", alone, refers to the message.
# More ways to say so, each naming the message ("this", "what I say") or the memory: err towards silence.
# "Forget that", after what it refers to.


@cache_texts(256)  # the note, the record of the turn, the reader and the graph ask the same
def is_opt_out(message: str) -> bool:
    """Return whether the speaker asks not to store the message."""
    return get_pattern("opt_out").search(message) is not None or get_pattern("opt_out_more").search(message) is not None


def is_retraction(sentence: str) -> bool:
    """Return whether it asks to forget what was said just before."""
    return get_pattern("take_back").match(sentence) is not None


def is_forget_request(sentence: str) -> bool:
    return get_pattern("forget").match(sentence) is not None


def is_chat_rule(sentence: str) -> bool:
    """Return whether it says what to do, or what happens, when something is said in the chat."""
    return get_pattern("chat_condition").match(sentence) is not None or tells_style(sentence)


def tells_style(sentence: str) -> bool:
    """Return whether it says how to write in the chat from now on: "please reply in German"."""
    return get_pattern("chat_style").match(sentence) is not None and not get_pattern("once").search(sentence)


def tells_reaction(sentence: str) -> bool:
    """Return whether it says what a body does that cannot stand something: "latex gives me welts"."""
    return get_pattern("reaction").search(sentence) is not None


def find_forget_start(sentence: str) -> int:
    """Return where the words to forget start: after "forget that" or "do not remember this:"."""
    if is_forget_request(sentence) and (match := get_pattern("forget_that").match(sentence)):
        return match.end()
    kept = get_pattern("opt_out").search(sentence) or get_pattern("opt_out_more").search(sentence)
    colon = sentence.find(":", kept.end(), kept.end() + 30) if kept else -1
    return colon + 1


def find_remainder(sentence: str) -> int | None:
    """Return where a statement follows the request to forget: "forget my job, I quit"."""
    match = get_pattern("goes_on").search(sentence)
    return None if match is None else match.end()


# Text that the speaker does not assert: code, quotations, fiction, questions, irony, task material


MAX_SENTENCE = 600  # longer sentences do not state one fact; they are pasted

_FENCE = re.compile(r"^[ \t]{0,3}(```+|~~~+)", re.MULTILINE)
_QUOTED_LINE = re.compile(r"^[ \t]{0,3}>[^\n]*", re.MULTILINE)
# Code comments and crash output, pasted without a fence.
_CODE_LINE = re.compile(r"^[ \t]*(?:(?://|/\*|\*/|#!|<!--).*|at [\w$.<>]+\(.*|File \".*\", line \d+.*)$", re.MULTILINE)
_QUOTATION = re.compile(
    r"\"[^\"\n]{1,1500}\"|“[^”\n]{1,1500}”|«[^»\n]{1,1500}»|‘[^’\n]{8,1500}’(?!\w)|(?<!\w)'(?:[^'\n]|(?<=\w)'(?=\w)){8,300}'(?!\w)"
)
_BLANK = "\x1f"  # neither letter nor space: no pattern matches across it

# "As a vegan, what can I eat?" describes the speaker; "as a lawyer, what would you do?" assigns a role.
_ASKS_FOR_ONESELF = re.compile(r"^(?!.*\byou(?:r|rs|'re|'d)?\b).*\b(?:I|i|my|me)\b")
# After these, the rest of the message is task material or a mail by another person.
# The start of a letter: the line before it may say who wrote it. The first line of all addresses the reader.
# Output of a program, or a quoted text.
# After a story, only what the speaker says about themselves is not part of it.


def mask_quotations(text: str) -> str:
    """Return the text with code, quoted lines and quoted speech blanked out, at the same length."""
    plain = text.replace("’", "'").replace("‛", "'").replace("`", "`")
    plain = _blank_code(plain)
    plain = _CODE_LINE.sub(lambda found: _BLANK * len(found.group()), plain)
    plain = _QUOTED_LINE.sub(lambda found: _BLANK * len(found.group()), plain)
    return _QUOTATION.sub(lambda found: _blank_speech(found.group()), plain)


def _blank_code(text: str) -> str:
    kept, at, fence = [], 0, ""
    for mark in _FENCE.finditer(text):
        if not fence:
            kept.append(text[at : mark.start()])
            at, fence = mark.start(), mark[1]
        elif mark[1].startswith(fence):
            kept.append(_blank_lines(text[at : mark.end()]))
            at, fence = mark.end(), ""
    rest = text[at:]
    kept.append(_blank_lines(rest) if fence else rest)
    return "".join(kept)


def _blank_lines(text: str) -> str:
    return "\n".join(_BLANK * len(line) for line in text.split("\n"))


def _blank_speech(quotation: str) -> str:
    """Keep the words of a title, and blank quoted speech."""
    return _BLANK * len(quotation) if get_pattern("own_voice").search(quotation) and quotation.count(" ") else quotation


def find_statements(text: str, *, unheard_too: bool = False) -> Iterator[tuple[Sentence, bool]]:
    """The sentences the speaker asserts, each with whether it opens the message. Material for a task ends it.

    ``unheard_too``: also what the speaker asks not to have remembered, for whoever has to find all that says it.
    """
    if is_opt_out(text) and not unheard_too:
        return
    found = [sentence for sentence in split_sentences(mask_quotations(text)) if len(sentence.text) <= MAX_SENTENCE]
    invented = False
    for at, sentence in enumerate(found):
        if get_pattern("material").search(sentence.text):
            return
        if get_pattern("fiction").search(sentence.text):
            invented = True
            continue
        following = found[at + 1].text if at + 1 < len(found) else ""
        taken_back = get_pattern("taken_back").match(following) or (is_retraction(following) and not unheard_too)
        if taken_back and len(following) < 200:
            continue
        told = (
            _cut_sentence(sentence, find_forget_start(sentence.text)) if unheard_too else _drop_forget_request(sentence)
        )
        told = _skip_question(_skip_label(_skip_request(told))) if told else None
        kept = _extract_own(told.text) if told else None
        if told and kept and not (invented and not get_pattern("of_oneself").match(kept)):
            yield Sentence(told.start, kept, told.bullet), at <= 1


def _drop_forget_request(sentence: Sentence) -> Sentence | None:
    """Return the rest of a request to forget: "forget my old job, I work at Shell"."""
    if not is_forget_request(sentence.text):
        return sentence
    further = find_remainder(sentence.text)
    return None if further is None else _cut_sentence(sentence, further)


def _cut_sentence(sentence: Sentence, at: int) -> Sentence:
    rest = sentence.text[at:].lstrip()
    return sentence._replace(start=sentence.start + len(sentence.text) - len(rest), text=rest) if rest else sentence


def find_kept(sentence: str) -> int:
    """Return where a statement starts that the speaker asks to have remembered: "note that I'm away". 0: nowhere."""
    match = get_pattern("asks_to_keep").match(sentence)
    if match is None or (sentence.rstrip().endswith("?") and not match["asks"]):
        return 0
    opening = None if match["what"] else find_opening(sentence[match.end() :])
    told = opening is not None and bool(opening.subject) and opening.verb not in _TOLD
    return match.end() if match["what"] or told else 0


def _skip_request(sentence: Sentence) -> Sentence:
    """Return what is said behind a request to remember it, or else all of it."""
    start = find_kept(sentence.text)
    return _cut_sentence(sentence._replace(text=sentence.text.rstrip("? ")), start) if start else sentence


def _skip_label(sentence: Sentence) -> Sentence:
    """Return what the speaker says of themselves behind a label: "For the form: I'm a carer"."""
    label = get_pattern("label").match(sentence.text)
    return _cut_sentence(sentence, label.end()) if label else sentence


def _skip_question(sentence: Sentence) -> Sentence:
    """Return what is said behind a question without a question mark at the start of a sentence, or else all of it."""
    if sentence.text.rstrip("\"')*_ ").endswith("?") or not get_pattern("question").match(sentence.text):
        return sentence
    behind = get_pattern("behind_question").search(sentence.text)
    if behind is None or (behind["who"] and not get_pattern("mention").search(sentence.text[: behind.start()])):
        return sentence  # nobody was named whom "she" may mean
    return _cut_sentence(sentence, behind.end())


def asks_for_oneself(sentence: str) -> bool:
    return _ASKS_FOR_ONESELF.search(sentence) is not None


def extract_assertion(sentence: str) -> str | None:
    """Return the sentence, the part of it that is not a question, or nothing."""
    return None if get_pattern("fiction").search(sentence) else _extract_own(sentence)


def _extract_own(sentence: str) -> str | None:
    if (
        get_pattern("irony").search(sentence)
        or (get_pattern("unreal").search(sentence) and not is_chat_rule(sentence))
        or get_pattern("source_says").match(sentence)
        or (
            get_pattern("task").match(sentence) and not (get_pattern("lasts").search(sentence) or tells_style(sentence))
        )
    ):
        return None
    if sentence.rstrip("\"')*_ ").endswith("?"):
        if get_pattern("call_me").search(sentence.rstrip("? ")):
            return sentence
        tails = list(get_pattern("tail_question").finditer(sentence))
        if not tails or get_pattern("question").match(sentence):
            return None
        if get_pattern("as_somebody").match(sentence) and not asks_for_oneself(sentence):
            return None
        asked = (tail for tail in tails if get_pattern("question").match(sentence[tail.end() :]))
        return sentence[: next(asked, tails[-1]).start()].strip() or None
    asked = (tail for tail in get_pattern("unmarked_question").finditer(sentence) if " " in sentence[: tail.start()])
    tail = next((tail for tail in asked if not get_pattern("lasts").search(sentence, tail.end())), None)
    kept = sentence[: tail.start()] if tail else sentence
    return None if get_pattern("question").match(sentence) else kept


# Statements: sentences, coordinated ones apart


# Longer text is pasted: the speaker's own words are before and after it.
_LONG, _EDGE = 4000, 1000


_TOLD = frozenset("told said mentioned asked".split())  # "remember I told you"


class OwnStatement(NamedTuple):
    """A statement the speaker asserts: where its words stand in the message, and the same with a subject of its own."""

    start: int
    end: int
    text: str
    sentence: Sentence  # that it is part of
    opening: bool
    clause: int  # where the words that it shares with others begin
    listed: bool = False  # one of several things that share a verb


def find_own_statements(text: str, *, unheard_too: bool = False) -> Iterator[OwnStatement]:
    """The statements that the speaker asserts, coordinated ones apart."""
    for sentence, opening in find_statements(text, unheard_too=unheard_too):
        if len(text) > _LONG and _EDGE < sentence.start < len(text) - _EDGE:
            continue
        if _BLANK in sentence.text and _BLANK * 3 not in sentence.text:
            continue
        for part in split_statements(sentence.text):
            if _is_refused(part):
                continue
            start, end = sentence.start + part.start, sentence.start + part.end
            words, clause = part.text.replace(_BLANK, ""), sentence.start + part.clause
            yield OwnStatement(start, end, words, sentence, opening, clause, part.listed)


def _is_refused(part: StatementSpan) -> bool:
    """Whether a part of a sentence is a task that goes with the part before it, or a joke."""
    task = part.start and get_pattern("part_task").match(part.text) and not get_pattern("lasts").search(part.text)
    return bool(task) or get_pattern("part_irony").search(part.text) is not None
