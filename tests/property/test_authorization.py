"""Whoever acts for a user, or for nobody, and calls any verb on what is another's: nothing is read, nothing changes.

Every verb of the table has its entry below; a new one without fails the first test.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from limpet import Limpet, Message, Session
from limpet.errors import LimpetError, NotFound, PermissionDenied
from limpet.security.operation import OPERATIONS
from tests.property.isolation_world import Owner, World
from tests.property.test_isolation import _in_worlds

Attempt = Callable[[], object]


@dataclass
class Attack:
    """A handle of mine, and a victim: a user of my tenant with a session, a record, a document and files."""

    world: World
    me: Owner
    victim: Owner
    mine: Limpet
    folder: Path

    @property
    def user(self) -> str:
        assert self.victim.user
        return self.victim.user

    @property
    def session(self) -> str:
        assert self.victim.session
        return self.victim.session

    @property
    def schedule(self) -> str:
        return self.world.plan(self.victim)[0]

    @property
    def forged(self) -> Session:
        """The victim's handle, as if it had got into my hands."""
        info = self.world.on(self.victim).load_session(self.session).info
        return Session(self.mine._runtime, self.mine._authorizer, info)

    @property
    def own(self) -> set[int]:
        return self.world.of_user(self.me.tenant, self.me.user) if self.mine.principal.user else set()

    def owners(self) -> list[dict[str, Any]]:
        """Every way to say whose memory it is, but mine."""
        return [{"user": self.user}, {"agent": self.victim.agent}, {"scope": "global"}]


# Refused, and told which grant is missing.
def _everybodys(call: Callable[[Limpet], Callable[..., object]], *args: Any) -> Callable[[Attack], list[Attempt]]:
    def attempts(a: Attack) -> list[Attempt]:
        return [_bound(call(a.mine), *args, **whose) for whose in a.owners()]

    return attempts


def _bound(call: Callable[..., object], *args: Any, **kwargs: Any) -> Attempt:
    return lambda: call(*args, **kwargs)


def _whole(call: Callable[[Attack], object]) -> Callable[[Attack], list[Attempt]]:
    return lambda a: [lambda: call(a)]


def _handle(call: Callable[[Session], object]) -> Callable[[Attack], list[Attempt]]:
    return lambda a: [lambda: call(a.forged)]


def _scheduled(call: Callable[[Any, str, str], object]) -> Callable[[Attack], list[Attempt]]:
    return lambda a: [lambda: call(a.mine.schedules, a.schedule, a.user)]


def _turn(session: Session) -> object:
    with session.turn("secret") as turn:
        turn.reply("mine now")
        return turn.context


def _reply(a: Attack) -> object:
    """A turn that somebody else began."""
    from limpet.api.turn import Turn

    theirs = a.world.on(a.victim).load_session(a.session).turn("secret")
    theirs._authorizer = a.mine._authorizer
    theirs._open, theirs._context = True, a.world.on(a.victim).load_session(a.session).context()
    assert isinstance(theirs, Turn)
    return theirs.reply("mine now")


