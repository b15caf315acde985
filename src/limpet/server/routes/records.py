"""Recall, and the records it finds."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypedDict

from pydantic import Field, StringConstraints

from limpet.model.chunk import Hit
from limpet.model.naming import MAX_RECORD_KEY
from limpet.model.record import Forgotten, Layer, Record, RecordType
from limpet.model.types import MAX_HITS, MAX_NEIGHBOURS, MAX_TITLE_BYTES
from limpet.server.auth import Caller
from limpet.server.operation import Operations
from limpet.server.owner import OneSession, SessionOwnerBody
from limpet.server.pages import Page, make_page, parse_cursor
from limpet.server.params import (
    INT,
    WHOLE,
    Asked,
    AsOf,
    Body,
    Flag,
    Fraction,
    Label,
    Labels,
    OfAgent,
    OfSession,
    OfUser,
    OwnLabels,
    Pages,
    Query,
    Seconds,
    Since,
    Skill,
    Text,
    Time,
    Until,
    User,
    Words,
)

operations = Operations("memory")

_Kind = Literal["message", "record", "document"]
_Recipe = Annotated[
    Literal["default", "words", "vectors", "weighted", "records", "graph", "graph_global"],
    Field(description="how hits are ranked; left out: `search.recipe`"),
]
_Question = Annotated[Text, Field(description="the question, or words")]
_Most = Annotated[int, Field(ge=1, le=MAX_HITS, description="hits at most")]
_ANY = "only what is one of these"
_Said = Annotated[Words, Field(description="what is to be remembered")]
_Type = Annotated[RecordType, Field(description="what it states")]
_Layer = Annotated[Layer, Field(description="what kind of memory it is")]
_Confidence = Annotated[Fraction, Field(description="how sure it is")]
_Salience = Annotated[Fraction, Field(description="how much it matters")]
_Pinned = Annotated[bool, Field(description="it stands in every context, and never fades")]
_Title = Annotated[Text, Field(max_length=MAX_TITLE_BYTES, description="a heading")]
_Key = Annotated[str, StringConstraints(min_length=1, max_length=MAX_RECORD_KEY, pattern=r"^[a-z][a-z0-9_]*$")]
_Tags = Annotated[list[Label], Field(max_length=100, fail_fast=True)]
_OwnTags = Annotated[_Tags, Field(description="words to filter by")]


def _any(most: int) -> Any:
    return Field(min_length=1, max_length=most, fail_fast=True, description=_ANY)


class Hits(TypedDict):
    hits: Annotated[list[Hit], "the best first; empty: memory knows nothing about it"]


class History(TypedDict):
    versions: Annotated[list[Record], "everything the record has said, the oldest first"]


class RecallQuery(Query):
    query: _Question
    user: User | None = None
    session: OneSession | None = None
    k: Annotated[_Most, WHOLE] = 10
    recipe: _Recipe | None = None


class Recall(SessionOwnerBody):
    query: _Question
    k: Annotated[_Most, INT] = 10
    recipe: _Recipe | None = None
    kinds: Annotated[list[_Kind] | None, _any(3)] = None
    layers: Annotated[list[Layer] | None, _any(10)] = None
    types: Annotated[list[RecordType] | None, _any(20)] = None
    tags: Annotated[_Tags, Field(description="only records with all of these")] | None = None
    metadata: Annotated[Labels | None, Field(description="only records with all of these")] = None
    since: Since | None = None
    until: Until | None = None
    as_of: AsOf | None = None
    at: Asked | None = None
    neighbours: Annotated[int, Field(ge=0, le=MAX_NEIGHBOURS, description="messages around each hit"), INT] = 0
    skill: Skill | None = None


class RecordsQuery(Pages):
    user: OfUser | None = None
    agent: OfAgent | None = None
    session: OfSession | None = None
    layer: Annotated[list[Layer] | None, Field(description=_ANY)] = None
    type: Annotated[list[RecordType] | None, Field(description=_ANY)] = None
    tag: Annotated[list[Label] | None, Field(description="only those with all of these")] = None
    since: Since | None = None
    until: Until | None = None
    as_of: AsOf | None = None
    history: Annotated[Flag, Field(description="also those that are no longer true")] = False
    archived: Annotated[Flag, Field(description="those that have faded, and no others")] = False


class Remember(SessionOwnerBody):
    content: _Said
    key: Annotated[_Key, Field(description="saying it again replaces what it said")] | None = None
    type: _Type = RecordType.FACT
    layer: _Layer = Layer.SEMANTIC
    title: _Title | None = None
    tags: _OwnTags = Field(default_factory=list)
    metadata: OwnLabels = None
    confidence: _Confidence | None = None
    salience: _Salience | None = None
    pinned: _Pinned = False
    valid_from: Annotated[Time, Field(description="since when it is true; left out: now")] | None = None
    ttl_seconds: Annotated[Seconds, Field(description="how long it is true; left out: for ever")] | None = None


class ChangeRecord(Body):
    """What is left out or null stays as it is."""

    content: _Said | None = None
    title: _Title | None = None
    type: _Type | None = None
    layer: _Layer | None = None
    tags: _OwnTags | None = None
    metadata: OwnLabels = None
    confidence: _Confidence | None = None
    salience: _Salience | None = None
    pinned: _Pinned | None = None


class Promote(Body):
    scope: Annotated[Literal["user", "global"], Field(description="how far it reaches then")] | None = None


class ForgetByKey(SessionOwnerBody):
    key: Annotated[_Key, Field(description="of the record")]


class ForgetByWords(SessionOwnerBody):
    query: Annotated[Words, Field(description="all records that hold every word of it")]
    dry_run: Annotated[bool, Field(description="only say what would go")] = False


@operations.get("/v1/recall")
def recall(who: Caller, query: RecallQuery) -> Hits:
    """What memory knows about a question"""
    owner = who.owner_arguments(query.user, None, query.session, None)
    return _hits(who.hf.recall(query.query, k=query.k, recipe=query.recipe, **owner))


@operations.post("/v1/recall")
def search(who: Caller, body: Recall) -> Hits:
    """What memory knows about a question, with every filter there is"""
    wanted = body.model_dump(exclude={"user", "agent", "session", "scope"}, exclude_none=True)
    return _hits(who.hf.recall(**wanted, **body.owner_arguments(who)))


@operations.get("/v1/records")
def list_records(who: Caller, query: RecordsQuery) -> Page[Record]:
    """Records, the latest change first: those true now, or at `as_of`"""
    found = who.hf.records(
        query.user,
        query.session,
        query.layer,
        query.type,
        query.tag,
        since=query.since,
        until=query.until,
        as_of=query.as_of,
        limit=query.limit + 1,
        agent=query.agent,
        history=query.history,
        archived=query.archived,
        before=parse_cursor(query.cursor),
    )
    return make_page(found, query.limit, lambda record: (_changed(record), record.id))


@operations.post("/v1/records", 201, keyed=True)
def remember(who: Caller, body: Remember) -> Record:
    """Keep a memory"""
    values = body.model_dump(exclude={"user", "agent", "session", "scope", "ttl_seconds"})
    return who.hf.remember(**values, ttl=body.ttl_seconds, idempotency_key=who.once, **body.owner_arguments(who))


@operations.get("/v1/records/{id}")
def get_record(who: Caller, id: str) -> Record:
    """A record"""
    return who.hf.records.get(id)


@operations.patch("/v1/records/{id}")
def change_record(who: Caller, id: str, body: ChangeRecord) -> Record:
    """Change some fields; what it said before goes to its history. What is null stays as it is"""
    changes = {name: value for name, value in body.given().items() if value is not None}
    return who.hf.records.update(id, **changes) if changes else who.hf.records.get(id)


@operations.delete("/v1/records/{id}")
def forget_record(who: Caller, id: str) -> Forgotten:
    """Forget a record and every copy of it"""
    return who.hf.forget(id)


@operations.get("/v1/records/{id}/history")
def get_history(who: Caller, id: str) -> History:
    """Everything a record has said"""
    return {"versions": who.hf.records.history(id)}


@operations.post("/v1/records/{id}/promote")
def promote_record(who: Caller, id: str, body: Promote) -> Record:
    """Make a record of lasting kind, or let it reach further"""
    return who.hf.records.promote(id, scope=body.scope)


@operations.post("/v1/forget/key")
def forget_key(who: Caller, body: ForgetByKey) -> Forgotten:
    """Forget what is kept under a key"""
    return who.hf.forget(key=body.key, **body.owner_arguments(who))


@operations.post("/v1/forget/words")
def forget_words(who: Caller, body: ForgetByWords) -> Forgotten:
    """Forget all records that hold every word of a query"""
    return who.hf.forget(query=body.query, dry_run=body.dry_run, **body.owner_arguments(who))


def _hits(found: list[Any]) -> Hits:
    return {"hits": found}


def _changed(record: Record) -> Any:
    return record.updated_at
