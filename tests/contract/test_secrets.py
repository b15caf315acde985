"""Secrets stay in the message they were said in: nothing that outlives it, or is in every prompt, repeats them."""

from __future__ import annotations

import json

import pytest

from limpet import Config, Limpet, Message
from limpet.providers.fakes import FakeLlm
from limpet.providers.llm import Completion

PASSWORD = "Hunter2" + "X9!"
SAID = f"Deploy with DB_PASS={PASSWORD} please"
MASKED = "Deploy with DB_PASS=[secret: password] please"


def test_remember_masks_secrets(memory: Limpet) -> None:
    record = memory.remember(SAID, user="alice", key="deploy", title=f"pw: {PASSWORD}")
    assert (record.content, record.title) == (MASKED, "pw: [secret: password]")
    again = memory.remember(f"mot de passe : {PASSWORD}", user="alice", key="deploy")
    assert again.content == "mot de passe : [secret: password]"
    assert PASSWORD not in repr(memory.records.history(record.id, user="alice"))
    assert PASSWORD not in memory.context("deploy", user="alice").text


def test_updated_record_masks_secrets(memory: Limpet) -> None:
    record = memory.remember("Alice deploys on Fridays", user="alice")
    changed = memory.records.update(record.id, user="alice", content=SAID, title=f"Passwort: {PASSWORD}")
    assert (changed.content, changed.title) == (MASKED, "Passwort: [secret: password]")


def test_references_of_record_mask_secrets(memory: Limpet) -> None:
    given = ["deploy.sh", f"DB_PASS={PASSWORD}", f"DB_PASS={PASSWORD}#2"]
    masked = ("deploy.sh", "DB_PASS=[secret: password]")
    record = memory.remember("Deploy on Fridays", user="alice", references=given[:2])
    assert record.references == masked
    assert memory.records.update(record.id, user="alice", references=given).references == masked


def test_remembered_secret_has_one_record_whether_masked_or_not(memory: Limpet) -> None:
    first = memory.remember(SAID, user="alice", idempotency_key="once")
    assert memory.remember(SAID, user="alice", idempotency_key="once").id == first.id
    assert memory.remember(MASKED, user="alice").id == first.id


def test_quoted_summary_masks_secrets(memory: Limpet) -> None:
    session = memory.session("t", "1", user="alice")
    session.extend([Message.new("user", SAID), Message.new("assistant", f"Done with {PASSWORD} as the password.")])
    session.compact(keep=0)
    summary = session.summary()
    assert summary is not None
    assert MASKED in summary.text
    assert PASSWORD not in summary.text
    assert session.messages()[0].text == SAID


def test_summary_by_the_caller_masks_secrets(memory: Limpet) -> None:
    session = memory.session("t", "1", user="alice")
    session.extend([Message.new("user", "Deploy"), Message.new("assistant", "Done")])
    assert session.set_summary(SAID, 1)
    assert session.swap_summary(f"{SAID} again", 2, 1)
    summary = session.summary()
    assert summary is not None
    assert summary.text == f"{MASKED} again"


def test_summary_by_a_model_neither_shows_it_secrets_nor_keeps_them() -> None:
    llm = FakeLlm(Completion(f"They deploy with DB_PASS={PASSWORD}, it said."))
    with Limpet.open(":memory:", config=Config.load(overrides={"jobs.worker": False}), llm=llm) as memory:
        session = memory.session("t", "1", user="alice")
        session.extend([Message.new("user", SAID), Message.new("assistant", "Done")])
        session.compact(keep=0)
        summary = session.summary()
    assert summary is not None
    assert summary.text == "They deploy with DB_PASS=[secret: password], it said."
    asked = json.dumps([message.text for request in llm.calls for message in request.messages])
    assert MASKED in asked
    assert PASSWORD not in asked


def test_summary_that_is_written_again_masks_secrets(memory: Limpet) -> None:
    session = memory.session("t", "1", user="alice")
    session.extend([Message.new("user", SAID), Message.new("user", "I live in Oslo."), Message.new("assistant", "Ok")])
    session.compact(keep=0)
    record = memory.remember("I live in Oslo.", user="alice")
    memory.forget(record.id, user="alice", everywhere=True)
    summary = session.summary()
    assert summary is not None
    assert "Oslo" not in summary.text
    assert MASKED in summary.text


