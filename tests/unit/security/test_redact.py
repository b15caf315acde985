"""Secrets are masked, and what only looks like one stays."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limpet.security.redact import redact
from tests.examples import examples
from tests.unit.security.secrets import look_alikes, secrets, some

SECRETS = secrets()
LOOK_ALIKES = look_alikes()


@pytest.mark.parametrize(("text", "secret"), [case[1:] for case in SECRETS], ids=[case[0] for case in SECRETS])
def test_redact_masks_secret(text, secret):
    redacted = redact(text)
    assert secret not in redacted.text
    assert len(redacted.found) == 1
    assert f"[secret: {redacted.found[0]}]" in redacted.text


@pytest.mark.parametrize("text", LOOK_ALIKES)
def test_redact_keeps_lookalikes(text):
    assert redact(text) == (text, ())


def test_redact_precision_and_recall(capsys):
    caught = sum(secret not in redact(text).text for _, text, secret in SECRETS)
    wrong = sum(bool(redact(text).found) for text in LOOK_ALIKES)
    recall, precision = caught / len(SECRETS), caught / (caught + wrong)
    with capsys.disabled():
        print(
            f"\nredact: {len(SECRETS)} secrets, {len(LOOK_ALIKES)} look-alikes:"
            f" precision {precision:.3f}, recall {recall:.3f}"
        )
    assert len(SECRETS) >= 60
    assert len(LOOK_ALIKES) >= 60
    assert precision >= 0.97
    assert recall >= 0.97


def test_redact_leaves_surrounding_text_unchanged():
    text = f"before\npostgresql://app:{some(12)}@db/app after"
    redacted = redact(text)
    assert redacted.text == "before\npostgresql://app:[secret: password in a url]@db/app after"


def test_redact_lists_secrets_in_order():
    text = f"password: {'hunter' + '22'} and ghp{'_' + some(36)}"
    assert redact(text).found == ("password", "github token")


PIECES = st.one_of(
    st.text(max_size=30),
    st.sampled_from([text for _, text, _ in SECRETS]),
    st.sampled_from(LOOK_ALIKES),
    st.sampled_from(
        ["password: ", "my password is ", "token=", "Bearer ", "://a:", "@b", "[secret: ", "]", "sk-", "'", '"', "\n"]
    ),
)


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(PIECES, max_size=6).map("".join))
def test_redact_is_idempotent(text):
    once = redact(text)
    assert redact(once.text) == (once.text, ())


HOSTILE = (
    *(
        "sk-",
        "password ",
        "password: ",
        "eyJ",
        "a.b-",
        "://",
        "1",
        "1 ",
        "token is ",
        "api_",
        "gl",
        "a:",
        "Bearer ",
        "--token ",
    ),
    *(
        "bearer" + " " * 50,
        "M" + "a" * 30,
        "xox",
        "-----BEGIN PRIVATE " + "KEY-----",
        "http://aaaa:",
        "eyJaaaaaaaaa.",
        "A",
        "a-",
        "_",
    ),
    *("abc ", "1. abc\n", "seed phrase ", "curl -u ", "Cookie: a=", "a_pass", "mot de passe de ", "login is a / "),
)


@pytest.mark.slow
@pytest.mark.parametrize("piece", HOSTILE)
def test_redact_runs_in_linear_time(piece):
    def seconds(size: int) -> float:
        text = (piece * (size // len(piece) + 1))[:size]
        begin = time.process_time()
        redact(text)
        return time.process_time() - begin

    small = min(seconds(40_000) for _ in range(2))
    assert seconds(320_000) < 8 * max(small, 0.02) * 3
