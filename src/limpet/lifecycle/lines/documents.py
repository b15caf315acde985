"""Documents, and the pieces of text they are kept in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from limpet.documents.repository import Documents
from limpet.errors import InvalidInput
from limpet.lifecycle.lines.kind import (
    ALREADY_PRESENT,
    PAGE,
    ImportTarget,
    LineKind,
    LineOutcome,
    drop_empty,
    require_fields,
)
from limpet.lifecycle.lines.times import format_time, parse_time
from limpet.lifecycle.transfer_repository import Transfers
from limpet.model.chunk import ChunkDraft, ChunkSource, SourceKind
from limpet.model.document import Document, check_title, check_uri
from limpet.model.ids import check_id
from limpet.model.scope import Level, Partition, Scope
from limpet.model.text import check_choice, check_name, check_text
from limpet.model.transfer import DocumentPiece, DocumentState
from limpet.model.values import check_number, check_strings
from limpet.search.chunk_repository import Chunks
from limpet.search.chunker import make_document_draft
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


def _iter_documents(tx: Tx, scope: Scope) -> Iterator[DocumentState]:
    after = ""
    while page := Transfers(tx).documents(scope, after, PAGE):
        yield from page
        after = page[-1].document.id


def _iter_lines(tx: Tx, scope: Scope) -> Iterator[dict[str, Any]]:
    return map(to_line, _iter_documents(tx, scope))


def to_line(state: DocumentState) -> dict[str, Any]:
    document, space = state.document, state.space
    return drop_empty(
        {
            "id": document.id,
            "level": space.level.value,
            "owner": space.owner or None,
            "uri": document.uri,
            "title": document.title,
            "content_hash": document.content_hash,
            "metadata": dict(document.metadata),
            "created_at": format_time(document.created_at),
            "updated_at": format_time(document.updated_at),
        }
    )


def _read(value: dict[str, Any], into: ImportTarget) -> DocumentState:
    require_fields(value, "id", "level", "uri", "content_hash", "created_at", "updated_at")
    hash_, title = value["content_hash"], value.get("title")
    if not isinstance(hash_, str) or not _HASH.fullmatch(hash_):
        raise InvalidInput("content_hash must be 32 hexadecimal digits")
    document = Document(
        id=into.map_id(check_id(value["id"], "id")),
        uri=check_uri(value["uri"]),
        title=None if title is None else check_title(title),
        metadata=check_strings(value.get("metadata", {})),
        content_hash=hash_,
        created_at=parse_time(value["created_at"], "created_at"),
        updated_at=parse_time(value["updated_at"], "updated_at"),
    )
    return DocumentState(_parse_partition(value, into), document)


def _parse_partition(value: dict[str, Any], into: ImportTarget) -> Partition:
    level = check_choice(Level, value["level"], "level")
    if level is Level.USER:
        return Partition(into.tenant, level, into.map_user(value.get("owner"), "owner"))
    if level is Level.SESSION or into.told_of is not None:
        raise InvalidInput(f"level: a document of {into.told_of or 'anybody'!r} is none of a {level}'s")
    owner = check_name(value.get("owner"), "owner") if level is Level.AGENT else ""
    return Partition(into.tenant, level, owner)


def _put(tx: Tx, states: Sequence[DocumentState], _: ImportTarget) -> list[LineOutcome]:
    return [_put_one(tx, state) for state in states]


def _put_one(tx: Tx, state: DocumentState) -> LineOutcome:
    there = Documents(tx).lock(state.space, state.document.uri)
    if there is not None:
        same = there.id == state.document.id
        return LineOutcome(False, ALREADY_PRESENT if same else f"another document is here under {state.document.uri}")
    if Transfers(tx).document(Scope(state.space.tenant), state.document.id) is not None:
        return LineOutcome(False, "its id belongs to another document here")
    Documents(tx).insert(state.space, state.document)
    return LineOutcome(True)


class _PieceLine(NamedTuple):
    document_id: str
    piece: DocumentPiece
    draft: ChunkDraft | None = None


def _iter_piece_lines(tx: Tx, scope: Scope) -> Iterator[dict[str, Any]]:
    for state in _iter_documents(tx, scope):
        after = -1
        while page := Transfers(tx).pieces(state.space, state.document.id, after, PAGE):
            for after, piece in page:  # noqa: B007 - the last of a page is where the next begins
                yield {"document_id": state.document.id, "offset": piece.offset, "text": piece.text}


def _read_piece(value: dict[str, Any], into: ImportTarget) -> _PieceLine:
    require_fields(value, "document_id", "offset", "text")
    piece = DocumentPiece(check_text(value["text"], "text"), check_number(value["offset"], "offset"))
    return _PieceLine(into.map_id(check_id(value["document_id"], "document_id")), piece)


def _prepare(text: _PieceLine, _: ImportTarget) -> _PieceLine:
    return text._replace(draft=make_document_draft(text.piece.text, text.piece.offset))


def _put_pieces(tx: Tx, items: Sequence[_PieceLine], into: ImportTarget) -> list[LineOutcome]:
    outcomes: list[LineOutcome] = []
    for document_id, group in groupby(items, key=lambda item: item.document_id):
        outcomes += _put_text(tx, into, document_id, list(group))
    return outcomes


def _put_text(tx: Tx, into: ImportTarget, document_id: str, texts: Sequence[_PieceLine]) -> list[LineOutcome]:
    state = Transfers(tx).document(into.scope, document_id)
    if state is None:
        return [LineOutcome(False, "its document is not here")] * len(texts)
    last = Transfers(tx).last_piece(state.space, document_id)
    document = state.document
    source = ChunkSource(
        SourceKind.DOCUMENT, document_id, created_at=document.created_at, worded_at=document.updated_at
    )
    new = [text for text in texts if text.piece.offset > last]
    Chunks(tx).add(state.space, source, [text.draft for text in new if text.draft is not None])
    return [LineOutcome(True) if text.piece.offset > last else LineOutcome(False, ALREADY_PRESENT) for text in texts]


DOCUMENTS = LineKind(
    "documents",
    "a text somebody gave to be remembered",
    _DOCUMENT,
    _iter_lines,
    _read,
    _put,
    noun="documents",
    owner=lambda state: (state.document.id, f"{state.space.level.value}:{state.space.owner}"),
)
PIECES = LineKind(
    "pieces",
    "a piece of a document's text, as it is searched; two neighbours share a few words",
    _PIECE,
    _iter_piece_lines,
    _read_piece,
    _put_pieces,
    prepare=_prepare,
)
