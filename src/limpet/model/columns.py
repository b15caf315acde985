"""How a noun is kept in a table: its columns, what stands in them, and which of them are encrypted.

A field is one column of its own name, written by its type. Text is encrypted unless the field says that it stays
readable, and why: who adds a field cannot forget it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum, auto
from functools import lru_cache
from types import SimpleNamespace
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from limpet.model.constraints import Boolean, Codec, EnumChoice, Instant, Integer, Number, OptionalCodec, Uuid
from limpet.model.containers import JsonObject, ListCodec, MapCodec, Parsed
from limpet.model.late import lazy_property
from limpet.model.schema import IN_JSON, Field, ObjectCodec, noun_codec
from limpet.model.values import from_micros, to_micros

Encryption = Literal["text", "same", "same_bytes", "key", "source"]


class ColumnHint(Enum):
    NO_COLUMN = auto()  # the store counts it, or keeps it elsewhere
    SET_ONCE = auto()  # a change of the noun leaves it as it is
    NULL_IF_EMPTY = auto()


NO_COLUMN, SET_ONCE, NULL_IF_EMPTY = ColumnHint.NO_COLUMN, ColumnHint.SET_ONCE, ColumnHint.NULL_IF_EMPTY


class Column:
    """The column of a field, where it has another name."""

    def __init__(self, name: str) -> None:
        self.name = name


class Encrypted:
    """How a column is encrypted, where it is not only read: ``same`` can be compared, for example."""

    def __init__(self, kind: Encryption) -> None:
        self.kind = kind


class Plain:
    """A text that stays readable in an encrypted tenant, and what it is."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


class Stored:
    """Columns that a type alone does not tell: their names, and how a value becomes theirs and comes back."""

    def __init__(
        self,
        names: tuple[str, ...],
        split: Callable[[Any], tuple[Any, ...]],
        join: Callable[..., Any],
        encrypted: Encryption | None = None,
    ) -> None:
        self.names, self.split, self.join, self.encrypted = names, split, join, encrypted


WHOSE = Plain("whose")
# Quicker than json.loads, which looks for white space first: these texts were written here.
_DECODE = json.JSONDecoder().raw_decode

T = TypeVar("T")


class ColumnInfo(NamedTuple):
    name: str
    encrypted: Encryption | None
    plain: str  # what a readable text is; empty if it is not text
    is_set_once: bool


def to_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


class RowCodec(Generic[T]):
    """Rows of one noun. Two functions are compiled when the first row is read or written, as dataclasses do it:
    every context reads a hundred rows and more."""

    def __init__(self, noun: type[T]) -> None:
        self._codec = noun_codec(noun)

    @lazy_property
    def columns(self) -> tuple[ColumnInfo, ...]:
        return tuple(_iter_columns(self._codec, set_once=False))

    @lazy_property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @lazy_property
    def params(self) -> Callable[[T], dict[str, Any]]:
        made: Callable[[T], dict[str, Any]] = _Writer(self._codec).compile()
        return made

    @lazy_property
    def build(self) -> Callable[..., T]:
        """The noun of the values of a row, in the order of ``names``."""
        made: Callable[..., T] = _Reader(self._codec).compile()
        return made

    def read(self, row: Sequence[Any]) -> T:
        return self.build(*row)

    def dump(self, noun: T) -> str:
        """A row as one text, for a history: what is null is left out."""
        return to_text({name: value for name, value in self.params(noun).items() if value is not None})

    def load(self, text: str) -> T:
        """The noun of such a text. A column that came later has its default."""
        values = json.loads(text)
        return self.build(*(values.get(name, self._defaults.get(name)) for name in self.names))

    @lazy_property
    def _defaults(self) -> dict[str, Any]:
        """What stands in the columns of fields that were left out."""
        optional = [each for each in _stored_fields(self._codec) if not each.is_required and not each.is_flat]
        noun = SimpleNamespace(**{each.name: each.default for each in optional})
        found: dict[str, Any] = _Writer(ObjectCodec("", lambda: optional)).compile()(noun)
        return found


