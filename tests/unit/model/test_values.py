"""Names, ids, times, texts, values and tokens: decided without a store."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limpet import FilePart, ImagePart, Message, TextPart, ToolCall
from limpet.errors import InvalidInput, InvalidKey, LimpetError
from limpet.model.message import part_from_json, part_to_json
from limpet.model.record import RecordType, fingerprint
from limpet.model.scope import (
    Level,
    Owner,
    Partition,
    Scope,
    SessionKey,
    default_user_id,
    resolve_owner,
)
from limpet.model.tokens import estimate_tokens
from limpet.model.values import (
    check_id,
    check_json,
    check_metadata,
    check_name,
    check_number,
    check_record_key,
    check_strings,
    check_text,
    check_time,
    from_micros,
    short_repr,
    to_micros,
    uuid7,
)

anything = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))
names = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1, max_size=40).filter(
    lambda name: name == name.strip()
)
tricky_names = st.lists(st.sampled_from([":", "%", "%3A", "%25", "a", "3A", "25", "é"]), min_size=1, max_size=6).map(
    "".join
)
parts = st.one_of(names, tricky_names)
keys = st.tuples(parts, parts, st.none() | parts)
moments = st.datetimes(
    min_value=datetime(1, 1, 2),
    max_value=datetime(9999, 12, 30),
    timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=45)), timezone(-timedelta(hours=11))]),
)

# Ids


@given(moments, st.binary(min_size=10, max_size=10))
def test_uuid7_is_valid_version_7(now: datetime, noise: bytes) -> None:
    made = uuid7(now, noise)
    assert UUID(made).version == 7
    assert UUID(made).variant == "specified in RFC 4122"
    assert str(UUID(made)) == made == check_id(made, "id") == check_id(made.upper(), "id")
    if now >= datetime(1970, 1, 1, tzinfo=UTC):
        assert UUID(made).int >> 80 == to_micros(now) // 1000


@given(moments, moments, st.binary(min_size=10, max_size=10), st.binary(min_size=10, max_size=10))
def test_uuid7_sorts_by_time(one: datetime, two: datetime, first: bytes, second: bytes) -> None:
    early, late = sorted([one, two])
    if early >= datetime(1970, 1, 1, tzinfo=UTC) and late - early >= timedelta(milliseconds=1):
        assert uuid7(early, first) < uuid7(late, second)


@given(st.binary(min_size=10, max_size=10), st.binary(min_size=10, max_size=10))
def test_uuid7_uses_all_74_random_bits(one: bytes, two: bytes) -> None:
    now = datetime(2026, 1, 2, tzinfo=UTC)
    kept = (1 << 74) - 1
    same = int.from_bytes(one, "big") & kept == int.from_bytes(two, "big") & kept
    assert (uuid7(now, one) == uuid7(now, two)) == same


def test_uuid7_known_value() -> None:
    made = uuid7(datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC), bytes(range(10)))
    assert made == "019b7ca9-8f2e-7004-8203-040506070809"


@pytest.mark.parametrize(
    "bad",
    [
        *("", "x", "019b7ca9-8f2e-7004-8203-04050607080", "019b7ca98f2e70048203040506070809", "../etc/passwd", None, 5),
        *("{019b7ca9-8f2e-7004-8203-040506070809}", "019b7ca9-8f2e-7004-8203-040506070809\n"),
        *("019b7ca9-8f2e-7004-8203-04050607080g", "０19b7ca9-8f2e-7004-8203-040506070809"),
        b"019b7ca9-8f2e-7004-8203-040506070809",
    ],
)
def test_check_id_rejects_invalid_ids(bad: Any) -> None:
    with pytest.raises(InvalidKey, match="the id"):
        check_id(bad, "the id")


# Keys


@given(keys)
def test_session_key_round_trips_through_text(key: tuple[str, str, str | None]) -> None:
    made = SessionKey.of(*key)
    assert (made.channel, made.chat, made.thread) == key
    assert SessionKey.parse(str(made)) == made


@given(keys, keys)
def test_session_key_text_is_unique(one: tuple[str, str, str | None], two: tuple[str, str, str | None]) -> None:
    assert (str(SessionKey.of(*one)) == str(SessionKey.of(*two))) == (one == two)


@given(keys, keys)
def test_default_user_id_is_unique_per_chat(one: tuple[str, str, str | None], two: tuple[str, str, str | None]) -> None:
    if one[:2] != two[:2] and not {"whatsapp", "tui"} & {one[0], two[0]}:
        assert default_user_id(SessionKey.of(*one)) != default_user_id(SessionKey.of(*two))


@given(anything)
def test_session_key_parse_accepts_or_rejects_any_text(text: str) -> None:
    try:
        made = SessionKey.parse(text)
    except LimpetError:
        return
    assert SessionKey.parse(str(made)) == made


def test_default_user_id_names_channel_and_chat() -> None:
    keys = {
        SessionKey("whatsapp", "491511"): "whatsapp:491511@s.whatsapp.net",
        SessionKey("whatsapp", "491511@s.whatsapp.net"): "whatsapp:491511@s.whatsapp.net",
        SessionKey("tui", "ann"): "tui:ann",
        SessionKey("a:b", "c:d"): "a%3Ab:c:d",
    }
    assert {key: default_user_id(key) for key in keys} == keys


@given(st.from_regex(r"[a-z][a-z0-9_]{0,63}", fullmatch=True))
def test_check_record_key_accepts_unreserved_names(key: str) -> None:
    if key.startswith(("system_", "internal_")):
        with pytest.raises(InvalidKey, match="reserved"):
            check_record_key(key)
    else:
        assert check_record_key(key) == key


@given(anything)
def test_check_record_key_rejects_invalid_names(text: str) -> None:
    import re

    if not re.fullmatch(r"[a-z][a-z0-9_]{0,63}", text):
        with pytest.raises(InvalidKey):
            check_record_key(text)


# Text


@given(st.text(st.characters(), max_size=50))
def test_check_text_rejects_nul_and_surrogates(text: str) -> None:
    storable = "\x00" not in text and not any(0xD800 <= ord(letter) <= 0xDFFF for letter in text)
    if storable:
        assert check_text(text, "it") is text
    else:
        with pytest.raises(InvalidInput, match="it contains"):
            check_text(text, "it")


@pytest.mark.parametrize(("text", "size"), [("a" * 10, 10), ("é" * 5, 10), ("日" * 3, 9), ("👍" * 2, 8)])
def test_check_text_limit_counts_bytes(text: str, size: int) -> None:
    assert check_text(text, "it", max_bytes=size) == text
    with pytest.raises(InvalidInput, match=f"{size} bytes long; the limit is {size - 1}"):
        check_text(text, "it", max_bytes=size - 1)


@given(names)
def test_check_name_accepts_valid_names(name: str) -> None:
    if len(name.encode()) <= 256:
        assert check_name(name, "it") == name


@pytest.mark.parametrize(
    "bad",
    [
        "",
        " ",
        "a ",
        "\u3000a",
        "a\tb",
        "a\x7f",
        "a\x85b",
        "a\u2028",
        "a\u2029b",
        "\ud800",
        "x" * 257,
        None,
        5,
        b"a",
        ["a"],
    ],
)
def test_check_name_rejects_invalid_names(bad: Any) -> None:
    with pytest.raises(InvalidKey, match="it "):
        check_name(bad, "it")


def test_short_repr_never_fails() -> None:
    class Silent:
        def __repr__(self) -> str:
            raise RuntimeError

    assert short_repr("x") == "'x'"
    assert len(short_repr("x" * 10_000)) < 200
    assert "int" in short_repr(10**5000)
    assert "Silent" in short_repr(Silent())
    assert "\ud800" not in short_repr("\ud800")


# Times


@given(moments)
def test_check_time_round_trips_to_the_microsecond(moment: datetime) -> None:
    assert from_micros(to_micros(check_time(moment, "it"))) == moment
    assert check_time(moment, "it").utcoffset() == timedelta(0)


@given(moments, moments)
def test_to_micros_preserves_order(one: datetime, two: datetime) -> None:
    assert (one < two) == (to_micros(one) < to_micros(two))


EARLY, LATE = datetime.min, datetime.max  # noqa: DTZ901  # without a zone on purpose


class Odd(datetime):
    """A datetime whose zone does not know its offset."""

    def utcoffset(self) -> timedelta | None:
        return None


@pytest.mark.parametrize(
    "bad",
    [
        datetime(2026, 1, 1),
        EARLY,
        LATE,
        datetime.min.replace(tzinfo=timezone(timedelta(hours=1))),
        datetime.max.replace(tzinfo=timezone(-timedelta(hours=1))),
        datetime.max.replace(tzinfo=timezone(-timedelta(hours=23, minutes=59))),
        Odd(2026, 1, 1, tzinfo=UTC),
        datetime(2026, 1, 1, tzinfo=UTC).date(),
        "2026-01-01T00:00:00Z",
        1767225600,
        None,
    ],
)
def test_check_time_rejects_naive_and_out_of_range_times(bad: Any) -> None:
    with pytest.raises(InvalidInput, match="it "):
        check_time(bad, "it")


def test_check_time_accepts_first_and_last_moment() -> None:
    for moment in (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)):
        assert from_micros(to_micros(check_time(moment, "it"))) == moment
    assert check_time(datetime.min.replace(tzinfo=timezone(-timedelta(hours=5))), "it").hour == 5


# Values


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | anything,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(anything, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(anything, json_values, max_size=5))
def test_check_metadata_round_trips(value: dict[str, Any]) -> None:
    assert check_metadata(value) == value


@given(json_values)
def test_check_json_round_trips(value: Any) -> None:
    import json

    assert json.loads(check_json(value, "it")) == value


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.slow
def test_check_json_limits_nesting_depth() -> None:
    assert check_json(nested(100), "it") == "[" * 100 + "1" + "]" * 100
    for depth in (101, 500, 900, 990, 5000, 200_000):
        with pytest.raises(InvalidInput):
            check_json(nested(depth), "it")
    wide = [{"a": "[" * 500}] * 300
    assert check_json(wide, "it", max_bytes=10**9)
    assert check_json({"a": '\\"' * 500 + "[{" * 500}, "it")
    with pytest.raises(InvalidInput, match="nested"):
        check_json([wide, nested(120)], "it", max_bytes=10**9)


@pytest.mark.parametrize("bad", [{"a": "\x00"}, {"\x00": 1}, ["\\\x00"], "\x00", {"a": ["b\\\\\x00"]}])
def test_check_json_rejects_nul_anywhere(bad: Any) -> None:
    with pytest.raises(InvalidInput, match="NUL"):
        check_json(bad, "it")


@pytest.mark.parametrize("good", ["\\u0000", "\\\\u0000", "u0000", "\\\\\\u0000", "[\\u0000-\\u001f]"])
def test_check_metadata_keeps_text_that_resembles_nul_escape(good: str) -> None:
    assert check_metadata({good: good}) == {good: good}


@pytest.mark.parametrize(
    "bad",
    [
        {1: 2},
        {"a": object()},
        {"a": {1, 2}},
        {"a": float("nan")},
        {"a": float("-inf")},
        {"a": "\udfff"},
        {"a": b""},
        5,
        "x",
    ],
)
def test_check_metadata_rejects_invalid_values(bad: Any) -> None:
    with pytest.raises(InvalidInput):
        check_metadata(bad)


def test_check_metadata_rejects_circular_value() -> None:
    loop: dict[str, Any] = {}
    loop["self"] = loop
    with pytest.raises(InvalidInput):
        check_metadata(loop)


@given(st.dictionaries(anything, anything, max_size=5))
def test_check_strings_rejects_empty_key(value: dict[str, str]) -> None:
    if "" in value:
        with pytest.raises(InvalidInput, match="empty"):
            check_strings(value)
    else:
        assert check_strings(value) == value


def test_check_number_rejects_invalid_values() -> None:
    wrong: list[Any] = [-1, 1.0, True, False, "1", None, 2**62, 10**5000, -(10**5000)]
    for bad in wrong:
        with pytest.raises(InvalidInput, match="it "):
            check_number(bad, "it")
    assert check_number(2**62 - 1, "it") == 2**62 - 1


# Messages


message_parts = st.one_of(
    st.builds(TextPart, anything),
    st.builds(ImagePart, anything.filter(bool), st.none() | anything, anything),
    st.builds(FilePart, anything.filter(bool), st.none() | anything, anything),
)


@given(message_parts)
def test_message_part_round_trips_through_json(part: Any) -> None:
    assert part_from_json(part_to_json(part)) == part


@given(st.lists(message_parts, max_size=4), st.lists(st.builds(ToolCall, anything, anything.filter(bool)), max_size=3))
def test_message_accepts_any_storable_parts_and_calls(given_parts: list[Any], calls: list[ToolCall]) -> None:
    made = Message.new("assistant", given_parts, tool_calls=calls)
    assert made.content == tuple(given_parts)
    assert list(made.tool_calls) == calls
    assert made.tokens == estimate_tokens(made.searchable)


def test_message_searchable_text_includes_tool_calls() -> None:
    made = Message.new("assistant", "text", tool_calls=[ToolCall("1", "read_file", {"path": "é.txt"})])
    assert "text" in made.searchable
    assert "read_file" in made.searchable
    assert "é.txt" in made.searchable
    assert made.text == "text"


# Records


@pytest.mark.parametrize("other", ["alice's dog is biscuit", "ALICE'S  DOG\nIS BISCUIT ", "Ａlice's dog is Biscuit"])
def test_fingerprint_ignores_case_width_and_spacing(other: str) -> None:
    made = fingerprint(RecordType.FACT, "Alice's dog is Biscuit")
    assert made == fingerprint(RecordType.FACT, other) == "32711823dd2932829af0a35abc13320c"
    assert made != fingerprint(RecordType.NOTE, other)
    assert made != fingerprint(RecordType.FACT, "Alice's dog is Rex")


# Scopes


def test_resolve_owner_picks_narrowest_named_level() -> None:
    tenant = Scope("t")
    assert resolve_owner(Scope("t", user="u")) == Owner(Scope("t", user="u"), Level.USER)
    assert resolve_owner(Scope("t", agent="a")).level is Level.AGENT
    assert resolve_owner(tenant, everyone=True) == Owner(tenant, Level.GLOBAL)
    with pytest.raises(InvalidInput, match="whose"):
        resolve_owner(tenant)
    with pytest.raises(InvalidInput):
        resolve_owner(Scope("t", user="u"), everyone=True)


def test_partitions_of_different_owners_differ() -> None:
    homes = [
        Owner(Scope("t", user="x"), Level.USER),
        Owner(Scope("t", agent="x"), Level.AGENT),
        Owner(Scope("t"), Level.GLOBAL),
        Owner(Scope("u", user="x"), Level.USER),
    ]
    assert len({home.space for home in homes}) == 4
    session = "019b7ca9-8f2e-7004-8203-040506070809"
    assert Owner(Scope("t", user="x", session=session), Level.SESSION).space == Partition("t", Level.USER, "x")


# Tokens

# What tokenizers in use spend on these texts, roughly; an estimate a third off would break a budget.
COSTS = {
    "The quick brown fox jumps over the lazy dog.": 10,
    "I moved to Lisbon last year, and my dog is called Biscuit.": 14,
    "def estimate(text: str) -> int:\n    return len(text) // 4\n": 18,
    '{"name": "read_file", "arguments": {"path": "src/main.py"}}': 18,
    "我最喜欢的颜色是蓝色": 10,
    "昨日、東京で寿司を食べました。": 13,
    "내 강아지의 이름은 비스킷입니다": 14,
    "👍👍👍": 6,
    "1234567890": 4,
    "https://example.com/a/b?c=d&e=f": 14,
}


@pytest.mark.parametrize("text", COSTS)
def test_estimate_tokens_is_close_to_tokenizers(text: str) -> None:
    assert COSTS[text] * 0.6 <= estimate_tokens(text) <= COSTS[text] * 1.7


@given(anything)
def test_estimate_tokens_is_bounded_by_text_length(text: str) -> None:
    assert 0 <= estimate_tokens(text) <= 2 * len(text) + 1
    assert (estimate_tokens(text) == 0) == (text == "")


@given(anything, anything)
def test_estimate_tokens_is_nearly_additive(one: str, two: str) -> None:
    assert estimate_tokens(f"{one} {two}") <= estimate_tokens(one) + estimate_tokens(two) + 2
    assert estimate_tokens(f"{one} {two}") >= max(estimate_tokens(one), estimate_tokens(two)) - 1
