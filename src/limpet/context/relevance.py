"""Which recalled messages say too little about a question to be shown to a model."""

from __future__ import annotations

from limpet.model.chunk import Hit, SourceKind
from limpet.model.message import Role
from limpet.providers.encoder import embed_text
from limpet.search import english
from limpet.search.analysis import Question, find_terms

_SHORT = 80  # characters of a reply or a wish at most
_NEAR = 0.28  # similarity to the question from which it may be about it in other words


def is_off_topic(hit: Hit, question: Question) -> bool:
    """Return whether it is a short reply, a wish or long past, and has nothing to do with the question."""
    if question.about_assistant or question.asks_back or (hit.holds and not _only_responds(hit)):
        return False
    asked = [term for term, weight in question.weigh_terms(0.0).items() if weight]
    return find_terms(hit.text).isdisjoint(asked) and bool(embed_text(hit.text) @ embed_text(question.text) < _NEAR)


def _only_responds(hit: Hit) -> bool:
    """Return whether it is a short reply without a number, or a short wish of the user's: "Grams it is."."""
    source, text = hit.source, hit.text.strip()
    if source.kind is not SourceKind.MESSAGE or source.name is not None or len(text) > _SHORT:
        return False  # people who have names talk to each other
    if source.role == Role.ASSISTANT:
        return not any(map(str.isdigit, text))
    return source.role == Role.USER and english.ASKS_FOR.match(text) is not None
