"""One locked file, and lines that are appended to it.

`append` returns when the operating system has the lines, `commit` when they are on the disk, and the file's name too.
A batch of lines is one write. Threads that commit at once share one sync: the first one syncs for all that was
appended before it began, the others wait for it.

After any error of a write or a sync, and after an exception in the middle of one, nobody knows what the disk holds:
the writer is poisoned, every later call fails, and only opening the file again (which recovers) helps. A failed sync
is never tried again, because the system may have forgotten the bytes that it could not write.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterator, Sequence
from types import TracebackType

from rollout.errors import Closed, Conflict, NotFound, Poisoned, RecordError, RolloutError, WriteError
from rollout.storage import recovery
from rollout.storage.durability import Durability
from rollout.storage.folders import make_folder
from rollout.storage.fs import AnyPath, AppendFile, FileSystem
from rollout.storage.holder import Holder
from rollout.storage.synced import is_synced

REKEYED = ".rekeyed"
"""How the hidden file ends that a rollout is encrypted or decrypted into, beside the old one: `.<name>.rekeyed`."""


def rekeyed_beside(path: AnyPath) -> str:
    """The path of that file."""
    folder, name = os.path.split(os.fspath(path))
    return os.path.join(folder, f".{name}{REKEYED}")


def remove_rekeyed(fs: FileSystem, path: AnyPath) -> None:
    """What a crash has left of it, under the lock of the rollout: it may be the plain text of an encrypted one."""
    with contextlib.suppress(FileNotFoundError):
        fs.unlink(rekeyed_beside(path))


def make_dirs(fs: FileSystem, path: AnyPath, *, root: AnyPath | None = None) -> list[str]:
    """Makes the directory `path` and those above it; the directories to sync, innermost first, for it to be durable.

    One that was there already may have been made by a process that died before its sync, so all from `path`
    up to `root` are named, unless `path` is known to be durable; without a root, up to the innermost one that was there.
    """
    to_sync, missing = [], []
    at = os.path.abspath(path)
    top = None if root is None else at if is_synced(fs, at) else os.path.abspath(root)
    while True:
        to_sync.append(at)
        try:
            fs.status(os.path.join(at, "."))  # what is in it does not matter, and may be much
        except (FileNotFoundError, NotADirectoryError):  # if a file is in the way, `make_folder` says so
            missing.append(at)
        else:
            if top is None or not at.startswith(os.path.join(top, "")):
                break
        at = os.path.dirname(at)
    for directory in reversed(missing):
        make_folder(fs, directory)
    return to_sync


def holder(since: str) -> Holder:
    """This process as the holder of a lock; `since` is shown as it is."""
    return Holder(os.getpid(), socket.gethostname(), since)


class Writer:
    """The one writer of a file, made by `create` or `open`. Safe to use from several threads.

    `recovered` is what `open` had to mend (None for a new file), `kept` where it put what it cut.
    """

    def __init__(
        self, fs: FileSystem, path: str, file: AppendFile, dirs: Sequence[str], durability: Durability
    ) -> None:
        self.path = path
        self.durability = durability
        self.recovered: recovery.Plan | None = None
        self.kept: str | None = None
        self._fs, self._file = fs, file
        self._unsynced_dirs = tuple(dirs)  # whose names may not be on the disk yet
        self._changed = threading.Condition()  # guards all below
        self._end = file.size()
        self._durable_end = 0
        self._syncing = False
        self._failed = self._closed = False

    @classmethod
    def create(
        cls,
        fs: FileSystem,
        path: AnyPath,
        lines: Sequence[bytes],
        *,
        held_by: Holder,
        durability: Durability = Durability.TURN,
        root: AnyPath | None = None,
    ) -> Writer:
        """A new file with its first lines, and the directories it needs, up to `root`; durable unless NONE.

        WriteError if the file is there already or cannot be made; then it is not left behind.
        """
        name = os.fspath(path)
        with explained(name):
            dirs = make_dirs(fs, os.path.dirname(name) or ".", root=root)
            file = fs.open_append(name, create=True)
        with closing_on_error(file):
            with explained(name):
                file.lock(held_by)
            try:
                writer = cls(fs, name, file, dirs, durability)
                writer.append(lines)
                writer.end_turn()
            except BaseException as error:
                with contextlib.suppress(OSError):
                    fs.unlink(name)  # nobody was told of it, and it is locked
                if isinstance(error, WriteError):
                    error.remedy = "nothing of it is left; mend what the system complains of, then try again"
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
    ) -> Writer:
        """A file that is there, its end mended first; what it holds is durable then, unless NONE.

        NotFound, NotARollout, Locked, or WriteError if it cannot be mended.
        """
        name = os.fspath(path)
        with explained(name):
            file = fs.open_append(name)
        with closing_on_error(file):
            with explained(name):
                file.lock(held_by)
                remove_rekeyed(fs, name)
                dirs = make_dirs(fs, os.path.dirname(name) or ".", root=root)
                plan = recovery.inspect(file, holds_record)
                kept = recovery.apply(fs, file, name, plan)
            writer = cls(fs, name, file, dirs, durability)
            writer.recovered, writer.kept = plan, kept
            writer.end_turn()
        return writer

    @property
    def end(self) -> int:
        """Offset behind the last line that the operating system has."""
        return self._end

    @property
    def durable_end(self) -> int:
        """So many bytes from the start are known to be on the disk."""
        return self._durable_end

    def append(self, lines: Sequence[bytes], *, expected_end: int | None = None, atomic: bool = False) -> int:
        """Writes the lines at the end in one piece; the offset behind them.

        Each is a JSON object ended by its only newline. `atomic`: after a crash all are there or none is visible.
        RecordError or Conflict (the file does not end at `expected_end`): nothing was written.
        """
        data = _joined(recovery.mark_batch(lines) if atomic else lines, is_batch=atomic)
        with self._changed:
            self._check_usable()
            if expected_end is not None and (found := self._file.size()) != expected_end:
                raise Conflict(f"the log ends at byte {found}, not at {expected_end}", path=self.path, offset=found)
            if data:
                try:
                    self._end = self._file.append(data)
                except BaseException as error:
                    self._fail(error, "could not be written")
                    raise
            end = self._end
            if self.durability is Durability.RECORD:
                self._commit(end)
        return end

    def commit(self) -> int:
        """Returns when all that was appended before is on the disk: so many bytes from the start."""
        with self._changed:
            self._check_usable()
            self._commit(self._end)
            return self._durable_end

    def end_turn(self) -> None:
        """Commits, unless the durability is NONE."""
        if self.durability is not Durability.NONE:
            self.commit()

    def close(self) -> None:
        """Ends the turn and gives the lock back; the second even if the first fails."""
        with self._changed:
            if self._closed:
                return
        try:
            if not self._failed:
                self.end_turn()
        finally:
            with self._changed:
                self._closed = True
                while self._syncing:
                    self._changed.wait()
                self._file.close()

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _commit(self, target: int) -> None:
        """Waits for another thread's sync to cover `target`, or syncs for all that wait. Under the lock, once."""
        while self._durable_end < target or self._unsynced_dirs:
            if self._failed:
                raise self._poisoned()
            if self._syncing:
                self._changed.wait()
                continue
            try:
                self._syncing = True
                goal = self._end  # bytes that come while the sync runs may be missed by it
                self._sync_unlocked()
                self._durable_end = goal
                self._unsynced_dirs = ()
            except BaseException as error:
                self._fail(error, "could not be put on the disk")
                raise
            finally:
                self._syncing = False
                self._changed.notify_all()

    def _sync_unlocked(self) -> None:
        """Syncs without the lock, so that others can append in the meantime."""
        self._changed.release()
        try:
            self._file.sync()
            for directory in self._unsynced_dirs:
                self._fs.sync_dir(directory)
        finally:
            _acquire(self._changed)

    def _check_usable(self) -> None:
        if self._closed:
            raise Closed("is closed", path=self.path, remedy="open it again")
        if self._failed:
            raise self._poisoned()

    def _poisoned(self) -> Poisoned:
        error = Poisoned("an earlier write failed", path=self.path, remedy=self._remedy())
        error.durable_end = self._durable_end
        return error

    def _remedy(self) -> str:
        return f"the first {self._durable_end} bytes are on the disk; reopen to recover"

    def _fail(self, error: BaseException, what: str) -> None:
        """Poisons; an OSError is raised as a WriteError."""
        self._failed = True
        if isinstance(error, OSError):
            problem = WriteError(f"{what}: {error.strerror}", path=self.path, remedy=self._remedy())
            problem.durable_end = self._durable_end
            raise problem from error


