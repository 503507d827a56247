"""A log that several processes write: the recorder of every log, over a file that is locked for an operation alone.

One that was moved, sealed or replaced meanwhile is found again, and unsealed before it is written to. What may have
been written is never written again. Nothing of what is written here belongs to a turn: a turn that a crash has left
open is closed by who opens the log for himself, as it may take a look at the whole file to find it.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from rollout.errors import Displaced, Locked, NotFound, Poisoned, SourceError
from rollout.files.displaced import stands_at_end
from rollout.files.encrypted.reader import encryption_behind, text_of
from rollout.files.lineage import holds_record, open_path
from rollout.files.log_end import newest_ordinal
from rollout.files.plain import FileSource
from rollout.files.sealed import seal
from rollout.files.shared_writer import SharedWriter
from rollout.files.writer import holder
from rollout.format.labels import Label
from rollout.session.environment import Ports
from rollout.session.recorder import Recorder, Standing

T = TypeVar("T")
_TRIES = 3
"""So often a log is looked for that is not where it was, or a writer is made anew that has failed before."""
_PAUSE_S = 0.01


class SharedRecorder(Recorder):
    """A recorder that looks into the file where others may have written since."""

    def __init__(self, writer: SharedWriter, ports: Ports, label: Label) -> None:
        super().__init__(writer, ports, label)
        self.shared = writer
        self.path = Path(writer.path)
        self._has_numbers: bool | None = None  # once that is known, for ever: an encrypted file is another one

    def _look_up(self) -> Standing:
        newest = None
        if self._has_numbers is not False:
            source = text_of(FileSource(self.shared.file), self.ports.keys, path=self.path)
            if (found := encryption_behind(source, self.ports.keys, self.path)) is not None:
                self._cipher, newest = found
            else:
                newest = newest_ordinal(source)
            self._has_numbers = newest is not None
        standing = Standing(newest)
        self.writer.note(standing)
        return standing


class SharedLog:
    """One rollout. `find()` gives its path now, sealed or not (NotFound); it is asked again when that is no more.

    `made` is its own path if it has just been made there, and its name is on the disk. Safe to use from several
    threads.
    """

    def __init__(
        self, find: Callable[[], Path], ports: Ports, label: Label, lock_timeout_s: float, made: Path | None = None
    ) -> None:
        self.find, self._made = find, made
        self.ports, self._label, self._lock_timeout_s = ports, label, lock_timeout_s
        self._guard = threading.RLock()  # of the recorder
        self._recorder: SharedRecorder | None = None

    def read(self, look: Callable[[Path], T]) -> T:
        """What `look` makes of the file, where it is now; called again if it has moved meanwhile. No lock is taken.

        Raises:
            NotFound: It was deleted.
        """
        recorder = self._recorder
        if recorder is not None:
            try:
                return look(recorder.path)
            except NotFound:
                self._drop(recorder)
        try:
            return look(self.find())
        except NotFound:  # moved between the two
            return look(self.find())

    def carry_out(self, work: Callable[[SharedRecorder], T]) -> T:
        """What `work` returns, done while nobody else writes; what it appends is on the disk then.

        It is tried again only if it wrote nothing.

        Raises:
            NotFound: It was deleted.
            SourceError: It cannot be read.
            Locked: Another program holds it for longer than the lock timeout.
            WriteError: The disk refuses.
        """
        deadline = time.monotonic() + self._lock_timeout_s
        tries = 0
        while True:
            tries += 1
            recorder, has_begun = None, False

            def operate(recorder: SharedRecorder) -> tuple[T, bool]:
                nonlocal has_begun
                has_begun = True
                end = recorder.writer.end
                found = work(recorder)
                return found, recorder.writer.end != end

            try:
                recorder = self._opened()
                seconds_left = max(0.0, deadline - time.monotonic())
                operation = functools.partial(operate, recorder)
                found, has_written = recorder.shared.carry_out(operation, seconds_left)
                if has_written:
                    recorder.writer.commit()
                return found
            except (Poisoned, Displaced, Locked, NotFound) as error:
                if has_begun or time.monotonic() >= deadline or not _helps_to_try_again(error, recorder, tries):
                    raise
                self._drop(recorder)
            if recorder is None:
                time.sleep(_PAUSE_S)  # for who seals or unseals it

    def close(self) -> None:
        """Lets go of the file. When no other call is under way."""
        with self._guard:
            if self._recorder is not None:
                self._recorder.writer.close()
            self._recorder = None

    def _opened(self) -> SharedRecorder:
        with self._guard:
            recorder = self._recorder
            if recorder is None:
                fs, path = self.ports.fs, self.find()
                if path.suffix == ".zst":
                    path = seal.unseal(fs, path, held_by=holder(self.ports.timestamp()))
                writer = SharedWriter(
                    fs, path, holds_record=holds_record, root=self.ports.home, is_named=path == self._made
                )
                self._made = None
                self._recorder = recorder = SharedRecorder(writer, self.ports, self._label)
                writer.carried_over = functools.partial(self._is_carried_over, recorder)
        return recorder

    def _is_carried_over(self, recorder: SharedRecorder) -> bool:
        """Whether what was written last stands in the file that the log is now: sealed, say, or written anew."""
        try:
            with closing(open_path(self.find(), fs=self.ports.fs, keys=self.ports.keys)) as opened:
                return stands_at_end(opened.source, recorder.newest_line)
        except (SourceError, OSError):
            return False

    def _drop(self, recorder: SharedRecorder | None) -> None:
        """The next call looks for the file again; the last thread that uses the old one closes it."""
        with self._guard:
            if self._recorder is recorder:
                self._recorder = None


def _helps_to_try_again(error: Exception, recorder: SharedRecorder | None, tries: int) -> bool:
    """Whether what has failed before it wrote anything has another outcome where the file is looked for anew."""
    if isinstance(error, Locked):
        return recorder is None or not recorder.writer.is_in_place  # else another writer holds it, and was waited for
    return tries < _TRIES
