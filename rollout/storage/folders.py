"""A directory made where one is needed, or why it cannot be."""

from __future__ import annotations

import os

from rollout.errors import WriteError
from rollout.storage.port import FileSystem


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
