"""How much of a question a record answers by its words. What it is worth beside that: ``domain/worth.py``."""

from __future__ import annotations

from collections.abc import Collection

from holdfast.domain.record import Record
from holdfast.storage.analysis import query_terms


def coverage(question: Collection[int], record: Record) -> float:
    """The share of the question's words that the record holds."""
    if not question:
        return 0.0
    text = " ".join(filter(None, (record.key and record.key.replace("_", " "), record.title, record.content)))
    return len(set(question) & set(query_terms(text))) / len(question)
