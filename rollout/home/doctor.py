"""A home looked over: what is wrong, and for each thing the command that helps.

Changes nothing but the index, which is brought up to date on the way. A file that another process is at work on is
left to it: what was written to a moment ago is not called torn, nor left over. Cheap for a file that the index knows to
be whole: its head and its end are read. A file with damage is read as `verify` does.

A *problem* costs somebody something now: lines, a history, or that Codex goes on with the session. The rest is advice.
Codex not going on says nothing about this library, which goes on with whatever can be read.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path

from rollout import ids
from rollout.dialects.codex.session_meta import is_paginated
from rollout.errors import RolloutError
from rollout.files import layout, recovery
from rollout.files.disk import FileSystem
from rollout.files.displaced import RESCUED
from rollout.files.encrypted.keys import Keys
from rollout.files.layout import Bases, RolloutFile, default_home
from rollout.files.lineage import Opened, holds_record, open_path
from rollout.files.log_end import ending_of
from rollout.files.port import Progress
from rollout.files.source import Origin
from rollout.files.staging import ASIDE, ENDINGS, HALF_MADE, hidden, parse_hidden
from rollout.files.thread_names import Names, fold
from rollout.home.index.database import NAME
from rollout.home.index.entry import EMPTY, FOREIGN, TOO_LARGE, UNREADABLE, Entry
from rollout.home.index.index import Index, IndexStatus
from rollout.limits import MIB
from rollout.session.verification import Report, examine

PROBLEMS = ("unreadable", "empty", "foreign", "resume", "base", "sealed", "damaged", "torn", "rescued", "names")
ADVICE = ("lineage", "large", "leftover", "rest", "name", "kept", "odd", "index")
KINDS = (*PROBLEMS, *ADVICE)
"""In the order in which they are told.

    unreadable  the file cannot be read: permissions, a missing key, a disk that fails
    empty       nothing stands in it, or a first line that was cut short
    foreign     no line of it is a record of a rollout
    resume      Codex does not go on with it, for what its lines say;  base: nor with one whose base is missing
    sealed      frames of a sealed file are damaged;  damaged: lines are;  torn: a crash cut its end short
    rescued     a file holds the lines of one that another program took away while it was written to
    names       lines of session_index.jsonl are lost, or all of it
    lineage     a base ends elsewhere than it is said, or two files have the same id
    large       it holds more than a list, a search or this look reads of one file
    leftover    what a crash left of a command
    rest        sessions that nobody wrote to for long, and that are not sealed
    name        two threads have the same name, so that it leads to neither
    kept        what repairs kept beside;  odd: a file that is passed over, for its name say;  index: it is not kept
"""

REST_DAYS, REST_BYTES = 30, 100 * MIB
"""Plain sessions that rest for so long, and together take so much, should be sealed."""
SETTLED_S = 10.0
"""A file that was written to less than this ago may be in the middle of a write: its end is not judged."""
_READABLE = "what is there is still read: `rollout history` shows it"
_LEFTOVER_S = 600.0
_KEPT = ("torn", "damaged", "backup")


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, of the file at `path` (None: of the home) and its `thread`; `what` says it in words.

    `command` is what helps, as a program and its arguments, None where there is no such command; `remedy` says what it
    does, or what else there is to do. `resumes`: whether Codex goes on with the session all the same. `bytes` is what
    can be given back, or what it takes.
    """

    kind: str
    path: Path | None
    thread: str | None
    what: str
    remedy: str
    command: tuple[str, ...] | None = None
    resumes: bool = True
    bytes: int | None = None

    @property
    def is_problem(self) -> bool:
        """Whether it is more than advice."""
        return self.kind in PROBLEMS

    @property
    def order(self) -> tuple[int, str, str]:
        """Sorts by kind, newest file first by its name."""
        name = "" if self.path is None else "".join(chr(0x10FFFF - ord(c)) for c in self.path.name)
        return KINDS.index(self.kind), name, self.what


def command_in(home: Path, *words: str | os.PathLike[str]) -> tuple[str, ...]:
    """A command of the program for this home, which it names unless it is the default one."""
    is_default = home == default_home().absolute()
    return ("rollout", *(os.fspath(word) for word in words), *(() if is_default else ("--home", os.fspath(home))))


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
    return _Doctor(index, now_s).examine_home(progress)


