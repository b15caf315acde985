"""Where the memory is, and opening it."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from limpet.errors import InvalidInput

if TYPE_CHECKING:
    from pathlib import Path

    from limpet import Config, Limpet
    from limpet.providers.llm import Llm

MEMORY = ":memory:"
USER_ENV = "LIMPET_USER"
DEFAULT_USER = "me"  # who runs the program: a store on one's own machine has one user


def resolve_location(args: Namespace) -> str:
    """As given, else LIMPET_DATA, else the platform's folder for a user's data."""
    if args.data is not None:
        return check_location(args.data, "--data")
    return os.environ.get("LIMPET_DATA") or user_folder(os.environ, sys.platform)


def resolve_user(args: Namespace) -> str:
    """As given, else LIMPET_USER, else the default: for what needs the name itself."""
    return getattr(args, "user", None) or os.environ.get(USER_ENV) or DEFAULT_USER


def check_location(where: str, what: str) -> str:
    if not where.strip():
        raise InvalidInput(f"{what} is empty; name a folder or a postgresql:// address")
    return where


def user_folder(env: Mapping[str, str], platform: str) -> str:
    home = os.path.expanduser("~")
    if platform == "win32":
        base = env.get("LOCALAPPDATA") or os.path.join(home, "AppData", "Local")
    elif platform == "darwin":
        base = os.path.join(home, "Library", "Application Support")
    else:
        given = env.get("XDG_DATA_HOME", "")
        # The specification wants a relative path ignored.
        base = given if os.path.isabs(given) else os.path.join(home, ".local", "share")
    return os.path.join(base, "limpet")


def load_config(args: Namespace) -> Config:
    from limpet.config import Config

    return Config.load(args.config or os.environ.get("LIMPET_CONFIG") or None)


def open_memory(
    args: Namespace,
    *,
    creates: bool = False,
    needed: bool = False,
    config: Config | None = None,
    llm: Llm | None = None,
) -> Limpet:
    """The store. A command that only reads makes none: where there is none it sees an empty one, and says so."""
    from limpet import Limpet
    from limpet.model.scope import DEFAULT_TENANT

    where = resolve_location(args)
    if is_server(where):
        if config is not None:  # with settings of its own it works on the store itself
            raise InvalidInput(f"this command needs the store itself, not the server {where}; name another with --data")
        return _connect(args, where)
    config = disable_worker(load_config(args)) if config is None else config
    if not creates and not has_store(where):
        if needed:
            raise store_not_found(where)
        print(f"limpet: note: there is no store at {where} yet", file=sys.stderr)
        where = MEMORY
    tenant = DEFAULT_TENANT if args.tenant is None else args.tenant
    return Limpet.open(where, config=config, tenant=tenant, llm=llm)


def is_server(where: str) -> bool:
    return where.startswith(("http://", "https://"))


def _connect(args: Namespace, where: str) -> Limpet:
    from limpet import Limpet

    if args.tenant is not None:
        raise InvalidInput("a server's API key says which tenant it is: leave --tenant out")
    user = os.environ.get(USER_ENV) or None
    return Limpet.connect(where, key=args.api_key or os.environ.get("LIMPET_API_KEY") or None, user=user)


def disable_worker(config: Config) -> Config:
    """A command is over too soon for work in the background; a worker or the next program does what it leaves."""
    return map_config(config, lambda own: replace(own, jobs=replace(own.jobs, worker=False)))


def map_config(config: Config, change: Callable[[Config], Config]) -> Config:
    """A change of the settings and of every agent's own: they may not part where agents share a store."""
    general = change(replace(config, agents={}))
    return replace(general, agents={name: change(own) for name, own in config.agents.items()})


def has_store(where: str) -> bool:
    """Whether there is anything to open. A server is asked when it is opened."""
    return where == MEMORY or "://" in where or any(file.exists() for file in _candidate_files(where))


def _candidate_files(where: str) -> list[Path]:
    from pathlib import Path

    from limpet.api.runtime import database_file
    from limpet.lifecycle import SNAPSHOT

    path = Path(where).expanduser()
    return [database_file(path), path / SNAPSHOT]


def store_not_found(where: str) -> InvalidInput:
    return InvalidInput(f"there is no store at {where}; name another with --data")
