"""Documents, and the pieces of text they are kept in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from limpet.documents.repository import Documents
from limpet.errors import InvalidInput
from limpet.lifecycle.lines.kind import HERE, PAGE, Into, Kind, Outcome, lean, need
from limpet.lifecycle.lines.times import moment, stamp
from limpet.lifecycle.transfer_repository import Transfers
from limpet.model.chunk import ChunkDraft, ChunkSource, SourceKind
from limpet.model.document import Document, checked_title, checked_uri
from limpet.model.ids import checked_id
from limpet.model.scope import Level, Scope, Space
from limpet.model.text import checked_choice, checked_name, checked_text
from limpet.model.transfer import DocumentState, Piece
from limpet.model.values import checked_number, checked_strings
from limpet.search.chunk_repository import Chunks
from limpet.search.chunker import piece_draft
from limpet.store.tx import Tx

_HASH = re.compile(r"[0-9a-f]{32}")
_DOCUMENT = {
    "id": "the document's id, a UUID",
    "level": "whose it is: a `user`'s, an `agent`'s, or `global`, the whole tenant's",
    "owner": "the user or the agent",
    "uri": "where it came from",
    "title": "what it is called",
    "content_hash": "of what it was made from, to know it again",
    "metadata": "text by text",
    "created_at": "when it was added",
    "updated_at": "when it was last changed",
}
_PIECE = {
    "document_id": "the document it belongs to",
    "offset": "where it stands in the text, in characters",
    "text": "what stands there",
}


def _documents(tx: Tx, scope: Scope) -> Iterator[DocumentState]:
    after = ""
    while page := Transfers(tx).documents(scope, after, PAGE):
        yield from page
        after = page[-1].document.id


def _lines(tx: Tx, scope: Scope) -> Iterator[dict[str, Any]]:
    return map(line_of, _documents(tx, scope))


def line_of(state: DocumentState) -> dict[str, Any]:
    document, space = state.document, state.space
    return lean(
        {
            "id": document.id,
            "level": space.level.value,
            "owner": space.owner or None,
            "uri": document.uri,
            "title": document.title,
            "content_hash": document.content_hash,
            "metadata": dict(document.metadata),
            "created_at": stamp(document.created_at),
            "updated_at": stamp(document.updated_at),
        }
    )


def _read(value: dict[str, Any], into: Into) -> DocumentState:
    need(value, "id", "level", "uri", "content_hash", "created_at", "updated_at")
    hash_, title = value["content_hash"], value.get("title")
    if not isinstance(hash_, str) or not _HASH.fullmatch(hash_):
        raise InvalidInput("content_hash must be 32 hexadecimal digits")
    document = Document(
        id=into.id(checked_id(value["id"], "id")),
        uri=checked_uri(value["uri"]),
        title=None if title is None else checked_title(title),
        metadata=checked_strings(value.get("metadata", {})),
        content_hash=hash_,
        created_at=moment(value["created_at"], "created_at"),
        updated_at=moment(value["updated_at"], "updated_at"),
    )
    return DocumentState(_space(value, into), document)


def _space(value: dict[str, Any], into: Into) -> Space:
    level = checked_choice(Level, value["level"], "level")
    if level is Level.USER:
        return Space(into.tenant, level, into.owner(value.get("owner"), "owner"))
    if level is Level.SESSION or into.told_of is not None:
        raise InvalidInput(f"level: a document of {into.told_of or 'anybody'!r} is none of a {level}'s")
    owner = checked_name(value.get("owner"), "owner") if level is Level.AGENT else ""
    return Space(into.tenant, level, owner)


def _put(tx: Tx, states: Sequence[DocumentState], _: Into) -> list[Outcome]:
    return [_put_one(tx, state) for state in states]


def _put_one(tx: Tx, state: DocumentState) -> Outcome:
    there = Documents(tx).lock(state.space, state.document.uri)
    if there is not None:
        same = there.id == state.document.id
        return Outcome(False, HERE if same else f"another document is here under {state.document.uri}")
    if Transfers(tx).document(Scope(state.space.tenant), state.document.id) is not None:
        return Outcome(False, "its id belongs to another document here")
    Documents(tx).insert(state.space, state.document)
    return Outcome(True)


class _Text(NamedTuple):
    document_id: str
    piece: Piece
    draft: ChunkDraft | None = None


def _piece_lines(tx: Tx, scope: Scope) -> Iterator[dict[str, Any]]:
    for state in _documents(tx, scope):
        after = -1
        while page := Transfers(tx).pieces(state.space, state.document.id, after, PAGE):
            for after, piece in page:  # noqa: B007 - the last of a page is where the next begins
                yield {"document_id": state.document.id, "offset": piece.offset, "text": piece.text}


def _read_piece(value: dict[str, Any], into: Into) -> _Text:
    need(value, "document_id", "offset", "text")
    piece = Piece(checked_text(value["text"], "text"), checked_number(value["offset"], "offset"))
    return _Text(into.id(checked_id(value["document_id"], "document_id")), piece)


def _prepare(text: _Text, _: Into) -> _Text:
    return text._replace(draft=piece_draft(text.piece.text, text.piece.offset))


def _put_pieces(tx: Tx, items: Sequence[_Text], into: Into) -> list[Outcome]:
    outcomes: list[Outcome] = []
    for document_id, group in groupby(items, key=lambda item: item.document_id):
        outcomes += _put_text(tx, into, document_id, list(group))
    return outcomes


def _put_text(tx: Tx, into: Into, document_id: str, texts: Sequence[_Text]) -> list[Outcome]:
    state = Transfers(tx).document(into.scope, document_id)
    if state is None:
        return [Outcome(False, "its document is not here")] * len(texts)
    last = Transfers(tx).last_piece(state.space, document_id)
    document = state.document
    source = ChunkSource(
        SourceKind.DOCUMENT, document_id, created_at=document.created_at, worded_at=document.updated_at
    )
    new = [text for text in texts if text.piece.offset > last]
    Chunks(tx).add(state.space, source, [text.draft for text in new if text.draft is not None])
    return [Outcome(True) if text.piece.offset > last else Outcome(False, HERE) for text in texts]


DOCUMENTS = Kind(
    "documents",
    "a text somebody gave to be remembered",
    _DOCUMENT,
    _lines,
    _read,
    _put,
    noun="documents",
    owner=lambda state: (state.document.id, f"{state.space.level.value}:{state.space.owner}"),
)
PIECES = Kind(
    "pieces",
    "a piece of a document's text, as it is searched; two neighbours share a few words",
    _PIECE,
    _piece_lines,
    _read_piece,
    _put_pieces,
    prepare=_prepare,
)
