"""A folder of Markdown, such as a vault of notes: each file a document, its front matter metadata."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from limpet.documents.files import decode_text, extract_plain_text, path_to_uri, printable_path
from limpet.documents.files import read_file as read_bytes
from limpet.errors import LimpetError
from limpet.lifecycle.formats.contents import ForeignDocument, ForeignItem, clean_label, clean_text
from limpet.lifecycle.formats.source import ImportSource
from limpet.model.document import DocumentKind, detect_kind
from limpet.model.transfer import ImportSkip

NAME = "markdown"
_FRONT = re.compile(r"\A---[ \t]*\r?\n(.*?)^(?:---|\.\.\.)[ \t]*\r?$\n?", re.DOTALL | re.MULTILINE)
_FIELD = re.compile(r"^([A-Za-z0-9_][\w .-]*?)[ \t]*:[ \t]*(.*?)[ \t]*\r?$")
_ITEM = re.compile(r"^[ \t]*-[ \t]+(.*?)[ \t]*\r?$")
_QUOTED = re.compile(r"""\A(["'])(.*)\1\Z""", re.DOTALL)


def read(source: ImportSource, max_bytes: int) -> Iterator[ForeignItem]:
    for name in source.passed_over:
        yield ImportSkip(name, "it is hidden, or a link")
    for name in source.names:
        if detect_kind(name) is not DocumentKind.MARKDOWN:
            yield ImportSkip(printable_path(name), "it is not Markdown; `limpet documents add` takes other files")
            continue
        path = str(source.path) if source.kind == "file" else os.path.join(source.path, name)
        try:
            text = decode_text(read_bytes(path, max_bytes, any_bytes=False), printable_path(path))
            found = _build_document(path_to_uri(path), text)
        except LimpetError as error:
            yield ImportSkip(printable_path(name), str(error))
            continue
        yield found if found.text.strip() else ImportSkip(printable_path(name), "it is empty")


def _build_document(uri: str, text: str) -> ForeignDocument:
    front = _FRONT.match(text)
    about = parse_front_matter(front[1]) if front else {}
    body = text[front.end() :] if front else text
    title = about.pop("title", None) or extract_plain_text(body, DocumentKind.MARKDOWN).title
    return ForeignDocument(uri, body, title, about)


def parse_front_matter(text: str) -> dict[str, str]:
    """Fields and lists of one level, as text; what is nested deeper is left as it stands."""
    found: dict[str, str] = {}
    last = ""
    for line in text.splitlines():
        field, item = _FIELD.match(line), _ITEM.match(line)
        if field:
            last = clean_label(field[1].strip())
            found[last] = _parse_value(field[2])
        elif item and last:
            found[last] = ", ".join(filter(None, (found[last], _parse_value(item[1]))))
    return {name: value for name, value in found.items() if name and value}


def _parse_value(text: str) -> str:
    plain = clean_text(text).strip()
    if plain.startswith("[") and plain.endswith("]"):
        return ", ".join(filter(None, (_parse_value(one) for one in plain[1:-1].split(","))))
    quoted = _QUOTED.match(plain)
    return quoted[2] if quoted else plain
