"""Where the same is still said after records were forgotten: by searching, in summaries, in notes, beside sessions.

By id, key or query it is the same: what the records stated, and their values. The words of a query are looked for, too:
they may be said where no record came of it. A text *says* it if it has the statement or all words of its value: that
goes when it is to go everywhere. A text *mentions* it if it has a name or a long number of the statement, a word of a
short value, or half of the words, or answers it with one of its words: that is named too, because a list that is too
long does less harm than a false all-clear.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from limpet.errors import StorageError
from limpet.knowledge import remember
from limpet.knowledge.repository import Records
from limpet.model.chunk import ChunkQuery, Source, SourceKind
from limpet.model.dataclass import replace
from limpet.model.late import lazy_property
from limpet.model.message import Message, Role
from limpet.model.note import MEMORY_FILE, describe_note, parse_day, redact_lines
from limpet.model.record import Origin, Record, RecordQuery
from limpet.model.scope import Level, Partition, Scope, user_partition
from limpet.model.session import SessionInfo, SessionQuery
from limpet.model.values import iter_pages
from limpet.search.analysis import Question, analyse, extract_terms, split_sentences
from limpet.search.search import search
from limpet.sessions.repository import KeyValueEntries, Messages, Sessions, Summaries
from limpet.store.tx import Tx

if TYPE_CHECKING:
    from limpet.knowledge.forget import ForgetPlan, Forgetter

FORGOTTEN_MARK = "[forgotten]"
_MAX_HITS = 200  # hits among which it is looked for
_MAX_REPLIES = 20  # messages after the user's that may answer it
_PAGE = 500  # sessions read at once
_FEW_WORDS = 2  # of a value each of them sets it apart
_LONG_NUMBER = re.compile(r"\d{4,}")  # says enough alone: a PIN, a salary, a telephone number
_EPISODES = (Origin.TURN, Origin.CONDENSED)  # they quote messages, and state nothing themselves
_Matcher = Callable[[str], bool]


class Place(NamedTuple):
    """Where it is still said, in words; and for a message or a summary, whose it is."""

    name: str
    tenant: str = ""
    user: str = ""
    session: str = ""
    first: int = 0
    last: int = 0
    answers: bool = False  # a reply to what said it

    def read_messages(self, tx: Tx) -> list[Message]:
        if not self.first:
            return []
        scope = Scope(self.tenant, user=self.user, session=self.session)
        return Messages(tx).range(scope, self.first - 1, self.last + 1, None)


class _Search(NamedTuple):
    """What to look for. ``words``: terms that may give it away in other words; ``marks``: those that do alone.

    ``apart``: statements about others, in which they do not count.
    """

    partition: Partition
    text: str
    tells: _Matcher
    words: frozenset[int] = frozenset()
    marks: frozenset[int] = frozenset()
    apart: Sequence[str] = ()
    answered: frozenset[int] = frozenset()  # terms that a reply to it takes up

    def is_mentioned(self, folded: str) -> bool:
        if self.tells(folded):
            return True
        found = self.words & _find_terms(folded, self.apart)
        return bool(found & self.marks) or (bool(found) and len(found) >= (len(self.words) + 1) // 2)


class RemainingFinder:
    """Looks for what the records of a plan said."""

    def __init__(self, forgetter: Forgetter, owner: Scope, going: ForgetPlan, query: str | None) -> None:
        self._forgetter, self.owner, self._going = forgetter, owner, going
        stated = [record for record in going.records if record.origin not in _EPISODES]
        others = {text for record in going.others for text in (record.content, record.source.sentence) if text}
        self._searches = list(_iter_searches(stated, sorted(map(_fold_text, others), key=len, reverse=True)))
        for user, secrets in going.trail.secrets.items():
            space = user_partition(owner.tenant, user)
            self._searches += [_Search(space, secret, partial(_repeats, secret)) for secret in sorted(secrets)]
        if query is not None:
            spaces = {record.home.space for record in going.records}
            if owner.user is not None:
                spaces.add(owner.partition)
            self._searches += [_search_for_query(space, query) for space in sorted(spaces, key=str)]

    @lazy_property
    def _users(self) -> list[Partition]:
        return sorted({each.partition for each in self._searches if each.partition.level is Level.USER}, key=str)

    def tells(self, text: str) -> bool:
        folded = _fold_text(text)
        return any(each.tells(folded) for each in self._searches)

    def mentions(self, text: str) -> bool:
        """Return whether a text says it, or has words of it that give it away."""
        folded = _fold_text(text)
        return any(each.is_mentioned(folded) for each in self._searches)

    def select_sentences(self, text: str, *, answers: bool = False) -> set[str]:
        """The sentences that say it; of a message that answers it, also those that have one of its words."""
        return {
            sentence.text
            for sentence in split_sentences(text)
            if self.tells(sentence.text) or (answers and self._answers(sentence.text))
        }

    def find_stored(self, tx: Tx) -> list[Place]:
        """In the store: messages, records and documents that search finds, replies to it, then summaries."""
        found = []
        for each in self._searches:
            wanted = self._forgetter.build_word_search(each.text[:2000], _MAX_HITS, ChunkQuery())
            hits = [hit for hit in search(tx, each.partition, wanted) if each.is_mentioned(_fold_text(hit.text))]
            found += [_to_place(each.partition, hit.source) for hit in hits]
        said = [*dict.fromkeys([*found, *self.find_replies(tx), *self._find_quoted(tx)])]
        return [*said, *self.find_summaries(tx), *_find_turn_places(tx, said)]

    def list_places(self) -> list[str]:
        """All of them by name, where nothing was removed."""
        left: list[str] = []
        found = [place.name for place in self._forgetter.store.read(self.find_stored)]
        return [*found, *self.find_written(left, everywhere=False), *left]

    def find_replies(self, tx: Tx) -> list[Place]:
        """Replies to the messages that said it, which have one of its words: "34 is a good age"."""
        found = []
        for (user, session), said in self._going.trail.said.items():
            scope = Scope(self.owner.tenant, user=user, session=session)
            for sequence in said:
                for message in Messages(tx).range(scope, sequence, None, _MAX_REPLIES):
                    if message.role is Role.USER:
                        break
                    if self._answers(message.text):
                        name = f"message {message.sequence} of session {session}"
                        at = message.sequence
                        found.append(Place(name, scope.tenant, user, session, at, at, answers=True))
        return found

    def _find_quoted(self, tx: Tx) -> list[Place]:
        """Where nothing but turns was chosen by id: their messages, which stay."""
        if self._searches:
            return []
        found = []
        for record in self._going.records:
            user, session = record.user or "", record.source.session_id or ""
            for at in record.source.sequences:
                place = Place(f"message {at} of session {session}", self.owner.tenant, user, session, at, at)
                if any(message.text != FORGOTTEN_MARK for message in place.read_messages(tx)):
                    found.append(place)
        return found

    def _answers(self, text: str) -> bool:
        folded = _fold_text(text)
        return any(each.answered & _find_terms(folded, each.apart) for each in self._searches)

    def find_summaries(self, tx: Tx) -> list[Place]:
        found = []
        for partition in self._users:
            owner = Scope(partition.tenant, user=partition.owner)
            for session in Sessions(tx).list_with(owner, "summaries.sessions"):
                summary = Summaries(tx).get(Scope(partition.tenant, user=partition.owner, session=session))
                if summary is not None and self.mentions(summary.text):
                    name = f"the summary of session {session}"
                    found.append(Place(name, partition.tenant, partition.owner, session))
        return found

    def find_written(self, left: list[str], *, everywhere: bool) -> list[str]:
        """What search does not find: notes, what an agent keeps with the sessions, and the goals of schedules.

        A dry run changes no note: they are read as they will be, ``everywhere`` or not.
        """
        texts = [*self._iter_texts(left, everywhere)]
        return [place for place, text in texts if any(map(self.mentions, text.splitlines()))]

    def list_notes(self) -> Iterator[tuple[Partition, str]]:
        for partition in self._users:
            yield from ((partition, name) for name in self._forgetter.notes.list_names(partition))

    def clean_text(self, partition: Partition, name: str, text: str) -> list[tuple[str, str]]:
        """Each line of a note, and what is left of it without what says it."""
        lines = redact_lines(text, () if name == MEMORY_FILE else self._sort_sentences(partition), FORGOTTEN_MARK)
        return [(line, self._clean_line(name, rest) if self.tells(rest) else rest) for line, rest in lines]

    def _clean_line(self, name: str, line: str) -> str:
        """Nothing of a line of MEMORY.md; a turn's line keeps its other sentences."""
        if name == MEMORY_FILE:
            return ""
        for sentence in self.select_sentences(line):
            line = line.replace(sentence, FORGOTTEN_MARK)
        return f"{FORGOTTEN_MARK}\n" if self.tells(line) else line

    def _sort_sentences(self, partition: Partition) -> list[str]:
        return sorted(self._going.trail.sentences(partition.owner), key=len, reverse=True)

    def _iter_texts(self, left: list[str], everywhere: bool) -> Iterator[tuple[str, str]]:
        notes = [*self.list_notes()]
        yield from self._iter_notes([each for each in notes if parse_day(each[1]) is None], left, everywhere)
        for partition in self._users:
            yield from self._forgetter.store.read(partial(self._read_beside, partition=partition))
        yield from self._iter_notes([each for each in notes if parse_day(each[1]) is not None], left, everywhere)

    def _iter_notes(
        self, notes: Iterable[tuple[Partition, str]], left: list[str], everywhere: bool
    ) -> Iterator[tuple[str, str]]:
        for partition, name in notes:
            try:
                text = self._forgetter.notes.read(partition, name)
            except StorageError:
                left.append(f"{describe_note(name)}, which cannot be read")
                continue
            said = () if name == MEMORY_FILE else self._sort_sentences(partition)
            lines = self.clean_text(partition, name, text) if everywhere else redact_lines(text, said, FORGOTTEN_MARK)
            yield describe_note(name), "".join(line for _, line in lines)

    def _read_beside(self, tx: Tx, partition: Partition) -> list[tuple[str, str]]:
        """What programs keep with any session of the user, labels, and what schedules and documents are called."""
        owner, found = Scope(partition.tenant, user=partition.owner), list[tuple[str, str]]()
        cap = self._forgetter.config.session.kv_cap
        for session in Sessions(tx).list_with(owner, "kv.sessions"):
            entries = KeyValueEntries(tx).items(replace(owner, session=session), cap)
            found += [(f"{entry.key} of session {session}", str(entry.value)) for entry in entries]
        found += [(f"the metadata of session {info.id}", str(info.metadata)) for info in _iter_sessions(tx, owner)]
        return [*found, *self._read_labels(tx, owner), *self._forgetter.list_beside(tx, owner)]

    def _read_labels(self, tx: Tx, owner: Scope) -> Iterator[tuple[str, str]]:
        """The tags, metadata and references of the records that stay: a search does not find them."""
        going = {record.id for record in self._going.records}
        for record in Records(tx).find(owner, RecordQuery(include_past=True, limit=None), self._forgetter.clock()):
            labels = [*record.tags, *record.metadata.values(), *record.references]
            if labels and record.id not in going:
                yield f"record {record.id}", "\n".join(labels)


