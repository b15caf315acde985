from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from limpet import Config, Limpet, Message, ToolCall
from limpet.config import SearchSettings
from limpet.errors import InvalidInput
from limpet.model.chunk import Hit
from limpet.testing import FakeClock
from tests.contract.rows import faults

pytestmark = pytest.mark.every_backend

WORDS = Config.load(overrides={"search.recipe": "words"})


@pytest.fixture
def memory(store_url: str) -> Iterator[Limpet]:
    """What words alone find, whatever the default recipe makes of it."""
    with Limpet.open(store_url, config=WORDS) as opened:
        yield opened


@pytest.fixture
def timed(store_url: str, clock: FakeClock) -> Iterator[Limpet]:
    with Limpet.open(store_url, config=WORDS, clock=clock) as opened:
        yield opened


def said(hits: list[Hit]) -> list[str]:
    return [hit.text for hit in hits]


def store(memory: Limpet, *texts: str, chat: str = "1", user: str = "alice") -> None:
    memory.session("t", chat, user=user).extend([Message.new("user", text) for text in texts])


# Any input is safe


def test_recall_accepts_any_query_text(memory: Limpet) -> None:
    store(memory, "The quick brown fox jumps over the lazy dog.", "C'est l'été - n'est-ce pas?", 'He said "AND" to me')
    questions = [
        *(
            '"',
            "'",
            "''",
            '""',
            '"fox',
            'fox"',
            "-",
            "--",
            "fox -dog",
            "AND",
            "fox AND",
            "AND OR NOT NEAR",
            "NEAR(fox, 5)",
        ),
        *(
            "fox*",
            "*",
            "^fox",
            "fox:dog",
            "text:fox",
            "(",
            ")",
            "((fox",
            "{fox}",
            "[fox]",
            "fox~",
            "fox?",
            "?",
            "!",
            "&",
        ),
        *(
            "|",
            "fox & dog | !cat",
            ":*",
            "fox:*",
            "<->",
            "\\",
            "\\'",
            "%",
            "_",
            "%s",
            "%(x)s",
            ":terms",
            "$1",
            ";",
            "0",
        ),
        *("; DROP TABLE chunks", "\n", "\t", " ", "", "\x01\x1b[31m", "👍", "👩‍👩‍👧", "é", "ß", "İ", "ﬀ", "\u202efox"),
        *("\ufeff", "\U0010ffff", "a" * 10_000, "' OR 1=1 --", "fox' UNION SELECT * FROM messages --", "-1", "1e999"),
    ]
    for question in questions:
        hits = memory.recall(question, user="alice")
        assert isinstance(hits, list)
    assert len(memory.recall("fox AND", user="alice")) >= 1
    assert said(memory.recall("the fox' -dog*", user="alice")) == ["The quick brown fox jumps over the lazy dog."]
    assert memory.recall("", user="alice") == memory.recall("?!", user="alice") == []


@pytest.mark.slow
def test_recall_answers_megabyte_query_in_seconds(memory: Limpet) -> None:
    store(memory, "a needle in a haystack")
    chance = random.Random(5)
    distinct = " ".join(f"{chance.getrandbits(96):x}" for _ in range(40_000))
    for question in (
        distinct + " needle",
        "needle " * 150_000,
        "x" * 1_000_000 + " needle",
        "針" * 300_000 + " needle",
    ):
        begun = time.process_time()  # of this process: others may keep the machine busy
        assert said(memory.recall(question, user="alice")) == ["a needle in a haystack"]
        assert time.process_time() - begun < 20
    with pytest.raises(InvalidInput, match="limit"):
        memory.recall("x" * 5_000_000, user="alice")


def test_recall_rejects_invalid_arguments(memory: Limpet) -> None:
    wrong: list[Any] = [None, 5, b"x", ["x"], "\x00", "a\x00b", "\ud800"]
    for bad in wrong:
        with pytest.raises(InvalidInput):
            memory.recall(bad, user="alice")
    counts: list[Any] = [0, -1, 1001, "5", 1.5, True]
    for bad in counts:
        with pytest.raises(InvalidInput, match="k must"):
            memory.recall("x", user="alice", k=bad)
    with pytest.raises(InvalidInput, match="recipe"):
        memory.recall("x", user="alice", recipe="magic")
    with pytest.raises(InvalidInput, match="scores"):
        memory.recall("x", user="alice", rerank=5)  # type: ignore[arg-type]
    assert memory.recall("x") == []  # of the default user


