from __future__ import annotations

import pytest

from limpet import Limpet


def test_recall_finds_remembered_record_of_same_user(run):
    kept = run("remember", "My dog is called Biscuit", "--user", "me", "--key", "dog_name", "--json").json
    [hit] = run("recall", "what is my dog called?", "--user", "me", "--json").json
    assert hit["source"] == {**hit["source"], "kind": "record", "id": kept["id"]}
    assert hit["text"] == "My dog is called Biscuit"
    assert hit["signals"]["words"]["rank"] == 1
    assert run("recall", "dog", "--user", "you", "--json").json == []


def test_remember_with_existing_key_adds_version(run):
    first = run("remember", "Biscuit", "--user", "me", "--key", "dog_name")
    again = run("remember", "Rex", "--user", "me", "--key", "dog_name")
    assert first.out.startswith("Remembered: ")
    assert again.out.startswith("Remembered, now version 2: ")


def test_remember_stores_every_option(run):
    record = run(
        *("remember", "use tabs", "--user", "me", "--key", "style", "--title", "Style", "--type", "constraint"),
        *("--layer", "procedural", "--tag", "code", "--tag", "py", "--meta", "a.b=c=d", "--meta", "e=", "--ttl", "30d"),
        *("--pin", "--json"),
    ).json
    assert record["type"] == "constraint"
    assert record["layer"] == "procedural"
    assert record["title"] == "Style"
    assert record["tags"] == ["code", "py"]
    assert record["metadata"] == {"a.b": "c=d", "e": ""}
    assert record["pinned"] is True
    assert record["expires_at"] > record["created_at"]


def test_remember_and_recall_keep_owners_separate(run, talk):
    owners = (["--user", "ana"], ["--agent", "bot"], ["--session", talk], ["--global"])
    levels = [run("remember", "the gate code is 7", *owner, "--json").json["level"] for owner in owners]
    assert levels == ["user", "agent", "session", "global"]
    assert len(run("recall", "gate", "--agent", "bot", "--json").json) == 1
    assert len(run("recall", "gate", "--global", "--json").json) == 1
    assert len(run("recall", "gate", "--session", talk, "--json").json) == 1
    assert len(run("recall", "gate", "--user", "ana", "--json").json) == 2  # the user's own and the session's


@pytest.mark.parametrize(
    "owner", [["--user", "a", "--agent", "b"], ["--user", "a", "--global"], ["--agent", "b", "--global"]]
)
@pytest.mark.parametrize("verb", [["remember", "x"], ["recall", "x"], ["forget", "--key", "x"]])
def test_only_one_owner_is_named(run, talk, verb, owner):
    done = run(*verb, *owner)
    assert done.status == 2
    assert "whose memory" in done.err


def test_without_an_owner_it_is_the_default_user_s(run, monkeypatch):
    assert run("remember", "the gate code is 7", "--key", "gate", "--json").json["user"] == "me"
    monkeypatch.setenv("LIMPET_USER", "ana")
    assert run("recall", "gate", "--json").json == []
    assert run("remember", "the gate code is 8", "--json").json["user"] == "ana"
    assert len(run("recall", "gate", "--json").json) == len(run("recall", "gate", "--user", "ana", "--json").json) == 1
    assert run("forget", "--key", "gate", "--json").error["code"] == "record_not_found"
    assert run("forget", "--key", "gate", "--user", "me").status == 0


def test_messages_are_appended_to_a_chat_and_learned_from(run, monkeypatch):
    said = run("append", "I live in Porto", "--json").json  # and learns from it
    assert (said["sequence"], said["role"]) == (1, "user")
    assert run("append", "-", "--role", "assistant", piped=b"Nice!\n").out == "Message 2 stored.\n"
    [session] = run("sessions", "--json").json
    assert (session["key"], session["user"], session["message_count"]) == ("app:main", "me", 2)
    assert run("append", "I have a dog called Biscuit", "--no-learn").out == "Message 3 stored.\n"
    assert run("learn", "--session", session["id"]).out == "Learned nothing new.\n"
    assert "Porto" in run("profile").out
    assert run("append", "hello", "--channel", "telegram", "--chat", "42").status == 0
    assert run("sessions", "--channel", "telegram", "--json").json[0]["user"] == "telegram:42"
    monkeypatch.setenv("LIMPET_USER", "ana")
    run("append", "hello", "--chat", "43")
    assert [each["chat"] for each in run("sessions", "--user", "ana", "--json").json] == ["43"]
    assert run("append", "x", "--session", session["id"], "--chat", "43").status == 2
    assert run("learn", "--chat", "nobody", "--json").error["code"] == "session_not_found"


