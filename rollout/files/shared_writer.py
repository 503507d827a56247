"""One file that several writers append to, in one process or in many: each locks it for an operation, not for life.

What the others have written meanwhile is taken note of when the lock is got, and what a crash of one of them left at
the end is mended then as opening a log does. Syncs happen without the lock, and threads share them (see `appending`):
who builds on bytes of another that are not on the disk yet puts them there with his own.

An operation has this shape, which nothing can tear: the lock of the file is given back by one call into C, and what an
interrupt has left undone is found by the next one.

    with writer.alone:
        writer.check_usable()
        try:
            moved = writer.take(timeout_s)
            …
        finally:
            writer.give_back()
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence

from rollout.files import recovery
from rollout.files.appender import UNCHANGED, Appender
from rollout.files.directories import make_dirs
from rollout.files.disk import AnyPath, AppendFile, FileSystem
from rollout.files.encrypted.keys import NO_KEYS, Keys
from rollout.files.encrypted.lines import LineCipher
from rollout.files.encrypted.scribes import encryption_behind
from rollout.files.port import Durability
from rollout.files.staging import remove_half_made
from rollout.files.writer import closing_on_error, explained
from rollout.limits import KIB

_CHUNK_BYTES = 8 * KIB
"""Read at a time where the end is looked at, which is done whenever another one has written: mostly one line."""


class SharedWriter(Appender):
    """Made by `share`. `append` may only be called between `take` and `give_back`, `commit` at any time."""

    def __init__(self, fs: FileSystem, path: str, file: AppendFile, dirs: list[str], durability: Durability) -> None:
        super().__init__(fs, path, file, dirs, durability)
        self.alone = threading.RLock()
        """Of the threads that share this writer."""
        self.give_back = file.release
        """Gives back what `take` took, or nothing."""
        self._holds_record: recovery.HoldsRecord = bool
        self._keys = NO_KEYS
        self._cipher: LineCipher | None = None  # of an encrypted file; the number of its next line is what is noted
        self._is_plain = False  # once something was written to it, for ever: an encrypted file is another one
        self._carried_over: Callable[[bytes], bool] | None = None
        self._newest = b""

    @classmethod
    def share(
        cls,
        fs: FileSystem,
        path: AnyPath,
        *,
        holds_record: recovery.HoldsRecord,
        keys: Keys = NO_KEYS,
        root: AnyPath | None = None,
        is_named: bool = False,
        is_rollout: bool = True,
        carried_over: Callable[[bytes], bool] | None = None,
    ) -> SharedWriter:
        """A file that is there; `is_named`: its name is on the disk, too. Nothing of it is changed yet.

        What is no rollout is never encrypted.
        Maintenance (sealing, say) puts another file in its place, under the lock, with all its lines. It is not held in
        a sync: `carried_over` tells then whether the newest line stands in the file that the log is by now.
        NotFound, NotARollout, WriteError.
        """
        name = os.fspath(path)
        with explained(name):
            file = fs.open_append(name)
        with closing_on_error(file):
            with explained(name):
                dirs = [] if is_named else make_dirs(fs, os.path.dirname(name) or ".", root=root)
            writer = cls(fs, name, file, dirs, Durability.NONE)
            writer._holds_record, writer._keys, writer._carried_over = holds_record, keys, carried_over
            writer._is_plain = not is_rollout
            writer._known = 0, None  # nothing of it was looked at
        return writer

    def append(
        self,
        lines: Sequence[bytes],
        *,
        expected_end: int | None = None,
        atomic: bool = False,
        noted: object = UNCHANGED,
    ) -> int:
        """As `Appender.append`; where the file is encrypted the lines are, and numbered. NoKey, WrongKey.

        What is noted is always the number of the next line, None as long as that is not known.
        """
        self._newest = lines[-1] if lines else self._newest
        cipher, number = self._cipher_at(self._known[0])
        if cipher is not None:
            lines = cipher.lines(recovery.mark_batch(lines) if atomic else lines, number)
            noted = number + len(lines)
        return super().append(lines, expected_end=expected_end, atomic=atomic, noted=noted)

    def _cipher_at(self, end: int) -> tuple[LineCipher | None, int]:
        """What encrypts lines that come behind byte `end`, and the number of the first one."""
        number = self._known[1]
        if number is None and not self._is_plain:
            found = encryption_behind(self._file, self._keys, self.path)
            self._is_plain = found is None
            if found is not None:
                self._cipher, number = found
                self._known = end, number
        return (self._cipher, number) if isinstance(number, int) else (None, 0)

    @property
    def identity(self) -> tuple[int, int]:
        """Of the file, as the port says."""
        return self._file.identity

    def take(self, timeout_s: float) -> bool:
        """Takes the file's lock, waiting for it; whether the file has changed since this writer held it last.

        Locked if another holds it for longer, or if the path names another file by now; WriteError.
        """
        with explained(self.path):
            self._file.hold(timeout_s)
            return self._catch_up()

    def close(self) -> None:
        """As `Appender.close`; an operation of another thread is waited for."""
        with self.alone:
            super().close()

    def _is_carried_over(self) -> bool:
        return self._carried_over is not None and self._carried_over(self._newest)

    def _settle(self) -> None:
        """What was interrupted is looked for by the next `take`: others may have written since."""

    def _catch_up(self) -> bool:
        if self._intent is None and self._file.size() == self._known[0]:
            return False
        end = self._known[0]
        self._known = end, None
        self._intent = None
        if end == 0:
            remove_half_made(self._fs, self.path)
        plan = recovery.inspect(self._file, self._holds_record, chunk_bytes=_CHUNK_BYTES)
        kept = recovery.apply(self._fs, self._file, self.path, plan)
        if plan.needed:
            self.recovered, self.kept = plan, kept
        end = self._file.size()
        self._durable_end = min(self._durable_end, end)
        self._known = end, None
        return True
