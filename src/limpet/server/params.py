"""What callers give: types with the limits that a schema can tell, and models that refuse everything else."""

from __future__ import annotations

import re
from datetime import datetime
from math import isfinite
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    WithJsonSchema,
)

_CONTROL = r"\x00-\x1f\x7f-\x9f\u2028\u2029"
# Printable, no white space at either end, at most 256 bytes: so many characters of one, of two, or of more bytes.
_NAME = "|".join(
    (
        r"^[!-~]([ -~]{0,254}[!-~])?$",
        r"^[!-~\u00a1-\u07ff]([ -~\u00a0-\u07ff]{0,126}[!-~\u00a1-\u07ff])?$",
        rf"^[^\s{_CONTROL}]([^{_CONTROL}]{{0,62}}[^\s{_CONTROL}])?$",
    )
)
_TEXT = r"^[^\x00]*$"
_ID = r"^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"
_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d")
_WHOLE = re.compile(r"-?[0-9]{1,18}")

Name = Annotated[str, StringConstraints(min_length=1, max_length=256, pattern=_NAME)]
Label = Annotated[str, StringConstraints(min_length=1, max_length=256, pattern=_TEXT)]
Text = Annotated[str, StringConstraints(pattern=_TEXT)]
Words = Annotated[str, StringConstraints(min_length=1, pattern=r"^[^\x00]*[^\x00\s][^\x00]*$")]
Id = Annotated[str, StringConstraints(pattern=_ID)]
Fraction = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Seconds = Annotated[float, Field(ge=1, le=365_000 * 86_400, allow_inf_nan=False)]


def _clean(value: Any) -> Any:
    """Texts without NUL and numbers that are numbers; the first that is not ends it."""
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, dict):
            left += each
            left += each.values()
        elif isinstance(each, list):
            left += each
        elif (isinstance(each, str) and "\x00" in each) or (isinstance(each, float) and not isfinite(each)):
            raise ValueError("holds a NUL character, or a number that JSON does not have")
    return value


def _of_texts(value: dict[str, Any]) -> dict[str, Any]:
    for name, each in value.items():
        if not 1 <= len(name) <= 256 or not isinstance(each, str):
            raise ValueError("must be texts under names of 1 to 256 characters")
    return value


# Any JSON is walked through once. A type of its own for each value would cost a thousand times the text where a caller
# means harm.
_JSON: dict[str, Any] = {"$ref": "#/components/schemas/Json"}
JSON_SCHEMA: dict[str, Any] = {
    "description": "Any JSON without NUL in its texts.",
    "anyOf": [
        {"type": "string", "pattern": _TEXT},
        {"type": ["number", "boolean", "null"]},
        {"type": "array", "items": _JSON},
        {
            "type": "object",
            "propertyNames": {"pattern": _TEXT},
            "additionalProperties": _JSON,
        },
    ],
}
_ENTRIES: dict[str, Any] = {"type": "object", "propertyNames": {"pattern": _TEXT}}
_LABELS: dict[str, Any] = {"propertyNames": {"minLength": 1, "maxLength": 256, "pattern": _TEXT}, "maxProperties": 100}
Arguments = Annotated[
    dict[str, Any],
    AfterValidator(_clean),
    WithJsonSchema({**_ENTRIES, "additionalProperties": _JSON}),
]
Metadata = Annotated[
    dict[str, Any],
    Field(max_length=1000),
    AfterValidator(_clean),
    WithJsonSchema({**_ENTRIES, "maxProperties": 1000, "additionalProperties": _JSON}),
]
Labels = Annotated[
    dict[str, Any],
    Field(max_length=100),
    AfterValidator(_clean),
    AfterValidator(_of_texts),
    WithJsonSchema({**_ENTRIES, **_LABELS, "additionalProperties": {"type": "string", "pattern": _TEXT}}),
]


def _whole(value: object) -> object:
    """Only digits: what a number of a query may look like is no matter of taste."""
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        return int(value)
    raise ValueError("must be a whole number")


def _flag(value: object) -> object:
    if value in ("true", "false"):
        return value == "true"
    raise ValueError("must be true or false")


def _time(value: object) -> object:
    """RFC 3339, and nothing else that could be taken for a time."""
    if isinstance(value, str) and _TIME.match(value):
        return datetime.fromisoformat(value.upper())
    raise ValueError("must be a time such as 2026-05-02T09:30:00Z")


def _integral(value: object) -> object:
    """What JSON calls a whole number may be written 1.0."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


# After a number's limits, so that the schema tells them.
INT = BeforeValidator(_integral)
WHOLE = BeforeValidator(_whole)
Flag = Annotated[bool, BeforeValidator(_flag)]
Time = Annotated[AwareDatetime, BeforeValidator(_time)]

# What comes again, with what it means.
User = Annotated[Name, Field(description="whose memory; left out: your own")]
OfUser = Annotated[Name, Field(description="only what is this user's; left out: all you may see")]
OfAgent = Annotated[Name, Field(description="only what is this agent's")]
OfSession = Annotated[Id, Field(description="only what is this session's")]
Channel = Annotated[Name, Field(description="what carries the chat, such as telegram")]
Chat = Annotated[Name, Field(description="the chat's name in its channel")]
Thread = Annotated[Name, Field(description="the thread within the chat")]
# A schema that is written down takes no further word within a union, only around it.
Extras = Annotated[Metadata | None, Field(description="anything of your own, kept beside it")]
OwnLabels = Annotated[Labels | None, Field(description="texts of your own, kept beside it")]
Since = Annotated[Time, Field(description="only what was said or made from then on")]
Until = Annotated[Time, Field(description="only what was said or made before")]
AsOf = Annotated[Time, Field(description="what was true then")]
Asked = Annotated[Time, Field(description="when it is asked, for words such as yesterday; left out: now")]
Skill = Annotated[Name, Field(description="the skill that is active; what was learned with it counts more")]
Limit = Annotated[int, Field(ge=1, le=1000, description="entries of a page at most"), WHOLE]
_NEXT = Field(description="`next` of the page before")
Cursor = Annotated[str, StringConstraints(pattern=r"^[0-9]{1,16}\.[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"), _NEXT]
Offset = Annotated[str, StringConstraints(pattern=r"^[0-9]{1,9}$"), _NEXT]


class Query(BaseModel):
    """What stands behind the question mark of an address."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Body(BaseModel):
    """A JSON object. Numbers are numbers, and names nobody knows are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    def given(self) -> dict[str, Any]:
        """What the caller named, and nothing else."""
        return {name: getattr(self, name) for name in self.model_fields_set}


class Pages(Query):
    limit: Limit = 50
    cursor: Cursor | None = None


class Counted(Query):
    """Pages of a list that is short, and counted from its beginning."""

    limit: Limit = 50
    cursor: Offset | None = None
