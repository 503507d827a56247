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
from rollout.files.staging import keep_beside
from rollout.format.lines import Source
from rollout.limits import MIB

RESCUED = "rescued"
"""What the files beside are called, ahead of their number."""


def displaced(fs: FileSystem, file: AppendFile, path: str) -> Displaced:
    """The error that says where the lines of an open file lie; they are rescued if need be."""
    lines_at = file.whereabouts()
    what = "was removed" if lines_at is None else f"was moved to {lines_at}"
    if lines_at is None:
        with contextlib.suppress(OSError):
            fs.status(path)
            what = "was replaced by another file"
        try:
            make_dirs(fs, os.path.dirname(path) or ".")  # the directory may be gone too
            lines_at = keep_beside(fs, path, RESCUED, file, 0, file.size())
        except (OSError, RolloutError) as error:
            why = error.strerror if isinstance(error, OSError) else error.message
            what += f", and its lines could not be rescued: {why}"
    remedy = "make room for them, then commit or close again" if lines_at is None else f"open {lines_at}"
    where = "" if lines_at is None else f"; all lines that were acknowledged lie in {lines_at}"
    found = Displaced(f"{what} while it was open for append{where}", path=path, remedy=remedy)
    found.lines_at = lines_at
    return found


def stands_at_end(text: Source, line: bytes) -> bool:
    """Whether a line that was appended a moment ago stands in the text that took the file's place.

    Only its payload is looked for: it may have got a number, or have left its batch.
    """
    payload = bytes(envelope.payload_of(line)) if line else b""
    size = min(text.size, max(MIB, 2 * len(line)))
    return payload in text.read_at(text.size - size, size)