def find_turns(tx: Tx, tenant: str, user: str, session: str, sequences: Iterable[int]) -> list[Record]:
    """The records of the turns to which these messages belong."""
    wanted = frozenset(sequences)
    turns = Records(tx).find_turns(user_partition(tenant, user), session)
    return [turn for turn in turns if wanted & set(turn.source.sequences)]


def _find_turn_places(tx: Tx, places: Iterable[Place]) -> list[Place]:
    """A search does not find the records of turns: they quote the messages that it finds."""
    said: dict[tuple[str, str, str], set[int]] = defaultdict(set)
    for place in places:
        if place.first:
            said[place.tenant, place.user, place.session].update(range(place.first, place.last + 1))
    return [Place(f"record {turn.id}") for where, at in said.items() for turn in find_turns(tx, *where, at)]


def _iter_sessions(tx: Tx, owner: Scope) -> Iterator[SessionInfo]:
    return iter_pages(_PAGE, lambda start: Sessions(tx).find(owner, SessionQuery(limit=_PAGE, offset=start)))


def _iter_searches(records: Iterable[Record], others: Sequence[str]) -> Iterator[_Search]:
    """What each record states, and its value: an agent may use its own words. A number alone says nothing.

    ``others``: statements about other subjects, in which the value does not count.
    """
    for record in records:
        for text in sorted({record.content, record.source.sentence or record.content}):
            yield _Search(record.home.space, text, partial(_contains_text, _fold_text(text)))
        said = record.value or remember.strip_subject(record.content)
        terms = frozenset(extract_terms(said))
        if not terms:
            continue
        apart = tuple(each for each in others if terms & _find_terms(each))
        says_enough = re.search(r"[^\W\d_]{3}", said) or _LONG_NUMBER.search(said)
        tells: _Matcher = partial(_has_all_terms, terms, apart) if says_enough else lambda _: False
        marks = _find_marks(said, terms, is_value=bool(record.value)) if says_enough else frozenset[int]()
        # Everybody may say a short number; only a reply to it is about it.
        words = terms if says_enough else frozenset[int]()
        yield _Search(record.home.space, said, tells, words, marks, apart, terms)


