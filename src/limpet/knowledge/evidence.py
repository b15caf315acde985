"""Whether a hit states anything, and whether a question is about anything that is stored."""

from __future__ import annotations

from limpet.model.chunk import Hit, SourceKind
from limpet.model.dataclass import replace
from limpet.model.late import load_modules
from limpet.model.scope import Partition
from limpet.search.analysis import Question, TextFlag, flag_message, says_nothing
from limpet.search.recipes import WORDS
from limpet.search.search import SearchRequest, search
from limpet.store.tx import Tx


def is_no_evidence(hit: Hit, question: Question) -> bool:
    """Whether it is a question of the user's, or a reply that only takes notice: neither states anything."""
    if hit.source.kind is not SourceKind.MESSAGE or hit.source.name is not None:  # people ask each other
        return False
    if hit.source.role == "user":
        return "?" in hit.text and bool(flag_message(hit.text) & TextFlag.ONLY_ASKS) and not question.asks_back
    return hit.source.role == "assistant" and says_nothing(hit.text)


def names_unknown(tx: Tx, partition: Partition, wanted: SearchRequest) -> bool:
    """Whether it names someone or something that nothing stored contains: "What's the weather in Nairobi?"."""
    load_modules("limpet.knowledge.graph.names")
    from limpet.knowledge.graph.names import find_entities  # late: it has many patterns

    names = " ".join(entity.name for entity in find_entities(wanted.question.text))
    named = replace(wanted, question=Question.parse(names, wanted.question.at), recipe=WORDS, k=1, meaning=None)
    return bool(names) and not search(tx, partition, named)
