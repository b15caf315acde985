"""The description of the API, made from the operations themselves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic.json_schema import models_json_schema

from limpet import __version__
from limpet.model.codec import REFERENCE, Definitions
from limpet.model.schema import codec
from limpet.server.operation import Operation
from limpet.server.params import JSON_SCHEMA
from limpet.server.problems import MEDIA
from limpet.tools import TOOLS

_PROBLEM = {
    "type": "object",
    "description": "What went wrong (RFC 9457).",
    "properties": {
        "type": {"type": "string", "description": "the code as a URN"},
        "title": {"type": "string", "description": "the status in words"},
        "status": {"type": "integer", "description": "as of the answer"},
        "detail": {"type": "string", "description": "what is wrong and what to do, for people"},
        "code": {"type": "string", "description": "what went wrong in one word that stays the same, for programs"},
        "request_id": {"type": "string", "description": "what the server's log has it under"},
        "errors": {
            "type": "array",
            "description": "which places of a request are wrong",
            "items": {
                "type": "object",
                "properties": {
                    "where": {"type": "string", "description": "the place, such as body.content"},
                    "message": {"type": "string", "description": "what is wrong with it"},
                },
                "required": ["where", "message"],
            },
        },
    },
    "required": ["type", "title", "status", "detail", "code", "request_id"],
}
_REFUSED = {
    "400": "The request cannot be read",
    "401": "A key is missing, or is unknown, revoked or expired",
    "403": "The key may not do this, or the page is of another origin",
    "404": "There is no such thing, or it is somebody else's",
    "409": "It conflicts with what is there",
    "413": "The body is too large",
    "415": "The body is no JSON",
    "421": "The Host is none of this server's",
    "422": "A value is missing, unknown or outside its limits",
    "429": "Too many requests for this key",
    "500": "A fault of this server",
    "502": "A model behind this server failed",
    "503": "The store cannot be reached, or is busy",
    "507": "The disk is full",
}
_BODIES = ("413", "415")
_ABOUT = (
    "Memory for AI agents: keep messages, remember facts, find them again, assemble prompts, forget. "
    "Lists come in pages: give `next` as `cursor` to go on. Times are RFC 3339 with an offset. "
    "Errors are problem details with a `code`."
)
_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "The same key again makes nothing twice",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": r"^[!-~]+$"},
}
_IN_PATH: dict[str, dict[str, Any]] = {
    "id": {"description": "which one", "schema": {"type": "string", "format": "uuid"}},
    "tool": {"description": "which one", "schema": {"type": "string", "enum": list(TOOLS)}},
}


def build_openapi(operations: Iterable[Operation], *, keyed: bool) -> dict[str, Any]:
    """``keyed``: whether a key is needed, which a server on a store without keys does not ask for."""
    listed = list(operations)
    models = {kind for each in listed for kind in (each.query, each.body) if kind is not None}
    ordered = sorted(models, key=lambda kind: kind.__name__)
    _, inputs = models_json_schema([(kind, "validation") for kind in ordered], ref_template=REFERENCE.format("{model}"))
    found: Definitions = {"Problem": dict(_PROBLEM)}
    known = {name: _lift_descriptions(schema) for name, schema in inputs.get("$defs", {}).items()} | {
        "Json": JSON_SCHEMA
    }
    paths: dict[str, dict[str, Any]] = {}
    for each in listed:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each, known, found)
    queries = {kind.__name__ for kind in models if kind in {each.query for each in listed}}
    schemas = {name: schema for name, schema in {**known, **found}.items() if name not in queries}
    components: dict[str, Any] = {"schemas": dict(sorted(schemas.items()))}
    whole: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "Limpet", "version": __version__, "description": _ABOUT, "license": {"name": "Apache-2.0"}},
        "paths": paths,
        "components": components,
        "tags": [{"name": tag} for tag in dict.fromkeys(each.tag for each in listed)],
    }
    if keyed:
        components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        whole["security"] = [{"key": []}]
    return whole


def _operation(each: Operation, known: dict[str, Any], found: Definitions) -> dict[str, Any]:
    told: dict[str, Any] = {
        "operationId": each.name,
        "tags": [each.tag],
        "summary": each.summary,
        "description": each.doc,
        "parameters": _parameters(each, known),
        "responses": _responses(each, found),
    }
    if each.free:
        told["security"] = []
    if each.body is not None:
        needed = any(field.is_required() for field in each.body.model_fields.values())
        schema = {"$ref": REFERENCE.format(each.body.__name__)}
        told["requestBody"] = {"required": needed, "content": {"application/json": {"schema": schema}}}
    return told


def _parameters(each: Operation, known: dict[str, Any]) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, **_IN_PATH[name]} for name in each.in_path
    ]
    if each.query is not None:
        schema = known[each.query.__name__]
        for name, described in schema.get("properties", {}).items():
            inner = {key: value for key, value in described.items() if key != "description"}
            told.append(
                {
                    "name": name,
                    "in": "query",
                    "required": name in schema.get("required", ()),
                    "description": described["description"],
                    "schema": _without_null(inner),
                }
            )
    return [*told, _KEY] if each.keyed else told


def _lift_descriptions(schema: dict[str, Any]) -> dict[str, Any]:
    """What a field means stands at the field, not at the one of its types that is not null."""
    if "properties" not in schema:
        return schema
    fields = dict(schema["properties"])
    for name, field in fields.items():
        kinds = field.get("anyOf", ())
        told = [kind["description"] for kind in kinds if "description" in kind]
        if told:
            bare = [{key: value for key, value in kind.items() if key != "description"} for kind in kinds]
            fields[name] = {"description": told[0], **field, "anyOf": bare}
    return {**schema, "properties": fields}


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """An address cannot say null: it leaves the name out."""
    kinds = [kind for kind in schema.get("anyOf", ()) if kind != {"type": "null"}]
    if len(kinds) != 1:
        return schema
    rest = {key: value for key, value in schema.items() if key not in ("anyOf", "default", "title")}
    return {**kinds[0], **rest}


def _responses(each: Operation, found: Definitions) -> dict[str, Any]:
    good: dict[str, Any] = {"description": each.summary}
    if each.media == "application/json":
        good["content"] = {each.media: {"schema": codec(each.gives).schema(found, "output")}}
    else:
        good["content"] = {each.media: {"schema": {"type": "string"}}}
    refused = {
        status: {
            "description": text,
            "content": {MEDIA: {"schema": {"$ref": REFERENCE.format("Problem")}}},
        }
        for status, text in _REFUSED.items()
        if each.body is not None or status not in _BODIES
    }
    return {str(each.status): good, **refused}
