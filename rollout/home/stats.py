"""What the sessions of a home have spent, and what they hold: in all, by day, by model, by project.

Tokens are counted once, where and when they were spent: what a fork holds of its source was spent by the source, and
what was rolled back was spent even so. What is in context now is another number: the sum
of what each session's conversation takes of its model's window. All of it comes from the index: a file is read only if
it has changed. Archived sessions, subagents and forks count.
"""

from __future__ import annotations

import dataclasses
import datetime
import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence

import msgspec

from rollout.errors import UsageError
from rollout.files.layout import RolloutFile
from rollout.files.port import Progress
from rollout.fold.tokens import TokenSpend, day_of
from rollout.home.filters import Filters, Selection, When
from rollout.home.index.entry import TOO_LARGE, UNREADABLE, Entry
from rollout.home.index.index import Index
from rollout.home.threads import Inventory, Skipped, Thread
from rollout.items.tokens import Tokens

_LAST_MOMENT = datetime.timedelta(days=1) - datetime.timedelta(microseconds=1)


@dataclasses.dataclass(frozen=True, slots=True)
class StatsRow:
    """What was spent on one day (UTC), by one model or in one project; `key` is None where that is not known.

    `sessions` spent something there; one may count in several rows. `context_tokens` are of the sessions that last
    spent on that day, go on with that model, belong to that project.
    """

    key: str | None
    sessions: int
    requests: int
    spent: Tokens
    context_tokens: int


@dataclasses.dataclass(frozen=True, slots=True)
class Stats:
    """What a home's sessions come to.

    `turns` are those that stand, in forks the inherited too; `bytes` is what the files take on the disk. The rows by
    day are oldest first, the others by tokens, the most first. `without_tokens` sessions say nothing of tokens. `notes`
    tell what could not be read.
    """

    sessions: int
    files: int
    turns: int
    bytes: int
    requests: int
    spent: Tokens
    context_tokens: int
    without_tokens: int
    by_day: tuple[StatsRow, ...]
    by_model: tuple[StatsRow, ...]
    by_project: tuple[StatsRow, ...]
    notes: tuple[Skipped, ...]


class _Sum:
    """A row while it is added up."""

    __slots__ = ("context_tokens", "requests", "sessions", "tokens")

    def __init__(self) -> None:
        self.sessions = self.requests = self.context_tokens = 0
        self.tokens: list[Tokens] = []

    def row(self, key: str | None) -> StatsRow:
        columns = zip(*map(msgspec.structs.astuple, self.tokens), strict=True)
        return StatsRow(key, self.sessions, self.requests, Tokens(*map(sum, columns)), self.context_tokens)


def _rows(sums: Mapping[str | None, _Sum]) -> list[StatsRow]:
    """The most tokens first."""
    rows = (each.row(key) for key, each in sums.items())
    return sorted(rows, key=lambda row: (-row.spent.total, -row.sessions, row.key or ""))


