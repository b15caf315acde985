"""The visible text of an HTML page."""

from __future__ import annotations

import re
from html.parser import HTMLParser

_HIDDEN_TAGS = frozenset("script style template".split())
_PARAGRAPHS = frozenset(
    """address article aside blockquote body details dialog div dl fieldset figure footer form h1 h2 h3 h4 h5 h6 header
    hr main nav ol p pre section table ul""".split()
)
_LINES = frozenset("br caption dd dt figcaption legend li option summary tr".split())
_CELLS = frozenset("td th".split())
_SPACE = " \t\n\r\f"
_BLANK = re.compile(f"[{_SPACE}]+")
_BEFORE_LINE_END = re.compile(r"[ \t]+(?=\n)")


def extract_html_text(page: str) -> tuple[str, str]:
    """Return the text, which starts with the title, and the title."""
    reader = _TextExtractor()
    reader.feed(_sanitize(page))
    reader.close()
    title, body = reader.title(), reader.text()
    return (f"{title}\n\n{body}" if title and body else title or body), title


def _sanitize(page: str) -> str:
    """Remove what makes the standard library's parser fail, or scan to the end over and over."""
    # Browsers read this as a comment up to the next >; some versions of the parser reject it.
    page = page.replace("<![", "<!x[")
    closed = page.rfind("-->") + 3 if "-->" in page else 0
    page = page[:closed] + page[closed:].replace("<!--", "")
    # After the last > no tag can end.
    end = page.rfind(">") + 1
    return page[:end] + page[end:].replace("<", "&lt;")


class _TextExtractor(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._parts: list[str] = []
        self._title: list[str] = []
        self._in_title = False
        self._titled = False
        self._unseen = 0
        self._preformatted = 0
        self._breaks = 0  # line ends to come before the next text
        self._gap = False  # a space to come before it, unless a line ends

    def title(self) -> str:
        return _BLANK.sub(" ", "".join(self._title)).strip(" ")

    def text(self) -> str:
        return _BEFORE_LINE_END.sub("", "".join(self._parts)).strip()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _HIDDEN_TAGS:
            self._unseen += 1
        elif tag == "title" and not self._titled and not self._unseen:
            self._in_title = self._titled = True
        elif tag == "pre":
            self._preformatted += 1
        self._mark_break(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in _HIDDEN_TAGS:
            self._unseen = max(0, self._unseen - 1)
        elif tag == "title":
            self._in_title = False
        elif tag == "pre":
            self._preformatted = max(0, self._preformatted - 1)
        self._mark_break(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._mark_break(tag)  # it contains nothing

    def _mark_break(self, tag: str) -> None:
        if self._unseen:
            return
        if tag in _PARAGRAPHS:
            self._breaks = 2
        elif tag in _LINES:
            self._breaks = max(1, self._breaks)
        elif tag in _CELLS:
            self._gap = True

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self._title.append(data)
        elif not self._unseen:
            self._add(data)

    def _add(self, data: str) -> None:
        if self._preformatted:
            words = data.lstrip("\n") if self._breaks else data
            gap = False
        else:
            words = _BLANK.sub(" ", data).strip(" ")
            gap = self._gap or data[0] in _SPACE
        if not words:
            self._gap = True
            return
        if self._parts and self._breaks:
            self._parts.append("\n" * self._breaks)
        elif self._parts and gap:
            self._parts.append(" ")
        self._parts.append(words)
        self._breaks, self._gap = 0, not self._preformatted and data[-1] in _SPACE
