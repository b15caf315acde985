"""The outside sources: public repositories under permissive or share-alike licences. README.md lists them."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

from training.encoder.corpus import Corpus, find_words, split_passages, split_sentences, undo_tokenization

csv.field_size_limit(10**9)


class Repository:
    """A bare git directory, read at its newest commit. Files that the copy lacks are left out."""

    def __init__(self, folder: Path, name: str) -> None:
        path = folder / name.replace("/", "+") / "repo"
        self._git = path / ".git" if (path / ".git").is_dir() else path

    def _run(self, *arguments: str) -> str:
        command = ["git", "-C", str(self._git), *arguments]
        return subprocess.run(command, capture_output=True, check=True).stdout.decode("utf-8", "replace")  # noqa: S603

    def list_files(self, *under: str) -> list[str]:
        rows = (row.split("\t", 1) for row in self._run("ls-tree", "-r", "-l", "-z", "HEAD", *under).split("\0") if row)
        return sorted(path for meta, path in rows if meta.split()[3] != "BAD")

    def read(self, path: str) -> str:
        return self._run("show", f"HEAD:{path}")

    def read_json(self, path: str) -> Any:
        return json.loads(self.read(path))

    def read_csv(self, path: str) -> Iterator[dict[str, str]]:
        return csv.DictReader(io.StringIO(self.read(path)))


def add_all(corpus: Corpus, folder: Path, seed: int) -> None:
    random = Random(seed)
    for add in (
        add_squad,
        add_xquad,
        add_fairy_tales,
        add_qamr,
        add_beam_plans,
        add_beam_chats,
        add_topical_chat,
        add_persona_chat,
        add_assistant_talk,
        add_meetings,
        add_sentences,
        add_chitchat,
        add_staged_talk,
        add_split_sentences,
        add_queries,
    ):
        add(corpus, folder, random)


def add_squad(corpus: Corpus, folder: Path, _: Random) -> None:
    """Sentences of Wikipedia, each with a question it answers."""
    repository = Repository(folder, "xinyadu/nqg")
    for part in ("dev", "test"):
        texts, questions = (repository.read(f"data/processed/{kind}-{part}.txt").split("\n") for kind in ("src", "tgt"))
        rows = [
            (undo_tokenization(question), undo_tokenization(text))
            for text, question in zip(texts, questions, strict=False)
            if text and question
        ]
        for start in range(0, len(rows), 60):
            near = rows[start : start + 60]
            group = corpus.add_group(text for _, text in near)
            for question, text in near:
                corpus.add_pair("squad", question, text, group)


def add_xquad(corpus: Corpus, folder: Path, _: Random) -> None:
    for article in Repository(folder, "google-deepmind/xquad").read_json("xquad.en.json")["data"]:
        passages = {at: split_passages(item["context"], 350) for at, item in enumerate(article["paragraphs"])}
        group = corpus.add_group(passage for found in passages.values() for passage in found)
        for at, item in enumerate(article["paragraphs"]):
            for asked in item["qas"]:
                answer, words = asked["answers"][0]["text"], find_words(asked["question"])
                best = max(passages[at], key=lambda text: (answer in text, len(words & find_words(text))))
                corpus.add_pair("xquad", asked["question"], best, group)


def add_fairy_tales(corpus: Corpus, folder: Path, _: Random) -> None:
    """Questions of teachers about stories; the passage is the one that shares most with question and answer."""
    repository = Repository(folder, "uci-soe/FairytaleQAData")
    stories = repository.list_files("data-by-train-split/section-stories/all")
    asked = {Path(path).name: path for path in repository.list_files("data-by-train-split/questions")}
    for path in stories:
        sections = {
            row["section"]: split_passages(" ".join(row["text"].split()), 320) for row in repository.read_csv(path)
        }
        group = corpus.add_group(passage for found in sections.values() for passage in found)
        questions = asked.get(Path(path).name.replace("-story.csv", "-questions.csv"))
        for row in repository.read_csv(questions) if questions else ():
            places = re.split(r"[,;]\s*", row["cor_section"] or "")
            passages = [passage for place in places for passage in sections.get(place.strip(), ())]
            if passages:
                best = _find_best(passages, row["question"], row["answer1"] or "")
                corpus.add_pair("fairy", row["question"], best, group)


def _find_best(passages: Iterable[str], question: str, answer: str) -> str:
    asked, said = find_words(question), find_words(answer)

    def share(passage: str) -> float:
        words = find_words(passage)
        return 2 * len(said & words) / (1 + len(said)) + len(asked & words) / (1 + len(asked))

    return max(passages, key=share)


def add_qamr(corpus: Corpus, folder: Path, random: Random) -> None:
    """Questions about every relation in sentences of Wikipedia and Wikinews; the newswire part is left out."""
    repository = Repository(folder, "uwnlp/qamr")
    rows: list[tuple[str, list[str]]] = []
    for part in ("dev", "test"):
        for block in re.split(r"^#", repository.read(f"data/readable/{part}.tsv"), flags=re.MULTILINE)[1:]:
            _, text, *lines = block.strip().split("\n")
            asked = [line.split("  ")[0].strip() for line in lines if "?" in line]
            rows.append((text, random.sample(asked, min(5, len(asked)))))
    for start in range(0, len(rows), 40):
        near = rows[start : start + 40]
        group = corpus.add_group(text for text, _ in near)
        for text, asked in near:
            for question in asked:
                corpus.add_pair("qamr", question, text, group)


_MARK = re.compile(r"\s*->->\s*(\d+)\s*,\s*(\d+).*$", re.DOTALL)
_BATCH = re.compile(r"\s*BATCH (\d+)")
_BULLET = re.compile(r"\s*•\s*\*\*(.+?):?\*\*:?\s*(.*)")
_BEAM = "mohammadtavakoli78/BEAM"
_BEAM_PARTS = ("chats/1M", "chats/10M")  # never 100K or 500K: those measure


def add_beam_plans(corpus: Corpus, folder: Path, random: Random) -> None:
    """Long chats with an assistant: the plan's sentence for a message, and the message."""
    repository = Repository(folder, _BEAM)
    files = set(repository.list_files(*_BEAM_PARTS))
    for path in sorted(file for file in files if file.endswith("user_messages.json")):
        home = path.rsplit("/", 1)[0]
        plan = next((name for name in (f"{home}/plan_new.txt", f"{home}/plan.txt") if name in files), None)
        bullets = _read_bullets(repository.read(plan)) if plan else {}
        for batch in repository.read_json(path):
            _add_planned_batch(corpus, batch.get("messages") or [], bullets, random)


