"""An import from a file that somebody opened: what it reads is what comes in, whatever the file is called."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO, StringIO
from pathlib import Path
from typing import IO, Any, cast

import pytest

from limpet import Config, Limpet
from limpet.errors import InvalidInput

pytestmark = pytest.mark.every_backend

MARK = "read from the object"


def _snapshot(text: str) -> bytes:
    return json.dumps({"sessions": [{"id": "s1", "messages": [{"role": "user", "content": text}]}]}).encode()


class Named(BytesIO):
    """Bytes under a name that is another file's."""

    name: Any = "import.json"


def _texts(memory: Limpet) -> list[str]:
    return [message.text for info in memory.sessions() for message in memory.load_session(info.id).messages()]


def test_import_reads_the_object_and_not_its_name(memory: Limpet, tmp_path: Path) -> None:
    other = tmp_path / "somebody elses.json"
    other.write_bytes(_snapshot("read from the name"))
    file = Named(_snapshot(MARK))
    file.name = str(other)
    memory.transfer.import_file(file)
    assert _texts(memory) == [MARK]


@pytest.mark.parametrize("name", ["missing.json", "../../etc/passwd", "", 7, None, "a\x00b.json", "é" * 300 + ".json"])
def test_import_needs_no_name(memory: Limpet, name: object) -> None:
    file = Named(_snapshot(MARK))
    file.name = name
    memory.transfer.import_file(file)
    assert _texts(memory) == [MARK]


def test_import_begins_where_the_file_stands(memory: Limpet) -> None:
    file = BytesIO(b"a header" + _snapshot(MARK))
    file.seek(len("a header"))
    memory.transfer.import_file(file)
    assert _texts(memory) == [MARK]
    assert not file.closed


def test_import_takes_in_a_packed_export(memory: Limpet) -> None:
    memory.remember("tea at four", user="alice")
    file = BytesIO()
    memory.transfer.archive(file, "alice")
    file.seek(0)
    with Limpet.open(":memory:") as other:
        assert other.transfer.import_file(file).records == 1


class Endless:
    """Zeros for ever; it counts what was read."""

    name = "endless.json"
    size = 0

    def read(self, size: int = -1) -> bytes:
        assert 0 < size <= 1 << 20, "read in slices, never whole"
        self.size += size
        return bytes(size)


def test_import_refuses_more_than_the_limit(store_url: str) -> None:
    config = Config.load(overrides={"embedding.model": "none"})
    config = replace(config, server=replace(config.server, max_import_bytes=3_000_000))
    endless = Endless()
    with Limpet.open(store_url, config=config) as memory:
        with pytest.raises(InvalidInput, match=r"3,000,000 bytes.*server\.max_import_bytes"):
            memory.transfer.import_file(cast("IO[bytes]", endless))
        assert memory.sessions() == []
    assert endless.size < 6_000_000


@pytest.mark.parametrize("make", [lambda: None, lambda: "import.json", lambda: b"{}", object, lambda: StringIO("{}")])
def test_import_refuses_what_is_not_an_open_binary_file(memory: Limpet, make: Callable[[], Any]) -> None:
    with pytest.raises(InvalidInput, match="binary"):
        memory.transfer.import_file(make())
