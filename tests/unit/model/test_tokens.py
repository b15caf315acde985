"""The estimate of tokens, beside what a real tokenizer spends."""

from __future__ import annotations

import re
from collections.abc import Callable
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limpet.model.tokens import DigestLine, estimate_tokens, fit_lines, min_tokens, shorten_text

# What the o200k vocabulary spends on each text, counted once with a tokenizer and written down.
TRUE_COUNTS = {
    "prose": [
        (
            53,
            (
                "The ferry leaves the island twice a day in winter, and only when the wind allows it. "
                "Most people who live there have learned to keep a bag of flour and a box of candles in "
                "the cellar, because a week without a boat is nothing unusual in February."
            ),
        ),
        (
            43,
            (
                "I told her that the meeting had been moved to Thursday afternoon, but she'd already "
                "booked the train. We agreed to talk on the phone instead; it isn't perfect, yet it's "
                "better than postponing everything until April."
            ),
        ),
        (
            42,
            (
                "Photosynthesis converts carbon dioxide and water into glucose and oxygen. Chlorophyll "
                "absorbs mostly blue and red light, which is why leaves appear green to our eyes. "
                "Temperature, humidity and nutrient availability influence the rate considerably."
            ),
        ),
        (
            35,
            (
                "Can you remind me which restaurant we went to last summer? It had a courtyard with "
                "lemon trees, the waiter spoke Portuguese, and my brother ordered the grilled octopus "
                "twice."
            ),
        ),
        (
            55,
            (
                "On 14 June 2024 the committee approved a budget of 3,250,000 euros, 12.5% more than the "
                "year before. Rooms 101, 204 and 317 will be renovated first; phone 555-0188 for "
                "questions."
            ),
        ),
        (
            35,
            (
                "Honestly? Nope. Not gonna happen!! My landlord said \"no pets\" and that's that... I'll "
                "ask again next month, though - maybe he'll be in a better mood :)"
            ),
        ),
        (
            44,
            (
                "Dear Ms. Okonkwo, thank you for your application. Unfortunately, the apprenticeship has "
                "already been filled. We would nevertheless like to keep your documents and contact you "
                "should another position become available. Kind regards, Human Resources"
            ),
        ),
        (
            33,
            (
                "He walked home. It was late. The street was wet and the lamps were out, and he could "
                "hear the river under the bridge long before he saw it."
            ),
        ),
    ],
    "code": [
        (
            58,
            (
                "def moving_average(values, width):\n"
                "    total = sum(values[:width])\n"
                "    result = [total / width]\n"
                "    for at in range(width, len(values)):\n"
                "        total += values[at] - values[at - width]\n"
                "        result.append(total / width)\n"
                "    return result\n"
            ),
        ),
        (
            66,
            (
                "SELECT customer_id, COUNT(*) AS orders, SUM(total_cents) / 100.0 AS revenue\n"
                "FROM orders\n"
                "WHERE created_at >= '2025-01-01' AND status <> 'cancelled'\n"
                "GROUP BY customer_id\n"
                "HAVING COUNT(*) > 3\n"
                "ORDER BY revenue DESC\n"
                "LIMIT 20;\n"
            ),
        ),
        (
            56,
            (
                "export async function fetchUser(id: string): Promise<User | null> {\n"
                "  const response = await fetch(`${API_URL}/users/${encodeURIComponent(id)}`);\n"
                "  if (!response.ok) {\n"
                "    return null;\n"
                "  }\n"
                "  return (await response.json()) as User;\n"
                "}\n"
            ),
        ),
        (
            72,
            (
                "#include <stdio.h>\n"
                "#include <stdlib.h>\n"
                "\n"
                "int main(int argc, char **argv) {\n"
                "    if (argc != 2) {\n"
                '        fprintf(stderr, "usage: %s FILE\\n", argv[0]);\n'
                "        return EXIT_FAILURE;\n"
                "    }\n"
                '    FILE *file = fopen(argv[1], "rb");\n'
                "    return file == NULL;\n"
                "}\n"
            ),
        ),
        (
            78,
            (
                "{\n"
                '  "name": "weather-station",\n'
                '  "version": "2.4.1",\n'
                '  "sensors": [\n'
                '    {"id": 17, "kind": "temperature", "unit": "celsius"},\n'
                '    {"id": 18, "kind": "humidity", "unit": "percent"}\n'
                "  ],\n"
                '  "interval_ms": 30000\n'
                "}\n"
            ),
        ),
        (
            83,
            (
                "Traceback (most recent call last):\n"
                '  File "/srv/app/main.py", line 88, in <module>\n'
                "    run(load_config(sys.argv[1]))\n"
                '  File "/srv/app/config.py", line 31, in load_config\n'
                '    raise ConfigError(f"unknown key {key!r} in {path}")\n'
                "app.errors.ConfigError: unknown key 'tmeout' in settings.toml\n"
            ),
        ),
        (
            58,
            (
                "class LinkedList<T> {\n"
                "    private Node<T> head;\n"
                "    private int size = 0;\n"
                "\n"
                "    public void addFirst(T value) {\n"
                "        Node<T> node = new Node<>(value);\n"
                "        node.next = head;\n"
                "        head = node;\n"
                "        size++;\n"
                "    }\n"
                "}\n"
            ),
        ),
        (
            49,
            (
                "for f in *.log; do\n"
                '  gzip -9 "$f" && mv "$f.gz" /var/backups/$(date +%Y-%m-%d)/ || echo "failed: $f" >&2\n'
                "done\n"
            ),
        ),
    ],
    "chinese": [
        (
            49,
            "今天早上我去菜市场买了一些新鲜的蔬菜和水果，然后坐公交车回家。路上遇到了老同学，我们聊了很久，还约好下周末一起去爬山。",
        ),
        (
            28,
            "人工智能正在改变我们的生活方式。从语音助手到自动驾驶，这些技术依赖于大量的数据和强大的计算能力。",
        ),
        (
            29,
            "请把会议改到星期四下午三点，地点还是二楼的会议室。如果有问题，请提前打电话给我，谢谢！",
        ),
        (
            35,
            "我妹妹对花生过敏，所以点菜的时候一定要告诉服务员。她最喜欢的菜是番茄炒鸡蛋和清蒸鱼。",
        ),
        (
            55,
            "这座古老的石桥建于明朝，全长约一百二十米，横跨在一条清澈的小河上。每年春天，两岸的桃花盛开，吸引了许多游客前来拍照。",
        ),
        (
            26,
            "数据库的事务具有原子性、一致性、隔离性和持久性四个特点，缺一不可。",
        ),
        (
            28,
            "他说：“我不知道该怎么办，也许我们应该先等等看。”过了一会儿，又补充了一句：“别着急。”",
        ),
    ],
    "emoji": [
        (
            17,
            "Happy birthday!! 🎉🎂🥳 Hope you have an amazing day 😊❤️",
        ),
        (
            15,
            "omg 😂😂😂 that cat video 🐱 killed me 💀",
        ),
        (
            22,
            "Weather today: ☀️ then 🌧️, tomorrow 🌩️⚡ stay inside 🏠",
        ),
        (
            23,
            "We won 🏆🏆 3-1 ⚽🔥 see you at the pub 🍻🍺",
        ),
        (
            22,
            "👍🏽 ok, 👩‍💻 working till 6, then 🚲 home 🏡",
        ),
        (
            30,
            "Travel plans ✈️🌍: Lisbon 🇵🇹, Tokyo 🇯🇵, Lima 🇵🇪 🧳😎",
        ),
        (
            20,
            "🤔🤷‍♀️ not sure... maybe 🍕 or 🍜 or 🌮?",
        ),
        (
            15,
            "Done ✅ tests ✅ docs ❌ coffee ☕☕ needed 😴",
        ),
    ],
}


