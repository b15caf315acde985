"""Arguments of which JSON Schema says more than their check does: usual forms, smallest budgets, lists of names."""

from __future__ import annotations

import re
from typing import Any

from limpet.errors import InvalidInput
from limpet.model import constraints as limits
from limpet.model.constraints import REFERENCE, Codec, Definitions, Mode
from limpet.model.types import MAX_URI_BYTES

_MINUTE, _HOUR, _DAY, _MONTH = "[1-5]?[0-9]", "([0-9]|1[0-9]|2[0-3])", "([1-9]|1[0-9]|2[0-8])", "([1-9]|1[0-2])"
_FIELDS = (
    rf"({_MINUTE}(,{_MINUTE})?|\*/(5|10|15|20|30))",
    rf"(\*|{_HOUR}(,{_HOUR}){{0,3}}|[0-9]-(1[0-9]|2[0-3])|\*/[2-8])",
    rf"(\*|{_DAY}(,{_DAY}){{0,3}})",
    rf"(\*|{_MONTH}(,{_MONTH}){{0,3}})",
    r"(\*|[0-6](,[0-6]){0,3}|[0-2]-[3-6])",
)
_MOMENT = "20[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])T([01][0-9]|2[0-3]):[0-5][0-9]"
_SPAN = "[1-9][0-9]{0,2} ?(m|h|d|minutes|hours|days)"
# What a pattern can say: not that February has no 31st day. The server reads all of cron.
_USUAL = f"^(cron: {' '.join(_FIELDS)}|once: {_MOMENT}|every: {_SPAN})$"
_ANY = re.compile(r"(cron|once|every):[ -~]+")
_MAX_LENGTH = 200


class Described(Codec):
    """Another codec, with a JSON Schema of its own for who gives the value."""

    def __init__(self, inner: Codec, **schema: Any) -> None:
        self.inner, self._schema = inner, schema

    def accepts(self, value: object) -> bool:
        return self.inner.accepts(value)

    def check(self, value: Any, name: str) -> Any:
        return self.inner.check(value, name)

    def read(self, value: Any, name: str) -> Any:
        return self.inner.read(value, name)

    def parse(self, text: str, name: str) -> Any:
        return self.inner.parse(text, name)

    def write(self, value: Any) -> Any:
        return self.inner.write(value)

    def schema(self, definitions: Definitions | None = None, mode: Mode = "input") -> dict[str, Any]:
        whole = self.inner.schema(definitions, mode)
        return whole | self._schema if mode == "input" else whole


URI = limits.Printable(MAX_URI_BYTES).limits()
CLEARED = ["key", "title", "tags", "metadata", "references", "valid_to", "expires_at"]
# The usual grants; one can also be for a session or an agent.
GRANT = {"pattern": "^(read|write):(global|store|user|user:[a-z]{1,20})$"}


class CadenceCodec(limits.Text):
    """When a schedule fires, as text. Its fields are read later, in its zone."""

    def read(self, value: Any, name: str) -> str:
        text = self.check(value, name)
        if len(text) > _MAX_LENGTH or not _ANY.fullmatch(text):
            raise InvalidInput(f"{name} must be such as 'cron: 0 9 * * 1-5', 'once: 2030-12-01T09:00' or 'every: 15m'")
        return text

    def schema(self, definitions: Definitions | None = None, mode: Mode = "input") -> dict[str, Any]:
        if mode != "input":
            return {"type": "string"}
        examples = ["cron: 0 9 * * 1-5", "every: 15m"]
        return {"type": "string", "maxLength": _MAX_LENGTH, "pattern": _USUAL, "examples": examples}


class TimeZoneCodec(limits.Printable):
    """The name of a time zone."""

    def schema(self, definitions: Definitions | None = None, mode: Mode = "input") -> dict[str, Any]:
        if definitions is None or mode != "input":
            return {"type": "string"}
        if "TimeZone" not in definitions:
            from zoneinfo import available_timezones  # late: it reads a folder

            definitions["TimeZone"] = {"type": "string", "enum": sorted(available_timezones())}
        return {"$ref": REFERENCE.format("TimeZone")}
