"""Opens the file of a log for append, whatever it is when it is asked for: a sealed one is unsealed first.

Another process may seal the file between two looks at it. Then its path names nothing, or another file than the one
that was opened: it is looked for once more.
"""

from __future__ import annotations

from pathlib import Path

from rollout.errors import Locked, NotFound
from rollout.files.disk import AnyPath, FileSystem
from rollout.files.durability import Durability
from rollout.files.lineage import holds_record
from rollout.files.lock_note import Holder
from rollout.files.sealed import seal
from rollout.files.writer import Writer


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
        plain = seal.unseal(fs, path, held_by=held_by)
        return Writer.open(fs, plain, held_by=held_by, holds_record=holds_record, durability=durability, root=root)

    try:
        return attempt(path)
    except (Locked, NotFound):
        now = seal.standing(fs, path)
        if now == path:
            raise
        return attempt(now)
