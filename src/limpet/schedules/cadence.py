"""When a schedule fires: cron in a time zone, once, or at an interval. Pure functions of time.

At a clock change, a cron time fires once. A skipped time fires at the first moment after the gap, merged with others at
that moment; a repeated time fires the first time. A cron line with hour ``*`` follows elapsed time instead, through
both repeated hours. Intervals always follow elapsed time.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Protocol

from limpet.errors import InvalidInput
from limpet.model.dataclass import dataclass
from limpet.model.late import load_modules
from limpet.model.values import check_text, check_time, load_timezone, short_repr

if TYPE_CHECKING:
    from cronsim import CronSim

MAX_MISSED = 1000  # the most firings that are counted
MAX_BYTES = 200
_LONGEST = timedelta(days=3660)
_CADENCE_HELP = (
    'write a cadence as "cron: 0 9 * * 1-5" (minute, hour, day of the month, month, day of the week),'
    ' "once: 2026-12-01T09:00" or "every: 15m"'
)
_KIND = re.compile(r"(cron|once|every|interval)\s*:\s*(\S.*)", re.IGNORECASE | re.DOTALL)
_FIELD = re.compile(r"[0-9A-Za-z*,/#-]+")
_PART = re.compile(r"(\d{1,9})\s*([a-z]*)\s*(?:and\s+|,\s*)?", re.IGNORECASE)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_UNITS = {
    **dict.fromkeys(("", "s", "sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), "m"),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), "h"),
    **dict.fromkeys(("d", "day", "days"), "d"),
    **dict.fromkeys(("w", "week", "weeks"), "w"),
}
_ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}


class Cadence(Protocol):
    """``text`` is the stored form; parsing it gives an equal cadence."""

    @property
    def text(self) -> str: ...
    def next_after(self, moment: datetime) -> datetime | None:
        """Return the first firing after this moment, in UTC; None if there is none."""


@dataclass(frozen=True, slots=True)
class OneTime:
    text: str
    at: datetime

    def next_after(self, moment: datetime) -> datetime | None:
        return self.at if self.at > moment else None


@dataclass(frozen=True, slots=True)
class Interval:
    text: str
    span: timedelta
    anchor: datetime

    def next_after(self, moment: datetime) -> datetime | None:
        passed = max(0, (moment - self.anchor) // self.span)
        try:
            return self.anchor + (passed + 1) * self.span
        except OverflowError:
            return None


@dataclass(frozen=True, slots=True)
class Cron:
    text: str
    expression: str
    zone: tzinfo
    hourly: bool  # every hour of the day: follows elapsed time, not the clock

    def next_after(self, moment: datetime) -> datetime | None:
        try:
            return self._next_by_elapsed_time(moment) if self.hourly else self._next_by_clock(moment)
        except (OverflowError, ValueError):  # past the year 9999
            return None

    # The library gets times without a zone; we handle gaps and repeated hours.

    def _next_by_clock(self, moment: datetime) -> datetime | None:
        for local in _cronsim(self.expression, _to_local(moment, self.zone)):
            at = resolve_local_time(local, self.zone)
            if at > moment:
                return at
        return None

    def _next_by_elapsed_time(self, moment: datetime) -> datetime | None:
        """Compute without clock changes; at a change, continue from there."""
        begin, local = moment, _to_local(moment, self.zone)
        while True:
            offset = _offset(begin, self.zone)
            found = next(_cronsim(self.expression, local), None)
            if found is None:
                return None
            at = (found - offset).replace(tzinfo=UTC)
            if _offset(at, self.zone) == offset:
                first = resolve_local_time(found, self.zone)
                return first if moment < first < at else at
            begin = _find_offset_change(begin, at, self.zone)
            local = _to_local(begin, self.zone) - timedelta(seconds=1)


def _to_local(moment: datetime, zone: tzinfo) -> datetime:
    return moment.astimezone(zone).replace(tzinfo=None)


def _offset(moment: datetime, zone: tzinfo) -> timedelta:
    return moment.astimezone(zone).utcoffset() or timedelta(0)


def _find_offset_change(early: datetime, late: datetime, zone: tzinfo) -> datetime:
    """Return the first moment whose offset differs from that of the early one. The late one's must differ."""
    before = _offset(early, zone)
    while late - early > timedelta(seconds=1):
        middle = early + (late - early) // 2
        if _offset(middle, zone) == before:
            early = middle
        else:
            late = middle
    return late.replace(microsecond=0)


