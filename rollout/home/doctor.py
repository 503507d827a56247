"""A home looked over: what is wrong, and for each thing the command that helps.

Changes nothing but the index, which is brought up to date on the way. A file that another process is at work on is
left to it: what was written to a moment ago is not called torn, nor left over.
"""

from __future__ import annotations

import collections
import dataclasses
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from rollout import ids
from rollout.files import layout as homes
from rollout.files.bases import Bases
from rollout.files.displaced import RESCUED
from rollout.files.layout import RolloutFile
from rollout.files.staging import ASIDE, ENDINGS, HALF_MADE, hidden, parse_hidden
from rollout.files.thread_names import Names, fold
from rollout.home.doctor_file import Checkup, File
from rollout.home.findings import Finding, command_in
from rollout.home.index.database import NAME
from rollout.home.index.index import Index, IndexStatus
from rollout.limits import MIB

Progress = Callable[[int, int], None]

REST_DAYS, REST_BYTES = 30, 100 * MIB
"""Plain sessions that rest for so long, and together take so much, should be sealed."""
_LEFTOVER_S = 600.0
_KEPT = ("torn", "damaged", "backup")


@dataclasses.dataclass(frozen=True, slots=True)
class Diagnosis:
    """What was found in a home, problems first. `files` were looked at; the index is told as it was before."""

    home: Path
    findings: tuple[Finding, ...]
    files: int
    sessions: int
    bytes: int
    index: IndexStatus

    @property
    def ok(self) -> bool:
        """No problem; there may be advice."""
        return not any(finding.is_problem for finding in self.findings)


def diagnose(index: Index, now_s: float, progress: Progress | None = None) -> Diagnosis:
    """Looks over all files of a home. `now_s` is the time in Unix seconds; `progress(bytes_done, bytes_total)`."""
    return _Doctor(index, now_s).look(progress)


