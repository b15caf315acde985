from __future__ import annotations

import json

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from limpet.providers.structured import MAX_DEPTH, Unreadable, clean_text, parse_object, read_object

text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=12)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4))
objects = st.dictionaries(text, values, max_size=5)
chatter = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="{}[<"), max_size=30)
FACTS = {
    "type": "object",
    "properties": {"facts": {"type": "array", "items": {"type": "string"}}},
    "required": ["facts"],
}


def parsed(given_text):
    return parse_object(given_text).data


@given(objects, st.sampled_from([None, 2]), st.booleans())
def test_parse_object_reads_valid_json_unchanged(value, indent, ascii_only):
    reading = parse_object(json.dumps(value, indent=indent, ensure_ascii=ascii_only))
    assert reading == (value, False)


@given(objects, chatter, chatter)
def test_parse_object_ignores_surrounding_text_and_fences(value, before, after):
    assume(value)
    written = json.dumps(value, indent=2)
    assert parsed(f"{before}\n{written}\n{after}") == value
    assert parsed(f"{before}\n```json\n{written}\n```\n{after}") == value
    assert parsed(f"<think>Maybe {{x}} or {{'a': 1}}?</think>{written}") == value


@given(objects)
def test_parse_object_ignores_trailing_commas(value):
    written = json.dumps(value, indent=1).replace("\n", ",\n")
    for opening in "{[,":
        written = written.replace(f"{opening},\n", f"{opening}\n")
    assume(json.dumps(value).count(",\\n") == 0)
    assert parsed(written) == value


words = st.text(st.characters(categories=["L", "Nd", "Zs"], include_characters="'-.!?"), max_size=12)


@given(st.dictionaries(words.filter(lambda name: "'" not in name), words, min_size=1, max_size=4))
def test_parse_object_accepts_single_quotes_with_apostrophes(value):
    def quoted(word):
        return f"'{word}'"

    written = "{" + ", ".join(f"{quoted(name)}: {quoted(item)}" for name, item in value.items()) + "}"
    assert parsed(written) == value


printed = st.text(st.characters(categories=["L", "Nd", "Po"], exclude_characters="'\\"), max_size=12)


@given(
    st.dictionaries(printed, scalars.filter(lambda value: not isinstance(value, str)) | printed, min_size=1, max_size=4)
)
def test_parse_object_accepts_python_repr(value):
    assert parsed(repr(value)) == value


@given(objects, st.integers(0, 10_000))
def test_parse_object_of_truncated_text_keeps_complete_values_only(value, place):
    """What is read is a part of what was said: no text shortened, no number changed, nothing made up."""
    assume(value)
    written = json.dumps(value)
    cut = written[: place % len(written)]
    try:
        reading = parse_object(cut)
    except Unreadable:
        return
    assert reading.cut
    assert reading.data
    assert is_part(reading.data, value)


def is_part(some, whole):
    if isinstance(whole, dict) and isinstance(some, dict):
        return all(name in whole and is_part(item, whole[name]) for name, item in some.items())
    if isinstance(whole, list) and isinstance(some, list):
        return some == whole[: len(some)]
    return type(some) is type(whole) and some == whole


@given(st.lists(text, min_size=2, max_size=5))
def test_read_object_of_truncated_list_keeps_complete_items(items):
    written = json.dumps({"facts": items})
    reading = read_object(written[: -len('"]}')], FACTS)
    assert reading == ({"facts": items[:-1]}, True)


@given(st.text(max_size=200) | st.text("{}[]\":,\\'/*ab1-.tn \n", max_size=60))
def test_parse_object_accepts_any_text(anything):
    try:
        reading = parse_object(anything)
    except Unreadable:
        return
    assert isinstance(reading.data, dict)
    json.dumps(reading.data, ensure_ascii=False, allow_nan=False).encode()


