"""A home whose reads are counted, and the index of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from rollout.files import layout as homes
from rollout.files.disk import RealFileSystem
from rollout.files.port import AnyPath, ReadFile
from rollout.home.index.entry import Entry
from rollout.home.index.index import Index, with_index
from rollout.home.index.scan import scan
from tests import builders as b

LATER_S = 10.0

T = TypeVar("T")


class Watched(RealFileSystem):
    """The real file system, counting what is opened and read of rollouts."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[str] = []
        self.bytes_read = 0

    def open_read(self, path: AnyPath) -> ReadFile:
        self.opened.append(Path(path).name)
        return _Counted(super().open_read(path), self)


class _Counted:
    def __init__(self, file: ReadFile, fs: Watched) -> None:
        self._file, self._fs = file, fs
        self.identity, self.size, self.data_start, self.close = file.identity, file.size, file.data_start, file.close

    def read_at(self, offset: int, n: int) -> bytes:
        found = self._file.read_at(offset, n)
        self._fs.bytes_read += len(found)
        return found


class Home:
    """A home under test; its clock is ten seconds ahead, so that files are settled unless a test wants otherwise."""

    def __init__(self, path: Path) -> None:
        self.path, self.fs = path, Watched()
        self.ahead_s = LATER_S

    def clock(self) -> float:
        return time.time() + self.ahead_s

    def open(self) -> Index:
        return Index(self.path, self.fs, clock=self.clock)

    def using(self, work: Callable[[Index], T]) -> T:
        """Does some work with the index, whatever became of its file."""
        return with_index(self.path, self.fs, work, clock=self.clock)

    def add(self, n: int, *lines: bytes, folder: str = "sessions/2026/03/20", meta: bytes | None = None) -> Path:
        thread = f"019d0000-0000-7000-8000-{n:012d}"
        path = self.path / folder / f"rollout-2026-03-20T10-00-{n % 60:02d}-{thread}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b.log(meta or b.session_meta(thread), *lines))
        return path

    def digests(self) -> dict[str, Entry]:
        """What the index says of every file, by its name: the same as a look at it does."""
        found = self.using(self.digests_in)
        for file in homes.scan(self.path):
            assert found[file.name] == said(scan(file.path, self.path).entry)
        self.fs.opened.clear()
        return found

    def digests_in(self, index: Index) -> dict[str, Entry]:
        """What an index says of every file."""
        return {file.name: said(entry) for file, entry in index.entries(homes.scan(self.path))}

    def opened_by_list(self) -> list[str]:
        """Which files a list opens."""
        self.fs.opened.clear()
        self.fs.bytes_read = 0
        self.using(self.digests_in)
        return list(self.fs.opened)


def said(entry: Entry) -> Entry:
    """What an entry says of its file, without what the index notes beside it."""
    return msgspec.structs.replace(entry, mtime_ns=0, scanned_ns=0, id=0, bases_print=b"")


def turn(n: int, text: str = "q") -> bytes:
    lines = (b.started(f"t{n}"), b.context(f"t{n}"), b.user(f"{text}{n}"), b.assistant(f"a{n}"), b.completed(f"t{n}"))
    return b.log(*lines)


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)