def parse_cadence(text: object, timezone: str, anchor: datetime) -> Cadence:
    """Parse a cadence in a zone. Raises InvalidInput that explains the format."""
    stripped = check_text(text, "cadence", max_bytes=MAX_BYTES).strip()
    match = _KIND.fullmatch(stripped)
    if match is None:
        raise InvalidInput(f"{short_repr(stripped)} is not a cadence: {_CADENCE_HELP}")
    zone, kind, value = load_timezone(timezone), match[1].lower(), match[2].strip()
    if kind == "cron":
        return _parse_cron(value, zone)
    return _parse_once(value, zone) if kind == "once" else _parse_every(value, anchor)


def _parse_cron(value: str, zone: tzinfo) -> Cron:
    fields = _ALIASES.get(value.lower(), value).split()
    if len(fields) != 5 or not all(map(_FIELD.fullmatch, fields)):
        raise InvalidInput(
            f"cron has five fields of numbers, names, * , - and /, not {short_repr(value)}; {_CADENCE_HELP}"
        )
    expression = " ".join(fields).upper()
    # Any time works to check the syntax.
    hourly = _cronsim(expression, datetime(2000, 1, 1)).hours == set(range(24))  # noqa: DTZ001
    if hourly:
        expression = " ".join([fields[0], "*", *fields[2:]]).upper()
    return Cron(f"cron: {' '.join(fields)}", expression, zone, hourly)


def _cronsim(expression: str, moment: datetime) -> CronSim:
    load_modules("cronsim")
    from cronsim import CronSim, CronSimError  # late: most programs have no schedules

    try:
        return CronSim(expression, moment)
    except (CronSimError, AssertionError, ValueError, TypeError) as error:
        reason = str(error) or "it cannot be parsed"
        raise InvalidInput(
            f"the cron line {short_repr(expression)} is not valid: {reason.lower()}; {_CADENCE_HELP}"
        ) from None


def _parse_once(value: str, zone: tzinfo) -> OneTime:
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise InvalidInput(
            f'{short_repr(value)} is not a time: write "once: 2026-12-01T09:00", or with an offset'
        ) from None
    at = resolve_local_time(moment, zone) if moment.tzinfo is None else check_time(moment, "the time")
    return OneTime(f"once: {moment.isoformat()}", at)


def _parse_every(value: str, anchor: datetime) -> Interval:
    total, at = 0, 0
    while at < len(value):
        part = _PART.match(value, at)
        unit = None if part is None else _UNITS.get(part[2].lower())
        if part is None or unit is None:
            raise InvalidInput(
                f'{short_repr(value)} is not an interval: write "every: 15m", "every: 1h30m" or "every: 2 days"'
            )
        total, at = total + int(part[1]) * _SECONDS[unit], part.end()
    if not 0 < total <= _LONGEST.total_seconds():
        raise InvalidInput(
            f"an interval must be between one second and {_LONGEST.days:,} days, not {short_repr(value)}"
        )
    return Interval(f"every: {_format_duration(total)}", timedelta(seconds=total), anchor)


def _format_duration(seconds: int) -> str:
    spelled = ""
    for unit in ("w", "d", "h", "m", "s"):
        count, seconds = divmod(seconds, _SECONDS[unit])
        spelled += f"{count}{unit}" if count else ""
    return spelled


def resolve_local_time(local: datetime, zone: tzinfo) -> datetime:
    """Return the moment of a local time: the first of two, or the end of the gap if it is skipped."""
    try:
        late = local.replace(tzinfo=zone, fold=0).astimezone(UTC)
        early = local.replace(tzinfo=zone, fold=1).astimezone(UTC)
    except OverflowError:
        raise InvalidInput(f"{local} is outside the years 1 to 9999 in UTC") from None
    if early >= late:
        return late  # a time that occurs once or twice
    return _find_offset_change(early, late, zone)


def smallest_gap(cadence: Cadence, after: datetime, firings: int) -> timedelta | None:
    """Return the shortest time between two of the next firings; None if there are fewer than two."""
    if isinstance(cadence, Interval):
        return cadence.span
    smallest, last = None, cadence.next_after(after)
    for _ in range(firings - 1):
        following = None if last is None else cadence.next_after(last)
        if last is None or following is None:
            break
        smallest = following - last if smallest is None else min(smallest, following - last)
        last = following
    return smallest


def count_between(cadence: Cadence, after: datetime, until: datetime) -> int:
    """Count the firings after one moment, up to and including another."""
    if isinstance(cadence, Interval):
        first, last = ((moment - cadence.anchor) // cadence.span for moment in (after, until))
        return min(MAX_MISSED, max(0, max(0, last) - max(0, first)))
    count, at = 0, cadence.next_after(after)
    while at is not None and at <= until and count < MAX_MISSED:
        count, at = count + 1, cadence.next_after(at)
    return count