def test_remember_reads_text_from_stdin(run):
    record = run("remember", "-", "--user", "me", "--json", piped="two\nlines 🌧\n".encode()).json
    assert record["content"] == "two\nlines 🌧"


def test_remember_accepts_text_starting_with_dash(run):
    assert run("remember", "--user", "me", "--json", "--", "-5 degrees").json["content"] == "-5 degrees"


@pytest.mark.parametrize(("text", "piped"), [("", b""), ("-", b""), ("-", b"\xff\xfe"), ("-", b"a\0b")])
def test_remember_rejects_empty_or_invalid_text(run, text, piped):
    done = run("remember", text, "--user", "me", "--json", piped=piped)
    assert (done.status, done.error["code"]) == (1, "invalid_input")


def test_remember_rejects_lone_surrogate_in_argument(run):
    assert run("remember", "caf\udce9", "--user", "me", "--json").error["code"] == "invalid_input"


def test_recall_output_shows_speaker_and_time(run, talk):
    done = run("recall", "heron", "--user", "ana")
    assert done.out.splitlines() == [
        "#  WHO  WHEN                  TEXT",
        "1  Ana  2026-03-10 21:00 JST  The heron is back at the pond",
    ]


def test_recall_explain_shows_ranks_and_sources(run, talk):
    run("remember", "A heron is a patient bird", "--user", "ana", "--key", "heron_fact")
    done = run("recall", "heron", "--user", "ana", "--explain")
    assert done.out.split()[:4] == ["RANK", "SCORE", "BY", "WORDS"]
    assert f"(message 1 of session {talk})" in done.out
    assert "fact heron_fact" in done.out
    assert "#1 at " in done.out
    assert "#2 at " in done.out


def test_recall_filters_narrow_results(run, talk):
    run("remember", "heron watching at dawn", "--user", "ana", "--tag", "bird", "--meta", "a.b=c", "--type", "note")
    heron = ("recall", "heron", "--user", "ana", "--json")
    assert len(run(*heron).json) == 2
    for more in (
        ["--kind", "message"],
        ["--kind", "record"],
        ["--type", "note"],
        ["--layer", "semantic"],
        ["--tag", "bird"],
        ["--meta", "a.b=c"],
        ["--session", talk],
        ["--since", "2026-04-01"],
        ["--until", "2026-04-01"],
        ["--as-of", "2026-04-01"],
        ["-k", "1"],
    ):
        assert len(run(*heron, *more).json) == 1, more
    assert run(*heron, "--tag", "bird", "--tag", "fish").json == []
    assert run(*heron, "--meta", "a.b=d").json == []


def test_recall_without_hits_suggests_other_words(run, talk):
    done = run("recall", "zeppelin", "--user", "ana")
    assert done.status == 0
    assert "Try other words" in done.out


@pytest.mark.parametrize("k", ["0", "-1", "1001"])
def test_recall_rejects_k_out_of_range(run, talk, k):
    done = run("recall", "heron", "--user", "ana", "-k", k, "--json")
    assert (done.status, done.error["code"]) == (1, "invalid_input")


def test_recall_rejects_session_of_another_user(run, talk):
    done = run("recall", "heron", "--user", "ben", "--session", talk, "--json")
    assert (done.status, done.error["code"]) == (1, "session_not_found")


def test_output_escapes_control_characters_in_stored_text(run, data):
    with Limpet.open(data) as memory:
        memory.remember("evil \x1b]0;owned\x07 \x9b2J \u202e text", user="me")
        memory.session("tui", "local", user="me").append("user", "evil \x1b[2J again", name="Eve")
    for command in (
        ["recall", "evil", "--user", "me"],
        ["recall", "evil", "--user", "me", "--explain"],
        ["recall", "evil", "--user", "me", "--json"],
        ["records"],
        ["records", "--json"],
    ):
        done = run(*command)
        assert "evil" in done.out
        assert not set(done.out) & set("\x1b\x07\x9b\u202e"), command


