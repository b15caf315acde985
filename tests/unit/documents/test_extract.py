"""Getting the text out of files: HTML, PDF, encodings, and names of files."""

from __future__ import annotations

import builtins
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limpet.documents.files import extract, extract_pdf_text, extract_plain_text, path_to_uri, read_file, uri_to_path
from limpet.documents.html_text import extract_html_text
from limpet.errors import InvalidInput, LimpetError, Unsupported
from limpet.model.document import DocumentKind, detect_kind
from limpet.model.values import check_text
from tests.pdf_file import make_pdf


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *(("a.md", "markdown"), ("A.MARKDOWN", "markdown"), ("/x.y/a.html", "html"), ("a.b.htm", "html")),
        *(("a.pdf", "pdf"), ("a.py", "code"), ("src/a.rs", "code"), ("config.yaml", "code")),
        *(("a.txt", "text"), ("README", "text"), (".md", "text"), ("a.md/b", "text"), ("", "text"), ("a.", "text")),
        *(("https://x/y.md", "markdown"), ("note:1", "text"), ("C:\\x\\a.py", "code"), ("a.log", "text")),
    ],
)
def test_detect_kind_by_file_extension(name: str, kind: str) -> None:
    assert detect_kind(name) is DocumentKind(kind)


# HTML


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("plain", "plain"),
        ("", ""),
        ("<p>One</p><p>Two</p>", "One\n\nTwo"),
        ("a<b>b</b>c <i>d</i>", "abc d"),
        ("a\n  b\t<b>c</b>\n\nd", "a b c d"),
        ("one<br>two<br/>three", "one\ntwo\nthree"),
        ("<ul><li>a<li>b</ul>c", "a\nb\n\nc"),
        ("<table><tr><td>a</td><td>b</td></tr><tr><td>c</td></tr></table>", "a b\nc"),
        ("<h1>Head</h1>text<div>more<div>inner</div></div>", "Head\n\ntext\n\nmore\n\ninner"),
        ("&lt;b&gt; &amp;amp; &eacute;&#233;&#xe9; &#0;&#xd800;", "<b> &amp; ééé \ufffd\ufffd"),
        ("a<script>if (a<b) '<p>'</script>b<style>p{}</style>c", "abc"),
        ("a<template>x<p>y</p></template>b", "ab"),
        ("a<!-- no <p> -->b<![CDATA[c]]>d<?php e ?>f", "abdf"),
        ("<pre>\n  def f():\n    return <b>1</b>\n\n  x\n</pre>end", "def f():\n    return 1\n\n  x\n\n\nend"),
        ("<head><meta charset=utf-8><link rel=x></head><body onload='x'>a", "a"),
        ("<title>The\n pond</title>frogs", "The pond\n\nfrogs"),
        ("<title>Only</title>", "Only"),
        ("a < b and c > d <", "a < b and c > d <"),
        ("<p>unclosed <!-- comment", "unclosed comment"),
    ],
)
def test_extract_html_text_matches_visible_text(page: str, text: str) -> None:
    assert extract_html_text(page)[0] == text


def test_extract_html_title() -> None:
    assert extract_html_text("<title> A &amp;\n B </title><title>C</title><svg><title>D</title></svg>")[1] == "A & B"
    assert extract(b"<title></title>x", DocumentKind.HTML, "a") == ("x", None)
    assert len(extract(b"<title>" + b"x" * 9000 + b"</title>", DocumentKind.HTML, "a").title or "") == 500


@given(
    st.lists(st.sampled_from([*"<>!-/=\"'&;[]? a\n", "<p>", "<pre>", "</", "<!--", "-->", "<![", "title", "script"]))
)
def test_extract_html_text_accepts_any_markup(parts: list[str]) -> None:
    text, title = extract_html_text("".join(parts))
    assert title in text
    assert text == text.strip()


