"""Opens the file of a log for append, whatever it is when it is asked for: a sealed one is unsealed first.

Another process may seal the file between two looks at it. Then its path names nothing, or another file than the one
that was opened: it is looked for once more.
"""

from __future__ import annotations

from pathlib import Path

from rollout.errors import Locked, NotFound
from rollout.storage import sealing
from rollout.storage.durability import Durability
from rollout.storage.fs import AnyPath, FileSystem
from rollout.storage.holder import Holder
from rollout.storage.source import holds_record
from rollout.storage.writer import Writer


def open_writer(
    fs: FileSystem,
    path: Path,
    *,
    held_by: Holder,
    durability: Durability = Durability.TURN,
    root: AnyPath | None = None,
) -> Writer:
    """The writer of the plain file, as `Writer.open` gives it. NotFound, NotARollout, Locked, WriteError."""

    def attempt(path: Path) -> Writer:
        plain = sealing.unseal(fs, path, held_by=held_by)
        return Writer.open(fs, plain, held_by=held_by, holds_record=holds_record, durability=durability, root=root)

    try:
        return attempt(path)
    except (Locked, NotFound):
        now = sealing.standing(fs, path)
        if now == path:
            raise
        return attempt(now)