def _add_planned_batch(
    corpus: Corpus, messages: list[Any], bullets: dict[tuple[int, int], tuple[str, str]], random: Random
) -> None:
    flat = [part for item in messages for part in (item if isinstance(item, list) else [item])]
    said: list[str] = []
    planned: list[tuple[str, str]] = []
    for message in flat:
        text = message.get("content") or ""
        mark = _MARK.search(text)
        passages = split_passages(_MARK.sub("", text.strip()))
        if not passages or len(passages[0]) < 20:
            continue
        said.append(passages[0])
        corpus.add_passages(passages[1:2])
        title, rest = bullets.get((int(mark[1]), int(mark[2])), ("", "")) if mark else ("", "")
        if rest and random.random() < 0.5:
            question = rest if random.random() < 0.5 else f"{title.split(':')[-1]}: {rest}"
            planned.append((question[:300], passages[0]))
    group = corpus.add_group(said)
    corpus.add_passages(said, everyday="beam")
    for question, text in planned:
        corpus.add_pair("beam-plan", question, text, group)


def _read_bullets(plan: str) -> dict[tuple[int, int], tuple[str, str]]:
    bullets: dict[tuple[int, int], tuple[str, str]] = {}
    batch = number = 0
    for line in plan.split("\n"):
        if (start := _BATCH.match(line)) is not None:
            batch, number = int(start[1]), 0
        elif (bullet := _BULLET.match(line)) is not None:
            number += 1
            bullets[batch, number] = (bullet[1].strip(": "), bullet[2].strip())
    return bullets


def add_beam_chats(corpus: Corpus, folder: Path, random: Random) -> None:
    """Questions and answers in chats, and the probing questions about them."""
    repository = Repository(folder, _BEAM)
    files = set(repository.list_files(*_BEAM_PARTS))
    for path in sorted(file for file in files if file.endswith("/chat.json")):
        messages = [
            message
            for batch in repository.read_json(path)
            for turn in batch.get("turns", ())
            for message in turn
            if message.get("content")
        ]
        for asked, answer in pairwise(messages):
            if asked["role"] == "user" and answer["role"] == "assistant" and random.random() < 0.5:
                question = split_passages(_MARK.sub("", asked["content"].strip()), 400)
                passages = [part for part in split_passages(answer["content"]) if len(part) > 30]
                if question and passages:
                    if random.random() < 0.5:
                        corpus.add_pair("beam-answer", question[-1], random.choice(passages[:3]))
                    corpus.add_passages(passages)
        probing = f"{path.rsplit('/', 1)[0]}/probing_questions/probing_questions.json"
        if probing in files:
            _add_probes(corpus, messages, repository.read_json(probing), random)