@pytest.mark.slow
@pytest.mark.parametrize(
    "start",
    ["<!--", "<a ", "</ ", "<script></ ", "<![foo[", "<", "&#", '<a b="', "<?", "<!", "<![if", "<a b=c ", "<!DOCTYPE"],
)
def test_extract_html_text_runs_in_linear_time(start: str) -> None:
    began = time.process_time()
    for end in ("", ">", "-->"):
        extract_html_text(start * (200_000 // len(start)) + end)
    assert time.process_time() - began < 10


# PDF


def test_extract_pdf_joins_pages_and_reads_title() -> None:
    data = make_pdf("The walrus sleeps", "", "The heron waits", title="  Pond   life ")
    assert extract(data, DocumentKind.PDF, "a.pdf") == ("The walrus sleeps\n\nThe heron waits", "Pond life")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "a PDF that cannot be read"),
        (b"%PDF-1.4\n", "a PDF that cannot be read"),
        (make_pdf("x")[:200], "a PDF that cannot be read"),
        (b"<html>", "a PDF that cannot be read"),
        (make_pdf("", ""), "contains no text"),
        (make_pdf("secret", encrypted=True), "is encrypted"),
    ],
)
def test_extract_pdf_rejects_file_without_text(data: bytes, words: str) -> None:
    with pytest.raises(InvalidInput, match=f"a.pdf {words}|a.pdf is {words}"):
        extract_pdf_text(data, "a.pdf")


def test_extract_pdf_without_pypdf_names_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "pypdf":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(Unsupported, match=r'a.pdf is a PDF.*pip install "limpet\[pdf\]"'):
        extract_pdf_text(make_pdf("x"), "a.pdf")


def test_extract_pdf_replaces_invalid_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pypdf.PageObject.extract_text", lambda page: "a\x00b \ud83e\udd8a \ud800c")
    assert extract_pdf_text(make_pdf("x"), "a.pdf")[0] == "a\ufffdb 🦊 \ufffdc"


@given(st.integers(0, 700), st.binary(max_size=8))
def test_extract_pdf_reads_or_rejects_damaged_file(place: int, noise: bytes) -> None:
    data = make_pdf("The walrus sleeps", title="Pond")
    try:
        text, _ = extract_pdf_text(data[:place] + noise + data[place + len(noise) :], "a.pdf")
    except LimpetError:
        return
    assert check_text(text, "text")


# Bytes


@given(st.binary(max_size=300), st.sampled_from([DocumentKind.TEXT, DocumentKind.HTML, DocumentKind.MARKDOWN]))
def test_extract_returns_valid_text_or_rejects_bytes(data: bytes, kind: DocumentKind) -> None:
    try:
        text, title = extract(data, kind, "a")
    except Unsupported:
        return
    assert check_text(text, "text") == text
    assert title is None or check_text(title, "title")


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("# One\ntext", "One"),
        ("\n\n#  One two  ##\r\ntext", "One two"),
        ("# C#", "C"),
        ("text\n# One", None),
        ("## Two", None),
        ("#", None),
        ("# ", None),
        ("#One", None),
    ],
)
def test_extract_markdown_title_from_first_heading(text: str, title: str | None) -> None:
    assert extract_plain_text(text, DocumentKind.MARKDOWN) == (text, title)
    assert extract_plain_text(text, DocumentKind.TEXT).title is None


def test_read_file_stops_early_on_binary_file(tmp_path: Path) -> None:
    file = tmp_path / "large.bin"
    with file.open("wb") as out:
        out.truncate(1 << 33)
    with pytest.raises(Unsupported, match="is not text"):
        read_file(str(file), 1 << 40, any_bytes=False)
    with pytest.raises(InvalidInput, match="8,589,934,592 bytes long; the limit is 10"):
        read_file(str(file), 10, any_bytes=True)


@given(st.binary(min_size=1, max_size=40).filter(lambda name: b"\x00" not in name and name.strip(b"./")))
def test_path_and_file_uri_round_trip(name: bytes) -> None:
    path = "/" + name.decode("utf-8", "surrogateescape").strip("/")
    uri = path_to_uri(path)
    assert uri.isascii()
    assert path_to_uri(uri_to_path(uri)) == uri


@pytest.mark.parametrize("uri", ["file://server/a", "file:///a%00b", "file:", "file://", "file://[/a"])
def test_uri_to_path_rejects_invalid_file_uri(uri: str) -> None:
    with pytest.raises(InvalidInput):
        uri_to_path(uri)