class _Doctor:
    def __init__(self, index: Index, now_s: float) -> None:
        self._home, self._fs, self._now_s, self._index = index.home, index.fs, now_s, index
        self._odd: list[tuple[Path, str]] = []

    def examine_home(self, progress: Progress | None) -> Diagnosis:
        status = self._index.status()
        entries = list(layout.scan(self._home, lambda path, what: self._odd.append((path, what)), fs=self._fs))
        files = list(self._files(entries, progress))
        checkup = _Checkup(self._home, self._fs, self._index.keys)
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

    def _files(self, entries: list[RolloutFile], progress: Progress | None) -> Iterator[_File]:
        twins = {path.with_name(path.name.removesuffix(".zst")) for path, what in self._odd if what == layout.TWIN}
        of_thread = collections.Counter(entry.thread for entry in entries)
        for file, entry in self._index.entries(entries, progress):
            age_s, is_alone = self._now_s - entry.mtime_ns / 1e9, of_thread[file.thread] == 1
            yield _File(file, entry, age_s, file.path in twins, is_alone)

    def _doubled(self, entries: list[RolloutFile]) -> Iterator[Finding]:
        """Files that have the id of another one, by which others name it as their base."""
        bases = Bases(self._home, self._fs, entries)
        for id in bases.doubled():
            first, *others = bases.all_of(id)
            for path in others:
                what = f"has the same id as {first}, which is the base of those that name it"
                yield Finding("lineage", path, None, what, "compare the two, and take one of them out of the home")

    def _rest(self, files: list[_File]) -> Iterator[Finding]:
        rests = [f for f in files if not f.file.sealed and f.age_s >= REST_DAYS * 86400 and f.entry.trouble is None]
        size = sum(file.entry.size for file in rests)
        if size >= REST_BYTES:
            what = f"{len(rests):,} sessions that nobody wrote to for {REST_DAYS} days are not sealed"
            command = command_in(self._home, "seal", "--older-than", f"{REST_DAYS}d")
            yield Finding("rest", None, None, what, "packs them; they read as before", command, bytes=size)

    def _leftovers(self, files: list[_File]) -> Iterator[Finding]:
        """Hidden files that a crash left, and what repairs kept."""
        kept: list[int] = []
        for folder, _, found in layout.folders(self._home, fs=self._fs):
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

    def _leftover(self, path: Path, ending: str, size: int, files: list[_File]) -> Finding:
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
        file, there = Names(self._home, self._fs), {entry.thread: entry for entry in entries}
        names = file.read()
        if names.trouble is not None:
            yield Finding("names", file.path, None, f"names are lost: {names.trouble}", "see who may read it")
        if names.lost_lines:
            what = f"{names.lost_lines:,} lines are no names: what they named has its older name, or none"
            yield Finding("names", file.path, None, what, "name those sessions again with `rollout name`")
        by_name: dict[str, list[RolloutFile]] = {}
        for thread, name in names.names.items():
            if thread in there:
                by_name.setdefault(fold(name), []).append(there[ids.ThreadId(thread)])
        for same in by_name.values():
            for older in sorted(same, key=lambda entry: entry.order)[:-1]:
                name = names.names[older.thread]
                command = command_in(self._home, "name", older.path, "--clear")
                what, remedy = f"a newer session is called {name!r:.80}, too", "takes the name away; or give another"
                yield Finding("name", older.path, older.thread, what, remedy, command)

    def _oddities(self) -> Iterator[Finding]:
        for path, what in self._odd:
            if what.startswith("cannot be"):
                yield Finding("unreadable", path, None, what, "see who may read it", resumes=False)
            elif what != layout.TWIN:
                rename = "give it the name of a rollout, or " if what == layout.MISNAMED else ""
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


@dataclasses.dataclass(frozen=True, slots=True)
class _File:
    """A file of the home: what its index entry says of it, and how long ago it was written.

    `has_twin`: a sealed one stands beside it. `is_alone`: its thread has no other file.
    """

    file: RolloutFile
    entry: Entry
    age_s: float
    has_twin: bool
    is_alone: bool

    @property
    def reference(self) -> str:
        """What names this file in a command, and no other."""
        return str(self.file.thread if self.is_alone and not self.has_twin else self.file.path)


