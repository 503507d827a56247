"""A file that is locked for one writer: lines are appended to it in order, and put on the disk.

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

import contextlib
import copy
import itertools
import os
import socket
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rollout.errors import Closed, Conflict, Displaced, Locked, NotFound, Poisoned, RecordError, SourceError, WriteError
from rollout.files import recovery
from rollout.files.directories import make_dirs
from rollout.files.displaced import displaced
from rollout.files.lineage import holds_record
from rollout.files.port import AnyPath, AppendFile, Durability, FileSystem, Holder, ShortWrite, explained
from rollout.files.sealed import seal
from rollout.files.staging import new_file, publish, remove_half_made


def holder(since: str) -> Holder:
    """This process as the holder of a lock; `since` is shown as it is."""
    return Holder(os.getpid(), socket.gethostname(), since)


class Writer:
    """The one writer of a file, made by `create` or `open`. Safe to use from several threads.

    `lock` orders what is appended; `commit` is never called under it, as syncs have locks of their own, which are taken
    first. `recovered` is what had to be mended of the file (None for a new one), `kept` where that was put which was
    cut off.
    """

    def __init__(
        self, fs: FileSystem, path: str, file: AppendFile, dirs: Sequence[str], durability: Durability
    ) -> None:
        self.path = path
        self.durability = durability
        self.recovered: recovery.RecoveryPlan | None = None
        self.kept: str | None = None
        self.carried_over: Callable[[], bool] = bool
        """Whether what was written last stands in the file that has taken this one's place, with all its lines.

        Maintenance (sealing, say) puts another one there under the lock, which one that is shared does not hold in a
        sync.
        """
        self._fs, self._file = fs, file
        self._unsynced_dirs = tuple(dirs)  # whose names may not be on the disk yet
        self._sync_lock = threading.Lock()  # of the newest sync: there is one for each
        self.lock = threading.RLock()
        self._known: tuple[int, object] = (file.size(), None)  # the end, and what is noted of what stands before it
        self._intent: tuple[bytes, object] | None = None  # what is being appended, and what is noted once it stands
        self._durable_end = 0
        self._failure: OSError | SourceError | Displaced | None = None  # the first one
        self._closed: str | None = None  # why
        _writers.add(weakref.ref(self, _writers.discard))

    @classmethod
    def create(
        cls,
        fs: FileSystem,
        path: AnyPath,
        lines: Iterable[bytes],
        *,
        held_by: Holder,
        durability: Durability = Durability.TURN,
        root: AnyPath | None = None,
        in_passing: bool = False,
    ) -> Self:
        """A new file with its first lines, and the directories it needs, up to `root`; durable unless NONE.

        They may come in blocks. The file has its name, and can be opened by others, only when it is on the disk, and
        then it is locked; its name is on the disk with the first commit, if it is made `in_passing` or NONE.
        WriteError if the file is there already or cannot be made; then it is not left behind.
        """
        name = os.fspath(path)
        with explained(
            name, "written", remedy="nothing of it is left; mend what the system complains of, then try again"
        ):
            dirs = make_dirs(fs, os.path.dirname(name) or ".", root=root)
            with new_file(fs, name) as (file, half_made):
                for block in filter(None, lines):
                    if not block.endswith(b"\n"):
                        raise RecordError("a line is ended by its only newline")
                    file.append(block)
                file.sync()
                publish(fs, half_made, name)
                try:
                    file.lock(held_by, at=name)
                    writer = cls(fs, name, file, dirs, durability)
                    if durability is not Durability.NONE and not in_passing:
                        for directory in dirs:
                            fs.sync_dir(directory)
                        writer._durable_end, writer._unsynced_dirs = writer.end, ()
                except BaseException:
                    with contextlib.suppress(OSError):
                        fs.unlink(name)  # nobody was told of it, and it is locked
                    raise
        return writer

    @classmethod
    def open(
        cls,
        fs: FileSystem,
        path: AnyPath,
        *,
        held_by: Holder,
        holds_record: recovery.HoldsRecord,
        durability: Durability = Durability.TURN,
        root: AnyPath | None = None,
    ) -> Self:
        """A file that is there, its end mended first; what it holds is durable then, unless NONE.

        NotFound, NotARollout, Locked, or WriteError if it cannot be mended.
        """
        name = os.fspath(path)
        with explained(name, "written"):
            file = fs.open_append(name)
            try:
                file.lock(held_by)
                remove_half_made(fs, name)
                dirs = make_dirs(fs, os.path.dirname(name) or ".", root=root)
                plan = recovery.inspect(file, file.size(), holds_record)
                kept = recovery.apply(fs, file, name, plan)
                writer = cls(fs, name, file, dirs, durability)
                writer.recovered, writer.kept = plan, kept
                writer.end_turn()
            except BaseException:
                file.close()
                raise
        return writer

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
        noted: object = None,
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
            end = self._known[0]
            if data:
                self._intent = data, noted
                try:
                    end = self._file.append(data)
                except OSError as error:
                    self._failure = error
                    raise self._failed(error, "could not be written") from error
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
        if self._is_durable(end):
            self._check_place()
        else:
            self._in_a_sync(self._sync, end)
        return self._durable_end

    def end_turn(self) -> None:
        """Commits; where the durability is NONE, it only makes sure that the path still names the file."""
        if self.durability is not Durability.NONE:
            self.commit()
        elif self._failure is None:
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
        with self.lock:
            self.check_usable()
            end = self._known[0]  # bytes that come while the sync runs may be missed by it
        try:
            self._file.sync()
            for directory in self._unsynced_dirs:
                self._fs.sync_dir(directory)
        except OSError as error:
            self._failure = error
            raise self._failed(error, "could not be put on the disk") from error
        self._check_place()
        self._unsynced_dirs = ()
        self._durable_end = end

    def _is_durable(self, target: int) -> bool:
        return self._durable_end >= target and not self._unsynced_dirs

    def _check_place(self) -> None:
        """Displaced if the path does not name the file any more. Nothing is acknowledged after that."""
        if not self.is_in_place and not self.carried_over():
            with self.lock:
                if isinstance(self._failure, Displaced):  # another thread was faster
                    raise copy.copy(self._failure)
                self._settle()
                found = displaced(self._fs, self._file, self.path)
                if found.lines_at is not None:  # else the next commit tries again
                    self._failure = found
            raise found

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
        if isinstance(self._failure, Displaced):
            raise copy.copy(self._failure)
        if self._failure is not None:
            raise self._error(Poisoned, "an earlier write failed")
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
            raise self._failed(error, "could not be written") from error
        self._intent = None

    def _failed(self, error: OSError | SourceError, what: str) -> WriteError:
        return self._error(WriteError, f"{what}: {error.strerror if isinstance(error, OSError) else error.message}")

    def _error(self, kind: type[WriteError], why: str) -> WriteError:
        error = kind(
            why, path=self.path, remedy=f"the first {self._durable_end} bytes are on the disk; reopen to recover"
        )
        error.durable_end = self._durable_end
        return error


_writers: set[weakref.ref[Writer]] = set()
"""Those that are there. They leave it by a call into C: a function in Python would swallow an interrupt."""


def _close_in_child() -> None:
    """The log is its parent's. Locks that other threads held when the process was forked are never given back there."""
    for known in _writers.copy():
        if (writer := known()) is not None:
            writer.lock, writer._sync_lock = threading.RLock(), threading.Lock()
            writer._closed = "is open in the process that this one was forked from"


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)


