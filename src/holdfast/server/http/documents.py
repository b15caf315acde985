"""Documents: texts that are searched like messages."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from holdfast import Document, shapes
from holdfast.server.door import Caller
from holdfast.server.given import Name, OwnLabels, Pages, Text, Words
from holdfast.server.operation import Operations
from holdfast.server.pages import Page, before, page
from holdfast.server.whose import Owner, Shared
from holdfast.shapes import nouns

operations = Operations("documents")

_Uri = Annotated[Name, Field(description="any name that tells it apart")]


class DocumentsQuery(Pages, Shared):
    """Those of a user, or of what is shared."""


class AddDocument(Owner):
    uri: _Uri
    text: Annotated[Words, Field(description="what it says, whole")]
    title: Annotated[Text, Field(max_length=500, description="left out: its own heading")] | None = None
    metadata: OwnLabels = None


class OneDocument(Owner):
    uri: _Uri


@operations.get("/v1/documents")
def list_documents(who: Caller, query: DocumentsQuery) -> Page[nouns.Document]:
    """Documents, the latest change first"""
    found = who.hf.documents(**query.owner(who), limit=query.limit + 1, before=before(query.cursor))
    return page(found, query.limit, shapes.document, lambda document: (document.updated_at, document.id))


@operations.post("/v1/documents", 201)
def add_document(who: Caller, body: AddDocument) -> nouns.Document:
    """Keep a text under a uri; the same text again changes nothing, another takes its place"""
    kept = who.hf.add_document(body.uri, body.text, **body.home(who), title=body.title, metadata=body.metadata)
    assert isinstance(kept, Document)
    return shapes.document(kept)


@operations.delete("/v1/documents")
def remove_document(who: Caller, body: OneDocument) -> nouns.Forgotten:
    """Remove the document with this uri"""
    return shapes.forgotten(who.hf.remove_document(body.uri, **body.home(who)))
