"""What messages say for the graph, found by a language model: refused where the text does not bear it out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from limpet.errors import ProviderError
from limpet.knowledge import english
from limpet.knowledge.graph import extract
from limpet.knowledge.llm_digest import build_json_request
from limpet.knowledge.similarity import fold_text
from limpet.model.graph import (
    SENTENCE_CHARS,
    EntityDraft,
    EntityKind,
    GraphDraft,
    RelationDraft,
    RelationKind,
    normalize_name,
)
from limpet.model.message import Message
from limpet.providers.llm import Llm, LlmRequest, TokenUsage
from limpet.providers.schema import closed_object
from limpet.providers.structured import Unreadable, read_object

MAX_TOKENS = 3000
_MAX_MESSAGE = 6000  # characters of a message that the model is shown
_ME = "me"
_PREDICATE = re.compile(r"[a-z][a-z '-]{0,40}")
_NUMBER = {"type": "integer"}
_TEXT = {"type": "string"}
_ENTITY = closed_object(
    {"name": _TEXT, "kind": {"type": "string", "enum": [kind.value for kind in EntityKind]}, "number": _NUMBER}
)
_RELATION = closed_object(
    {
        **dict.fromkeys(("subject", "predicate", "object", "sentence"), _TEXT),
        "number": _NUMBER,
        "holds": {"type": "boolean"},
    }
)
SCHEMA = closed_object(
    {"entities": {"type": "array", "items": _ENTITY}, "relations": {"type": "array", "items": _RELATION}}
)


def build_request(messages: Sequence[Message], *, timeout: float) -> LlmRequest:
    heard = [
        {
            "number": message.sequence,
            "role": str(message.role),
            "speaker": message.name or "",
            "text": message.text[:_MAX_MESSAGE],
        }
        for message in messages
        if extract.is_eligible(message)
    ]
    return build_json_request("graph", {"messages": heard}, SCHEMA, MAX_TOKENS, timeout)


class LlmGraphResult(NamedTuple):
    """What was found, and what it cost."""

    told: list[GraphDraft]
    calls: int = 0
    used: TokenUsage = TokenUsage(cost=0.0)


def extract_graph(
    llm: Llm, messages: Sequence[Message], by_rules: Sequence[GraphDraft], most: int, *, timeout: float
) -> LlmGraphResult:
    """Return one ``GraphDraft`` for each message, as the rules do. The rules decide who "my sister" is.

    Raises ProviderError; no answer is never taken for "nothing is named".
    """
    if not any(map(extract.is_eligible, messages)):
        return LlmGraphResult(list(by_rules))
    answer = llm.complete(build_request(messages, timeout=timeout))
    data = answer.data
    if data is None:  # a model given by the caller may not support schemas
        try:
            data = read_object(answer.text, SCHEMA).data
        except Unreadable as error:
            raise ProviderError(f"{llm.name} returned no valid object for the graph: {error}") from None
    told = [_ground_message(message, rules, data, most) for message, rules in zip(messages, by_rules, strict=True)]
    return LlmGraphResult(told, 1, answer.usage)


def _ground_message(message: Message, rules: GraphDraft, data: Mapping[str, Any], most: int) -> GraphDraft:
    if not extract.is_eligible(message):
        return rules
    text = fold_text(message.text)
    entities = {found.id: found for found in rules.entities if "/" in found.id}
    me = extract.find_speaker(message)
    for item in data["entities"]:
        name, id_ = str(item["name"]).strip(), normalize_name(str(item["name"]))
        if (
            item["number"] == message.sequence
            and id_
            and "/" not in id_
            and fold_text(name) in text
            and len(entities) < most
        ):
            entities[id_] = EntityDraft(id_, name, EntityKind(item["kind"]))
    relations = [stated for stated in rules.relations if stated.kind is not RelationKind.FACT]
    ends = {end for stated in relations for end in (stated.subject, stated.object)}
    entities = {found.id: found for found in rules.entities if found.id in ends} | entities
    for item in data["relations"] if me is not None else ():
        stated = _parse_relation(item, message, text, entities, me)
        if stated is not None and stated not in relations:
            relations.append(stated)
            if me is not None and me.id in {stated.subject, stated.object}:
                entities.setdefault(me.id, me)
    return GraphDraft(rules.source, tuple(entities.values()), tuple(relations))


def _parse_relation(
    item: Mapping[str, Any], message: Message, text: str, known: Mapping[str, EntityDraft], me: EntityDraft | None
) -> RelationDraft | None:
    """The relation, if its sentence and its ends stand in the message."""
    sentence, predicate = str(item["sentence"]).strip(), " ".join(str(item["predicate"]).casefold().split())
    if item["number"] != message.sequence or not sentence or fold_text(sentence) not in text:
        return None
    ends = []
    for name in (str(item["subject"]), str(item["object"])):
        if name.strip().casefold() == _ME:
            ends.append(me.id if me is not None else "")
        else:
            ends.append(normalize_name(name) if normalize_name(name) in known else "")
    if not all(ends) or ends[0] == ends[1] or not _PREDICATE.fullmatch(predicate):
        return None
    role = english.find_role_word(predicate)
    kind = RelationKind.FACT if role is None else RelationKind.ROLE
    return RelationDraft(
        ends[0], role or predicate, ends[1], None, kind, bool(item["holds"]), sentence[:SENTENCE_CHARS]
    )
