from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn

import hypothesis
import pytest

from limpet.testing import FakeClock
from tests import levels
from tests.citus_server import CITUS_NOT_TESTED, CITUS_URL, CitusAt
from tests.examples import examples
from tests.postgres_pool import DatabasesAgain
from tests.postgres_server import PostgresMissing, PostgresServer, ServerAt

if TYPE_CHECKING:
    from pathlib import Path

    from limpet import Limpet

SERVER_URL = "LIMPET_TEST_POSTGRES"
SERVER_MISSING = "LIMPET_TEST_POSTGRES_MISSING"
SERVER_REQUIRED = "LIMPET_REQUIRE_POSTGRES"
NOT_TESTED = "PostgreSQL was not tested"

# Most tests need no vectors. Those that make their own configuration have the default embedder.
os.environ.setdefault("LIMPET_EMBEDDING_MODEL", "none")

# Tests import ONNX Runtime themselves to see whether it is there.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

# Most tests wait for the disk to confirm what they wrote, and none of them pulls the plug: memory confirms sooner.
# Crash tests kill processes, which loses nothing that was written; ``make torture`` stays on the disk.
MEMORY_DISK = "/dev/shm"
MEMORY_DISK_ROOM = 4 << 30
if "TMPDIR" not in os.environ and os.access(MEMORY_DISK, os.W_OK):
    place = os.statvfs(MEMORY_DISK)
    if place.f_bavail * place.f_frsize >= MEMORY_DISK_ROOM and not place.f_flag & os.ST_NOEXEC:
        os.environ["TMPDIR"] = MEMORY_DISK
        tempfile.tempdir = None  # it may have been asked for already

# Started in the background by a script, or by many CI runners, this process ignores SIGINT, and so would every program
# that a test starts and then interrupts. A handler is not inherited, so they start with the default.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, lambda *_: None)

# By hand, all tests with every tenant encrypted: what is kept encrypted must behave like what is not.
ENCRYPTED = os.environ.get("LIMPET_TEST_ENCRYPTED", "0") != "0"
if ENCRYPTED:
    os.environ.setdefault("LIMPET_ENCRYPTION_KEY_ENV", "LIMPET_KEY")
    os.environ.setdefault("LIMPET_ENCRYPTION_PLAIN_FILES", "true")
    os.environ.setdefault("LIMPET_KEY", "c2VhbGVkIGZvciB0ZXN0cywgYW5kIGZvciBub3RoaW4=")

# A busy machine is no failure. What is about to land is tried with the same examples each time; new ones are looked for
# wherever else tests run.
hypothesis.settings.register_profile("limpet", deadline=None, max_examples=examples(), derandomize="CI" in os.environ)
hypothesis.settings.load_profile("limpet")


@pytest.fixture(scope="session", autouse=True)
def encrypted_by_hand() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        if ENCRYPTED:
            encrypt_everything(patch)
        yield


@pytest.fixture
def encrypted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every store opened from now on has a key for every tenant, whatever its settings are. Files stay plain."""
    encrypt_everything(monkeypatch)


def encrypt_everything(patch: pytest.MonkeyPatch) -> None:
    from limpet.api import runtime
    from limpet.config import Config, EncryptionSettings
    from limpet.store.encryption_keys import EncryptionKeys

    def keys_of(config: Config) -> EncryptionKeys:
        if config.encryption != EncryptionSettings():
            return EncryptionKeys(config.encryption, os.environ, os.urandom)
        key = {"LIMPET_KEY": "c2VhbGVkIGZvciB0ZXN0cywgYW5kIGZvciBub3RoaW4="}
        return EncryptionKeys(EncryptionSettings(key_env="LIMPET_KEY"), key, os.urandom)

    def may_keep_files(self: runtime.Runtime, tenant: str) -> bool:
        return self.config.encryption == EncryptionSettings() or allowed(self, tenant)

    allowed = runtime.Runtime.can_write_files
    patch.setattr(runtime, "load_encryption_keys", keys_of)
    patch.setattr(runtime.Runtime, "can_write_files", may_keep_files)


@pytest.fixture
def no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Background work is done when a test asks for it: what a test compares must not change meanwhile."""
    monkeypatch.setenv("LIMPET_JOBS_WORKER", "false")


@pytest.fixture(autouse=True)
def no_worker_without_program(request: pytest.FixtureRequest) -> None:
    """The programs and servers of integration tests work as they do for everybody."""
    if levels.find_suite(request.path) in {"unit", "contract", "property"}:
        request.getfixturevalue("no_worker")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def postgres_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """A database on the shared server, its schema of today, with nothing in it."""
    server = _required_server(request.config)
    databases = request.config.stash.setdefault(_databases, DatabasesAgain(server))
    url = databases.take()
    yield url
    databases.give_back(url)


@pytest.fixture
def bare_postgres_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """A database on the shared server that no Limpet has seen."""
    server = _required_server(request.config)
    url = server.create_database()
    yield url
    server.drop_database(url)


@pytest.fixture
def private_postgres() -> Iterator[PostgresServer]:
    """A server of the test's own, to stop, restart and cut off; it keeps its promises to the disk."""
    try:
        server = PostgresServer.start_private(durable=True)
    except PostgresMissing as error:
        _refuse(str(error))
    with server:
        yield server


@pytest.fixture(params=("sqlite", "memory", pytest.param("postgres", marks=pytest.mark.postgres)))
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """What to open a store with, on each backend in turn."""
    return store_url_of(request, tmp_path)