@pytest.mark.parametrize(
    ("given_text", "expected"),
    [
        ('{"a": "line\nend"}', {"a": "line\nend"}),
        ('{"a": 1,}', {"a": 1}),
        ('{"a": [1, 2,],}', {"a": [1, 2]}),
        ("{'a': 'it's fine', 'b': 'the dogs' bowl'}", {"a": "it's fine", "b": "the dogs' bowl"}),
        ("{'a': 'say \\'hi\\' and \"ho\"'}", {"a": "say 'hi' and \"ho\""}),
        ("{a: 1, $b: true, c-d: null,}", {"a": 1, "$b": True, "c-d": None}),
        ("{'a': True, 'b': None, 'c': False,}", {"a": True, "b": None, "c": False}),
        ('{"a": 1, // one\n "b": 2, /* two */ }', {"a": 1, "b": 2}),
        (r'{"path": "C:\dir\new", }', {"path": "C:\\dir\new"}),
        (r'{"a": "\ud83c\udf55", }', {"a": "🍕"}),
        (r'{"a": "\ud83c"}', {"a": "\ufffd"}),
        ('{"a": "x\\u0000y"}', {"a": "xy"}),
        ('\ufeff{"a": 1}', {"a": 1}),
        ('Sure! Here is {the answer}: {"a": 1} Hope it helps {smile}', {"a": 1}),
        ('As [1] says, {"a": 1}', {"a": 1}),
        ('{"a": 1}\n\n{"a": 1}', {"a": 1}),
        ("Nothing: {}", {}),
        ('{} is empty, but {"a": 1}', {"a": 1}),
        ('{"a": "</think>"}', {"a": "</think>"}),
        ('{"a": "</think>",}', {"a": "</think>"}),
        ('The user wants {"a": 2}.</think> {"a": "</think>"}', {"a": "</think>"}),
        ('{"a": {"b": [{"c": 1}, {"d": "half', {"a": {"b": [{"c": 1}]}}),
        ('{"a": 1, "b": 12', {"a": 1}),
        ('{"a": 1, "b": true', {"a": 1, "b": True}),
        ('{"a": 1, "b": tru', {"a": 1}),
        ('{"a": 1, "b":', {"a": 1}),
        ('{"a": 1, "b', {"a": 1}),
        ('{"a": 1', None),
        ('{"a": "x"', {"a": "x"}),
    ],
)
def test_parse_object_repairs_unambiguous_faults(given_text, expected):
    if expected is None:
        with pytest.raises(Unreadable, match="cut off"):
            parse_object(given_text)
    else:
        assert parsed(given_text) == expected


@pytest.mark.parametrize(
    ("given_text", "reason"),
    [
        ("", "empty"),
        (" \n", "empty"),
        ("none", "no JSON object"),
        ("null", "no JSON object"),
        ("<think>hm</think>", "empty"),
        ('<think>perhaps {"a": 1}', "thinking"),
        ("[]", "not a list"),
        ('```json\n[{"a": 1}, {"a": 2}]\n```', "not a list"),
        ('[{"a": 1}, {"a": 2},]', "not a list"),
        ('"text"', "not 'text'"),
        ('{"a": 1}\n{"a": 2}', "more than one"),
        ('{"a": 1} and {"b": 2}', "more than one"),
        ('{"a": "x" "b"}', "',' or '}' was expected"),
        ('{"a": "he said "hi" to me"}', "',' or '}' was expected"),
        ('{"facts": [oops, {"facts": []}]}', "fault at 'oops"),
        ('{"a": NaN}', "a value was expected"),
        ('{"a": 1e999}', "too large"),
        ('{"a": ' + "9" * 5000 + "}", "too large"),
        ('{"a": 01}', "a value was expected"),
        ('{"a": [1,,2]}', "a value was expected"),
        ('{"a": [', "cut off"),
        ('{"a": [{"b": "half', "cut off"),
        ('{"a": {', "cut off"),
        ('{"a": "half', "cut off"),
        ("{", "cut off"),
        ('{"a": ' * 1000, "levels deep"),
        ('{"a": ' + "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1) + "}", "levels deep"),
    ],
)
def test_parse_object_explains_unreadable_text(given_text, reason):
    with pytest.raises(Unreadable, match=reason):
        parse_object(given_text)


@pytest.mark.slow
@pytest.mark.parametrize(
    "hostile", ["{" * 1_000_000, "'" * 1_000_000, '{"a": ' * 100_000, "{'" * 200_000, "/*" * 500_000]
)
def test_parse_object_is_fast_on_hostile_text(hostile):
    with pytest.raises(Unreadable):
        parse_object(hostile)


def test_read_object_validates_schema_and_reports_truncation():
    assert read_object('{"facts": ["a"]}', FACTS) == ({"facts": ["a"]}, False)
    with pytest.raises(Unreadable, match="'facts', which is missing"):
        read_object("{}", FACTS)
    with pytest.raises(Unreadable, match="'facts', which is missing; the answer was cut off"):
        read_object('{"mood": "good", "facts": ["ha', FACTS)
    with pytest.raises(Unreadable, match=r"the answer\.facts must be an array, not a string"):
        read_object('{"facts": "a"}', FACTS)


def test_read_object_picks_the_object_that_fits_the_schema():
    schema = '{"type": "object", "properties": {"facts": {}}}'
    assert read_object(f'{{"facts": ["a"]}}\n\nIt is valid against {schema}.', FACTS).data == {"facts": ["a"]}
    with pytest.raises(Unreadable, match="more than one"):
        read_object('{"facts": ["a"]} or {"facts": ["b"]}', FACTS)
    with pytest.raises(Unreadable, match="'facts', which is missing"):
        read_object(f"{schema} and {schema} and {{'a': 1}}", FACTS)


def test_read_object_rejects_echoed_example():
    with pytest.raises(Unreadable, match="nothing filled in"):
        read_object('{"facts": ["…"]}', FACTS)


def test_clean_text_removes_characters_databases_reject():
    assert clean_text("plain é 🍕") == "plain é 🍕"
    assert clean_text("\ud83c\udf55 \ud800 \x00") == "🍕 \ufffd "
