"""The file-system port: everything that this library asks of a disk.

`rollout.files.disk.RealFileSystem` asks the operating system, `rollout.testing.disk.SimulatedDisk` answers from
memory. Reading raises `SourceError` and its kin. Writing lets `OSError` through, because only the writer knows what
an error means for the bytes before it; kinds of files that can never be right are refused with `NotARollout`.

What goes past it: SQLite and its file (`home.index.database`), the temporary file that a sealed one is unpacked into
(`sealed.reader`), where the file of keys lies (`encrypted.keys`), and whether a reference is a path of this machine
(`source.locate`, `rollout.agent_tools`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import errno
import os
import stat
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple, Protocol

from rollout.errors import Locked, NotFound, WriteError

AnyPath = str | os.PathLike[str]
Progress = Callable[[int, int], None]
"""Is told how much is done, and of how much: bytes, files or threads, as it is said where one is taken."""


class Durability(enum.Enum):
    """When what was appended is put on the disk, unless `commit` asks for it."""

    RECORD = "record"
    """By every append."""
    TURN = "turn"
    """At the end of a turn."""
    NONE = "none"
    """When the operating system likes; but what a new file is made with is on the disk before it has its name."""


@dataclasses.dataclass(frozen=True, slots=True)
class Holder:
    """Who writes: process, machine, and since when (text, as it is to be shown).

    The note beside the locked file says so; it decides nothing.
    """

    pid: int
    host: str
    since: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} since {self.since}"


def locked(path: str, holder: Holder | None) -> Locked:
    """The error for a lock that is taken."""
    who = "" if holder is None else f" ({holder})"
    return Locked(f"another writer holds it{who}", path=path, remedy="close it there, or read without a lock")


class ShortWrite(OSError):
    """The system took only the first `written` of `wanted` bytes."""

    def __init__(self, written: int, wanted: int) -> None:
        super().__init__(errno.EIO, f"only {written} of {wanted} bytes were written")
        self.written, self.wanted = written, wanted


@contextlib.contextmanager
def explained(
    path: AnyPath, what: str, *, remedy: str = "mend what the system complains of, then try again"
) -> Iterator[None]:
    """Turns an OSError into the exception that says that a file could not be `what` (written, sealed, …), and why."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFound("there is no such file", path=path, remedy="check the path") from error
    except FileExistsError as error:
        raise WriteError("is there already", path=path, remedy="open it for append") from error
    except PermissionError as error:
        way_out = "check the permissions of it and its directories"
        raise WriteError(f"may not be {what}", path=path, remedy=way_out) from error
    except OSError as error:
        raise WriteError(f"cannot be {what}: {error.strerror}", path=path, remedy=remedy) from error


class Listed(NamedTuple):
    """A name in a directory, and what it stands for; of a symbolic link, that it is one."""

    name: str
    kind: Literal["file", "directory", "link", "other"]


class Status(NamedTuple):
    """What the system says of a file without opening it. `identity` is that of `ReadFile`.

    `mode` is the kind and the permissions as POSIX has them, `owner` the number of a user.
    """

    size: int
    mtime_ns: int
    identity: tuple[int, int]
    mode: int = stat.S_IFREG | 0o600
    owner: int = 0


class ReadFile(Protocol):
    """An open file. Safe to use from several threads."""

    @property
    def identity(self) -> tuple[int, int]:
        """Device and inode: equal for two files that share their bytes."""

    def size(self) -> int:
        """Bytes in the file now."""

    def data_start(self) -> int:
        """Where a hole at the beginning ends; 0 if there is none."""

    def read_at(self, offset: int, n: int) -> bytes:
        """`n` bytes from `offset`; fewer only where the file ends. SourceError if the disk fails."""

    def close(self) -> None:
        """Closes the file; once is enough, twice is fine."""


class AppendFile(ReadFile, Protocol):
    """A file open for appending (and for reading). Raises OSError."""

    def append(self, data: bytes) -> int:
        """Writes `data` at the end in one system call; the offset behind it. ShortWrite if not all of it went."""

    def sync(self) -> None:
        """Returns when the bytes and the size of the file are on the disk, its name perhaps not."""

    def truncate(self, size: int) -> None:
        """Cuts the file to `size` bytes."""

    def set_mtime(self, ns: int) -> None:
        """Says when the file was last written: for one that takes the place of another."""

    def lock(self, holder: Holder, at: AnyPath | None = None) -> None:
        """Takes the one writer's lock and leaves a note of the holder beside the file.

        Locked, naming the present holder, if it is taken or if the path now names another file.
        Released by `close` and by the end of the process. `at` is the path of a file that was given another one since
        it was opened, and is held: it keeps the lock.
        """

    def hold(self, timeout_s: float) -> None:
        """Takes the same lock for a moment, without a note, and waits for it. Locked as for `lock`."""

    @property
    def release(self) -> Callable[[], object]:
        """Gives back what `hold` took; nothing happens if it took nothing. After `close` it may raise ValueError."""

    def whereabouts(self) -> str | None:
        """A path that names the file now; None if it has no name any more, or the system does not tell."""


class FileSystem(Protocol):
    """What this library does to files. Methods that change something raise OSError."""

    def open_read(self, path: AnyPath) -> ReadFile:
        """A file to read. Never blocks.

        Raises:
            NotFound: there is none.
            NotARollout: it is a directory, a FIFO or a device.
            SourceError: it may not be read, or the disk fails.
        """

    def open_append(self, path: AnyPath, *, create: bool = False) -> AppendFile:
        """A file to append to, which is there; with `create` a new one (0600).

        Raises:
            FileExistsError: it is there already, and should not be.
            FileNotFoundError: it is not there, or its directory is not.
            NotARollout: it is no regular file.
        """

    def write_new(self, path: AnyPath, data: bytes) -> None:
        """A new file (0600) with `data`, synced; its directory is not.

        Raises:
            FileExistsError: it is there already.
        """

    def mkdir(self, path: AnyPath) -> None:
        """One new directory, 0700.

        Raises:
            FileExistsError: something of that name is there.
        """

    def sync_dir(self, path: AnyPath) -> None:
        """Returns when the names in the directory are on the disk."""

    def rename(self, source: AnyPath, target: AnyPath) -> None:
        """Atomic; replaces `target`."""

    def unlink(self, path: AnyPath) -> None:
        """Removes a name."""

    def listed(self, path: AnyPath) -> list[Listed]:
        """The names in a directory, sorted; no file is looked at where the directory tells its kind.

        Raises:
            FileNotFoundError: there is no such directory.
            NotADirectoryError: it is a file.
        """

    def status(self, path: AnyPath) -> Status:
        """Of what a path leads to, links followed.

        Raises:
            FileNotFoundError: it leads to nothing.
            NotADirectoryError: a file is where a directory is needed.
        """
