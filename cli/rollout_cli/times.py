"""Moments for people: in the local zone, and those that are not long ago as an age."""

from __future__ import annotations

import datetime
import time

_RECENT_SECONDS = 7 * 86400
_AGES = ((86400, "d"), (3600, "h"), (60, "min"))


def local_time(text: str | None) -> str:
    """A recorded ISO time as `2026-03-20 10:00`; what is none is shown as it is."""
    moment = _parse(text)
    return (text or "")[:16] if moment is None else f"{moment.astimezone():%Y-%m-%d %H:%M}"


def recent_time(text: str | None, now: float | None = None) -> str:
    """Shorter: an age in the last seven days (`now`, `5 min ago`), else the date. `now` is in Unix seconds."""
    moment = _parse(text)
    if moment is None:
        return local_time(text)[:10]
    passed = (time.time() if now is None else now) - moment.timestamp()
    if not -60 < passed < _RECENT_SECONDS:
        return local_time(text)[:10]
    unit = next(((seconds, name) for seconds, name in _AGES if passed >= seconds), None)
    return "now" if unit is None else f"{int(passed // unit[0])} {unit[1]} ago"


def clock_time(text: str | None) -> str:
    """The time of day of a recorded ISO time, `10:00:00`; nothing for what is none."""
    moment = _parse(text)
    return "" if moment is None else f"{moment.astimezone():%H:%M:%S}"


def _parse(text: str | None) -> datetime.datetime | None:
    try:
        moment = None if text is None else datetime.datetime.fromisoformat(text)
        if moment is None:
            return None
        moment = moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)
        moment.astimezone()  # the year 1 has no local time west of Greenwich
    except (ValueError, OverflowError):
        return None
    return moment