def test_context_shows_newest_messages(run, talk):
    done = run("context", "frogs?", "--session", talk)
    assert done.out.splitlines() == [
        "3 messages, about 17 tokens",
        "left out: hit of 2026-03-10 from user: Let us count the frogs (already among the messages)",
        "",
        "#1  2026-03-10 21:00 JST  user (Ana)",
        "    The heron is back at the pond",
        "#2  2026-03-10 21:01 JST  assistant",
        "    Third year in a row",
        "#3  2026-03-10 21:05 JST  user",
        "    Let us count the frogs",
    ]


def test_context_reports_content_over_token_budget(run, talk, data):
    with Limpet.open(data) as memory:
        memory.load_session(talk).set_summary("Ana saw the heron.", 2)
    context = run("context", "frogs?", "--session", talk, "--max-tokens", "6", "--json").json
    assert [message["sequence"] for message in context["messages"]] == [3]
    assert context["sections"] == {"Earlier in this conversation": "Ana saw the heron."}
    assert context["dropped"][0]["what"] == "2 older messages"
    shown = run("context", "frogs?", "--session", talk, "--max-tokens", "6").out
    assert "left out: 2 older messages" in shown
    assert "Ana saw the heron." in shown


def test_context_shows_sections_and_hits(run, talk, data):
    with Limpet.open(data) as memory:
        memory.remember("Ana is allergic to nuts", user="ana", key="allergy")
        later = memory.session("tui", "later", user="ana")
        later.append("user", "What was back at the pond?")
    done = run("context", "Which bird was back at the pond?", "--session", later.id)
    lines = done.out.splitlines()
    assert lines[1] == "sections: About the user, Relevant"
    assert "- allergy: Ana is allergic to nuts" in lines
    assert "- Ana: The heron is back at the pond" in lines
    assert lines[lines.index("hits:") + 2].endswith("The heron is back at the pond")
    found = run("context", "Which bird was back at the pond?", "--session", later.id, "--json").json
    assert list(found["sections"]) == ["About the user", "Relevant"]
    assert found["hits"][0]["text"] == "The heron is back at the pond"


def test_context_summarizes_long_list_of_omissions(run, data, monkeypatch):
    with Limpet.open(data) as memory:
        session = memory.session("tui", "local", user="me")
        for number in range(9):
            memory.remember(f"note {number}", user="me", layer="procedural")
    monkeypatch.setenv("LIMPET_CONTEXT_STANDING", "4")
    lines = run("context", "", "--session", session.id).out.splitlines()
    left = [line for line in lines if line.startswith("left out:")]
    assert len(left) == 4
    assert left[-1] == "left out: 2 more (beyond the 4 that matter most)"
    found = run("context", "", "--session", session.id, "--json").json
    assert len(found["dropped"]) == 5


def test_context_requires_session_and_positive_budget(run, talk):
    assert run("context").status == 2
    assert run("context", "x", "--session", "nope").status == 1
    assert run("context", "x", "--session", talk, "--max-tokens", "0", "--json").error["code"] == "budget_too_small"


def test_sessions_show_prints_tool_calls_and_errors(run, data):
    with Limpet.open(data) as memory:
        session = memory.session("tui", "local", user="me")
        session.append("assistant", "", tool_calls=[{"id": "1", "name": "weather", "arguments": {"city": "Ghent"}}])
        session.append("tool", "no network", tool_call_id="1", is_error=True)
    done = run("sessions", "show", session.id)
    assert 'calls weather {"city": "Ghent"}' in done.out
    assert "tool  failed" in done.out


def test_recall_neighbours_shows_adjacent_messages(run, talk):
    done = run("recall", "heron", "--user", "ana", "--neighbours", "1")
    assert "      2 assistant: " in done.out
    [hit] = run("recall", "heron", "--user", "ana", "--neighbours", "1", "--json").json
    assert [message["sequence"] for message in hit["neighbours"]] == [2]
    assert run("recall", "heron", "--user", "ana", "--neighbours", "-1").status == 1


def test_recall_recipe_option_selects_vector_search(run, talk, monkeypatch):
    done = run("recall", "heron", "--user", "ana", "--recipe", "vectors", "--json")
    assert done.error["code"] == "unsupported"
    monkeypatch.setenv("LIMPET_EMBEDDING_MODEL", "hashed")
    assert run("worker", "--until-idle", "--json").json["jobs"] == 1
    [hit, *_] = run("recall", "herons", "--user", "ana", "--recipe", "vectors", "--json").json
    assert list(hit["signals"]) == ["vectors"]
    assert run("worker", "--until-idle").out == "0 jobs run.\n"