@pytest.fixture(params=("sqlite", pytest.param("postgres", marks=pytest.mark.postgres)))
def durable_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store that is still there when it was closed, and that several processes may open."""
    if request.param == "sqlite":
        return str(tmp_path / "data")
    url: str = request.getfixturevalue("postgres_url")
    return url


def store_url_of(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "memory":
        return ":memory:"
    if request.param == "sqlite":
        return str(tmp_path / "data")
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture
def memory(store_url: str) -> Iterator[Limpet]:
    from limpet import Limpet

    with Limpet.open(store_url) as opened:
        yield opened


# One server for the whole run: the process that hands out tests starts it and tells the workers where it is; without
# workers the first test that needs it does.

_server = pytest.StashKey[ServerAt | str]()  # text: why there is none
_databases = pytest.StashKey[DatabasesAgain]()


def pytest_addoption(parser: pytest.Parser) -> None:
    levels.add_option(parser)


@pytest.hookimpl(trylast=True)  # when what was not asked for is gone
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    levels.select(config, items)


def pytest_configure(config: pytest.Config) -> None:
    hands_out_tests = config.getoption("dist", "no") != "no" and not hasattr(config, "workerinput")
    needs_server = config.getoption("level") != "quick" and not config.option.collectonly
    if hands_out_tests and needs_server:
        server = _shared_server(config)
        if isinstance(server, str):
            os.environ[SERVER_MISSING] = server
        elif CITUS_URL not in os.environ:
            os.environ[SERVER_URL] = server.url()


def pytest_unconfigure(config: pytest.Config) -> None:
    if databases := config.stash.get(_databases, None):
        databases.close()
    server = config.stash.get(_server, None)
    if isinstance(server, PostgresServer):
        os.environ.pop(SERVER_URL, None)
        server.close()


# Run by hand with everything encrypted, these would look for plain text in the tables, where there is none then, count
# the row that says a tenant is encrypted, or start a program that has no key.
LOOK_INTO_TABLES = {
    "test_doctor_finds_and_repairs_damage",
    "test_doctor_finds_and_repairs_damage_on_postgres",
    "test_recall_sees_changes_of_other_process_immediately",
    "test_vector_search_sees_writes_of_other_process_immediately",
    "test_remove_document_deletes_chunks_and_words",
    "test_remove_document_that_does_not_exist_changes_nothing",
    "test_doctor_repairs_lost_words_of_document",
    "test_embedding_job_dies_after_last_attempt_and_revives_on_enqueue",
    "test_forget_by_id_deletes_record_history_labels_and_words",
    "test_forget_removes_word_from_merged_index",
    "test_remember_cannot_overwrite_id_of_other_owner",
    "test_snapshot_import_failure_leaves_nothing",
    "test_tenant_cannot_reach_ids_of_other_tenant",
    "test_purge_user_deletes_everything_and_user_can_start_again",
    "test_purge_session_deletes_records_learned_only_from_it",
}


# These look at one machine's files, or copy a whole database there.
LOOK_AT_ONE_MACHINE = {
    "test_doctor_finds_and_repairs_damage_on_postgres",
    "test_encrypted_tenant_stores_no_plaintext_on_disk",
}


def pytest_runtest_setup(item: pytest.Item) -> None:
    if CITUS_URL in os.environ and getattr(item, "originalname", "") in LOOK_AT_ONE_MACHINE:
        pytest.skip("looks at one machine, and Citus has several")
    if ENCRYPTED and getattr(item, "originalname", "") in LOOK_INTO_TABLES:
        pytest.skip("looks into the tables, or starts a program without a key")
    if item.get_closest_marker("citus") and CITUS_URL not in os.environ:
        pytest.skip(f"{CITUS_NOT_TESTED}: set {CITUS_URL} to the URL of a coordinator")
    if item.get_closest_marker("postgres"):
        _required_server(item.config)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    all_skipped = terminalreporter.stats.get("skipped", ())
    if any(CITUS_NOT_TESTED in str(report.longrepr) for report in all_skipped):
        terminalreporter.section(CITUS_NOT_TESTED, sep="!", yellow=True, bold=True)
        terminalreporter.line(f"Set {CITUS_URL} to the URL of a coordinator: docs/how-to/several-machines.md")
    skipped = [report for report in all_skipped if NOT_TESTED in str(report.longrepr)]
    if skipped:
        terminalreporter.section(NOT_TESTED, sep="!", red=True, bold=True)
        terminalreporter.line(f"{len(skipped)} tests were skipped. {skipped[0].longrepr[2]}", red=True)
        terminalreporter.line(f"Install the dev extra, or set {SERVER_URL} to the URL of a server.")


def _required_server(config: pytest.Config) -> ServerAt:
    server = _shared_server(config)
    if isinstance(server, str):
        _refuse(server)
    return server


def _refuse(reason: str) -> NoReturn:
    if os.environ.get(SERVER_REQUIRED, "0") != "0":
        pytest.fail(f"{NOT_TESTED}, and {SERVER_REQUIRED} is set: {reason}", pytrace=False)
    pytest.skip(f"{NOT_TESTED}: {reason}")


def _shared_server(config: pytest.Config) -> ServerAt | str:
    if _server not in config.stash:
        config.stash[_server] = _find_server()
    return config.stash[_server]


def _find_server() -> ServerAt | str:
    if url := os.environ.get(CITUS_URL):
        return CitusAt(url)
    if url := os.environ.get(SERVER_URL):
        return ServerAt(url)
    if reason := os.environ.get(SERVER_MISSING):
        return reason
    try:
        return PostgresServer.start_private()
    except PostgresMissing as error:
        return str(error)
