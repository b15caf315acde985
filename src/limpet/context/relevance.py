"""How much of a question a record answers by its words. What it is worth beside that: ``domain/worth.py``."""

from __future__ import annotations

from limpet.model.record import Record
from limpet.search.analysis import count_shared_terms


def compute_coverage(question: frozenset[int], record: Record) -> float:
    """The share of the question's words that the record holds."""
    if not question:
        return 0.0
    text = record.content
    if record.key or record.title:
        text = f"{(record.key or '').replace('_', ' ')} {record.title or ''} {text}"
    return count_shared_terms(question, text) / len(question)