REFUSED: dict[str, Callable[[Attack], list[Attempt]]] = {
    "session": _whole(lambda a: a.mine.session("chan", "chat", user=a.user, agent=a.victim.agent)),
    "find_session": _whole(lambda a: a.mine.find_session("chan", "chat", user=a.user, agent=a.victim.agent)),
    "load_session": _whole(lambda a: a.mine.load_session(a.session, user=a.user)),
    "context": _whole(lambda a: a.mine.context("secret", user=a.user)),
    "sessions": _whole(lambda a: a.mine.sessions(user=a.user)),
    "admin.usage": _whole(lambda a: a.mine.admin.usage(user=a.user)),
    "recall": _everybodys(lambda memory: memory.recall, "secret"),
    "remember": _everybodys(lambda memory: memory.remember, "mine now"),
    "records.get": _whole(lambda a: a.mine.records.get(a.victim.record, user=a.user)),
    "records.list": _whole(lambda a: [a.mine.records(user=a.user), a.mine.records(agent=a.victim.agent)]),
    "records.count": _whole(lambda a: a.mine.records.count(user=a.user)),
    "records.search_metadata": _whole(lambda a: a.mine.records.search_metadata("who", "same", user=a.user)),
    "records.update": _whole(lambda a: a.mine.records.update(a.victim.record, user=a.user, content="mine now")),
    "records.history": _whole(lambda a: a.mine.records.history(a.victim.record, user=a.user)),
    "forget": lambda a: [
        *_everybodys(lambda memory: memory.forget)(a),
        lambda: a.mine.forget(a.victim.record, user=a.user),
        lambda: a.mine.forget(key="same_key", user=a.user),
        lambda: a.mine.forget(query="secret", user=a.user, dry_run=True),
    ],
    "records.promote": _whole(lambda a: a.mine.records.promote(a.victim.record, user=a.user)),
    "records.revive": _whole(lambda a: a.mine.records.revive(a.victim.record, user=a.user)),
    "profile": _whole(lambda a: a.mine.profile(user=a.user)),
    "documents.add": lambda a: [
        *_everybodys(lambda memory: memory.documents.add, "same:uri", "mine now")(a),
        lambda: a.mine.documents.add(a.folder / "theirs.txt", user=a.me.user),
    ],
    "documents.list": _everybodys(lambda memory: memory.documents.list),
    "documents.text": _everybodys(lambda memory: memory.documents.text, "same:uri"),
    "documents.remove": _everybodys(lambda memory: memory.documents.remove, "same:uri"),
    "graph.get": _everybodys(lambda memory: memory.graph),
    "notes.day": _whole(lambda a: a.mine.notes.day(user=a.user)),
    "notes.add_turn": _whole(lambda a: a.mine.notes.add_turn(a.user, "mine now", "")),
    "notes.export_items": _whole(lambda a: a.mine.notes.export_items(user=a.user)),
    "notes.import_items": _whole(lambda a: a.mine.notes.import_items(user=a.user, delete_missing=True)),
    "jobs.list": _whole(lambda a: a.mine.jobs.list()),
    "jobs.retry": _whole(lambda a: a.mine.jobs.retry()),
    "jobs.drop": _whole(lambda a: a.mine.jobs.drop([1])),
    "jobs.run": _whole(lambda a: a.mine.jobs.run()),
    "jobs.start_worker": _whole(lambda a: a.mine.jobs.start_worker()),
    "admin.file_sessions": _whole(lambda a: a.mine.admin.file_sessions()),
    "transfer.export": lambda a: [
        lambda: a.mine.transfer.export(a.folder / "stolen", user=a.user),
        lambda: a.mine.transfer.export(a.folder / "stolen"),
    ],
    "transfer.archive": _whole(lambda a: a.mine.transfer.archive(BytesIO(), user=a.user)),
    "transfer.import_file": _whole(lambda a: a.mine.transfer.import_file(BytesIO(b"theirs"), a.user)),
    "transfer.import_": lambda a: [
        lambda: a.mine.transfer.import_(a.folder / "theirs.txt", user=a.user),
        lambda: a.mine.transfer.import_(a.folder / "theirs.txt"),
    ],
    "privacy.purge_session": _whole(lambda a: a.mine.privacy.purge_session(a.session, user=a.user)),
    "privacy.purge_user": _whole(lambda a: a.mine.privacy.purge_user(a.user)),
    "privacy.purge_older": _whole(lambda a: a.mine.privacy.purge_older(a.user, 0, everything=True)),
    "privacy.receipts": _whole(lambda a: a.mine.privacy.receipts()),
    "privacy.retention": _whole(lambda a: a.mine.privacy.retention()),
    "schedules.run": _whole(lambda a: a.mine.schedules.run(lambda _: None)),
    "admin.doctor": lambda a: [a.mine.admin.doctor, lambda: a.mine.admin.doctor(repair=True)],
    "admin.distribute": _whole(lambda a: a.mine.admin.distribute()),
    "admin.backup": _whole(lambda a: a.mine.admin.backup(a.folder / "stolen.db")),
    "admin.restore": _whole(lambda a: a.mine.admin.restore(a.folder / "theirs.txt", overwrite=True)),
    "admin.stats": _whole(lambda a: a.mine.admin.stats()),
    "admin.owners": _whole(lambda a: a.mine.admin.owners()),
    "admin.observe": _whole(lambda a: a.mine.admin.observe(lambda _: None)),
    "access.grant": lambda a: [
        lambda: a.mine.access.grant(a.me.user or "", "read:global"),
        lambda: a.mine.access.grant(a.me.user or "", f"read:user:{a.user}"),
    ],
    "access.revoke": _whole(lambda a: a.mine.access.revoke(a.user, "read:global")),
    "access.grants": _whole(lambda a: a.mine.access.grants(user=a.user)),
    "access.audit": lambda a: [a.mine.access.audit, lambda: a.mine.access.audit(user=a.me.user)],
    "acting": lambda a: [lambda: a.mine.acting(a.user), lambda: a.mine.acting(name="x", grants=["read:store"])],
    "tenant": _whole(lambda a: a.mine.tenant("elsewhere")),
    "schedules.create": _whole(lambda a: a.mine.schedules.create(a.user, goal="mine now", cadence="every: 1h")),
    "schedules.get": _scheduled(lambda s, one, user: s.get(one, user=user)),
    "schedules.edit": _scheduled(lambda s, one, user: s.edit(one, user=user, goal="mine now")),
    "schedules.pause": _scheduled(lambda s, one, user: s.pause(one, user=user)),
    "schedules.resume": _scheduled(lambda s, one, user: s.resume(one, user=user)),
    "schedules.delete": _scheduled(lambda s, one, user: s.delete(one, user=user)),
    "schedules.runs": _scheduled(lambda s, one, user: s.runs(one, user=user)),
    "schedules.run_output": _scheduled(lambda s, one, user: s.run_output(one, user=user)),
    "schedules.search": _whole(lambda a: a.mine.schedules.search(user=a.user)),
    "schedules.count": _whole(lambda a: a.mine.schedules.count(user=a.user)),
    "schedules.due": _whole(lambda a: a.mine.schedules.due(user=a.user)),
    "schedules.claim": _whole(lambda a: a.mine.schedules.claim(user=a.user)),
    "schedules.finish": _scheduled(lambda s, one, user: s.finish(one, 1, user=user)),
    "access.keys.create": lambda a: [
        lambda: a.mine.access.keys.create("stolen", user=a.user),
        lambda: a.mine.access.keys.create("stolen", user=a.me.user, grants=["read:global"]),
        lambda: a.mine.access.keys.create("stolen", user=a.me.user, agent=a.victim.agent),
        lambda: a.mine.access.keys.create("stolen", user=a.me.user, grants=[f"read:user:{a.user}"]),
    ],
    "access.keys.list": _whole(lambda a: a.mine.access.keys(user=a.user)),
    "access.keys.revoke": _whole(lambda a: a.mine.access.keys.revoke("theirs")),
    "access.keys.acting": _whole(lambda a: a.mine.access.keys.acting("lim_" + "x" * 43)),
    "access.keys.required": _whole(lambda a: a.mine.access.keys.required()),
    "access.keys.allow_anonymous": _whole(lambda a: a.mine.access.keys.allow_anonymous()),
    "session.refresh": _handle(lambda s: s.refresh()),
    "session.recent": _handle(lambda s: s.recent()),
    "session.messages": _handle(lambda s: s.messages()),
    "session.count": _handle(lambda s: s.count()),
    "session.restore": _handle(lambda s: s.restore()),
    "session.context": _handle(lambda s: s.context("secret")),
    "session.turn": _handle(_turn),
    "session.summary": _handle(lambda s: s.summary()),
    "session.working_memory": _handle(lambda s: s.working_memory),
    "session.transcript": _handle(lambda s: s.transcript()),
    "session.export_transcript": _handle(lambda s: s.export_transcript()),
    "session.list_files": _handle(lambda s: s.list_files()),
    "session.usage": _handle(lambda s: s.usage()),
    "session.append": _handle(lambda s: s.append("user", "mine now")),
    "session.extend": _handle(lambda s: s.extend([Message.new("user", "mine now")])),
    "session.set_summary": _handle(lambda s: s.set_summary("mine now", 2)),
    "session.swap_summary": _handle(lambda s: s.swap_summary("mine now", 2, 1)),
    "session.compact": _handle(lambda s: s.compact(keep=0)),
    "session.compact_if_due": _handle(lambda s: s.compact_if_due(1)),
    "session.pause": _handle(lambda s: s.pause()),
    "session.resume": _handle(lambda s: s.resume()),
    "session.terminate": _handle(lambda s: s.terminate()),
    "session.update_metadata": _handle(lambda s: s.update_metadata({"mine": "now"})),
    "session.expire_in": _handle(lambda s: s.expire_in(None)),
    "session.set_working_memory": _handle(lambda s: s.set_working_memory("mine now")),
    "session.add_usage": _handle(lambda s: s.add_usage("mine")),
    "session.learn": _handle(lambda s: s.learn()),
    "session.new": _handle(lambda s: s.new()),
    "session.clear": _handle(lambda s: s.clear()),
    "session.delete": _handle(lambda s: s.delete()),
    "session.kv.get": _handle(lambda s: s.kv.get("same")),
    "session.kv.items": _handle(lambda s: s.kv.items()),
    "session.kv.set": _handle(lambda s: s.kv.set("same", "mine now")),
    "session.kv.delete": _handle(lambda s: s.kv.delete("same")),
    "turn.reply": _whole(_reply),
    "notes.long_term.read": _whole(lambda a: a.mine.notes.long_term(a.user).read()),
    "notes.long_term.write": _whole(lambda a: a.mine.notes.long_term(a.user).write("mine now")),
    "notes.long_term.append": _whole(lambda a: a.mine.notes.long_term(a.user).append("mine now")),
}

