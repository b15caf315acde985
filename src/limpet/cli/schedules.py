"""schedule: what is special about deleting one, about its runs, and about what they said."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from limpet.cli import show
from limpet.cli.ask import confirm, is_interactive
from limpet.cli.derive import OperationCommand
from limpet.cli.render import explain_empty, run_table

if TYPE_CHECKING:
    from limpet import Limpet, Run, Schedule


class CreateSchedule(OperationCommand):
    def call(self, memory: Limpet, args: Namespace, given: Mapping[str, Any]) -> Any:
        from limpet.api.schedule_requests import describe_missing_runner

        made = super().call(memory, args, given)
        missing = describe_missing_runner(memory._view.runtime)  # noqa: SLF001 - of ours
        if missing is not None:
            print(f"limpet: note: {missing}", file=sys.stderr)
        return made


class DeleteSchedule(OperationCommand):
    asks = True

    def call(self, memory: Limpet, args: Namespace, given: Mapping[str, Any]) -> Any:
        found = memory.schedules.get(**given)
        if is_interactive():
            confirm(args, f"Delete the schedule {show.one_line(found.goal)[:60]!r} with its runs?")
        super().call(memory, args, given)
        return found.id

    def format(self, answer: str, given: Mapping[str, Any], args: Namespace) -> list[str]:
        return [f"Schedule {answer} deleted."]


class ListRuns(OperationCommand):
    """Their times are shown in the schedule's zone."""

    schedule: Schedule

    def call(self, memory: Limpet, args: Namespace, given: Mapping[str, Any]) -> Any:
        self.schedule = memory.schedules.get(given["id"], user=given.get("user"))
        return super().call(memory, args, given)

    def format_list(self, found: list[Run], given: Mapping[str, Any]) -> list[str]:
        if not found:
            return [explain_empty(self.operation.name, given)]
        lines = run_table(found, self.schedule)
        return [*lines, *show.next_page_hint(len(found), given.get("limit", 20), given.get("offset", 0))]


class ShowOutput(OperationCommand):
    """All of it: pages are for programs."""

    hidden = ("offset", "limit")

    def call(self, memory: Limpet, args: Namespace, given: Mapping[str, Any]) -> str:
        texts: list[str] = []
        offset: int | None = 0
        while offset is not None:
            page = super().call(memory, args, {**given, "offset": offset})
            texts.append(page.text)
            offset = page.next_offset
        return "".join(texts)

    def to_json(self, answer: str, given: Mapping[str, Any]) -> Any:
        return {"run": given["run_id"], "output": answer}

    def format(self, answer: str, given: Mapping[str, Any], args: Namespace) -> list[str]:
        return show.escape(answer).split("\n") if answer else ["It said nothing."]


SPECIAL: Mapping[str, type[OperationCommand]] = {
    "schedules.create": CreateSchedule,
    "schedules.delete": DeleteSchedule,
    "schedules.runs": ListRuns,
    "schedules.run_output": ShowOutput,
}
