"""The threads of a home, by the names of their files: no file is opened."""

from __future__ import annotations

import dataclasses
import operator
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeAlias

from rollout.files import layout
from rollout.files.disk import FileSystem
from rollout.files.layout import RolloutFile
from rollout.files.thread_names import read_names
from rollout.home.filters import Selection, Sort

Progress = Callable[[int, int], None]
"""Is told how many threads were looked at, and of how many."""
Key: TypeAlias = tuple[str, str, str] | tuple[int, str]
"""created: the time and the part in the file's name, then the id. updated: nanoseconds, then the id."""

_LEAST_CHARACTERS = 8
_GROUP_ENDS = (8, 13, 18, 23)
"""Where the hyphens of a UUID stand: a beginning that ends there is easily read and picked up with the mouse."""


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


class Inventory:
    """What the folders of a home hold: its files, the names of threads, and `notes` of what is odd. Taken once."""

    def __init__(self, home: Path, fs: FileSystem) -> None:
        self.home, self.fs = home, fs
        self.notes: list[Skipped] = []
        self.files = list(layout.scan(home, lambda path, what: self.notes.append(Skipped(path, what)), fs=fs))
        self.names = read_names(home, fs)

    def threads(self, selection: Selection, after: Key | None = None) -> list[tuple[Key, Thread]]:
        """Those that may fit, as far as names tell: newest first, from behind the key `after` on."""
        keyed = [
            (thread.key(selection.sort, self.fs), thread)
            for thread in _threads_of(self.files, selection.archived)
            if selection.name is None or selection.fits_name(self.names.get(thread.id))
        ]
        if after is not None:
            keyed = [pair for pair in keyed if tuple(pair[0]) < tuple(after)]
        keyed.sort(key=operator.itemgetter(0), reverse=True)
        return keyed


def _threads_of(found: Iterable[RolloutFile], archived: bool | None) -> list[Thread]:
    """The threads with a file that is archived (or is not; None: either), in no order."""
    by_id: dict[str, list[RolloutFile]] = {}
    for file in found:
        files = by_id.get(file.parts.thread)
        if files is None:
            by_id[file.parts.thread] = [file]
        else:
            files.append(file)
    threads = []
    for files in by_id.values():
        if len(files) > 1:
            files.sort(key=lambda file: file.precedence, reverse=True)
        for file in files:
            if archived is None or archived == file.archived:
                threads.append(Thread(file, files))
                break
    return threads


def shorten(ids: Iterable[str], among: Iterable[str]) -> dict[str, str]:
    """For each of the ids, the shortest run of its groups that no other one `among` all begins with.

    One that is the beginning of another stays whole.
    """
    known = sorted(set(among))
    short: dict[str, str] = {}
    for each in ids:
        at = bisect_left(known, each)
        beside = [*known[max(at - 1, 0) : at], *(other for other in known[at : at + 2] if other != each)]
        needed = max([_LEAST_CHARACTERS, *(_shared(each, other) + 1 for other in beside)])
        short[each] = each[: next((end for end in _GROUP_ENDS if end >= needed), len(each))]
    return short


def _shared(one: str, other: str) -> int:
    """How many characters two ids have in common at their beginning."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
