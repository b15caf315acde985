"""The container: what a reader of the Dockerfile relies on."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def read_instructions() -> list[tuple[str, str]]:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line.partition(" ") for line in text.splitlines() if line and not line.startswith("#")]
    return [(name, " ".join(rest.split())) for name, _, rest in lines]


def test_container_serves_as_an_ordinary_user_from_a_volume() -> None:
    told = dict(read_instructions())
    assert told["USER"] not in ("root", "0")
    assert told["VOLUME"] == told["ENV"].removeprefix("LIMPET_DATA=") == "/data"
    assert json.loads(told["CMD"]) == ["limpet", "serve", "--host", "0.0.0.0"]
    assert told["EXPOSE"] == "8420"
    names = [name for name, _ in read_instructions()]
    assert names.index("RUN") < names.index("USER") < names.index("CMD"), "nothing is installed by the user"


def find_commands(path: str) -> list[list[str]]:
    lines = [line.removeprefix("# ") for line in (ROOT / path).read_text(encoding="utf-8").splitlines()]
    return [shlex.split(line.removeprefix("docker run ")) for line in lines if line.startswith("docker run ")]


@pytest.mark.parametrize("path", ["Dockerfile", "docs/how-to/serve.md"])
def test_commands_create_a_key_before_the_container_serves(path: str, tmp_path: Path) -> None:
    """The container's command ends at once on a volume without a key. Here the volume is a folder."""
    create, serve = find_commands(path)
    volume, image = create[create.index("-v") + 1], serve[-1]
    assert volume == serve[serve.index("-v") + 1]
    assert volume.endswith(f":{dict(read_instructions())['VOLUME']}")
    arguments = create[create.index(image) + 1 :]
    told = json.loads(dict(read_instructions())["CMD"])
    assert told[0] == arguments[0] == "limpet"
    assert "API key" in run(tmp_path, *told[1:]).stderr
    assert "lim_" in run(tmp_path, *arguments[1:]).stdout
    assert "phone" in run(tmp_path, "api-keys", "list").stdout


def run(data: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "LIMPET_DATA": str(data), "LIMPET_EMBEDDING_MODEL": "none"}
    command = [sys.executable, "-m", "limpet", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_container_installs_extras_that_exist() -> None:
    (given,) = re.findall(r"/src\[([^\]]*)\]", dict(read_instructions())["RUN"])
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert set(given.split(",")) <= extras.keys()