class _Counter:
    """Adds up sessions. Days outside of `since` to `until`, and other models than `model`, are left out."""

    def __init__(self, model: str | None, since: When | None, until: When | None) -> None:
        self._model, self._since, self._until = model, Selection(since=since), Selection(until=until)
        self._is_limited = model is not None or since is not None or until is not None
        self._days: dict[str | None, bool] = {}
        self.days: defaultdict[str | None, _Sum] = defaultdict(_Sum)
        self.models: defaultdict[str | None, _Sum] = defaultdict(_Sum)
        self.projects: defaultdict[str | None, _Sum] = defaultdict(_Sum)
        self.sessions = self.files = self.turns = self.bytes = self.without_tokens = 0
        self.notes: list[Skipped] = []

    def count(self, files: list[tuple[RolloutFile, Entry]]) -> None:
        """One session: its files, the one that it goes on in first."""
        file, head = files[0]
        spent: Sequence[TokenSpend] = head.spent
        if len(files) > 1:
            spent = [row for _, entry in files for row in entry.spent]
        is_told = bool(spent)
        if not spent:
            spent = [TokenSpend(day_of(head.created) or day_of(file.named_time), head.model, 0, Tokens())]
        if self._is_limited:
            spent = [row for row in spent if self._fits(row)]
            if not spent:
                return
        self.files += len(files)
        self.turns += head.turns
        self.without_tokens += not is_told
        self._add(spent, head)
        for at, entry in files:
            self.bytes += entry.size
            if entry.trouble is not None and entry.trouble.startswith((UNREADABLE, TOO_LARGE)):
                self.notes.append(Skipped(at.path, entry.trouble))

    def _add(self, spent: Sequence[TokenSpend], head: Entry) -> None:
        self.sessions += 1
        project = self.projects[head.cwd]
        touched = {project}
        for row in spent:
            kept = project, self.days[row.day], self.models[row.model]
            for each in kept:
                each.requests += row.requests
                each.tokens.append(row.tokens)
            touched.update(kept)
        for each in touched:
            each.sessions += 1
        if head.context_tokens:
            last = max((row.day for row in spent if row.day is not None), default=None)
            model = head.model if self._model is None else self._model
            for each in (project, self.days[last], self.models[model]):
                each.context_tokens += head.context_tokens

    def _fits(self, row: TokenSpend) -> bool:
        if self._model is not None and row.model != self._model:
            return False
        fits = self._days.get(row.day)
        if fits is None:
            fits = self._days[row.day] = self._fits_day(row.day)
        return fits

    def _fits_day(self, day: str | None) -> bool:
        try:
            begin = None if day is None else datetime.datetime.fromisoformat(day).replace(tzinfo=datetime.UTC)
        except ValueError:
            begin = None
        if begin is None:
            return not (self._since.wants_time or self._until.wants_time)
        return self._since.fits_time(begin + _LAST_MOMENT) and self._until.fits_time(begin)

    def close(self) -> Stats:
        """What it comes to."""
        projects = _rows(self.projects)
        return Stats(
            sessions=self.sessions,
            files=self.files,
            turns=self.turns,
            bytes=self.bytes,
            requests=sum(row.requests for row in projects),
            spent=sum((row.spent for row in projects), Tokens()),
            context_tokens=sum(row.context_tokens for row in projects),
            without_tokens=self.without_tokens,
            by_day=tuple(sorted(_rows(self.days), key=lambda row: row.key or "")),
            by_model=tuple(_rows(self.models)),
            by_project=tuple(projects),
            notes=tuple(self.notes),
        )


def count_stats(index: Index, filters: Filters, progress: Progress | None = None) -> Stats:
    """The stats of the threads that fit; of the model and the days that are asked for alone.

    Raises:
        UsageError: a filter that can never be right, or `text`, which is none here.
    """
    if filters.get("text") is not None:
        raise UsageError("stats are not of texts", remedy="search for it, or leave it out")
    model, since, until = filters.get("model"), filters.get("since"), filters.get("until")
    wide: Filters = {"archived": None, "subagents": True, "forks": True}
    kept: Filters = {**wide, **filters, "model": None, "since": None, "until": None, "text": None}
    selection = Selection(**kept)

    inventory, counter = Inventory(index.home, index.fs), _Counter(model, since, until)
    files = [file for _, thread in inventory.threads(selection) for file in _head_first(thread, selection.archived)]
    for _, of_thread in itertools.groupby(index.entries(files, progress), lambda each: each[0].thread):
        told = list(of_thread)
        file, entry = told[0]
        if not selection.is_narrow or (selection.fits(file, entry) and not selection.left_out(file, entry)):
            counter.count(told)
    counter.notes += inventory.notes
    return counter.close()


def _head_first(thread: Thread, archived: bool | None) -> Sequence[RolloutFile]:
    if archived is None:
        return thread.files
    return sorted(thread.files, key=lambda file: file.archived is not archived)
