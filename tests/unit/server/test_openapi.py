"""The description of the API says what every field means."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, TypedDict

import pytest

from limpet.model import types
from limpet.model.access import AuditEntry, GrantInfo, KeyInfo
from limpet.model.chunk import Signal
from limpet.model.constraints import Definitions
from limpet.model.graph import Graph
from limpet.model.job import Finding, JobInfo
from limpet.model.privacy import RetentionResult
from limpet.model.record import Profile
from limpet.model.schema import codec
from limpet.model.transfer import ExportResult, ImportResult
from limpet.server.custom_routes import list_routes
from limpet.server.openapi import build_openapi

WHOLE = build_openapi(list_routes(), keyed=True)


def fields(found: Any, at: str) -> Iterator[tuple[str, Any]]:
    """Every property of a schema, however deep, but for what a body may not be."""
    if isinstance(found, dict):
        for name, inner in found.get("properties", {}).items():
            yield f"{at}.{name}", inner
        for name, inner in found.items():
            if name not in ("not", "oneOf"):
                yield from fields(inner, f"{at}.{name}")
    if isinstance(found, list):
        for number, inner in enumerate(found):
            yield from fields(inner, f"{at}[{number}]")


def test_openapi_fields_and_parameters_have_descriptions() -> None:
    known = dict(fields(WHOLE["components"]["schemas"], ""))
    for path, methods in WHOLE["paths"].items():
        for method, told in methods.items():
            known |= {f"{method} {path} {each['name']}": each for each in told["parameters"]}
            known |= dict(fields(told.get("requestBody", {}), f"{method} {path}"))
    assert len(known) > 400
    assert [where for where, field in known.items() if len(field.get("description", "")) < 5] == []


def test_schema_includes_format_and_description_of_annotated_fields() -> None:
    class Thing(TypedDict):
        made: Annotated[types.Moment | None, "null: never"]
        other: Annotated[Signal, "in full"]

    found: Definitions = {}
    codec(Thing).schema(found, "output")
    assert found["Thing"]["properties"] == {
        "made": {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}], "description": "null: never"},
        "other": {"$ref": "#/components/schemas/Signal", "description": "in full"},
    }


@pytest.mark.parametrize(
    "noun",
    [
        AuditEntry,
        ExportResult,
        Finding,
        GrantInfo,
        Graph,
        ImportResult,
        JobInfo,
        KeyInfo,
        Profile,
        RetentionResult,
    ],
)
def test_view_types_have_descriptions_for_every_field(noun: type) -> None:
    found: Definitions = {}
    codec(noun).schema(found, "output")
    assert all("description" in field for each in found.values() for field in each["properties"].values())


def test_openapi_says_that_a_source_is_of_a_user() -> None:
    body = WHOLE["paths"]["/v1/records"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    forbidden = [tuple(each["required"]) for each in body["not"]["anyOf"]]
    assert {("source", "agent"), ("source", "scope")} <= set(forbidden)
