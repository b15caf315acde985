"""The knowledge graph: names, their mentions, the relations between them, and communities of names."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, count
from typing import Any, NamedTuple

from limpet.model.dataclass import dataclass
from limpet.model.graph import EntityKind, GraphDraft, GraphSource, Link, Node, NodeMention, RelationKind, first_word
from limpet.model.scope import Partition, Scope
from limpet.model.values import from_micros, moment, split_pages, to_micros
from limpet.search.chunk_repository import Chunks
from limpet.store.encryption import RowLayout
from limpet.store.tables import ENTITIES, RELATIONS
from limpet.store.tx import CacheKind, Cipher, Params, Repository, Row, partition_key

_NAMES_AT_ONCE = 500
_NODE = RowLayout(ENTITIES, "id normal name")
_NORMAL = RowLayout(ENTITIES, "normal id")
_RELATION = RowLayout(RELATIONS, "subject_id predicate object_id value kind polarity sentence")

_ROUNDS = 10
_CROWD = 12  # from this many names in one place on, they are together by chance, as in a list
_FEW = 10
_HUB = 0.2  # share of the places; a name that occurs everywhere belongs to no community

_DROP_QUERIES = {
    "session": ("mentions.of_session", "relations.delete_session", "mentions.delete_session"),
    "messages": ("mentions.of_messages", "relations.delete_messages", "mentions.delete_messages"),
    "record": ("mentions.of_record", "relations.delete_record", "mentions.delete_record"),
}


class MentionPlace(NamedTuple):
    """Where a name occurs: in a message, or in a record's chunk."""

    node: int
    session: str | None
    sequence: int | None
    ordinal: int | None


@dataclass(frozen=True, slots=True)
class Communities:
    """``of`` maps a name to its community; ``words`` and ``places`` map words of names and places to communities."""

    stamp: tuple[int, ...]
    of: Mapping[int, int]
    words: Mapping[str, Mapping[int, int]]
    places: Mapping[int, Sequence[MentionPlace]]

    @property
    def nbytes(self) -> int:
        return 200 * sum(map(len, self.places.values())) + 150 * len(self.words) + 60 * len(self.of)


COMMUNITIES: CacheKind[Communities] = CacheKind("communities", 1 / 8)


