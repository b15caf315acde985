"""Documents: texts that are searched like messages."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from limpet.model.document import Document
from limpet.model.record import Forgotten
from limpet.server.auth import Caller
from limpet.server.operation import Operations
from limpet.server.owner import OwnerBody, OwnerQuery
from limpet.server.pages import Page, make_page, parse_cursor
from limpet.server.params import Name, OwnLabels, Pages, Text, Words

operations = Operations("documents")

_Uri = Annotated[Name, Field(description="any name that tells it apart")]


class DocumentsQuery(Pages, OwnerQuery):
    """Those of a user, or of what is shared."""


class AddDocument(OwnerBody):
    uri: _Uri
    text: Annotated[Words, Field(description="what it says, whole")]
    title: Annotated[Text, Field(max_length=500, description="left out: its own heading")] | None = None
    metadata: OwnLabels = None


class OneDocument(OwnerBody):
    uri: _Uri


@operations.get("/v1/documents")
def list_documents(who: Caller, query: DocumentsQuery) -> Page[Document]:
    """Documents, the latest change first"""
    found = who.hf.documents.list(
        **query.owner_arguments(who), limit=query.limit + 1, before=parse_cursor(query.cursor)
    )
    return make_page(found, query.limit, lambda document: (document.updated_at, document.id))


@operations.post("/v1/documents", 201)
def add_document(who: Caller, body: AddDocument) -> Document:
    """Keep a text under a uri; the same text again changes nothing, another takes its place"""
    kept = who.hf.documents.add(
        body.uri, body.text, **body.owner_arguments(who), title=body.title, metadata=body.metadata
    )
    assert isinstance(kept, Document)
    return kept


@operations.delete("/v1/documents")
def remove_document(who: Caller, body: OneDocument) -> Forgotten:
    """Remove the document with this uri"""
    return who.hf.documents.remove(body.uri, **body.owner_arguments(who))
