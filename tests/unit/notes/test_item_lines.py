"""A record as JSON and back is the same record, whatever is in it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from limpet.model.record import Layer, Origin, Record, RecordSource, RecordType, editable_fields, fingerprint
from limpet.model.scope import Level, Owner, Scope
from limpet.model.values import with_bucket
from limpet.notes import item_lines

NOW = datetime(2026, 3, 10, tzinfo=UTC)
ID = "01890000-0000-7000-8000-000000000001"
SESSION = "01890000-0000-7000-8000-000000000002"

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=40)
words = texts.filter(str.strip)
times = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)).map(lambda moment: moment.replace(tzinfo=UTC))
shares = st.floats(0, 1)
homes = st.sampled_from(
    [
        Owner(Scope("acme", user="alice"), Level.USER),
        Owner(Scope("acme", user="alice", session=SESSION), Level.SESSION),
    ]
)


@st.composite
def records(draw: st.DrawFn) -> Record:
    kind, content, created = draw(st.sampled_from(RecordType)), draw(words), draw(times)
    return Record(
        id=ID,
        home=draw(homes),
        layer=draw(st.sampled_from([Layer.SEMANTIC, Layer.EPISODIC, Layer.PROCEDURAL])),
        type=kind,
        content=content,
        key=draw(st.none() | st.just("a_key")),
        title=draw(st.none() | texts),
        tags=tuple(draw(st.lists(texts, unique=True, max_size=4))),
        metadata=draw(st.dictionaries(texts, texts, max_size=4)),
        confidence=draw(shares),
        salience=draw(shares),
        references=tuple(draw(st.lists(texts, unique=True, max_size=3))),
        fingerprint=fingerprint(kind, content),
        source=draw(st.sampled_from([RecordSource(), RecordSource(SESSION, (1, 5), "Ana", "A\nsentence.")])),
        origin=draw(st.sampled_from(Origin)),
        created_at=created,
        updated_at=created + timedelta(microseconds=draw(st.integers(0, 10**9))),
        last_used_at=draw(st.none() | times),
        uses=draw(st.integers(0, 2**40)),
        valid_from=draw(times),
        valid_to=draw(st.none() | times),
        superseded_by=draw(st.none() | st.just(SESSION)),
        expires_at=draw(st.none() | times),
        pinned=draw(st.booleans()),
        version=draw(st.integers(1, 2**40)),
    )


def read(text: str) -> Record:
    return item_lines.record_from_json(json.loads(text), "acme", "alice", lambda: ID, NOW)


@given(records())
def test_record_json_round_trips(record: Record) -> None:
    told = json.dumps(item_lines.record_to_json(record), ensure_ascii=False)
    assert "\n" not in told
    assert read(told) == record
    assert item_lines.compute_digest(read(told)) == item_lines.compute_digest(record)


@given(records(), records())
def test_record_digest_differs_for_different_content(one: Record, two: Record) -> None:
    same = all(
        getattr(one, name) == getattr(two, name)
        for name in ("home", *editable_fields())
        if name not in ("tags", "metadata")
    )
    same = same and sorted(one.tags) == sorted(two.tags) and one.metadata == two.metadata
    assert (item_lines.compute_digest(one) == item_lines.compute_digest(two)) == same


@given(records(), records())
def test_apply_edit_copies_editable_fields_only(old: Record, wanted: Record) -> None:
    edited = item_lines.apply_edit(old, wanted)
    assert all(getattr(edited, name) == getattr(wanted, name) for name in editable_fields())
    assert (edited.id, edited.home, edited.created_at, edited.uses) == (old.id, old.home, old.created_at, old.uses)
    assert edited.fingerprint == fingerprint(wanted.type, wanted.content)


def test_record_json_requires_only_content() -> None:
    record = read('{"content": "a dog"}')
    assert (record.id, record.user, record.level, record.layer, record.created_at) == (
        with_bucket(ID, record.home.space.bucket),
        "alice",
        "user",
        "semantic",
        NOW,
    )
