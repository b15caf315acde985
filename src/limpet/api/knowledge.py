"""What becomes of records with time, by hand: promoted, had back when they faded, told as a profile."""

from __future__ import annotations

from typing import Literal

from limpet.api.base import BaseOperations
from limpet.errors import InvalidInput
from limpet.model.ids import check_id
from limpet.model.profile import Profile
from limpet.model.record import Record
from limpet.model.text import check_name, short_repr
from limpet.security.operation import operation


class KnowledgeOperations(BaseOperations):
    """The verbs on what records become."""

    @operation("promote")
    def promote(
        self,
        id: str,
        *,
        user: str | None = None,
        agent: str | None = None,
        scope: Literal["user", "global"] | None = None,
    ) -> Record:
        """Make lasting knowledge of an episodic record, however sure it is: a copy that is linked to its origin.

        The copy is semantic, or procedural for a failure, a fix and a command result; where the same is known already,
        that record is strengthened. It is seen by nobody who could not see the record before, unless you say so:
        ``scope="user"`` makes what one chat knows known in all chats of its user, ``scope="global"`` to the whole
        tenant. Promoting a second time gives the record of the first.
        """
        from limpet.knowledge.promote import promote  # late: most programs leave it to the job

        if scope not in (None, "user", "global"):
            raise InvalidInput(f"scope is 'user', 'global' or left out, not {short_repr(scope)}")
        return promote(self._runtime, self._scope(user=user, agent=agent), check_id(id, "record id"), scope)

    @operation("revive")
    def revive(self, id: str, *, user: str | None = None, agent: str | None = None) -> Record:
        """Bring back a record that was archived because nobody used it. It begins its time anew."""
        from limpet.knowledge.fade import revive

        return revive(self._runtime, self._scope(user=user, agent=agent), check_id(id, "record id"), self._cut)

    @operation("profile")
    def profile(self, user: str) -> Profile:
        """A short standing text about a user, made of what is known in all chats, with the ids of its sources.

        It is kept, and made anew when something it is made from has changed.
        """
        from limpet.knowledge.profiles import load_profile

        return load_profile(self._runtime, self._scope(user=check_name(user, "user")))
