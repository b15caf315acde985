"""The description of the API, made from the routes themselves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from limpet import __version__
from limpet.api.wire import IDEMPOTENCY_KEY, Argument, Place
from limpet.model.constraints import REFERENCE, Definitions, Uuid
from limpet.server.operation_routes import JSON, Route
from limpet.server.payload import MEDIA

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
                    "where": {"type": "string", "description": "the field, such as body.content"},
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
    "403": "The key has no right to do this, or the page is from another origin",
    "404": "Not found, or it belongs to somebody else",
    "409": "Conflict with the current state",
    "413": "The body is too large",
    "415": "The body is not JSON",
    "421": "The Host is not one of this server's names",
    "422": "A value is missing, unknown or outside its limits",
    "429": "Too many requests for this key",
    "500": "Internal error",
    "502": "A model behind this server failed",
    "503": "The store cannot be reached, or is busy",
    "507": "The disk is full",
}
_BODIES = ("413", "415")
_ABOUT = (
    "Memory for AI agents: store messages, remember facts, recall them, compose prompts, forget. "
    "Lists come in pages: pass `next` as `cursor` to continue. Times are RFC 3339 with an offset. "
    "Errors are problem details with a `code`."
)
_KEY = {
    "name": IDEMPOTENCY_KEY,
    "in": "header",
    "description": "the same key again returns the first result",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": r"^[!-~]+$"},
}
_INPUT = "Given{}"  # the name of a noun that callers give, where answers have one of the same name


def build_openapi(routes: Iterable[Route], *, keyed: bool) -> dict[str, Any]:
    """``keyed``: whether a key is needed, which a server on a store without keys does not ask for."""
    listed = list(routes)
    given: Definitions = {}
    answered: Definitions = {"Problem": dict(_PROBLEM)}
    paths: dict[str, dict[str, Any]] = {}
    for each in listed:
        paths.setdefault(each.form.path, {})[each.form.method.lower()] = _describe(each, given, answered)
    schemas = answered | {_INPUT.format(name): _point_to_inputs(schema) for name, schema in given.items()}
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


def _describe(route: Route, given: Definitions, answered: Definitions) -> dict[str, Any]:
    form = route.form
    parameters = [_parameter(each, given) for each in form.arguments if each.place in (Place.PATH, Place.QUERY)]
    whole: dict[str, Any] = {
        "operationId": form.name.replace(".", "_") if not route.is_alias else _alias_id(route),
        "tags": [route.tag],
        "summary": form.summary,
        "description": form.doc,
        "parameters": [*parameters, _KEY] if form.is_keyed else parameters,
        "responses": _responses(route, answered),
    }
    if route.public:
        whole["security"] = []
    if form.has_body:
        needed = any(each.is_required for each in form.arguments if each.place is Place.BODY)
        whole["requestBody"] = {"required": needed, "content": {JSON: {"schema": _body_schema(route, given)}}}
    elif route.takes != JSON:
        content = {route.takes: {"schema": {"type": "string", "format": "binary"}}}
        whole["requestBody"] = {"required": True, "content": content}
    return whole


def _alias_id(route: Route) -> str:
    """Another address of the operation: its method and path tell them apart."""
    words = [word.strip("{}") for word in route.form.path.split("/")[2:]]
    return "_".join([route.form.method.lower(), *words])


def _parameter(each: Argument, given: Definitions) -> dict[str, Any]:
    schema = _point_to_inputs(_without_null(each.field.property_schema(given, "input")))
    schema.pop("description", None)
    if each.place is Place.PATH and each.holds(Uuid):
        schema = {"type": "string", "format": "uuid"}
    told = {"name": each.key, "in": each.place.value, "required": each.is_required, "description": each.field.meaning}
    if each.is_object:  # JSON in a query
        return {**told, "content": {JSON: {"schema": schema}}}
    return {**told, "schema": schema}


def _body_schema(route: Route, given: Definitions) -> dict[str, Any]:
    listed = [each for each in route.form.arguments if each.place is Place.BODY]
    properties = {each.key: _point_to_inputs(each.field.property_schema(given, "input")) for each in listed}
    required = [each.key for each in listed if each.is_required]
    whole = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**whole, **({"required": required} if required else {}), **route.form.rules}


def _point_to_inputs(schema: Any) -> Any:
    """The same schema, with its references to what callers give."""
    if isinstance(schema, list):
        return [_point_to_inputs(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _point_to_inputs(each) for key, each in schema.items() if key != "$ref"}
    if "$ref" in schema:
        found["$ref"] = REFERENCE.format(_INPUT.format(str(schema["$ref"]).rpartition("/")[2]))
    return found


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """An address cannot say null: it leaves the name out."""
    kinds = [kind for kind in schema.get("anyOf", ()) if kind != {"type": "null"}]
    if len(kinds) != 1:
        return schema
    rest = {key: value for key, value in schema.items() if key not in ("anyOf", "default")}
    return {**kinds[0], **rest}


def _responses(route: Route, answered: Definitions) -> dict[str, Any]:
    form = route.form
    schema = form.answer.schema(form.name, answered) if route.media == JSON else {"type": "string"}
    good = {"description": form.summary, "content": {route.media: {"schema": schema}}}
    takes_body = form.has_body or route.takes != JSON
    refused = {
        status: {"description": text, "content": {MEDIA: {"schema": {"$ref": REFERENCE.format("Problem")}}}}
        for status, text in _REFUSED.items()
        if takes_body or status not in _BODIES
    }
    return {str(form.status): good, **refused}
