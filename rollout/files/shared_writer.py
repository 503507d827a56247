"""One file that several writers append to, in one process or in many: each locks it for an operation, not for life.

What the others have written meanwhile is taken note of when the lock is got, and what a crash of one of them left at
the end is mended then as opening a log does. Syncs happen without the lock, and threads share them (see `writer`):
who builds on bytes of another that are not on the disk yet puts them there with his own.

What is noted along with lines (see `writer`) is None where others may have written since.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TypeVar

from rollout.files import recovery
from rollout.files.directories import make_dirs
from rollout.files.disk import AnyPath, FileSystem
from rollout.files.port import Durability, ReadFile, explained
from rollout.files.staging import remove_half_made
from rollout.files.writer import Writer
from rollout.limits import KIB

T = TypeVar("T")
_CHUNK_BYTES = 8 * KIB
"""Read at a time where the end is looked at, which is done whenever another one has written: mostly one line."""


class SharedWriter(Writer):
    """A file that is there; nothing of it is changed yet. `append` may only be called in `carry_out`.

    `is_named`: its name is on the disk, too.

    Raises:
        NotFound: It is not there.
        NotARollout: It is no file.
        WriteError: It cannot be opened, or its folder cannot be made.
    """

    def __init__(
        self,
        fs: FileSystem,
        path: AnyPath,
        *,
        holds_record: recovery.HoldsRecord,
        root: AnyPath | None = None,
        is_named: bool = False,
    ) -> None:
        name = os.fspath(path)
        with explained(name, "written"):
            file = fs.open_append(name)
            dirs = [] if is_named else make_dirs(fs, os.path.dirname(name) or ".", root=root)
        super().__init__(fs, name, file, dirs, Durability.NONE)
        self._known = 0, None  # nothing of it was looked at
        self._alone = threading.RLock()  # of the threads that share this writer
        self._holds_record = holds_record
        self.file: ReadFile = file
        """To read from."""

    def carry_out(self, work: Callable[[], T], timeout_s: float) -> T:
        """What `work` returns, called while nobody else writes, when the end is mended and known.

        The lock of the file is given back by one call into C, so that no interrupt can leave it taken; what one has
        left undone is found by the next call. `close` waits for it.

        Raises:
            Locked: another holds the lock for longer, or the path names another file by now.
            WriteError: the end cannot be mended, or an earlier write failed.
        """
        with self._alone:
            self.check_usable()
            try:
                with explained(self.path, "written"):
                    self._file.hold(timeout_s)
                    self._catch_up()
                found = work()
            finally:
                self._file.release()
        return found

    def close(self) -> None:
        """As `Writer.close`; an operation of another thread is waited for."""
        with self._alone:
            super().close()

    def _settle(self) -> None:
        """What was interrupted is looked for by the next `take`: others may have written since."""

    def _catch_up(self) -> None:
        if self._intent is None and self._file.size() == self._known[0]:
            return
        end = self._known[0]
        self._known = end, None
        self._intent = None
        if end == 0:
            remove_half_made(self._fs, self.path)
        plan = recovery.inspect(self._file, self._file.size(), self._holds_record, chunk_bytes=_CHUNK_BYTES)
        kept = recovery.apply(self._fs, self._file, self.path, plan)
        if plan.needed:
            self.recovered, self.kept = plan, kept
        end = self._file.size()
        self._durable_end = min(self._durable_end, end)
        self._known = end, None
