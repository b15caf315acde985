"""The page of the HTTP API, from the operations and the description that the server itself gives of them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import limpet.server
from limpet import errors
from limpet.model import constraints
from limpet.server.custom_routes import list_routes
from limpet.server.middleware import _ROUTER
from limpet.server.openapi import _REFUSED, build_openapi
from limpet.server.operation_routes import JSON, Route
from limpet.server.payload import problem_from_error

Schema = Mapping[str, Any]

ABOUT = """\
The API of [`limpet serve`](../how-to/serve.md). The same description for programs is at `/openapi.json` (OpenAPI
3.1). Requests and responses are JSON in UTF-8; send a body with `Content-Type: application/json`. An unknown name in a
body or a query is refused.

- **Authentication**: `Authorization: Bearer lim_…` with an [API key](../how-to/api-keys.md). A store without keys needs
  none, as long as only its own machine can reach the server. Without `user`, a call is about the key's own user, and a
  list has everything the key may read.
- **Pages**: a list returns `items` and `next`. Pass `next` as `cursor` (for messages as `after`) to get the next page,
  until it is `null`. `limit` is the size of a page.
- **Retries**: operations marked *may be repeated* take an `Idempotency-Key` of 1 to 200 printable characters without
  spaces. The same request with the same key returns the first result. Another request with that key is refused with
  409.
- **Every response** has an `X-Request-ID`: yours, if you sent one, or a new one.

