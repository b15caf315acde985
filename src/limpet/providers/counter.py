"""Exact token counters: any function from a text to a number, given to ``Limpet.open(counter=…)``."""

from __future__ import annotations

import logging

from limpet.errors import InvalidInput
from limpet.model.text import short_repr
from limpet.model.tokens import TokenCounter, estimate_tokens

log = logging.getLogger("limpet.providers")


def check_counter(counter: object) -> TokenCounter:
    """The counter behind a guard: one that fails later costs exactness, never a prompt. None is the estimate."""
    if counter is None:
        return estimate_tokens
    if not callable(counter):
        raise InvalidInput(f"counter must be a function from a text to its tokens, not {short_repr(counter)}")
    try:
        first = counter("How many tokens?")
    except Exception as error:  # why: whatever it raises, a counter that cannot count is refused in our words
        raise InvalidInput(f"counter failed on a short text: {error}") from error
    if not _is_count(first):
        raise InvalidInput(f"counter must give a whole number of tokens, not {short_repr(first)}")

    def count(text: str) -> int:
        if not text:
            return 0
        try:
            found = counter(text)
        except Exception as error:  # why: whatever a tokenizer does, the prompt must still be built
            log.warning("the token counter failed, its estimate stands in: %s", error)
            return estimate_tokens(text)
        if _is_count(found):
            return int(found)
        log.warning("the token counter gave %s, its estimate stands in", short_repr(found))
        return estimate_tokens(text)

    return count


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
