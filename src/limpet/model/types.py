"""The types of values that more than one noun or operation has, each with its limits."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

from limpet.model import constraints as limits
from limpet.model.containers import Items, JsonObject, StringMap

MAX_HITS = 1000
MAX_NEIGHBOURS = 100
MAX_TAGS = 100
MAX_URI_BYTES = 2048  # with the partition's number it must fit one entry of a PostgreSQL index
MAX_TITLE_BYTES = 4096
MAX_COST = 1_000_000_000

Text = Annotated[str, limits.Text()]
Words = Annotated[str, limits.Text(blank=False)]
Name = Annotated[str, limits.Printable()]
Label = Annotated[str, limits.Tag()]
Id = Annotated[str, limits.Uuid()]
Key = Annotated[str, limits.Identifier()]
StoredKey = Annotated[str, limits.Identifier(reserved=True)]  # also one that only the engine may give
Title = Annotated[str, limits.Text(max_bytes=MAX_TITLE_BYTES)]
Uri = Annotated[str, limits.Printable(max_bytes=MAX_URI_BYTES)]
Share = Annotated[float, limits.Number(0, 1)]
Cost = Annotated[float, limits.Number(0, MAX_COST)]
Count = Annotated[int, limits.Integer()]
PageLimit = Annotated[int, limits.Integer(1, 1000)]
HitCount = Annotated[int, limits.Integer(1, MAX_HITS)]
Moment = Annotated[datetime, limits.Instant()]
Metadata = Annotated[Mapping[str, Any], JsonObject()]
Labels = Annotated[Mapping[str, str], StringMap()]
UNIQUE = Items(unique=True)
Tags = Annotated[tuple[Label, ...], Items(MAX_TAGS, unique=True)]
