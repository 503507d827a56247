"""The threads of a home, by the names of their files (no file is opened), and the row of each in a list."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import operator
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from rollout.files import layout
from rollout.files.disk import FileSystem
from rollout.files.layout import RolloutFile
from rollout.files.thread_names import read_names
from rollout.home.filters import Selection, Sort, read_time
from rollout.home.index.entry import Entry

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
            if selection.fits_name(self.names.get(thread.id))
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


@dataclasses.dataclass(frozen=True, slots=True)
class SessionRow:
    """A thread. What its files do not tell is None; `turns`, `messages` and `tokens` are those of the whole lineage.

    `created` and `updated` are ISO texts in UTC: what the session_meta says (else the name of the file), and when the
    file was last written. `source` is cli, exec, vscode, mcp, subagent, …; `turns` are those that stand, `messages`
    the user's and the assistant's in the history, `tokens` the total. `bytes` is what all `files` of the thread take on
    the disk; `damaged` counts lines. `trouble` says why there is nothing more to tell.
    """

    id: str
    path: Path
    name: str | None
    first_message: str | None
    cwd: str | None
    git_branch: str | None
    model_provider: str | None
    model: str | None
    source: str | None
    originator: str | None
    created: str | None
    updated: str | None
    turns: int
    messages: int
    tokens: int | None
    bytes: int
    archived: bool
    sealed: bool
    forked_from: str | None
    parent: str | None
    damaged: int
    session_ids: tuple[str, ...]
    trouble: str | None
    files: int

    @property
    def is_subagent(self) -> bool:
        """Another agent's thread started it."""
        return self.parent is not None or self.source == "subagent"

    @property
    def is_fork(self) -> bool:
        """It goes on from a point of another thread."""
        return self.forked_from is not None


def row_of(thread: Thread, entry: Entry, inventory: Inventory) -> SessionRow:
    """The row of a thread; `entry` is that of its head."""
    head, id, sizes = thread.head, str(thread.id), [entry.size]
    for file in thread.files:
        if file is not head:
            with contextlib.suppress(OSError):
                sizes.append(inventory.fs.status(file.path).size)
    created = None if entry.created is None else read_time(entry.created)
    told: dict[str, Any] = {name: getattr(entry, name) for name in _TOLD}
    return SessionRow(
        **told,
        id=id,
        path=head.path,
        name=inventory.names.get(id),
        created=head.named_time if created is None else _written(created),
        updated=_moment_of(entry.mtime_ns / 1e9),
        bytes=sum(sizes),
        archived=head.archived,
        sealed=head.sealed,
        forked_from=entry.fork_of(id),
        files=len(sizes),
    )


def _moment_of(unix_s: float) -> str | None:
    """A time in UTC with milliseconds; None for one that no calendar holds."""
    try:
        return _written(datetime.datetime.fromtimestamp(unix_s, datetime.UTC))
    except (OverflowError, ValueError, OSError):
        return None


def _written(moment: datetime.datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


_OWN = ("id", "created", "forked_from")
_TOLD = [name for name in SessionRow.__slots__ if name in Entry.__struct_fields__ and name not in _OWN]
"""What a row has from the entry as it stands there."""
