"""The documentation, run: every Python block, every ``$ holdfast`` line with its output, every link."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from holdfast.cli.main import build_parser, main
from tests.postgres_server import ServerAt

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
ANYTHING = "…"
# An address in a page stands for an empty database of the test's own.
DATABASE = re.compile(r"postgresql://holdfast:secret@localhost/\w+")
PLACES = ("python", "console")


class Block(NamedTuple):
    language: str
    text: str
    line: int


def blocks(text: str) -> Iterator[Block]:
    for found in BLOCK.finditer(text):
        yield Block(found[1], found[2], text.count("\n", 0, found.start()) + 2)


def runs(page: Path) -> bool:
    return any(block.language in PLACES for block in blocks(page.read_text(encoding="utf-8")))


def runnable() -> Iterator[object]:
    for page, name in zip(PAGES, NAMES, strict=True):
        if runs(page):
            needs_server = DATABASE.search(page.read_text(encoding="utf-8"))
            yield pytest.param(page, id=name, marks=[pytest.mark.postgres] if needs_server else [])


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Somebody who follows a page in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOLDFAST_DATA", str(tmp_path / "default"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("page", list(runnable()))
def test_pages_do_what_they_say(page, reader, capsys, request):
    text = page.read_text(encoding="utf-8")
    if DATABASE.search(text):
        text = with_databases(text, request)
    names: dict[str, object] = {"__name__": "__page__"}
    for block in blocks(text):
        where = f"{page.name}:{block.line}"
        if block.language == "python":
            exec(compile("\n" * (block.line - 1) + block.text, str(page), "exec"), names)
        elif block.language == "console":
            for command, expected in commands(block.text):
                capsys.readouterr()
                status = main(command)
                out, err = capsys.readouterr()
                assert status == 0, f"{where}: {command} ended with {status}: {err}"
                assert agrees(expected, out), f"{where}: {command} printed\n{out}\nand not\n{expected}"


def with_databases(text: str, request: pytest.FixtureRequest) -> str:
    first: str = request.getfixturevalue("postgres_url")
    server = ServerAt(first)
    urls: dict[str, str] = {}
    for address in dict.fromkeys(DATABASE.findall(text)):
        urls[address] = server.create_database() if urls else first
        if urls[address] != first:
            request.addfinalizer(partial(server.drop_database, urls[address]))
    return DATABASE.sub(lambda found: urls[found.group()], text)


def commands(text: str) -> Iterator[tuple[list[str], str]]:
    for piece in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        line, _, output = piece.partition("\n")
        program, *arguments = shlex.split(line, comments=True)
        assert program == "holdfast", f"only holdfast is run, not {program}"
        yield arguments, output


def agrees(expected: str, actual: str) -> bool:
    """… stands for anything, a line of it for any lines; how wide a column is does not matter."""
    pattern = "".join(
        r"(?:.*\n)*" if line == ANYTHING else re.escape(line).replace(ANYTHING, ".*") + r"\n"
        for line in narrow(expected).splitlines()
    )
    return re.fullmatch(pattern, narrow(actual)) is not None if expected.strip() else True


def narrow(text: str) -> str:
    return re.sub(r" +", " ", text)


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_links_lead_somewhere(page):
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    broken = []
    for target in LINK.findall(text):
        path, _, heading = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if "://" in target:
            continue
        if not file.exists() or (heading and heading not in headings(file)):
            broken.append(target)
    assert broken == []


def headings(page: Path) -> set[str]:
    found = re.findall(r"^#+ (.+)$", BLOCK.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in found}


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_blocks_are_closed_and_of_a_known_kind(page):
    text = page.read_text(encoding="utf-8")
    assert text.count("\n```") % 2 == 0
    assert {block.language for block in blocks(text)} <= {*PLACES, "json", "sh", "text", "toml"}
    assert all(json.loads(block.text) for block in blocks(text) if block.language == "json")


def test_hosts_of_mcp_are_told_a_command_we_know_or_the_address_with_a_key():
    page = (ROOT / "docs" / "how-to" / "mcp.md").read_text(encoding="utf-8")
    snippets = [json.loads(block.text) for block in blocks(page) if block.language == "json"]
    for snippet in snippets:
        [host] = (snippet.get("mcpServers") or snippet["servers"]).values()
        if "command" in host:
            assert host["command"] == "holdfast"
            assert build_parser().parse_args(host["args"]).user == "alice"
        else:
            assert (host.get("url") or host["serverUrl"]) == "http://127.0.0.1:8420/mcp"
            assert host["headers"]["Authorization"].startswith("Bearer ${")


def test_every_page_can_be_reached_from_the_readme():
    reached, waiting = set(), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in reached or page.suffix != ".md":
            continue
        reached.add(page)
        targets = LINK.findall(page.read_text(encoding="utf-8"))
        waiting += [(page.parent / target.partition("#")[0]).resolve() for target in targets if "://" not in target]
    assert set(PAGES) - reached == set()


def test_the_reference_is_what_the_code_says():
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "generate.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}run `make docs`"
