"""Figures of a table: how many of how many, beside a goal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class Figure:
    """A count with its faults. A goal is the least share, or the most where less is better."""

    measure: str
    name: str
    goal: float | None = None
    at_most: bool = False
    count: int = 0
    total: int = 0
    faults: list[str] = field(default_factory=list)

    def add(self, counted: bool, fault: str) -> None:
        """Count one case. The fault is kept where the case is one."""
        self.total += 1
        self.count += counted
        if counted == self.at_most:
            self.faults.append(fault)

    @property
    def share(self) -> float | None:
        return self.count / self.total if self.total else None

    @property
    def is_met(self) -> bool | None:
        """Whether the goal is met; None without a goal or a case."""
        if self.goal is None or self.share is None:
            return None
        return self.share <= self.goal if self.at_most else self.share >= self.goal

    def as_dict(self) -> dict[str, object]:
        return {
            "measure": self.measure,
            "name": self.name,
            "count": self.count,
            "total": self.total,
            "share": None if self.share is None else round(self.share, 4),
            "goal": self.goal,
            "at_most": self.at_most,
            "met": self.is_met,
        }


def format_table(figures: Sequence[Figure]) -> Iterator[str]:
    rows: list[tuple[str, ...]] = [("measure", "", "of", "share", "goal", "")]
    rows += [_row(figure) for figure in figures]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, *cells in rows:
        right = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
        yield f"{name.ljust(widths[0])}  {'  '.join(right)}".rstrip()


def _row(figure: Figure) -> tuple[str, ...]:
    share = "-" if figure.share is None else f"{figure.share:.3f}"
    sign = "≤" if figure.at_most else "≥"
    goal = "" if figure.goal is None else f"{sign} {figure.goal:.2f}"
    met = {None: "", True: "met", False: "not met"}[figure.is_met]
    return f"{figure.measure}: {figure.name}", str(figure.count), str(figure.total), share, goal, met