# What is found


def test_recall_matches_inflected_words(memory: Limpet) -> None:
    store(memory, "She was running with the dogs", "Nothing to see", "He organizes parties", "the connection is broken")
    for question in ("run", "runs", "RUNNING", "dog", "Dog's", "who had dogs?"):
        assert said(memory.recall(question, user="alice"))[0] == "She was running with the dogs"
    assert said(memory.recall("organize a party", user="alice")) == ["He organizes parties"]
    assert said(memory.recall("connected", user="alice")) == ["the connection is broken"]


def test_recall_ignores_accents_in_question_and_text(memory: Limpet) -> None:
    store(memory, "We met at the Café Núñez", "We ate at a cafe in Lodz", "The dentist called")
    accented, plain = "We met at the Café Núñez", "We ate at a cafe in Lodz"
    assert said(memory.recall("nunez", user="alice")) == said(memory.recall("NÚÑEZ", user="alice")) == [accented]
    assert said(memory.recall("Łódź", user="alice")) == [plain]
    assert set(said(memory.recall("cafe", user="alice"))) == set(said(memory.recall("cafés", user="alice")))
    assert set(said(memory.recall("cafe", user="alice"))) == {accented, plain}


def test_recall_joins_words_by_or_and_ranks_rarest_first(memory: Limpet) -> None:
    store(memory, "apples and pears", "apples", "pears and plums and quinces", "bread")
    assert set(said(memory.recall("apples quinces", user="alice"))) == {
        "apples and pears",
        "apples",
        "pears and plums and quinces",
    }
    assert said(memory.recall("quinces", user="alice")) == ["pears and plums and quinces"]
    assert said(memory.recall("apples pears", user="alice"))[0] == "apples and pears"


def test_recall_finds_message_that_states_something_before_it_asks(memory: Limpet) -> None:
    session = memory.session(user="alice")
    session.append("user", "I'm vegan, is there anything for me at the pizza place?")
    session.append("user", "What is vegan cheese made of?")
    assert said(memory.recall("vegan", user="alice")) == ["I'm vegan, is there anything for me at the pizza place?"]


def test_recall_without_match_returns_nothing(memory: Limpet) -> None:
    store(memory, "The quick brown fox")
    assert memory.recall("zeppelin turbine", user="alice") == []
    assert memory.recall("what is the of and", user="alice") == []
    assert memory.recall("fox", user="nobody") == []


def test_recall_answers_question_of_function_words_alone(memory: Limpet) -> None:
    memory.remember("The user is allergic to nuts.", user="ana", key="allergy")
    for query in ("me", "my", "I", "what am I to me?"):
        assert all("nuts" in hit.text for hit in memory.recall(query, user="ana", recipe="default"))


def test_recall_finds_chinese_japanese_korean_and_other_scripts(memory: Limpet) -> None:
    texts = {
        "我最喜欢的颜色是蓝色": ["颜色", "蓝色", "最喜欢", "我的颜色"],
        "昨日、東京で寿司を食べました。": ["東京", "寿司", "食べ"],
        "カタカナのコンピューターを買った": ["コンピューター", "ｺﾝﾋﾟｭｰﾀｰ"],
        "내 강아지의 이름은 비스킷입니다": ["강아지", "비스킷", "이름"],
        "iPhoneを使っています": ["iphone", "使って"],
        "価格は１２３円です": ["123", "円"],
        "𠮷野家で会う": ["𠮷", "野家"],
        "العربية لغة جميلة": ["لغة"],
        "Привет, мой дорогой друг": ["друг", "ДРУГ"],
        "Das Straßenfest war schön": ["STRASSENFEST", "schön"],
    }
    store(memory, *texts)
    for text, questions in texts.items():
        for question in questions:
            assert said(memory.recall(question, user="alice"))[:1] == [text], question
    assert memory.recall("北京", user="alice") == [] or "京" in said(memory.recall("北京", user="alice"))[0]


