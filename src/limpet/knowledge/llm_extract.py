"""What a turn teaches, found by a language model: asked for with the sentence each came from, refused without it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from limpet.errors import ProviderError
from limpet.knowledge import english
from limpet.knowledge.attributes import find_label, get_attribute, load_attributes
from limpet.knowledge.candidate import PASSING, Candidate, Echoes, TurnMessage, find_references
from limpet.knowledge.llm_digest import build_json_request
from limpet.knowledge.opt_out import asks_not_to_keep
from limpet.knowledge.read import extract_candidates, read_turn
from limpet.knowledge.similarity import compute_signature, fold_text, is_same_value
from limpet.model.dataclass import replace
from limpet.model.message import Role
from limpet.model.record import Layer, RecordType
from limpet.providers.llm import Llm, LlmRequest, TokenUsage, UnusableAnswer
from limpet.providers.schema import closed_object
from limpet.providers.structured import Unreadable, parse_object
from limpet.search.analysis import extract_terms, split_sentences

MAX_FACTS = 30
MAX_TOKENS = 1500
_MAX_MESSAGE = 6000  # characters of a message that the model is shown
_MAX_BEFORE = 600
_MAX_TEXT = 2000
_CONFIDENCE = 0.8

_TYPES = {
    kind: RecordType(kind)
    for kind in "fact preference constraint instruction decision plan relationship failure fix note".split()
} | {"goal": RecordType.PLAN, "event": RecordType.FACT}
_STATUSES = ("holds", "ended", "planned", "passing")
_TEXT = {"type": "string"}
_FACT = closed_object(
    {
        "type": {"type": "string", "enum": list(_TYPES)},
        **dict.fromkeys(("statement", "sentence", "subject", "attribute", "value"), _TEXT),
        "status": {"type": "string", "enum": list(_STATUSES)},
    }
)
SCHEMA = closed_object({"facts": {"type": "array", "maxItems": MAX_FACTS, "items": _FACT}})

_BULLET = re.compile(r"\s*(?:[-*•‣▪●◦–—+>]+|\(?\[?\d{1,3}[\]).:]+|\[[ xX✓]?\]|[a-z]\))\s+(?:\[[ xX✓]?\]\s+)?")
_NONE = re.compile(
    r"\W*(?:none|null|nil|n/?a|nothing|empty|keine?s?|nichts|aucune?|ninguno|ninguna|nessuno|no|"
    r"(?:there (?:is|are|were|was) )?(?:no|nothing|not any)(?: new| relevant| memorable| notable| "
    r"such| personal| lasting)*"
    r"(?: facts?| memories| information| preferences?| decisions?| items?| statements?| details?| content)?"
    r"(?:,? (?:or|and) (?:facts?|preferences?|decisions?|goals?))*"
    r"(?: (?:found|present|stated|here|to (?:report|extract|remember|store|save|note)|worth "
    r"(?:remembering|keeping|storing)|"
    r"was found|were found|in (?:this|the) (?:turn|text|conversation|message)))*)\W*",
    re.IGNORECASE,
)
_SUBJECT = re.compile(r"[^\W_][\w .'-]{0,60}(?:/[^\W_][\w '-]{0,40}){0,3}")
_ATTRIBUTE = re.compile(r"[a-z][a-z0-9 _-]{0,30}(?::[\w '-]{1,40})?")
_FENCE = re.compile(r"^\s*```\w*\s*|\s*```\s*$")
_BLOCK = re.compile(r"```\w*\s*\n(.*?)```", re.DOTALL)
_FIRST_PERSON = re.compile(r"\b(?:I|my|me|mine|we|our)\b|\bI['’]", re.IGNORECASE)
_STARTS_WITH_USER = re.compile(r"user\b", re.IGNORECASE)
_USER = re.compile(r"\b(?:the )?user(?:['’]s)?\b", re.IGNORECASE)


def build_request(turn: Sequence[TurnMessage], before: str = "", *, timeout: float = 60.0) -> LlmRequest:
    """Of what was spoken: system and tool texts are not shown.

    ``before`` is what was said just before the turn: the question that a short answer belongs to.
    """
    spoken = [said for said in turn if said.role in {Role.USER, Role.ASSISTANT} and said.text.strip()]
    messages = [
        {
            "number": said.sequence,
            "role": str(said.role),
            "speaker": said.speaker or "",
            "said_at": f"{said.created_at:%A %Y-%m-%d %H:%M}",
            "text": said.text[:_MAX_MESSAGE],
        }
        for said in spoken
    ]
    told = {"before": before[-_MAX_BEFORE:], "messages": messages}
    labels = ", ".join(load_attributes())
    return build_json_request("extract", told, SCHEMA, MAX_TOKENS, timeout, strict=False, labels=labels)


class LlmExtraction(NamedTuple):
    """What a model found, and what it cost."""

    candidates: list[Candidate]
    calls: int = 0
    used: TokenUsage = TokenUsage()


def extract_facts(
    llm: Llm, turn: Sequence[TurnMessage], recalled: Collection[str] = (), *, before: str = "", timeout: float = 60.0
) -> LlmExtraction:
    """Raises ProviderError; no answer is never taken for "nothing to remember". One call, whatever it answers."""
    if not any(said.role is Role.USER and said.text.strip() for said in turn):
        return LlmExtraction([])
    answer = llm.complete(build_request(turn, before, timeout=timeout))
    try:
        found = parse_answer(answer.text, turn) if answer.data is None else _ground_facts(answer.data["facts"], turn)
    except ProviderError as error:
        raise UnusableAnswer(str(error), answer.usage) from None
    echoes = Echoes(recalled)
    news = [candidate for candidate in found if not echoes.contains(candidate.sentence)]
    return LlmExtraction(news, 1, answer.usage)


def parse_answer(answer: str, turn: Sequence[TurnMessage]) -> list[Candidate]:
    """JSON, or lines of any common kind. Raises ProviderError for what cannot be read."""
    text = _FENCE.sub("", answer.strip()).strip()
    if not text:
        raise ProviderError("the model's answer is empty; ask again, or switch extraction to rules")
    if _NONE.fullmatch(text) or re.fullmatch(r"[\[{]\s*[\]}]", text):
        return []
    if text[0] in "[{" and not _BULLET.match(text):
        return _ground_facts(_parse_items(text), turn)
    if block := _BLOCK.search(answer):
        return parse_answer(block[1], turn)
    if "{" in text and ('"sentence"' in text or '"facts"' in text):
        return _ground_facts(
            _parse_items(text[text.index("{") :] if "[" not in text[: text.index("{")] else text[text.index("[") :]),
            turn,
        )
    lines = list(_iter_lines(text))
    found = _ground_facts(lines, turn)
    if lines and not found:
        raise ProviderError(f"the model's answer quotes nothing of the turn: {text[:80]!r}")
    return found


def _parse_items(text: str) -> Sequence[object]:
    """The list in an object or by itself, read with the repairs that have one meaning only."""
    wrapped = f'{{"facts": {text}}}' if text.lstrip().startswith("[") else text
    try:
        reading = parse_object(wrapped)
    except Unreadable as error:
        raise ProviderError(f"the model's answer is not readable JSON: {error}") from None
    if reading.cut and not reading.data:
        raise ProviderError("the model's answer was cut off before its first fact; raise its max_tokens")
    data = reading.data
    found = data.get("facts", next((value for value in data.values() if isinstance(value, list)), None))
    if found is None and ("sentence" in data or "statement" in data):
        found = [data]
    if found is None or not isinstance(found, list):
        if not data:
            return []
        raise ProviderError("the model's answer holds no list of facts")
    return found


def _iter_lines(text: str) -> Iterator[str]:
    """What is listed; without any bullet every line. A heading ends with a colon."""
    lines = [line for line in text.splitlines() if line.strip()]
    listed = [line for line in lines if _BULLET.match(line)]
    for line in listed or lines:
        bare = _BULLET.sub("", line, count=1).strip().strip("*_").strip()
        if bare and not _NONE.fullmatch(bare) and not bare.endswith(":"):
            yield bare


def _ground_facts(items: Sequence[object], turn: Sequence[TurnMessage]) -> list[Candidate]:
    """Each once; one without its sentence in the turn is refused, and one that its sentence plainly contradicts."""
    found: dict[tuple[str, str], Candidate] = {}
    for item in items[:MAX_FACTS]:
        built = _ground_line(item, turn) if isinstance(item, str) else []
        if isinstance(item, Mapping) and (candidate := _build_candidate(item, turn)):
            built = [candidate]
        for candidate in built:
            found.setdefault((candidate.type, fold_text(candidate.content)), candidate)
    if not any(candidate.exclusive for candidate in found.values()):
        return list(found.values())
    by_rules = extract_candidates(turn)
    return [candidate for candidate in found.values() if not _is_misread(candidate, by_rules)]


def _ground_line(line: str, turn: Sequence[TurnMessage]) -> list[Candidate]:
    """A bare statement: the sentence that says all of it, as the local reader reads that sentence where it does."""
    exact = _find_sentence(line, turn)
    place = exact or _find_same_words(line, turn)
    if place is None:
        return []
    said, sentence = place
    wanted = _find_terms(line)
    fitting = [each for each in read_turn([said]) if each.sentence in sentence and wanted <= _find_terms(each.content)]
    if fitting:
        return [replace(each, confidence=max(each.confidence, _CONFIDENCE)) for each in fitting]
    fact = {"statement": line, "sentence": sentence}
    candidate = _build_candidate(fact, turn)
    return [] if candidate is None else [candidate]


def _find_same_words(line: str, turn: Sequence[TurnMessage]) -> tuple[TurnMessage, str] | None:
    """The user's sentence that has every word of the line: "The user lives in Porto" says "I live in Porto"."""
    wanted, denied = _find_terms(line), compute_signature(line).negated
    if not wanted:
        return None
    for said in turn:
        if said.role is Role.USER:
            for sentence in split_sentences(said.text):
                if wanted <= _find_terms(sentence.text) and denied == compute_signature(sentence.text).negated:
                    return said, sentence.text
    return None


