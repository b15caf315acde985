"""The text and the title of a document, by its kind."""

from __future__ import annotations

import re
from typing import NamedTuple

from limpet.documents.files import decode_text
from limpet.model.document import DocumentKind

_HEADING = re.compile(r"\s*#[ \t]+([^\n]*?)[ \t#]*(?:\r?\n|$)")
_LONGEST_TITLE = 500


class DocumentText(NamedTuple):
    text: str
    title: str | None = None


def extract(data: bytes, kind: DocumentKind, name: str) -> DocumentText:
    if kind is DocumentKind.PDF:
        from limpet.documents.pdf_text import extract_pdf_text  # late: few documents are PDF

        text, title = extract_pdf_text(data, name)
        return DocumentText(text, _collapse_title(title))
    text = decode_text(data, name)
    if kind is DocumentKind.HTML:
        from limpet.documents.html_text import extract_html_text

        text, title = extract_html_text(text)
        return DocumentText(text, _collapse_title(title))
    return extract_plain_text(text, kind)


def extract_plain_text(text: str, kind: DocumentKind) -> DocumentText:
    """Return plain text as it is. Markdown that begins with a heading has a title."""
    heading = _HEADING.match(text) if kind is DocumentKind.MARKDOWN else None
    return DocumentText(text, _collapse_title(heading[1]) if heading else None)


def _collapse_title(title: str | None) -> str | None:
    return " ".join((title or "").split())[:_LONGEST_TITLE] or None