class GraphTables(Repository):
    """Names, mentions and relations. Deleted together with their messages and records."""

    def _key(self, partition: Partition) -> dict[str, int]:
        """Return the key of a partition's rows. Of one that is not there, a key that nothing has."""
        at = Chunks(self._tx).find_partition_id(partition)
        return partition_key(-1 if at is None else at)

    def add(self, partition: Partition, drafts: Sequence[GraphDraft]) -> None:
        """Add names and mentions. Names with the same normal form are one row; repeated mentions are stored once."""
        drafts = [draft for draft in drafts if draft.entities]
        if not drafts:
            return
        row = Chunks(self._tx).lock_partition(partition)
        ids = count(row.next_graph_id)
        cipher = self._cipher(partition)
        names = {entity.id: entity.name for draft in drafts for entity in draft.entities}
        numbers = self._ensure_numbers(cipher, row.id, ids, names)
        for query, of_records in (("mentions.add_message", False), ("mentions.add_record", True)):
            some = [draft for draft in drafts if (draft.source.record_id is not None) is of_records]
            self._db.run_many(query, [made for draft in some for made in _mention_rows(row.id, ids, numbers, draft)])
        relations = [made for draft in drafts for made in _relation_rows(cipher, row.id, ids, numbers, draft)]
        self._db.run_many("relations.add", relations)
        row.next_graph_id = next(ids)
        self._db.run_later("graph.advance", {**row.key, "next_graph_id": row.next_graph_id})

    def _ensure_numbers(self, cipher: Cipher, at: int, ids: Iterator[int], names: dict[str, str]) -> dict[str, int]:
        """Return the numbers of the names, creating new ones."""
        normals = sorted(names)
        known = self._find_numbers(cipher, at, normals)
        fresh = {normal: next(ids) for normal in normals if normal not in known}
        rows = [
            {**partition_key(at), "id": id_, "normal": normal, "first_word": first_word(normal), "name": names[normal]}
            for normal, id_ in fresh.items()
        ]
        bound = cipher.encrypt_all_deterministic(ENTITIES["normal"], fresh)
        stored = [cipher.encrypt_params(ENTITIES, (at, normal), row) for normal, row in zip(bound, rows, strict=True)]
        self._db.run_many("entities.add", stored)
        return known | fresh

    def _find_numbers(self, cipher: Cipher, at: int, ids: Sequence[str]) -> dict[str, int]:
        stored = dict(zip(cipher.encrypt_all_deterministic(ENTITIES["normal"], ids), ids, strict=True))
        wanted = list(stored)
        known: dict[str, int] = {}
        for page in split_pages(wanted, _NAMES_AT_ONCE):
            found = self._db.all("entities.find_ids", {**partition_key(at), "names": self._db.to_array(page)})
            known.update((stored[normal], number) for normal, number in found)
        return known

    def drop_session(self, scope: Scope) -> int:
        """Delete what its messages mention, and names that nothing else mentions. Return the number of mentions."""
        return self._drop(scope.partition, "session", session=scope.session)

    def drop_messages(self, partition: Partition, session: str, sequences: Sequence[int]) -> int:
        return self._drop(partition, "messages", session=session, sequences=self._db.to_array(sequences))

    def drop_record(self, partition: Partition, record_id: str) -> int:
        return self._drop(partition, "record", record=record_id)

    def _drop(self, partition: Partition, kind: str, **source: Any) -> int:
        """Delete what one source mentions, and names that nothing else mentions."""
        key = self._key(partition)
        params = {**key, **source}
        select_names, delete_relations, delete_mentions = _DROP_QUERIES[kind]
        named = self._db.all(select_names, params)
        if not named:
            return 0
        Chunks(self._tx).lock(partition)  # so that a name that is being removed gets no new mention
        self._db.run(delete_relations, params)
        gone = self._db.run(delete_mentions, params)
        self._db.run_many("entities.prune", [{**key, "id": number} for (number,) in named])
        return gone

    def nodes(self, partition: Partition, beginning: Sequence[str] | None = None) -> list[Node]:
        """Return all names, or those whose first word is one of these."""
        key, cipher = self._key(partition), self._cipher(partition)
        where, params = "TRUE", dict[str, Any](key)
        if beginning is not None:
            words = cipher.encrypt_all_deterministic(ENTITIES["first_word"], beginning)
            where, params["words"] = "e.first_word IN :words[]", self._db.to_array(words)
        found: dict[int, tuple[str, str, dict[EntityKind, int]]] = {}
        for row in self._db.all("entities.select", params, where=where):
            number, normal, name, kind, count = cipher.decrypt_row(_NODE, (key["partition_id"], row[1]), row)
            found.setdefault(number, (normal, name, {}))[2][EntityKind(kind)] = count
        return [Node(number, *rest) for number, rest in found.items()]

    def links(self, partition: Partition, nodes: Sequence[int] | None = None) -> list[Link]:
        """Return all relations, or those of these nodes."""
        key, cipher = self._key(partition), self._cipher(partition)
        where, params = "TRUE", dict[str, Any](key)
        if nodes is not None:
            where = "(x.subject_id IN :nodes[] OR x.object_id IN :nodes[])"
            params["nodes"] = self._db.to_array(nodes)
        rows = self._db.all("relations.select", params, where=where)
        return [_build_link(cipher.decrypt_row(_RELATION, (key["partition_id"], row[0]), row)) for row in rows]

    def mentions(self, partition: Partition, nodes: Sequence[int], limit: int) -> list[NodeMention]:
        params = {**self._key(partition), "nodes": self._db.to_array(nodes), "limit": limit}
        rows = self._db.all("mentions.select", params, where="entity_id IN :nodes[]", order="LIMIT :limit")
        return [NodeMention(node, _build_source(*rest)) for node, *rest in rows]

    def places(self, partition: Partition, nodes: Sequence[int] | None = None) -> list[MentionPlace]:
        where, params = "TRUE", dict[str, Any](self._key(partition))
        if nodes is not None:
            where, params["nodes"] = "m.entity_id IN :nodes[]", self._db.to_array(nodes)
        found = (MentionPlace(*row) for row in self._db.all("mentions.places", params, where=where))
        return [place for place in found if place.session is not None or place.ordinal is not None]

    def communities(self, partition: Partition) -> Communities | None:
        """Return the communities, cached until the mentions change."""
        key, cipher = self._key(partition), self._cipher(partition)
        stamp = self._db.one("mentions.stamp", key)
        if not stamp or not stamp[0]:
            return None
        at, cache = key["partition_id"], self._tx.caches.get(COMMUNITIES)
        known = cache.get(at)
        if known is None or known.stamp != tuple(stamp):
            rows = self._db.all("entities.all", key)
            names = {row[1]: cipher.decrypt_row(_NORMAL, (at, row[0]), row)[0] for row in rows}
            known = find_communities(tuple(stamp), names, self.places(partition))
            cache.put(at, known)
        return known

    def find_unread_sessions(self, partition: Partition, cursor: str) -> list[str]:
        rows = self._db.all("graph.find_unread", {**self._key(partition), "name": cursor})
        return [id_ for (id_,) in rows]


