"""Two months of two users: what docs/why/a-year.md tells of a year holds for every change."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from limpet_bench import year
from limpet_bench.lives import life
from limpet_bench.year import BUDGET, Look, Year

DAYS, USERS = 60, 2


@pytest.fixture(scope="module")
def looks(tmp_path_factory: pytest.TempPathFactory) -> list[Look]:
    return list(Year(tmp_path_factory.mktemp("year"), DAYS, USERS).looks())


def test_explicit_records_all_stay_alive(looks):
    assert [look.explicit for look in looks] == [12, 14]
    assert all(look.explicit_alive == look.explicit for look in looks)


def test_context_stays_within_budget_and_uses_memory(looks):
    assert BUDGET / 2 < looks[-1].tokens_most <= BUDGET


def test_outdated_facts_are_not_current(looks):
    over = [
        fact for user in year._USERS[:USERS] for fact in life(user, DAYS, year.SEED).facts if fact.has_ended(DAYS - 1)
    ]
    assert over, "a life in which nothing changes shows nothing"
    assert looks[-1].outdated == 0
    assert looks[-1].superseded > 0


def test_current_facts_are_known_and_recalled(looks):
    assert looks[-1].facts > 60
    assert looks[-1].known >= 0.9
    assert looks[-1].relevant >= 0.95, looks[-1].unanswered


def test_agent_receives_new_values_lasting_facts_and_each_line_once(looks):
    last = looks[-1]
    assert last.lasting is not None
    assert last.lasting >= 0.95, last.unanswered
    assert last.new_first is not None, "a life in which nothing changes shows nothing"
    assert last.new_first >= 0.9, last.stale
    assert last.marked is not None
    assert last.marked >= 0.9, last.stale
    assert len(last.repeats) <= 0.01 * last.lines, last.repeats[:10]


def test_learned_junk_stays_below_limit(looks):
    for look in looks:
        assert look.junk is not None
        assert look.junk <= 0.2, look.junk_texts  # of what is presented as current


def test_store_growth_is_bounded(looks):
    """Turns are summarized: what is current grows far slower than what is said."""
    first, last = looks
    assert last.messages > 1.8 * first.messages
    assert last.current < 1.7 * first.current
    assert last.current < last.messages / 3
    assert last.bytes < 4_000 * last.messages


def test_simulated_life_is_reproducible_by_seed():
    assert life("alice", 90, 3) == life("alice", 90, 3)
    assert life("alice", 90, 3).days != life("alice", 90, 4).days


def test_bench_year_prints_table_json_and_plot(looks, monkeypatch, tmp_path, capsys):
    class Lived:
        def __init__(self, folder: Path, days: int, users: int) -> None:
            assert folder.is_dir()

        def looks(self):
            return iter(looks)

    monkeypatch.setattr(year, "Year", Lived)
    picture = tmp_path / "year.svg"
    args = argparse.Namespace(days=DAYS, users=USERS, plot=picture, json=False, faults=False, folder=None)
    assert year.main(args) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split()[:3] == ["day", "messages", "current"]
    assert [line.split()[0] for line in rows] == ["30", "60"]
    drawn = ET.fromstring(picture.read_text(encoding="utf-8"))
    assert len(drawn.findall("{http://www.w3.org/2000/svg}polyline")) == 5

    args.json = True
    assert year.main(args) == 0
    told = json.loads(capsys.readouterr().out)
    assert [look["day"] for look in told["looks"]] == [30, 60]
    assert told["budget"] == BUDGET
