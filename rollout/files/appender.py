"""Lines that are appended to one file, in order, and put on the disk.

`append` returns when the operating system has the lines, `commit` when they are on the disk, and the file's name too.
A batch of lines is one write. Threads that commit at once share one sync: each waits for the one that is under way, and
the first one whose lines that did not cover syncs for all that was appended before it began.

After any error of a write or a sync nobody knows what the disk holds: the writer is poisoned, every later call fails,
and only opening the file again (which recovers) helps. A failed sync is never tried again, because the system may have
forgotten the bytes that it could not write.

An exception that comes from outside (KeyboardInterrupt, between any two steps) tears nothing:
- A lock is a lock of the interpreter, taken by `with` alone: CPython delivers no signal between taking it and the
  block (3.14 could, behind one instruction), nor between the block and giving it back. A Condition, `acquire` ahead of
  a `try`, or a context manager that is written in Python would leave it taken for good.
- What is known of the file is one value, replaced in one step. Ahead of a write stands what it is to become; who takes
  the lock next and finds that there looks into the file whether the bytes went out, and settles it.
- An OSError is noted in the step in which it is caught, before any signal can be delivered.

A program that moves, replaces or unlinks the file does not know of the lock. So every commit makes sure that the path
still names the file; where it does not, nothing is acknowledged any more (see `displaced`).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

from rollout.errors import Closed, Conflict, Displaced, Poisoned, RecordError, SourceError, WriteError
from rollout.files import recovery
from rollout.files.displaced import again, displaced
from rollout.files.port import AppendFile, Durability, FileSystem, ShortWrite
from rollout.files.weak_registry import Living

UNCHANGED = object()
"""What was noted stays so."""


class Appender:
    """A file that is open for appending. Safe to use from several threads.

    `lock` orders what is appended; `commit` is never called under it, as syncs have locks of their own, which are taken
    first. `recovered` is what had to be mended of the file, `kept` where that was put which was cut off.
    """

    def __init__(
        self, fs: FileSystem, path: str, file: AppendFile, dirs: Sequence[str], durability: Durability
    ) -> None:
        self.path = path
        self.durability = durability
        self.recovered: recovery.RecoveryPlan | None = None
        self.kept: str | None = None
        self._fs, self._file = fs, file
        self._unsynced_dirs = tuple(dirs)  # whose names may not be on the disk yet
        self._sync_lock = threading.Lock()  # of the newest sync: there is one for each
        self.lock = threading.RLock()
        self._known: tuple[int, object] = (file.size(), None)  # the end, and what is noted of what stands before it
        self._intent: tuple[bytes, object] | None = None  # what is being appended, and what is noted once it stands
        self._durable_end = 0
        self._failure: OSError | SourceError | Displaced | None = None  # the first one
        self._closed: str | None = None  # why
        _writers.add(self)

    @property
    def end(self) -> int:
        """Offset behind the last line that the operating system has."""
        if self._intent is not None:
            with self.lock:
                self._settle()
        return self._known[0]

    @property
    def durable_end(self) -> int:
        """So many bytes from the start are known to be on the disk."""
        return self._durable_end

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be appended any more."""
        return self._closed is not None

    @property
    def noted(self) -> Any:
        """What was noted last (None: nothing was). Under `lock`."""
        if self._intent is not None:
            self._settle()
        return self._known[1]

    def note(self, noted: object) -> None:
        """Notes something without a line. Under `lock`."""
        self._settle()
        self._known = self._known[0], noted

    def append(
        self,
        lines: Sequence[bytes],
        *,
        expected_end: int | None = None,
        atomic: bool = False,
        noted: object = UNCHANGED,
    ) -> int:
        """Writes the lines at the end in one piece; the offset behind them.

        Each is a JSON object ended by its only newline. `atomic`: after a crash all are there or none is visible.
        What is `noted` along with them is noted if and only if they stand, whatever interrupts this.
        RecordError or Conflict (the file does not end at `expected_end`): nothing was written.
        """
        data = _joined(recovery.mark_batch(lines) if atomic else lines, is_batch=atomic)
        with self.lock:
            self.check_usable()
            if expected_end is not None and (found := self._file.size()) != expected_end:
                raise Conflict(f"the log ends at byte {found}, not at {expected_end}", path=self.path, offset=found)
            end, before = self._known
            if data:
                if noted is UNCHANGED:
                    noted = before
                self._intent = data, noted
                try:
                    end = self._file.append(data)
                except OSError as error:
                    self._failure = error
                    raise self._problem(error, "could not be written") from error
                self._known = end, noted
                self._intent = None
        return end

    def acknowledge(self) -> None:
        """Commits if every record is to be on the disk. After each append or run of appends, never under `lock`."""
        if self.durability is Durability.RECORD:
            self.commit()

    def commit(self) -> int:
        """Returns when all that was appended before is on the disk: so many bytes from the start.

        Displaced if the path names another file by now, or none.
        """
        with self.lock:
            self.check_usable()
            end = self._known[0]
        self._commit(end)
        return self._durable_end

    def end_turn(self) -> None:
        """Commits; where the durability is NONE, it only makes sure that the path still names the file."""
        if self.durability is not Durability.NONE:
            self.commit()
            return
        if self._failure is None:
            self._check_place()

    def close(self) -> None:
        """Ends the turn and gives the lock back; the second even if the first fails. Can be repeated."""
        try:
            if self._closed is None and self._failure is None:
                self.end_turn()
        finally:
            self._in_a_sync(self._close)

    def _close(self) -> None:
        with self.lock:
            self._closed = self._closed or "is closed"
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _commit(self, target: int) -> None:
        """Returns when so many bytes are on the disk. Never under `lock`."""
        if self._is_durable(target):
            self._check_place()
        else:
            self._in_a_sync(self._sync, target)

    def _in_a_sync(self, work: Callable[[], None], target: int | None = None) -> None:
        """Calls `work` while no other thread syncs; not if another one has covered `target` by then.

        Each sync has a lock of its own. It is known to all before that of the sync ahead of it is given back, so that
        those whom that has covered go on at once, and all others wait for this one.
        """
        mine = threading.Lock()
        with mine:
            while True:
                ahead = self._sync_lock
                with ahead:
                    if target is not None and self._is_durable(target):
                        return
                    if self._sync_lock is ahead:
                        self._sync_lock = mine
                        break
            work()

    def _sync(self) -> None:
        if self._failure is not None:
            raise self._poisoned()
        if self._closed is not None:
            raise Closed(self._closed, path=self.path, remedy="open it again")
        end = self._known[0]  # bytes that come while the sync runs may be missed by it
        try:
            self._file.sync()
            for directory in self._unsynced_dirs:
                self._fs.sync_dir(directory)
        except OSError as error:
            self._failure = error
            raise self._problem(error, "could not be put on the disk") from error
        self._check_place()
        self._unsynced_dirs = ()
        self._durable_end = end

    def _is_durable(self, target: int) -> bool:
        return self._durable_end >= target and not self._unsynced_dirs

    def _check_place(self) -> None:
        """Displaced if the path does not name the file any more. Nothing is acknowledged after that."""
        if not self.is_in_place and not self._is_carried_over():
            with self.lock:
                if isinstance(self._failure, Displaced):  # another thread was faster
                    raise again(self._failure)
                self._settle()
                found = displaced(self._fs, self._file, self.path)
                if found.lines_at is not None:  # else the next commit tries again
                    self._failure = found
            raise found

    def _is_carried_over(self) -> bool:
        """Whether all lines stand in the file that has taken this one's place."""
        return False

    @property
    def is_in_place(self) -> bool:
        """Whether the path still names this file."""
        try:
            return self._fs.status(self.path).identity == self._file.identity
        except OSError:
            return False

    def check_usable(self) -> None:
        """Closed, Poisoned, Displaced: nothing can be appended any more. Under `lock`."""
        if self._closed is not None:
            raise Closed(self._closed, path=self.path, remedy="open it again")
        if self._failure is not None:
            raise self._poisoned()
        if self._intent is not None:
            self._settle()

    def _settle(self) -> None:
        """If an append was interrupted: what has become of it. Under `lock`; can be interrupted itself."""
        if self._intent is None or self._failure is not None or self._closed is not None:
            return
        data, noted = self._intent
        end = self._known[0]
        try:
            left = self._file.read_at(end, self._file.size() - end)
            at = left.find(data)
            if at >= 0:
                self._known = end + at + len(data), noted
            elif left and data.startswith(left):
                self._file.truncate(end)
            elif left:
                raise ShortWrite(0, len(data))  # others have written where a part of ours may stand
        except (OSError, SourceError) as error:
            self._failure = error
            raise self._problem(error, "could not be written") from error
        self._intent = None

    def _poisoned(self) -> WriteError:
        if isinstance(self._failure, Displaced):
            return again(self._failure)
        error = Poisoned("an earlier write failed", path=self.path, remedy=self._remedy())
        error.durable_end = self._durable_end
        return error

    def _remedy(self) -> str:
        return f"the first {self._durable_end} bytes are on the disk; reopen to recover"

    def _problem(self, error: OSError | SourceError, what: str) -> WriteError:
        why = error.strerror if isinstance(error, OSError) else error.message
        problem = WriteError(f"{what}: {why}", path=self.path, remedy=self._remedy())
        problem.durable_end = self._durable_end
        return problem


_writers: Living[Appender] = Living()


def _close_in_child() -> None:
    """The log is its parent's. Locks that other threads held when the process was forked are never given back there."""
    for writer in _writers.in_child():
        writer.lock, writer._sync_lock = threading.RLock(), threading.Lock()
        writer._closed = "is open in the process that this one was forked from"


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)


def _joined(lines: Sequence[bytes], *, is_batch: bool) -> bytes:
    """All lines as one piece; RecordError for one that would not be one line, or that would leave a batch open."""
    data = b"".join(lines)
    if data.count(b"\n") != len(lines) or not all(line.endswith(b"\n") for line in lines):
        raise RecordError("a line is ended by its only newline")
    if lines and not is_batch and (mark := recovery.batch_mark(lines[-1])) and mark[0] < mark[1]:
        raise RecordError("the last line is one of an incomplete batch", remedy="take its mark off")
    return data
