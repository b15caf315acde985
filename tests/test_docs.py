"""The documentation, run: every Python block, every ``$`` line of a console with its output, every link.

A console runs ``limpet`` and ``curl``; ``$ limpet serve`` starts a server that lives to the end of the page, and
the address it has by default stands for wherever it really listens. What cannot be run here (an installation, a unit
of systemd, an image) stands in blocks of other kinds; what they call ``limpet`` with is parsed.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import IO, NamedTuple

import pytest

from limpet.cli.main import build_parser, main
from tests.postgres_server import ServerAt

ROOT = Path(__file__).parent.parent
PAGES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "bench/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
ANYTHING = "…"
# An address in a page stands for an empty database of the test's own.
DATABASE = re.compile(r"postgresql://limpet:secret@localhost/\w+")
PLACES = ("python", "console")
# Shown, and not run.
SHOWN = ("json", "sh", "text", "toml", "ini", "dockerfile", "nginx")
ADDRESS = "http://127.0.0.1:8420"
SECRET = "lim_…"
LAST_LINE = "Stop it with Ctrl-C."
SECONDS = 60.0
CURL_TIME_IS_OVER = 28


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
    monkeypatch.setenv("LIMPET_DATA", str(tmp_path / "default"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)  # what is pretended without one is what is checked
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture(params=("without a model", "with the default model"))
def model(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a page says holds for readers who have the default embedder, and for those who have none."""
    if request.param == "with the default model":
        monkeypatch.delenv("LIMPET_EMBEDDING_MODEL", raising=False)


@pytest.mark.parametrize("page", list(runnable()))
def test_code_blocks_run_as_documented(page, model, reader, capsys, request):
    text = page.read_text(encoding="utf-8")
    if DATABASE.search(text):
        text = with_databases(text, request)
    terminal = Terminal()
    request.addfinalizer(terminal.close)
    names: dict[str, object] = {"__name__": "__page__"}
    for block in blocks(text):
        where = f"{page.name}:{block.line}"
        if block.language == "python":
            code = "\n" * (block.line - 1) + terminal.real(block.text)
            exec(compile(code, str(page), "exec", dont_inherit=True), names)
        elif block.language == "console":
            for command, expected in commands(block.text):
                capsys.readouterr()
                status, out = terminal.run(command, capsys)
                assert status == 0, f"{where}: {command} ended with {status}: {out}"
                assert out is None or agrees(expected, out), f"{where}: {command} printed\n{out}\nand not\n{expected}"
    terminal.close()
    if terminal.left_out:
        pytest.skip(f"all but the lines with curl were run, which is not installed: {terminal.left_out}")


