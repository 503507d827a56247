"""Times as a catalog tells them: ISO texts in UTC, of files and of their names."""

from __future__ import annotations

import datetime

from rollout.files.layout import RolloutFile


def named_time(entry: RolloutFile) -> str:
    """The time in a file's name, as if it were UTC."""
    day, _, clock = entry.time.partition("T")
    return f"{day}T{clock.replace('-', ':')}.000Z"


def iso(unix_s: float) -> str | None:
    """A time in UTC with milliseconds; None for one that no calendar holds."""
    try:
        return _written(datetime.datetime.fromtimestamp(unix_s, datetime.UTC))
    except (OverflowError, ValueError, OSError):
        return None


def read_time(text: str) -> datetime.datetime | None:
    """The time that an ISO text tells, in UTC (which is meant where it does not say)."""
    try:
        found = datetime.datetime.fromisoformat(text.strip())
        return (found if found.tzinfo else found.replace(tzinfo=datetime.UTC)).astimezone(datetime.UTC)
    except (ValueError, OverflowError):
        return None


def in_utc(text: str | None) -> str | None:
    """The time that a text tells, as these are written; None if it tells none."""
    moment = None if text is None else read_time(text)
    return None if moment is None else _written(moment)


def _written(moment: datetime.datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
