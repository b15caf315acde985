"""What a kind of line of an export is, and where lines go when they are put back."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import groupby
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from limpet.config import Config
from limpet.errors import InvalidInput
from limpet.lifecycle.transfer_repository import Transfers
from limpet.model.dataclass import dataclass
from limpet.model.lines import LineCodec
from limpet.model.scope import Level, Owner, Partition, Scope
from limpet.model.transfer import derive_id
from limpet.model.values import check_any_id, check_name, split_pages, with_bucket
from limpet.sessions.repository import Sessions
from limpet.store.tx import Tx

T = TypeVar("T")

PAGE = 200  # rows read at once
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
IDS = 10_000  # ids read at once: a page of them costs a sort of all


class LineOutcome(NamedTuple):
    """What became of a line: taken in or not, and what there is to say about it."""

    added: bool
    reason: str = ""


ADDED, PRESENT = LineOutcome(True), LineOutcome(False, "it is here already")
NO_SESSION = LineOutcome(False, "its session is not here")


@dataclass(frozen=True, slots=True)
class ImportTarget:
    """Where lines go: the tenant, the user they are for if that is another than they tell of, and what ids become."""

    config: Config
    tenant: str
    told_of: str | None  # the user the export is of; None for a whole tenant's
    user: str | None  # whose memory it becomes; None where everybody keeps theirs
    renews: bool = False
    mirrors_notes: bool = False  # whether notes have files there
    # Where the sessions and records of the export go, by their old ids; and the old ids by the new ones.
    homes: dict[str, Partition] = field(default_factory=dict, compare=False)
    old_ids: dict[str, str] = field(default_factory=dict, compare=False)

    @property
    def scope(self) -> Scope:
        return Scope(self.tenant, user=self.user)

    def map_user(self, name: object, what: str = "user") -> str:
        checked = check_name(name, what)
        if self.told_of is not None and checked != self.told_of:
            raise InvalidInput(f"{what}: the export is of {self.told_of!r}, and this of {checked!r}")
        return checked if self.user is None else self.user

    def map_partition(self, space: Partition) -> Partition:
        """Whose it is there. Raises InvalidInput for what is not the export's owner's."""
        level = space.level
        if level is Level.USER:
            return space._replace(owner=self.map_user(space.owner, "owner"))
        if level is Level.SESSION or self.told_of is not None:
            raise InvalidInput(f"level: what belongs to {self.told_of or 'anybody'!r} is none of a {level}'s")
        return space._replace(owner=check_name(space.owner, "owner") if level is Level.AGENT else "")

    def map_owner(self, home: Owner) -> Owner:
        """The same of a record's."""
        level, scope = home.level, home.scope
        if level in (Level.AGENT, Level.GLOBAL):
            if self.told_of is not None:
                raise InvalidInput(f"level: the export is of {self.told_of!r}, and this is the tenant's")
            agent = check_name(scope.agent, "agent") if level is Level.AGENT else None
            return Owner(Scope(self.tenant, agent=agent), level)
        if level is Level.SESSION and scope.session is None:
            raise InvalidInput("session_id is missing")
        session = scope.session if level is Level.SESSION else None
        return Owner(Scope(self.tenant, self.map_user(scope.user), scope.agent, session), level)

    def map_id(self, old: str) -> str:
        """The id there. A session or record whose owner changes gets one with the new owner's bucket."""
        home = self.homes.get(old)
        moves = home is not None and self.user not in (None, self.told_of)
        if not moves and not self.renews:
            return old
        new = derive_id(old, f"{self.tenant}\n{self.user or ''}")
        if home is not None:
            new = with_bucket(new, home.bucket)
        self.old_ids[new] = old
        return new

    def map_ids(self, text: str) -> str:
        """A text with the ids of sessions and records of the export in it, as those that they have there."""
        return _ID.sub(lambda found: self.map_id(found[0]) if found[0] in self.homes else found[0], text)

    def external_id(self, id: str, told: str | None) -> str | None:
        """The id it had before: in the export, or before that where it keeps the export's."""
        if told is not None:
            told = check_any_id(told, "external_id")
        return self.old_ids.get(id, told)

    def register_id(self, old: object, home: Partition) -> None:
        """Note where a session or record goes, before its line and those that name it are read."""
        if isinstance(old, str):
            self.homes[old.lower()] = home


class LineKind(Generic[T]):
    """The lines of one noun. ``find`` gives everything in a scope, ``read`` checks a line and says what it means there,
    ``prepare`` does what is slow, outside every transaction, and ``put`` says of each what became of it."""

    name: ClassVar[str]
    about: ClassVar[str]
    required: ClassVar[tuple[str, ...]] = ()
    noun: str | None = None  # what it is counted as in a report

    def __init__(self, state: type[T]) -> None:
        self.line = LineCodec(state)

    def find(self, tx: Tx, scope: Scope) -> Iterator[T]:
        raise NotImplementedError

    def write(self, state: T) -> dict[str, Any]:
        return self.line.write(state)

    def parse(self, value: dict[str, Any], into: ImportTarget) -> T:
        """What a line means there, with its fields checked. Raises InvalidInput."""
        if unknown := value.keys() - self.line.fields.keys():
            raise InvalidInput(f"{self.name} have no {', '.join(sorted(map(repr, unknown)))[:200]}")
        require_fields(value, *self.required)
        return self.read(value, into)

    def read(self, value: dict[str, Any], into: ImportTarget) -> T:
        return self.line.read(value, {"tenant": into.tenant}, into.map_id)

    def prepare(self, state: T, into: ImportTarget) -> Any:
        return state

    def put(self, tx: Tx, items: Sequence[Any], into: ImportTarget) -> list[LineOutcome]:
        return [self.put_one(tx, item, into) for item in items]

    def put_one(self, tx: Tx, state: T, into: ImportTarget) -> LineOutcome:
        raise NotImplementedError

    def owner(self, state: T) -> tuple[str, str] | None:
        """The id it takes, and whose it is; None where no other owner can have it."""
        return None


def require_fields(value: Mapping[str, Any], *names: str) -> None:
    if missing := [name for name in names if value.get(name) is None]:
        raise InvalidInput(f"{', '.join(missing)} is missing")


def iter_ids(read: Callable[[str], list[str]]) -> Iterator[Sequence[str]]:
    """All ids, page by page: ``read`` gives those after one."""
    after = ""
    while ids := read(after):
        after = ids[-1]
        yield from split_pages(ids, PAGE)


def iter_pages(read: Callable[[Any], list[T]], after: Any, place: Callable[[T], Any]) -> Iterator[T]:
    """All there are, page by page: ``read`` gives those after a place, ``place`` says where one is."""
    while page := read(after):
        yield from page
        after = place(page[-1])


def iter_session_scopes(tx: Tx, scope: Scope) -> Iterator[Scope]:
    return iter_pages(lambda after: Transfers(tx).session_scopes(scope, after, IDS), "", lambda one: one.session or "")


class SessionLineKind(LineKind[T]):
    """Lines that belong to a session, and come together."""

    def put(self, tx: Tx, items: Sequence[Any], into: ImportTarget) -> list[LineOutcome]:
        outcomes: list[LineOutcome] = []
        for session_id, group in groupby(items, key=lambda item: item.session_id):
            found = list(group)
            info = Sessions(tx).get(Scope(into.tenant, user=into.user, session=session_id))
            outcomes += [NO_SESSION] * len(found) if info is None else self.put_in(tx, info.scope, found)
        return outcomes

    def put_in(self, tx: Tx, scope: Scope, items: Sequence[Any]) -> list[LineOutcome]:
        raise NotImplementedError
