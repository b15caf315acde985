from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from argparse import _SubParsersAction
from importlib import import_module
from pathlib import Path

import pytest

from limpet import Limpet, __version__
from limpet.cli.derive import list_words
from limpet.cli.main import DERIVED, HAND_WRITTEN, build_index, build_parser
from limpet.cli.options import Parser
from limpet.search.recipes import RECIPES

HEAVY = {"asyncio", "json", "logging", "numpy", "psycopg", "snowballstemmer", "sqlite3", "tomllib"}
COMMANDS = (*DERIVED, *HAND_WRITTEN, "bench")


def limpet(*arguments: str, **more) -> subprocess.Popen[str]:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True} | more
    return subprocess.Popen([sys.executable, "-m", "limpet", *arguments], **pipes)


def test_help_lists_every_command(run):
    done = run("--help")
    assert done.status == 0
    assert [name for name in COMMANDS if f"\n    {name} " not in done.out] == []
    assert done.err == ""


@pytest.mark.parametrize("name", COMMANDS)
def test_help_exists_for_every_command(run, name):
    done = run(name, "--help")
    assert done.status == 0
    assert f"usage: limpet {name}" in done.out


def test_version_option_prints_version(run):
    assert run("--version").out == f"limpet {__version__}\n"


def test_help_imports_no_heavy_modules():
    code = (
        "import sys; from limpet.cli.main import main; status = main(['--help']);"
        "print(status, *sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    status, *loaded = done.stderr.split()
    assert status == "0"
    assert (HEAVY | {"limpet.config", "limpet.model.record", "limpet.api"}) & set(loaded) == set()


def test_command_imports_no_plugins_or_other_commands():
    code = (
        "import sys; from limpet.cli.main import main; status = main(['recall', '--help']);"
        "print(status, *sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    status, *loaded = done.stderr.split()
    assert status == "0"
    heavy = HEAVY - {"json", "logging"}  # what the table of operations is made with
    assert (heavy | {"importlib.metadata", "limpet.cli.serve", "limpet.cli.store", "limpet_bench"}) & set(loaded) == (
        set()
    )


def test_hand_written_commands_are_where_the_list_says():
    for name, (summary, place) in HAND_WRITTEN.items():
        commands = Parser().add_subparsers()
        module, _, function = place.rpartition(".")
        getattr(import_module(f"limpet.cli.{module}"), function)(commands, summary)
        assert list(commands.choices) == [name]
        [shown] = commands._choices_actions
        assert shown.help == summary


def test_the_index_names_the_commands_of_the_whole_parser():
    def names(parser):
        [commands] = [action for action in parser._actions if isinstance(action, _SubParsersAction)]
        return set(commands.choices)

    assert names(build_index()) == names(build_parser())
    assert set(list_words()) <= {*DERIVED, *HAND_WRITTEN}


def test_recall_takes_every_recipe(run, talk):
    for recipe in RECIPES:
        done = run("recall", "heron", "--user", "ana", "--recipe", recipe)
        assert done.status == (recipe == "vectors")  # there is no embedder here


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (
            ["recall", "tea", "--usr", "ada"],
            "limpet: --usr is not an option; did you mean --user? (see limpet recall --help)\n",
        ),
        (
            ["records", "--typ", "fact"],
            "limpet: --typ is not an option; did you mean --type? (see limpet records --help)\n",
        ),
        (["--dta", "x", "stats"], "limpet: --dta is not an option; did you mean --data? (see limpet --help)\n"),
        (["recal", "tea"], "limpet: 'recal' is not a command; did you mean recall? (see limpet --help)\n"),
        (
            ["--data", "x", "sesions"],
            "limpet: 'sesions' is not a command; did you mean sessions? (see limpet --help)\n",
        ),
        (["xyzzy"], "limpet: 'xyzzy' is not a command (see limpet --help)\n"),
        (
            ["jobs", "retri"],
            "limpet: argument VERB: 'retri' is not a choice; did you mean retry? (see limpet jobs --help)\n",
        ),
    ],
)
def test_misspelled_command_gets_a_suggestion(run, typed, said):
    done = run(*typed)
    assert (done.status, done.out, done.err) == (2, "", said)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (
            ["recall", "tea", "-k", "ten"],
            "limpet: argument -k: 'ten' is not a whole number (see limpet recall --help)\n",
        ),
        (
            ["remember", "tea", "--confidence", "high"],
            "limpet: argument --confidence: 'high' is not a number (see limpet remember --help)\n",
        ),
    ],
)
def test_option_that_is_not_a_number_says_so(run, typed, said):
    done = run(*typed)
    assert (done.status, done.err) == (2, said)


