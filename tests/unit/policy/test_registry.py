"""What the table of operations says about the interfaces: complete, and without contradictions."""

from __future__ import annotations

import re
from typing import Any

import pytest

import limpet.api  # noqa: F401 - fills the table
from limpet.model.constraints import OptionalCodec
from limpet.model.containers import Function, Opaque
from limpet.security.operation import INTERFACES, OPERATIONS, On, Operation
from limpet.security.operation import operation as make_operation
from limpet.tools.tool import TOOLS

ALL = [pytest.param(each, id=each.name) for each in OPERATIONS.values()]


@pytest.mark.parametrize("operation", ALL)
def test_each_interface_offers_it_or_says_why_not(operation: Operation) -> None:
    offered = {"http": operation.http, "tool": operation.tool, "cli": operation.cli}
    for interface in INTERFACES:
        left_out = interface in operation.left_out
        if interface == "remote":  # it goes over HTTP, and may leave out what another operation does for it
            assert operation.http or left_out, "neither offered nor left out"
        else:
            assert bool(offered[interface]) != left_out, f"{interface}: neither offered nor left out, or both"
    assert all(operation.left_out.values())


@pytest.mark.parametrize("operation", ALL)
def test_its_path_names_its_own_arguments(operation: Operation) -> None:
    named = set(re.findall(r"{(\w+)}", operation.path)) - {"session_id"}
    assert named <= operation.arguments
    assert set(operation.names) <= {field.name for field in operation.parameters}
    if operation.http:
        assert operation.http_method in {"GET", "POST", "PUT", "PATCH", "DELETE"}
        assert operation.path.startswith("/v1/")


@pytest.mark.parametrize("operation", ALL)
def test_every_argument_has_a_meaning_and_a_schema(operation: Operation) -> None:
    for field in operation.parameters:
        inner = field.codec.inner if isinstance(field.codec, OptionalCodec) else field.codec
        if isinstance(inner, Function | Opaque):
            continue  # an object of the program, such as a callback
        assert field.meaning, f"{field.name} says nothing"
        assert isinstance(field.codec.schema(), dict)
    assert operation.summary.endswith((".", ":")), "its docstring begins with a sentence"
    assert operation.returns is not Any or operation.name == "session.kv.get"


def test_no_two_operations_have_the_same_path_or_words() -> None:
    shared = {
        *("session.turn", "turn.reply"),
        *("transfer.export", "transfer.archive"),
        *("transfer.import_", "transfer.import_file"),
        *("load_session", "session.refresh"),
    }
    words = {"context", "notes memory"}  # one command, with or without a session; one that reads and writes
    for values in (
        [each.http for each in OPERATIONS.values() if each.http and each.name not in shared],
        [each.cli for each in OPERATIONS.values() if each.cli and each.cli not in words],
    ):
        assert len(values) == len(set(values))


def test_every_tool_stands_in_the_table() -> None:
    assert {each.tool for each in OPERATIONS.values() if each.tool} == set(TOOLS)


def test_argument_named_like_an_owner_must_be_a_value_or_an_owner() -> None:
    """``agent`` of schedules.edit was taken for the place once, and let an agent change every user's schedules."""
    known = OPERATIONS["schedules.edit"]
    assert (sorted(known.owners), sorted(known.values)) == (["user"], ["agent"])

    def edit(self: object, id: str, *, agent: str | None = None) -> None:
        """Change it."""

    with pytest.raises(ValueError, match=r"things\.edit: list agent in values="):
        make_operation("things.edit", on=On.USER, needs="read")(edit)
    assert "things.edit" not in OPERATIONS


@pytest.mark.parametrize("needs", ["", "raed:user", "read:users"])
def test_operation_must_name_permissions_there_are(needs: str) -> None:
    def edit(self: object) -> None:
        """Change it."""

    with pytest.raises(ValueError, match=r"needs no permission|is not a valid"):
        make_operation("things.edit", On.USER, needs)(edit)
    assert "things.edit" not in OPERATIONS
