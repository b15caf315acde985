"""What an episode taught becomes a lasting record: by hand, or because it is sure enough."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Literal

from limpet.config import ChunkSettings, LearningSettings
from limpet.errors import RecordNotFound, SessionNotFound, WrongState
from limpet.knowledge import remember as memory
from limpet.knowledge.remember import enqueue_maintenance
from limpet.knowledge.repository import Records
from limpet.model.dataclass import dataclass, replace
from limpet.model.record import CLAIM_TYPES, Layer, Origin, Record, RecordType
from limpet.model.scope import Level, Owner, Partition, Scope
from limpet.model.values import Clock, IdFactory, with_bucket
from limpet.search.chunk_repository import Chunks
from limpet.search.embed import ChunkEmbedder
from limpet.sessions.repository import Sessions
from limpet.store.store import Store
from limpet.store.tx import Tx

PromotionScope = Literal["user", "global"]

_PROCEDURAL = (RecordType.FAILURE, RecordType.FIX, RecordType.COMMAND_RESULT)
LAYERS = dict.fromkeys(CLAIM_TYPES, Layer.SEMANTIC) | dict.fromkeys(_PROCEDURAL, Layer.PROCEDURAL)
_DERIVED_ORIGINS = (Origin.TURN, Origin.CONDENSED, Origin.PROMOTED)  # what happened, or was made of others


def choose_layer(type: RecordType, confidence: float, enough: float) -> Layer:
    """Where what was learned belongs: in the episode, until it is sure enough to be lasting knowledge."""
    return LAYERS.get(type, Layer.SEMANTIC) if confidence >= enough else Layer.EPISODIC


def is_due(record: Record, now: datetime, confidence: float) -> bool:
    """Whether a record is promoted by itself: sure enough, true now, and of a type that holds beyond its episode."""
    return (
        record.layer is Layer.EPISODIC
        and record.confidence >= confidence
        and record.type in LAYERS
        and record.origin not in _DERIVED_ORIGINS
        and record.is_current_at(now)
    )


def is_outdated(record: Record, about: Iterable[Record]) -> bool:
    """Whether something newer is known about the same attribute: an old episode must not bring the old value back."""
    if record.attribute is None or record.valid_from is None:
        return False
    return any(
        other.id != record.id
        and other.home == record.home
        and other.layer is not Layer.EPISODIC
        and (other.value, other.polarity) != (record.value, record.polarity)
        and other.valid_from is not None
        and other.valid_from > record.valid_from
        for other in about
    )


def choose_owner(record: Record, scope: PromotionScope | None) -> Owner:
    """The record's own place, unless a wider one is named. Nothing becomes visible to others by itself."""
    if scope is None or scope == record.level:
        return record.home
    if scope == "global":
        return Owner(Scope(record.home.scope.tenant), Level.GLOBAL)
    if record.home.level is Level.SESSION:
        return Owner(Scope(record.home.scope.tenant, user=record.user), Level.USER)
    raise WrongState(f"scope='user' is for a session's record; record {record.id} belongs to its {record.level}")


def build_promotion(record: Record, home: Owner, id: str, now: datetime) -> Record:
    """The copy, linked to its origin. It keeps the source, and since when it is true."""
    return replace(
        record,
        id=id,
        home=home,
        layer=LAYERS.get(record.type, Layer.SEMANTIC),
        key=None,  # belongs to the origin
        origin=Origin.PROMOTED,
        created_at=now,
        updated_at=now,
        last_used_at=None,
        uses=0,
        superseded_by=None,
        archived_at=None,
        version=1,
        inputs=(record.id,),
    )


def find_equal(copy: Record, others: Iterable[Record], now: datetime) -> Record | None:
    """A record of the same place and layer that says the same and is true now."""
    return next(
        (
            other
            for other in others
            if other.fingerprint == copy.fingerprint
            and other.home == copy.home
            and other.layer is copy.layer
            and other.polarity == copy.polarity
            and other.is_current_at(now)
        ),
        None,
    )


def merge_into(target: Record, record: Record) -> Record:
    """The record that says so already, with what the episode adds. Its own words stay."""
    return replace(
        target,
        tags=memory.merge_labels((target.tags, record.tags)),
        references=memory.merge_labels((target.references, record.references)),
        confidence=max(target.confidence, record.confidence),
        said=target.said + record.said,
        inputs=tuple(dict.fromkeys((*target.inputs, record.id))),
    )


