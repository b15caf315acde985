"""Whose folder is whose: any name has one, no two names share one, and no link leads out of it."""

from __future__ import annotations

import re
import unicodedata
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limpet.errors import LimpetError, StorageError
from limpet.model.scope import Level, Partition
from limpet.model.values import check_name
from limpet.store.files import check_no_symlink, folder_name, owner_folder


def _is_name(text: str) -> bool:
    with suppress(LimpetError):
        return check_name(text, "name") == text
    return False


names = st.text(min_size=1, max_size=90).filter(_is_name)


@given(names, names)
def test_folder_name_is_unique_on_case_insensitive_file_systems(one: str, two: str) -> None:
    alike = [unicodedata.normalize("NFKC", folder_name(name)).casefold() for name in (one, two)]
    assert (alike[0] == alike[1]) == (one == two)


@given(names)
def test_folder_name_uses_only_safe_characters(name: str) -> None:
    found = folder_name(name)
    assert re.fullmatch(r"[a-z0-9_@%~.-]{1,120}", found)
    assert not found.startswith(".")
    assert not found.endswith(".")


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("alice", "alice"),
        ("alice@example.org", "alice@example.org"),
        ("Alice", "%41lice"),
        ("whatsapp:+351", "whatsapp%3a%2b351"),
        ("..", "%2e%2e"),
        (".hidden", "%2ehidden"),
        ("../bob", "%2e.%2fbob"),
        ("con", "%63on"),
        ("nul.txt", "%6eul.txt"),
        ("console", "console"),
        ("a~b", "a%7eb"),
        ("é", "%c3%a9"),
    ],
)
def test_folder_name_escapes_unsafe_names(name: str, folder: str) -> None:
    assert folder_name(name) == folder


def test_folder_name_shortens_long_names_uniquely() -> None:
    one, two = folder_name("X" * 255 + "a"), folder_name("X" * 255 + "b")
    assert one != two
    assert max(len(one), len(two)) <= 120


def test_owner_folder_is_separate_for_every_owner(tmp_path: Path) -> None:
    spaces = [
        Partition(tenant, level, owner)
        for tenant in ("default", "users", "tenants", "Default")
        for level, owner in ((Level.USER, "users"), (Level.USER, "a"), (Level.AGENT, "a"), (Level.GLOBAL, ""))
    ]
    folders = {owner_folder(tmp_path, space) for space in spaces}
    assert len(folders) == len(spaces)
    assert not any(one in two.parents for one in folders for two in folders)
    kept_for_sessions = {tmp_path / "memory" / "sessions", tmp_path / "memory" / "sessions.json"}
    assert not any(kept_for_sessions & {folder, *folder.parents} for folder in folders)


def test_check_no_symlink_rejects_links_below_root_only(tmp_path: Path) -> None:
    (tmp_path / "real" / "users" / "bob").mkdir(parents=True)
    (tmp_path / "real" / "users" / "alice").symlink_to("bob")
    (tmp_path / "link").symlink_to("real")
    root = tmp_path / "link"
    assert check_no_symlink(root, root / "users" / "bob" / "MEMORY.md")
    with pytest.raises(StorageError, match="behind a link"):
        check_no_symlink(root, root / "users" / "alice" / "MEMORY.md")