def _search_for_query(space: Partition, query: str) -> _Search:
    """A query says what is to go where no record states it: by its names, else by its words but for fillers."""
    terms = frozenset(extract_terms(query))
    marks = _find_marks(query, terms, is_value=False)
    words = marks or frozenset(term for term, weight in Question.parse(query, None).weigh_terms(0.0).items() if weight)
    return _Search(space, query, partial(_has_all_terms, terms, ()), words, marks)


def _find_marks(said: str, terms: frozenset[int], *, is_value: bool) -> frozenset[int]:
    """The terms that set it apart alone: long numbers, names, and each word of a short value."""
    if is_value and len(terms) <= _FEW_WORDS:
        return terms
    words = re.findall(r"\w+", said)
    named = [word for place, word in enumerate(words) if word[:1].isupper() and (place or is_value)]
    return frozenset(term for word in [*named, *_LONG_NUMBER.findall(said)] for term in extract_terms(word))


def _find_terms(text: str, apart: Iterable[str] = ()) -> frozenset[int]:
    for statement in apart:
        text = text.replace(statement, " ")
    return frozenset(analyse(text).counts)


def _has_all_terms(words: frozenset[int], apart: Iterable[str], text: str) -> bool:
    return words <= _find_terms(text, apart)


def _contains_text(words: str, text: str) -> bool:
    return words in text


def _repeats(secret: str, text: str) -> bool:
    """Whether a text has the secret, and not inside a longer word or number."""
    return re.search(rf"(?<!\w){re.escape(_fold_text(secret))}(?!\w)", text) is not None


def _fold_text(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip(".!? ")


def _to_place(partition: Partition, source: Source) -> Place:
    if source.kind is SourceKind.MESSAGE:
        first, last = source.first_sequence or 0, source.last_sequence or 0
        name = f"message {first} of session {source.session_id}"
        return Place(name, partition.tenant, partition.owner, source.session_id or "", first, max(first, last))
    return Place(f"document {source.uri}" if source.kind is SourceKind.DOCUMENT else f"record {source.id}")