@dataclass(frozen=True, slots=True)
class Promoter:
    """Copies what episodes taught into lasting records, by hand or when they are sure enough."""

    store: Store
    settings: LearningSettings
    chunks: ChunkSettings
    embedder: ChunkEmbedder
    clock: Clock
    new_id: IdFactory

    def promote(self, scope: Scope, record_id: str, wider: PromotionScope | None) -> Record:
        """By hand, however sure the record is. A second time gives the record of the first."""
        now = self.clock()
        found = self.store.read(lambda tx: Records(tx).get(scope, record_id))
        if found is None:
            raise RecordNotFound(f"no record {record_id} here; nothing was promoted")
        home = choose_owner(found, wider)
        new = with_bucket(self.new_id(), home.space.bucket)
        cut = self._build_chunker(build_promotion(found, home, new, now))

        def write(tx: Tx) -> Record:
            Chunks(tx).lock(home.space)
            record = Records(tx).lock(scope, record_id)
            if record is None:
                raise RecordNotFound(f"no record {record_id} here; nothing was promoted")
            if (known := _find_promotion(tx, record, home)) is not None:
                return known
            _check_promotable(record, home, now)
            enqueue_maintenance(tx, home.space, self.settings, now)
            return _promote(tx, record, home, new, cut, now)

        done = self.store.write(write)
        self.embedder.request_missing(cut.build_drafts(done))
        return done

    def promote_due(self, space: Partition, now: datetime, between: Callable[[], None] = lambda: None) -> int:
        """Everything in the space that is sure enough, each at its own level. Answers how many there were."""
        limits = self.settings
        if not limits.promote:
            return 0
        found = self.store.read(lambda tx: Records(tx).find_current(space, now))
        due = [record for record in found if is_due(record, now, limits.promote_confidence)]
        count = 0
        for record in due:
            between()
            copy = build_promotion(record, record.home, with_bucket(self.new_id(), space.bucket), now)
            count += self._promote_if_due(record.id, copy, now)
        return count

    def _promote_if_due(self, id: str, copy: Record, now: datetime) -> bool:
        cut, sure = self._build_chunker(copy), self.settings.promote_confidence

        space = copy.home.space

        def write(tx: Tx) -> bool:
            Chunks(tx).lock(space)
            record = Records(tx).lock(Scope(copy.home.scope.tenant), id)
            if record is None or not is_due(record, now, sure) or _find_promotion(tx, record, record.home):
                return False
            if is_outdated(record, Records(tx).find_by_attribute(space, record.subject or "", record.attribute or "")):
                return False
            try:
                _promote(tx, record, record.home, copy.id, cut, now)
            except SessionNotFound:
                return False
            return True

        done = self.store.write(write)
        self.embedder.request_missing(cut.build_drafts(copy) if done else ())
        return done

    def _build_chunker(self, copy: Record) -> memory.RecordChunker:
        return memory.RecordChunker(self.chunks).with_vectors(self.embedder, copy)


def _promote(tx: Tx, record: Record, home: Owner, id: str, cut: memory.RecordChunker, now: datetime) -> Record:
    """The copy, or the record that says so already. A learned origin has done its work and is archived."""
    if home.scope.session is not None:
        Sessions(tx).lock(home.scope)
    copy = build_promotion(record, home, id, now)
    equal = find_equal(copy, Records(tx).find_by_fingerprint(home.space, copy.fingerprint), now)
    if equal is None:
        done = memory.insert(tx, copy, cut)
    else:
        done = memory.rewrite(tx, equal, merge_into(equal, record), cut, now)
    if home == record.home and record.origin is Origin.EXTRACTED and not record.pinned and record.archived_at is None:
        memory.rewrite(tx, record, replace(record, archived_at=now), cut, now)
    return done


def _find_promotion(tx: Tx, record: Record, home: Owner) -> Record | None:
    """Also where that one has been corrected since: an old episode must not bring back what it said."""
    made = Records(tx).find_derived_from(home.space, [record.id])
    fitting = (other for other in made if other.home == home and other.layer is not Layer.EPISODIC)
    return next((other for other in fitting if other.origin is not Origin.CONDENSED), None)


def _check_promotable(record: Record, home: Owner, now: datetime) -> None:
    if record.layer not in (Layer.EPISODIC, Layer.WORKING) and home == record.home:
        raise WrongState(f"record {record.id} is {record.layer} already; name a scope to let more people see it")
    if record.superseded_by is not None or not record.is_valid_at(now):
        raise WrongState(f"record {record.id} is not true now; promote the one that replaced it")