def encrypted_names(codec: RowCodec[Any]) -> Mapping[str, str]:
    """The encrypted columns of a table by kind, as ``declare_columns`` takes them."""
    found: dict[str, list[str]] = {}
    for column in codec.columns:
        if column.encrypted is not None:
            found.setdefault(column.encrypted, []).append(column.name)
    return {kind: " ".join(names) for kind, names in found.items()}


# What the columns are


def _iter_columns(codec: ObjectCodec, *, set_once: bool) -> Iterator[ColumnInfo]:
    for each in _stored_fields(codec):
        fixed = set_once or SET_ONCE in each.hints
        if (inner := each.inner_codec) is not None:
            yield from _iter_columns(inner, set_once=fixed)
        elif (stored := _mark(each, Stored)) is not None:
            for name in stored.names:
                yield ColumnInfo(name, stored.encrypted, "", fixed)
        else:
            yield _describe(each, fixed=fixed)


def _describe(field: Field, *, fixed: bool) -> ColumnInfo:
    encrypted, plain = _mark(field, Encrypted), _mark(field, Plain)
    reason = plain.reason if plain is not None else _plain_reason(_bare(field.codec))
    kind = encrypted.kind if encrypted is not None else None if reason is not None else "text"
    return ColumnInfo(_column_name(field), kind, reason or "", fixed)


def _stored_fields(codec: ObjectCodec) -> list[Field]:
    return [each for each in codec.fields if not each.hints & {IN_JSON, NO_COLUMN}]


def _mark(field: Field, kind: type[T]) -> T | None:
    return next((mark for mark in field.hints if isinstance(mark, kind)), None)


def _column_name(field: Field) -> str:
    column = _mark(field, Column)
    return field.name if column is None else column.name


def _plain_reason(codec: Codec) -> str | None:
    """Why a column of this type stays readable; empty if it is not text, None for what is to be encrypted."""
    match codec:
        case Uuid():
            return "an id"
        case EnumChoice():
            return "a word of ours"
        case Integer() | Number() | Boolean() | Instant():
            return ""
        case ListCodec(inner=Uuid()):
            return "ids"
    return None


def _bare(codec: Codec) -> Codec:
    return codec.inner if isinstance(codec, OptionalCodec) else codec


# From values to columns and back


class _Compiler:
    """Makes one function of Python text and the objects that it names."""

    def __init__(self, codec: ObjectCodec) -> None:
        self._codec = codec
        self._names: dict[str, Any] = {"to_text": to_text, "decode": _DECODE}
        self._names |= {"to_micros": to_micros, "from_micros": from_micros}

    def name(self, value: Any) -> str:
        """A name under which the function finds the value."""
        name = f"v{len(self._names)}"
        self._names[name] = value
        return name

    def make(self, text: str) -> Any:
        exec(text, self._names)  # noqa: S102 - made of our own field names, as dataclasses make __init__
        return self._names["made"]


class _Writer(_Compiler):
    def compile(self) -> Any:
        lines: list[str] = []
        entries = self._entries(self._codec, "noun", lines)
        return self.make("\n    ".join(["def made(noun):", *lines, f"return {{{', '.join(entries)}}}"]))

    def _entries(self, codec: ObjectCodec, at: str, lines: list[str]) -> list[str]:
        found: list[str] = []
        for number, each in enumerate(_stored_fields(codec)):
            value = f"{at}.{each.name}"
            if (inner := each.inner_codec) is not None:
                lines.append(f"{at}_{number} = {value}")
                found += self._entries(inner, f"{at}_{number}", lines)
            elif (stored := _mark(each, Stored)) is not None:
                parts = [f"{at}_{number}_{part}" for part in range(len(stored.names))]
                lines.append(f"{', '.join(parts)}, = {self.name(stored.split)}({value})")
                found += [f"{name!r}: {part}" for name, part in zip(stored.names, parts, strict=True)]
            else:
                found.append(f"{_column_name(each)!r}: {self._entry(each, value)}")
        return found

    def _entry(self, field: Field, value: str) -> str:
        written = self._expression(field, _bare(field.codec), value)
        if isinstance(field.codec, OptionalCodec) and written != value:
            return f"None if {value} is None else {written}"
        return written

    def _expression(self, field: Field, codec: Codec, value: str) -> str:
        empty = "None" if NULL_IF_EMPTY in field.hints else None
        match codec:
            case Instant():
                return f"to_micros({value})"
            case Boolean():
                return f"int({value})"
            case EnumChoice():
                return f"{value}.value"
            case ListCodec(inner=ObjectCodec() | Parsed()):
                return f"to_text({self.name(codec.write)}({value})) if {value} else {empty or repr('[]')}"
            case ListCodec():
                return f"to_text({value}) if {value} else {empty or repr('[]')}"
            case JsonObject() | MapCodec():
                return f"to_text(dict({value})) if {value} else {empty or repr('{}')}"
            case ObjectCodec():
                return f"to_text([{', '.join(self._member(each, value) for each in codec.shown)}])"
        return value

    def _member(self, field: Field, value: str) -> str:
        """A field of a noun that is one column. JSON has texts, numbers and their lists as they are."""
        inner = _bare(field.codec)
        plain = type(inner.inner if isinstance(inner, ListCodec) else inner).write is Codec.write
        return f"{value}.{field.name}" if plain else f"{self.name(field.codec.write)}({value}.{field.name})"


