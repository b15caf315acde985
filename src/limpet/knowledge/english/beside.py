"""What people say of themselves beside a request: "three dishes, and since I keep halal I'd rather do it with fish".

A clause, apposition or standing rule is cut out of its sentence and given a subject and a verb of its own. Whether it
says something to keep is for the trained reader to decide.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from limpet.knowledge.english import get_pattern, get_words
from limpet.knowledge.english.assertions import OwnStatement, asks_for_oneself
from limpet.knowledge.english.clause import is_name
from limpet.knowledge.english.coordination import split_statements
from limpet.knowledge.english.opening import Token, find_opening, find_tokens, is_finite, is_past
from limpet.knowledge.english.presupposed import list_real_sentences
from limpet.search.analysis import Sentence

_LEAST = 2  # words of a clause, and of what gives a reason one less: "now that I'm self-employed"
_NEAR = 6  # characters behind a phrase in which "I" begins: "being vegan, I …"
_RULE = 3  # words of a standing rule, "as always" included
_SELF = frozenset("i im we my our".split())
_YOU = re.compile(r"\byou", re.IGNORECASE)
_Cut = tuple[int, int, str]  # its place in the sentence, and the words that state it alone


def find_beside(text: str) -> Iterator[OwnStatement]:
    """Yield what a message says of the speaker beside its requests and statements, whether or not they are kept."""
    subject = ""
    for sentence, material in list_real_sentences(text):
        said = sentence.text
        if any(get_pattern(each).search(said) for each in ("unreal", "irony", "beside_play")):
            continue
        if material:
            task = get_pattern("beside_task").match(said)
            cuts = _find_beside_task(said.partition(":")[0]) if task else iter(())
        else:
            cuts = _find_in_sentence(said, subject)
        for start, end, words in sorted(cuts):
            at = sentence.start + start
            yield OwnStatement(at, sentence.start + end, words, sentence, False, at)
        subject = _find_named_subject(sentence)


def _find_in_sentence(said: str, subject: str) -> Iterator[_Cut]:
    yield from _find_clauses(said)
    yield from _find_granted(said)
    yield from _find_existence(said)
    yield from _find_rules(said)
    yield from _find_relatives(said)
    yield from _find_own(said)
    yield from _find_appositions(said, subject)
    if asks_for_oneself(said):
        for found in get_pattern("beside_as").finditer(said):
            if (found["head"] or "").lower() not in get_words("as_things"):
                yield *found.span("v"), f"I'm {found['v']}"


def _find_beside_task(said: str) -> Iterator[_Cut]:
    """What gives a reason for a task on a text, or says how tasks are done: the text itself is not the speaker's."""
    yield from _find_clauses(said, reasons=True)
    yield from _find_rules(said)


def _find_clauses(said: str, *, reasons: bool = False) -> Iterator[_Cut]:
    """Clauses with a subject: as a reason whatever mentions the speaker, elsewhere what begins with them."""
    for joint in get_pattern("beside_joint").finditer(said):
        start = joint.end()
        words = _cut_end(said, start)
        tokens, reason = find_tokens(words), joint["why"] or joint["told"]
        if len(tokens) <= _LEAST - bool(joint["why"]) or (reasons and not reason):
            continue
        opening = find_opening(words)
        subject = tokens[0].word
        if reason:
            told = get_pattern("beside_self").search(words) is not None and _has_verb(tokens)
        else:
            told = opening is not None and bool(opening.subject) and subject in _SELF
        for part in split_statements(words) if told else ():
            yield start + part.start, start + part.end, part.text


def _find_granted(said: str) -> Iterator[_Cut]:
    """What a question takes for granted: "how do I tell them that I'm moving", "why do I always wake"."""
    for joint in get_pattern("beside_granted").finditer(said):
        start = joint.end()
        words = _cut_end(said, start)
        opening = find_opening(words)
        if opening is None or not opening.subject or get_pattern("beside_supposed").search(said[:start] + words):
            continue
        asked = not joint["asked"] or said.endswith("?") or get_pattern("question").match(said) is not None
        if asked and (not joint["after"] or is_past(opening.verb)):
            yield start, start + len(words), words


def _has_verb(tokens: Sequence[Token]) -> bool:
    """Whether a verb stands behind the first word, which is not a preposition: "latex closes my throat"."""
    if tokens[0].word in get_words("prepositions"):
        return False
    return bool(tokens[0].short) or any(is_finite(each.word) or each.word.endswith("s") for each in tokens[1:])