def _find_terms(text: str) -> set[int]:
    return set(extract_terms(_USER.sub("", text)))


def _is_misread(candidate: Candidate, by_rules: Sequence[Candidate]) -> bool:
    """Whether rules read another value in the same words, or another person where it says the user.

    "I live in Porto" is not Berlin, and "My sister lives in Rome" not the user's home. Such a fact retires a true one.
    """
    if not get_attribute(candidate.attribute).is_single:
        return False
    same = [one for one in by_rules if one.attribute == candidate.attribute and one.sentence in candidate.sentence]
    mine = [one for one in same if one.subject == candidate.subject]
    if any(one.polarity == candidate.polarity and is_same_value(one.value, candidate.value) for one in mine):
        return False
    return bool(mine) or (bool(same) and candidate.subject == "user")


def _build_candidate(fact: Mapping[str, Any], turn: Sequence[TurnMessage]) -> Candidate | None:
    statement, quoted = _text(fact, "statement"), _text(fact, "sentence") or _text(fact, "quote")
    kind = _text(fact, "type").casefold()
    place = _find_sentence(quoted or statement, turn)
    if place is None:
        return None
    said, sentence = place
    if asks_not_to_keep(said.text) or english.is_forget_request(sentence):
        return None
    type_ = _TYPES.get(kind, RecordType.FACT)
    if said.role is Role.ASSISTANT and type_ not in {RecordType.DECISION, RecordType.FAILURE, RecordType.FIX}:
        return None
    attribute = find_label(_match_whole(_ATTRIBUTE, _text(fact, "attribute").casefold()))
    attribute = attribute or ("goal" if kind == "goal" else None)
    subject = _match_whole(_SUBJECT, _text(fact, "subject").casefold()) or "user"
    value = _text(fact, "value") or None
    status = _find_status(fact)
    procedural = type_ in {RecordType.FAILURE, RecordType.FIX}
    return Candidate(
        type=type_,
        layer=Layer.PROCEDURAL if procedural else Layer.SEMANTIC,
        content=_word_statement(statement or sentence, said),
        sentence=sentence,
        sequence=said.sequence,
        subject=subject,
        said_at=said.created_at,
        speaker=said.speaker,
        attribute=attribute,
        value=value if attribute else None,
        exclusive=value is not None and _is_exclusive(subject, attribute),
        polarity=status != "ended",
        confidence=_CONFIDENCE,
        salience=0.6,
        references=find_references(sentence),
        until=_find_end(status, attribute, f"{sentence} {statement}", said.created_at),
    )


