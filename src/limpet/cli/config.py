"""config: the settings that hold. By hand: settings are not memory, and showing them opens no store."""

from __future__ import annotations

import os
from argparse import Namespace
from typing import Any, NamedTuple

from limpet.cli import show
from limpet.cli.options import add_command, load_config


class SettingInfo(NamedTuple):
    key: str
    value: Any
    source: str
    doc: str


def add(commands: Any, summary: str) -> None:
    parser = add_command(commands, "config", summary, show_config)
    parser.add_argument("name", metavar="NAME", nargs="?", help="a section or a setting, such as search or search.k")
    parser.add_argument("--all", action="store_true", help="also settings that have their default")
    parser.add_argument("--preset", metavar="PRESET", help="show what a preset sets, such as golemcore")


def show_config(args: Namespace) -> int:
    listed = _list_settings(args) if args.preset is None else _list_preset(args.preset)
    found = [each for each in listed if args.name in (None, each.key, each.key.partition(".")[0])]
    if args.name is not None and not found:
        raise _unknown_setting(args.name)
    if not args.all and args.name is None:
        found = [each for each in found if each.source != "default"]
    value = [{"key": each.key, "value": each.value, "from": each.source} for each in found]
    rows = [(each.key, _format_value(each.value), each.source, each.doc) for each in found]
    lines = show.format_table(("SETTING", "VALUE", "FROM", "MEANS"), rows) if rows else []
    show.print_result(args, value, lines or ["Every setting has its default; --all shows them."])
    return 0


def _list_settings(args: Namespace) -> list[SettingInfo]:
    from limpet.config import Config
    from limpet.config.load import PRESETS, find_preset
    from limpet.config.setting import hide_password

    config, file = load_config(args), args.config or os.environ.get("LIMPET_CONFIG") or None
    preset = find_preset(file, os.environ)
    chosen = {} if preset is None else PRESETS[preset]
    found = []
    for key, _, default, doc in Config.describe():
        section, _, name = key.partition(".")
        value, variable = getattr(getattr(config, section), name), f"LIMPET_{section}_{name}".upper()
        source = "default" if value == default else f"preset {preset}" if chosen.get(key) == value else str(file)
        source = variable if variable in os.environ else source
        found.append(SettingInfo(key, hide_password(value) if isinstance(value, str) else value, source, doc))
    return found


def _list_preset(name: str) -> list[SettingInfo]:
    """What a preset sets, also where that is the default."""
    from limpet.config import Config
    from limpet.config.load import get_preset

    chosen = get_preset(name, "--preset")
    return [
        SettingInfo(key, chosen[key], f"preset {name}", doc) for key, _, _, doc in Config.describe() if key in chosen
    ]


def _format_value(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _unknown_setting(name: str) -> Exception:
    from limpet.config import Config
    from limpet.errors import InvalidInput
    from limpet.model.values import suggest

    known = [key for key, *_ in Config.describe()]
    return InvalidInput(f"{name!r} is not a setting{suggest(name, known) or '; limpet config lists them'}")