See also how a [context](../how-to/context.md) is composed, when history is [compacted](../how-to/compaction.md) and how
hits are [ranked](../how-to/embeddings.md). A setting is called by [its name](configuration.md)."""

KINDS = {
    "name": "1 to 256 bytes of UTF-8, printable, no white space at either end",
    "id": "a UUID",
    "label": "text of 1 to 1,024 bytes",
    "text": "any text without NUL",
    "words": "text that is not only white space",
    "key": "a lower-case letter, then lower-case letters, digits and `_`",
    "cadence": "`cron: 0 9 * * 1-5`, `once: 2030-12-01T09:00` or `every: 15m`",
    "time zone": "a name such as `Europe/Lisbon`",
    "day": "a date such as `2026-05-02`",
    "time": "RFC 3339 with an offset, such as `2026-05-02T09:30:00Z`",
    "cursor": "`next` of the previous page",
    "any": "any JSON",
    "A?": "an A, or `null`",
    "[A]": "a list of As",
    "{A}": "an object whose values are As",
}

_PATTERNS = {
    constraints.make_name_pattern(256): "name",
    constraints._TEXT: "text",  # noqa: SLF001 - the page calls them what the code calls them
    constraints._UUID: "id",  # noqa: SLF001
    constraints.Identifier().schema()["pattern"]: "key",
}
_CURSORS = ("cursor",)


def http() -> Iterator[str]:
    routes = list_routes()
    whole = build_openapi(routes, keyed=True)
    schemas: dict[str, Schema] = whole["components"]["schemas"]
    yield "# HTTP"
    yield ABOUT
    yield "## Types"
    yield _table(("word", "means"), [(f"`{name}`", means) for name, means in KINDS.items()])
    for tag, group in groupby(routes, key=lambda each: each.tag):
        yield f"## {tag}"
        for each in group:
            yield from _route(each, whole["paths"][each.form.path][each.form.method.lower()])
    yield "## What is part of a body"
    for name in sorted(schemas):
        if name.startswith("Given") and "properties" in schemas[name]:
            yield f"### {name}"
            yield _fields(schemas[name], "field")
    yield "## What is answered"
    for name in sorted(schemas):
        if not name.startswith(("Given", "PageOf")):
            yield from _noun(name, schemas[name])
    yield from _problems()


def _route(route: Route, told: Schema) -> Iterator[str]:
    form = route.form
    yield f"### {form.method} {form.path}"
    summary, _, more = form.doc.partition("\n")
    flags = (" Needs no key." if route.public else "") + (" May be repeated." if form.is_keyed else "")
    yield f"{summary.rstrip('.')}.{flags} (`{form.name}`)"
    if more.strip():
        yield more.strip()
    for one in told["parameters"]:
        if one["in"] == "path" and "enum" in one["schema"]:
            yield f"`{one['name']}` is one of {', '.join(f'`{each}`' for each in one['schema']['enum'])}."
    query = [one for one in told["parameters"] if one["in"] == "query"]
    if query:
        rows = [_row(one["name"], one | _schema_of(one), required=one["required"]) for one in query]
        yield _table(("query parameter", "type", "default", ""), rows)
    content = told.get("requestBody", {}).get("content", {})
    if JSON in content:
        yield from _body(content[JSON]["schema"])
    elif content:
        yield f"The body is a file, sent as `{next(iter(content))}`."
    good = told["responses"][str(form.status)]["content"]
    yield f"{form.status} with {_answered(good[route.media]['schema'], route.media)}."


def _schema_of(parameter: Schema) -> Schema:
    found: Schema = parameter["schema"] if "schema" in parameter else parameter["content"][JSON]["schema"]
    return found


def _answered(schema: Schema, media: str) -> str:
    if media != JSON:
        return f"`{media}`"
    if "$ref" not in schema:
        return f"`{_kind(schema)}`"
    name = _last(schema).removeprefix("PageOf")
    return f"{'a page of ' if _last(schema) != name else ''}[{name}](#{name.lower()})"


def _body(schema: Schema) -> Iterator[str]:
    yield _fields(schema, "field of the body")
    if "not" in schema:
        pairs = [" and ".join(f"`{name}`" for name in each["required"]) for each in schema["not"]["anyOf"]]
        yield f"Not together: {', '.join(pairs)}. Without them: your own memory."


def _fields(schema: Schema, head: str) -> str:
    rows = [
        _row(name, field, required=name in schema.get("required", ())) for name, field in schema["properties"].items()
    ]
    return _table((head, "type", "default", ""), rows)


def _row(name: str, field: Schema, *, required: bool) -> tuple[str, ...]:
    kind = "cursor" if name in _CURSORS else _kind(field).removesuffix("?")
    default = field.get("default")
    shown = "*needed*" if required else "" if default is None else f"`{_json(default)}`"
    return f"`{name}`", f"`{kind}`{_limits(field)}", shown, field["description"]


def _kind(schema: Schema) -> str:
    """A type in one word, or in a few."""
    if "$ref" in schema:
        name = _last(schema)
        return {"GivenJson": "any", "GivenTimeZone": "time zone"}.get(name, name)
    if "anyOf" in schema:
        kinds = [_kind(each) for each in schema["anyOf"]]
        known = [kind for kind in kinds if kind != "null"]
        return " or ".join(known) + ("?" if "null" in kinds else "")
    if "const" in schema:
        return f'"{schema["const"]}"'
    if "enum" in schema:
        return " or ".join(f'"{each}"' for each in schema["enum"])
    kind = schema.get("type", "any")
    if kind == "array":
        return f"[{_kind(schema['items'])}]"
    if kind == "object":
        inner = schema.get("additionalProperties")
        return "{" + (_kind(inner) if isinstance(inner, dict) else "any") + "}"
    return _string(schema) if kind == "string" else str(kind)


def _string(schema: Schema) -> str:
    if schema.get("format") == "date-time":
        return "time"
    pattern = schema.get("pattern", "")
    if pattern.startswith("^(cron"):
        return "cadence"
    if schema.get("format") == "date":
        return "day"
    if pattern == constraints._TEXT and schema.get("maxLength") == 1024:  # noqa: SLF001
        return "label"
    return _PATTERNS.get(pattern, "words" if pattern else "string")


def _limits(field: Schema) -> str:
    schema = next((each for each in field.get("anyOf", ()) if each.get("type") != "null"), field)
    kind = _kind(schema)
    if kind in ("integer", "number") and "minimum" in schema:
        return f", {_number(schema['minimum'])} to {_number(schema['maximum'])}"
    if kind.startswith("["):
        most = schema.get("maxItems")
        return f", {schema.get('minItems', 0)} to {most} of them" if most else ""
    if kind.startswith("{") and "maxProperties" in schema:
        return f", {schema['maxProperties']} entries at most"
    if kind in ("text", "words", "key") and "maxLength" in schema:
        return f", {_number(schema['maxLength'])} characters at most"
    return ""


def _noun(name: str, schema: Schema) -> Iterator[str]:
    yield f"### {name}"
    if about := schema.get("description"):
        yield about
    needed = schema.get("required", ())
    rows = [
        (f"`{field}`", f"`{_kind(inner)}`", inner["description"] + ("" if field in needed else "; may be left out"))
        for field, inner in schema["properties"].items()
    ]
    yield _table(("field", "type", ""), rows)


def _problems() -> Iterator[str]:
    yield "## What may go wrong"
    yield (
        "An error is a [Problem](#problem), `application/problem+json` (RFC 9457). Programs go by `code`, which stays "
        "the same; `detail` is for people, and `errors` says which places of a request are wrong. 401 comes with "
        "`WWW-Authenticate`; 429 and 503 with `Retry-After`, in seconds."
    )
    yield _table(("status", "means"), list(_REFUSED.items()))
    rows = [(f"`{code}`", str(status), means) for code, status, means in _codes()]
    yield _table(("code", "status", "means"), rows)


def _codes() -> Iterator[tuple[str, int, str]]:
    """Those of errors, then those of the server itself."""
    means = dict(re.findall(r"── (\w+) +(.+)", errors.__doc__ or ""))
    missing = "there is none, or it is somebody else's"
    means["LimpetError"] = "anything else"
    told = set()
    for kind in vars(errors).values():
        if isinstance(kind, type) and issubclass(kind, errors.LimpetError):
            told.add(kind.code)
            yield (
                kind.code,
                problem_from_error(kind()).status,
                means.get(kind.__name__, missing),
            )
    own = {(code, status): detail for status, (code, detail) in _ROUTER.items()}
    folder = Path(limpet.server.__file__).parent
    for file in sorted(folder.rglob("*.py")):
        for call in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            match call:
                case ast.Call(args=[ast.Constant(value=int(status)), ast.Constant(value=str(code)), detail, *_]):
                    own.setdefault((code, status), _spoken(detail))
    for (code, status), text in sorted(own.items()):
        if code not in told:
            yield code, status, text


def _spoken(detail: ast.expr) -> str:
    """What is filled in later is left open."""
    pieces = detail.values if isinstance(detail, ast.JoinedStr) else [detail]
    return "".join(str(each.value) if isinstance(each, ast.Constant) else "…" for each in pieces)


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in (head, *rows)]
    return "\n".join([lines[0].replace("|  |", "| |"), "|" + "---|" * len(head), *lines[1:]])


def _last(schema: Schema) -> str:
    return str(schema["$ref"]).rpartition("/")[2]


def _json(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else f'"{value}"' if isinstance(value, str) else str(value)


def _number(value: float) -> str:
    return f"{int(value):,}" if float(value).is_integer() else str(value)
