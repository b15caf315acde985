"""May they? One question, answered from values alone."""

from __future__ import annotations

from collections.abc import Iterable

from limpet.model.access import AccessRequest, Grant, Principal, Reach, Right

OPERATOR = tuple(Grant(right, Reach.STORE) for right in Right)
_NAME_FIELDS = {Reach.SESSION: "session", Reach.USER: "user", Reach.AGENT: "agent"}


def find_missing_grant(principal: Principal, need: AccessRequest, stored: Iterable[Grant] = ()) -> Grant | None:
    """The narrowest grant that would do, or None where nothing is missing."""
    if is_owner(principal, need) or any(covers(principal, grant, need) for grant in (*principal.grants, *stored)):
        return None
    return Grant(need.right, need.reach, _request_target(need))


def is_owner(principal: Principal, need: AccessRequest) -> bool:
    """What needs no grant: the session, all of the user, or the agent that acts."""
    if need.reach is Reach.SESSION and principal.session is not None:
        return need.session == principal.session and (principal.user is None or need.user in (None, principal.user))
    if need.reach in (Reach.SESSION, Reach.USER):
        return principal.session is None and principal.user is not None and need.user == principal.user
    if need.reach is Reach.AGENT:
        # What an agent knows is for all its users to be told, and for none of them to change.
        alone = principal.user is None
        return need.agent == principal.agent is not None and (alone or need.right is Right.READ)
    return False


def covers(principal: Principal, grant: Grant, need: AccessRequest) -> bool:
    if grant.right is not need.right:
        return False
    if grant.reach is Reach.STORE:
        return True
    if grant.reach is Reach.GLOBAL:
        return need.reach is not Reach.STORE
    if grant.reach is Reach.USER:
        of = principal.user if grant.of is None else grant.of
        return need.reach in (Reach.USER, Reach.SESSION) and of is not None and need.user == of
    return need.reach is grant.reach and _request_target(need) == _grant_target(principal, grant) is not None


def _grant_target(principal: Principal, grant: Grant) -> str | None:
    return grant.of if grant.of is not None else getattr(principal, _NAME_FIELDS[grant.reach])


def _request_target(need: AccessRequest) -> str | None:
    name: str | None = getattr(need, _NAME_FIELDS[need.reach]) if need.reach in _NAME_FIELDS else None
    return name


def can_grant(principal: Principal, grant: Grant, stored: Iterable[Grant] = ()) -> bool:
    """Whether one has what one gives: nobody hands out more than their own."""
    need = AccessRequest(
        grant.right, grant.reach, **({_NAME_FIELDS[grant.reach]: grant.of} if grant.reach in _NAME_FIELDS else {})
    )
    return any(covers(principal, each, need) for each in (*principal.grants, *stored))
