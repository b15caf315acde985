"""One setting: its default, what it may be, and what it means."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from limpet.errors import ConfigError, InvalidInput, InvalidKey
from limpet.model.constraints import Choice, Integer, Number
from limpet.model.schema import Field
from limpet.model.values import check_name, short_repr

_PASSWORD = re.compile(r"(//[^:/@]*):[^@/]*@")
_BOOLS = dict.fromkeys(("true", "yes", "on", "1"), True) | dict.fromkeys(("false", "no", "off", "0"), False)


def hide_password(address: str) -> str:
    return _PASSWORD.sub(r"\1:***@", address)


class Setting(NamedTuple):
    """A field of a section, as files, variables and code give it."""

    field: Field

    @property
    def default(self) -> Any:
        return self.field.default

    @property
    def doc(self) -> str:
        return self.field.meaning

    @property
    def constraint(self) -> str:
        match self.field.codec:
            case Choice(words=words):
                return " or ".join(f'"{word}"' for word in words)
            case Integer(least=least, most=most):
                return f"an integer from {least} to {most}"
            case Number(least=least, most=most):
                return f"a number from {least} to {most}"
        return "true or false" if isinstance(self.default, bool) else "a name"

    def check(self, value: Any, what: str) -> Any:
        fits = type(value) is type(self.default) or (type(value), type(self.default)) == (int, float)
        try:
            if fits:
                return self.field.codec.check(value, what)
        except InvalidKey as error:
            raise ConfigError(str(error)) from None
        except InvalidInput:
            pass
        raise ConfigError(f"{what} must be {self.constraint}, not {short_repr(value)}")

    def parse(self, text: str) -> Any:
        """What an environment's text means; what it cannot mean stays text, for the check to refuse."""
        if isinstance(self.default, bool):
            return _BOOLS.get(text.strip().lower(), text)
        try:
            return type(self.default)(text)
        except ValueError:
            return text


def check_agent_name(name: object) -> str:
    try:
        return check_name(name, "an agent's name")
    except InvalidKey as error:
        raise ConfigError(str(error)) from None
