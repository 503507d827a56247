"""Amounts and times as people write them: counts, sizes, durations; times in the local zone, recent ones as an age."""

from __future__ import annotations

import datetime
import math
import time

_RECENT_SECONDS = 7 * 86400
_AGES = ((86400, "d"), (3600, "h"), (60, "min"))


def count(number: int, noun: str) -> str:
    """`1 line`, `1,234 lines`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def short_number(number: int) -> str:
    """A count as people write it where there is little room: `1.2 M`; nothing for 0."""
    for power, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= power:
            return f"{number / power:.1f} {unit}"
    return str(number) if number else ""


def size(size_bytes: int) -> str:
    """A number of bytes as people write it: `64.0 KiB`."""
    if size_bytes < 1024:
        return f"{size_bytes} bytes"
    power = min((size_bytes.bit_length() - 1) // 10, 4)
    return f"{size_bytes / 1024**power:.1f} {'KMGT'[power - 1]}iB"


def local_time(text: str | None, *, seconds: bool = False) -> str:
    """A recorded ISO time as `2026-03-20 10:00`, or `10:00:00` with `seconds`; what is none is shown as it is."""
    moment, shown = _moment(text), 19 if seconds else 16
    return (text or "")[:shown] if moment is None else moment.isoformat(" ")[:shown]


def recent_time(text: str | None, now: float | None = None) -> str:
    """Shorter: an age in the last seven days (`now`, `5 min ago`), else the date. `now` is in Unix seconds."""
    moment = _moment(text)
    passed = -math.inf if moment is None else (time.time() if now is None else now) - moment.timestamp()
    if not -60 < passed < _RECENT_SECONDS:
        return local_time(text)[:10]
    return next((f"{int(passed // unit)} {name} ago" for unit, name in _AGES if passed >= unit), "now")


def clock_time(text: str | None) -> str:
    """The time of day of a recorded ISO time, `10:00:00`; nothing for what is none."""
    moment = _moment(text)
    return "" if moment is None else f"{moment:%H:%M:%S}"


def duration(seconds: float | None) -> str:
    """At most six characters: `0.1s`, `12s`, `3m05s`, `2h10m`, `9d`; nothing for None."""
    if seconds is None:
        return ""
    if seconds < 10:
        return f"{seconds:.1f}s"
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    return f"{whole // 3600}h{whole // 60 % 60:02}m" if whole < 86400 else f"{whole // 86400}d"


def seconds_between(before: str | None, after: str | None) -> float | None:
    """What passed between two recorded times; None where one is not there, or they go backwards."""
    begin, end = _moment(before), _moment(after)
    passed = -1.0 if begin is None or end is None else (end - begin).total_seconds()
    return passed if passed >= 0 else None


def _moment(text: str | None) -> datetime.datetime | None:
    """A recorded time in the local zone; None for what is none, and has none as the year 1 west of Greenwich."""
    try:
        moment = datetime.datetime.fromisoformat(text or "")
        return (moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)).astimezone()
    except (ValueError, OverflowError):
        return None
