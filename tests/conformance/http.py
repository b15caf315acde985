"""Requests made up from our own description of the API: ``python -m tests.conformance.http``, or ``make fuzz``.

schemathesis (the extra ``dev-http``) reads openapi.json from a server on an empty store, sends what the description
allows and what it does not, and holds every answer against it. Exit status 1 for anything but what ``KNOWN`` names.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.server_process import Server

# ST202: what the schema allows was refused. A JSON Schema cannot say it any closer.
KNOWN = {
    ("POST /v1/forget", "ST202"): "a query must have a word, and what is a word to the search no pattern says",
    ("PATCH /v1/records/{id}", "ST202"): "a field is given or cleared, not both",
    **dict.fromkeys(
        ((f"POST /v1/purge/{what}", "ST202") for what in ("user", "session", "older")),
        "confirm repeats what is purged, unless it is a dry run",
    ),
    **dict.fromkeys(
        (
            *(("GET /v1/sessions/{session_id}/context", "ST202"), ("POST /v1/sessions/{session_id}/context", "ST202")),
            *(("POST /v1/context", "ST202"), ("POST /v1/sessions/{session_id}/turns", "ST202")),
        ),
        "how small a window is too small depends on the settings",
    ),
    **dict.fromkeys(
        (
            ("PUT /v1/sessions/{session_id}/summary", "ST202"),
            ("POST /v1/sessions/{session_id}/summary/swap", "ST202"),
        ),
        "a summary covers messages that are there",
    ),
    ("POST /v1/sessions", "ST202"): "a user who is not named is called CHANNEL:CHAT, which may be too long together",
}
# ST302: what was made is not found. So it should be where the second request names an owner, and the first did not.
FOREIGN = re.compile(r"ST302(?:(?!st replay).)*?Reproduce with:\n(?P<requests>.*?)\n *st replay", re.DOTALL)
OWNER = re.compile(r'"(?:user|agent)": "|[?&](?:user|agent)=')
# A stream of live events never ends by itself: each is listened to for a moment.
SETTINGS = """\
[[operations]]
include-path = "/v1/events"
request-timeout = 0.5
max-stream-events = 1
"""


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    program = shutil.which("st", path=str(Path(sys.executable).parent)) or shutil.which("st")
    if program is None:
        print("schemathesis is not installed: pip install 'limpet[dev-http]'", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="limpet-fuzz-") as folder:
        place, log = Path(folder), Path(folder, "log")
        with Server(place / "data", "--no-worker", log=log) as server:
            report, said = _run(program, server.url, place, options)
            alive = server.process.poll() is None
            status = server.stop()
        faults = found(report, said)
        if not alive or status:
            faults.append(f"the server ended with {status}")
        faults += [f"logged: {line}" for line in log.read_text().splitlines() if "unexpected" in line]
    print(
        "\n".join(["", *(f"FAILED {each}" for each in faults), f"{report['test_cases']['generated']} requests made up"])
    )
    for (operation, code), reason in KNOWN.items():
        print(f"known: {operation} {code}: {reason}")
    print("failed" if faults else "passed")
    return 1 if faults else 0


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="http", description="Requests made up from our own description of the API.")
    parser.add_argument("--max-examples", type=int, default=20, help="for each operation (default 20)")
    parser.add_argument("--workers", type=int, default=2, help="requests at once (default 2)")
    parser.add_argument("--seed", type=int, help="other requests than those of every day")
    parser.add_argument("--only", metavar="PATH", help="one path of the API")
    return parser.parse_args(arguments)


def _run(program: str, url: str, place: Path, options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """Its report, and what it printed."""
    settings, written = place / "schemathesis.toml", place / "report.json"
    settings.write_text(SETTINGS)
    command = [program, "--config-file", str(settings), "run", f"{url}/openapi.json", "--no-color"]
    command += ["--max-examples", str(options.max_examples), "--workers", str(options.workers)]
    command += ["--generation-deterministic"] if options.seed is None else ["--seed", str(options.seed)]
    command += ["--report", "json", "--report-json-path", str(written)]
    command += ["--include-path", options.only] if options.only else []
    said = ""
    with subprocess.Popen(command, cwd=place, stdout=subprocess.PIPE, text=True) as running:  # it keeps what it found
        assert running.stdout is not None
        for line in running.stdout:
            print(line, end="", flush=True)
            said += line
    report: dict[str, Any] = json.loads(written.read_text())
    return report, said


def found(report: dict[str, Any], said: str) -> list[str]:
    """Everything that is not known; also a run that did not come to its end."""
    faults = [
        f"{operation}: {failure['code']} {failure['title']}"
        for failure in report["failures"]
        for operation in failure["operations"]
        if (operation, failure["code"]) not in KNOWN and not (failure["code"] == "ST302" and _asks_for_others(said))
    ]
    faults += [f"schemathesis: {str(error)[:500]}" for error in report["errors"]]
    return faults if report["complete"] else [*faults, f"schemathesis stopped: {report['stop_reason']}"]


def _asks_for_others(said: str) -> bool:
    """Whether each of the requests that found nothing names an owner, whom the request that made it did not name."""
    sections = [match["requests"].strip().splitlines() for match in FOREIGN.finditer(said)]
    requests = [[line for line in lines if "curl " in line] for lines in sections]
    return bool(requests) and all(OWNER.search(asked) and not OWNER.search(made[0]) for *made, asked in requests)


if __name__ == "__main__":
    sys.exit(main())
