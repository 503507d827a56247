"""One row of a list: what a thread's files and its name tell of it."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal, TypeAlias

from rollout.catalog.digest import Digest
from rollout.storage.fs import FileSystem
from rollout.storage.home import Entry, Named
from rollout.storage.port import Status

Sort = Literal["created", "updated"]
Key: TypeAlias = tuple[str, str, str] | tuple[int, str]
"""created: the time and the part in the file's name, then the id. updated: nanoseconds, then the id."""


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
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


class Thread:
    """The files of a thread, by their names. It goes on in `head`, the newest of those that were asked for."""

    __slots__ = ("_entries", "_files", "_head", "id", "order")

    def __init__(self, head: Named, files: list[Named]) -> None:
        self._head, self._files = head, files
        self._entries: tuple[Entry, ...] | None = None
        self.id: str = head.parts.thread
        self.order = head.order

    @property
    def head(self) -> Entry:
        """The file that it goes on in."""
        return self._head.entry

    @property
    def files(self) -> tuple[Entry, ...]:
        """All of them, newest first."""
        if self._entries is None:
            self._entries = tuple(named.entry for named in self._files)
        return self._entries

    def key(self, sort: Sort, fs: FileSystem) -> Key:
        """What it is sorted by; no two threads have the same."""
        if sort == "created":
            return self.order
        status = _status(self.head.path, fs)
        return 0 if status is None else status.mtime_ns, self.id


def threads_of(found: Iterable[Named], archived: bool | None) -> list[Thread]:
    """The threads with a file that is archived (or is not; None: either), in no order."""
    by_id: dict[str, list[Named]] = {}
    for named in found:
        files = by_id.get(named.parts.thread)
        if files is None:
            by_id[named.parts.thread] = [named]
        else:
            files.append(named)
    threads = []
    for files in by_id.values():
        if len(files) > 1:
            files.sort(key=lambda named: (named.order, not named.archived), reverse=True)
        for named in files:
            if archived is None or archived == named.archived:
                threads.append(Thread(named, files))
                break
    return threads


def _status(path: Path, fs: FileSystem) -> Status | None:
    try:
        return fs.status(path)
    except OSError:
        return None


def row_of(
    head: Entry, others: Iterable[Entry], digest: Digest, mtime: float, names: Mapping[str, str], fs: FileSystem
) -> Row:
    """The row of a thread that goes on in `head` and has other files; `digest` and `mtime` (Unix s) are the head's."""
    id = str(head.thread)
    sizes = [status.size for other in others if (status := _status(other.path, fs)) is not None]
    base = digest.base_thread if digest.base_thread != id else None
    return Row(
        id=id,
        path=head.path,
        name=names.get(id),
        first_message=digest.first_message,
        cwd=digest.cwd,
        git_branch=digest.git_branch,
        model_provider=digest.model_provider,
        model=digest.model,
        source=digest.source,
        originator=digest.originator,
        created=_in_utc(digest.created) or named_time(head),
        updated=iso(mtime),
        turns=digest.turns,
        messages=digest.messages,
        tokens=digest.tokens,
        bytes=digest.bytes + sum(sizes),
        archived=head.archived,
        sealed=head.sealed,
        forked_from=(digest.forked_from if digest.forked_from != id else None) or base,
        parent=digest.parent,
        damaged=digest.damaged,
        session_ids=tuple(digest.session_ids),
        trouble=digest.trouble,
        files=1 + len(sizes),
    )


def named_time(entry: Entry) -> str:
    """The time in a file's name, as if it were UTC."""
    day, _, clock = entry.time.partition("T")
    return f"{day}T{clock.replace('-', ':')}.000Z"


def iso(unix_s: float) -> str | None:
    """A time in UTC with milliseconds; None for one that no calendar holds."""
    try:
        return _written(datetime.datetime.fromtimestamp(unix_s, datetime.UTC))
    except (OverflowError, ValueError, OSError):
        return None


def read_time(text: str) -> datetime.datetime | None:
    """The time that an ISO text tells, in UTC (which is meant where it does not say)."""
    try:
        found = datetime.datetime.fromisoformat(text.strip())
        return (found if found.tzinfo else found.replace(tzinfo=datetime.UTC)).astimezone(datetime.UTC)
    except (ValueError, OverflowError):
        return None


def _in_utc(text: str | None) -> str | None:
    moment = None if text is None else read_time(text)
    return None if moment is None else _written(moment)


def _written(moment: datetime.datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
