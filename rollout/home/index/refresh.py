"""The index of a home, brought up to date as a whole, and how far it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rollout.files import layout as homes
from rollout.files.disk import FileSystem
from rollout.files.encrypted.keys import NO_KEYS, Keys
from rollout.home.index.fulltext import Texts
from rollout.home.index.index import Index, with_index
from rollout.home.index.status import IndexStatus

Progress = Callable[[int, int], None]


def refresh_index(
    home: Path,
    fs: FileSystem,
    *,
    keys: Keys = NO_KEYS,
    rebuild: bool = False,
    texts: bool = True,
    progress: Progress | None = None,
) -> IndexStatus:
    """Reads what is new in all files, with `texts` for a search too; `rebuild`: as if nothing was known."""

    def refresh(index: Index) -> IndexStatus:
        nonlocal rebuild
        begins_anew, rebuild = rebuild, False
        index.refresh(rebuild=begins_anew, progress=progress)
        if texts:
            Texts(index, fs).take(homes.scan(home, fs=fs))
        return index.status()

    return with_index(home, fs, refresh, keys)


def status_of_index(home: Path, fs: FileSystem, keys: Keys = NO_KEYS) -> IndexStatus:
    """What the index knows of the home; no rollout is opened."""
    return with_index(home, fs, Index.status, keys)