class Terminal:
    """One shell for a page, whose variables stay; one server, if the page starts it."""

    def __init__(self) -> None:
        self._server: subprocess.Popen[str] | None = None
        self._shell: subprocess.Popen[str] | None = None
        self._address = ADDRESS
        self._secret = SECRET
        self.left_out: list[str] = []

    def real(self, text: str) -> str:
        return text.replace(ADDRESS, self._address).replace(SECRET, self._secret)

    def run(self, command: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str | None]:
        """How it ended and what it printed; None where it was left out."""
        program, *arguments = shlex.split(command, comments=True)
        if program == "limpet" and "serve" in arguments:
            return 0, self._serve(arguments)
        if program == "limpet":
            status = main(arguments)
            out, err = capsys.readouterr()
            if shown := re.search(r"\blim_[\w-]{43}", out):
                self._secret = shown.group()
            return status, out if status == 0 else err
        assert program == "curl" or re.match(r"\w+=", command), f"only limpet and curl are run, not {program}"
        if shutil.which("curl") is None:
            self.left_out.append(command)
            return 0, None
        status, out = self._typed(self.real(command))
        is_over = status == CURL_TIME_IS_OVER and "--max-time" in command  # how a reader of a stream stops
        return 0 if is_over else status, out.replace(self._address, ADDRESS)

    def _serve(self, arguments: list[str]) -> str:
        assert self._server is None, "a page starts one server"
        self._server = subprocess.Popen(
            [sys.executable, "-m", "limpet", *arguments, "--port", "0"], stderr=subprocess.PIPE, text=True
        )
        lines = list(until(self._server.stderr, LAST_LINE))
        found = re.search(r"http://127\.0\.0\.1:\d+", "".join(lines))
        assert found is not None, f"it did not start: {lines}"
        self._address = found.group()
        return "".join(lines).replace(self._address, ADDRESS)

    def _typed(self, command: str) -> tuple[int, str]:
        if self._shell is None:
            self._shell = subprocess.Popen(
                ["sh"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
        assert self._shell.stdin is not None
        self._shell.stdin.write(f"{command}\nprintf '\\nstatus %s\\n' $?\n")
        self._shell.stdin.flush()
        *lines, last = until(self._shell.stdout, "status ")
        out = "".join(lines).removesuffix("\n")
        return int(last.split()[1]), out + "\n" if out and not out.endswith("\n") else out

    def close(self) -> None:
        """The server ends in peace when it is asked to."""
        shell, self._shell = self._shell, None
        if shell is not None:
            shell.communicate(timeout=SECONDS)
        server, self._server = self._server, None
        if server is not None:
            server.terminate()
            try:
                _, err = server.communicate(timeout=SECONDS)
            except subprocess.TimeoutExpired:
                server.kill()
                raise
            assert server.returncode == 0, err


def until(stream: IO[str] | None, start: str) -> Iterator[str]:
    """Lines to the one that starts so, and that one."""
    assert stream is not None
    for line in stream:
        yield line
        if line.startswith(start):
            return


def with_databases(text: str, request: pytest.FixtureRequest) -> str:
    first: str = request.getfixturevalue("postgres_url")
    server = ServerAt(first)
    urls: dict[str, str] = {}
    for address in dict.fromkeys(DATABASE.findall(text)):
        urls[address] = server.create_database() if urls else first
        if urls[address] != first:
            request.addfinalizer(partial(server.drop_database, urls[address]))
    return DATABASE.sub(lambda found: urls[found.group()], text)


def commands(text: str) -> Iterator[tuple[str, str]]:
    """Each with what it is said to print; a line that ends in a backslash goes on."""
    for piece in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        found = re.match(r"(?:.*\\\n)*.*", piece)
        assert found is not None
        yield found.group(), piece[found.end() + 1 :]


def agrees(expected: str, actual: str) -> bool:
    """… stands for anything, a line of it for any lines, one between spaces for any words; columns may be wider."""
    pattern = "".join(
        r"(?:.*\n)*" if line == ANYTHING else f"{as_pattern(line)}\n" for line in narrow(expected).splitlines()
    )
    return re.fullmatch(pattern, narrow(actual)) is not None if expected.strip() else True


def as_pattern(line: str) -> str:
    words = re.escape(line).replace(rf"\ {ANYTHING}\ ", r"\ (?:.*\ )?")
    return words.replace(ANYTHING, ".*")


def narrow(text: str) -> str:
    return re.sub(r" +", " ", text)


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_links_resolve(page):
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
def test_code_blocks_are_closed_and_of_known_language(page):
    text = page.read_text(encoding="utf-8")
    assert text.count("\n```") % 2 == 0
    assert {block.language for block in blocks(text)} <= {*PLACES, *SHOWN}
    assert all(json.loads(block.text) for block in blocks(text) if block.language == "json")


def test_shell_commands_parse_with_cli():
    parser = build_parser()
    shown = [block for page in PAGES for block in blocks(page.read_text(encoding="utf-8"))]
    text = "\n".join(block.text for block in shown if block.language in ("sh", "ini", "dockerfile"))
    called = re.findall(r"(?:^|[/ =])limpet ([^\n&|]*)", text.replace("\\\n", ""), re.MULTILINE)
    assert len(called) > 10
    for arguments in called:
        parser.parse_args(shlex.split(arguments, comments=True))


def test_mcp_host_snippets_use_known_command_or_url():
    page = (ROOT / "docs" / "how-to" / "mcp.md").read_text(encoding="utf-8")
    snippets = [json.loads(block.text) for block in blocks(page) if block.language == "json"]
    for snippet in snippets:
        [host] = (snippet.get("mcpServers") or snippet["servers"]).values()
        if "command" in host:
            assert host["command"] == "limpet"
            assert build_parser().parse_args(host["args"]).user == "alice"
        else:
            assert (host.get("url") or host["serverUrl"]) == "http://127.0.0.1:8420/mcp"
            assert host["headers"]["Authorization"].startswith("Bearer ${")


def test_every_page_is_reachable_from_readme():
    reached, waiting = set(), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in reached or page.suffix != ".md":
            continue
        reached.add(page)
        targets = LINK.findall(page.read_text(encoding="utf-8"))
        waiting += [(page.parent / target.partition("#")[0]).resolve() for target in targets if "://" not in target]
    assert set(PAGES) - reached == set()


def test_reference_pages_are_up_to_date():
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "generate.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}run `make docs`"