def test_bench_without_its_distribution_names_install_command(run, monkeypatch):
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: [])
    done = run("bench", "speed")
    assert done.status == 2
    assert "pip install ./bench" in done.err


def test_bench_help_does_not_import_benchmark_module():
    code = (
        "import sys; from limpet.cli.main import main; main(['bench', '--help']);"
        "print('limpet_bench.speed' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"


def test_no_command_prints_help_and_exits_2(run):
    done = run()
    assert done.status == 2
    assert "COMMAND" in done.err
    assert done.err.endswith("limpet: name a command\n")
    assert done.out == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["frobnicate"], "frobnicate"),
        (["sessions", "--limit", "many"], "--limit"),
        (["sessions", "--limi=5"], "--limi"),  # spelled out, so that a new option breaks nobody's script
        (["recall"], "QUERY"),
        (["recall", "x", "--since", "yesterday", "--user", "a"], "ISO 8601"),
        (["recall", "x", "--user", "a", "--kind", "dream"], "dream"),
        (["remember", "x", "--user", "a", "--meta", "novalue"], "KEY=VALUE"),
        (["remember", "x", "--user", "a", "--ttl", "soon"], "span of time"),
        (["remember", "x", "--user", "a", "--type", "rumour"], "rumour"),
        (["import", "x", "--format", "xml"], "xml"),
        (["bench"], "BENCHMARK"),
        (["sessions", "burn"], "burn"),
    ],
)
def test_wrong_usage_prints_one_line_and_exits_2(run, arguments, said):
    done = run(*arguments)
    assert done.status == 2
    assert done.err.count("\n") == 1
    assert done.err.startswith("limpet: ")
    assert said in done.err
    assert "--help)" in done.err
    assert done.out == ""
    assert run(*arguments, "--json").error["code"] == "usage"


def test_global_options_work_before_and_after_command(run, tmp_path):
    there = str(tmp_path / "there")
    run("remember", "x", "--user", "a", "--data", there)
    before = run("--data", there, "--json", "records", "list")
    after = run("records", "list", "--data", there, "--json")
    between = run("records", "--data", there, "--json", "list")
    assert before == after == between
    assert len(before.json) == 1


def test_global_option_given_twice_uses_last_value(run, tmp_path):
    run("remember", "x", "--user", "a", "--data", str(tmp_path / "full"))
    done = run("--data", str(tmp_path / "empty"), "records", "--data", str(tmp_path / "full"), "--json")
    assert len(done.json) == 1


def test_error_prints_one_line_and_exits_1(run, talk):
    done = run("records", "show", "nope")
    assert (done.status, done.out) == (1, "")
    assert done.err == "limpet: no record nope here\n"


def test_error_as_json_has_code(run, talk):
    done = run("--json", "sessions", "show", "00000000-0000-7000-8000-000000000000")
    assert done.status == 1
    assert done.out == ""
    assert done.error["code"] == "session_not_found"


def test_error_message_escapes_control_characters(run, talk):
    done = run("import", "no\x1b[2Jfile\nlimpet: forged")
    assert done.status == 1
    assert "\x1b" not in done.err
    assert done.err.count("\n") == 1


