from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from limpet.errors import InvalidInput, InvalidKey, Unsupported
from limpet.model.values import Clock
from limpet.sessions import files as families
from limpet.sessions.files import BasicSession, SessionStore, get_factory, register_store_type, store_types


class Nothing(SessionStore):
    type_name = "nothing"

    def __init__(self, folder: Path, *, kv_cap: int, transcript_cap: int, clock: Clock) -> None:
        self.settings = (folder, kv_cap, transcript_cap, clock)


class OnlyKeys(Nothing):
    type_name = "only_keys"
    kept: dict[str, Any]

    def kv_get(self, key: str) -> Any:
        return self.__dict__.setdefault("kept", {}).get(key)

    def kv_set(self, key: str, value: Any) -> None:
        self.__dict__.setdefault("kept", {})[key] = value


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(families, "_factories", dict(families._factories))


def test_basic_session_store_type_is_registered(tmp_path: Path, clock: Clock) -> None:
    assert store_types() == ("basic_session",)
    assert isinstance(get_factory("basic_session")(tmp_path, kv_cap=3, transcript_cap=4, clock=clock), BasicSession)


def test_store_factory_passes_settings_to_store_type(tmp_path: Path, clock: Clock) -> None:
    register_store_type("nothing", Nothing)
    store = get_factory("nothing")(tmp_path, kv_cap=3, transcript_cap=4, clock=clock)
    assert isinstance(store, Nothing)
    assert store.settings == (tmp_path, 3, 4, clock)
    assert store_types() == ("basic_session", "nothing")


def test_unknown_store_type_is_rejected_with_list_of_known() -> None:
    with pytest.raises(Unsupported, match="no store type 'graph'; known: basic_session"):
        get_factory("graph")


def test_register_store_type_rejects_name_in_use() -> None:
    register_store_type("twice", BasicSession)
    register_store_type("twice", BasicSession)
    with pytest.raises(InvalidInput, match="already registered"):
        register_store_type("basic_session", Nothing)
    with pytest.raises(InvalidKey):
        register_store_type("", Nothing)


@pytest.mark.parametrize(
    ("operation", "arguments"),
    [
        ("kv_get", ("k",)),
        ("kv_set", ("k", 1)),
        ("kv_delete", ("k",)),
        ("kv_items", ()),
        ("transcript_append", ("user", "hi")),
        ("transcript_read_last", (5,)),
        ("set_working_memory", ("text",)),
        ("list_files", ()),
    ],
)
def test_session_store_names_unsupported_operation(
    tmp_path: Path, clock: Clock, operation: str, arguments: tuple[Any, ...]
) -> None:
    store = Nothing(tmp_path, kv_cap=1, transcript_cap=1, clock=clock)
    with pytest.raises(Unsupported, match=f"'nothing' does not support {operation}$"):
        getattr(store, operation)(*arguments)


def test_session_store_names_unsupported_working_memory(tmp_path: Path, clock: Clock) -> None:
    store = Nothing(tmp_path, kv_cap=1, transcript_cap=1, clock=clock)
    with pytest.raises(Unsupported, match=r"'nothing' does not support working_memory$"):
        _ = store.working_memory


def test_session_store_without_name_uses_class_name() -> None:
    class Nameless(SessionStore):
        pass

    with pytest.raises(Unsupported, match="'Nameless'"):
        Nameless().kv_items()


def test_session_store_with_kv_has_working_memory(tmp_path: Path, clock: Clock) -> None:
    store = OnlyKeys(tmp_path, kv_cap=1, transcript_cap=1, clock=clock)
    assert store.working_memory == ""
    store.set_working_memory("plan: é")
    assert store.working_memory == "plan: é"
    store.kv_set("working_memory", {"plan": "é"})
    assert store.working_memory == '{"plan": "é"}'
    with pytest.raises(InvalidInput):
        store.set_working_memory(3)  # type: ignore[arg-type]
