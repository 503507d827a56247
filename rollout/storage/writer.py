"""A file that is locked for one writer: made with its first lines, or opened, its end mended. See `appending`."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator, Sequence

from rollout.errors import NotFound, RolloutError, WriteError
from rollout.storage import recovery
from rollout.storage.appending import Appender
from rollout.storage.durability import Durability
from rollout.storage.folders import make_dirs
from rollout.storage.fs import AnyPath, AppendFile, FileSystem
from rollout.storage.holder import Holder

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


def holder(since: str) -> Holder:
    """This process as the holder of a lock; `since` is shown as it is."""
    return Holder(os.getpid(), socket.gethostname(), since)


class Writer(Appender):
    """The one writer of a file, made by `create` or `open`. Safe to use from several threads.

    `recovered` is what `open` had to mend (None for a new file), `kept` where it put what it cut.
    """

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
