"""A folder of Markdown, such as a vault of notes: each file a document, its front matter metadata."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from limpet.documents.extract import as_it_is
from limpet.documents.files import decoded, readable, uri_of
from limpet.documents.files import read as read_bytes
from limpet.errors import LimpetError
from limpet.lifecycle.formats.contents import Found, FoundDocument, clean, label
from limpet.lifecycle.formats.source import Source
from limpet.model.document import DocumentKind, kind_of
from limpet.model.transfer import Skipped

NAME = "markdown"
_FRONT = re.compile(r"\A---[ \t]*\r?\n(.*?)^(?:---|\.\.\.)[ \t]*\r?$\n?", re.DOTALL | re.MULTILINE)
_FIELD = re.compile(r"^([A-Za-z0-9_][\w .-]*?)[ \t]*:[ \t]*(.*?)[ \t]*\r?$")
_ITEM = re.compile(r"^[ \t]*-[ \t]+(.*?)[ \t]*\r?$")
_QUOTED = re.compile(r"""\A(["'])(.*)\1\Z""", re.DOTALL)


def read(source: Source, max_bytes: int) -> Iterator[Found]:
    for name in source.passed_over:
        yield Skipped(name, "it is hidden, or a link")
    for name in source.names:
        if kind_of(name) is not DocumentKind.MARKDOWN:
            yield Skipped(readable(name), "it is not Markdown; `limpet documents add` takes other files")
            continue
        path = str(source.path) if source.kind == "file" else os.path.join(source.path, name)
        try:
            text = decoded(read_bytes(path, max_bytes, any_bytes=False), readable(path))
            found = _document(uri_of(path), text)
        except LimpetError as error:
            yield Skipped(readable(name), str(error))
            continue
        yield found if found.text.strip() else Skipped(readable(name), "it is empty")


def _document(uri: str, text: str) -> FoundDocument:
    front = _FRONT.match(text)
    about = front_matter(front[1]) if front else {}
    body = text[front.end() :] if front else text
    title = about.pop("title", None) or as_it_is(body, DocumentKind.MARKDOWN).title
    return FoundDocument(uri, body, title, about)


def front_matter(text: str) -> dict[str, str]:
    """Fields and lists of one level, as text; what is nested deeper is left as it stands."""
    found: dict[str, str] = {}
    last = ""
    for line in text.splitlines():
        field, item = _FIELD.match(line), _ITEM.match(line)
        if field:
            last = label(field[1].strip())
            found[last] = _value(field[2])
        elif item and last:
            found[last] = ", ".join(filter(None, (found[last], _value(item[1]))))
    return {name: value for name, value in found.items() if name and value}


def _value(text: str) -> str:
    plain = clean(text).strip()
    if plain.startswith("[") and plain.endswith("]"):
        return ", ".join(filter(None, (_value(one) for one in plain[1:-1].split(","))))
    quoted = _QUOTED.match(plain)
    return quoted[2] if quoted else plain
