"""One table: an operation that is added to it is offered by every interface, with nothing else written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import pytest

pytest.importorskip("starlette")

from limpet import Config, Limpet
from limpet.api import wire
from limpet.api.handle import Handle
from limpet.api.parameters import User
from limpet.errors import InvalidInput
from limpet.model.constraints import Integer
from limpet.model.types import Name
from limpet.security.operation import OPERATIONS, On, operation
from limpet.server.custom_routes import list_routes
from limpet.server.openapi import build_openapi
from limpet.tools import TOOLS, Toolbox
from limpet.tools.tool import derive_tool
from tests.http_client import asked
from tests.served import served

NAME = "greetings.greet"
CONFIG = Config.load(overrides={"embedding.model": "none", "jobs.worker": False})


def make_handle() -> type[Handle]:
    class Greetings(Handle):
        @operation(
            NAME,
            on=On.USER,
            needs="read:user",
            http="POST /v1/greetings/{name}",
            answer="text",
            tool="greet",
            cli="greet",
        )
        def greet(
            self,
            name: Annotated[Name, "who is greeted"],
            user: User | None = None,
            *,
            times: Annotated[int, Integer(1, 3), "how often"] = 1,
        ) -> str:
            """Greet somebody.

            As often as you like, up to three times.
            """
            return f"{user}: " + f"Hello {name}! " * times

    return Greetings


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[Limpet]:
    kind = make_handle()
    monkeypatch.setattr(Limpet, "greetings", property(lambda self: kind(self._view)), raising=False)
    try:
        with Limpet.open(":memory:", config=CONFIG) as opened:
            yield opened
    finally:
        del OPERATIONS[NAME]
        wire.get_form.cache_clear()
        derive_tool.cache_clear()


def test_operation_is_authorized(memory: Limpet) -> None:
    handle: Any = memory.acting("bob")
    assert handle.greetings.greet("Ann") == "bob: Hello Ann! "
    assert [entry.operation for entry in memory.access.audit(outcome="refused")] == []
    with pytest.raises(Exception, match=r"read:user:carol"):
        handle.greetings.greet("Ann", user="carol")
    assert [entry.operation for entry in memory.access.audit(outcome="refused")] == [NAME]


def test_operation_is_on_http_with_its_limits(memory: Limpet) -> None:
    with asked(memory, user="me") as ask:
        assert ask.post("/v1/greetings/Ann", times=2) == {"text": "me: Hello Ann! Hello Ann! "}
        assert ask.post("/v1/greetings/Ann", user="bob") == {"text": "bob: Hello Ann! "}
        problem = ask.post("/v1/greetings/Ann", 422, times=4)
        assert problem["errors"][0]["where"] == "body.times"
        assert "did you mean times?" in ask.post("/v1/greetings/Ann", 422, time=1)["detail"]
        told = ask.get("/openapi.json")["paths"]["/v1/greetings/{name}"]["post"]
    assert told["summary"] == "Greet somebody."
    times = told["requestBody"]["content"]["application/json"]["schema"]["properties"]["times"]
    assert times == {"type": "integer", "minimum": 1, "maximum": 3, "description": "how often", "default": 1}


def test_operation_works_remotely(memory: Limpet) -> None:
    with served(memory) as url, Limpet.connect(url, user="bob") as client:
        there: Any = client
        assert there.greetings.greet("Ann/Lee", times=2) == "bob: Hello Ann/Lee! Hello Ann/Lee! "
        assert there.greetings.greet("Ann", "carol") == "carol: Hello Ann! "
        with pytest.raises(InvalidInput, match="times"):
            there.greetings.greet("Ann", times=4)
        with pytest.raises(TypeError, match=r"greetings\.greet"):
            there.greetings.greet()


def test_operation_is_a_tool(memory: Limpet) -> None:
    assert TOOLS["greet"].arguments["required"] == ["name"]
    assert set(TOOLS["greet"].arguments["properties"]) == {"name", "times"}
    outcome = Toolbox(memory, "bob").call("greet", {"name": "Ann"})
    assert outcome.data == {"text": "bob: Hello Ann! "}
    assert Toolbox(memory, "bob").call("greet", {"name": "Ann", "times": 9}).is_error


def test_operation_is_in_the_reference(memory: Limpet) -> None:
    from docs.http_reference import http

    page = "\n".join(http())
    assert "### POST /v1/greetings/{name}" in page
    assert "| `times` | `integer`, 1 to 3 | `1` | how often |" in page


def test_every_operation_is_on_http_or_says_why_not() -> None:
    keys = {route.key for route in list_routes()}
    offered = {route.form.name for route in list_routes()} | {
        name for name, each in OPERATIONS.items() if (each.path, each.http_method) in keys
    }
    missing = {name: each.left_out.get("http", "") for name, each in OPERATIONS.items() if name not in offered}
    assert [name for name, reason in missing.items() if len(reason) < 10] == []


def test_addresses_are_told_apart_by_more_than_the_names_of_their_parts() -> None:
    import re

    paths = {route.form.path for route in list_routes()}
    assert len({re.sub(r"\{\w+\}", "{}", path) for path in paths}) == len(paths)


def test_what_has_a_tool_says_which_arguments_a_model_has() -> None:
    named = {each.tool for each in OPERATIONS.values() if each.tool}
    assert named == set(TOOLS)
    assert build_openapi(list_routes(), keyed=False)["paths"]["/v1/tools/{tool}"]
