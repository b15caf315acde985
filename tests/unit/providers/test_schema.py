from __future__ import annotations

import pytest

from limpet.errors import InvalidInput
from limpet.providers.schema import check_schema, describe_schema, drop_unknown_members, find_fault, is_closed

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 5},
        "age": {"type": ["integer", "null"], "minimum": 0, "maximum": 150},
        "mood": {"enum": ["good", "bad"]},
        "scores": {"type": "array", "items": {"type": "number"}, "minItems": 1, "maxItems": 2},
        "sure": {"type": "boolean"},
    },
    "required": ["name"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    "value",
    [
        {"name": "Ann"},
        {"name": "Ann", "age": 30, "mood": "good", "scores": [1, 2.5], "sure": True},
        {"name": "Ann", "age": None},
    ],
)
def test_find_fault_accepts_valid_values(value):
    assert find_fault(value, PERSON) is None


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ([], "the answer must be an object, not an array"),
        ({}, "the answer must have 'name', which is missing"),
        ({"name": 1}, "the answer.name must be a string, not an integer"),
        ({"name": ""}, "the answer.name has 0 characters, but 1 is the least"),
        ({"name": "Annabel"}, "the answer.name has 7 characters, but 5 is the most"),
        ({"name": "Ann", "age": True}, "the answer.age must be an integer or null, not a boolean"),
        ({"name": "Ann", "age": 3.0}, "the answer.age must be an integer or null, not a number"),
        ({"name": "Ann", "age": -1}, "the answer.age is -1, but 0 is the least"),
        ({"name": "Ann", "mood": "so-so"}, "the answer.mood must be one of 'good', 'bad', not 'so-so'"),
        ({"name": "Ann", "scores": []}, "the answer.scores has 0 items, but 1 is the least"),
        ({"name": "Ann", "scores": [1, "2"]}, "the answer.scores[1] must be a number, not a string"),
        ({"name": "Ann", "scores": [float("inf")]}, "the answer.scores[0] must be a number, not a float"),
        ({"name": "Ann", "sure": 1}, "the answer.sure must be a boolean, not an integer"),
        ({"name": "Ann", "town": "x"}, "the answer must not have 'town'; it may have 'name', 'age', 'mood', 'scores'"),
    ],
)
def test_find_fault_explains_invalid_values(value, reason):
    assert (find_fault(value, PERSON) or "").startswith(reason)


def test_find_fault_accepts_anything_for_empty_schema():
    assert find_fault([1, {"a": None}], {}) is None


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ([], "must be a mapping"),
        ({}, 'must be of type "object"'),
        ({"type": "array"}, 'must be of type "object"'),
        ({"type": "object", "anyOf": []}, "holds anyOf"),
        ({"type": "object", "properties": {"a": {"pattern": "x"}}}, r"the schema\.a holds pattern"),
        ({"type": "object", "properties": {"a": {"type": "text"}}}, r"the schema\.a cannot have type 'text'"),
        ({"type": "object", "properties": {"a": {"items": {"$ref": "b"}}}}, r"the schema\.a\[\] holds \$ref"),
        ({"type": "object", "properties": []}, r"cannot have properties \[\]"),
        ({"type": "object", "required": "name"}, "cannot have required 'name'"),
        ({"type": "object", "properties": {"a": {"minimum": "0"}}}, r"the schema\.a cannot have minimum '0'"),
        ({"type": "object", "properties": {"a": []}}, r"the schema\.a must be a mapping"),
    ],
)
def test_check_schema_rejects_unsupported_keywords(schema, reason):
    with pytest.raises(InvalidInput, match=reason):
        check_schema(schema)


def test_is_closed_requires_all_properties_and_no_others():
    closed = {
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "required": ["a"],
        "additionalProperties": False,
    }
    assert is_closed(closed)
    assert is_closed({**closed, "properties": {"a": {"type": "array", "items": closed}}})
    assert not is_closed(PERSON)
    assert not is_closed({**closed, "additionalProperties": True})
    assert not is_closed({**closed, "properties": {"a": {"type": "array", "items": PERSON}}})


def test_drop_unknown_members_where_forbidden():
    people = {"type": "object", "properties": {"people": {"type": "array", "items": PERSON}}}
    said = {"people": [{"name": "Ann", "town": "x"}, {"name": "Bob"}], "mood": "good"}
    assert drop_unknown_members(said, people) == {"people": [{"name": "Ann"}, {"name": "Bob"}], "mood": "good"}
    assert drop_unknown_members("text", people) == "text"


def test_describe_schema_ends_with_example():
    people = {"type": "object", "properties": {"people": {"type": "array", "items": PERSON}}}
    person = '{"name": "…", "age": 0, "mood": "good", "scores": [0.5], "sure": true}'
    assert describe_schema(people).endswith(f'so it has this form:\n{{"people": [{person}]}}')
