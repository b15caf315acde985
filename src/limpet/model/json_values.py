"""Values that are JSON as they are: metadata, arguments of tools, key-value entries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from limpet.model.codec import REFERENCE, Codec, Definitions, Mode
from limpet.model.constraints import Scalar, Tag
from limpet.model.values import MAX_KEYS, MAX_MAP_BYTES, check_json, check_metadata, check_strings

_NO_NUL = r"^[^\x00]*$"


class JsonValue(Codec):
    """Any JSON value: a copy, as it will be read back."""

    __slots__ = ("max_bytes",)

    def __init__(self, max_bytes: int = MAX_MAP_BYTES) -> None:
        self.max_bytes = max_bytes

    def accepts(self, value: object) -> bool:
        return True

    def check(self, value: Any, name: str) -> Any:
        from json import loads

        return loads(check_json(value, name, max_bytes=self.max_bytes))

    def schema(self, definitions: Definitions | None = None, mode: Mode = "input") -> dict[str, Any]:
        return _describe_any(definitions, mode)


class JsonObject(Scalar):
    """Any JSON object."""

    __slots__ = ("max_bytes",)
    json_type, python_types = "object", (Mapping,)

    def __init__(self, max_bytes: int = MAX_MAP_BYTES) -> None:
        self.max_bytes = max_bytes

    def check(self, value: Any, name: str) -> dict[str, Any]:
        return check_metadata(value, name, max_bytes=self.max_bytes)

    def write(self, value: Mapping[str, Any]) -> dict[str, Any]:
        return dict(value)

    def limits(self) -> dict[str, Any]:
        return {"maxProperties": MAX_KEYS}

    def schema(self, definitions: Definitions | None = None, mode: Mode = "input") -> dict[str, Any]:
        names = {"propertyNames": {"pattern": _NO_NUL}} if mode == "input" else {}
        return (
            Scalar.schema(self, definitions, mode) | names | {"additionalProperties": _describe_any(definitions, mode)}
        )


class StringMap(JsonObject):
    """Texts by name, which every backend can search by equality."""

    __slots__ = ()

    def check(self, value: Any, name: str) -> dict[str, str]:
        return check_strings(value, name)

    def limits(self) -> dict[str, Any]:
        return {"maxProperties": MAX_KEYS, "propertyNames": Tag().schema()}

    def schema(self, definitions: Definitions | None = None, mode: Mode = "input") -> dict[str, Any]:
        text = {"type": "string", "pattern": _NO_NUL} if mode == "input" else {"type": "string"}
        return Scalar.schema(self, definitions, mode) | {"additionalProperties": text}


def _describe_any(definitions: Definitions | None, mode: Mode) -> dict[str, Any]:
    """Where callers give it: any JSON without NUL in its texts, which no database stores."""
    if definitions is None or mode != "input":
        return {}
    itself = {"$ref": REFERENCE.format("Json")}
    definitions["Json"] = {
        "description": "Any JSON without NUL in its texts.",
        "anyOf": [
            {"type": "string", "pattern": _NO_NUL},
            {"type": ["number", "boolean", "null"]},
            {"type": "array", "items": itself},
            {"type": "object", "propertyNames": {"pattern": _NO_NUL}, "additionalProperties": itself},
        ],
    }
    return itself
