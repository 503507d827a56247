"""What a reference names: a path, bytes, a thread id, a position; and how it is opened, again and again.

A state that was read can be asked for more later (its turns, say): that reads the same bytes again, up to where the
file ended the first time.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

from rollout.errors import NotFound, UsageError
from rollout.limits import DEFAULT, Limits
from rollout.storage import home as homes
from rollout.storage.cipher import Cipher
from rollout.storage.fs import REAL, FileSystem
from rollout.storage.keyed import with_keys
from rollout.storage.names import read_names
from rollout.storage.sealed import twin
from rollout.storage.source import Lineage, open_bytes, open_path

_PATH_CHARACTERS = 4096  # no longer path is shown
AnySource: TypeAlias = "str | os.PathLike[str] | bytes | bytearray | memoryview | int"
"""A path, bytes-like data, a thread id, the beginning or name of one, or -1, -2, … for the newest of the home."""


@dataclasses.dataclass(frozen=True, slots=True)
class Origin:
    """A rollout that can be opened: `data`, or the file at `path`, of which the first `size` text bytes count."""

    data: bytes | bytearray | memoryview | None
    path: Path | None
    home: Path | None
    limits: Limits = DEFAULT
    size: int | None = None
    fs: FileSystem = REAL

    @contextlib.contextmanager
    def opened(self) -> Iterator[Lineage]:
        """The lineage, its newest file open; all files are closed behind it. SourceError."""
        if self.path is None:
            first = open_bytes(self.data or b"", fs=self.fs, limits=self.limits)
        else:
            first = open_path(self.path, fs=self.fs, limits=self.limits)
        lineage = Lineage(first, home=self.home, fs=self.fs, limits=self.limits, end=self.size)
        try:
            yield lineage
        finally:
            lineage.close()


def find(
    source: AnySource,
    home: str | os.PathLike[str] | None = None,
    limits: Limits = DEFAULT,
    cipher: Cipher | None = None,
) -> Origin:
    """What `source` names. NotFound, Ambiguous, UsageError; the file itself is not opened yet."""
    base, fs = None if home is None else Path(home).expanduser(), with_keys(REAL, cipher)
    if isinstance(source, bytes | bytearray | memoryview):
        return Origin(source, None, base, limits, fs=fs)
    path = locate(source, base)
    return Origin(None, path, base or homes.home_of(path) or homes.default_home(), limits, fs=fs)


def locate(source: str | os.PathLike[str] | int, home: Path | None = None, *, fs: FileSystem = REAL) -> Path:
    """The path that a reference names. A file of that name counts before an id, an id before a thread's name.

    Of a file whose sealed or plain twin alone is there, it is that. What looks like a path is one, or exactly the name
    of a thread. NotFound, Ambiguous, UsageError.
    """
    if isinstance(source, bool) or not isinstance(source, str | os.PathLike | int):
        raise UsageError(f"not a rollout: {type(source).__name__}", remedy="give a path, bytes, a thread id or -1")
    text = str(source) if isinstance(source, int) else os.fspath(source)
    if not text or "\0" in text:
        raise UsageError("an empty path, or one with a NUL", remedy="give a path, a thread id or -1")
    if (sealed := twin(Path(text))) is not None and os.path.lexists(sealed) and not os.path.lexists(text):
        return sealed
    if isinstance(source, os.PathLike) or os.path.lexists(text):
        return Path(text)
    base = home or homes.default_home()
    if (os.sep in text or text.endswith((".jsonl", ".zst"))) and text not in read_names(base, fs).values():
        raise NotFound("no such file", path=text[:_PATH_CHARACTERS], remedy="check the path, or give a thread id or -1")
    return homes.resolve(base, text, fs=fs)
