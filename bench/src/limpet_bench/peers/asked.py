"""Texts and questions: public conversations, or scripted lives that come with the package."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from limpet.errors import InvalidInput
from limpet_bench.datasets import SETS, Conversation, Question, Turn, load
from limpet_bench.lives import Exchange, Life, life

USERS = ("ann", "ben", "cleo")
_BEGAN = datetime(2025, 1, 1, 9, tzinfo=UTC)
_ECHOES = ("You told me: ", "Yes, you told me.", "Long ago you said: ")
_MESSAGES_A_DAY = 9  # of one user, about


def script_lives(messages: int) -> list[Conversation]:
    """Lives of three users with about that many messages, and a question for each fact true at the end."""
    days = max(14, messages // (len(USERS) * _MESSAGES_A_DAY))
    return [_conversation(life(user, days, seed=1)) for user in USERS]


def _conversation(lived: Life) -> Conversation:
    said = [(day, each) for day, exchanges in enumerate(lived.days) for each in exchanges if not _is_echo(each)]
    turns = tuple(_turns(lived.user, said))
    questions = []
    for number, fact in enumerate(lived.facts):
        evidence = [turn for turn in turns if fact.sentence in turn.text]
        if fact.question and fact.until is None and evidence:
            questions.append(
                Question(
                    f"{lived.user}/q{number}",
                    fact.question,
                    fact.types[0],
                    None,
                    answerable=True,
                    turns=frozenset(turn.id for turn in evidence),
                    sessions=frozenset(turn.session for turn in evidence),
                )
            )
    return Conversation(lived.user, turns, tuple(questions))


def _is_echo(exchange: Exchange) -> bool:
    """Return whether a text is repeated, so that the evidence would be ambiguous."""
    return exchange.reply.startswith(_ECHOES)


def _turns(user: str, said: Iterable[tuple[int, Exchange]]) -> Iterator[Turn]:
    for number, (day, exchange) in enumerate(said):
        at, session = _BEGAN + timedelta(days=day, minutes=number % 600), f"{exchange.chat} {day}"
        yield Turn(f"{user}/{number}u", session, "user", None, at, exchange.text)
        yield Turn(f"{user}/{number}a", session, "assistant", None, at, exchange.reply)


def public(folder: Path, chosen: Sequence[str] | None) -> dict[str, list[Conversation]]:
    names = chosen or [name for name in SETS if (folder / name).is_dir()]
    if not names:
        raise InvalidInput(f"{folder} contains none of {', '.join(SETS)}; --data must be the folder of the sets")
    return {name: load(folder / name) for name in names}


def limit_questions(conversations: Sequence[Conversation], questions: int) -> list[Conversation]:
    """Return that many answerable questions, spread over all conversations, and their conversations."""
    asked = [[question for question in each.questions if question.answerable] for each in conversations]
    shares = [0] * len(asked)
    while sum(shares) < min(questions, sum(map(len, asked))):
        for at, mine in enumerate(asked):
            if shares[at] < len(mine) and sum(shares) < questions:
                shares[at] += 1
    return [
        replace(each, questions=tuple(mine[place * len(mine) // share] for place in range(share)))
        for each, mine, share in zip(conversations, asked, shares, strict=True)
        if share
    ]


def first_turns(conversations: Iterable[Conversation], most: int) -> list[tuple[str, Turn]]:
    """Yield turns with their owners."""
    return [(each.id, turn) for each in conversations for turn in each.turns][:most]


def save(folder: Path, conversations: Sequence[Conversation]) -> None:
    """Write in the form of the public sets, for other processes to load."""
    folder.mkdir()
    turns = [
        {
            "conv_id": each.id,
            "turn_id": turn.id,
            "session_id": turn.session,
            "role": turn.role,
            "speaker": turn.name,
            "timestamp": turn.at.replace(tzinfo=None).isoformat(),
            "text": turn.text,
        }
        for each in conversations
        for turn in each.turns
    ]
    questions = [
        {
            "conv_id": each.id,
            "query_id": question.id,
            "question": question.text,
            "category": question.category,
            "question_date": question.at and question.at.replace(tzinfo=None).isoformat(),
            "evidence_turn_ids": sorted(question.turns),
            "evidence_session_ids": sorted(question.sessions),
        }
        for each in conversations
        for question in each.questions
    ]
    for name, lines in (("conversations", turns), ("queries", questions)):
        with gzip.open(folder / f"{name}.jsonl.gz", "wt", encoding="utf-8", compresslevel=1) as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
