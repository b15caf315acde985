"""When a schedule fires: cron in a time zone, once, or every so often. Pure: moments in, moments out.

Where clocks are put forward or back, a time that a cron line names fires once. One that is skipped fires at the first
moment after the gap, together with whatever else falls on that moment; one that comes twice fires the first time. A
line whose hour is ``*`` goes by the time that passes instead, through both of the doubled hours. Intervals always do.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Protocol

from limpet.errors import InvalidInput
from limpet.model.text import check_text, short_repr
from limpet.model.times import check_time, load_timezone

if TYPE_CHECKING:
    from cronsim import CronSim

MAX_MISSED = 1000  # firings that are counted at most
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
    """``text`` is how it is kept: read again it means the same."""

    @property
    def text(self) -> str: ...
    def next_after(self, moment: datetime) -> datetime | None:
        """The first firing later than this moment, in UTC; None when there is none."""


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
    hourly: bool  # every hour of the day: the time that passes counts, not what clocks show

    def next_after(self, moment: datetime) -> datetime | None:
        try:
            return self._next_by_elapsed_time(moment) if self.hourly else self._next_by_clock(moment)
        except (OverflowError, ValueError):  # past the year 9999
            return None

    # The library is given times without a zone: gaps and doubled hours are ours to settle.

    def _next_by_clock(self, moment: datetime) -> datetime | None:
        for found in _cronsim(self.expression, _to_local(moment, self.zone)):
            at = resolve_local_time(found, self.zone)
            if at > moment:
                return at
        return None

    def _next_by_elapsed_time(self, moment: datetime) -> datetime | None:
        """As if the clock were never changed; where it was, once more from there."""
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
    """What a clock in the zone shows."""
    return moment.astimezone(zone).replace(tzinfo=None)


def _offset(moment: datetime, zone: tzinfo) -> timedelta:
    return moment.astimezone(zone).utcoffset() or timedelta(0)


def _find_offset_change(early: datetime, late: datetime, zone: tzinfo) -> datetime:
    """The first moment of another offset than the early one has. The late one has another."""
    before = _offset(early, zone)
    while late - early > timedelta(seconds=1):
        middle = early + (late - early) // 2
        if _offset(middle, zone) == before:
            early = middle
        else:
            late = middle
    return late.replace(microsecond=0)


def parse_cadence(text: object, timezone: str, anchor: datetime) -> Cadence:
    """A cadence as people write it, in a zone. Raises InvalidInput that says how to write one."""
    given = check_text(text, "cadence", max_bytes=MAX_BYTES).strip()
    found = _KIND.fullmatch(given)
    if found is None:
        raise InvalidInput(f"{short_repr(given)} is no cadence: {_CADENCE_HELP}")
    zone, kind, value = load_timezone(timezone), found[1].lower(), found[2].strip()
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
    # Any moment will do to see whether it can be read.
    hourly = _cronsim(expression, datetime(2000, 1, 1)).hours == set(range(24))  # noqa: DTZ001
    if hourly:
        expression = " ".join([fields[0], "*", *fields[2:]]).upper()
    return Cron(f"cron: {' '.join(fields)}", expression, zone, hourly)


def _cronsim(expression: str, moment: datetime) -> CronSim:
    from cronsim import CronSim, CronSimError  # late: most programs have no schedules

    try:
        return CronSim(expression, moment)
    except (CronSimError, AssertionError, ValueError, TypeError) as error:
        reason = str(error) or "it cannot be read"
        raise InvalidInput(
            f"the cron line {short_repr(expression)} is wrong: {reason.lower()}; {_CADENCE_HELP}"
        ) from None


def _parse_once(value: str, zone: tzinfo) -> OneTime:
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise InvalidInput(
            f'{short_repr(value)} is no time: write "once: 2026-12-01T09:00", or with an offset'
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
                f'{short_repr(value)} is no interval: write "every: 15m", "every: 1h30m" or "every: 2 days"'
            )
        total, at = total + int(part[1]) * _SECONDS[unit], part.end()
    if not 0 < total <= _LONGEST.total_seconds():
        raise InvalidInput(f"an interval is between a second and {_LONGEST.days:,} days long, not {short_repr(value)}")
    return Interval(f"every: {_format_duration(total)}", timedelta(seconds=total), anchor)


def _format_duration(seconds: int) -> str:
    spelled = ""
    for unit in ("w", "d", "h", "m", "s"):
        count, seconds = divmod(seconds, _SECONDS[unit])
        spelled += f"{count}{unit}" if count else ""
    return spelled


def resolve_local_time(local: datetime, zone: tzinfo) -> datetime:
    """The moment that a clock in the zone shows this: the first one, or where the clock skips it, when it has."""
    try:
        late = local.replace(tzinfo=zone, fold=0).astimezone(UTC)
        early = local.replace(tzinfo=zone, fold=1).astimezone(UTC)
    except OverflowError:
        raise InvalidInput(f"{local} is outside the years 1 to 9999 in UTC") from None
    if early >= late:
        return late  # a time that there is, or that there is twice
    return _find_offset_change(early, late, zone)


def smallest_gap(cadence: Cadence, after: datetime, firings: int) -> timedelta | None:
    """The shortest time between two of the next firings; None if there are not two."""
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
    """Firings later than one moment and not later than another."""
    if isinstance(cadence, Interval):
        first, last = ((moment - cadence.anchor) // cadence.span for moment in (after, until))
        return min(MAX_MISSED, max(0, max(0, last) - max(0, first)))
    count, at = 0, cadence.next_after(after)
    while at is not None and at <= until and count < MAX_MISSED:
        count, at = count + 1, cadence.next_after(at)
    return count