def _find_status(fact: Mapping[str, Any]) -> str:
    """Some models answer with a truth value instead."""
    status = _text(fact, "status").casefold()
    return status if status in _STATUSES else "ended" if fact.get("holds") is False else "holds"


def _find_end(status: str, attribute: str | None, text: str, said_at: datetime) -> datetime | None:
    """When it is past: a passing state after a day or so, a dated one after its date."""
    if status == "passing":
        return said_at + PASSING
    if status == "planned" or get_attribute(attribute).lasts == "dated":
        return english.find_last_date(text, said_at)
    return None


def _word_statement(statement: str, said: TurnMessage) -> str:
    """A sentence in the third person, with its dates resolved."""
    if _FIRST_PERSON.search(statement):
        statement = english.to_third_person(statement, said.speaker if english.is_named(said) else None)
    statement = f"The {statement[0].lower()}{statement[1:]}" if _STARTS_WITH_USER.match(statement) else statement
    return statement if "(" in statement else english.resolve_dates(statement, said.created_at)


def _is_exclusive(subject: str, attribute: str | None) -> bool:
    if attribute is None or "/" in subject:
        return False
    return get_attribute(attribute).is_single or attribute.startswith("favourite:")


def _text(fact: Mapping[str, Any], name: str) -> str:
    value = fact.get(name)
    return " ".join(str(value).split())[:_MAX_TEXT] if isinstance(value, (str, int, float)) else ""


def _match_whole(form: re.Pattern[str], text: str) -> str | None:
    return text if form.fullmatch(text) else None


def _find_sentence(quoted: str, turn: Sequence[TurnMessage]) -> tuple[TurnMessage, str] | None:
    """The message that holds the words, and its own sentence with them: case, spacing and quotation marks aside."""
    wanted = fold_text(quoted).strip(" \"'.!?…")
    if len(wanted) < 3:
        return None
    for said in turn:
        if said.role not in {Role.USER, Role.ASSISTANT} or wanted not in fold_text(said.text):
            continue
        for sentence in split_sentences(said.text):
            if wanted in fold_text(sentence.text):
                return said, sentence.text
        at = said.text.find(quoted)
        return said, quoted if at >= 0 else said.text.strip()[:_MAX_TEXT]
    return None