@pytest.mark.parametrize("kind", TRUE_COUNTS)
def test_estimate_tokens_is_within_ten_percent_per_language(kind: str) -> None:
    true = sum(count for count, _ in TRUE_COUNTS[kind])
    assert abs(sum(estimate_tokens(text) for _, text in TRUE_COUNTS[kind]) - true) <= true / 10


@pytest.mark.parametrize(("count", "text"), [row for rows in TRUE_COUNTS.values() for row in rows])
def test_estimate_tokens_is_close_for_every_sample(count: int, text: str) -> None:
    assert count * 0.75 - 1 <= estimate_tokens(text) <= count * 1.35 + 1


@given(st.text(), st.text())
def test_estimate_tokens_by_line_is_not_below_whole_text(one: str, two: str) -> None:
    """So a budget kept line by line is kept by the whole; rounding may take one token."""
    assert estimate_tokens(f"{one}\n{two}\n") <= estimate_tokens(f"{one}\n") + estimate_tokens(f"{two}\n") + 1


def test_estimate_tokens_is_fast() -> None:
    text = "the quick brown fox jumped over a lazy dog near twenty old houses while rain was falling on them all"

    def seconds(work: Callable[[str], object]) -> float:
        start = process_time()
        for _ in range(2000):
            work(text)
        return process_time() - start

    cut = re.compile(r"\w+|\S").findall
    assert min(seconds(estimate_tokens) for _ in range(3)) < 10 * min(seconds(cut) for _ in range(3))