class _Doctor:
    def __init__(self, index: Index, now_s: float) -> None:
        self._home, self._fs, self._now_s, self._index = index.home, index.fs, now_s, index
        self._odd: list[tuple[Path, str]] = []

    def look(self, progress: Progress | None) -> Diagnosis:
        status = self._index.status()
        entries = list(homes.scan(self._home, lambda path, what: self._odd.append((path, what)), fs=self._fs))
        files = list(self._files(entries, progress))
        checkup = Checkup(self._home, self._fs, self._index.keys)
        found = [finding for file in files for finding in checkup.check(file)]
        found += [*self._doubled(entries), *self._rest(files), *self._leftovers(files), *self._half_made_keys()]
        found += [*self._names(entries), *self._oddities()]
        found += self._cache(status)
        return Diagnosis(
            self._home,
            tuple(sorted(found, key=lambda finding: finding.order)),
            len(files),
            len({entry.thread for entry in entries}),
            sum(file.entry.size for file in files),
            status,
        )

    def _files(self, entries: list[RolloutFile], progress: Progress | None) -> Iterator[File]:
        twins = {path.with_name(path.name.removesuffix(".zst")) for path, what in self._odd if what == homes.TWIN}
        of_thread = collections.Counter(entry.thread for entry in entries)
        for file, entry in self._index.entries(entries, progress):
            age_s, is_alone = self._now_s - entry.mtime_ns / 1e9, of_thread[file.thread] == 1
            yield File(file, entry, age_s, file.path in twins, is_alone)

    def _doubled(self, entries: list[RolloutFile]) -> Iterator[Finding]:
        """Files that have the id of another one, by which others name it as their base."""
        bases = Bases(self._home, self._fs, entries)
        for id in bases.doubled():
            first, *others = bases.all_of(id)
            for path in others:
                what = f"has the same id as {first}, which is the base of those that name it"
                yield Finding("lineage", path, None, what, "compare the two, and take one of them out of the home")

    def _rest(self, files: list[File]) -> Iterator[Finding]:
        rests = [f for f in files if not f.file.sealed and f.age_s >= REST_DAYS * 86400 and f.entry.trouble is None]
        size = sum(file.entry.size for file in rests)
        if size >= REST_BYTES:
            what = f"{len(rests):,} sessions that nobody wrote to for {REST_DAYS} days are not sealed"
            command = command_in(self._home, "seal", "--older-than", f"{REST_DAYS}d")
            yield Finding("rest", None, None, what, "packs them; they read as before", command, bytes=size)

    def _leftovers(self, files: list[File]) -> Iterator[Finding]:
        """Hidden files that a crash left, and what repairs kept."""
        kept: list[int] = []
        for folder, _, found in homes.folders(self._home, fs=self._fs):
            for name, kind in found:
                path = folder / name
                inner, ending = parse_hidden(name) or ("", "")
                if kind == "file" and ids.parse_file_name(inner):
                    if (size := self._settled(path, _LEFTOVER_S)) is not None:
                        yield self._leftover(path, ending, size, files)
                elif kind == "file" and (beside := _beside(name)) and (size := self._settled(path, 0)) is not None:
                    if beside[1] == RESCUED:
                        yield self._rescued(path, beside[0], size)
                    else:
                        kept.append(size)
        if kept:
            what = f"{len(kept):,} files (.torn, .damaged, .backup) hold what was cut off or replaced"
            remedy = "they can be deleted when nothing in them is missed"
            yield Finding("kept", None, None, what, remedy, bytes=sum(kept))

    def _leftover(self, path: Path, ending: str, size: int, files: list[File]) -> Finding:
        what = f"left by what did not come to its end: {ENDINGS[ending]}"
        command: tuple[str, ...] | None = ("rm", str(path))
        remedy = "deletes it; nobody reads it"
        if ending == ASIDE:
            remedy = "the next archive, unarchive or rm deletes it, or takes it back if something needs it"
            other = next((file.reference for file in files if not file.file.archived), None)
            command = None if other is None else command_in(self._home, "unarchive", other)  # it is: nothing moves
        return Finding("leftover", path, None, what, remedy, command, bytes=size)

    def _rescued(self, path: Path, of: str, size: int) -> Finding:
        what = f"holds the lines of {of}, which another program took away while it was being written"
        remedy = "compare it with what is there now; moved to that name it is the session again"
        return Finding("rescued", path, None, what, remedy, bytes=size)

    def _half_made_keys(self) -> Iterator[Finding]:
        """What is left of making keys, beside the file that is named for all who say nothing."""
        if self._index.keys.file is not None:
            path = hidden(os.path.realpath(self._index.keys.file), HALF_MADE)
            if (size := self._settled(path, _LEFTOVER_S)) is not None:
                what = "left by what did not come to its end: making a key, which nobody was told of"
                remedy = "deletes it; the file of keys has all that count"
                yield Finding("leftover", path, None, what, remedy, ("rm", str(path)), bytes=size)

    def _settled(self, path: Path, age_s: float) -> int | None:
        """The size of a file that was not written to for so long; None for another, or one that has gone."""
        try:
            status = self._fs.status(path)
        except OSError:
            return None
        return status.size if self._now_s - status.mtime_ns / 1e9 >= age_s else None

    def _names(self, entries: list[RolloutFile]) -> Iterator[Finding]:
        names, there = Names(self._home, self._fs), {entry.thread: entry for entry in entries}
        if names.trouble is not None:
            yield Finding("names", names.path, None, f"names are lost: {names.trouble}", "see who may read it")
        if names.lost_lines:
            what = f"{names.lost_lines:,} lines are no names: what they named has its older name, or none"
            yield Finding("names", names.path, None, what, "name those sessions again with `rollout name`")
        by_name: dict[str, list[RolloutFile]] = {}
        for thread, name in names.by_thread().items():
            if thread in there:
                by_name.setdefault(fold(name), []).append(there[ids.ThreadId(thread)])
        for same in by_name.values():
            for older in sorted(same, key=lambda entry: entry.order)[:-1]:
                name = names.by_thread()[older.thread]
                command = command_in(self._home, "name", older.path, "--clear")
                what, remedy = f"a newer session is called {name!r:.80}, too", "takes the name away; or give another"
                yield Finding("name", older.path, older.thread, what, remedy, command)

    def _oddities(self) -> Iterator[Finding]:
        for path, what in self._odd:
            if what.startswith("cannot be"):
                yield Finding("unreadable", path, None, what, "see who may read it", resumes=False)
            elif what != homes.TWIN:
                rename = "give it the name of a rollout, or " if what == homes.MISNAMED else ""
                yield Finding("odd", path, None, what, f"{rename}take it out of the home")

    def _cache(self, status: IndexStatus) -> Iterator[Finding]:
        if status.path is None and status.files and not self._index.keys:
            what = "the index is not kept: each list and search reads what it needs anew"
            yield Finding("index", None, None, what, f"let {NAME} be written to the home")


def _beside(name: str) -> tuple[str, str] | None:
    """The rollout beside which a file was put, and the word for why; None for any other file."""
    inner, _, ending = name.rpartition(".")
    word, _, number = ending.rpartition("-")
    is_number = number.isdecimal() and number.isascii()
    is_beside = word in (*_KEPT, RESCUED) and is_number and ids.parse_file_name(inner) is not None
    return (inner, word) if is_beside else None