@pytest.mark.parametrize("text", ["my PIN is 4821", "Cookie: sid=abc123def", "pw: Hunter22"])
def test_secrets_are_kept_where_the_setting_says_so(text: str) -> None:
    config = Config.load(overrides={"learn.secrets": False, "jobs.worker": False})
    with Limpet.open(":memory:", config=config) as memory:
        assert memory.remember(text, user="alice").content == text
        session = memory.session("t", "1", user="alice")
        session.extend([Message.new("user", text), Message.new("assistant", "Ok")])
        session.compact(keep=0)
        summary = session.summary()
        assert summary is not None
        assert text in summary.text


LEARNED = {
    "a line break": (f"password:\n{PASSWORD}", PASSWORD),
    "netrc": (f"machine github.com login me password Tr0ub4dor{PASSWORD}", f"Tr0ub4dor{PASSWORD}"),
    "a pin": ("my PIN is 4821", "4821"),
    "a code that ends a sentence": ("The alarm code is 774411.", "774411"),
    "a putty key": (f"PuTTY-User-Key-File-2: ssh-rsa\nPrivate-Lines: 14\n{'aB3x' * 15}", "aB3x" * 15),
    "an iban": ("my IBAN is DE89370400440532013000", "DE89370400440532013000"),
}


@pytest.mark.parametrize(("text", "secret"), LEARNED.values(), ids=list(LEARNED))
def test_learned_text_has_no_secret_that_only_the_whole_message_shows(memory: Limpet, text: str, secret: str) -> None:
    session = memory.session("t", "1", user="alice")
    for said in (text, f"Remember this, I prefer tea: {text}"):
        with session.turn(said) as turn:
            turn.reply("Ok")
    session.learn()
    memory.jobs.run()
    records = memory.records(user="alice", history=True)
    assert any("tea" in record.content for record in records)
    assert secret not in repr(records)
    assert secret not in repr(memory.graph(user="alice"))
    assert secret in session.messages()[0].text


def test_fact_with_a_masked_secret_is_learned_and_forgotten_with_the_words_it_came_from(memory: Limpet) -> None:
    session = memory.session("t", "1", user="alice")
    for said in ("Good morning. My PIN is 4821. I live in Oslo.", f"My wifi password is {PASSWORD}"):
        with session.turn(said) as turn:
            turn.reply("Ok")
    with session.turn("My PIN is 4821. I like tea.") as turn:
        turn.reply(f"Fine. I will keep 4821 and {PASSWORD} for you.")
    session.learn()
    learned = {record.content: record for record in memory.records(user="alice") if "turn" not in record.tags}
    memory.forget(learned["The user's PIN is [secret: pin]."].id, user="alice", everywhere=True)
    memory.forget(learned["The user's wifi password is [secret: password]."].id, user="alice", everywhere=True)
    left = "\n".join(message.text for message in session.messages())
    assert "4821" not in left
    assert PASSWORD not in left
    assert "I live in Oslo." in left
    assert "I like tea." in left


def test_learning_model_is_not_shown_secrets() -> None:
    llm = FakeLlm(Completion("[]"))
    config = Config.load(overrides={"jobs.worker": False, "learn.extractor": "llm"})
    with Limpet.open(":memory:", config=config, llm=llm) as memory:
        session = memory.session("t", "1", user="alice")
        with session.turn(f"password:\n{PASSWORD}") as turn:
            turn.reply("Ok")
        session.learn()
    asked = json.dumps([message.text for request in llm.calls for message in request.messages])
    assert "[secret: password]" in asked
    assert PASSWORD not in asked


def test_forget_names_a_reply_that_repeats_a_masked_secret(memory: Limpet) -> None:
    session = memory.session("t", "1", user="alice")
    with session.turn(f"My wifi password is {PASSWORD}") as turn:
        turn.reply(f"I wrote {PASSWORD} down.")
    session.learn()
    (fact,) = [record for record in memory.records(user="alice") if "turn" not in record.tags]
    for dry_run in (True, False):
        assert f"message 2 of session {session.id}" in memory.forget(fact.id, user="alice", dry_run=dry_run).left