def _add_probes(corpus: Corpus, messages: list[Any], probes: dict[str, list[Any]], random: Random) -> None:
    said = {message.get("id"): split_passages(_MARK.sub("", message["content"].strip())) for message in messages}
    own = [message.get("id") for message in messages if message["role"] == "user"]
    sample = random.sample(own, min(400, len(own)))
    group = corpus.add_group(said[number][0] for number in sample if said[number])
    for kind, asked in probes.items():
        for probe in asked:
            if kind in {"abstention", "event_ordering", "summarization"}:
                corpus.questions.append(corpus.add_text(probe["question"]))
                continue
            for number in list(_find_numbers(probe.get("source_chat_ids")))[:4]:
                if said.get(number):
                    best = _find_best(said[number], probe["question"], "")
                    corpus.add_pair("beam-probe", probe["question"], best, group)


def _find_numbers(value: object) -> Iterator[int]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _find_numbers(item)
    elif isinstance(value, int):
        yield value


def add_topical_chat(corpus: Corpus, folder: Path, _: Random) -> None:
    repository = Repository(folder, "alexa/Topical-Chat")
    for part in ("test_freq", "test_rare", "valid_freq", "valid_rare"):
        for chat in repository.read_json(f"conversations/{part}.json").values():
            _add_chat(corpus, "topical", [turn["message"].strip() for turn in chat["content"]])
        for sets in repository.read_json(f"reading_sets/pre-build/{part}.json").values():
            for facts in (facts for side in ("agent_1", "agent_2") for facts in sets.get(side, {}).values()):
                if isinstance(facts, dict):
                    known = (facts.get("shortened_wiki_lead_section"), *(facts.get("fun_facts") or ()))
                    for fact in known:
                        if isinstance(fact, str):
                            corpus.add_passages(split_passages(fact, 500))


def _add_chat(corpus: Corpus, source: str, said: list[str]) -> int:
    """Add a chat's turns, and each question with the reply to it."""
    group = corpus.add_group(text for text in said if len(text) > 10)
    corpus.add_passages((text for text in said if len(text) > 10), everyday=source)
    for asked, answer in pairwise(said):
        question = (split_sentences(asked) or [""])[-1]
        is_reply = question.endswith("?") and not answer.endswith("?")
        if is_reply and len(find_words(question)) >= 3 and len(find_words(answer)) >= 4:
            corpus.add_pair(source, question, answer, group)
    return group


def add_persona_chat(corpus: Corpus, folder: Path, _: Random) -> None:
    """Two made-up people: their talk, and each line of their descriptions with the turn that says it."""
    repository = Repository(folder, "google-research-datasets/Synthetic-Persona-Chat")
    for path in repository.list_files("data"):
        for row in repository.read_csv(path) if path.endswith(".csv") else ():
            turns = [line.partition(": ") for line in row["Best Generated Conversation"].split("\n")]
            said = [(speaker, text.strip()) for speaker, _, text in turns if text]
            group = _add_chat(corpus, "persona-reply", [text for _, text in said])
            for speaker in ("User 1", "User 2"):
                own = [text for name, text in said if name == speaker]
                for line in row[f"{speaker.lower()} personas"].split("\n"):
                    _add_persona_line(corpus, line.strip(), own, group)


def _add_persona_line(corpus: Corpus, line: str, own: list[str], group: int) -> None:
    words = find_words(line)
    best = max(own, key=lambda text: len(words & find_words(text)) / (8 + len(find_words(text))), default="")
    if len(words & find_words(best)) >= 2 and best != line:
        corpus.add_pair("persona-line", line, best, group)


def add_assistant_talk(corpus: Corpus, folder: Path, random: Random) -> None:
    """Talk with an assistant about errands: schema-guided dialogues and Taskmaster."""
    repository = Repository(folder, "google-research-datasets/dstc8-schema-guided-dialogue")
    for path in (path for path in repository.list_files("train") if "dialogues_" in path):
        for chat in repository.read_json(path):
            said = [turn["utterance"] for turn in chat["turns"]]
            group = corpus.add_group(text for text in said if len(text) > 12)
            corpus.add_passages(said)
            for asked, answer in pairwise(said):
                if asked.endswith("?") and len(find_words(answer)) >= 4 and random.random() < 0.03:
                    corpus.add_pair("schema", split_sentences(asked)[-1], answer, group)
    repository = Repository(folder, "google-research-datasets/Taskmaster")
    for path in repository.list_files("TM-4-2024/data"):
        for chat in repository.read_json(path) if path.endswith(".json") else ():
            corpus.add_passages(turn["text"] for turn in chat["utterances"])