def test_recall_finds_words_anywhere_in_long_text(memory: Limpet) -> None:
    words = [f"w{number:05}" for number in range(3000)]
    store(memory, " ".join(words))
    for word in (words[0], words[1234], words[-1]):
        hits = memory.recall(word, user="alice")
        assert hits
        assert all(word in hit.text and len(hit.text) <= 640 for hit in hits)


def test_recall_finds_tool_arguments_but_not_system_prompts(memory: Limpet) -> None:
    session = memory.session("t", "1", user="alice")
    session.append("system", "You are a walrus expert")
    session.append("assistant", "", tool_calls=[ToolCall("1", "search_web", {"query": "zeppelin 'history'"})])
    session.append("tool", "founded in 1908", tool_call_id="1", name="search_web")
    assert memory.recall("walrus", user="alice") == []
    assert memory.recall("zeppelin", user="alice")[0].source.role == "assistant"
    assert memory.recall("1908", user="alice")[0].source.name == "search_web"


def test_recall_hit_gives_source_and_signals(timed: Limpet, clock: FakeClock) -> None:
    session = timed.session("t", "1", user="alice")
    session.append("user", "nothing")
    message = session.append("assistant", "the walrus sings", name="bot")
    record = timed.remember("a walrus fact", user="alice", key="walrus", metadata={"m": "1"}, layer="episodic")
    hits = timed.recall("walrus", user="alice")
    by_kind = {hit.source.kind.value: hit for hit in hits}
    spoken, known = by_kind["message"], by_kind["record"]
    assert (spoken.source.id, spoken.source.session_id) == (session.id, session.id)
    assert (spoken.source.first_sequence, spoken.source.last_sequence) == (2, 2)
    assert (spoken.source.role, spoken.source.name, spoken.source.created_at) == (
        "assistant",
        "bot",
        message.created_at,
    )
    assert (known.source.id, known.source.role) == (record.id, None)
    assert known.metadata == {"m": "1", "layer": "episodic", "type": "fact", "key": "walrus"}
    assert [hit.signals["words"].rank for hit in hits] == [1, 2]
    assert [hit.signals["words"].score for hit in hits] == [hit.score for hit in hits]
    assert hits[0].score >= hits[1].score > 0


def test_recall_merges_repeated_text_into_one_range(memory: Limpet) -> None:
    session = memory.session("t", "1", user="alice")
    for text in ("walrus", "other", "walrus", "walrus"):
        session.append("user", text)
    session.append("assistant", "walrus")
    hits = memory.recall("walrus", user="alice")
    assert sorted((hit.source.role, hit.source.first_sequence, hit.source.last_sequence) for hit in hits) == [
        ("assistant", 5, 5),
        ("user", 1, 4),
    ]
    store(memory, "walrus", chat="2")
    assert len(memory.recall("walrus", user="alice")) == 3
    assert faults(memory) == []


def test_recall_k_limits_hits_without_changing_order(memory: Limpet) -> None:
    store(memory, *(f"walrus {'is ' * (number % 7)} number {number}" for number in range(150)))
    everything = memory.recall("walrus number", user="alice", k=1000)
    assert len(everything) == 150
    assert len(memory.recall("walrus", user="alice")) == 10
    for k in (1, 5, 64, 65, 100, 128, 150):
        assert memory.recall("walrus number", user="alice", k=k) == everything[:k]
    scores = [hit.score for hit in everything]
    assert scores == sorted(scores, reverse=True)


def test_recall_ranks_newer_first_on_equal_score(memory: Limpet) -> None:
    store(memory, *(f"walrus alpha{number}x" for number in range(100)))
    sequences = [hit.source.first_sequence for hit in memory.recall("walrus", user="alice", k=100)]
    assert sequences == list(range(100, 0, -1))


# Changed and deleted text


def test_recall_omits_changed_and_deleted_text(memory: Limpet) -> None:
    record = memory.remember("a walrus", user="alice")
    memory.records.update(record.id, content="a penguin")
    assert memory.recall("walrus", user="alice") == []
    assert said(memory.recall("penguin", user="alice")) == ["a penguin"]
    memory.records.update(record.id, title="About zeppelins")
    assert len(memory.recall("zeppelin", user="alice")) == 1
    memory.forget(record.id)
    assert memory.recall("penguin zeppelin", user="alice") == []
    session = memory.session("t", "1", user="alice")
    session.append("user", "a gecko")
    session.delete()
    assert memory.recall("gecko", user="alice") == []
    assert memory.admin.stats()["chunks"] == 0
    assert faults(memory) == []


