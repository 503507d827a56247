"""A file that is locked for one writer: made with its first lines, or opened, its end mended. See `appending`."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path

from rollout.errors import Locked, NotFound, RecordError, WriteError
from rollout.files import recovery
from rollout.files.appender import Appender
from rollout.files.directories import make_dirs
from rollout.files.disk import AnyPath, AppendFile, FileSystem
from rollout.files.lineage import holds_record
from rollout.files.port import Durability, Holder, explained
from rollout.files.sealed import seal
from rollout.files.staging import new_file, publish, remove_half_made


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
        lines: Iterable[bytes],
        *,
        held_by: Holder,
        durability: Durability = Durability.TURN,
        root: AnyPath | None = None,
        in_passing: bool = False,
    ) -> Writer:
        """A new file with its first lines, and the directories it needs, up to `root`; durable unless NONE.

        They may come in blocks. The file has its name, and can be opened by others, only when it is on the disk, and
        then it is locked; its name is on the disk with the first commit, if it is made `in_passing` or NONE.
        WriteError if the file is there already or cannot be made; then it is not left behind.
        """
        name = os.fspath(path)
        with explained(name, "written"):
            with _unmade(name, "its directories could not be put on the disk"):
                dirs = make_dirs(fs, os.path.dirname(name) or ".", root=root)
            with new_file(fs, name) as (file, half_made):
                with _unmade(name, "could not be written"):
                    for block in filter(None, lines):
                        file.append(_checked(block))
                with _unmade(name, "could not be put on the disk"):
                    file.sync()
                publish(fs, half_made, name)
                try:
                    file.lock(held_by, at=name)
                    writer = cls(fs, name, file, dirs, durability)
                    if durability is not Durability.NONE and not in_passing:
                        with _unmade(name, "could not be put on the disk"):
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
    ) -> Writer:
        """A file that is there, its end mended first; what it holds is durable then, unless NONE.

        NotFound, NotARollout, Locked, or WriteError if it cannot be mended.
        """
        name = os.fspath(path)
        with explained(name, "written"):
            file = fs.open_append(name)
        with closing_on_error(file):
            with explained(name, "written"):
                file.lock(held_by)
                remove_half_made(fs, name)
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
def _unmade(path: str, what: str) -> Iterator[None]:
    """Turns an OSError of making a file into a WriteError, but for those that `explained` has more words for."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError, FileExistsError, PermissionError):
        raise
    except OSError as error:
        remedy = "nothing of it is left; mend what the system complains of, then try again"
        raise WriteError(f"{what}: {error.strerror}", path=path, remedy=remedy) from error


def _checked(block: bytes) -> bytes:
    """A block of lines. RecordError for one that is not."""
    if not block.endswith(b"\n"):
        raise RecordError("a line is ended by its only newline")
    return block


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
