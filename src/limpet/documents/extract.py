"""The text of a document, whatever it is wrapped in, and the title it gives itself."""

from __future__ import annotations

import re
from typing import NamedTuple

from limpet.documents.files import decoded
from limpet.model.document import DocumentKind

_HEADING = re.compile(r"\s*#[ \t]+([^\n]*?)[ \t#]*(?:\r?\n|$)")
_LONGEST_TITLE = 500


class Extracted(NamedTuple):
    text: str
    title: str | None = None


def extract(data: bytes, kind: DocumentKind, name: str) -> Extracted:
    if kind is DocumentKind.PDF:
        from limpet.documents.pdf_text import pdf_text  # late: few documents are

        text, title = pdf_text(data, name)
        return Extracted(text, _one_line(title))
    text = decoded(data, name)
    if kind is DocumentKind.HTML:
        from limpet.documents.html_text import html_text

        text, title = html_text(text)
        return Extracted(text, _one_line(title))
    return as_it_is(text, kind)


def as_it_is(text: str, kind: DocumentKind) -> Extracted:
    """Text that needs no unwrapping. Markdown that begins with a heading has a title."""
    heading = _HEADING.match(text) if kind is DocumentKind.MARKDOWN else None
    return Extracted(text, _one_line(heading[1]) if heading else None)


def _one_line(title: str | None) -> str | None:
    return " ".join((title or "").split())[:_LONGEST_TITLE] or None