def _find_existence(said: str) -> Iterator[_Cut]:
    """ "being vegan for eleven years", "lanolin being the one thing that brings my skin up"."""
    for found in get_pattern("beside_being").finditer(said):
        start, who = found.start("what"), (found["who"] or "").strip()
        words = _cut_end(said, start)
        if not who and _is_of_speaker(said, found.start(), start + len(words)):
            yield found.start("being"), start + len(words), f"I'm {words}"
        elif who and get_pattern("beside_self").search(words):
            verb = "are" if who.endswith("s") else "is"
            yield found.start("who"), start + len(words), f"{who} {verb} {words}"
    if asks_for_oneself(said):
        for found in get_pattern("beside_of_being").finditer(said):
            yield *found.span("v"), f"I'm {found['what']}"


def _is_of_speaker(said: str, start: int, end: int) -> bool:
    """Whether a phrase without a subject is about the speaker: it stands beside "I", or ends what they ask."""
    rest = said[end:].strip(" ,;.!?–—")
    alone = asks_for_oneself(said) if not (start and rest) else False
    return alone or any(get_pattern("beside_self").search(each) for each in (said[start:end], rest[:_NEAR]))


def _find_rules(said: str) -> Iterator[_Cut]:
    """What the speaker calls their standing rule: "British spelling as always with me"."""
    for found in get_pattern("beside_rule").finditer(said):
        words = (found["v"] or found["w"]).strip()
        start = found.start("v" if found["v"] else "w")
        if len(words.split()) > _RULE:
            yield start, start + len(words), words


def _find_relatives(said: str) -> Iterator[_Cut]:
    """ "my stepdaughter, who is blind", "for the crane I drive"."""
    for found in get_pattern("beside_relative").finditer(said):
        words = _cut_end(said, found.start("v"))
        who, near = found["who"], said[found.end("who") : found.start("v")].startswith((", ", " who"))
        if get_pattern("beside_self").search(words) or (near and get_pattern("beside_self").match(who)):
            who = f"{found['part']} of {who}" if found["part"] else who
            yield found.start("who"), found.start("v") + len(words), f"{who} {words}"
    for found in get_pattern("beside_used").finditer(said):
        yield *found.span("v"), f"{found['who']} {found['verb']} {found['thing']}"
    for found in get_pattern("beside_where").finditer(said):
        yield *found.span("v"), f"{found['who']} {found['verb']} at {found['thing']}"
    for found in get_pattern("beside_like_me").finditer(said):
        yield *found.span(), f"I'm {found['v']}"


def _find_own(said: str) -> Iterator[_Cut]:
    """ "before my shift at the bakery", "stop my new puppy chewing"."""
    for found in get_pattern("beside_place").finditer(said):
        verb = "are" if found["who"].endswith("s") else "is"
        yield *found.span(), f"{found['who']} {verb} {found['v']}"
    for found in get_pattern("beside_new").finditer(said):
        many = found["v"].endswith(("s", "medication", "insulin")) and not found["v"].endswith("ss")
        yield *found.span("v"), f"I have {found['v'] if many else 'a ' + found['v']}"
    for found in get_pattern("beside_often").finditer(said):
        if asks_for_oneself(said) or (found["kept"] and not _YOU.search(said)):
            yield *found.span("v"), f"I'm {found['v']}"


def _find_appositions(said: str, subject: str) -> Iterator[_Cut]:
    """Words in brackets as a statement of their own, or about whom they describe: "Gerald (a snail, 4 years old)"."""
    for found in get_pattern("beside_brackets").finditer(said):
        words, who = found["v"].rstrip(" .!"), found["who"] or (subject if not said[: found.start()].strip() else "")
        opening = find_opening(words)
        if opening is not None and opening.subject:
            yield found.start("v"), found.start("v") + len(words), words
        elif who:
            verb = "are" if who[0].islower() and who.endswith("s") else "is"
            article = "a " if verb == "is" and not re.match(r"(?:an?|the|my|our|in|\d)\b", words.lower()) else ""
            yield found.start("v"), found.start("v") + len(words), f"{who} {verb} {article}{words}"


def _find_named_subject(sentence: Sentence) -> str:
    """Return the name that the last clause of a sentence is about, or nothing."""
    *before, last = re.split(r"[,;:]\s+", sentence.text)
    opening = find_opening(last)
    named = re.match(r"[A-ZÀ-Þ][\w’-]+(?= [a-zß-ÿ])", last)
    if named is None or not is_name(named[0]) or not (before or (opening and opening.subject == named[0])):
        return ""
    return "" if named[0].lower() in get_words("persons") | get_words("references") else named[0]


def _cut_end(said: str, start: int) -> str:
    """Return a clause from its start to where the sentence goes on."""
    end = get_pattern("beside_end").search(said, start)
    return said[start : end.start() if end else len(said)].strip()
