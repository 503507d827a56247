"""A whole log in order, in sections: what stands before the first turn, then each turn, each record with its status.

The log is read twice: for what became of its lines, of which a few bytes each are kept, and for the records, which are
read as they are asked for.
"""

from __future__ import annotations

import collections
import functools
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import rollout
from rollout_cli.homes import thread_of

Progress = Callable[[int, int], None]
Wanted = Callable[[rollout.Explained], bool]
SEEN = frozenset({"visible", "replaced", "rolled_back", "removed"})
"""The statuses of a line that the model sees or has seen."""
_PASSES, _STEP_BYTES = 2, 1 << 20
_HEAD_RECORDS = 1000
"""How far a session_meta is looked for."""


class Entry(NamedTuple):
    """One record and what became of it; `record` is None where nothing can be read."""

    explained: rollout.Explained
    record: rollout.Record | None


class Section(NamedTuple):
    """`turn` is None for what stands before the first one; `number` counts the turns from 1.

    `status` is `undone` for a turn that does not stand, and for no other; `emptied` where all its items were taken back
    but the turn stands (something behind the marker belongs to it); `replaced` where one compaction, in line `by`,
    replaced all its items. Else it is empty, and its items say what became of them.
    """

    turn: rollout.Turn | None
    number: int
    status: str
    by: int | None
    items: int


class Chronicle:
    """One log, read as a whole: `progress` is shown of bytes, twice over those of the log."""

    def __init__(
        self, source: str | int, home: str | None, progress: Progress | None = None, *, at: str | int | None = None
    ) -> None:
        self._progress, self._bytes = progress, 0
        self._explanation = rollout.explain(source, at=at, with_turns=True, home=home, progress=self._advance)
        self.turns = self._explanation.turns
        self.paths: set[str | None] = set()
        """All files that its lines lie in."""
        self.path: str | None = None
        """The file itself, which the newest line lies in; one of its bases, if it has no line."""
        self.is_continued = False
        """Whether lines of other files stand before its own."""
        self.statuses: collections.Counter[str] = collections.Counter()
        self.sections = [self._survey(turn, lines) for turn, lines in itertools.groupby(self._explanation, _turn_of)]

    @functools.cached_property
    def meta(self) -> rollout.Record | None:
        """The session_meta of the file itself."""
        found = itertools.islice(iter(()) if self.path is None else rollout.records(self.path), _HEAD_RECORDS)
        return next((record for record in found if record.type == "session_meta"), None)

    @property
    def session(self) -> dict[str, Any]:
        """What the session_meta says; nothing, if there is none."""
        payload = None if self.meta is None else self.meta.payload
        return payload if isinstance(payload, dict) else {}

    @property
    def thread_id(self) -> str | None:
        """As the session says, or the name of the file."""
        own = self.session.get("id")
        return own if isinstance(own, str) else None if self.path is None else thread_of(Path(self.path))

    @property
    def has_records(self) -> bool:
        """Whether any line could be read."""
        return bool(self.statuses.keys() - {"damaged", "blank"})

    def read(
        self, wanted: Wanted | None = None, *, shows_progress: bool = True
    ) -> Iterator[tuple[Section, Iterator[Entry]]]:
        """Each section with its entries, which are read as they are taken; those that are `wanted`, and damage."""
        entries = itertools.starmap(Entry, self._explanation.records(wanted))
        groups = itertools.groupby(entries, lambda entry: entry.explained.turn)
        for section, (_, lines) in zip(self.sections, groups, strict=True):
            yield section, self._taken(lines, wanted is None, self._progress if shows_progress else None)

    def _taken(self, lines: Iterator[Entry], takes_all: bool, progress: Progress | None) -> Iterator[Entry]:
        shown = -_STEP_BYTES
        for entry in lines:
            if progress is not None and entry.explained.offset - shown >= _STEP_BYTES:
                shown = entry.explained.offset
                progress(self._bytes + min(shown, self._bytes), _PASSES * self._bytes)
            if takes_all or entry.record is not None or entry.explained.status == "damaged":
                yield entry

    def _survey(self, number: int | None, lines: Iterator[rollout.Explained]) -> Section:
        turn, seen, items = None if number is None else self.turns[number], set[tuple[str, int | None]](), 0
        for each in lines:
            if each.path != self.path or not self.paths:
                self.path = each.path
                self.paths.add(each.path)
            self.is_continued = self.is_continued or each.inherited is not None
            self.statuses[each.status] += 1
            if each.status in SEEN:
                seen.add((each.status, each.by if each.status == "replaced" else None))
                items += 1
        status, by = next(iter(seen)) if len(seen) == 1 else ("", None)
        if turn is not None and not turn.stands:
            status, by = "undone", None
        elif status == "rolled_back" and turn is not None:
            status = "emptied"
        elif status != "replaced":
            status = ""
        return Section(turn, 0 if number is None else number + 1, status, by, items)

    def _advance(self, done: int, total: int) -> None:
        """Progress of the first pass, as that of both."""
        self._bytes = total
        if self._progress is not None:
            self._progress(done, _PASSES * total)


def _turn_of(line: rollout.Explained) -> int | None:
    return line.turn
