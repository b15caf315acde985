"""jobs: what is special about trying them again and running them."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from limpet.cli.derive import OperationCommand
from limpet.cli.options import Parser, UsageError


class RetryJobs(OperationCommand):
    def add_arguments(self, parser: Parser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--all", action="store_true", help="all there are")

    def read(self, args: Namespace) -> dict[str, Any]:
        given = super().read(args)
        if not given.get("ids"):
            given.pop("ids", None)
        if len(given) + args.all != 1:
            raise UsageError("say which jobs: their numbers, --kind KIND or --all")
        return given


class RunJobs(OperationCommand):
    def to_json(self, answer: int, given: Mapping[str, Any]) -> Any:
        return {"jobs": answer}


SPECIAL: Mapping[str, type[OperationCommand]] = {"jobs.retry": RetryJobs, "jobs.run": RunJobs}