_NOISE = re.compile(r"\{[a-z]+\}|\b(um|uh|mm|hmm)\b,?", re.IGNORECASE)


def add_meetings(corpus: Corpus, folder: Path, _: Random) -> None:
    """Meetings of design teams and academics, and questions about short parts of them."""
    repository = Repository(folder, "Yale-LILY/QMSum")
    for path in repository.list_files("data/Academic/jsonl", "data/Product/jsonl"):
        for line in repository.read(path).strip().split("\n"):
            meeting = json.loads(line)
            said = [
                " ".join(_NOISE.sub(" ", undo_tokenization(turn["content"])).split())
                for turn in meeting["meeting_transcripts"]
            ]
            passages = [split_passages(text)[:1] for text in said]
            group = corpus.add_group(text for found in passages for text in found if len(text) > 40)
            corpus.add_passages((text for found in passages for text in found if len(text) > 40), everyday="meeting")
            for asked in meeting["specific_query_list"]:
                near = [
                    text
                    for first, last in asked["relevant_text_span"]
                    for found in passages[int(first) : int(last) + 1]
                    for text in found
                    if len(text) > 40
                ]
                if near and len(near) <= 25:
                    best = _find_best(near, asked["query"], asked["answer"])
                    corpus.add_pair("meeting", asked["query"], best, group)


_COMMON_VOICE = (
    *("sentence-collector", "jf99", "harvsents", "ajaydee", "DNGros", "elleo"),
    *("tww.id.au.proverbs", "est31", "pro.gadget", "reinhart1010"),
)


def add_sentences(corpus: Corpus, folder: Path, _: Random) -> None:
    """Everyday sentences of Common Voice, and Little Women."""
    repository = Repository(folder, "common-voice/common-voice")
    for name in _COMMON_VOICE:
        corpus.add_passages(repository.read(f"server/data/en/{name}.txt").split("\n"))
    book = Repository(folder, "GITenberg/Little-Women_514").read("514.txt").replace("\r", "")
    for paragraph in re.split(r"\n\s*\n", book)[60:-80]:
        corpus.add_passages(split_passages(paragraph.replace("\n", " "), 400))


def add_chitchat(corpus: Corpus, folder: Path, _: Random) -> None:
    """Talk of strangers; what one of them writes in a row is one turn."""
    chats = json.loads((folder / "chitchat_dataset" / "dataset.json").read_text(encoding="utf-8"))
    for chat in chats.values():
        said = [" ".join(line["text"].strip() for line in turn if line.get("text")) for turn in chat["messages"]]
        _add_chat(corpus, "chitchat", [text for text in said if text])


def add_staged_talk(corpus: Corpus, folder: Path, _: Random) -> None:
    """Errands that people played with an assistant who was a person too."""
    repository = Repository(folder, "RasaHQ/STAR")
    for path in repository.list_files("dialogues"):
        events = repository.read_json(path)["Events"] if path.endswith(".json") else ()
        said = [event["Text"].strip() for event in events if event["Action"] in {"utter", "pick_suggestion"}]
        corpus.add_group(text for text in said if len(text) > 12)
        corpus.add_passages(said)


def add_split_sentences(corpus: Corpus, folder: Path, _: Random) -> None:
    """Long sentences of Wikipedia, and the two sentences that say the same."""
    repository = Repository(folder, "google-research-datasets/wiki-split")
    for part in ("tune", "validation", "test"):
        texts = re.split(r"\t|\n|<::::>", repository.read(f"{part}.tsv"))
        corpus.add_passages(undo_tokenization(text.replace("''", '"').strip()) for text in texts)


def add_queries(corpus: Corpus, folder: Path, _: Random) -> None:
    """Questions that people ask a search engine or an assistant; no text answers them."""
    queries = Repository(folder, "google-research-datasets/query-wellformedness")
    for part in ("train", "dev", "test"):
        rows = (line.split("\t")[0] for line in queries.read(f"{part}.tsv").split("\n"))
        corpus.questions += [corpus.add_text(undo_tokenization(row)) for row in rows if row]
    for rows in Repository(folder, "clinc/oos-eval").read_json("data/data_full.json").values():
        corpus.questions += [corpus.add_text(text) for text, _ in rows]
