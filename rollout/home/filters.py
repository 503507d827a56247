"""Filters: which threads a list, a search, or any other look at many rollouts is about."""

from __future__ import annotations

import contextlib
import datetime
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypedDict, Unpack

from rollout.errors import UsageError
from rollout.files.layout import RolloutFile
from rollout.format import labels
from rollout.home.index.entry import Entry

Sort = Literal["created", "updated"]
When = str | datetime.datetime | datetime.date
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DAY = datetime.timedelta(days=1)


class Filters(TypedDict, total=False):
    """What a thread must be to be listed; what is not given does not count.

    `cwd`: the directory it ran in, or one above it. `model_provider`, `model`, `source`: the whole word. `since` and
    `until`: a time or its ISO text (UTC unless it says otherwise), compared with `created`, or with `updated` where
    that is sorted by; a date as `until` includes its day. `archived`: only such ones; None: those too. `name`: a part
    of it, upper or lower case alike. `session_id`, `tags`: of any of its records. `damaged`: whether it holds damaged
    lines or cannot be read. `text`: a search finds something in it. `subagents`, `forks`: whether those are listed.
    """

    cwd: str | os.PathLike[str] | None
    model_provider: str | None
    model: str | None
    source: str | None
    since: str | datetime.datetime | datetime.date | None
    until: str | datetime.datetime | datetime.date | None
    archived: bool | None
    name: str | None
    session_id: str | None
    tags: Mapping[str, str] | None
    damaged: bool | None
    text: str | None
    subagents: bool
    forks: bool


_WORDS = [
    name
    for name in Filters.__annotations__
    if name in Entry.__struct_fields__ and name not in ("cwd", "tags", "damaged")
]
"""Those that must be the same in the entry."""


class Selection:
    """Filters that were looked at. Archived ones, subagents and forks are left out unless they are asked for.

    Raises:
        UsageError: one can never be right.
    """

    def __init__(self, sort: Sort = "created", **filters: Unpack[Filters]) -> None:
        if unknown := filters.keys() - Filters.__annotations__.keys():
            raise TypeError(f"no such filter: {', '.join(sorted(unknown))}")
        if sort not in ("created", "updated"):
            raise UsageError(f"{sort!r} is no order", remedy='sort by "created" or "updated"')
        self.sort, self.text, self.archived = sort, filters.get("text"), filters.get("archived", False)
        self.subagents, self.forks = filters.get("subagents", False), filters.get("forks", False)
        self.label = labels.label(filters.get("session_id"), filters.get("tags"))
        words = {name: filters.get(name) for name in _WORDS}
        self._words = [(name, word) for name, word in words.items() if word is not None]
        self._name, self._damaged = filters.get("name"), filters.get("damaged")
        cwd, since, until = filters.get("cwd"), filters.get("since"), filters.get("until")
        self._cwd = None if cwd is None else os.path.normpath(Path(os.fspath(cwd)).expanduser().absolute())
        self._since, self._until = None if since is None else moment(since), None if until is None else moment(until)
        if self._until is not None and _is_day(until):
            self._until += _DAY

    @property
    def is_narrow(self) -> bool:
        """Whether it takes a look at the files to tell which fit."""
        is_asked = self._words or self._cwd or self._damaged is not None or self.wants_time or self.label
        return bool(is_asked) or not (self.subagents and self.forks)

    @property
    def wants_time(self) -> bool:
        """Whether `since` or `until` is given."""
        return self._since is not None or self._until is not None

    def fits_name(self, name: str | None) -> bool:
        """Whether a thread can be in question by its name alone."""
        return self._name is None or (name is not None and self._name.casefold() in name.casefold())

    def fits_time(self, time: datetime.datetime | None) -> bool:
        """Whether a time is from `since` on and before `until`; one that is not known is never."""
        if time is None:
            return not self.wants_time
        return (self._since is None or self._since <= time) and (self._until is None or time < self._until)

    def fits(self, file: RolloutFile, entry: Entry) -> bool:
        """All filters but the name, the text, subagents and forks; `file` is the one that the thread goes on in."""
        return (
            all(getattr(entry, name) == word for name, word in self._words)
            and (self._cwd is None or _is_below(entry.cwd, self._cwd))
            and (self._damaged is None or self._damaged == (entry.damaged > 0 or entry.trouble is not None))
            and (self.label.session_id is None or self.label.session_id in entry.session_ids)
            and all(pair in entry.tags for pair in self.label.tags.items() if pair[0] != labels.SESSION_ID)
            and (not self.wants_time or self.fits_time(self._time(file, entry)))
        )

    def left_out(self, file: RolloutFile, entry: Entry) -> Literal["subagents", "forks"] | None:
        """Why a thread that fits is not to be shown even so."""
        if entry.is_subagent and not self.subagents:
            return "subagents"
        return "forks" if entry.fork_of(file.thread) is not None and not self.forks else None

    def _time(self, file: RolloutFile, entry: Entry) -> datetime.datetime | None:
        if self.sort == "created":
            return (None if entry.created is None else read_time(entry.created)) or read_time(file.named_time)
        with contextlib.suppress(OverflowError, ValueError, OSError):
            return datetime.datetime.fromtimestamp(entry.mtime_ns / 1e9, datetime.UTC)
        return None


def moment(when: object) -> datetime.datetime:
    """The time that is meant, in UTC; UsageError."""
    if isinstance(when, datetime.date) and not isinstance(when, datetime.datetime):
        when = when.isoformat()
    found = read_time(when) if isinstance(when, str) else when
    if not isinstance(found, datetime.datetime):
        raise UsageError(f"{when!r:.80} is no time", remedy="give a date (2026-03-20) or a time (2026-03-20T10:00:00Z)")
    try:
        return _in_utc(found)
    except OverflowError:
        return found.replace(tzinfo=datetime.UTC)


def read_time(text: str) -> datetime.datetime | None:
    """The time that an ISO text tells, in UTC (which is meant where it does not say)."""
    try:
        return _in_utc(datetime.datetime.fromisoformat(text.strip()))
    except (ValueError, OverflowError):
        return None


def _in_utc(time: datetime.datetime) -> datetime.datetime:
    return (time if time.tzinfo else time.replace(tzinfo=datetime.UTC)).astimezone(datetime.UTC)


def _is_day(when: When | None) -> bool:
    if isinstance(when, str):
        return _DATE.fullmatch(when.strip()) is not None
    return not isinstance(when, datetime.datetime)


def _is_below(path: str | None, directory: str) -> bool:
    if path is None:
        return False
    path = path.rstrip("/\\") or path
    return path == directory or path.startswith((directory.rstrip("/") + "/", directory + "\\"))
