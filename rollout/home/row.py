"""One row of a list: what a thread's files and its name tell of it."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
from pathlib import Path

from rollout.home.filters import read_time
from rollout.home.index.entry import Entry
from rollout.home.threads import Inventory, Thread


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
    return SessionRow(
        id=id,
        path=head.path,
        name=inventory.names.get(id),
        first_message=entry.first_message,
        cwd=entry.cwd,
        git_branch=entry.git_branch,
        model_provider=entry.model_provider,
        model=entry.model,
        source=entry.source,
        originator=entry.originator,
        created=in_utc(entry.created) or head.named_time,
        updated=_iso(entry.mtime_ns / 1e9),
        turns=entry.turns,
        messages=entry.messages,
        tokens=entry.tokens,
        bytes=sum(sizes),
        archived=head.archived,
        sealed=head.sealed,
        forked_from=entry.fork_of(id),
        parent=entry.parent,
        damaged=entry.damaged,
        session_ids=tuple(entry.session_ids),
        trouble=entry.trouble,
        files=len(sizes),
    )


def in_utc(text: str | None) -> str | None:
    """The time that a text tells, in UTC with milliseconds; None if it tells none."""
    moment = None if text is None else read_time(text)
    return None if moment is None else _written(moment)


def _iso(unix_s: float) -> str | None:
    """A time in UTC with milliseconds; None for one that no calendar holds."""
    try:
        return _written(datetime.datetime.fromtimestamp(unix_s, datetime.UTC))
    except (OverflowError, ValueError, OSError):
        return None


def _written(moment: datetime.datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
