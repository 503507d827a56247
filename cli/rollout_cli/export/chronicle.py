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

Progress = Callable[[int, int], None]
Wanted = Callable[[rollout.Explained], bool]
SEEN = frozenset({"visible", "replaced", "rolled_back", "removed"})
"""The fates of a line that the model sees or has seen."""
_PASSES, _STEP_BYTES = 3, 1 << 20
_HEAD_RECORDS = 1000
"""How far a session_meta is looked for."""


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """One record and what became of it; `record` is None where nothing can be read."""

    explained: rollout.Explained
    record: rollout.Record | None


@dataclasses.dataclass(frozen=True, slots=True)
class Section:
    """`turn` is None for what stands before the first one; `number` counts the turns from 1. It has so many `lines`.

    `fate` is `undone` for a turn that does not stand, and for no other; `emptied` where all its items were taken back
    but the turn stands (something behind the marker belongs to it); `replaced` where one compaction, in line `by`,
    replaced all its items. Else it is empty, and its items say what became of them.
    """

    turn: rollout.Turn | None
    number: int
    lines: int
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
        self._progress, self._bytes, self._told = progress, 0, 0
        self.explanation = rollout.explain(source, at=at, home=home, progress=self._advance_by(0))
        self.turns = rollout.turns(source, at=at, home=home, progress=self._advance_by(1))
        self._begins: dict[str | None, dict[int, rollout.Turn]] = collections.defaultdict(dict)
        for turn in self.turns:
            self._begins[turn.path][turn.offset] = turn
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

    def read(self, wanted: Wanted | None = None) -> Iterator[tuple[Section, Iterator[Entry]]]:
        """Each section with its entries, which are read as they are taken; those that are `wanted`, and damage."""
        pairs = self.explanation.records(wanted)
        for section in self.sections:
            entries = self._take(itertools.islice(pairs, section.lines), wanted is None)
            yield section, entries
            collections.deque(entries, maxlen=0)

    def glance(
        self, chosen: Callable[[Section], bool], wanted: Wanted
    ) -> Iterator[tuple[Section, Iterator[rollout.Record]]]:
        """Each section that is `chosen` with its records that are `wanted`, read no further than they are taken."""
        is_chosen = False
        pairs = self.explanation.records(lambda explained: is_chosen and wanted(explained))
        for section in self.sections:
            lines = itertools.islice(pairs, section.lines)
            is_chosen = chosen(section)
            if is_chosen:
                yield section, (record for _, record in lines if record is not None)
            is_chosen = False
            collections.deque(lines, maxlen=0)

    def _take(
        self, pairs: Iterator[tuple[rollout.Explained, rollout.Record | None]], takes_all: bool
    ) -> Iterator[Entry]:
        advance = self._advance_by(2)
        for explained, record in pairs:
            if advance is not None and not 0 <= explained.offset - self._told <= _STEP_BYTES:
                self._told = explained.offset
                advance(min(self._told, self._bytes), self._bytes)
            if takes_all or record is not None or explained.status == "damaged":
                yield Entry(explained, record)

    def _survey(self) -> Iterator[Section]:
        turn, number, fates = None, 0, set[tuple[str, int | None]]()
        items = lines = 0
        begins: dict[int, rollout.Turn] = {}
        for each in self.explanation:
            if each.path != self.path or not self.paths:
                self.path, begins = each.path, self._begins[each.path]
                self.paths.add(each.path)
            opening = begins.get(each.offset)
            if opening is not None:
                if lines:
                    yield _section(turn, number, lines, fates, items)
                turn, number, lines, fates, items = opening, number + 1, 0, set(), 0
            lines += 1
            self.is_continued = self.is_continued or each.inherited is not None
            self.statuses[each.status] += 1
            if each.status in SEEN:
                fates.add((each.status, each.by if each.status == "replaced" else None))
                items += 1
        if lines:
            yield _section(turn, number, lines, fates, items)

    def _advance_by(self, phase: int) -> Progress | None:
        """Progress of one of the passes over the log, as that of all."""
        if self._progress is None:
            return None
        told = self._progress

        def advance(done: int, total: int) -> None:
            self._bytes = total
            told(phase * total + done, _PASSES * total)

        return advance


def _section(
    turn: rollout.Turn | None, number: int, lines: int, fates: set[tuple[str, int | None]], items: int
) -> Section:
    fate, by = next(iter(fates)) if len(fates) == 1 else ("", None)
    if turn is not None and not turn.stands:
        fate, by = "undone", None
    elif fate == "rolled_back" and turn is not None:
        fate = "emptied"
    elif fate != "replaced":
        fate = ""
    return Section(turn, number, lines, fate, by, items)
