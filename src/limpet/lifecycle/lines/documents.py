"""Documents, and the pieces of text they are kept in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
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
)
from limpet.lifecycle.transfer_repository import Transfers
from limpet.model.chunk import ChunkDraft, ChunkSource, SourceKind
from limpet.model.lines import LineCodec
from limpet.model.scope import Level, Partition, Scope
from limpet.model.transfer import DocumentPiece, DocumentState, PieceState
from limpet.model.values import check_name
from limpet.search.chunk_repository import Chunks
from limpet.search.chunker import make_draft
from limpet.store.tx import Tx

_HASH = re.compile(r"[0-9a-f]{32}")
_LINE = LineCodec(DocumentState)
_PIECE_LINE = LineCodec(PieceState)


def _iter_documents(tx: Tx, scope: Scope) -> Iterator[DocumentState]:
    after = ""
    while page := Transfers(tx).documents(scope, after, PAGE):
        yield from page
        after = page[-1].document.id


def _iter_lines(tx: Tx, scope: Scope) -> Iterator[dict[str, Any]]:
    return map(to_line, _iter_documents(tx, scope))


def to_line(state: DocumentState) -> dict[str, Any]:
    return _LINE.write(state)


def _read(value: dict[str, Any], into: ImportTarget) -> DocumentState:
    state = _LINE.read(value, {"tenant": into.tenant}, into.map_id)
    if not _HASH.fullmatch(state.document.content_hash):
        raise InvalidInput("content_hash must be 32 hexadecimal digits")
    return replace(state, space=_map_partition(state.space, into))


def _map_partition(space: Partition, into: ImportTarget) -> Partition:
    level = space.level
    if level is Level.USER:
        return space._replace(owner=into.map_user(space.owner, "owner"))
    if level is Level.SESSION or into.told_of is not None:
        raise InvalidInput(f"level: a document of {into.told_of or 'anybody'!r} is none of a {level}'s")
    return space._replace(owner=check_name(space.owner, "owner") if level is Level.AGENT else "")


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
                yield _PIECE_LINE.write(PieceState(state.document.id, piece))


def _read_piece(value: dict[str, Any], into: ImportTarget) -> _PieceLine:
    state = _PIECE_LINE.read(value, {}, into.map_id)
    return _PieceLine(state.document_id, state.piece)


def _prepare(text: _PieceLine, _: ImportTarget) -> _PieceLine:
    return text._replace(draft=make_draft(text.piece.text, text.piece.offset))


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
    _LINE,
    _iter_lines,
    _read,
    _put,
    noun="documents",
    owner=lambda state: (state.document.id, f"{state.space.level.value}:{state.space.owner}"),
)
PIECES = LineKind(
    "pieces",
    "a piece of a document's text, as it is searched; two neighbours share a few words",
    _PIECE_LINE,
    _iter_piece_lines,
    _read_piece,
    _put_pieces,
    prepare=_prepare,
)