def _mention_rows(
    partition_id: int, ids: Iterator[int], numbers: dict[str, int], draft: GraphDraft
) -> Iterable[dict[str, Any]]:
    for entity in {entity.id: entity for entity in draft.entities}.values():
        yield {
            **partition_key(partition_id),
            "id": next(ids),
            "entity_id": numbers[entity.id],
            "kind": entity.kind.value,
            **_source_params(draft.source),
        }


def _relation_rows(
    cipher: Cipher, partition_id: int, ids: Iterator[int], numbers: dict[str, int], draft: GraphDraft
) -> Iterable[Params]:
    for stated in draft.relations:
        if stated.subject not in numbers or (stated.object is not None and stated.object not in numbers):
            continue
        row = {
            **partition_key(partition_id),
            "id": next(ids),
            "subject_id": numbers[stated.subject],
            "predicate": stated.predicate,
            "object_id": None if stated.object is None else numbers[stated.object],
            "value": stated.value,
            "kind": stated.kind.value,
            "polarity": int(stated.holds),
            "sentence": stated.sentence,
            **_source_params(draft.source),
        }
        yield cipher.encrypt_params(RELATIONS, (partition_id, numbers[stated.subject]), row)


def _source_params(source: GraphSource) -> dict[str, Any]:
    return {
        "session": source.session_id,
        "sequence": source.sequence,
        "record": source.record_id,
        "said_at": to_micros(source.at),
    }


def _build_source(session_id: str | None, sequence: int | None, record_id: str | None, at: int) -> GraphSource:
    return GraphSource(from_micros(at), session_id, sequence, record_id)


def _build_link(row: Row) -> Link:
    subject, predicate, object_, value, kind, polarity, sentence, session, sequence, record, at, begin, *ends = row
    end = min((end for end in ends if end is not None), default=None)
    return Link(
        subject=subject,
        predicate=predicate,
        object=object_,
        value=value,
        kind=RelationKind(kind),
        holds=bool(polarity),
        sentence=sentence,
        source=_build_source(session, sequence, record, at),
        valid_from=moment(begin),
        valid_to=moment(end),
    )


# Communities of names that occur together, by label propagation: each takes the label most of its neighbours have.
# Deterministic. Computed once and cached; any change of the mentions changes the stamp.


def find_communities(stamp: tuple[int, ...], names: Mapping[int, str], places: Sequence[MentionPlace]) -> Communities:
    spots: dict[tuple[str | None, int | None], set[int]] = defaultdict(set)
    for place in places:
        spots[place.session, place.sequence if place.session is not None else place.ordinal].add(place.node)
    counts = Counter(node for together in spots.values() for node in together)
    hubs = {node for node, count in counts.items() if count > max(_FEW, _HUB * len(spots))}
    company: dict[int, Counter[int]] = defaultdict(Counter)
    for together in spots.values():
        known = sorted(together - hubs)
        if len(known) <= _CROWD:
            for one, two in combinations(known, 2):
                company[one][two] += 1
                company[two][one] += 1
    of = _propagate_labels(sorted(set(counts) - hubs), company)
    words: dict[str, Counter[int]] = defaultdict(Counter)
    for node, label in of.items():
        for word in set(names.get(node, "").replace("/", " ").split()):
            words[word][label] += counts[node]
    where: dict[int, list[MentionPlace]] = defaultdict(list)
    for place in places:
        if place.node in of:
            where[of[place.node]].append(place)
    return Communities(stamp, of, words, where)


def _propagate_labels(nodes: Sequence[int], company: Mapping[int, Counter[int]]) -> dict[int, int]:
    labels = {node: node for node in nodes}
    for _ in range(_ROUNDS):
        changed = False
        for node in nodes:
            beside: Counter[int] = Counter()
            for other, times in company.get(node, {}).items():
                beside[labels[other]] += times
            if beside:
                best = min(beside, key=lambda label: (-beside[label], label))
                changed |= best != labels[node]
                labels[node] = best
        if not changed:
            break
    return labels
