"""A noun as a line of JSON in a file: of an export, or of items that people edit.

What stands in a line is said by the noun: its fields, but for those with NO_JSON or NO_EXPORT, with those that only
exports have. Fields that say nothing may be left out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from functools import cached_property
from typing import Any, Generic, TypeVar

from limpet.errors import InvalidInput
from limpet.model.constraints import Codec, EnumChoice, Instant, OptionalCodec, Uuid
from limpet.model.containers import JsonObject, JsonValue, ListCodec, MapCodec
from limpet.model.schema import EXPORT_FLAT, IN_JSON, NO_EXPORT, NO_JSON, OMIT_FALSE, Field, ObjectCodec, noun_codec
from limpet.model.values import check_time, format_utc, short_repr

T = TypeVar("T")
MapId = Callable[[str], str]


def parse_time(value: object, name: str) -> datetime:
    """ISO 8601 with a zone, in any of its spellings."""
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        found = None
    if found is None:
        raise InvalidInput(f"{name}: {short_repr(value)} is not an ISO 8601 time with a zone")
    return check_time(found, name)


class LineCodec(Generic[T]):
    """Lines of one noun. Fields in ``leave_out`` are not written; a reader says what they are."""

    def __init__(
        self,
        noun: type[T],
        *,
        write_time: Callable[[datetime], str] = format_utc,
        keep_empty: bool = False,
        leave_out: Collection[str] = (),
    ) -> None:
        self._codec = noun_codec(noun)
        self._write_time, self._keep_empty, self._leave_out = write_time, keep_empty, frozenset(leave_out)

    @cached_property
    def fields(self) -> dict[str, str]:
        """What each field of a line means."""
        return {each.key: _describe(each) for each in self._iter_fields(self._codec)}

    def write(self, noun: T) -> dict[str, Any]:
        return self._write_noun(self._codec, noun)

    def read(self, line: Mapping[str, Any], given: Mapping[str, Any], map_id: MapId = str) -> T:
        """The noun of a line. ``given`` has what no line says; ``map_id`` gives the id that an id has here."""
        noun: T = self._read_noun(self._codec, line, "", given, map_id)
        return noun

    def _iter_fields(self, codec: ObjectCodec) -> list[Field]:
        """Those of a line, with the fields of flattened nouns among them."""
        found: list[Field] = []
        for each in codec.fields:
            if inner := _flat_codec(each):
                found += self._iter_fields(inner)
            elif self._is_in_line(each):
                found.append(each)
        return found

    def _is_in_line(self, field: Field) -> bool:
        return not field.hints & {NO_JSON, NO_EXPORT, IN_JSON} and field.name not in self._leave_out

    def _write_noun(self, codec: ObjectCodec, noun: Any) -> dict[str, Any]:
        line: dict[str, Any] = {}
        for each in codec.fields:
            value = getattr(noun, each.name)
            if inner := _flat_codec(each):
                line |= self._write_noun(inner, value)
            elif self._is_in_line(each):
                written = self._write_value(each.codec, value)
                if self._keep_empty or not _is_empty(each, written):
                    line[each.key] = written
        return line

    def _write_value(self, codec: Codec, value: Any) -> Any:
        if value is None:
            return None
        match codec:
            case Instant():
                return self._write_time(value)
            case OptionalCodec():
                return self._write_value(codec.inner, value)
            case ListCodec():
                return [self._write_value(codec.inner, each) for each in value]
            case ObjectCodec():
                return self._write_noun(codec, value)
            case _:
                return codec.write(value)

    def _read_noun(
        self, codec: ObjectCodec, line: Mapping[str, Any], place: str, given: Mapping[str, Any], map_id: MapId
    ) -> Any:
        values: dict[str, Any] = {}
        for each in codec.fields:
            name = f"{place}{each.key}"
            if inner := _flat_codec(each):
                values[each.name] = self._read_noun(inner, line, place, given, map_id)
            elif self._is_in_line(each):
                found = line.get(each.key)
                values[each.name] = (
                    _get_absent(each, name)
                    if found is None
                    else self._read_value(each.codec, found, name, given, map_id)
                )
            elif IN_JSON not in each.hints:
                values[each.name] = given[each.name] if each.name in given else _get_absent(each, name)
        return codec.build(**values)

    def _read_value(self, codec: Codec, value: Any, name: str, given: Mapping[str, Any], map_id: MapId) -> Any:
        match codec:
            case Uuid():
                return map_id(codec.read(value, name))
            case Instant():
                return parse_time(value, name)
            case OptionalCodec():
                return self._read_value(codec.inner, value, name, given, map_id)
            case ListCodec():
                return codec.convert(
                    value, name, lambda each, at: self._read_value(codec.inner, each, at, given, map_id)
                )
            case ObjectCodec():
                return self._read_inner(codec, value, name, given, map_id)
            case _:
                return codec.read(value, name)

    def _read_inner(self, codec: ObjectCodec, value: Any, name: str, given: Mapping[str, Any], map_id: MapId) -> Any:
        if not isinstance(value, dict):
            raise InvalidInput(f"{name} must be an object, not {type(value).__name__}")
        if unknown := value.keys() - {each.key for each in self._iter_fields(codec)}:
            raise InvalidInput(f"{name} has no {', '.join(sorted(map(repr, unknown)))[:200]}")
        return self._read_noun(codec, value, f"{name}.", given, map_id)


def _flat_codec(field: Field) -> ObjectCodec | None:
    if EXPORT_FLAT in field.hints:
        return noun_codec(field.codec.kind)  # type: ignore[attr-defined]  # what is parsed in JSON
    return field.codec if field.is_flat and isinstance(field.codec, ObjectCodec) else None


def _is_empty(field: Field, written: Any) -> bool:
    """Whether the field says nothing: a reader knows what to put there."""
    if written is None or (written is False and OMIT_FALSE in field.hints):
        return True
    return written in ([], {}) and (not field.is_required or isinstance(field.codec, (ListCodec, MapCodec, JsonObject)))


def _get_absent(field: Field, name: str) -> Any:
    """What a field is that does not stand in the line."""
    if not field.is_required:
        return {} if field.default == {} else field.default  # one of its own: nobody else's changes with it
    match field.codec:
        case OptionalCodec():
            return None
        case ListCodec():
            return ()
        case JsonValue():
            return None
        case MapCodec() | JsonObject():
            return {}
    raise InvalidInput(f"{name} is missing")


def _describe(field: Field) -> str:
    codec = field.codec.inner if isinstance(field.codec, OptionalCodec) else field.codec
    if isinstance(codec, EnumChoice):
        return f"{field.meaning}: {', '.join(f'`{word}`' for word in codec.kind)}"
    return field.meaning.partition("; null: ")[0]