def _joined(lines: Sequence[bytes], *, is_batch: bool) -> bytes:
    """All lines as one piece; RecordError for one that would not be one line, or that would leave a batch open."""
    data = b"".join(lines)
    if data.count(b"\n") != len(lines) or not all(map(bytes.endswith, lines, itertools.repeat(b"\n"))):
        raise RecordError("a line is ended by its only newline")
    if lines and not is_batch and (mark := recovery.batch_mark(lines[-1])) and mark[0] < mark[1]:
        raise RecordError("the last line is one of an incomplete batch", remedy="take its mark off")
    return data


def open_writer(
    fs: FileSystem,
    path: Path,
    *,
    held_by: Holder,
    durability: Durability = Durability.TURN,
    root: AnyPath | None = None,
) -> Writer:
    """The writer of a log, whatever its file is when it is asked for: a sealed one is unsealed first.

    Another process may seal the file between two looks at it. Then its path names nothing, or another file than the one
    that was opened: it is looked for once more. NotFound, NotARollout, Locked, WriteError, as for `Writer.open`.
    """

    def attempt(path: Path) -> Writer:
        plain = seal.unseal(fs, path, held_by=held_by)
        return Writer.open(fs, plain, held_by=held_by, holds_record=holds_record, durability=durability, root=root)

    try:
        return attempt(path)
    except (Locked, NotFound):
        now = seal.standing(fs, path)
        if now == path:
            raise
        return attempt(now)
