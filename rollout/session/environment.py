"""What a log asks of the world."""

from __future__ import annotations

import dataclasses
import datetime
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from rollout import ids
from rollout.errors import UsageError
from rollout.files import layout as homes
from rollout.files.disk import REAL, FileSystem
from rollout.files.encrypted.keys import NO_KEYS, Keys

if TYPE_CHECKING:
    from rollout.files.source import Origin


@dataclasses.dataclass(frozen=True, slots=True)
class Ports:
    """What a log asks of the world: the home it lies in (None: none), files, the time (Unix seconds), randomness, keys.

    With `keys`, a file that is made is encrypted, and so is what is written to one that is, or has no record.
    """

    home: Path | None = None
    fs: FileSystem = REAL
    clock: Callable[[], float] = time.time
    randomness: Callable[[int], bytes] = os.urandom
    keys: Keys = NO_KEYS
    uuid: ids.Uuid7 = dataclasses.field(default_factory=ids.Uuid7)

    def new_id(self) -> str:
        """A UUID of version 7, unique over processes by its randomness."""
        return self.uuid.make(round(self.clock() * 1000), self.randomness(10))

    def timestamp(self) -> str:
        """Now, as lines have it."""
        from rollout.dialects.codex.encoder import timestamp

        return timestamp(self.clock())

    def origin(self, path: Path, size: int | None = None) -> Origin:
        """The first `size` bytes of a log, and its bases in its home."""
        from rollout.files.source import Origin

        home = self.home or homes.home_of(path) or homes.default_home()
        return Origin(None, path, home, size=size, fs=self.fs, keys=self.keys)

    def new_path(self, thread: str, *, beside: Path | None = None) -> Path:
        """Where a new log lies: in the home, by its day (UTC); `beside` another one that lies in none. UsageError."""
        now = datetime.datetime.fromtimestamp(self.clock(), datetime.UTC)
        name = ids.file_name(ids.ThreadId(thread), now)
        if self.home is not None:
            return homes.day_folder(self.home, f"{now:%Y-%m-%d}") / name
        if beside is None:
            raise UsageError("a new log needs a home", remedy="make it with Store(home).create()")
        return beside.parent / name
