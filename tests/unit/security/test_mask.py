"""Secrets are masked, and what only looks like one stays."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from limpet.security.mask import _load_rules, mask_secrets
from tests.cpu_time import assert_linear
from tests.examples import examples
from tests.unit.security.said_secrets import ORDINARY, SAID
from tests.unit.security.secrets import HEX, URL, look_alikes, secrets, some

SECRETS = secrets()
LOOK_ALIKES = look_alikes()


@pytest.mark.parametrize(("text", "secret"), [case[1:] for case in SECRETS], ids=[case[0] for case in SECRETS])
def test_mask_secrets_replaces_secret(text, secret):
    masked = mask_secrets(text)
    assert secret not in masked.text
    assert len(masked.found) == 1
    assert f"[secret: {masked.found[0]}]" in masked.text


def test_text_with_a_sign_is_searched_for_the_patterns_of_the_sign():
    rules = _load_rules()
    for pattern in rules.patterns:
        for sign in pattern.signs or ("",):
            assert pattern in rules.select_patterns(f"Well {sign.upper()} now"), sign
    assert {sign for each in rules.select_patterns("0") for sign in each.signs} == {""}


@pytest.mark.parametrize("text", LOOK_ALIKES)
def test_mask_secrets_keeps_lookalikes(text):
    assert mask_secrets(text) == (text, ())


@pytest.mark.parametrize(("text", "secret"), SAID)
def test_password_or_code_said_in_passing_is_masked(text, secret):
    assert secret not in mask_secrets(text).text


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_sentence_about_passwords_codes_and_keys_stays(text):
    assert mask_secrets(text).text == text


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("use {} here", "nvapi" + "-" + some(64, URL)),
        ("use {} here", "CLOJARS" + "_" + some(60, HEX)),
        ("use {} here", "acme" + "_live_" + some(40)),
        ("Authorization: Token {}", some(40, HEX)),
        ("aws configure set aws_secret_access_key {}", some(40)),
        ("storage account keys: {}", some(86) + "=="),
    ],
)
def test_token_of_a_maker_without_a_form_of_its_own_is_masked(text, secret):
    assert secret not in mask_secrets(text.format(secret)).text


def test_secret_is_masked_where_the_text_repeats_it():
    masked = mask_secrets("My first pet was Mittens2014. The password of my phone: Mittens2014, and Mittens2014!")
    assert "Mittens" not in masked.text


def test_mask_secrets_precision_and_recall(capsys):
    caught = sum(secret not in mask_secrets(text).text for _, text, secret in SECRETS)
    wrong = sum(bool(mask_secrets(text).found) for text in LOOK_ALIKES)
    recall, precision = caught / len(SECRETS), caught / (caught + wrong)
    with capsys.disabled():
        print(
            f"\nmask_secrets: {len(SECRETS)} secrets, {len(LOOK_ALIKES)} look-alikes:"
            f" precision {precision:.3f}, recall {recall:.3f}"
        )
    assert len(SECRETS) >= 60
    assert len(LOOK_ALIKES) >= 60
    assert precision >= 0.97
    assert recall >= 0.97


def test_mask_secrets_leaves_surrounding_text_unchanged():
    text = f"before\npostgresql://app:{some(12)}@db/app after"
    masked = mask_secrets(text)
    assert masked.text == "before\npostgresql://app:[secret: password in a url]@db/app after"


def test_mask_secrets_lists_secrets_in_order():
    text = f"password: {'hunter' + '22'} and ghp{'_' + some(36)}"
    assert mask_secrets(text).found == ("password", "github token")


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
@example("ALARM CODEIS000JSESSIONID=1E21B9428EFAE8DA5AE8BAA2640F5236")  # the pin hides where the cookie begins
def test_mask_secrets_is_idempotent(text):
    once = mask_secrets(text)
    assert mask_secrets(once.text) == (once.text, ())


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
    *("password a b1 ", "pin for my ", "code of the door ", "1234, that's ", "a1b2c3, it's my ", "acme_a1_", "a1: "),
)


@pytest.mark.slow
@pytest.mark.parametrize("piece", HOSTILE)
def test_mask_secrets_runs_in_linear_time(piece):
    assert_linear(mask_secrets, piece * (40_000 // len(piece)), piece * (320_000 // len(piece)))
