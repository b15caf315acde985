"""The schema system: one hint gives the check, the JSON and the JSON Schema."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, timezone
from enum import StrEnum
from itertools import count
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import pytest

from limpet.errors import InvalidInput, InvalidKey
from limpet.model import types
from limpet.model.access import Grant, Reach, Right
from limpet.model.constraints import Duration, Integer, Number, PageSize, Text
from limpet.model.containers import Items
from limpet.model.schema import (
    FLATTEN,
    IN_JSON,
    NO_JSON,
    Called,
    Field,
    JsonName,
    ObjectCodec,
    codec,
    to_json,
)

NOON = datetime(2026, 5, 2, 12, tzinfo=UTC)
ID = "0189a0f2-0000-7000-8000-000000000001"


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a shell lies."""

    beach: Annotated[types.Name, "the beach"]
    depth: Annotated[float, Number(0, 100), "metres below the surface"] = 0.0


@dataclass(frozen=True, slots=True)
class Shell:
    """One shell."""

    id: Annotated[types.Id, "its id"]
    place: Annotated[Place, FLATTEN]
    colour: Annotated[Colour, "its colour"] = Colour.RED
    found_at: Annotated[types.Moment | None, "when; null: unknown"] = None
    tags: Annotated[types.Tags, "words to filter by"] = ()
    session: Annotated[types.Id | None, JsonName("session_id"), "where it was named"] = None
    inner: Annotated[tuple["Shell", ...], "shells inside it"] = ()
    secret: Annotated[str, NO_JSON] = ""
    counts: Annotated[Mapping[str, int], "how many, by name"] = field(default_factory=dict)

    @property
    def is_empty(self) -> Annotated[bool, IN_JSON, "whether nothing is inside"]:
        return not self.inner


class Pair(NamedTuple):
    left: int
    right: int = 2


SHELL = Shell(ID, Place("Praia", 2.5), Colour.BLUE, NOON, ("big",), None, (Shell(ID, Place("Praia")),))


@pytest.mark.parametrize(
    ("hint", "given", "canonical"),
    [
        (str, "a", "a"),
        (types.Name, "alice", "alice"),
        (types.Name | None, None, None),
        (types.Id, ID.upper(), ID),
        (types.Share, 1, 1.0),
        (bool, True, True),
        (int, 7, 7),
        (Annotated[int, Integer(1, 5)], 5, 5),
        (Colour, "red", Colour.RED),
        (Literal["up", "down"], "up", "up"),
        (datetime, NOON.astimezone(timezone(timedelta(hours=2))), NOON),
        (date, "2026-05-02", date(2026, 5, 2)),
        (Annotated[timedelta, Duration()], 90, timedelta(seconds=90)),
        (Annotated[timedelta, Duration()], timedelta(days=1), timedelta(days=1)),
        (tuple[str, ...], ["a", "b"], ("a", "b")),
        (Sequence[str], ("a",), ("a",)),
        (Iterable[Colour], iter(["red", "blue"]), (Colour.RED, Colour.BLUE)),
        (types.Tags, ["a", "b", "a"], ("a", "b")),
        (Mapping[str, Any], {"a": [1, None]}, {"a": [1, None]}),
        (Mapping[str, str], {"a": "b"}, {"a": "b"}),
        (Mapping[str, int], {"a": 1}, {"a": 1}),
        (str | tuple[int, ...], [1, 2], (1, 2)),
        (str | tuple[int, ...], "text", "text"),
        (Path, Path("notes"), "notes"),
        (Grant, "read:user:bob", Grant(Right.READ, Reach.USER, "bob")),
        (Place, {"beach": "Praia"}, Place("Praia")),
        (Pair, {"left": 1}, Pair(1, 2)),
        (Any, {"a": (1, 2)}, {"a": [1, 2]}),
    ],
)
def test_check_returns_canonical_value(hint, given, canonical):
    assert codec(hint).check(given, "value") == canonical


@pytest.mark.parametrize(
    ("hint", "given", "message"),
    [
        (str, 7, "value must be text, not int"),
        (str, "a\0", "value contains a NUL character at position 1"),
        (Annotated[str, Text(max_bytes=3)], "ééé", "value is 6 bytes long; the limit is 3"),
        (Annotated[str, Text(blank=False)], " ", "value is empty"),
        (types.Name, " a", "value begins or ends with white space"),
        (types.Name, None, "value must be text, not NoneType"),
        (types.Id, "x", "value is not a UUID: 'x'"),
        (types.Share, 1.5, "value must be a number from 0 to 1, not 1.5"),
        (types.Share, float("nan"), "value must be a number from 0 to 1, not nan"),
        (float, float("inf"), "value must be a number, not inf"),
        (bool, 1, "value must be true or false, not int"),
        (int, True, "value must be a whole number from 0 up, not True"),
        (types.HitCount, 1001, "value must be a whole number from 1 to 1000, not 1001"),
        (Annotated[int, PageSize()], 10_001, "limit is at most 10000, not 10001"),
        (Colour, "green", "value must be one of red, blue; not 'green'"),
        (Literal["up", "down"], "left", "value must be one of up, down; not 'left'"),
        (datetime, datetime(2026, 1, 1), "value has no time zone"),
        (datetime, "2026-05-02T09:30:00Z", "value must be a datetime, not str"),
        (Annotated[timedelta, Duration()], -1, "value must be a positive timedelta or number of seconds, not -1"),
        (tuple[str, ...], "abc", "value must be a list, not str"),
        (tuple[str, ...], [1], "one of value must be text, not int"),
        (Annotated[tuple[int, ...], Items(3)], count(), "value has too many entries; the limit is 3"),
        (Mapping[str, Any], [], "value must be a mapping, not list"),
        (Mapping[str, str], {"a": 1}, "value['a'] must be text, not int"),
        (str | tuple[int, ...], 1.5, "value has no value of type float"),
        (Callable[[], None], 5, "value must be a function, not int"),
        (Annotated[types.Name, Called("the owner's name")], "", "the owner's name is empty"),
        (Place, {"beach": "Praia", "dpeth": 1}, "there is no field 'dpeth' in value; did you mean depth?"),
        (Place, {}, "value.beach is missing"),
        (Place, {"beach": "a", "depth": 101}, "value.depth must be a number from 0 to 100, not 101"),
        (Place, Place(""), "value.beach is empty"),
        (Place, 5, "value must be a Place or a mapping, not int"),
    ],
)
def test_check_explains_invalid_value(hint, given, message):
    with pytest.raises(InvalidInput) as caught:
        codec(hint).check(given, "value")
    assert str(caught.value).startswith(message)