def test_unknown_setting_is_rejected(run, monkeypatch, tmp_path):
    monkeypatch.setenv("LIMPET_SEARCH_KK", "3")
    assert "LIMPET_SEARCH_K?" in run("sessions").err
    monkeypatch.delenv("LIMPET_SEARCH_KK")
    file = tmp_path / "wrong.toml"
    file.write_text("[serch]\nk = 1\n")
    assert run("sessions", "--config", str(file), "--json").error["code"] == "config_error"
    monkeypatch.setenv("LIMPET_CONFIG", str(file))
    assert run("sessions").status == 1


def test_settings_from_environment_override_file(run, monkeypatch, tmp_path, talk):
    file = tmp_path / "settings.toml"
    file.write_text("[search]\nk = 1\n")
    words = ("recall", "heron frogs year", "--user", "ana", "--json")
    assert len(run(*words).json) == 3
    assert len(run(*words, "--config", str(file)).json) == 1
    monkeypatch.setenv("LIMPET_SEARCH_K", "2")
    assert len(run(*words, "--config", str(file)).json) == 2


def test_config_file_in_current_folder_is_ignored(run, tmp_path):
    (tmp_path / "limpet.toml").write_text("nonsense")
    assert run("sessions").status == 0


def test_verbose_shows_info_log_lines(run, data):
    data.mkdir()
    (data / "sessions.json").write_text("[]")
    assert run("sessions").err == ""
    (data / "sessions.json").write_text("[ ]")
    assert "limpet: info: imported 0 sessions" in run("sessions", "-v").err


def test_warning_log_lines_are_shown_by_default(run, data):
    data.mkdir()
    (data / "sessions.json").write_text("{broken")
    done = run("sessions")
    assert done.status == 0
    assert done.err.startswith("limpet: error: ")
    assert done.err.count("\n") == 1


def test_tenant_option_isolates_tenants(run):
    run("remember", "the kettle is blue", "--user", "a", "--tenant", "one")
    assert run("--tenant", "two", "recall", "kettle", "--user", "a", "--json").json == []
    assert len(run("--tenant", "one", "recall", "kettle", "--user", "a", "--json").json) == 1
    assert run("--tenant", " ", "sessions").status == 1


@pytest.mark.slow
def test_closed_output_pipe_exits_cleanly(data):
    with Limpet.open(data) as memory:
        for number in range(400):
            memory.remember(f"memory {number} " + "x" * 500, user="a")
    process = limpet("records", "--limit", "400", "--json")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(10)
    process.stdout.close()
    assert process.wait(60) == 0
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.stdin is not None
    process.stdin.close()


def test_interrupt_prints_one_line_and_exits_130(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    process = limpet("import", "pipe", stdin=subprocess.DEVNULL)
    with open(tmp_path / "pipe", "wb"):  # open as soon as the command reads it, and then silent
        process.send_signal(signal.SIGINT)
    # A signal that came in the instant before the command read is seen when the pipe is closed.
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", "limpet: interrupted\n")


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_unwritable_output_exits_1():
    with open("/dev/full", "w") as full:
        process = limpet("demo", stdout=full)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (1, "limpet: No space left on device\n")


@pytest.mark.slow
def test_output_works_in_ascii_encoding(data):
    with Limpet.open(data) as memory:
        memory.remember("Crème brûlée 🍮", user="a")
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii"}
    out, err = limpet("records", env=ascii_only).communicate(timeout=60)
    assert (r"br\xfbl" in out, err) == (True, "")
    out, err = limpet("records", "--json", env=ascii_only).communicate(timeout=60)
    assert (json.loads(out)[0]["content"], err) == ("Crème brûlée 🍮", "")


def test_console_script_points_to_main():
    text = (Path(__file__).parents[3] / "pyproject.toml").read_text()
    assert 'limpet = "limpet.cli.main:main"' in text


def test_every_option_has_help_text():
    def silent(parser):
        for action in parser._actions:
            if isinstance(action, _SubParsersAction):
                for child in action.choices.values():
                    yield from silent(child)
            elif not action.help:
                yield parser.prog, action.dest

    assert list(silent(build_parser())) == []
