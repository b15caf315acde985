"""The one place every public call comes through: is it allowed, and who made it?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from limpet.errors import LimpetError, PermissionDenied
from limpet.model.access import Grant, Need, Principal, Reach, Right
from limpet.model.audit import AuditEntry, Outcome
from limpet.model.scope import Level, Scope, Space
from limpet.model.telemetry import Kind, Work
from limpet.security.audit import Ledger, Line, tell
from limpet.security.call import Call
from limpet.security.operation import Passage
from limpet.security.operations import VERBS, On, Verb
from limpet.security.permissions import gives, missing
from limpet.security.telemetry import Observers, counted
from limpet.store.base import Store

_DONE = Outcome.DONE.value
_REACHES = {Level.AGENT: Reach.AGENT, Level.GLOBAL: Reach.GLOBAL}

Stored = Callable[[Principal], tuple[Grant, ...]]


class Gate:
    """For one principal and one store. What is stored about them is asked for only where their own is not enough."""

    def __init__(
        self, principal: Principal, store: Store, ledger: Ledger | None, stored: Stored, observers: Observers
    ) -> None:
        self.principal = principal
        self._store = store
        self._ledger = ledger
        self._stored = stored
        self._observers = observers
        self._checks = not principal.may_all

    def call(self, passage: Passage, subject: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        call = Call(passage, VERBS[passage.name], subject, args, kwargs)
        if not self._observers.on or call.verb.silent:
            return self._passed(call)
        with self._observers.during(self._work(call)) as seen:
            answer = self._passed(call)
            seen.count = counted(answer)
            return answer

    def _passed(self, call: Call) -> Any:
        verb, ledger = call.verb, self._ledger
        if self._checks and not self._is_own(verb, call.subject):
            try:
                self._admit(call)
            except LimpetError as error:
                self._failed(call, error)
                raise
        if ledger is None or verb.silent or not (verb.writes or verb.grave or ledger.config.reads):
            return call.made()
        if verb.grave or (verb.writes and ledger.is_due):
            return self._written(ledger, call)
        try:
            answer = call.made()
        except Exception as error:  # why: whatever it was, who tried is noted; it goes on as it came
            self._failed(call, error)
            raise
        ledger.note(self._line(call, answer))
        if not verb.writes and ledger.is_overdue:
            ledger.flush()
        return answer

    def visible(self, spaces: Sequence[Space]) -> tuple[Space, ...]:
        """Those of them whose memory belongs into what this caller reads: of what is shared, only what was granted."""
        if not self._checks:
            return tuple(spaces)
        needs = {
            space: Need(Right.READ, _REACHES[space.level], agent=space.owner or None)
            for space in spaces
            if space.level in _REACHES
        }
        lacking = {space for space, need in needs.items() if missing(self.principal, need) is not None}
        stored = self._stored(self.principal) if lacking else ()
        hidden = {space for space in lacking if missing(self.principal, needs[space], stored) is not None}
        return tuple(space for space in spaces if space not in hidden)

    def check_gift(self, grant: Grant) -> None:
        """Nobody hands out more than they have."""
        if self._checks and not gives(self.principal, grant, self._stored(self.principal)):
            me = self.principal.name
            raise PermissionDenied(f"{me} does not have {grant}, and so can neither give nor take it", str(grant))

    def check_has(self, needs: Iterable[Need]) -> None:
        """Nobody lets a key do what they may not do themselves."""
        for need in needs if self._checks else ():
            lacks = self._lacks(need)
            if lacks is not None:
                raise PermissionDenied(_refusal(self.principal, "a key that may do this", lacks), str(lacks))

    # Is it allowed?

    def _is_own(self, verb: Verb, subject: Any) -> bool:
        """The usual case, quickly: a handle of one's own session."""
        me = self.principal
        if verb.on is not On.HANDLE or verb.when or me.session is not None or me.user is None:
            return False
        scope: Scope = subject._scope  # noqa: SLF001  # what every object with a gate of its own has
        return scope.user == me.user and scope.tenant == me.tenant

    def _admit(self, call: Call) -> None:
        """Fills in one's own user, or agent, where nobody was named. Raises PermissionDenied."""
        if call.passage.name == "tenant" and call.given("name") == self.principal.tenant:
            return
        place, filled = self._place(call)
        for need in call.needs(place):
            lacks = self._lacks(need)
            if lacks is not None:
                raise PermissionDenied(_refusal(self.principal, call.passage.name, lacks), str(lacks))
        if filled is not None:
            call.fill(filled, getattr(place, filled))

    def _lacks(self, need: Need) -> Grant | None:
        me = self.principal
        return None if missing(me, need) is None else missing(me, need, self._stored(me))

    def _place(self, call: Call) -> tuple[Need, str | None]:
        """Whose memory is meant, and what of one's own has to be filled in: the user, or the agent who acts alone."""
        place, me = call.place(), self.principal
        if call.verb.on is On.HANDLE or place.user is not None:
            return place, None
        if me.user is not None and place.reach is Reach.SESSION:
            # Named without its user it is one's own, unless a grant reaches any session, or just that one.
            if place.session != me.session and self._has_all(call, place):
                return place, None
            return replace(place, user=me.user), "user"
        if place.reach is not Reach.GLOBAL or call.says_everybody:
            return place, None
        if call.reaches_far and self._has_all(call, place):
            return place, None
        if me.user is not None:
            return replace(place, reach=Reach.USER, user=me.user), "user"
        if me.agent is not None and call.may_be_an_agents:
            return replace(place, reach=Reach.AGENT, agent=me.agent), "agent"
        return place, None

    def _has_all(self, call: Call, place: Need) -> bool:
        return all(self._lacks(replace(place, right=each.right)) is None for each in call.verb.needs)

    # Who made it?

    def _work(self, call: Call) -> Work:
        """What observers are told: names only if they are wanted, and none of whom this call wants forgotten."""
        name, me = call.passage.name, self.principal
        if not self._observers.names or call.verb.unnames:
            return Work(kind=Kind.VERB, name=name, tenant=me.tenant)
        user, agent, session, record = call.target()
        return Work(
            kind=Kind.VERB,
            name=name,
            tenant=me.tenant,
            principal=me.name,
            user=user,
            agent=agent,
            session=session,
            record=record,
        )

    def _written(self, ledger: Ledger, call: Call) -> Any:
        """Beside the deed, in its transaction: its own row if it is grave, and all that was counted so far."""
        grave, line = call.verb.grave, self._line(call)
        counted: list[AuditEntry] = ledger.take() if ledger.config.enabled else []
        own = [ledger.row(line)] if grave and ledger.config.enabled else []
        done = False
        try:
            with self._store.beside(lambda tx: ledger.add(tx, [*counted, *own])) as written:
                try:
                    answer = call.made()
                finally:
                    done = written()
        except BaseException as error:  # why: an interrupt must not lose what was counted; it goes on as it came
            if not done:
                ledger.put_back(counted)
            if isinstance(error, Exception):
                self._failed(call, error)
            raise
        if not done:
            ledger.write([*counted, *own])
        if not grave:
            ledger.note(self._line(call, answer))
        elif ledger.config.log:
            tell(_unnamed(line, answer, self.principal) if call.verb.unnames else line)
        return answer

    def _failed(self, call: Call, error: Exception) -> None:
        """Written before it is answered if it is grave or was refused; and none is the reason of another error."""
        ledger, line = self._ledger, self._line(call, error=error)
        if ledger is None:
            return
        if not call.verb.grave and line.outcome != Outcome.REFUSED:
            ledger.note(line)
            return
        if ledger.config.log:
            tell(line)
        if not ledger.config.enabled:
            return
        if line.outcome == Outcome.REFUSED:
            ledger.refuse(line)
        else:
            ledger.write([ledger.row(line)])

    def _line(self, call: Call, answer: Any = None, error: Exception | None = None) -> Line:
        me, outcome, lacks = self.principal, _DONE, None
        if isinstance(error, PermissionDenied):
            outcome, lacks = Outcome.REFUSED.value, error.missing
        elif error is not None:
            outcome = Outcome.FAILED.value
        user, agent, session, record = call.target(answer)
        name, access = call.passage.name, call.verb.access
        return Line(me.name, me.tenant, name, access, outcome, user, agent, session, record, lacks)


def _unnamed(line: Line, answer: Any, me: Principal) -> Line:
    receipt = str(answer.id)
    by = receipt if line.user in (line.principal, me.user) else line.principal
    return line._replace(principal=by, user=None, session=None, record=receipt)


def _refusal(me: Principal, verb: str, lacks: Grant) -> str:
    way = f"act with grants=['{lacks}']" if me.user is None else f"hf.grant({me.user!r}, '{lacks}') gives it"
    return f"{verb} needs {lacks}, which {me.name} does not have; {way}"
