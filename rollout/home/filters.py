"""Filters: which threads a list, a search, or any other look at many rollouts is about."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypedDict

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


@dataclasses.dataclass(frozen=True, slots=True)
class Selection:
    """Filters that were looked at: UsageError for one that can never be right."""

    sort: Sort = "created"
    cwd: str | os.PathLike[str] | None = None
    model_provider: str | None = None
    model: str | None = None
    source: str | None = None
    since: When | None = None
    until: When | None = None
    archived: bool | None = False
    name: str | None = None
    session_id: str | None = None
    tags: Mapping[str, str] | None = None
    damaged: bool | None = None
    text: str | None = None
    subagents: bool = False
    forks: bool = False
    label: labels.Label = dataclasses.field(init=False)
    _cwd: str | None = dataclasses.field(init=False)
    _span: tuple[datetime.datetime | None, datetime.datetime | None] = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        if self.sort not in ("created", "updated"):
            raise UsageError(f"{self.sort!r} is no order", remedy='sort by "created" or "updated"')
        self._set("label", labels.label(self.session_id, self.tags))
        cwd = None if self.cwd is None else Path(os.fspath(self.cwd)).expanduser()
        self._set("_cwd", None if cwd is None else os.path.normpath(cwd.absolute()))
        until = None if self.until is None else moment(self.until)
        if until is not None and _is_day(self.until):
            until += _DAY
        self._set("_span", (None if self.since is None else moment(self.since), until))

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    @property
    def is_narrow(self) -> bool:
        """Whether it takes a look at the files to tell which fit."""
        asked = (self.cwd, self.model_provider, self.model, self.source, self.since, self.until, self.damaged)
        return any(wanted is not None for wanted in asked) or bool(self.label) or not (self.subagents and self.forks)

    @property
    def wants_time(self) -> bool:
        """Whether `since` or `until` is given."""
        return self._span != (None, None)

    def fits_name(self, name: str | None) -> bool:
        """Whether a thread can be in question by its name alone."""
        return self.name is None or (name is not None and self.name.casefold() in name.casefold())

    def fits_time(self, time: datetime.datetime | None) -> bool:
        """Whether a time is from `since` on and before `until`; one that is not known is never."""
        since, until = self._span
        if time is None:
            return not self.wants_time
        return (since is None or since <= time) and (until is None or time < until)

    def fits(self, file: RolloutFile, entry: Entry) -> bool:
        """All filters but the name, the text, subagents and forks; `file` is the one that the thread goes on in."""
        return (
            all(
                wanted is None or wanted == found
                for wanted, found in (
                    (self.model_provider, entry.model_provider),
                    (self.model, entry.model),
                    (self.source, entry.source),
                )
            )
            and (self._cwd is None or _is_below(entry.cwd, self._cwd))
            and (self.damaged is None or self.damaged == (entry.damaged > 0 or entry.trouble is not None))
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
    found: datetime.datetime | None
    if isinstance(when, datetime.datetime):
        found = when
    elif isinstance(when, datetime.date):
        found = datetime.datetime(when.year, when.month, when.day)  # noqa: DTZ001 - the zone is given below
    else:
        found = read_time(when) if isinstance(when, str) else None
    if found is None:
        raise UsageError(f"{when!r:.80} is no time", remedy="give a date (2026-03-20) or a time (2026-03-20T10:00:00Z)")
    try:
        return (found if found.tzinfo else found.replace(tzinfo=datetime.UTC)).astimezone(datetime.UTC)
    except OverflowError:
        return found.replace(tzinfo=datetime.UTC)


def read_time(text: str) -> datetime.datetime | None:
    """The time that an ISO text tells, in UTC (which is meant where it does not say)."""
    try:
        found = datetime.datetime.fromisoformat(text.strip())
        return (found if found.tzinfo else found.replace(tzinfo=datetime.UTC)).astimezone(datetime.UTC)
    except (ValueError, OverflowError):
        return None


def _is_day(when: When | None) -> bool:
    if isinstance(when, str):
        return _DATE.fullmatch(when.strip()) is not None
    return not isinstance(when, datetime.datetime)


def _is_below(path: str | None, directory: str) -> bool:
    if path is None:
        return False
    path = path.rstrip("/\\") or path
    return path == directory or path.startswith((directory.rstrip("/") + "/", directory + "\\"))
