"""A call at the gate: whose memory it means, read from its arguments by the table of verbs."""

from __future__ import annotations

from typing import Any

from limpet.errors import LimpetError
from limpet.model.access import Need, Reach, Right
from limpet.model.ids import checked_id
from limpet.model.record import Record
from limpet.model.scope import Scope
from limpet.model.text import checked_name
from limpet.security.operation import Passage
from limpet.security.operations import GIVEN, On, Verb, When

Target = tuple[str | None, str | None, str | None, str | None]  # user, agent, session, record

_AGENTS_OWN = (
    On.HOME,
    On.REACH,
    On.ID,
    On.ID_OR_HOME,
)  # where agent= means the agent's memory, not a choice among a user's
_FAR = (On.REACH, On.FILTER, On.ID)


class Call:
    """One call of a verb; made once."""

    __slots__ = ("args", "kwargs", "passage", "subject", "verb")

    def __init__(
        self, passage: Passage, verb: Verb, subject: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self.passage = passage
        self.verb = verb
        self.subject = subject
        self.args = args
        self.kwargs = kwargs

    def made(self) -> Any:
        return self.passage.method(self.subject, *self.args, **self.kwargs)

    def given(self, name: str) -> Any:
        """What was given under this name, or None."""
        place = self.passage.places.get(name)
        return self.args[place] if place is not None and place < len(self.args) else self.kwargs.get(name)

    def fill(self, name: str, value: object) -> None:
        place = self.passage.places.get(name)
        if place is not None and place < len(self.args):
            self.args = (*self.args[:place], value, *self.args[place + 1 :])
        elif name in self.passage.arguments:
            self.kwargs = {**self.kwargs, name: value}

    @property
    def says_everybody(self) -> bool:
        """The whole tenant, or more, is meant, and not only fallen into."""
        return self.verb.on is On.WHOLE or (self.given("scope") == "global" and not self._is_by_id)

    @property
    def reaches_far(self) -> bool:
        """Without a user it is about all that the caller may see."""
        return self.verb.on in _FAR or self._is_by_id

    @property
    def may_be_an_agents(self) -> bool:
        return self.verb.on in _AGENTS_OWN and "agent" in self.passage.arguments

    @property
    def _is_by_id(self) -> bool:
        return self.verb.on is On.ID or (self.verb.on is On.ID_OR_HOME and self.given("id") is not None)

    def place(self) -> Need:
        """Whose memory the arguments name, by the narrowest of them. What is compared must be a name, or is refused."""
        if self.verb.on is On.HANDLE:
            scope = self._scope
            return Need(Right.READ, Reach.SESSION, scope.user, scope.agent, scope.session)
        user, agent, session = self._names()
        if self.given("scope") == "global" and not self._is_by_id:
            reach = Reach.GLOBAL
        elif session is not None:
            reach = Reach.SESSION
        elif user is not None and self.verb.on is not On.WHOLE:
            reach = Reach.USER
        elif agent is not None and self.verb.on in _AGENTS_OWN:
            reach = Reach.AGENT
        else:
            reach = Reach.GLOBAL
        return Need(Right.READ, reach, user, agent, session)

    def needs(self, place: Need) -> list[Need]:
        """Everything this call needs there."""
        also = [when.needs for when in self.verb.when if _applies(when, self.given(when.argument))]
        return [
            Need(each.right, each.reach or place.reach, place.user, place.agent, place.session)
            for each in (*self.verb.needs, *also)
        ]

    def target(self, answer: Any = None) -> Target:
        """What the audit names: what was found, or else what was asked for, as far as that is names and ids."""
        if self.verb.on is On.HANDLE:
            scope = self._scope
            return scope.user, scope.agent, scope.session, None
        if isinstance(answer, Record):
            home = answer.home.scope
            return home.user, home.agent, home.session, answer.id
        found = getattr(answer, "_scope", None)  # a session's handle knows whose it is
        return (found.user, found.agent, found.session, None) if isinstance(found, Scope) else self._asked()

    @property
    def _scope(self) -> Scope:
        scope: Scope = self.subject._scope  # noqa: SLF001  # what every object with a gate of its own has
        return scope

    def _names(self) -> tuple[str | None, str | None, str | None]:
        user, agent, session = self.given("user"), self.given("agent"), self.given("session")
        session = self.given("session_id") if session is None else session
        return (
            None if user is None else checked_name(user, "user"),
            None if agent is None else checked_name(agent, "agent"),
            None if session is None else checked_id(session, "session id"),
        )

    def _asked(self) -> Target:
        """What is neither a name nor an id might be anything, a text too: left out."""
        try:
            user, agent, session = self._names()
        except LimpetError:
            user = agent = session = None
        record = self.given("id")
        try:
            record = None if record is None else checked_id(record, "record id")
        except LimpetError:
            record = None
        return user, agent, session, record


def _applies(when: When, given: Any) -> bool:
    if when.value is GIVEN:
        return given is not None
    if when.value is True:
        return given is not None and given is not False
    return given is when.value or (isinstance(given, str) and given == when.value)