class _Reader(_Compiler):
    def compile(self) -> Any:
        columns: list[str] = []
        given = ", ".join(self._argument(each, columns) for each in self._codec.fields if IN_JSON not in each.hints)
        text = f"def made({', '.join(columns)}):\n    return {self.name(self._codec.build)}({given})"
        return self.make(text)

    def _argument(self, field: Field, columns: list[str]) -> str:
        if NO_COLUMN in field.hints:
            return self.name(field.default)
        if (inner := field.inner_codec) is not None:
            # Names and ids only, and few of them: most rows of an answer are the same owner's.
            build = lru_cache(maxsize=64)(_Reader(inner).compile())
            return f"{self.name(build)}({', '.join(self._take(columns, len([*_iter_columns(inner, set_once=False)])))})"
        if (stored := _mark(field, Stored)) is not None:
            return f"{self.name(stored.join)}({', '.join(self._take(columns, len(stored.names)))})"
        [column] = self._take(columns, 1)
        read = self._expression(field, _bare(field.codec), column)
        nullable = isinstance(field.codec, OptionalCodec) or NULL_IF_EMPTY in field.hints
        if read == column or not nullable:
            return read
        absent = {ListCodec: "()", JsonObject: "{}"}.get(type(field.codec), "None")
        return f"{absent} if {column} is None else {read}"

    def _take(self, columns: list[str], count: int) -> list[str]:
        new = [f"c{len(columns) + each}" for each in range(count)]
        columns += new
        return new

    def _expression(self, field: Field, codec: Codec, column: str) -> str:
        match codec:
            case Instant():
                return f"from_micros({column})"
            case Boolean():
                return f"bool({column})"
            case EnumChoice(kind=kind):
                # Quicker than asking the enumeration.
                return f"{self.name({member.value: member for member in kind})}[{column}]"
            case ListCodec(inner=ObjectCodec() as inner):
                return f"tuple([{self.name(inner.build)}(**each) for each in decode({column})[0]])"
            case ListCodec(inner=Parsed(kind=kind)):
                return f"tuple([{self.name(kind.parse)}(each) for each in decode({column})[0]])"
            case ListCodec():
                return f"() if {column} == '[]' else tuple(decode({column})[0])"
            case JsonObject() | MapCodec():
                return f"{{}} if {column} == '{{}}' else decode({column})[0]"
            case ObjectCodec():
                return f"{self.name(_make_object_read(codec))}({column})"
        return column


def _make_object_read(codec: ObjectCodec) -> Callable[[str], Any]:
    """A noun in one column: the list of its fields. Nothing is remembered here: what is forgotten is nowhere."""
    tuples = [at for at, each in enumerate(codec.fields) if isinstance(each.codec, ListCodec)]
    empty = to_text([each.codec.write(each.default) for each in codec.fields if not each.is_required])
    default = codec.build() if not any(each.is_required for each in codec.fields) else None

    def read(text: str) -> Any:
        if text == empty and default is not None:
            return default
        values = _DECODE(text)[0]
        for at in tuples:
            values[at] = tuple(values[at])
        return codec.build(*values)

    return read
