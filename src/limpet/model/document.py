"""A document: a text somebody gave to be remembered, found again by where it came from."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

from limpet.model.columns import NO_COLUMN, SET_ONCE, Encrypted, Stored
from limpet.model.dataclass import dataclass
from limpet.model.schema import NO_EXPORT, Called
from limpet.model.types import MAX_TITLE_BYTES, MAX_URI_BYTES, Id, Labels, Moment, Title, Uri
from limpet.model.values import check_name, check_text


class DocumentKind(StrEnum):
    """What a document is, by the end of its name: how its text is got out, and where it may be cut."""

    TEXT = "text"
    MARKDOWN = "markdown"
    HTML = "html"
    PDF = "pdf"
    CODE = "code"


class DocumentStatus(StrEnum):
    """What adding a document did."""

    ADDED = "added"
    CHANGED = "changed"
    UNCHANGED = "unchanged"


_HASH_COLUMN = Stored(
    ("content_hash",), lambda digest: (bytes.fromhex(digest),), lambda stored: bytes(stored).hex(), "same_bytes"
)


@dataclass(frozen=True, slots=True)
class Document:
    """``status`` says what the call that answered did to it; it is None for one that was only looked up."""

    id: Annotated[Id, SET_ONCE, "given by the store"]
    uri: Annotated[Uri, SET_ONCE, Called("the document's uri"), Encrypted("same"), "its URI"]
    title: Annotated[Title | None, "as given, or its first heading; null: it has none"]
    metadata: Annotated[Labels, "what the program that made it added, texts by name"]
    content_hash: Annotated[str, _HASH_COLUMN, "hash of its text"]
    created_at: Annotated[Moment, SET_ONCE, "when it was created"]
    updated_at: Annotated[Moment, "when it was last changed"]
    chunks: Annotated[int, NO_EXPORT, NO_COLUMN, "chunks it was split into"] = 0
    status: Annotated[DocumentStatus | None, NO_EXPORT, NO_COLUMN, "what this call did; null: it was only read"] = None


@dataclass(frozen=True, slots=True)
class DocumentDraft:
    """A document on its way in. A title or metadata left None stays what it was.

    The title its content gives itself is the weaker one, but follows the content when that changes.
    """

    uri: str
    content_hash: str
    title: str | None = None
    metadata: Mapping[str, str] | None = None
    own_title: str | None = None

    def changes_labels(self, known: Document) -> bool:
        """Whether it names the document otherwise than before."""
        return self.title not in (None, known.title) or self.metadata not in (None, known.metadata)


_SUFFIXES = {
    DocumentKind.MARKDOWN: "md markdown mdown mkd mdx",
    DocumentKind.HTML: "html htm xhtml",
    DocumentKind.PDF: "pdf",
    DocumentKind.CODE: (
        "py pyi pyx js mjs cjs jsx ts mts cts tsx vue svelte java kt kts scala groovy clj cljs c h cc cpp cxx hh hpp"
        " hxx m mm cs fs go rs zig nim swift dart rb php pl pm lua r jl ex exs erl hs ml mli elm lisp el scm sh bash"
        " zsh fish ps1 bat cmd sql css scss sass less proto graphql tf hcl nix cmake gradle asm s f90 pas vb sol v vhd"
        " json yaml yml toml ini cfg xml"
    ),
}
_KIND_OF = {suffix: kind for kind, suffixes in _SUFFIXES.items() for suffix in suffixes.split()}


def detect_kind(name: str) -> DocumentKind:
    """The kind of what has this name or uri; plain text when its end says nothing."""
    last = name.replace("\\", "/").rpartition("/")[2]
    stem, dot, suffix = last.rpartition(".")
    return _KIND_OF.get(suffix.lower(), DocumentKind.TEXT) if stem and dot else DocumentKind.TEXT


def check_uri(value: object) -> str:
    return check_name(value, "the document's uri", max_bytes=MAX_URI_BYTES)


def check_title(value: object) -> str:
    return check_text(value, "title", max_bytes=MAX_TITLE_BYTES)
