"""Folders of which it is known that their names are on the disk, and those of all folders above them, up to the home.

Whoever finds a folder cannot see that: its maker may have died before his syncs. So each new file would cost the syncs
of all folders above its own. Who has synced them all once leaves a mark in the folder, an empty hidden file. It tells
the folder's number too, so that it says nothing in a copy of the folder; and a crash that takes the folder takes it.
"""

from __future__ import annotations

import contextlib
import os

from rollout.files.disk import AnyPath, FileSystem

_MARK = ".synced-"


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
