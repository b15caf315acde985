"""records: what is special about a history."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from limpet.cli.derive import OperationCommand
from limpet.cli.render_memory import history_lines


class ShowHistory(OperationCommand):
    def format(self, answer: Any, given: Mapping[str, Any], args: Namespace) -> list[str]:
        return history_lines(answer)


SPECIAL: Mapping[str, type[OperationCommand]] = {"records.history": ShowHistory}