# With an id or without any name: not found, or answered from one's own alone.
HIDDEN: dict[str, Callable[[Attack], list[Attempt]]] = {
    "load_session": _whole(lambda a: a.mine.load_session(a.session)),
    "sessions": _whole(lambda a: a.mine.sessions(limit=1000)),
    "recall": lambda a: [
        lambda: a.mine.recall("secret", session=a.session),
        lambda: a.mine.recall(a.victim.mark, k=100),
    ],
    "remember": lambda a: [
        lambda: a.mine.remember("mine now", session=a.session),
        lambda: a.mine.remember("mine now", id=a.victim.record),
    ],
    "records.get": _whole(lambda a: a.mine.records.get(a.victim.record)),
    "records.list": lambda a: [lambda: a.mine.records(limit=1000), lambda: a.mine.records(session=a.session)],
    "records.count": lambda a: [
        lambda: [a.victim.mark] * a.mine.records.count(session=a.session),
    ],
    "records.search_metadata": lambda a: [
        lambda: a.mine.records.search_metadata("who", "same"),
        lambda: a.mine.records.search_metadata("is", a.victim.mark),
    ],
    "records.update": _whole(lambda a: a.mine.records.update(a.victim.record, content="mine now")),
    "records.history": _whole(lambda a: a.mine.records.history(a.victim.record)),
    "forget": lambda a: [
        lambda: a.mine.forget(a.victim.record),
        lambda: a.mine.forget(key="same_key", session=a.session),
        lambda: a.mine.forget(query=a.victim.mark),
    ],
    "records.promote": lambda a: [
        lambda: a.mine.records.promote(a.victim.record),
        lambda: a.mine.records.promote(a.me.record, scope="global"),
    ],
    "records.revive": _whole(lambda a: a.mine.records.revive(a.victim.record)),
    "graph.get": _whole(lambda a: a.mine.graph(entity=a.victim.mark, depth=5)),
    "access.grants": _whole(lambda a: a.mine.access.grants()),
    "privacy.purge_session": _whole(lambda a: a.mine.privacy.purge_session(a.session)),
    "schedules.get": _whole(lambda a: a.mine.schedules.get(a.schedule)),
    "schedules.edit": _whole(lambda a: a.mine.schedules.edit(a.schedule, goal="mine now")),
    "schedules.pause": _whole(lambda a: a.mine.schedules.pause(a.schedule)),
    "schedules.resume": _whole(lambda a: a.mine.schedules.resume(a.schedule)),
    "schedules.delete": _whole(lambda a: a.mine.schedules.delete(a.schedule)),
    "schedules.runs": _whole(lambda a: a.mine.schedules.runs(a.schedule)),
    "schedules.search": _whole(lambda a: a.mine.schedules.search(text="secret")),
    "schedules.due": _whole(lambda a: a.mine.schedules.due()),
    "schedules.claim": _whole(lambda a: a.mine.schedules.claim()),
    "schedules.finish": _whole(lambda a: a.mine.schedules.finish(a.schedule, 1)),
}


