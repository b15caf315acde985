"""The container: what a reader of the Dockerfile relies on."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

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


def test_container_installs_extras_that_exist() -> None:
    (given,) = re.findall(r"/src\[([^\]]*)\]", dict(read_instructions())["RUN"])
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert set(given.split(",")) <= extras.keys()
