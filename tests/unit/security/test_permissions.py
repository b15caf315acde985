"""Who may what, from values alone."""

from __future__ import annotations

import pytest

from limpet.errors import InvalidInput, InvalidKey
from limpet.model.access import AccessRequest, Grant, Principal, Reach, Right
from limpet.security.authorize import OPERATOR, can_grant, find_missing_grant

CHAT = "01890000-0000-7000-8000-000000000001"
OTHER = "01890000-0000-7000-8000-000000000002"
READ, WRITE = Right.READ, Right.WRITE

ALICE = Principal("alice", "t", user="alice")
IN_CHAT = Principal("alice", "t", user="alice", session=CHAT)
CODER = Principal("coder", "t", agent="coder")
ALICE_WITH_CODER = Principal("alice", "t", user="alice", agent="coder")
NOBODY = Principal("nobody", "t")


def need(right: Right, reach: Reach, user: str | None = None, session: str | None = None) -> AccessRequest:
    return AccessRequest(right, reach, user, "coder" if reach is Reach.AGENT else None, session)


def lacks(who: Principal, wanted: AccessRequest, *stored: str) -> str | None:
    found = find_missing_grant(who, wanted, [Grant.parse(each) for each in stored])
    return None if found is None else str(found)


@pytest.mark.parametrize("right", [READ, WRITE])
def test_principal_needs_no_grant_for_own_data(right: Right) -> None:
    assert lacks(ALICE, need(right, Reach.USER, "alice")) is None
    assert lacks(ALICE, need(right, Reach.SESSION, "alice", CHAT)) is None
    assert lacks(IN_CHAT, need(right, Reach.SESSION, "alice", CHAT)) is None
    assert lacks(CODER, need(right, Reach.AGENT)) is None


@pytest.mark.parametrize("right", [READ, WRITE])
def test_access_check_names_narrowest_missing_grant(right: Right) -> None:
    assert lacks(ALICE, need(right, Reach.USER, "bob")) == f"{right}:user:bob"
    assert lacks(ALICE, need(right, Reach.SESSION, "bob", OTHER)) == f"{right}:session:{OTHER}"
    assert lacks(ALICE, need(right, Reach.GLOBAL)) == f"{right}:global"
    assert lacks(ALICE, need(right, Reach.AGENT)) == f"{right}:agent:coder"
    assert lacks(ALICE, need(right, Reach.STORE)) == f"{right}:store"
    assert lacks(IN_CHAT, need(right, Reach.USER, "alice")) == f"{right}:user:alice"
    assert lacks(IN_CHAT, need(right, Reach.SESSION, "alice", OTHER)) == f"{right}:session:{OTHER}"
    assert lacks(NOBODY, need(right, Reach.USER, "alice")) == f"{right}:user:alice"


def test_session_of_another_user_with_same_id_needs_grant() -> None:
    assert lacks(IN_CHAT, need(READ, Reach.SESSION, "bob", CHAT)) == f"read:session:{CHAT}"


def test_user_of_agent_may_read_but_not_write_agent_memory() -> None:
    assert lacks(ALICE_WITH_CODER, need(READ, Reach.AGENT)) is None
    assert lacks(ALICE_WITH_CODER, need(WRITE, Reach.AGENT)) == "write:agent:coder"


def test_wider_grant_covers_narrower_one_of_same_right() -> None:
    wanted = [need(READ, Reach.SESSION, "bob", OTHER), need(READ, Reach.USER, "bob"), need(READ, Reach.AGENT)]
    wanted += [need(READ, Reach.GLOBAL), need(READ, Reach.STORE)]
    covered = {
        f"read:session:{OTHER}": [True, False, False, False, False],
        "read:user:bob": [True, True, False, False, False],
        "read:agent:coder": [False, False, True, False, False],
        "read:global": [True, True, True, True, False],
        "read:store": [True, True, True, True, True],
        "write:store": [False] * 5,
        "read:user": [False] * 5,
        "read:user:carol": [False] * 5,
    }
    for grant, answers in covered.items():
        assert [lacks(ALICE, each, grant) is None for each in wanted] == answers, grant


def test_grant_without_name_applies_to_own_data() -> None:
    assert lacks(IN_CHAT, need(READ, Reach.USER, "alice"), "read:user") is None
    assert lacks(NOBODY, need(READ, Reach.USER, None), "read:user") == "read:user"


def test_grant_parse_and_str_round_trip() -> None:
    for text in ("read:session", "write:user", "read:global", "write:store", "read:user:a:b", f"read:session:{CHAT}"):
        assert str(Grant.parse(text)) == text
    assert Grant.parse("read:user:a:b").of == "a:b"
    for wrong in ("", "read", "read:", "read:all", "own:user", "read:global:x", "READ:user", "read:store:", 5, None):
        with pytest.raises(InvalidInput):
            Grant.parse(wrong)
    for text in ("read:user:", "read:user: x", "read:session:x"):
        with pytest.raises(InvalidKey):
            Grant.parse(text)


def test_principal_can_grant_only_its_own_rights() -> None:
    tenant_admin = Principal("root", "t", user="root", grants=(Grant.parse("write:global"),))
    assert can_grant(tenant_admin, Grant.parse("write:user:bob"))
    assert not can_grant(tenant_admin, Grant.parse("read:user:bob"))
    assert not can_grant(tenant_admin, Grant.parse("write:store"))
    assert can_grant(Principal("operator", "t", grants=OPERATOR), Grant.parse("write:store"))
    assert not can_grant(ALICE, Grant.parse("read:user:alice"))


def test_operator_needs_both_rights_on_store() -> None:
    assert Principal("operator", "t", grants=OPERATOR).is_operator
    assert not Principal("reader", "t", grants=OPERATOR[:1]).is_operator
    assert not ALICE.is_operator