def test_check_of_invalid_name_or_id_raises_invalid_key():
    for hint in (types.Name, types.Id, types.Key):
        with pytest.raises(InvalidKey):
            codec(hint).check("", "value")


@pytest.mark.parametrize(
    ("hint", "text", "value"),
    [
        (int, "12", 12),
        (bool, "true", True),
        (float, "0.5", 0.5),
        (types.Name | None, "alice", "alice"),
        (datetime, "2026-05-02t12:00:00z", NOON),
        (tuple[Colour, ...], "red,blue", (Colour.RED, Colour.BLUE)),
    ],
)
def test_parse_converts_text(hint, text, value):
    assert codec(hint).parse(text, "value") == value


@pytest.mark.parametrize(("hint", "text"), [(int, "1.5"), (int, "٣"), (bool, "yes"), (datetime, "2026-05-02")])
def test_parse_rejects_lookalikes(hint, text):
    with pytest.raises(InvalidInput):
        codec(hint).parse(text, "value")


def test_read_accepts_integral_float_as_integer():
    assert codec(int).read(2.0, "value") == 2
    with pytest.raises(InvalidInput, match="a whole number from 0 up"):
        codec(int).read(2.5, "value")


def test_read_rejects_naive_and_invalid_time():
    with pytest.raises(InvalidInput, match="value has no time zone"):
        codec(datetime).read("2026-05-02T09:30:00", "value")
    with pytest.raises(InvalidInput, match="value must be a time with a zone such as 2026-05-02T09:30:00Z"):
        codec(datetime).read("2026-13-02T09:30:00Z", "value")


def test_dataclass_round_trips_through_json():
    written = to_json(SHELL)
    assert written == {
        "id": ID,
        "beach": "Praia",
        "depth": 2.5,
        "colour": "blue",
        "found_at": "2026-05-02T12:00:00+00:00",
        "tags": ["big"],
        "session_id": None,
        "inner": [to_json(SHELL.inner[0])],
        "counts": {},
        "is_empty": False,
    }
    assert codec(Shell).read(written, "") == SHELL


def test_read_rejects_unknown_key_with_suggestion():
    with pytest.raises(InvalidInput, match=r"there is no field 'colours'; did you mean colour\?"):
        codec(Shell).read({"id": ID, "beach": "Praia", "colours": "red"}, "")


def test_output_schema_references_types_and_describes_properties():
    definitions: dict[str, Any] = {}
    assert codec(tuple[Shell, ...]).schema(definitions, "output") == {
        "type": "array",
        "items": {"$ref": "#/components/schemas/Shell"},
    }
    shell = definitions["Shell"]
    assert shell["description"] == "One shell."
    assert shell["required"] == sorted(shell["properties"])
    assert all(each["description"] for each in shell["properties"].values())
    assert shell["properties"]["found_at"]["anyOf"] == [{"type": "string", "format": "date-time"}, {"type": "null"}]


def test_tool_schema_is_inlined_and_compact():
    @dataclass(frozen=True)
    class Arguments:
        query: Annotated[types.Words, "what to look for"]
        user: Annotated[types.Name | None, "whose"] = None
        k: Annotated[types.HitCount, "how many"] = 10

    assert codec(Arguments).schema(None, "tool") == {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "what to look for"},
            "user": {"type": "string", "description": "whose"},
            "k": {"type": "integer", "description": "how many", "default": 10},
        },
        "required": ["query"],
        "additionalProperties": False,
    }


def test_object_codec_reads_operation_arguments():
    arguments = ObjectCodec(
        "the arguments", lambda: [Field.of("id", types.Id), Field.of("title", types.Title | None, None)]
    )
    assert arguments.read({"id": ID, "title": None}, "") == {"id": ID}
    with pytest.raises(InvalidInput, match=r"there is no field 'titel'; did you mean title\?"):
        arguments.read({"id": ID, "titel": "x"}, "")


def test_field_has_description_of_type_hint():
    user = Annotated[str, "the user it belongs to"]
    hints = (user | None, Annotated[user | None, "whose"], str)
    assert [Field.of("user", hint).meaning for hint in hints] == ["the user it belongs to", "whose", ""]
