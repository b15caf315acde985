"""A short text about a user, made of what is known, every line with the records it was made from.

It is made on demand or in the background, and kept until what it was made from changes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from limpet.config import ChunkSettings, LearningSettings
from limpet.errors import StoreReadOnly
from limpet.knowledge import llm_digest
from limpet.knowledge import remember as memory
from limpet.knowledge.prominence import SOURCES
from limpet.knowledge.repository import Records
from limpet.model.dataclass import dataclass, replace
from limpet.model.record import Layer, Origin, Profile, ProfileLine, Record, RecordType, fingerprint
from limpet.model.scope import Level, Owner, Partition, Scope
from limpet.model.tokens import TokenCounter, shorten_text
from limpet.model.values import PROFILE, Clock, IdFactory, is_internal, with_bucket
from limpet.providers.llm import Llm
from limpet.search.chunk_repository import Chunks
from limpet.store.store import Store
from limpet.store.tx import Tx

_LONGEST = 240  # characters of a line
_ABOUT = (RecordType.FACT, RecordType.PREFERENCE, RecordType.CONSTRAINT, RecordType.DECISION)
_MOST = 200  # records a profile is made from: the surest and most said
# In the order they are printed, each with its attributes.
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
        and record.is_current_at(now)
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
        metadata={"digest": compute_digest(inputs), "shown": shown, SOURCES: sources},
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
    sources = json.loads(kept.metadata.get(SOURCES, "[]"))
    texts = kept.content.split("\n") if kept.content else []
    lines = tuple(ProfileLine(text, tuple(ids)) for text, ids in zip(texts, sources, strict=True))
    return Profile(kept.content, kept.inputs, kept.updated_at, lines)


@dataclass(frozen=True, slots=True)
class Profiler:
    """Makes the profile of a user, and keeps it until what it was made from changes."""

    store: Store
    settings: LearningSettings
    chunks: ChunkSettings
    llm: Llm | None
    llm_timeout: float
    count: TokenCounter
    clock: Clock
    new_id: IdFactory

    def load_profile(self, scope: Scope) -> Profile:
        """Up to date: made again if something it is made from has changed."""
        if not self.settings.profile:
            return Profile()
        home, now = Owner(scope, Level.USER), self.clock()
        inputs, kept = self.store.read(lambda tx: _read_inputs(tx, home, now))
        if kept is not None and is_up_to_date(kept, inputs):
            return to_profile(kept)
        id_ = with_bucket(self.new_id(), home.space.bucket)
        record = to_record(home, self.compose_lines(inputs), inputs, id_, now)
        try:
            kept = self.store.write(lambda tx: self._save_profile(tx, record, inputs, now))
        except StoreReadOnly:
            kept = None
        return to_profile(kept or record) if inputs else Profile()

    def compose_lines(self, inputs: Sequence[Record]) -> list[ProfileLine]:
        """As a model words it, every sentence with its sources; by rules without one, or where it names none."""
        most, count = self.settings.profile_tokens, self.count
        told = llm_digest.try_digest(self.llm, "profile", [record.content for record in inputs], most, self.llm_timeout)
        found = [ProfileLine(text, tuple(inputs[at].id for at in sources)) for text, sources in told]
        return fit_lines(found, most, count) or build_lines(inputs, most, count)

    def _save_profile(self, tx: Tx, record: Record, inputs: Sequence[Record], now: datetime) -> Record | None:
        """Unless something changed while it was made: then it is not what is known now, and is not kept."""
        Chunks(tx).lock(record.home.space)
        current, old = _read_inputs(tx, record.home, now)
        if compute_digest(current) != compute_digest(inputs):
            return None
        if old is not None:  # it is not kept as history: it may say what was forgotten
            Records(tx).delete(record.home.scope, old.id)
        if not record.content:
            return None
        return memory.insert(tx, replace(record, id=old.id) if old else record, memory.RecordChunker(self.chunks))

    def refresh(self, space: Partition) -> None:
        if space.level is Level.USER:
            self.load_profile(Scope(space.tenant, user=space.owner))


def _read_inputs(tx: Tx, home: Owner, now: datetime) -> tuple[list[Record], Record | None]:
    records = Records(tx).find_current(home.space, now)
    return select_inputs(records, now), Records(tx).find_by_key(home, PROFILE, lock=False)
