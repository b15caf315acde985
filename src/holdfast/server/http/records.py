"""Recall, and the records it finds."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypedDict

from pydantic import Field, StringConstraints

from holdfast import Record, shapes
from holdfast.domain.keys import MAX_RECORD_KEY
from holdfast.server.door import Caller
from holdfast.server.given import (
    INT,
    WHOLE,
    Body,
    Flag,
    Fraction,
    Id,
    Label,
    Labels,
    Name,
    Pages,
    Query,
    Seconds,
    Text,
    Time,
    Words,
)
from holdfast.server.operation import Operations
from holdfast.server.pages import Page, before, page
from holdfast.server.whose import Home
from holdfast.shapes import nouns

operations = Operations("memory")

_Kind = Literal["message", "record", "document"]
_Recipe = Literal["default", "words", "vectors", "weighted", "records", "graph", "graph_global"]
_Title = Annotated[Text, Field(max_length=500)]
_Key = Annotated[str, StringConstraints(min_length=1, max_length=MAX_RECORD_KEY, pattern=r"^[a-z][a-z0-9_]*$")]
_Tags = Annotated[list[Label], Field(max_length=100, fail_fast=True)]


class Hits(TypedDict):
    """The best first. `signals` say why each stands where it does."""

    hits: list[nouns.Hit]


class History(TypedDict):
    """Everything a record has said, the oldest first."""

    versions: list[nouns.Record]


class RecallQuery(Query):
    query: Text
    user: Name | None = None
    session: Id | None = None
    k: Annotated[int, Field(ge=1, le=100), WHOLE] = 10
    recipe: _Recipe | None = None


class Recall(Home):
    query: Text
    k: Annotated[int, Field(ge=1, le=100), INT] = 10
    recipe: _Recipe | None = None
    kinds: Annotated[list[_Kind] | None, Field(min_length=1, max_length=3, fail_fast=True)] = None
    layers: Annotated[list[nouns.Layer] | None, Field(min_length=1, max_length=10, fail_fast=True)] = None
    types: Annotated[list[nouns.RecordType] | None, Field(min_length=1, max_length=20, fail_fast=True)] = None
    tags: _Tags | None = None
    metadata: Labels | None = None
    since: Time | None = None
    until: Time | None = None
    as_of: Annotated[Time | None, Field(description="what was true then")] = None
    at: Annotated[Time | None, Field(description="when it is asked, for words such as yesterday")] = None
    neighbours: Annotated[int, Field(ge=0, le=10, description="messages around each hit"), INT] = 0
    skill: Name | None = None


class RecordsQuery(Pages):
    user: Name | None = None
    agent: Name | None = None
    session: Id | None = None
    layer: list[nouns.Layer] | None = None
    type: list[nouns.RecordType] | None = None
    tag: list[Label] | None = None
    since: Time | None = None
    until: Time | None = None
    as_of: Time | None = None
    history: Annotated[Flag, Field(description="also those that are no longer true")] = False
    archived: Annotated[Flag, Field(description="those that have faded, and no others")] = False


class Remember(Home):
    content: Words
    key: Annotated[_Key | None, Field(description="saying it again replaces what it said")] = None
    type: nouns.RecordType = "fact"
    layer: nouns.Layer = "semantic"
    title: _Title | None = None
    tags: _Tags = Field(default_factory=list)
    metadata: Labels | None = None
    confidence: Fraction | None = None
    salience: Fraction | None = None
    pinned: bool = False
    valid_from: Time | None = None
    ttl_seconds: Seconds | None = None


class ChangeRecord(Body):
    content: Words | None = None
    title: _Title | None = None
    type: nouns.RecordType | None = None
    layer: nouns.Layer | None = None
    tags: _Tags | None = None
    metadata: Labels | None = None
    confidence: Fraction | None = None
    salience: Fraction | None = None
    pinned: bool | None = None


class Promote(Body):
    scope: Annotated[Literal["user", "global"] | None, Field(description="how far it reaches then")] = None


class ForgetByKey(Home):
    key: _Key


class ForgetByWords(Home):
    query: Annotated[Words, Field(description="all records that hold every word of it")]
    dry_run: Annotated[bool, Field(description="only say what would go")] = False


@operations.get("/v1/recall")
def recall(who: Caller, query: RecallQuery) -> Hits:
    """What memory knows about a question"""
    owner = who.home(query.user, None, query.session, None)
    return _hits(who.hf.recall(query.query, k=query.k, recipe=query.recipe, **owner))


@operations.post("/v1/recall")
def search(who: Caller, body: Recall) -> Hits:
    """What memory knows about a question, with every filter there is"""
    wanted = body.model_dump(exclude={"user", "agent", "session", "scope"}, exclude_none=True)
    return _hits(who.hf.recall(**wanted, **body.home(who)))


@operations.get("/v1/records")
def list_records(who: Caller, query: RecordsQuery) -> Page[nouns.Record]:
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
        before=before(query.cursor),
    )
    return page(found, query.limit, shapes.record, lambda record: (_changed(record), record.id))


@operations.post("/v1/records", 201, keyed=True)
def remember(who: Caller, body: Remember) -> nouns.Record:
    """Keep a memory"""
    values = body.model_dump(exclude={"user", "agent", "session", "scope", "ttl_seconds"})
    kept = who.hf.remember(**values, ttl=body.ttl_seconds, idempotency_key=who.once, **body.home(who))
    return shapes.record(kept)


@operations.get("/v1/records/{id}")
def get_record(who: Caller, id: str) -> nouns.Record:
    """A record"""
    return shapes.record(who.hf.record(id))


@operations.patch("/v1/records/{id}")
def change_record(who: Caller, id: str, body: ChangeRecord) -> nouns.Record:
    """Change some fields; what it said before goes to its history. What is null stays as it is"""
    changes = {name: value for name, value in body.given().items() if value is not None}
    return shapes.record(who.hf.update(id, **changes) if changes else who.hf.record(id))


@operations.delete("/v1/records/{id}")
def forget_record(who: Caller, id: str) -> nouns.Forgotten:
    """Forget a record and every copy of it"""
    return shapes.forgotten(who.hf.forget(id))


@operations.get("/v1/records/{id}/history")
def get_history(who: Caller, id: str) -> History:
    """Everything a record has said"""
    return {"versions": [shapes.record(each) for each in who.hf.history(id)]}


@operations.post("/v1/records/{id}/promote")
def promote_record(who: Caller, id: str, body: Promote) -> nouns.Record:
    """Make a record of lasting kind, or let it reach further"""
    return shapes.record(who.hf.promote(id, scope=body.scope))


@operations.post("/v1/forget/key")
def forget_key(who: Caller, body: ForgetByKey) -> nouns.Forgotten:
    """Forget what is kept under a key"""
    return shapes.forgotten(who.hf.forget(key=body.key, **body.home(who)))


@operations.post("/v1/forget/words")
def forget_words(who: Caller, body: ForgetByWords) -> nouns.Forgotten:
    """Forget all records that hold every word of a query"""
    return shapes.forgotten(who.hf.forget(query=body.query, dry_run=body.dry_run, **body.home(who)))


def _hits(found: list[Any]) -> Hits:
    return {"hits": [shapes.hit(rank, each) for rank, each in enumerate(found, start=1)]}


def _changed(record: Record) -> Any:
    return record.updated_at
