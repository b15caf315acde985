"""A short standing text about a user, made of what is known, every line with the records it was made from. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from limpet.model.naming import PROFILE, is_internal
from limpet.model.profile import Profile, ProfileLine
from limpet.model.record import Layer, Origin, Record, RecordType, fingerprint
from limpet.model.scope import Level, Owner
from limpet.model.shorten import shorten_text
from limpet.model.tokens import TokenCounter

_LONGEST = 240  # characters of a line
_ABOUT = (RecordType.FACT, RecordType.PREFERENCE, RecordType.CONSTRAINT, RecordType.DECISION)
_MOST = 200  # records a profile is made from: the surest and most said
# In the order they are told, each with the attributes that belong there.
_GROUPS: Mapping[str, frozenset[str]] = {
    "Who": frozenset("name nickname age birthday origin pronouns gender nationality language languages".split()),
    "Where": frozenset("home timezone location address city country".split()),
    "Work": frozenset("employer role job work occupation profession studies school project".split()),
    "People": frozenset("relationship partner family friend pet pets".split()),
    "Must": frozenset("diet allergy allergies eats drinks health".split()),
    "Likes": frozenset("likes like hobby hobbies interest interests".split()),
    "Dislikes": frozenset("dislikes dislike".split()),
    "Decided": frozenset("goal plan".split()),
    "Known": frozenset(),
}
_BY_TYPE = {RecordType.CONSTRAINT: "Must", RecordType.DECISION: "Decided", RecordType.PREFERENCE: "Likes"}
_PLACES = {name: place for place, name in enumerate(_GROUPS)}


def is_profile_input(record: Record, now: datetime) -> bool:
    """What is known of the user in every chat; what one chat knows stays there."""
    lasting = record.layer is Layer.SEMANTIC or record.origin is Origin.EXPLICIT or record.pinned
    made = record.origin in (Origin.TURN, Origin.CONDENSED)
    return (
        record.home.level is Level.USER
        and record.type in _ABOUT
        and lasting
        and not made
        and not is_internal(record.key)
        and record.archived_at is None
        and record.superseded_by is None
        and record.is_valid_at(now)
    )


def select_inputs(records: Iterable[Record], now: datetime) -> list[Record]:
    """The records a profile is made from, the most important first."""
    found = [record for record in records if is_profile_input(record, now)]
    return sorted(found, key=_weight)[:_MOST]


def _weight(record: Record) -> tuple[float, float, str]:
    """Which of them a short text has room for does not follow use: it would change whenever it is read."""
    stated = record.pinned or record.origin is Origin.EXPLICIT
    must = record.type is RecordType.CONSTRAINT
    weight = record.confidence + record.salience + 0.1 * min(record.said, 5) + 0.5 * stated + 0.5 * must
    return -round(weight, 6), -(record.created_at.timestamp() if record.created_at else 0.0), record.id


def compute_digest(inputs: Iterable[Record]) -> str:
    """Changes when one of them is changed, gone, or new."""
    said = sorted((record.id, record.version) for record in inputs)
    return hashlib.blake2b(json.dumps(said).encode(), digest_size=16).hexdigest()


def build_lines(inputs: Sequence[Record], most_tokens: int, count: TokenCounter) -> list[ProfileLine]:
    """A line for each record, grouped; the most important ones that fit."""
    chosen: list[tuple[int, ProfileLine]] = []
    left = most_tokens
    for record in inputs:
        group = choose_group(record)
        text = f"{group}: {shorten_text(' '.join(record.content.split()), _LONGEST)}"
        cost = count(f"{text}\n")
        if cost <= left:
            left -= cost
            chosen.append((_PLACES[group], ProfileLine(text, (record.id,))))
    return [line for _, line in sorted(chosen, key=lambda item: item[0])]


def choose_group(record: Record) -> str:
    attribute = (record.attribute or "").partition(":")[0].replace("_", " ").split(" ")[-1].casefold()
    for name, attributes in _GROUPS.items():
        if attribute in attributes:
            return _negate_group(name, record) if not record.polarity else name
    if record.subject is not None and record.subject.startswith("user/"):
        return "People"
    group = _BY_TYPE.get(record.type, "Known")
    return _negate_group(group, record) if not record.polarity else group


def _negate_group(group: str, record: Record) -> str:
    """Who is not allergic must nothing, nor who may deploy on Fridays now; what is not eaten stays a must."""
    if group == "Must" and record.attribute not in {"eats", "drinks"}:
        return "Known"
    return "Dislikes" if group == "Likes" else group


def fit_lines(lines: Iterable[ProfileLine], most_tokens: int, count: TokenCounter) -> list[ProfileLine]:
    """The first lines that fit."""
    found, left = [], most_tokens
    for line in lines:
        cost = count(f"{line.text}\n")
        if cost > left:
            break
        left -= cost
        found.append(line)
    return found


def to_record(home: Owner, lines: Sequence[ProfileLine], inputs: Sequence[Record], id: str, now: datetime) -> Record:
    """How a profile is kept: under a key of the engine's own, linked to what it was made from."""
    text = "\n".join(line.text for line in lines)
    sources = json.dumps([line.sources for line in lines])
    told = tuple(dict.fromkeys(source for line in lines for source in line.sources))
    shown = compute_digest(record for record in inputs if record.id in told)
    return Record(
        id=id,
        home=home,
        layer=Layer.SEMANTIC,
        type=RecordType.NOTE,
        content=text,
        key=PROFILE,
        metadata={"digest": compute_digest(inputs), "shown": shown, "sources": sources},
        fingerprint=fingerprint(RecordType.NOTE, text),
        origin=Origin.CONDENSED,
        created_at=now,
        updated_at=now,
        valid_from=now,
        inputs=told,
    )


def is_up_to_date(profile: Record, inputs: Iterable[Record]) -> bool:
    return profile.metadata.get("digest") == compute_digest(inputs)


def is_accurate(profile: Record, records: Iterable[Record], now: datetime) -> bool:
    """Whether all that it was made from still holds and says what it said; ``records`` are those of its inputs.

    It may lack something that is new. It never tells what was changed or forgotten.
    """
    return profile.metadata.get("shown") == compute_digest(
        record for record in records if is_profile_input(record, now)
    )


def to_profile(kept: Record) -> Profile:
    sources = json.loads(kept.metadata.get("sources", "[]"))
    texts = kept.content.split("\n") if kept.content else []
    lines = tuple(ProfileLine(text, tuple(ids)) for text, ids in zip(texts, sources, strict=True))
    return Profile(kept.content, kept.inputs, kept.updated_at, lines)