@given(st.text(st.characters(max_codepoint=0x7F)))
def test_estimate_tokens_matches_reference_pattern_for_ascii(text: str) -> None:
    pieces = re.findall(r"[A-Za-z]{1,10}|['_][A-Za-z]{1,10}|[0-9]{1,3}|[!-/:-@\[-^`{-~]{1,3}|_+|\n+", text)
    assert estimate_tokens(text) == (len(pieces) or bool(text))


@given(st.text(st.one_of(st.characters(), st.sampled_from(" \n\t\x00\x1c_'a1.é\u2026\u00a0\u3000日"))))
def test_min_tokens_never_exceeds_estimate(text: str) -> None:
    assert min_tokens(text) <= estimate_tokens(text)


def test_min_tokens_counts_words() -> None:
    assert min_tokens("The ferry leaves — twice a\u00a0day… 日本語") == 5


def digest_line(number: int) -> DigestLine:
    return DigestLine(
        f"the user: well this is what I wanted to tell you about item{number}, which is rather nice and cheap"
    )


def test_fit_lines_shortens_every_line_when_budget_is_small() -> None:
    text = fit_lines([digest_line(number) for number in range(40)], 500, estimate_tokens)
    assert estimate_tokens(text) <= 500
    assert [number for number in range(40) if f"item{number}," not in text] == []


def test_fit_lines_merges_oldest_lines_when_there_are_too_many() -> None:
    text = fit_lines([digest_line(number) for number in range(100)], 500, estimate_tokens)
    assert estimate_tokens(text) <= 500
    lines = text.split("\n")
    assert sum(int(line.split()[1][1:]) if "messages) " in line else 1 for line in lines) == 100
    assert "messages" in lines[0]
    assert "item99," in lines[-1]


def test_fit_lines_shortens_text_without_word_boundaries() -> None:
    lines = [DigestLine(f"the user: 第{number}个" + "我搬到了里斯本" * 30) for number in range(20)]
    text = fit_lines(lines, 500, estimate_tokens)
    assert estimate_tokens(text) <= 500
    assert [number for number in range(20) if f"第{number}个" not in text] == []


def test_shorten_text_keeps_names_numbers_and_decisions() -> None:
    text = "the user: so well as it happens I think we decided to meet Biscuit at 09:40 and that is quite all there is"
    short = shorten_text(text, 50)
    assert len(short) <= 50
    for word in ("the user:", "decided", "Biscuit", "09:40"):
        assert word in short


@pytest.mark.slow
def test_fit_lines_of_thousands_of_long_lines_is_fast() -> None:
    begun = process_time()
    text = fit_lines([DigestLine(f"{number} " + "Foo bar " * 125) for number in range(2000)], 500, estimate_tokens)
    assert process_time() - begun < 10
    assert estimate_tokens(text) <= 500


@given(st.lists(st.text(min_size=1, max_size=400), max_size=60), st.integers(50, 600))
def test_fit_lines_always_fits_budget(texts: list[str], most: int) -> None:
    text = fit_lines([DigestLine(" ".join(each.split()) or "x") for each in texts], most, estimate_tokens)
    assert estimate_tokens(text) <= most
    assert bool(text.strip()) == bool(texts)


def test_line_ends_together_are_one_token() -> None:
    assert [estimate_tokens(text) for text in ("\n", "\n\n\n", "one\ntwo", "one\n\n\ntwo", "\n\none\n \ntwo\n")] == [
        1,
        1,
        3,
        3,
        6,
    ]


def test_a_text_costs_what_its_lines_cost() -> None:
    lines = ["plain words", "", "naïve café", "漢字かな", " ", "x" * 900, "数" * 500]
    whole = "\n".join(lines)
    assert abs(estimate_tokens(whole) - sum(estimate_tokens(line + "\n") for line in lines)) <= len(lines) // 2
