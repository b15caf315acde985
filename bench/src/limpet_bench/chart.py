"""Draw a line chart as SVG without a library."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

_WIDTH, _HEIGHT = 860, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 60, 44, 78
_TEXT = "#333333"
_APART = 30


@dataclass(frozen=True, slots=True)
class Line:
    name: str
    values: Sequence[float]
    colour: str
    right: bool = False  # measured on the right axis, and dashed


def chart(title: str, x_name: str, xs: Sequence[float], lines: Sequence[Line], axes: tuple[str, str]) -> str:
    """Draw all lines over the same ``xs``; ``axes`` names the left and the right measure. Both start at 0."""
    return "\n".join(_svg(title, x_name, xs, lines, axes)) + "\n"


def _svg(title: str, x_name: str, xs: Sequence[float], lines: Sequence[Line], axes: tuple[str, str]) -> Iterator[str]:
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img"'
        f' font-family="sans-serif" font-size="12" fill="{_TEXT}">'
    )
    yield f"<title>{escape(title)}</title>"
    yield f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>'
    yield _label(_WIDTH / 2, 22, title, "middle", size=15)
    tops = [_top([value for line in lines if line.right is right for value in line.values]) for right in (False, True)]
    yield from _grid(xs, tops, axes, x_name)
    for at, line in enumerate(lines):
        top = tops[line.right]
        points = " ".join(f"{_x(x, xs):.1f},{_y(value, top):.1f}" for x, value in zip(xs, line.values, strict=True))
        dash = ' stroke-dasharray="6 4"' if line.right else ""
        yield f'<polyline points="{points}" fill="none" stroke="{line.colour}" stroke-width="2"{dash}/>'
        left = _LEFT + at * (_WIDTH - _LEFT - _RIGHT) / len(lines)
        yield f'<path d="M{left:.0f} {_HEIGHT - 16}h24" stroke="{line.colour}" stroke-width="2"{dash}/>'
        yield _label(left + 30, _HEIGHT - 12, line.name)
    yield "</svg>"


def _grid(xs: Sequence[float], tops: Sequence[float], axes: tuple[str, str], x_name: str) -> Iterator[str]:
    for step in range(6):
        y = _y(step, 5)
        yield f'<path d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}" stroke="#dddddd"/>'
        yield _label(_LEFT - 8, y + 4, _number(tops[0] * step / 5), "end")
        yield _label(_WIDTH - _RIGHT + 8, y + 4, _number(tops[1] * step / 5))
    for at, x in enumerate(xs):
        if at + 1 < len(xs) and _x(xs[at + 1], xs) - _x(x, xs) < _APART:
            continue  # it would overlap its neighbour's label
        yield _label(_x(x, xs), _HEIGHT - _BOTTOM + 18, _number(x), "middle")
    yield _label(_WIDTH / 2, _HEIGHT - _BOTTOM + 36, x_name, "middle")
    yield _label(_LEFT - 8, _TOP - 10, axes[0], "end")
    yield _label(_WIDTH - _RIGHT + 8, _TOP - 10, axes[1])


def _label(x: float, y: float, text: str, anchor: str = "start", size: int = 12) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{escape(text)}</text>'


def _x(value: float, xs: Sequence[float]) -> float:
    """Spread from first to last; a single one is centred."""
    width = _WIDTH - _LEFT - _RIGHT
    span = xs[-1] - xs[0]
    return _LEFT + width * ((value - xs[0]) / span if span else 0.5)


def _y(value: float, top: float) -> float:
    return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * value / top


def _top(values: Sequence[float]) -> float:
    """Return the next round number: 1, 2, 2.5 or 5 times a power of ten."""
    most = max(values, default=0.0) or 1.0
    power = 10.0 ** math.floor(math.log10(most))
    return next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= most)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:.1f}"
