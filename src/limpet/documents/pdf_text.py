"""The text of a PDF, by the extra ``pdf``."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from limpet.errors import InvalidInput, Unsupported

if TYPE_CHECKING:
    from pypdf import PdfReader


def extract_pdf_text(data: bytes, name: str) -> tuple[str, str | None]:
    """Return the text of all pages, and the title in the file."""
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
    text = _replace_invalid_characters("\n\n".join(filter(None, map(str.strip, pages)))).strip()
    if not text:
        raise InvalidInput(f"{name} contains no text, perhaps only images; run text recognition (OCR) first")
    return text, None if title is None else _replace_invalid_characters(title)


def _read_title(reader: PdfReader) -> str | None:
    about = reader.metadata
    return None if about is None or not isinstance(about.title, str) else about.title


def _replace_invalid_characters(text: str) -> str:
    """Replace characters that no store accepts; fonts without a proper table produce them."""
    whole = text.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode("utf-16-le", "surrogatepass")
    return whole.decode("utf-16-le", "replace")
