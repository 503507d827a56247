"""A file whose path names another one by now, or none: where what was written to it lies.

A program that moves, replaces or unlinks a file that is open for append does not know of its lock. A file that was
moved is found where it is. One that no name leads to any more is gone when it is closed, so all its bytes go to a file
beside, `<path>.rescued-<n>`, durably; `rollout doctor` names it. The old name is left alone: whoever took it away had a
reason.
"""

from __future__ import annotations

import contextlib
import os

from rollout.dialects.codex import envelope
from rollout.errors import Displaced, RolloutError
from rollout.files.directories import make_dirs
from rollout.files.port import AppendFile, FileSystem
from rollout.format.lines import Source
from rollout.limits import DEFAULT, MIB

RESCUED = "rescued"
"""What the files beside are called, ahead of their number."""


def displaced(fs: FileSystem, file: AppendFile, path: str) -> Displaced:
    """The error that says where the lines of an open file lie; they are rescued if need be."""
    moved_to = file.whereabouts()
    if moved_to is not None:
        return _told(path, f"was moved to {moved_to}", moved_to)
    what = "was replaced by another file" if _is_there(fs, path) else "was removed"
    try:
        return _told(path, what, _rescue(fs, file, path))
    except (OSError, RolloutError) as error:
        why = error.strerror if isinstance(error, OSError) else error.message
        return _told(path, f"{what}, and its lines could not be rescued: {why}", None)


def stands_at_end(text: Source, line: bytes) -> bool:
    """Whether a line that was appended a moment ago stands in the text that took the file's place.

    Only its payload is looked for: it may have got a number, or have left its batch.
    """
    payload = bytes(envelope.payload_of(line)) if line else b""
    size = min(text.size, max(MIB, 2 * len(line)))
    return payload in text.read_at(text.size - size, size)


def _told(path: str, what: str, lines_at: str | None) -> Displaced:
    remedy = "make room for them, then commit or close again" if lines_at is None else f"open {lines_at}"
    where = "" if lines_at is None else f"; all lines that were acknowledged lie in {lines_at}"
    error = Displaced(f"{what} while it was open for append{where}", path=path, remedy=remedy)
    error.lines_at = lines_at
    return error


def _is_there(fs: FileSystem, path: str) -> bool:
    try:
        fs.status(path)
    except OSError:
        return False
    return True


def _rescue(fs: FileSystem, file: AppendFile, path: str) -> str:
    """A durable copy of the whole file beside its path; the path of that. OSError, RolloutError."""
    folder = os.path.dirname(path) or "."
    to_sync = make_dirs(fs, folder)  # the directory may be gone too
    name, beside = _made_beside(fs, path)
    with contextlib.closing(beside):
        try:
            at = 0
            while data := file.read_at(at, DEFAULT.chunk_bytes):
                at = beside.append(data)
            beside.sync()
        except BaseException:
            fs.unlink(name)
            raise
    for directory in to_sync:
        fs.sync_dir(directory)
    return name


def _made_beside(fs: FileSystem, path: str) -> tuple[str, AppendFile]:
    number = 1
    while True:
        name = f"{path}.{RESCUED}-{number}"
        try:
            return name, fs.open_append(name, create=True)
        except FileExistsError:
            number += 1
