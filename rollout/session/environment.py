"""What a log asks of the world."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable
from pathlib import Path

from rollout import ids
from rollout.files.disk import REAL, FileSystem
from rollout.files.encrypted.keys import NO_KEYS, Keys


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
