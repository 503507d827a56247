"""A whole log in order, in sections: what stands before the first turn, then each turn, each record with its fate.

Nothing but a few bytes a line is held: records are read as they are asked for. What `explain` and `turns` say of a line
and of a turn is what is told here.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import rollout
from rollout_cli.homes import thread_of
from rollout_cli.kinds import pair_records

Progress = Callable[[int, int], None]
SEEN = frozenset({"visible", "replaced", "rolled_back", "removed", "expired"})
"""The fates of a line that the model sees or has seen."""
_PASSES = 3
_HEAD_RECORDS = 1000
"""How far a session_meta is looked for."""


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """One record and what became of it; `record` is None where nothing can be read."""

    explained: rollout.Explained
    record: rollout.Record | None


@dataclasses.dataclass(frozen=True, slots=True)
class Section:
    """`turn` is None for what stands before the first one; `number` counts the turns from 1.

    `fate` is that of all its items, if they share one (`replaced`: also `by` what), else empty.
    """

    turn: rollout.Turn | None
    number: int
    fate: str
    by: int | None
    items: int


class Chronicle:
    """One log, read as a whole: `progress` is told of bytes, three times over those of the log."""

    def __init__(
        self,
        source: str | int,
        home: str | None,
        progress: Progress | None = None,
        *,
        at: str | int | None = None,
    ) -> None:
        self._progress, self._bytes = progress, 0
        self.explanation = rollout.explain(source, at=at, home=home, progress=self._advance_by(0))
        self.turns = rollout.turns(source, at=at, home=home, progress=self._advance_by(1))
        self._begins = {(turn.path, turn.offset): turn for turn in self.turns}
        self.path: str | None = None
        """The file itself, which the newest line lies in; one of its bases, if it has no line."""
        self.paths: set[str | None] = set()
        """All files that its lines lie in."""
        self.is_continued = False
        """Whether lines of other files stand before its own."""
        self.statuses: collections.Counter[str] = collections.Counter()
        self.sections = list(self._survey())

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

    def __iter__(self) -> Iterator[tuple[Section, Iterator[Entry]]]:
        """Each section with its entries, which are read as they are taken."""
        number, at = itertools.count(), -1
        entries = pair_records(self.explanation)

        def tell_section(pair: tuple[rollout.Explained, rollout.Record | None]) -> int:
            nonlocal at
            if at < 0 or self._opens(pair[0]) is not None:
                at = next(number)
            return at

        for found, group in itertools.groupby(entries, tell_section):
            yield self.sections[found], self._advancing(group)

    def _advancing(self, group: Iterator[tuple[rollout.Explained, rollout.Record | None]]) -> Iterator[Entry]:
        advance, done = self._advance_by(2), 0
        for explained, record in group:
            if advance is not None and explained.offset - done > 1 << 20:
                done = explained.offset
                advance(min(done, self._bytes), self._bytes)
            yield Entry(explained, record)

    def _opens(self, explained: rollout.Explained) -> rollout.Turn | None:
        return self._begins.get((explained.path, explained.offset))

    def _survey(self) -> Iterator[Section]:
        turn, number, fates = None, 0, set[tuple[str, int | None]]()
        items, is_first = 0, True
        for each in self.explanation:
            opening = self._opens(each)
            if opening is not None:
                if not is_first:
                    yield _section(turn, number, fates, items)
                turn, number, fates, items = opening, number + 1, set(), 0
            is_first = False
            self.path = each.path
            self.paths.add(each.path)
            self.is_continued = self.is_continued or each.inherited is not None
            self.statuses[each.status] += 1
            if each.status in SEEN:
                fates.add((each.status, each.by if each.status == "replaced" else None))
                items += 1
        if not is_first:
            yield _section(turn, number, fates, items)

    def _advance_by(self, phase: int) -> Progress | None:
        """Progress of one of the passes over the log, as that of all."""
        if self._progress is None:
            return None
        told = self._progress

        def advance(done: int, total: int) -> None:
            self._bytes = total
            told(phase * total + done, _PASSES * total)

        return advance


def _section(turn: rollout.Turn | None, number: int, fates: set[tuple[str, int | None]], items: int) -> Section:
    """A turn is undone as a whole if it does not stand; else its items say it."""
    if turn is not None and not turn.stands:
        return Section(turn, number, "rolled_back", None, items)
    fate, by = next(iter(fates)) if len(fates) == 1 else ("", None)
    return Section(turn, number, fate, by, items)
