"""A whole log in order, in sections: what stands before the first turn, then each turn; the facts of it, and headings.

The log is read twice: for what became of its lines, of which a few bytes each are kept, and for the records, which are
read as they are asked for. A turn is called by what its user said. Where another agent or the program began it, or the
words were taken back or cannot be read, its messages are looked at before, as few of them as it takes.
"""

from __future__ import annotations

import collections
import functools
import itertools
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import rollout
from rollout_cli.export.presenting import SEEN, Presenter
from rollout_cli.homes import thread_of
from rollout_cli.items import describe, texts
from rollout_cli.units import count, local_time

Progress = Callable[[int, int], None]
Entries = Iterator[tuple[rollout.Explained, rollout.Record | None]]
"""Lines with their records; without one where nothing can be read, or nothing is wanted."""
_HEAD_RECORDS = 1000
"""How far a session_meta is looked for."""
_HEADING_CHARS = 100
_MOST_RECORDS = 64
"""How many of a turn's messages are looked at."""
_BY_PROGRAM = re.compile(r"\s*(?:<user_action>|\Z)")
"""What counts as a user's message, but was written by the program when a review ended; and a message of nothing."""
_NAMING = frozenset({"announcement", "review", "compaction", "compaction_end"})
_MESSAGES = frozenset({"message", "agent_message", None})


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


