"""One row of a list: what a thread's files and its name tell of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path

from rollout.files.disk import FileSystem
from rollout.files.layout import RolloutFile
from rollout.home.index.entry_summary import Digest
from rollout.home.times import in_utc, iso, named_time


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


def row_of(
    head: RolloutFile,
    others: Iterable[RolloutFile],
    digest: Digest,
    mtime: float,
    names: Mapping[str, str],
    fs: FileSystem,
) -> SessionRow:
    """The row of a thread that goes on in `head` and has other files; `digest` and `mtime` (Unix s) are the head's."""
    id = str(head.thread)
    sizes = [size for other in others if (size := _size(other.path, fs)) is not None]
    base = digest.base_thread if digest.base_thread != id else None
    return SessionRow(
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
        created=in_utc(digest.created) or named_time(head),
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


def _size(path: Path, fs: FileSystem) -> int | None:
    try:
        return fs.status(path).size
    except OSError:
        return None
