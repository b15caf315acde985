"""A noun as a line of JSON in a file: of an export, or of items that people edit.

What stands in a line is said by the noun: its fields, but for those with NO_JSON or NO_EXPORT, with those that only
exports have. Fields that say nothing may be left out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Any, Generic, NamedTuple, TypeVar

from limpet.errors import InvalidInput
from limpet.model.constraints import Codec, EnumChoice, Instant, OptionalCodec, Uuid
from limpet.model.containers import JsonObject, JsonValue, ListCodec, MapCodec
from limpet.model.late import lazy_property
from limpet.model.schema import IN_JSON, NO_EXPORT, NO_JSON, OMIT_FALSE, Field, ObjectCodec, noun_codec
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

    @lazy_property
    def fields(self) -> dict[str, str]:
        """What each field of a line means."""
        return {each.key: _describe(each) for each in self.iter_fields(self._codec)}

    def write(self, noun: T) -> dict[str, Any]:
        return self._write_noun(self._codec, noun)

    def read(self, line: Mapping[str, Any], given: Mapping[str, Any], map_id: MapId = str) -> T:
        """The noun of a line. ``given`` has what no line says; ``map_id`` gives the id that an id has here."""
        noun: T = _LineReader(self, given, map_id).read_noun(self._codec, line, "")
        return noun

    def iter_fields(self, codec: ObjectCodec) -> list[Field]:
        """Those of a line, with the fields of flattened nouns among them."""
        found: list[Field] = []
        for each in codec.fields:
            if inner := each.inner_codec:
                found += self.iter_fields(inner)
            elif self.is_in_line(each):
                found.append(each)
        return found

    def is_in_line(self, field: Field) -> bool:
        return not field.hints & {NO_JSON, NO_EXPORT, IN_JSON} and field.name not in self._leave_out

    def _write_noun(self, codec: ObjectCodec, noun: Any) -> dict[str, Any]:
        line: dict[str, Any] = {}
        for each in codec.fields:
            value = getattr(noun, each.name)
            if inner := each.inner_codec:
                line |= self._write_noun(inner, value)
            elif self.is_in_line(each):
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


class _LineReader(NamedTuple):
    lines: LineCodec[Any]
    given: Mapping[str, Any]
    map_id: MapId

    def read_noun(self, codec: ObjectCodec, line: Mapping[str, Any], place: str) -> Any:
        values: dict[str, Any] = {}
        for each in codec.fields:
            name = f"{place}{each.key}"
            if inner := each.inner_codec:
                values[each.name] = self.read_noun(inner, line, place)
            elif self.lines.is_in_line(each):
                found = line.get(each.key)
                values[each.name] = _get_absent(each, name) if found is None else self._read(each.codec, found, name)
            elif IN_JSON not in each.hints:
                values[each.name] = self.given[each.name] if each.name in self.given else _get_absent(each, name)
        return codec.build(**values)

    def _read(self, codec: Codec, value: Any, name: str) -> Any:
        match codec:
            case Uuid():
                return self.map_id(codec.read(value, name))
            case Instant():
                return parse_time(value, name)
            case OptionalCodec():
                return self._read(codec.inner, value, name)
            case ListCodec():
                return codec.convert(value, name, lambda each, at: self._read(codec.inner, each, at))
            case ObjectCodec():
                return self._read_inner(codec, value, name)
            case _:
                return codec.read(value, name)

    def _read_inner(self, codec: ObjectCodec, value: Any, name: str) -> Any:
        if not isinstance(value, dict):
            raise InvalidInput(f"{name} must be an object, not {type(value).__name__}")
        if unknown := value.keys() - {each.key for each in self.lines.iter_fields(codec)}:
            raise InvalidInput(f"{name} has no {', '.join(sorted(map(repr, unknown)))[:200]}")
        return self.read_noun(codec, value, f"{name}.")


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
