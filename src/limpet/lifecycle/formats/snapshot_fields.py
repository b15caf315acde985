"""Fields of a foreign JSON object, under whichever of their usual names they have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from limpet.errors import InvalidInput
from limpet.model.dataclass import dataclass
from limpet.model.values import check_metadata, check_name, from_micros
from limpet.store.timestamps import parse_timestamp

# Seconds stay below this for three thousand years; milliseconds passed it in 1973.
_MILLISECONDS_FROM = 1e11


@contextmanager
def error_location(where: str) -> Iterator[None]:
    """Put the place in front of whatever is wrong there."""
    try:
        yield
    except InvalidInput as error:
        raise InvalidInput(f"{where}: {error}") from None


@dataclass(frozen=True, slots=True)
class Fields:
    values: Mapping[str, Any]

    @classmethod
    def of(cls, value: object) -> Fields:
        if not isinstance(value, Mapping):
            raise InvalidInput(f"must be an object, not {json_type_name(value)}")
        return cls(value)

    def find(self, *names: str) -> tuple[str, Any]:
        """The first field that says anything, with its name; null and "" say nothing."""
        for name in names:
            if (value := self.values.get(name)) not in (None, ""):
                return name, value
        return names[0], None

    def name(self, *names: str) -> str | None:
        """A short text; numbers are taken too, because that is what many channels' ids are."""
        field, value = self.find(*names)
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        return None if value is None else check_name(value, field)

    def time(self, *names: str) -> datetime | None:
        field, value = self.find(*names)
        with error_location(field):
            return None if value is None else read_time(value)

    def metadata(self, *names: str) -> dict[str, Any]:
        field, value = self.find(*names)
        return check_metadata(value, field)

    def items(self, *names: str) -> list[Any]:
        field, value = self.find(*names)
        if value is None:
            return []
        if not isinstance(value, list):
            raise InvalidInput(f"{field}: must be a list, not {json_type_name(value)}")
        return value


def read_time(value: object) -> datetime:
    """ISO text (no zone means UTC), or a number of seconds or milliseconds since 1970."""
    if isinstance(value, str):
        try:
            return parse_timestamp(value)
        except ValueError:
            raise InvalidInput(f"{value[:80]!r} is not an ISO 8601 time") from None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidInput(f"must be an ISO 8601 time or a number, not {json_type_name(value)}")
    try:
        return from_micros(round(value * (1_000 if abs(value) >= _MILLISECONDS_FROM else 1_000_000)))
    except OverflowError:
        raise InvalidInput(f"{str(value)[:40]} is outside the years 1 to 9999") from None


def json_type_name(value: object) -> str:
    """The JSON word for a value's type."""
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")
