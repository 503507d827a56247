"""How much of a home its index knows."""

from __future__ import annotations

import dataclasses
from pathlib import Path


@dataclasses.dataclass(frozen=True, slots=True)
class IndexStatus:
    """`entries` rollouts are known, of `files` in the home; `stale` are to be read (again), which is `stale_bytes`.

    `path` is None where the index is in memory; `bytes` is what its files take on the disk.
    """

    path: Path | None
    entries: int
    files: int
    stale: int
    stale_bytes: int
    bytes: int
