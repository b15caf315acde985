"""Whether somebody asks not to have a message remembered: "off the record", "this one stays out of your notes".

The English rules know the plainest words; a small trained model hears the rest. training/opt_out trains it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from limpet.knowledge import english
from limpet.model.late import load_modules
from limpet.model.text_cache import cache_texts
from limpet.providers.encoder import default_encoder
from limpet.search.analysis import split_sentences

if TYPE_CHECKING:
    from limpet.knowledge.change_network import ChangeNetwork

WEIGHTS = Path(__file__).with_name("opt_out.npz")
ASKED = 2.0  # logit from which it is asked; the weights hold it
_EDGE = 300  # characters of a long message that are looked at, at its start and at its end


@cache_texts(256)  # the note, the record of the turn, the reader and the graph ask the same
def asks_not_to_keep(message: str) -> bool:
    if english.is_opt_out(message):
        return True
    parts = [message] if len(message) <= 2 * _EDGE else [message[:_EDGE], message[-_EDGE:]]
    parts = [" ".join(_list_read(part)) for part in parts]
    read = [pieces for part in parts if len(pieces := default_encoder().embed_pieces(part))]
    return bool(read) and max(_load().score(read)) >= _load().gate


def _list_read(text: str) -> Iterator[str]:
    """The sentences that may ask it: the model takes "don't cache this endpoint" for a request, too."""
    rule = english.get_pattern("order_of_thing")
    return (each.text for each in split_sentences(text) if not rule.match(each.text))


@cache
def _load() -> ChangeNetwork:
    load_modules("limpet.knowledge.change_network", "zipfile", "encodings.cp437")
    from limpet.knowledge.change_network import ChangeNetwork

    return ChangeNetwork.load(WEIGHTS)
