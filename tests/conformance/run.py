"""The protocol's own conformance suite and its inspector against our MCP server: ``python -m tests.conformance.run``.

Their npm packages, and the Node they need, go into build/conformance. Without npm nothing is checked, and that is said.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLACE = ROOT / "build" / "conformance"
BIN = PLACE / "node_modules" / ".bin"
PACKAGES = ("node@24", "@modelcontextprotocol/conformance@0.2.0-alpha.12", "@modelcontextprotocol/inspector@2.12")
ERAS = ("2025-11-25", "2026-07-28")
INSPECTED = (
    ("tools/list", "--strict"),
    ("resources/list",),
    ("resources/templates/list",),
    ("prompts/list",),
    ("tools/call", "--tool-name", "memory_search", "--tool-arg", "query=Lisbon"),
)
TOTAL = re.compile(r"^Total: (\d+) passed, (\d+) failed", re.MULTILINE)


@dataclass(frozen=True)
class Checked:
    what: str
    passed: int
    failed: int
    said: str  # shown when something failed

    @property
    def is_good(self) -> bool:
        return self.passed > 0 and self.failed == 0


def main() -> int:
    if shutil.which("npm") is None:
        print("conformance: skipped: npm is not installed")
        return 0
    install()
    with served() as url:
        done = [*(conformance(url, era) for era in ERAS), *(inspected(url, *each) for each in INSPECTED)]
    for each in done:
        if not each.is_good:
            print(each.said, file=sys.stderr)
    for each in done:
        print(f"{each.what:45} {each.passed:4} of {each.passed + each.failed:4}  {'ok' if each.is_good else 'FAILED'}")
    return 0 if all(each.is_good for each in done) else 1


def install() -> None:
    stamp = PLACE / "installed.json"
    if stamp.exists() and json.loads(stamp.read_text()) == list(PACKAGES):
        return
    shutil.rmtree(PLACE, ignore_errors=True)
    PLACE.mkdir(parents=True)
    (PLACE / "package.json").write_text('{"private": true}')
    command = ["npm", "install", "--no-audit", "--no-fund", "--loglevel=error", *PACKAGES]
    subprocess.run(command, cwd=PLACE, check=True)
    stamp.write_text(json.dumps(PACKAGES))


@contextmanager
def served() -> Iterator[str]:
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    command = [sys.executable, "-W", "ignore", "-m", "tests.conformance.app", "--port", str(port)]
    with subprocess.Popen(command, cwd=ROOT, env=env) as process:
        try:
            wait_for(port, process)
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.terminate()


def wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise SystemExit("conformance: the server did not start")


def conformance(url: str, era: str) -> Checked:
    done = node("conformance", "server", "--url", url, "--suite", "all", "--spec-version", era)
    found = TOTAL.search(done.stdout)
    passed, failed = (int(found[1]), int(found[2])) if found else (0, 1)
    return Checked(f"conformance {era}", passed, failed + (not failed and done.returncode != 0), said(done))


def inspected(url: str, method: str, *more: str) -> Checked:
    done = node("mcp-inspector", "--cli", url, "--method", method, *more)
    good = done.returncode == 0 and answers(done.stdout, method) and "Warning:" not in done.stderr
    return Checked(f"mcp-inspector {method} {' '.join(more[:1])}".strip(), int(good), int(not good), said(done))


def answers(text: str, method: str) -> bool:
    try:
        answer = json.loads(text)
    except json.JSONDecodeError:
        return False
    if method == "tools/call":
        return "Lisbon" in json.dumps(answer) and not answer.get("isError")
    return any(isinstance(value, list) and value for value in answer.values())


def node(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PATH": os.pathsep.join([str(BIN), os.environ.get("PATH", "")])}
    command = [str(BIN / "node"), str((BIN / program).resolve()), *arguments]
    return subprocess.run(command, cwd=PLACE, env=env, capture_output=True, text=True, timeout=500, check=False)


def said(done: subprocess.CompletedProcess[str]) -> str:
    return f"{' '.join(done.args[1:])}\n{done.stdout[-8000:]}\n{done.stderr[-4000:]}"


if __name__ == "__main__":
    sys.exit(main())
