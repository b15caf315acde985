"""A noun tells its own columns: what stands in them, and which are encrypted."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated

from limpet.model.columns import NO_COLUMN, NULL_IF_EMPTY, SET_ONCE, Column, Encrypted, Plain, RowCodec, encrypted_names
from limpet.model.message import Message
from limpet.model.record import Layer, Record, RecordSource, RecordType
from limpet.model.schema import FLATTEN
from limpet.model.scope import Level, Owner, Scope
from limpet.model.types import Id, Labels, Moment, Name

NOON = datetime(2026, 5, 2, 12, tzinfo=UTC)
ID = "0189a0f2-0000-7000-8000-000000000001"


@dataclass(frozen=True, slots=True)
class Place:
    beach: Annotated[Name, Plain("the name of a beach")]
    depth: int = 0


@dataclass(frozen=True, slots=True)
class Shell:
    id: Annotated[Id, SET_ONCE]
    place: Annotated[Place, FLATTEN]
    found_at: Annotated[Moment | None, Column("found")] = None
    note: str | None = None
    shape: Annotated[str, Encrypted("same")] = "round"
    weight: Annotated[int, NO_COLUMN] = 7
    tags: Annotated[tuple[str, ...], NULL_IF_EMPTY] = ()
    labels: Labels = field(default_factory=dict)
    broken: bool = False


SHELLS = RowCodec(Shell)
SHELL = Shell(ID, Place("Praia", 3), NOON, "white", tags=("a", "b"), labels={"x": "y"}, broken=True)


def test_columns_are_the_fields_by_their_own_or_another_name():
    assert SHELLS.names == ("id", "beach", "depth", "found", "note", "shape", "tags", "labels", "broken")


def test_text_is_encrypted_unless_the_field_says_that_it_is_not():
    assert encrypted_names(SHELLS) == {"text": "note tags labels", "same": "shape"}
    assert {each.name: each.plain for each in SHELLS.columns if each.plain} == {
        "id": "an id",
        "beach": "the name of a beach",
    }


def test_a_row_there_and_back_is_the_same_noun():
    for shell in (SHELL, Shell(ID, Place("Praia"))):
        params = SHELLS.params(shell)
        assert SHELLS.read([params[name] for name in SHELLS.names]) == shell
    assert SHELLS.params(SHELL)["broken"] == 1
    assert SHELLS.params(Shell(ID, Place("Praia")))["tags"] is None


def test_a_history_without_a_later_column_has_its_default():
    text = SHELLS.dump(SHELL)
    assert SHELLS.load(text) == SHELL
    older = text.replace('"shape":"round",', "")
    assert older != text
    assert SHELLS.load(older) == SHELL


def test_a_record_and_a_message_come_back_as_they_were():
    record = Record(
        ID,
        Owner(Scope("acme", "alice", None, ID), Level.SESSION),
        Layer.SEMANTIC,
        RecordType.FACT,
        "a dog",
        tags=("pets",),
        source=RecordSource(ID, (1, 2), None, "A dog."),
        created_at=NOON,
        updated_at=NOON,
        valid_from=NOON,
        inputs=(ID,),
    )
    records, messages = RowCodec(Record), RowCodec(Message)
    assert records.load(records.dump(record)) == record
    message = Message.new(
        "assistant",
        [{"type": "image", "uri": "dog.png"}],
        tool_calls=[{"id": "1", "name": "look", "arguments": {"at": [1]}}],
        metadata={"a": None},
    ).with_sequence(3, NOON)
    assert messages.load(messages.dump(message)) == message
