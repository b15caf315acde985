"""Exact token counters: any function from a text to a number, passed to ``Limpet.open(counter=…)``."""

from __future__ import annotations

import logging

from limpet.errors import InvalidInput
from limpet.model.tokens import TokenCounter, estimate_tokens
from limpet.model.values import short_repr

log = logging.getLogger("limpet.providers")


def check_counter(counter: object) -> TokenCounter:
    """Check and wrap a counter. If it fails later, the estimate is used instead. None selects the estimate."""
    if counter is None:
        return estimate_tokens
    if not callable(counter):
        raise InvalidInput(f"counter must be a function from a text to its number of tokens, not {short_repr(counter)}")
    try:
        first = counter("How many tokens?")
    except Exception as error:  # why: a counter may raise anything; report it as invalid input
        raise InvalidInput(f"counter failed on a short text: {error}") from error
    if not _is_count(first):
        raise InvalidInput(f"counter must return a whole number of tokens, not {short_repr(first)}")

    def count(text: str) -> int:
        if not text:
            return 0
        try:
            tokens = counter(text)
        except Exception as error:  # why: a tokenizer may raise anything, and the prompt must still be built
            log.warning("the token counter failed; using the estimate: %s", error)
            return estimate_tokens(text)
        if _is_count(tokens):
            return int(tokens)
        log.warning("the token counter returned %s; using the estimate", short_repr(tokens))
        return estimate_tokens(text)

    return count


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
