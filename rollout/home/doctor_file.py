"""One rollout file looked over: does it open, does Codex go on with it, what is damaged, what is too much.

Cheap for a file that the index knows to be whole: its head and its end are read. A file with damage is read as `verify`
does.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path

from rollout.dialects.codex.session_meta import is_paginated
from rollout.errors import RolloutError
from rollout.files import recovery
from rollout.files.disk import FileSystem
from rollout.files.encrypted.keys import Keys
from rollout.files.layout import RolloutFile
from rollout.files.lineage import Opened, holds_record, open_path
from rollout.files.log_end import ending_of
from rollout.files.source import Origin
from rollout.home.findings import Finding, command_in
from rollout.home.index.entry import EMPTY, FOREIGN, TOO_LARGE, UNREADABLE, Entry
from rollout.session.verification import Report, examine

SETTLED_S = 10.0
"""A file that was written to less than this ago may be in the middle of a write: its end is not judged."""
_READABLE = "what is there is still read: `rollout history` shows it"


@dataclasses.dataclass(frozen=True, slots=True)
class File:
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
class Checkup:
    """Looks files of one home over."""

    home: Path
    fs: FileSystem
    keys: Keys

    def check(self, file: File) -> Iterator[Finding]:
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

    def _origin(self, file: File) -> Origin:
        return Origin(None, file.file.path, self.home, fs=self.fs, keys=self.keys)

    def _torn_bytes(self, file: File) -> int:
        """Of a file that holds nothing but a first line that was cut short, or zeros: how many bytes; else 0."""
        with contextlib.closing(open_path(file.file.path, fs=self.fs)) as opened:
            end = recovery.inspect_first(opened.stored, opened.stored.size, holds_record)
            return 0 if end.cut else opened.stored.size

    def _trouble(self, file: File, trouble: str, torn_bytes: int = 0) -> Finding:
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

    def _check_whole(self, file: File) -> Iterator[Finding]:
        """Damage, and why Codex does not go on with it."""
        with self._origin(file).opened() as lineage:
            opened = lineage.opened[0]
            end = recovery.inspect_first(opened.stored, opened.source.size, holds_record)
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

    def _resume(self, file: File, reason: str, *, can_repair: bool) -> Finding:
        what = f"Codex does not resume it: {reason}"
        if can_repair and not file.file.sealed:
            return self._repair("resume", file, what, "takes them out", resumes=False)
        command = command_in(self.home, "history", file.reference)
        return self._finding("resume", file, what, "this library goes on with it", command, resumes=False)

    def _damage(self, file: File, report: Report, end: int) -> Iterator[Finding]:
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

    def _repair(self, kind: str, file: File, what: str, remedy: str, *, resumes: bool = True) -> Finding:
        if file.file.sealed:
            command = command_in(self.home, "unseal", file.reference)
            return self._finding(kind, file, what, "unpacks it, so that it can be mended", command, resumes=resumes)
        command = command_in(self.home, "repair", "--apply", file.reference)
        return self._finding(kind, file, what, remedy, command, resumes=resumes)

    def _check_twin(self, file: File) -> Iterator[Finding]:
        if file.has_twin and not file.file.sealed:
            command = command_in(self.home, "unseal", file.reference)
            yield self._finding("leftover", file, "a sealed copy of it stands beside it", "removes that", command)

    def _finding(
        self,
        kind: str,
        file: File,
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
