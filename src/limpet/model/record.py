"""A record: one long-term memory."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cache
from typing import Annotated, Any, NamedTuple

from limpet.errors import InvalidInput
from limpet.model import constraints as limits
from limpet.model.columns import NULL_IF_EMPTY, SET_ONCE, Column, Encrypted
from limpet.model.constraints import Codec
from limpet.model.dataclass import dataclass, replace
from limpet.model.schema import FLATTEN, IN_JSON, ONLY_EXPORT, Editable, Field, JsonName, codec, fields_of
from limpet.model.scope import Owner
from limpet.model.types import UNIQUE, Id, Key, Label, Labels, Moment, Share, StoredKey, Tags, Text, Title, Words
from limpet.model.values import PageCursor, check_ttl, short_repr


class Layer(StrEnum):
    WORKING = "working"
    EPISODIC = "episodic"
    SEMANTIC = "semantic"
    PROCEDURAL = "procedural"


class RecordType(StrEnum):
    FACT = "fact"
    PREFERENCE = "preference"
    CONSTRAINT = "constraint"
    DECISION = "decision"
    INSTRUCTION = "instruction"
    PLAN = "plan"
    RELATIONSHIP = "relationship"
    NOTE = "note"
    FAILURE = "failure"
    FIX = "fix"
    COMMAND_RESULT = "command_result"
    TASK_STATE = "task_state"


CLAIM_TYPES = (
    RecordType.FACT,
    RecordType.PREFERENCE,
    RecordType.CONSTRAINT,
    RecordType.INSTRUCTION,
    RecordType.DECISION,
    RecordType.PLAN,
    RecordType.RELATIONSHIP,
)  # what states that something holds; a later statement may take it back


class Origin(StrEnum):
    """How a record came to be. What a user said explicitly never fades."""

    EXPLICIT = "explicit"
    EXTRACTED = "extracted"
    PROMOTED = "promoted"
    TURN = "turn"
    CONDENSED = "condensed"  # made of several others


@dataclass(frozen=True, slots=True)
class RecordSource:
    """The place in a conversation a record was learned from."""

    session_id: Annotated[Id | None, "the session it was learned from; null: from none"] = None
    sequences: Annotated[tuple[int, ...], "the messages it was learned from"] = ()
    speaker: Annotated[Text | None, "who said it; null: unknown"] = None
    sentence: Annotated[Text | None, "the exact sentence; null: it was stored as such"] = None


@dataclass(frozen=True, slots=True)
class Record:
    id: Annotated[Id, SET_ONCE, "given by the store"]
    home: Annotated[Owner, FLATTEN, SET_ONCE]
    layer: Annotated[Layer, Editable(Layer), "what kind of memory it is"]
    type: Annotated[RecordType, Editable(RecordType), "what it states"]
    content: Annotated[Text, Editable(Words), "its text"]
    key: Annotated[StoredKey | None, Editable(Key), Encrypted("key"), "its name, unique for its owner; null: none"] = (
        None
    )
    title: Annotated[Text | None, Editable(Title), "a heading; null: it has none"] = None
    tags: Annotated[tuple[Label, ...], UNIQUE, Editable(Tags), "words to filter by"] = ()
    metadata: Annotated[Labels, Editable(Labels), "texts of the program's own, by name"] = field(default_factory=dict)
    confidence: Annotated[Share, Editable(Share), "how sure it is, from 0 to 1"] = 1.0
    salience: Annotated[Share, Editable(Share), "how much it matters, from 0 to 1"] = 0.5
    references: Annotated[tuple[Label, ...], UNIQUE, Editable(Tags), Column("refs"), "files, tests and the like"] = ()
    fingerprint: Annotated[
        str, ONLY_EXPORT, Encrypted("same"), "a hash that is equal for records that say the same"
    ] = ""
    source: Annotated[RecordSource, Encrypted("source"), "the message it was learned from"] = RecordSource()
    origin: Annotated[Origin, "how it was created"] = Origin.EXPLICIT
    created_at: Annotated[Moment | None, SET_ONCE, "when it was created; null: unknown"] = None
    updated_at: Annotated[Moment | None, "when it was last changed; lists are ordered by it"] = None
    last_used_at: Annotated[Moment | None, "when it was last recalled, or said again; null: never"] = None
    uses: Annotated[int, "how often a caller recalled it, or the user said it again"] = 0
    valid_from: Annotated[Moment | None, Editable(Moment), "when it became true; null: always"] = None
    valid_to: Annotated[Moment | None, Editable(Moment), "when it stopped being true; null: it is true"] = None
    superseded_by: Annotated[Id | None, "id of the record that replaced it; null: none did"] = None
    expires_at: Annotated[Moment | None, Editable(Moment), "when it expires; null: never"] = None
    pinned: Annotated[bool, Editable(bool), "shown in every context, and never fades"] = False
    version: Annotated[int, "1, plus one for each change of its text"] = 1
    subject: Annotated[Text | None, Encrypted("same"), "what it is about, such as user/sister; null: unknown"] = None
    attribute: Annotated[
        Text | None, Encrypted("same"), "the attribute of the subject, such as home; null: unknown"
    ] = None
    value: Annotated[Text | None, "the value of the attribute; null: unknown"] = None
    polarity: Annotated[bool, "false: a denial, such as does not eat meat"] = True
    said: Annotated[int, "how often it was said"] = 1
    archived_at: Annotated[Moment | None, "when it was archived, and no longer recalled; null: it was not"] = None
    inputs: Annotated[tuple[Id, ...], UNIQUE, NULL_IF_EMPTY, "ids of the records it was made from"] = ()

    def is_valid_at(self, moment: datetime) -> bool:
        """One that was true when it was written is so, though the clock that wrote it was ahead of this one."""
        written = max(at for at in (moment, self.created_at, self.updated_at) if at is not None)
        begun = self.valid_from is None or self.valid_from <= written
        return begun and not any(end is not None and end <= moment for end in (self.valid_to, self.expires_at))

    def is_current_at(self, moment: datetime) -> bool:
        """Whether it holds, is not archived, and nothing took its place."""
        return self.archived_at is None and self.superseded_by is None and self.is_valid_at(moment)

    @property
    def level(self) -> str:
        return self.home.level.value

    @property
    def user(self) -> str | None:
        return self.home.scope.user

    @property
    def agent(self) -> str | None:
        return self.home.scope.agent

    @property
    def session_id(self) -> str | None:
        return self.home.scope.session


@cache
def editable_fields() -> Mapping[str, Codec]:
    """The fields of a record that a caller may set, with what they may be."""
    return {
        each.name: codec(mark.hint) for each in fields_of(Record) for mark in each.hints if isinstance(mark, Editable)
    }


@cache
def clearable_fields() -> Mapping[str, Any]:
    """The fields a caller may empty, with what they are then."""
    return {each.name: each.default for each in _list_editable() if each.default in (None, (), {})}


def list_change_arguments() -> tuple[Field, ...]:
    """The fields of a record as arguments of an operation that changes some of them."""
    changed = [each._replace(codec=editable_fields()[each.name], default=None) for each in _list_editable()]
    lifetime = Annotated[timedelta | float | None, limits.Duration(), "how long it lasts from now, in seconds"]
    return (*changed, Field.of("ttl", lifetime, None))


def _list_editable() -> list[Field]:
    return [each for each in fields_of(Record) if any(isinstance(mark, Editable) for mark in each.hints)]


@dataclass(frozen=True, slots=True)
class RecordChanges:
    """Fields of a record that a caller sets, checked. What is not among them stays as it is."""

    values: Mapping[str, Any]

    @classmethod
    def validate(cls, values: Mapping[str, Any], now: datetime, clear: Iterable[str] = ()) -> RecordChanges:
        """Check every field a caller gave. Fields that are None change nothing. ``ttl`` is a time to live from now.

        ``clear`` names fields to empty: they get their default.
        """
        given = {name: value for name, value in values.items() if value is not None}
        if (ttl := given.pop("ttl", None)) is not None:
            given["expires_at"] = now + check_ttl(ttl, "ttl")
        known = editable_fields()
        if unknown := sorted(given.keys() - known.keys()):
            raise InvalidInput(f"a record has no {', '.join(unknown)}; it has {', '.join(sorted(known))}")
        checked = {name: known[name].check(value, name) for name, value in given.items()}
        return cls(checked | cls._empty(clear, given))

    @staticmethod
    def _empty(clear: Iterable[str], given: Mapping[str, Any]) -> dict[str, Any]:
        emptied = clearable_fields()
        for name in clear:
            if name not in emptied:
                raise InvalidInput(f"clear names {', '.join(emptied)}; not {short_repr(name)}")
            if name in given:
                raise InvalidInput(f"{name} is both given and cleared; choose one")
        return {name: emptied[name] for name in clear}

    def mask(self, mask: Callable[[str], str]) -> RecordChanges:
        """The changes without secrets in what is shown of a record: its text, its title, its references."""
        masked: dict[str, Any] = {
            name: mask(self.values[name]) for name in ("content", "title") if self.values.get(name)
        }
        if references := self.values.get("references"):
            masked["references"] = tuple(dict.fromkeys(map(mask, references)))
        return RecordChanges({**self.values, **masked})

    def apply_to(self, record: Record) -> Record:
        changed = replace(record, **self.values)
        return replace(changed, fingerprint=fingerprint(changed.type, changed.content))


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """What a record must be: any of the layers, any of the types, all of the tags, all of the metadata."""

    layers: tuple[Layer, ...] = ()
    types: tuple[RecordType, ...] = ()
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        layers: Iterable[str] | None,
        types: Iterable[str] | None,
        tags: Iterable[str] | None,
        metadata: Mapping[str, str] | None,
    ) -> RecordFilter:
        """A filter of arguments that were checked."""
        chosen: Any = (tuple(layers or ()), tuple(types or ()), tuple(tags or ()), metadata or {})
        return cls(*chosen)

    def __bool__(self) -> bool:
        return bool(self.layers or self.types or self.tags or self.metadata)


@dataclass(frozen=True, slots=True)
class RecordQuery:
    """Which records to list: all given conditions hold at once. Newest change first."""

    filter: RecordFilter = RecordFilter()
    since: datetime | None = None
    until: datetime | None = None
    as_of: datetime | None = None
    include_past: bool = False
    archived: bool = False  # those that have faded, and no others
    limit: int | None = 50
    offset: int = 0
    before: PageCursor | None = None

    def matches(self, record: Record) -> bool:
        """The filter and the times, on a record already read. Whether it was true is another question."""
        wanted, created = self.filter, record.created_at
        return (
            (not wanted.layers or record.layer in wanted.layers)
            and (not wanted.types or record.type in wanted.types)
            and set(wanted.tags) <= set(record.tags)
            and wanted.metadata.items() <= record.metadata.items()
            and (self.since is None or (created is not None and created >= self.since))
            and (self.until is None or (created is not None and created < self.until))
        )

    def matches_validity(self, record: Record, moment: datetime) -> bool:
        """Whether it is to be listed for what it was at the moment: true then, or faded, whichever is asked for."""
        if self.archived:
            return record.archived_at is not None
        return self.include_past or (record.is_valid_at(moment) and record.archived_at is None)


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What was removed, or would be: how many of each kind, and the ids of the records or documents.

    ``left`` names where a search still finds it: stated for itself, said elsewhere, or in a document.
    """

    counts: Annotated[Mapping[str, int], "how many of each kind were removed"]
    ids: Annotated[tuple[str, ...], "ids of what was removed"]
    left: Annotated[tuple[str, ...], "where the same can still be found; empty: nowhere"] = ()
    sentences: Annotated[tuple[str, ...], "of a dry run: the sentences that would be removed from messages"] = ()

    @property
    def total(self) -> Annotated[int, IN_JSON, JsonName("forgotten"), "how many records or documents went"]:
        return len(self.ids)


_SPACE = re.compile(r"\s+")


def fingerprint(type: RecordType, content: str) -> str:
    """Equal for texts that differ only in case, width, spacing, or the full stop at their end."""
    normal = _SPACE.sub(" ", unicodedata.normalize("NFKC", content).casefold()).strip()
    normal = normal.rstrip(" .!") or normal
    return hashlib.blake2b(f"{type}\n{normal}".encode(), digest_size=16).hexdigest()


class ProfileLine(NamedTuple):
    text: Annotated[str, "one line"]
    sources: Annotated[tuple[str, ...], "ids of the records it was made from"]


@dataclass(frozen=True, slots=True)
class Profile:
    """``sources`` are the ids of the records the text was made from. Without a text there is nothing to tell yet."""

    text: Annotated[str, "what is known about the user; empty: nothing yet"] = ""
    sources: Annotated[tuple[str, ...], "ids of the records the text was made from"] = ()
    updated_at: Annotated[Moment | None, "when it was last written; null: never"] = None
    lines: Annotated[tuple[ProfileLine, ...], "the text, line by line, with the records of each"] = ()
