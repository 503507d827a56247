"""Files that are made beside another one under a hidden name until they are whole: their names, how they are made.

A file that is whole or not there is written under the hidden name, synced, and only then given its own one. So is one
that takes the place of another. Whoever makes one holds its lock meanwhile. One that nobody holds is what a crash has
left: it goes with the next one that is made under the same name, or when the home is next tidied (`home.lifecycle`),
and `doctor` names it. No hidden name is that of a rollout: nobody lists, reads or opens it as one.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from rollout.errors import Locked, NotARollout, WriteError
from rollout.files.port import AnyPath, AppendFile, FileSystem, ReadFile, Status
from rollout.limits import MIB

T = TypeVar("T")
HALF_MADE = ".new"
ASIDE = ".deleted"
DAMAGED, BACKUP = ".damaged", ".backup"
ENDINGS = {
    HALF_MADE: "making, copying, sealing, unsealing, detaching, encrypting, decrypting or repairing it",
    ASIDE: "deleting it",
    DAMAGED: "repairing it",
    BACKUP: "repairing it",
}
"""How hidden names end, `.<name><ending>`, and what leaves them behind if it is cut short."""
_TRIES = 5
_TIDIED_WITHIN_S = 1.0
"""So long somebody may hold what a crash has left, to remove it."""


def remove_half_made(fs: FileSystem, path: AnyPath) -> None:
    """Removes what a crash has left of another file for `path`, which is locked: it may be the plain text of it."""
    with contextlib.suppress(FileNotFoundError):
        fs.unlink(hidden(path, HALF_MADE))


def hidden(path: AnyPath, ending: str) -> Path:
    """The hidden name beside a file, for one of the `ENDINGS`."""
    folder, name = os.path.split(os.fspath(path))
    return Path(folder, f".{name}{ending}")


def parse_hidden(name: str) -> tuple[str, str] | None:
    """The name of the file that a hidden name belongs to, and its ending; None for a name of another kind."""
    inner, dot, ending = name[1:].rpartition(".")
    return (inner, dot + ending) if name.startswith(".") and inner and dot + ending in ENDINGS else None


@contextlib.contextmanager
def new_file(fs: FileSystem, path: AnyPath) -> Iterator[tuple[AppendFile, Path]]:
    """A new empty file (0600) that is to become the one at `path`, and its hidden name for now.

    It is held, without a note, until it is closed. After an exception in the block it is gone, else it is the caller's
    to name and to close. Locked (somebody else is making one), OSError.
    """
    name = hidden(path, HALF_MADE)
    file = _made(fs, name)
    try:
        yield file, name
    except BaseException:
        with contextlib.suppress(OSError):
            fs.unlink(name)
        file.close()
        raise


def _made(fs: FileSystem, name: Path) -> AppendFile:
    for _ in range(_TRIES):
        try:
            file = fs.open_append(name, create=True)
        except FileExistsError:
            _remove_left(fs, name)
            continue
        try:
            file.hold(0)
        except BaseException as error:
            file.close()
            if isinstance(error, Locked):
                continue  # taken for one that a crash has left, before it was held
            raise
        return file
    raise Locked("is being made by others again and again", path=name, remedy="try again")


def _remove_left(fs: FileSystem, name: Path) -> None:
    """Removes what a crash has left. Locked if it is none: somebody is at work on it."""
    with contextlib.suppress(FileNotFoundError), contextlib.closing(fs.open_append(name)) as file:
        try:
            file.hold(_TIDIED_WITHIN_S)
        except Locked:
            if fs.status(name).identity == file.identity:
                raise
            return  # removed by somebody else, and made anew
        fs.unlink(name)


def publish(fs: FileSystem, name: AnyPath, path: AnyPath) -> None:
    """Gives a new file, which is held under its hidden `name`, that of `path`. FileExistsError, OSError.

    It is renamed, not linked: the system goes on to tell where an open file lies by the name that it was opened by. Who
    makes another one for `path` at the same time waits for the hidden name, and finds this one then.
    """
    if status_of(fs, path) is not None:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), os.fspath(path))
    fs.rename(name, path)


def replace(
    fs: FileSystem,
    path: Path,
    pieces: Iterable[bytes],
    *,
    check: Callable[[Path], None],
    mtime_ns: int | None = None,
    held: contextlib.ExitStack | None = None,
) -> None:
    """Makes the `pieces` all that the file at `path` holds, which the caller has locked.

    The new file is on the disk before it has the name, and has it only if `check`, which is given its hidden name,
    raises nothing. After an exception the old one is there as it was. `mtime_ns`: when it was last written to. The new
    one is `held` as long as it is said, or until it has the name.

    Raises:
        OSError: the disk fails.
        Locked: somebody else is replacing it.
        WriteError: it is the new file, and nobody can say that it stays that.
    """
    with new_file(fs, path) as (file, name), contextlib.nullcontext(held) if held else contextlib.ExitStack() as until:
        until.callback(file.close)
        write(file, pieces)
        if mtime_ns is not None:
            file.set_mtime(mtime_ns)
        file.sync()
        check(name)
        fs.rename(name, path)
    try:
        fs.sync_dir(path.parent)
    except OSError as error:
        what = f"is the new file, but its directory could not be put on the disk: {error.strerror}"
        raise WriteError(what, path=path, remedy="a crash may bring the old file back; do it again then") from error


def keep_beside(fs: FileSystem, path: AnyPath, what: str, file: ReadFile, begin: int, end: int) -> str:
    """Some bytes of a file, durably in `<path>.<what>-<n>`, the path of which is returned. OSError, SourceError.

    One of an earlier try that holds just them will do.
    """
    number = 1
    while True:
        name = f"{os.fspath(path)}.{what}-{number}"
        try:
            beside = fs.open_append(name, create=True)
        except FileExistsError:
            if _holds_durably(fs, name, file, begin, end):
                break
            number += 1
            continue
        with contextlib.closing(beside):
            try:
                write(beside, _chunks(file, begin, end))
                beside.sync()
            except BaseException:
                fs.unlink(name)
                raise
        break
    fs.sync_dir(os.path.dirname(name) or ".")
    return name


def _holds_durably(fs: FileSystem, name: str, file: ReadFile, begin: int, end: int) -> bool:
    try:
        beside = fs.open_append(name)
    except (FileNotFoundError, PermissionError, NotARollout):
        return False
    with contextlib.closing(beside):
        n = end - begin
        if beside.size() != n or not all(map(bytes.__eq__, _chunks(beside, 0, n), _chunks(file, begin, end))):
            return False
        beside.sync()  # its process may have died before it did
        return True


def _chunks(file: ReadFile, begin: int, end: int) -> Iterator[bytes]:
    for at in range(begin, end, MIB):
        yield file.read_at(at, min(MIB, end - at))


def write(file: AppendFile, pieces: Iterable[bytes]) -> None:
    """Appends small pieces as large ones. OSError."""
    held = bytearray()
    for piece in pieces:
        held += piece
        if len(held) >= MIB:
            file.append(bytes(held))
            held.clear()
    if held:
        file.append(bytes(held))


def status_of(fs: FileSystem, path: AnyPath) -> Status | None:
    """The status of a file; None if there is none."""
    try:
        return fs.status(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def while_held(fs: FileSystem, path: AnyPath, wait_s: float, work: Callable[[AppendFile], T]) -> T:
    """What `work` makes of the file at `path`, made if it is not there, under its lock; that is waited for so long.

    However the work ends, the lock is given back. Locked, OSError.
    """
    deadline = time.monotonic() + wait_s
    for tries_left in reversed(range(_TRIES)):
        try:
            file = fs.open_append(path)
        except FileNotFoundError:
            try:
                file = fs.open_append(path, create=True)
            except FileExistsError:
                continue  # another process was as fast
        try:
            try:
                file.hold(max(0.0, deadline - time.monotonic()))
            except Locked:
                if tries_left and time.monotonic() < deadline:
                    continue  # replaced while it was being opened
                raise
            return work(file)
        finally:
            file.close()
    raise Locked("is being replaced again and again", path=path, remedy="try again")