@dataclasses.dataclass(frozen=True, slots=True)
class _Checkup:
    """Looks files of one home over."""

    home: Path
    fs: FileSystem
    keys: Keys

    def check(self, file: _File) -> Iterator[Finding]:
        """What is wrong with one file."""
        trouble = file.entry.trouble
        try:
            if trouble is None:
                yield from self._check_whole(file)
                yield from self._check_twin(file)
            else:
                yield self._trouble(file, trouble, self._torn_bytes(file) if trouble == FOREIGN else 0)
        except (RolloutError, OSError) as error:
            yield self._trouble(file, f"{UNREADABLE}{error}")

    def _origin(self, file: _File) -> Origin:
        return Origin(None, file.file.path, self.home, fs=self.fs, keys=self.keys)

    def _torn_bytes(self, file: _File) -> int:
        """Of a file that holds nothing but a first line that was cut short, or zeros: how many bytes; else 0."""
        with contextlib.closing(open_path(file.file.path, fs=self.fs)) as opened:
            end = recovery.inspect(opened.stored, opened.stored.size, holds_record)
            return 0 if end.cut else opened.stored.size

    def _trouble(self, file: _File, trouble: str, torn_bytes: int = 0) -> Finding:
        command = None
        if trouble.startswith(UNREADABLE):
            kind, remedy = "unreadable", "see who may read it, where its key is, and whether the disk is well"
        elif trouble == TOO_LARGE:
            command = command_in(self.home, "show", file.reference)
            return self._finding("large", file, trouble, "reads it whole, however long that takes", command)
        elif trouble == EMPTY or torn_bytes:
            kind, remedy = "empty", "it can go"
            if torn_bytes:
                trouble = f"its creation was cut short: {torn_bytes:,} bytes, in which no reader finds a record"
            alone = command_in(self.home, "rm", file.reference)  # which else would delete the others, too
            command = alone if file.is_alone else ("rm", str(file.file.path))
        else:
            kind, remedy, command = "foreign", "shows what is there", command_in(self.home, "verify", file.reference)
        return self._finding(kind, file, trouble, remedy, command, resumes=False)

    def _check_whole(self, file: _File) -> Iterator[Finding]:
        """Damage, and why Codex does not go on with it."""
        with self._origin(file).opened() as lineage:
            opened = lineage.opened[0]
            end = recovery.inspect(opened.stored, opened.source.size, holds_record)
            reason = _why_not_resumed(opened)
            if reason is None and is_paginated(opened.session):
                is_numbered = ending_of(lineage).ordinal is not None
                reason = None if is_numbered else "it is paginated, and its lines are not numbered"
        report = None
        if file.entry.damaged:
            report = examine(self._origin(file))
            if reason is None and any(damage.kind == "utf8" for damage in report.damage):
                reason = "it holds bytes that are not UTF-8"
        if reason is not None:
            yield self._resume(file, reason, can_repair="UTF-8" in reason or "byte-order" in reason)
        if report is not None:
            yield from self._damage(file, report, end.cut)
        if end.kept_bytes and file.age_s >= SETTLED_S:
            what = f"a write at its end was cut short: {end.kept_bytes:,} bytes that no reader sees"
            yield self._repair("torn", file, what, "moves them to a file beside, as the next writer would")

    def _resume(self, file: _File, reason: str, *, can_repair: bool) -> Finding:
        what = f"Codex does not resume it: {reason}"
        if can_repair and not file.file.sealed:
            return self._repair("resume", file, what, "takes them out", resumes=False)
        command = command_in(self.home, "history", file.reference)
        return self._finding("resume", file, what, "this library goes on with it", command, resumes=False)

    def _damage(self, file: _File, report: Report, end: int) -> Iterator[Finding]:
        lost = set()
        for damage in report.damage:
            if damage.kind == "base":
                remedy = f"bring that file back, from a backup say; {_READABLE}"
                yield self._finding("base", file, damage.reason, remedy, resumes=False)
            elif damage.kind == "base_end":
                yield self._finding("lineage", file, damage.reason, "look whether its history is the one that it had")
            elif damage.kind in {"sealed", "encrypted"}:
                where = f"{damage.kind} data is damaged at byte {damage.offset:,}: {damage.reason}"
                yield self._finding("sealed", file, where, f"take it from a backup; {_READABLE}", resumes=False)
            elif damage.offset < end:
                lost.add(damage.line)
        if lost:
            some = ", ".join(f"{line:,}" for line in sorted(line for line in lost if line)[:4])
            what = f"damaged line{'s' if len(lost) > 1 else ''} {some}{', …' if len(lost) > 4 else ''}"
            yield self._repair("damaged", file, what, "moves the damaged bytes to a file beside")

    def _repair(self, kind: str, file: _File, what: str, remedy: str, *, resumes: bool = True) -> Finding:
        if file.file.sealed:
            command = command_in(self.home, "unseal", file.reference)
            return self._finding(kind, file, what, "unpacks it, so that it can be mended", command, resumes=resumes)
        command = command_in(self.home, "repair", "--apply", file.reference)
        return self._finding(kind, file, what, remedy, command, resumes=resumes)

    def _check_twin(self, file: _File) -> Iterator[Finding]:
        if file.has_twin and not file.file.sealed:
            command = command_in(self.home, "unseal", file.reference)
            yield self._finding("leftover", file, "a sealed copy of it stands beside it", "removes that", command)

    def _finding(
        self,
        kind: str,
        file: _File,
        what: str,
        remedy: str,
        command: tuple[str, ...] | None = None,
        *,
        resumes: bool = True,
    ) -> Finding:
        return Finding(kind, file.file.path, file.file.thread, what, remedy, command, resumes)


def _why_not_resumed(opened: Opened) -> str | None:
    """What the beginning of a file has that Codex refuses."""
    with contextlib.suppress(RolloutError):
        if opened.session is None:
            return "it has no session_meta"
        if not opened.head.is_first:
            return "its session_meta is not the first record"
    return None