class Heading(NamedTuple):
    """A turn in one line: `ours`, words of this program, then `theirs`, recorded ones without secrets; one can lack."""

    ours: str
    theirs: str


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
        self.statuses: collections.Counter[str] = collections.Counter()
        lines = itertools.groupby(self._explanation, lambda line: line.turn)
        self.sections = [self._survey(turn, group) for turn, group in lines]

    @functools.cached_property
    def meta(self) -> rollout.Record | None:
        """The record that describes the session, of the file itself."""
        found = itertools.islice(iter(()) if self.path is None else rollout.records(self.path), _HEAD_RECORDS)
        return next((record for record in found if rollout.tell(record.type, None).kind == "session"), None)

    @property
    def session(self) -> dict[str, Any]:
        """What it says; nothing, if there is none."""
        payload = None if self.meta is None else self.meta.payload
        return payload if isinstance(payload, dict) else {}

    @property
    def thread_id(self) -> str | None:
        """As the session says, or the name of the file."""
        own = self.session.get("id")
        return own if isinstance(own, str) else None if self.path is None else thread_of(Path(self.path))

    def read(
        self, wanted: Callable[[rollout.Explained], bool] | None = None, *, shows_progress: bool = True
    ) -> Iterator[tuple[Section, Entries]]:
        """Each section with its lines, and those of their records that are `wanted`, read as they are taken."""
        groups = itertools.groupby(self._explanation.records(wanted), lambda entry: entry[0].turn)
        total = len(self.sections)
        for n, (section, (_, entries)) in enumerate(zip(self.sections, groups, strict=True)):
            if self._progress is not None and shows_progress:
                self._progress(self._bytes + self._bytes * n // total, 2 * self._bytes)
            yield section, entries

    def _survey(self, number: int | None, lines: Iterable[rollout.Explained]) -> Section:
        turn, items = None if number is None else self.turns[number], 0
        seen = set[tuple[str, int | None]]()
        for line in lines:
            if line.path != self.path or not self.paths:
                self.path = line.path
                self.paths.add(line.path)
            self.statuses[line.status] += 1
            if line.status in SEEN:
                seen.add((line.status, line.by if line.status == "replaced" else None))
                items += 1
        status, by = next(iter(seen)) if len(seen) == 1 else ("", None)
        if turn is not None and not turn.stands:
            status, by = "undone", None
        elif status != "replaced":
            status = "emptied" if status == "rolled_back" and turn is not None else ""
        return Section(turn, 0 if number is None else number + 1, status, by, items)

    def _advance(self, done: int, total: int) -> None:
        """Progress of the first pass, as that of both."""
        self._bytes = total
        if self._progress is not None:
            self._progress(done, 2 * total)


def name_turns(chronicle: Chronicle, presenter: Presenter) -> dict[int, Heading]:
    """The heading of each turn, by its number. Secrets in it are masked, but not counted: they come again below."""
    found = {
        section.number: ("", section.turn.user)
        for section in chronicle.sections
        if section.turn is not None and section.turn.user and not _BY_PROGRAM.match(section.turn.user)
    }

    def is_asked(line: rollout.Explained) -> bool:
        if line.turn is None or line.turn + 1 in found:
            return False
        kind = rollout.tell(line.type, line.kind).kind
        return kind in _NAMING or (kind == "item" and line.kind in _MESSAGES)

    if len(found) < len(chronicle.turns):
        for section, entries in chronicle.read(is_asked, shows_progress=False):
            if section.turn is not None and section.number not in found:
                records = (record for _, record in entries if record is not None)
                found[section.number] = _find(section, itertools.islice(records, _MOST_RECORDS))
    return {number: Heading(ours, _shorten(presenter.peek(theirs))) for number, (ours, theirs) in found.items()}


def _find(section: Section, records: Iterable[rollout.Record]) -> tuple[str, str]:
    """What it is called, in our words and in theirs: what was asked for, else what was done, else what there is."""
    done = None
    for record in records:
        payload = record.payload
        told = rollout.tell(record.type, record.kind, payload)
        if told.kind in ("compaction", "compaction_end"):
            done = done or ("Compaction", "")
        elif told.kind == "review":
            return "Review", told.text
        elif told.kind == "announcement" and told.text.strip():
            return "", told.text
        elif told.kind == "item" and isinstance(payload, dict):
            if payload.get("type", "agent_message") == "agent_message":
                return "From another agent", texts(payload.get("content"))
            described, by_hand = describe(payload), rollout.shell_command_of(payload)
            if by_hand is not None:
                done = done or ("Shell command", by_hand)
            elif described.label == "user" and not rollout.is_program_message(payload):
                return "" if described.text.strip() else "An empty message", described.text
    return done or ("No message from the user" if section.items else "Only events", "")


def _shorten(text: str) -> str:
    """A text in one line of at most so many characters, cut between words if it can be."""
    line = " ".join(text.lstrip()[: 20 * _HEADING_CHARS].split())
    whole_words = textwrap.shorten(line, _HEADING_CHARS + 1, placeholder="…")
    is_long = len(line) > _HEADING_CHARS and len(whole_words) <= _HEADING_CHARS // 2
    return f"{line[:_HEADING_CHARS]}…" if is_long else whole_words


def facts_of(chronicle: Chronicle, presenter: Presenter) -> list[tuple[str, str]]:
    """(name, value) of each fact that is known of the session. Secrets in them are masked, and counted once."""
    session = {key: value for key, value in chronicle.session.items() if isinstance(value, str)}
    counts, turns = chronicle.statuses, collections.Counter(section.status for section in chronicle.sections)
    seen = {"visible": "in the context", "replaced": "replaced", "rolled_back": "taken back", "removed": "removed"}
    gone = {"undone": "of them taken back", "emptied": "with all items taken back"}
    found = [
        ("thread", chronicle.thread_id),
        ("begun", local_time(session.get("timestamp"))),
        ("directory", session.get("cwd")),
        ("program", " ".join(session[key] for key in ("originator", "cli_version") if session.get(key))),
        ("model", ", ".join(dict.fromkeys(turn.model for turn in chronicle.turns if turn.model))),
        ("turns", ", ".join([f"{len(chronicle.turns):,}", *_counted(turns, gone)])),
        ("records", ", ".join(_counted(counts, seen))),
        ("damage", count(counts["damaged"], "line") if counts["damaged"] else None),
    ]
    return [(name, presenter.clean(value)) for name, value in found if value]


def _counted(counts: Mapping[str, int], words: Mapping[str, str]) -> list[str]:
    return [f"{counts[key]:,} {told}" for key, told in words.items() if counts[key]]