# Many


def corpus(seed: int, count: int) -> list[Message]:
    """Words as rare and as common as in speech, and texts of every length."""
    chance = random.Random(seed)
    vocabulary = [f"word{number}" for number in range(2000)]
    weights = [1 / (rank + 1) for rank in range(len(vocabulary))]
    lengths = (1, 3, 8, 20, 60, 200)
    return [
        Message.new("user", " ".join(chance.choices(vocabulary, weights, k=chance.choice(lengths))))
        for _ in range(count)
    ]


@pytest.mark.slow
def test_recall_finds_all_of_two_thousand_messages(memory: Limpet) -> None:
    """So many that the newest were merged into the postings several times, with clearing and changing in between."""
    sessions = [memory.session("t", str(chat), user="alice") for chat in range(4)]
    for round_ in range(3):
        for chat, session in enumerate(sessions):
            texts = [f"needle{round_}x{chat}x{number} common straw" for number in range(170)]
            session.extend([Message.new("user", text) for text in texts])
        for number in range(10):
            memory.remember(f"needle record {round_} {number} common", user="alice", key=f"k_{number}")
    assert memory.admin.stats()["messages"] == 2040
    for round_, chat, number in ((0, 0, 0), (0, 3, 169), (1, 2, 100), (2, 3, 169)):
        word = f"needle{round_}x{chat}x{number}"
        assert said(memory.recall(word, user="alice")) == [f"{word} common straw"]
    assert len(memory.recall("straw", user="alice", k=1000)) == 1000
    assert len(memory.recall("record", user="alice", k=1000)) == 10
    assert faults(memory) == []
    sessions[1].clear()
    sessions[2].delete()
    assert memory.recall("needle0x1x5 needle2x2x9", user="alice") == []
    assert len(memory.recall("needle0x3x5", user="alice")) == 1
    sessions[0].extend([Message.new("user", f"late{number} straw") for number in range(300)])
    assert len(memory.recall("late7", user="alice")) == 1
    assert faults(memory) == []


@pytest.mark.slow
@pytest.mark.postgres
def test_recall_ranks_same_on_sqlite_and_postgres(tmp_path: Path, postgres_url: str, clock: FakeClock) -> None:
    messages = corpus(7, 1150)
    with Limpet.open(tmp_path, clock=clock) as one, Limpet.open(postgres_url, clock=clock) as two:
        for memory in (one, two):
            for chat in range(2):
                memory.session("t", str(chat), user="alice").extend(messages[chat::2])
            for number in range(50):
                memory.remember(f"word{number} word{number * 3} as a record", user="alice", key=f"k_{number}")
            memory.session("t", "0", user="alice").append("user", "word1 word2 at the very end")

        def answers(memory: Limpet, question: str, **filters: Any) -> list[tuple[str, float, int | None]]:
            hits = memory.recall(question, user="alice", k=100, **filters)
            return [(hit.text, hit.score, hit.source.first_sequence) for hit in hits]

        for question in (
            "word1",
            "word1 word2 word3",
            "word500 word7",
            "word1999 word0",
            "word40 record",
            "word3 " * 50,
        ):
            for filters in ({}, {"kinds": ["record"]}, {"kinds": ["message"]}):
                found = answers(one, question, **filters)
                assert found == answers(two, question, **filters)
        assert len(answers(one, "word1")) == 100


def test_recall_weights_come_from_settings(store_url: str) -> None:
    flat = Config(search=SearchSettings(recipe="words", k=3, bm25_k1=0.0, bm25_b=0.0))
    with Limpet.open(store_url, config=flat) as memory:
        store(
            memory,
            "walrus",
            "walrus walrus walrus",
            "walrus among a great many other words that are not about it",
            "x",
            "y",
        )
        hits = memory.recall("walrus", user="alice")
        assert len({hit.score for hit in hits}) == 1
        store(memory, "walrus 4", "walrus 5")
        assert len(memory.recall("walrus", user="alice")) == 3
