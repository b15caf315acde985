"""Documents: added, listed and removed."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from datetime import datetime
from os import PathLike
from typing import Literal

from limpet.api.handle import Handle
from limpet.documents.repository import Documents
from limpet.model.document import Document
from limpet.model.paging import check_cursor
from limpet.model.record import Forgotten
from limpet.model.telemetry import Progress
from limpet.model.values import check_number, check_page, check_progress
from limpet.security.operation import operation


class DocumentOperations(Handle):
    """Texts that are searched like messages: ``memory.documents``."""

    @operation("documents.add")
    def add(
        self,
        uri_or_path: str | PathLike[str],
        text: str | None = None,
        user: str | None = None,
        *,
        agent: str | None = None,
        scope: Literal["global"] | None = None,
        title: str | None = None,
        metadata: Mapping[str, str] | None = None,
        progress: Progress | None = None,
    ) -> Document | builtins.list[Document]:
        """Keep a text under any uri, a file under its ``file://`` uri, or every file of a folder, as a list.

        What is there already with the same content is left as it is; other content takes its place.
        """
        space, report = self._resolve_owner(user, agent, None, scope).space, check_progress(progress)
        return self._runtime.documents.add(space, uri_or_path, text, report or (lambda *_: None), title, metadata)

    @operation("documents.list")
    def list(
        self,
        user: str | None = None,
        *,
        agent: str | None = None,
        scope: Literal["global"] | None = None,
        limit: int = 50,
        offset: int = 0,
        before: tuple[datetime, str] | None = None,
    ) -> builtins.list[Document]:
        """The documents of a user, an agent or the tenant, the latest change first.

        ``before`` goes on where another page ended: its last document's ``updated_at`` and ``id``.
        """
        space, count = self._resolve_owner(user, agent, None, scope).space, check_page(limit)
        first, place = check_number(offset, "offset"), check_cursor(before)
        return self._read(lambda tx: Documents(tx).find(space, count, first, place))

    @operation("documents.remove")
    def remove(
        self,
        uri: str | PathLike[str],
        user: str | None = None,
        *,
        agent: str | None = None,
        scope: Literal["global"] | None = None,
    ) -> Forgotten:
        """Remove the document with this uri, or of this path, with its chunks. Answers what was removed."""
        return self._runtime.documents.remove(self._resolve_owner(user, agent, None, scope).space, uri)
