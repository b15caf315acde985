"""Holdfast: the composition root. Its methods check what they were given, say whose memory it is, and call one verb."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

from holdfast.config import Config
from holdfast.domain.chunk import Hit
from holdfast.domain.ids import checked_id
from holdfast.domain.keys import SessionKey, user_for
from holdfast.domain.record import Forgotten, Layer, Record, RecordQuery, RecordType
from holdfast.domain.scope import DEFAULT_TENANT, Home, Level, Scope, home_of
from holdfast.domain.session import SessionInfo, SessionQuery, State
from holdfast.domain.text import checked_choice, checked_name, checked_path, checked_text, optional_name, shown
from holdfast.domain.times import Clock, checked_clock, checked_time, checked_ttl, system_clock
from holdfast.domain.tokens import TokenCounter
from holdfast.domain.values import checked_label, checked_metadata, checked_number
from holdfast.errors import ConfigError, InvalidInput, RecordNotFound, SessionNotFound, Unsupported
from holdfast.handle import Session
from holdfast.providers.counter import checked_counter
from holdfast.providers.embedder import Embedder, checked_embedder
from holdfast.recall import recipes, search
from holdfast.recall.question import Question
from holdfast.runtime import SNAPSHOT, Runtime, open_store
from holdfast.session import lifecycle
from holdfast.storage.base import Finding, Progress, Tx
from holdfast.write import remember as memory

if TYPE_CHECKING:
    from holdfast.files.sessions_index import FileSessions
    from holdfast.snapshots import Imported

T = TypeVar("T")

MAX_PAGE = 10_000


class Holdfast:
    """An agent's memory. Safe to share between threads; ``open`` one for each store a process uses."""

    def __init__(self, runtime: Runtime, tenant: str = DEFAULT_TENANT) -> None:
        self._runtime = runtime
        self._tenant = checked_name(tenant, "tenant")
        self._cut = memory.cutter(runtime.config.chunks)

    @classmethod
    def open(
        cls,
        location: str | PathLike[str],
        *,
        config: Config | None = None,
        llm: None = None,
        embedder: Embedder | None = None,
        clock: Clock | None = None,
        counter: TokenCounter | None = None,
        tenant: str = DEFAULT_TENANT,
    ) -> Holdfast:
        """Open or create the store at a folder, at ``:memory:``, or at a ``postgresql://`` address.

        ``counter`` counts tokens exactly where budgets are kept; without one they are estimated.
        """
        if llm is not None:
            raise Unsupported("this release uses no language model; leave llm out")
        if config is not None and not isinstance(config, Config):
            raise ConfigError(f"config must be a Config, not {type(config).__name__}; Config.load(…) reads a file")
        settings, now = config or Config(), checked_clock(system_clock if clock is None else clock)
        checked_name(tenant, "tenant")
        checked_embedder(embedder)
        count = checked_counter(counter)
        store, folder = open_store(checked_path(location, "the store's place"), settings, now)
        opened = cls(Runtime(store, settings, now, embedder, folder, count), tenant)
        if settings.session.import_snapshot:
            opened._import_found()
        return opened

    def close(self) -> None:
        """Finish what is being written and close the store. Closing twice is fine."""
        self._runtime.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Holdfast {self._runtime.store.features.location} tenant={self._tenant}>"

    @property
    def config(self) -> Config:
        return self._runtime.config

    def tenant(self, name: str) -> Holdfast:
        """The same store seen as another tenant, with nothing in common but the file."""
        return Holdfast(self._runtime, name)

    # Sessions

    def session(
        self,
        channel: str,
        chat: str,
        thread: str | None = None,
        *,
        user: str | None = None,
        agent: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        ttl: timedelta | None = None,
    ) -> Session:
        """The live session of this chat, made when there is none. Without a user, the channel's chat is one."""
        key = SessionKey.of(channel, chat, thread)
        scope = self._scope(
            user=user_for(key) if user is None else user,
            agent=self.config.session.default_agent if agent is None else agent,
        )
        about, life = checked_metadata(metadata), None if ttl is None else checked_ttl(ttl)
        info = self._read(lambda tx: tx.sessions.live(scope, str(key)))
        if info is None:
            now, new_id = self._now(), self._runtime.new_id
            info = self._write(
                lambda tx: lifecycle.open_session(tx, scope, key, new_id=new_id, now=now, metadata=about, ttl=life)
            )
        return Session(self._runtime, info)

    def load_session(self, session_id: str, *, user: str | None = None) -> Session:
        """The session with this id, live or ended."""
        scope = self._scope(user=user, session=session_id)
        info = self._read(lambda tx: tx.sessions.get(scope))
        if info is None:
            raise SessionNotFound(f"no session {session_id} here")
        return Session(self._runtime, info)

    def sessions(
        self,
        user: str | None = None,
        agent: str | None = None,
        channel: str | None = None,
        state: str | None = None,
        limit: int = 50,
        offset: int = 0,
    ) -> list[SessionInfo]:
        """Sessions, the most recently active first."""
        scope = self._scope(user=user, agent=agent)
        query = SessionQuery(
            channel=optional_name(channel, "channel"),
            state=_state(state),
            limit=_page(limit),
            offset=checked_number(offset, "offset"),
        )
        return self._read(lambda tx: tx.sessions.find(scope, query))

    # Recall

    def recall(
        self,
        query: str,
        user: str | None = None,
        k: int | None = None,
        session: str | None = None,
        kinds: Iterable[str] | None = None,
        layers: Iterable[str] | None = None,
        types: Iterable[str] | None = None,
        tags: Iterable[str] | None = None,
        metadata: Mapping[str, str] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        as_of: datetime | None = None,
        at: datetime | None = None,
        recipe: str | None = None,
        rerank: None = None,
        *,
        agent: str | None = None,
        scope: Literal["global"] | None = None,
    ) -> list[Hit]:
        """The chunks that answer the question best, of a user, one of the user's sessions, an agent, or the tenant."""
        text, count = search.checked_question(query), search.checked_count(self.config.search.k if k is None else k)
        if rerank is not None:
            raise Unsupported("this release has no reranker; leave rerank out")
        home = self._home(user, agent, session, scope)
        chunks = search.chunk_query(
            session=home.scope.session,
            kinds=kinds,
            records=search.record_filter(layers, types, tags, metadata),
            since=since,
            until=until,
            as_of=as_of,
        )
        now = self._now()
        question = Question.read(text, now if at is None else checked_time(at, "at"))
        wanted = search.Search(
            question,
            chunks,
            recipes.named(self.config.search.recipe if recipe is None else recipe),
            count,
            self.config.search,
            now,
        )
        return self._read(lambda tx: search.search(tx, home.space, wanted))

    # Records

    def remember(
        self,
        content: str,
        user: str | None = None,
        key: str | None = None,
        type: str = "fact",
        layer: str = "semantic",
        tags: Iterable[str] = (),
        metadata: Mapping[str, str] | None = None,
        confidence: float | None = None,
        salience: float | None = None,
        pinned: bool = False,
        valid_from: datetime | None = None,
        ttl: timedelta | float | None = None,
        *,
        id: str | None = None,
        title: str | None = None,
        references: Iterable[str] = (),
        session: str | None = None,
        agent: str | None = None,
        scope: Literal["global"] | None = None,
    ) -> Record:
        """Keep a memory. The same key (or id) again replaces its text and keeps what it said before."""
        now = self._now()
        home = self._home(user, agent, session, scope)
        values = {
            "content": content,
            "key": key,
            "title": title,
            "type": type,
            "layer": layer,
            # Saying a key again changes its text: labels that were left out stay as they are.
            "tags": tags or None,
            "metadata": metadata,
            "confidence": confidence,
            "salience": salience,
            "references": references or None,
            "pinned": pinned or None,
            "valid_from": valid_from,
            "ttl": ttl,
        }
        changes = memory.checked_changes(values, now)
        draft = Record(
            id=self._runtime.new_id() if id is None else checked_id(id, "record id"),
            home=home,
            layer=Layer.SEMANTIC,
            type=RecordType.FACT,
            content="",
            created_at=now,
            updated_at=now,
            valid_from=now,
        )
        return self._write(lambda tx: memory.save(tx, draft, changes, self._cut, now))

    def record(self, id: str, *, user: str | None = None) -> Record:
        """The record with this id."""
        scope, record_id = self._scope(user=user), checked_id(id, "record id")
        found = self._read(lambda tx: tx.records.get(scope, record_id))
        if found is None:
            raise RecordNotFound(f"no record {record_id} here")
        return found

    def records(
        self,
        user: str | None = None,
        session: str | None = None,
        layers: Iterable[str] | None = None,
        types: Iterable[str] | None = None,
        tags: Iterable[str] | None = None,
        metadata: Mapping[str, str] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        as_of: datetime | None = None,
        limit: int = 50,
        offset: int = 0,
        *,
        agent: str | None = None,
        history: bool = False,
    ) -> list[Record]:
        """Records, the latest change first: those true now or at ``as_of``; with ``history`` also those that were."""
        query = RecordQuery(
            search.record_filter(layers, types, tags, metadata),
            since=None if since is None else checked_time(since, "since"),
            until=None if until is None else checked_time(until, "until"),
            as_of=None if as_of is None else checked_time(as_of, "as_of"),
            include_past=history,
            limit=_page(limit),
            offset=checked_number(offset, "offset"),
        )
        scope, now = self._scope(user=user, agent=agent, session=session), self._now()
        return self._read(lambda tx: tx.records.find(scope, query, now))

    def count_records(self, user: str | None = None, *, agent: str | None = None, session: str | None = None) -> int:
        """How many records are true now."""
        scope, now = self._scope(user=user, agent=agent, session=session), self._now()
        return self._read(lambda tx: tx.records.count(scope, RecordQuery(), now))

    def search_metadata(
        self, key: str, value: str, user: str | None = None, *, agent: str | None = None
    ) -> list[Record]:
        """Every current record whose metadata has exactly this value under this key."""
        wanted = {checked_label(key, "the metadata key"): checked_text(value, "the metadata value")}
        scope, now = self._scope(user=user, agent=agent), self._now()
        query = RecordQuery(search.record_filter(None, None, None, wanted), limit=None)
        return self._read(lambda tx: tx.records.find(scope, query, now))

    def update(self, id: str, /, *, user: str | None = None, **changes: Any) -> Record:
        """Change some fields of a record. Its id and creation time stay; what it said before goes to its history."""
        scope, now = self._scope(user=user), self._now()
        checked = memory.checked_changes(changes, now)
        return self._write(lambda tx: memory.update(tx, scope, id, checked, self._cut, now))

    def history(self, id: str, *, user: str | None = None) -> list[Record]:
        """Everything the record has said, the oldest first, the current version last."""
        scope, record_id = self._scope(user=user), checked_id(id, "record id")
        versions = self._read(lambda tx: tx.records.history(scope, record_id))
        if not versions:
            raise RecordNotFound(f"no record {record_id} here")
        return versions

    def forget(
        self,
        id: str | None = None,
        *,
        key: str | None = None,
        query: str | None = None,
        user: str | None = None,
        agent: str | None = None,
        session: str | None = None,
        scope: Literal["global"] | None = None,
        dry_run: bool = False,
    ) -> Forgotten:
        """Remove a record by id, by its owner's key, or all records of an owner that hold every word of a query.

        With ``dry_run`` nothing is removed; the answer names what would be.
        """
        if [id, key, query].count(None) != 2:
            raise InvalidInput("forget takes exactly one of id, key and query")
        if id is not None:
            owner = self._scope(user=user, agent=agent, session=session)
            choose = memory.by_id(owner, id)
        else:
            home = self._home(user, agent, session, scope)
            owner = home.scope
            choose = memory.by_words(home, query, self._now()) if query is not None else memory.by_key(home, key or "")
        if dry_run:
            return self._read(lambda tx: Forgotten({}, tuple(choose(tx))))
        return self._write(lambda tx: memory.forget(tx, owner, choose(tx)))

    # The store itself

    def file_sessions(self) -> FileSessions:
        """Sessions kept as plain files in the store's folder, for people who read their memory with an editor."""
        from holdfast.files.sessions_index import FileSessions

        if self._runtime.folder is None:
            raise Unsupported("this store has no folder to keep plain files in; open a folder")
        if self._tenant != DEFAULT_TENANT:
            raise Unsupported("plain files have no tenants; open a folder for each tenant that wants them")
        caps = self.config.session
        return FileSessions(
            self._runtime.folder / "memory",
            clock=self._runtime.clock,
            new_id=self._runtime.new_id,
            kv_cap=caps.kv_cap,
            transcript_cap=caps.transcript_cap,
        )

    def import_snapshot(self, path: str | PathLike[str]) -> Imported:
        """Take in a ``sessions.json``, all of it or nothing. The same content again is not taken in twice."""
        from holdfast import snapshots  # late: few stores ever import

        return snapshots.take_in(self._runtime, self._scope(), checked_path(path, "the snapshot's path"))

    def _import_found(self) -> None:
        folder = self._runtime.folder
        if folder is not None and (folder / SNAPSHOT).is_file():
            from holdfast import snapshots

            snapshots.take_in_found(self._runtime, self._scope(), folder / SNAPSHOT)

    def doctor(self, *, repair: bool = False) -> list[Finding]:
        """Look for anything that does not hold; with ``repair``, set right what can be derived again."""
        from holdfast import upkeep

        chunks = upkeep.chunks(self._runtime, repair=repair)
        return [*self._runtime.store.doctor(repair=repair), chunks]

    def backup(self, path: str | PathLike[str], progress: Progress | None = None) -> None:
        """Copy the live store to a new SQLite file."""
        if progress is not None and not callable(progress):
            raise InvalidInput(f"progress must be a function, not {type(progress).__name__}")
        self._runtime.store.backup(checked_path(path, "the backup's path"), progress)

    def stats(self) -> Mapping[str, Any]:
        """How much there is, over all tenants."""
        features = self._runtime.store.features
        return {"backend": features.name, "location": features.location, **self._runtime.store.counts()}

    # Beneath

    def _scope(self, *, user: str | None = None, agent: str | None = None, session: str | None = None) -> Scope:
        return Scope.of(self._tenant, user=user, agent=agent, session=session)

    def _home(self, user: str | None, agent: str | None, session: str | None, scope: str | None) -> Home:
        """The one level a memory belongs to. A session's user is looked up, so that a session alone is enough."""
        if scope not in (None, "global"):
            raise InvalidInput(f"scope is 'global' or left out, not {shown(scope)}")
        if user is not None and agent is not None:
            raise InvalidInput("a memory is a user's or an agent's: give user= or agent=, not both")
        if session is not None:
            owner = self.load_session(session, user=user).info
            return Home(Scope(owner.tenant, user=owner.user, session=owner.id), Level.SESSION)
        return home_of(self._scope(user=user, agent=agent), everyone=scope == "global")

    def _now(self) -> datetime:
        return self._runtime.clock()

    def _read(self, work: Callable[[Tx], T]) -> T:
        return self._runtime.store.read(work)

    def _write(self, work: Callable[[Tx], T]) -> T:
        return self._runtime.store.write(work)


def _state(value: object) -> State | None:
    if value is None:
        return None
    return checked_choice(State, value.upper() if isinstance(value, str) else value, "state")


def _page(value: object) -> int:
    number = checked_number(value, "limit")
    if number > MAX_PAGE:
        raise InvalidInput(f"limit is at most {MAX_PAGE}, not {number}; read further pages with offset")
    return number
