"""Directories made where they are needed, or why they cannot be."""

from __future__ import annotations

import os

from rollout.errors import WriteError
from rollout.storage.port import AnyPath, FileSystem
from rollout.storage.synced import is_synced


def make_dirs(fs: FileSystem, path: AnyPath, *, root: AnyPath | None = None) -> list[str]:
    """Makes the directory `path` and those above it; the directories to sync, innermost first, for it to be durable.

    One that was there already may have been made by a process that died before its sync, so all from `path` up to
    `root` are named, unless `path` is known to be durable; without a root, up to the innermost one that was there.
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


def make_folder(fs: FileSystem, path: str) -> None:
    """One new directory, if it is not there. WriteError, by the name of what is in the way: it, or one above it."""
    try:
        fs.mkdir(path)
    except OSError as error:
        if not (isinstance(error, FileExistsError) and _is_folder(fs, path)):  # else another process was as fast
            raise _explain(fs, path, error) from error


def _is_folder(fs: FileSystem, path: str) -> bool:
    try:
        fs.names(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _explain(fs: FileSystem, path: str, error: OSError) -> WriteError:
    above = os.path.dirname(path)
    while not _is_folder(fs, above):
        path, above = above, os.path.dirname(above)
    for name, kind in fs.listed(above):
        if name == os.path.basename(path):
            what = "a link that leads to no folder" if kind == "link" else "no folder"
            remedy = "move it away, or give another home"
            return WriteError(f"is {what}, and a folder is needed there", path=path, remedy=remedy)
    remedy = "check its permissions, and that there is room"
    return WriteError(f"no folder can be made in it: {error.strerror}", path=above, remedy=remedy)