def test_every_operation_has_an_authorization_test() -> None:
    assert OPERATIONS.keys() == REFUSED.keys(), "a new verb, or one that is gone"
    assert HIDDEN.keys() <= OPERATIONS.keys()


def _attacks(world: World, folder: Path) -> Iterator[Attack]:
    """Each by a user, by a chat of that user, and by somebody who owns nothing."""
    pairs = [
        (me, victim)
        for me, victim in itertools.permutations(world.talkers(), 2)
        if me.tenant == victim.tenant and me.user != victim.user
    ]
    for me, victim in pairs[:: max(1, len(pairs) // 2)]:
        memory = world.on(me)
        for mine in (memory.acting(me.user), memory.acting(me.user, session=me.session), memory.acting(name="nobody")):
            yield Attack(world, me, victim, mine, folder)


@pytest.mark.slow
def test_authorizer_denies_every_operation_on_data_of_others(memory: Limpet, tmp_path: Path) -> None:
    (tmp_path / "theirs.txt").write_text("owner0x")

    def attack_all(world: World) -> None:
        for owner in world.talkers():  # what is read for the first time is read for the graph, too
            world.on(owner).graph(user=owner.user, fresh=True)
            world.plan(owner)
        # The first claim of all repairs the times of every schedule that `plan` ran ahead of the clock.
        assert world.memory.schedules.claim() == []
        world.memory.jobs.run()
        before = world.rows()
        for attack in _attacks(world, tmp_path):
            for verb in OPERATIONS:
                for attempt in REFUSED[verb](attack):
                    _is_refused(attack, verb, attempt)
                for attempt in HIDDEN.get(verb, lambda _: [])(attack):
                    _is_hidden(attack, verb, attempt)
            assert world.rows() == before, f"after all verbs by {attack.mine!r}"
        assert not (tmp_path / "stolen.db").exists()
        assert not (tmp_path / "stolen").exists()

    _in_worlds(attack_all)(memory)


def _is_refused(attack: Attack, verb: str, attempt: Attempt) -> None:
    with pytest.raises(PermissionDenied) as caught:
        attempt()
    assert caught.value.missing, verb
    assert caught.value.missing in str(caught.value)
    assert attack.world.seen_in(str(caught.value).replace(attack.session, "")) <= attack.own, verb


def _is_hidden(attack: Attack, verb: str, attempt: Attempt) -> None:
    # To remember under an id of another cannot be done at all: ids are everybody's.
    refusing = LimpetError if verb == "remember" else (NotFound, PermissionDenied)
    try:
        shown = repr(attempt())
    except refusing as error:
        shown = str(error)
    asked = (attack.session, attack.victim.record, attack.schedule)  # an id that was asked for may be told back
    for told in asked:
        shown = shown.replace(told, "")
    assert attack.world.seen_in(shown) <= attack.own, verb


def test_id_of_other_user_is_indistinguishable_from_unknown_id(memory: Limpet) -> None:
    """No answer tells whether something exists."""
    theirs = memory.session("a", "b", user="bob")
    record = memory.remember("a secret", user="bob").id
    alice = memory.acting("alice")
    unknown = "01890000-0000-7000-8000-000000000009"
    calls: list[tuple[Callable[..., object], str]] = [
        (alice.records.get, record),
        (alice.records.history, record),
        (alice.forget, record),
        (alice.records.promote, record),
        (alice.records.revive, record),
        (lambda it: alice.records.update(it, title="x"), record),
        (alice.load_session, theirs.id),
        (lambda it: alice.recall("secret", session=it), theirs.id),
        (lambda it: alice.records(session=it), theirs.id),
        (lambda it: alice.remember("x", session=it), theirs.id),
    ]
    for call, id in calls:
        assert _answer(call, id) == _answer(call, unknown)
    for name in ("bob", "nobody at all"):
        with pytest.raises(PermissionDenied, match=f"read:user:{name}"):
            alice.recall("secret", user=name)


def _answer(call: Callable[..., object], id: str) -> str:
    with suppress(LimpetError):
        return repr(call(id))
    try:
        call(id)
    except LimpetError as error:
        return f"{type(error).__name__}: {error}".replace(id, "…")
    raise AssertionError("it changed its mind")
