"""api-keys: what is special about making one and taking one away."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from limpet.cli import show
from limpet.cli.derive import OperationCommand
from limpet.cli.options import Parser
from limpet.model.schema import to_json

if TYPE_CHECKING:
    from limpet import NewKey

_ADMIN = ("read:store", "write:store")


class CreateKey(OperationCommand):
    """Its secret is printed this once."""

    def add_arguments(self, parser: Parser) -> None:
        super().add_arguments(parser)
        text = "it may do everything: --grant read:store and write:store"
        parser.add_argument("--admin", action="store_true", help=text)

    def read(self, args: Namespace) -> dict[str, Any]:
        given = super().read(args)
        return {**given, "grants": [*given.get("grants", ()), *(_ADMIN if args.admin else ())]}

    def to_json(self, answer: NewKey, given: Mapping[str, Any]) -> Any:
        return {"secret": answer.secret, **to_json(answer.info)}

    def format(self, answer: NewKey, given: Mapping[str, Any], args: Namespace) -> list[str]:
        said = f"That is the secret of the key {answer.info.name}. It is shown only now: keep it safe."
        return [answer.secret, show.one_line(said)]


class RevokeKey(OperationCommand):
    def to_json(self, answer: int, given: Mapping[str, Any]) -> Any:
        return {"revoked": bool(answer), "keys": answer}

    def format(self, answer: int, given: Mapping[str, Any], args: Namespace) -> list[str]:
        said = "is revoked" if answer else "is not a key, or was revoked before"
        others = f", and {answer - 1} made by it" if answer > 1 else ""
        return [show.one_line(f"{given['id_or_name']} {said}{others}")]


class AllowAnonymous(OperationCommand):
    needs_store = True

    def format(self, answer: None, given: Mapping[str, Any], args: Namespace) -> list[str]:
        return ["A server of this store asks programs on its machine for no key, until the next one is created."]


SPECIAL: Mapping[str, type[OperationCommand]] = {
    "access.keys.create": CreateKey,
    "access.keys.revoke": RevokeKey,
    "access.keys.allow_anonymous": AllowAnonymous,
}
