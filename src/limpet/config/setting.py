"""One setting: its default, what it may be, and what it means."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import Any, NamedTuple

from limpet.errors import ConfigError, InvalidKey
from limpet.model.text import MAX_NAME_BYTES, check_name

_BOOLS = dict.fromkeys(("true", "yes", "on", "1"), True) | dict.fromkeys(("false", "no", "off", "0"), False)
_NUMBERS = {int: "an integer", float: "a number"}
_OTHERS = {bool: "true or false", str: "a name"}


class Setting(NamedTuple):
    """What a field may hold: the type of its default, within a range or among choices."""

    default: Any
    doc: str
    least: float
    most: float
    choices: tuple[str, ...]

    @property
    def constraint(self) -> str:
        kind = type(self.default)
        if self.choices:
            return " or ".join(f'"{choice}"' for choice in self.choices)
        return f"{_NUMBERS[kind]} from {self.least} to {self.most}" if kind in _NUMBERS else _OTHERS[kind]

    def check(self, value: Any, what: str) -> Any:
        kind = type(self.default)
        right = type(value) is kind or (kind is float and type(value) is int)
        right = right and (kind not in _NUMBERS or self.least <= value <= self.most)
        if not right or (self.choices and value not in self.choices):
            raise ConfigError(f"{what} must be {self.constraint}, not {value!r}")
        try:
            most = int(self.most) or MAX_NAME_BYTES  # of a text, in bytes
            return check_name(value, what, max_bytes=most) if kind is str else kind(value)
        except InvalidKey as error:
            raise ConfigError(str(error)) from None

    def parse(self, text: str) -> Any:
        """What an environment's text means; what it cannot mean stays text, for the check to refuse."""
        if isinstance(self.default, bool):
            return _BOOLS.get(text.strip().lower(), text)
        try:
            return type(self.default)(text)
        except ValueError:
            return text


def setting(default: Any, doc: str, least: float = 0, most: float = 0, choices: tuple[str, ...] = ()) -> Any:
    return field(default=default, metadata={"setting": Setting(default, doc, least, most, choices)})


def parse_toml(content: bytes, where: str) -> object:
    import tomllib

    try:
        return tomllib.loads(content.decode())
    except ValueError as error:
        raise ConfigError(f"{where}: is not TOML: {error}") from None


def suggest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    import difflib

    close = difflib.get_close_matches(word, known, n=1, cutoff=cutoff)
    return f"; did you mean {close[0]}?" if close else ""
