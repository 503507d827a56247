"""Directories made where they are needed, or why they cannot be; and those whose names are known to be on the disk.

Whoever finds a folder cannot see whether its name and those of all folders above it are: its maker may have died before
his syncs. So each new file would cost the syncs of all folders above its own. Who has synced them all once leaves a
mark in the folder, an empty hidden file. It tells the folder's number too, so that it says nothing in a copy of the
folder; and a crash that takes the folder takes it.
"""

from __future__ import annotations

import contextlib
import os
import stat

from rollout.errors import WriteError
from rollout.files.port import AnyPath, FileSystem

_MARK = ".synced-"


def make_dirs(fs: FileSystem, path: AnyPath, *, root: AnyPath | None = None) -> list[str]:
    """Makes the directory `path` and those above it; the directories to sync for a new name in it to be durable.

    What holds below `root`: a directory is made only in one whose own name is on the disk. So, however many there are,
    two are to be synced at the most: `path`, and the one above it, as who made `path` may have died before he synced
    that. (Of directories that other programs made the same is believed.) Without a root only what is made here is.
    """
    at = path = os.path.abspath(path)
    top = path if root is None else os.path.abspath(root)
    missing: list[str] = []
    while not is_folder(fs, at):  # if a file is in the way, `make_folder` says so
        missing.append(at)
        at = os.path.dirname(at)
    is_below = at.startswith(os.path.join(top, ""))
    if not missing:
        return [path, os.path.dirname(path)] if is_below and not is_synced(fs, path) else [path]
    if is_below and not any(listed.kind == "directory" for listed in fs.listed(at)):
        fs.sync_dir(os.path.dirname(at))
    for directory in reversed(missing):
        make_folder(fs, directory)
        fs.sync_dir(os.path.dirname(directory))
    return [path]


def make_folder(fs: FileSystem, path: str) -> None:
    """One new directory, if it is not there. WriteError, by the name of what is in the way: it, or one above it."""
    try:
        fs.mkdir(path)
    except OSError as error:
        if not (isinstance(error, FileExistsError) and is_folder(fs, path)):  # else another process was as fast
            raise _explain(fs, path, error) from error


def is_folder(fs: FileSystem, path: str) -> bool:
    """Whether there is a directory at a path; what is in it does not matter, and may be much."""
    try:
        return stat.S_ISDIR(fs.status(path).mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def _explain(fs: FileSystem, path: str, error: OSError) -> WriteError:
    above = os.path.dirname(path)
    while not is_folder(fs, above):
        path, above = above, os.path.dirname(above)
    for name, kind in fs.listed(above):
        if name == os.path.basename(path):
            what = "a link that leads to no folder" if kind == "link" else "no folder"
            remedy = "move it away, or give another home"
            return WriteError(f"is {what}, and a folder is needed there", path=path, remedy=remedy)
    remedy = "check its permissions, and that there is room"
    return WriteError(f"no folder can be made in it: {error.strerror}", path=above, remedy=remedy)


def mark_synced(fs: FileSystem, folder: AnyPath) -> None:
    """Says that the names of a folder and of those above it are on the disk. Where it cannot be written, it is not."""
    with contextlib.suppress(OSError):
        fs.open_append(_mark_of(fs, folder), create=True).close()


def is_synced(fs: FileSystem, folder: AnyPath) -> bool:
    """Whether somebody has said so."""
    try:
        fs.status(_mark_of(fs, folder))
    except OSError:
        return False
    return True


def _mark_of(fs: FileSystem, folder: AnyPath) -> str:
    return os.path.join(os.fspath(folder), f"{_MARK}{fs.status(folder).identity[1]}")
