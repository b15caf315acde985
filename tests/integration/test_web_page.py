"""The page at / and the sample it offers. What it does in a browser: ``make page``."""

from __future__ import annotations

import gzip
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.server_process import ask, served

UI = Path(__file__).parents[2] / "src" / "limpet" / "server" / "ui"
FILES = sorted(UI.iterdir())
MEDIA = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
SVG = 'xmlns="http://www.w3.org/2000/svg"'  # a name, not an address
MOST_BYTES = 40_000
IS_NAMED = re.compile(r"""(?:href|src)="([^"#]+)"|from "([^"]+)"|url\(([^)]+)\)""")


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    with served(tmp_path_factory.mktemp("page")) as address:
        yield address


def test_page_files_have_media_type_and_content_security_policy(url):
    for path in ("/", *(f"/ui/{each.name}" for each in FILES)):
        status, headers, body = ask(url + path)
        file = UI / (path.removeprefix("/ui/").strip("/") or "index.html")
        assert (status, body) == (200, file.read_bytes())
        assert headers["content-type"].partition(";")[0] == MEDIA[file.suffix]
        assert "default-src 'none'; script-src 'self'; style-src 'self'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
    assert ask(f"{url}/ui/nothing.js")[0] == 404
    assert ask(f"{url}/ui/..%2fapp.py")[0] == 404


def test_page_files_are_compressed_on_request(url):
    file = (UI / "style.css").read_bytes()
    tags: dict[bool, set[str]] = {}
    for accepted in ("gzip, deflate, br", "br;q=1.0, *;q=0.5", "GZIP;q=0.001", "gzip;q=0", "*;q=0", "identity", ""):
        status, headers, body = ask(f"{url}/ui/style.css", **{"Accept-Encoding": accepted})
        is_packed = headers.get("content-encoding") == "gzip"
        assert is_packed == (accepted in ("gzip, deflate, br", "br;q=1.0, *;q=0.5", "GZIP;q=0.001")), accepted
        assert (status, gzip.decompress(body) if is_packed else body) == (200, file)
        assert headers["vary"] == "Accept-Encoding"
        tags.setdefault(is_packed, set()).add(headers["etag"])
    ((plain,), (packed,)) = tags[False], tags[True]
    assert plain != packed
    for accepted, tag, status in (("gzip", packed, 304), ("gzip", plain, 200), ("", f'"x", W/{plain}', 304)):
        got, headers, body = ask(f"{url}/ui/style.css", **{"Accept-Encoding": accepted, "If-None-Match": tag})
        assert (got, headers["etag"]) == (status, packed if accepted else plain)
        assert (body == b"") == (status == 304)
        assert ("content-encoding" in headers) == (status == 200 and accepted == "gzip")
    for path in ("/", "/openapi.json"):
        assert ask(url + path, **{"Accept-Encoding": "gzip"})[1]["content-encoding"] == "gzip"
    assert "content-encoding" not in ask(f"{url}/v1/sessions", **{"Accept-Encoding": "gzip"})[1]


def test_page_files_reference_only_local_files():
    for file in FILES:
        text = file.read_text()
        for found in IS_NAMED.findall(text):
            name = "".join(found).removeprefix("/ui/").removeprefix("./")
            assert (UI / name).is_file(), f"{file.name} names {name}"
        hosts = re.findall(r"(?:https?:)?//[\w.-]+\.\w+", text.replace(SVG, ""))
        assert hosts == [], file.name


def test_page_scripts_never_build_markup_or_code():
    """The policy would stop a script; this stops the markup too."""
    for file in FILES:
        found = re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|DOMParser|srcdoc",
            file.read_text(),
        )
        assert found is None, f"{file.name}: {found}"
    index = (UI / "index.html").read_text()
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)", index)


def test_page_size_is_limited():
    assert sum(each.stat().st_size for each in FILES) < MOST_BYTES


def test_sample_is_loaded_once_with_recent_dates(url):
    status, _, body = ask(f"{url}/v1/sample", "POST")
    told = json.loads(body)
    assert (status, told["user"], told["sessions"], told["messages"]) == (201, "mara", 3, 15)
    status, _, body = ask(f"{url}/v1/sample", "POST")
    assert (status, json.loads(body)["code"]) == (409, "wrong_state")

    sessions = json.loads(ask(f"{url}/v1/sessions?user=mara")[2])["items"]
    assert len(sessions) == told["sessions"]
    messages = json.loads(ask(f"{url}/v1/sessions/{sessions[0]['id']}/messages")[2])["items"]
    age = datetime.now(UTC) - datetime.fromisoformat(messages[0]["created_at"])
    assert timedelta(hours=23) < age < timedelta(hours=25)
    [record] = json.loads(ask(f"{url}/v1/records?user=mara")[2])["items"]
    versions = json.loads(ask(f"{url}/v1/records/{record['id']}/history")[2])["versions"]
    assert [each["content"] for each in versions] == ["Regatta is on 13 June", "Regatta is on 20 June"]
    hits = json.loads(ask(f"{url}/v1/recall?user=mara&query=goose")[2])["hits"]
    assert "Admiral" in hits[0]["text"]
