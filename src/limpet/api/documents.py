"""Documents: add, list, read and remove."""

from __future__ import annotations

import builtins
from collections.abc import Sequence

from limpet.api import parameters as arg
from limpet.api.handle import Handle, to_cursor
from limpet.documents.add import list_possible_uris
from limpet.documents.repository import Documents
from limpet.errors import DocumentNotFound
from limpet.lifecycle.transfer_repository import Transfers
from limpet.model.document import Document
from limpet.model.record import Forgotten
from limpet.model.scope import Partition
from limpet.security.operation import ExtraPermission, On, operation
from limpet.security.telemetry import Progress
from limpet.store.tx import Tx

_PAGE = 500


class DocumentOperations(Handle):
    """Texts that are searched like messages: ``memory.documents``."""

    # Without a text it reads a file of the machine, which is not the user's.
    @operation(
        "documents.add",
        On.OWNER,
        "write",
        "POST /v1/documents",
        when=(ExtraPermission("text", None, "read:store"),),
        status=201,
        names={"uri_or_path": "uri"},
        cli="documents add",
    )
    def add(
        self,
        uri_or_path: arg.DocumentName,
        text: arg.DocumentText | None = None,
        user: arg.User | None = None,
        *,
        agent: arg.Agent | None = None,
        scope: arg.Everyone | None = None,
        title: arg.Title | None = None,
        metadata: arg.Labels | None = None,
        progress: Progress | None = None,
    ) -> Document | builtins.list[Document]:
        """Add a text under any uri, a file under its ``file://`` uri, or every file of a folder, as a list.

        A document with the same content does not change; other content replaces it.
        """
        space = self._resolve_owner(user, agent, None, scope).space
        return self._runtime.documents.add(space, uri_or_path, text, progress or (lambda *_: None), title, metadata)

    @operation("documents.list", On.OWNER, "read", "GET /v1/documents", page="updated_at", cli="documents list")
    def list(
        self,
        user: arg.User | None = None,
        *,
        agent: arg.Agent | None = None,
        scope: arg.Everyone | None = None,
        limit: arg.Limit = 50,
        offset: arg.Offset = 0,
        before: arg.Before | None = None,
    ) -> builtins.list[Document]:
        """List the documents of a user, an agent or the tenant, latest change first.

        ``before`` continues after another page: the ``updated_at`` and ``id`` of its last document.
        """
        space = self._resolve_owner(user, agent, None, scope).space
        return self._read(lambda tx: Documents(tx).find(space, limit, offset, to_cursor(before)))

    @operation("documents.text", On.OWNER, "read", "GET /v1/documents/text", answer="text", cli="documents text")
    def text(
        self,
        uri: arg.DocumentUri,
        user: arg.User | None = None,
        *,
        agent: arg.Agent | None = None,
        scope: arg.Everyone | None = None,
    ) -> str:
        """Return the text of the document with this uri, or of this path, as it was indexed."""
        space, uris = self._resolve_owner(user, agent, None, scope).space, list_possible_uris(uri)
        return self._read(lambda tx: _read_text(tx, space, uris))

    @operation("documents.remove", On.OWNER, "write", "DELETE /v1/documents", audited=True, cli="documents remove")
    def remove(
        self,
        uri: arg.DocumentUri,
        user: arg.User | None = None,
        *,
        agent: arg.Agent | None = None,
        scope: arg.Everyone | None = None,
    ) -> Forgotten:
        """Remove the document with this uri, or of this path, with its chunks. Returns what was removed."""
        return self._runtime.documents.remove(self._resolve_owner(user, agent, None, scope).space, uri)


def _read_text(tx: Tx, space: Partition, uris: Sequence[str]) -> str:
    """The pieces of a document put together again: they overlap, and the white space between them is left out."""
    found = next((document for uri in uris if (document := Documents(tx).get(space, uri)) is not None), None)
    if found is None:
        raise DocumentNotFound(f"no document {uris[0]} here; documents.list lists those there are")
    text, after = "", -1
    while pieces := Transfers(tx).pieces(space, found.id, after, _PAGE):
        for after, piece in pieces:  # noqa: B007 - the last of a page is where the next begins
            end = piece.offset + len(piece.text)
            if end > len(text):
                gap = "\n" * (piece.offset - len(text))
                text += gap + piece.text[max(0, len(text) - piece.offset) :]
    return text
