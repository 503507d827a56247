"""One file that several writers append to, in one process or in many: each locks it for an operation, not for life.

What the others have written meanwhile is taken note of when the lock is got, and what a crash of one of them left at
the end is mended then as opening a log does. Syncs happen without the lock, and threads share them (see `writer`): who
builds on bytes of another that are not on the disk yet puts them there with his own.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator, Sequence

from rollout.limits import DEFAULT, KIB
from rollout.storage import recovery
from rollout.storage.decrypting import DecryptingSource, is_encrypted
from rollout.storage.durability import Durability
from rollout.storage.encrypted import Scribe
from rollout.storage.fs import AnyPath, AppendFile, FileSystem
from rollout.storage.plain import FileSource
from rollout.storage.writer import Writer, closing_on_error, explained, make_dirs, remove_rekeyed

_CHUNK_BYTES = 8 * KIB
"""Read at a time where the end is looked at, which is done whenever another one has written: mostly one line."""


class SharedWriter(Writer):
    """Made by `share`. `append` may only be called inside of `held`, `commit` at any time: that alone syncs."""

    def __init__(self, fs: FileSystem, path: str, file: AppendFile, dirs: list[str], durability: Durability) -> None:
        super().__init__(fs, path, file, dirs, durability)
        self._one_at_a_time = threading.RLock()
        self._holds_record: recovery.HoldsRecord = bool
        self._scribe: Scribe | None = None  # of an encrypted file, as long as nobody else writes
        self._is_plain = False  # and so for ever: an encrypted file is another one

    @classmethod
    def share(
        cls,
        fs: FileSystem,
        path: AnyPath,
        *,
        holds_record: recovery.HoldsRecord,
        root: AnyPath | None = None,
        is_named: bool = False,
    ) -> SharedWriter:
        """A file that is there; `is_named`: its name is on the disk, too. Nothing of it is changed yet.

        NotFound, NotARollout, WriteError.
        """
        name = os.fspath(path)
        with explained(name):
            file = fs.open_append(name)
        with closing_on_error(file):
            with explained(name):
                dirs = [] if is_named else make_dirs(fs, os.path.dirname(name) or ".", root=root)
            writer = cls(fs, name, file, dirs, Durability.NONE)
            writer._holds_record = holds_record
            writer._end = 0  # nothing of it was looked at
        return writer

    def append(self, lines: Sequence[bytes], *, expected_end: int | None = None, atomic: bool = False) -> int:
        """As `Writer.append`; where the file is encrypted the lines are, and numbered. NoKey, WrongKey."""
        scribe = self._scribe_at(self._end)
        if scribe is None:
            return super().append(lines, expected_end=expected_end, atomic=atomic)
        number = scribe.next
        try:
            marked = recovery.mark_batch(lines) if atomic else lines
            return super().append([scribe.line(line) for line in marked], expected_end=expected_end, atomic=atomic)
        except BaseException:
            scribe.next = number
            raise

    def _scribe_at(self, end: int) -> Scribe | None:
        """What encrypts lines that come behind byte `end`."""
        if self._scribe is None and end and not self._is_plain:
            source = FileSource(self._file)
            self._is_plain = not is_encrypted(source, DEFAULT.first_chunk_bytes)
            if not self._is_plain:
                text = DecryptingSource(source, self._fs, DEFAULT, self.path)
                cipher = text.check_key()
                text.read_at(end - 1, 1)
                self._scribe = Scribe(cipher, text.thread, text.last_number(None) + 1)
        return self._scribe

    @property
    def identity(self) -> tuple[int, int]:
        """Of the file, as the port says."""
        return self._file.identity

    @property
    def is_in_place(self) -> bool:
        """Whether the path still names this file."""
        try:
            return self._fs.status(self.path).identity == self._file.identity
        except OSError:
            return False

    @contextlib.contextmanager
    def held(self, timeout_s: float) -> Iterator[bool]:
        """The lock, waited for; whether the file has changed since this writer held it last.

        Locked if another holds it for longer, or if the path names another file by now; WriteError.
        """
        with self._one_at_a_time:
            self._check_usable()
            with explained(self.path):
                self._file.hold(timeout_s)
                try:
                    moved = self._catch_up()
                except BaseException:
                    self._file.release()
                    raise
            try:
                yield moved
            finally:
                if not self._closed:
                    self._file.release()

    def _catch_up(self) -> bool:
        if self._file.size() == self._end:
            return False
        self._scribe = None
        if self._end == 0:
            remove_rekeyed(self._fs, self.path)
        plan = recovery.inspect(self._file, self._holds_record, chunk_bytes=_CHUNK_BYTES)
        kept = recovery.apply(self._fs, self._file, self.path, plan)
        with self._changed:
            if plan.needed:
                self.recovered, self.kept = plan, kept
            self._end = self._file.size()
            self._durable_end = min(self._durable_end, self._end)
        return True
