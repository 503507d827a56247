"""The threads of a home, by the names of their files: no file is opened."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeAlias

from rollout.files import layout as homes
from rollout.files.disk import FileSystem
from rollout.files.layout import RolloutFile
from rollout.files.thread_names import read_names
from rollout.home.filters import Selection, Sort

Progress = Callable[[int, int], None]
"""Is told how many threads were looked at, and of how many."""
Key: TypeAlias = tuple[str, str, str] | tuple[int, str]
"""created: the time and the part in the file's name, then the id. updated: nanoseconds, then the id."""


@dataclasses.dataclass(frozen=True, slots=True)
class Skipped:
    """Something in the folders of a home that is not listed, and why not."""

    path: Path
    what: str


class Thread:
    """The `files` of a thread, newest first. It goes on in `head`, the newest of those that were asked for."""

    __slots__ = ("files", "head", "id", "order")

    def __init__(self, head: RolloutFile, files: Sequence[RolloutFile]) -> None:
        self.head, self.files = head, files
        self.id: str = head.thread
        self.order = head.order

    def key(self, sort: Sort, fs: FileSystem) -> Key:
        """What it is sorted by; no two threads have the same."""
        if sort == "created":
            return self.order
        try:
            return fs.status(self.head.file).mtime_ns, self.id
        except OSError:
            return 0, self.id


def threads_of(found: Iterable[RolloutFile], archived: bool | None) -> list[Thread]:
    """The threads with a file that is archived (or is not; None: either), in no order."""
    by_id: dict[str, list[RolloutFile]] = {}
    for named in found:
        files = by_id.get(named.parts.thread)
        if files is None:
            by_id[named.parts.thread] = [named]
        else:
            files.append(named)
    threads = []
    for files in by_id.values():
        if len(files) > 1:
            files.sort(key=lambda named: named.precedence, reverse=True)
        for named in files:
            if archived is None or archived == named.archived:
                threads.append(Thread(named, files))
                break
    return threads


class Home:
    """What a look at a home has found: its threads, their names, and what is odd. One look; nothing is opened yet."""

    def __init__(self, home: Path, fs: FileSystem) -> None:
        self.path, self.fs = home, fs
        self.notes: list[Skipped] = []
        self.files = list(homes.scan(home, lambda path, what: self.notes.append(Skipped(path, what)), fs=fs))
        self.names = read_names(home, fs)

    def threads(self, selection: Selection, after: Key | None = None) -> list[tuple[Key, Thread]]:
        """Those that may fit, as far as names tell: newest first, from behind the key `after` on."""
        keyed = [
            (thread.key(selection.sort, self.fs), thread)
            for thread in threads_of(self.files, selection.archived)
            if selection.name is None or selection.fits_name(self.names.get(thread.id))
        ]
        if after is not None:
            keyed = [pair for pair in keyed if _is_behind(pair[0], after)]
        keyed.sort(key=operator.itemgetter(0), reverse=True)
        return keyed


def _is_behind(key: Key, after: Key) -> bool:
    return tuple(key) < tuple(after)
