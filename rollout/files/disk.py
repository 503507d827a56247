"""The real file system behind the port: `RealFileSystem` (`REAL`) asks the operating system.

A lock is a `flock` on the written file itself: it follows renames and links, and dies with its process.
Who holds it stands in `.<name>.lock` beside the file, which is a note and never decides anything.
No symbolic link is followed at the end of a path that is written; with a `root`, none on the way leads out of it.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import gc
import io
import os
import stat
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Literal

import msgspec

from rollout.errors import Locked, NotARollout, NotFound, SourceError, WriteError
from rollout.files.port import AnyPath, AppendFile, FileSystem, Holder, Listed, ReadFile, ShortWrite, Status, locked

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

__all__ = ["REAL", "AnyPath", "AppendFile", "FileSystem", "ReadFile", "RealFileSystem", "ShortWrite"]

_OPEN = (
    getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
)
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_WINDOWS_LOCK_OFFSET = 1 << 62  # behind any data: Windows locks keep readers out
_NOTE_BYTES = 4096
_KINDS = {stat.S_IFDIR: "a directory", stat.S_IFIFO: "a FIFO", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}
_KINDS_BY_ERROR = {errno.EISDIR: "a directory", errno.ELOOP: "a symbolic link", errno.ENXIO: "a socket or a device"}
_HELD = (BlockingIOError, PermissionError)  # what a lock says that somebody holds; the second on Windows
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.0002, 0.01  # between two looks at a lock that is waited for


class _Descriptor(io.FileIO):
    """A descriptor that is closed when it is garbage: in C, where no interrupt comes, and without a word."""

    _finalizing = property()  # cannot be set, and so nothing is warned of


class _File:
    """A descriptor; `pread` where there is one, else seek and read under a lock.

    A finalizer in Python would swallow an interrupt that comes in it, and might not come to close it.
    """

    def __init__(self, fd: int, path: str) -> None:
        self._owner = _Descriptor(fd)
        self.fd, self._path = fd, path
        self._seeking = threading.Lock()
        status = os.fstat(fd)
        self.identity = (status.st_dev, status.st_ino)

    def size(self) -> int:
        return os.fstat(self.fd).st_size

    def data_start(self) -> int:
        with contextlib.suppress(OSError, AttributeError):  # not every system tells
            return os.lseek(self.fd, 0, os.SEEK_DATA)
        return 0

    def read_at(self, offset: int, n: int) -> bytes:
        try:
            found = more = self._read_some(offset, n)
            while more and len(found) < n:
                more = self._read_some(offset + len(found), n - len(found))
                found += more
            return found
        except OSError as error:
            raise SourceError(f"cannot be read: {error.strerror}", path=self._path, offset=offset) from error

    def _read_some(self, offset: int, n: int) -> bytes:  # EINTR is retried by Python itself (PEP 475)
        if sys.platform == "win32":
            with self._seeking:
                os.lseek(self.fd, offset, os.SEEK_SET)
                return os.read(self.fd, n)
        else:
            return os.pread(self.fd, n, offset)

    def close(self) -> None:
        self.fd = -1
        self._owner.close()


class _AppendFile(_File):
    """A descriptor with O_APPEND. Forgotten in a forked child, so that the lock dies with the process that took it."""

    _note: str | None = None

    def __init__(self, fd: int, path: str) -> None:
        super().__init__(fd, path)
        self.release = _unlocking(self._owner)
        _open_files.add(weakref.ref(self, _open_files.discard))

    def append(self, data: bytes) -> int:
        written = os.write(self.fd, data)
        if written != len(data):
            raise ShortWrite(written, len(data))
        return os.lseek(self.fd, 0, os.SEEK_CUR)  # where O_APPEND has put it, whoever else may append

    def sync(self) -> None:
        _sync(self.fd)

    def truncate(self, size: int) -> None:
        os.ftruncate(self.fd, size)

    def set_mtime(self, ns: int) -> None:
        os.utime(self.fd if os.utime in os.supports_fd else self._path, ns=(ns, ns))

    def lock(self, holder: Holder, at: AnyPath | None = None) -> None:
        if at is None:
            self.hold(0)
        else:
            self._path = os.fspath(at)
            self._check_place()
        self._note = _note_path(self._path)
        with contextlib.suppress(OSError):  # the lock holds without its note
            fd = os.open(self._note, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _OPEN | _NOFOLLOW, 0o600)
            with _Descriptor(fd, "w") as note:
                note.write(msgspec.json.encode(holder) + b"\n")

    def hold(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                _lock(self.fd)
                break
            except _HELD:
                if time.monotonic() >= deadline:
                    self._lock_behind_garbage()
                    break
                time.sleep(pause_s)
                pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
        try:
            self._check_place()
        except BaseException:
            self.release()
            raise

    def _lock_behind_garbage(self) -> None:
        """Locks what is held, if garbage of this process holds it; Locked if somebody does.

        An exception that comes from outside keeps the frames that it has passed, and those of a generator's context
        manager keep it in turn: such a circle holds a file that nobody uses until it is collected.
        """
        if any(file and self._is_another_open(file) for file in [known() for known in _open_files.copy()]):
            gc.collect()
        try:
            _lock(self.fd)
        except _HELD as error:
            raise locked(self._path, _read_note(_note_path(self._path))) from error

    def _is_another_open(self, file: _AppendFile) -> bool:
        return file.identity == self.identity and file.fd not in {-1, self.fd}

    def whereabouts(self) -> str | None:
        try:
            found = _path_of(self.fd)
            status = os.stat(found)
        except (OSError, ValueError):
            return None
        return found if (status.st_dev, status.st_ino) == self.identity else None

    def _check_place(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            status = os.lstat(self._path)
            if (status.st_dev, status.st_ino) == self.identity:
                return
        raise Locked("was replaced while it was being opened", path=self._path, remedy="open it again")

    def close(self) -> None:
        if self._note is not None and self.fd >= 0:
            with contextlib.suppress(OSError):  # while the lock is still held: never the next holder's note
                os.unlink(self._note)
        super().close()


_open_files: set[weakref.ref[_AppendFile]] = set()
"""Those that are there. They leave it by a call into C: a function in Python would swallow an interrupt."""


def _forget_in_child() -> None:
    for known in _open_files.copy():
        if (file := known()) is not None:
            file._note = None
            file.close()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_forget_in_child)


def _lock(fd: int) -> None:
    if sys.platform == "win32":
        os.lseek(fd, _WINDOWS_LOCK_OFFSET, os.SEEK_SET)
        msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
    else:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _unlocking(file: _Descriptor) -> Callable[[], object]:
    """What gives the lock back: one call into C, which no interrupt comes before once it is called."""
    if sys.platform == "win32":

        def unlock() -> None:
            file.seek(_WINDOWS_LOCK_OFFSET)
            msvcrt.locking(file.fileno(), msvcrt.LK_UNLCK, 1)

        return unlock
    return functools.partial(fcntl.flock, file, fcntl.LOCK_UN)


def _path_of(fd: int) -> str:
    """Where the system has an open file; of one that was removed, a path that names another file or none. OSError."""
    if sys.platform == "darwin":
        return os.fsdecode(fcntl.fcntl(fd, fcntl.F_GETPATH, bytes(1024)).rstrip(b"\0"))
    return os.readlink(f"/proc/self/fd/{fd}")  # which is not there on Windows


def _sync(fd: int) -> None:
    if sys.platform == "darwin":
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)  # fsync alone stops at the drive's cache there
    elif hasattr(os, "fdatasync"):
        os.fdatasync(fd)
    else:
        os.fsync(fd)


def _note_path(path: str) -> str:
    return os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.lock")


def _read_note(path: str) -> Holder | None:
    try:
        with _Descriptor(os.open(path, os.O_RDONLY | _OPEN | _NOFOLLOW)) as note:
            return msgspec.json.decode(note.read(_NOTE_BYTES), type=Holder)
    except (OSError, ValueError, RecursionError, msgspec.DecodeError):
        return None  # there is none, or it was not written whole


def _open_regular(path: str, flags: int) -> int:
    """A descriptor of a regular file. NotARollout for any other, OSError."""
    try:
        fd = os.open(path, flags | _OPEN, 0o600)
    except OSError as error:
        if error.errno in _KINDS_BY_ERROR:
            raise _no_rollout(path, _KINDS_BY_ERROR[error.errno]) from error
        raise
    mode = os.fstat(fd).st_mode
    if not stat.S_ISREG(mode):
        os.close(fd)
        raise _no_rollout(path, _KINDS.get(stat.S_IFMT(mode), "no regular file"))
    return fd


def _kind_of(entry: os.DirEntry[str]) -> Literal["file", "directory", "link", "other"]:
    if entry.is_file(follow_symlinks=False):
        return "file"
    if entry.is_dir(follow_symlinks=False):
        return "directory"
    return "link" if entry.is_symlink() else "other"


def _no_rollout(path: str, kind: str) -> NotARollout:
    return NotARollout(f"is {kind}, not a rollout", path=path, remedy="give the path of a rollout file or a thread id")


class RealFileSystem:
    """The operating system. With a `root` (the home) writing outside of it is refused, symbolic links resolved."""

    def __init__(self, root: AnyPath | None = None) -> None:
        self._root = None if root is None else os.path.realpath(root)

    def open_read(self, path: AnyPath) -> ReadFile:
        name = os.fspath(path)
        try:
            return _File(_open_regular(name, os.O_RDONLY), name)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise NotFound("there is no such file", path=name, remedy="check the path") from error
        except PermissionError as error:
            if os.path.isdir(name):  # Windows
                raise _no_rollout(name, "a directory") from error
            remedy = "check the permissions of the file and its directories"
            raise SourceError("may not be read", path=name, remedy=remedy) from error
        except OSError as error:
            raise SourceError(f"cannot be opened: {error.strerror}", path=name) from error

    def open_append(self, path: AnyPath, *, create: bool = False) -> AppendFile:
        name = self._place(path)
        flags = os.O_RDWR | os.O_APPEND | _NOFOLLOW | (os.O_CREAT | os.O_EXCL if create else 0)
        return _AppendFile(_open_regular(name, flags), name)

    def write_new(self, path: AnyPath, data: bytes) -> None:
        with contextlib.closing(self.open_append(path, create=True)) as file:
            file.append(data)
            file.sync()

    def mkdir(self, path: AnyPath) -> None:
        name = os.fspath(path)
        os.mkdir(name if self._is_above_root(name) else self._place(name), 0o700)

    def sync_dir(self, path: AnyPath) -> None:
        if sys.platform != "win32":  # where NTFS journals names and a directory cannot be opened
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            closing = map(os.close, [fd])
            try:
                os.fsync(fd)
            except OSError as error:
                if error.errno not in {errno.EINVAL, errno.EBADF}:  # a file system whose directories have no sync
                    raise
            finally:
                (_,) = closing  # not a call, behind which an interrupt could hide that the sync has failed

    def rename(self, source: AnyPath, target: AnyPath) -> None:
        os.replace(self._place(source), self._place(target))

    def unlink(self, path: AnyPath) -> None:
        os.unlink(self._place(path))

    def listed(self, path: AnyPath) -> list[Listed]:
        with os.scandir(path) as found:
            return sorted([Listed(entry.name, _kind_of(entry)) for entry in found])

    def status(self, path: AnyPath) -> Status:
        found = os.stat(path)
        return Status(found.st_size, found.st_mtime_ns, (found.st_dev, found.st_ino), found.st_mode, found.st_uid)

    def _is_above_root(self, name: str) -> bool:
        """Whether the root is to lie in that directory: without it there is no home, so it may be made."""
        above = os.path.join(os.path.realpath(name), "")
        return self._root is not None and self._root.startswith(above)

    def _place(self, path: AnyPath) -> str:
        """`path` as it is to be written; with a root, its directory resolved, and refused if that lies outside."""
        name = os.fspath(path)
        if self._root is None or os.path.abspath(name) == self._root:
            return name
        directory, last = os.path.split(os.path.abspath(name))
        real = os.path.realpath(directory)
        if os.path.realpath(os.path.join(real, last)) == self._root:
            return name
        if not os.path.join(real, "").startswith(os.path.join(self._root, "")):
            raise WriteError(f"lies outside of {self._root}", path=name, remedy="no link may lead out of the home")
        return os.path.join(real, last)


REAL = RealFileSystem()
