"""The text and the title of a document, by its kind."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, NamedTuple

from limpet.documents.files import decode_text
from limpet.errors import InvalidInput, Unsupported
from limpet.model.document import DocumentKind
from limpet.model.late import load_modules
from limpet.model.values import replace_unstorable

if TYPE_CHECKING:
    from pypdf import PdfReader

_HEADING = re.compile(r"\s*#[ \t]+([^\n]*?)[ \t#]*(?:\r?\n|$)")
_LONGEST_TITLE = 500


class DocumentText(NamedTuple):
    text: str
    title: str | None = None


def extract(data: bytes, kind: DocumentKind, name: str) -> DocumentText:
    if kind is DocumentKind.PDF:
        text, title = extract_pdf_text(data, name)
        return DocumentText(text, _collapse_title(title))
    text = decode_text(data, name)
    if kind is DocumentKind.HTML:
        load_modules("limpet.documents.html_text")
        from limpet.documents.html_text import extract_html_text  # late: few documents are HTML

        text, title = extract_html_text(text)
        return DocumentText(text, _collapse_title(title))
    return extract_plain_text(text, kind)


def extract_plain_text(text: str, kind: DocumentKind) -> DocumentText:
    """Return plain text as it is. Markdown that begins with a heading has a title."""
    heading = _HEADING.match(text) if kind is DocumentKind.MARKDOWN else None
    return DocumentText(text, _collapse_title(heading[1]) if heading else None)


def _collapse_title(title: str | None) -> str | None:
    return " ".join((title or "").split())[:_LONGEST_TITLE] or None


def extract_pdf_text(data: bytes, name: str) -> tuple[str, str | None]:
    """Return the text of all pages, and the title in the file. Needs the extra ``pdf``."""
    load_modules("pypdf")
    try:
        from pypdf import PdfReader
    except ImportError:
        raise Unsupported(f'{name} is a PDF, which needs a package: pip install "limpet[pdf]"') from None
    try:
        reader = PdfReader(io.BytesIO(data))
        locked = reader.is_encrypted and not reader.decrypt("")
        pages = [] if locked else [page.extract_text() for page in reader.pages]
        title = None if locked else _read_title(reader)
    except Exception as error:  # why: for a broken file the reader may raise anything
        raise InvalidInput(f"{name} is a PDF that cannot be read: {error}") from error
    if locked:
        raise InvalidInput(f"{name} is encrypted; save it without its password first")
    text = replace_unstorable("\n\n".join(filter(None, map(str.strip, pages)))).strip()
    if not text:
        raise InvalidInput(f"{name} contains no text, perhaps only images; run text recognition (OCR) first")
    return text, None if title is None else replace_unstorable(title)


def _read_title(reader: PdfReader) -> str | None:
    about = reader.metadata
    return None if about is None or not isinstance(about.title, str) else about.title