@contextlib.contextmanager
def closing_on_error(file: AppendFile) -> Iterator[None]:
    """Closes the file if the block fails."""
    try:
        yield
    except BaseException:
        file.close()
        raise


@contextlib.contextmanager
def explained(path: str) -> Iterator[None]:
    """Turns an OSError of opening into an exception of this library."""
    try:
        yield
    except OSError as error:
        raise _explain(error, path) from error


def _acquire(lock: threading.Condition) -> None:
    """Takes the lock even if a signal's exception comes while it waits, and raises that then."""
    interrupted: KeyboardInterrupt | None = None
    while True:
        try:
            lock.acquire()
            break
        except KeyboardInterrupt as error:
            interrupted = error
    if interrupted is not None:
        raise interrupted


def _explain(error: OSError, path: str) -> RolloutError:
    match error:
        case FileNotFoundError() | NotADirectoryError():
            return NotFound("there is no such file", path=path, remedy="check the path")
        case FileExistsError():
            return WriteError("is there already", path=path, remedy="open it for append")
        case PermissionError():
            return WriteError("may not be written", path=path, remedy="check the permissions of it and its directories")
        case _:
            return WriteError(f"cannot be opened for append: {error.strerror}", path=path)


def _joined(lines: Sequence[bytes], *, is_batch: bool) -> bytes:
    """All lines as one piece; RecordError for one that would not be one line, or that would leave a batch open."""
    data = b"".join(lines)
    if data.count(b"\n") != len(lines) or not all(line.endswith(b"\n") for line in lines):
        raise RecordError("a line is ended by its only newline")
    if lines and not is_batch and (mark := recovery.batch_mark(lines[-1])) and mark[0] < mark[1]:
        raise RecordError("the last line is one of an incomplete batch", remedy="take its mark off")
    return data
