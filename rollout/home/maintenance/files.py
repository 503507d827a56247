"""The rollout files that an upkeep goes over one by one, and those around them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from rollout import ids
from rollout.files import layout as homes
from rollout.files.disk import FileSystem

Progress = Callable[[int, int], None]
"""Bytes done, bytes in all."""


class Places:
    """The rollout files of a home and of some folders, by thread, as they were when this was made.

    A folder that is not there has none.
    """

    def __init__(self, fs: FileSystem, home: Path | None, folders: set[Path]) -> None:
        found = {entry.path.absolute() for entry in homes.scan(home, fs=fs)} if home is not None else set()
        for folder in folders:
            try:
                names = set(fs.names(folder))
            except (FileNotFoundError, NotADirectoryError):
                continue
            own = {name for name in names if ids.parse_file_name(name)}
            found |= {folder.absolute() / name for name in own if name.removesuffix(".zst") not in names - {name}}
        self.all = sorted(found, key=_by_creation)
        """Oldest first."""
        self._threads: dict[str, list[Path]] = {}
        for path in self.all:
            if parts := ids.parse_file_name(path.name):
                self._threads.setdefault(parts.thread, []).append(path)

    def of(self, thread: str) -> list[Path]:
        """The files of a thread, newest first."""
        return self._threads.get(thread, [])[::-1]


def _by_creation(path: Path) -> tuple[str, str]:
    return path.name, str(path.parent)


def choose(fs: FileSystem, home: Path, paths: Sequence[Path] | None) -> tuple[Places, dict[Path, int]]:
    """The files at `paths` (None: all of the home), oldest first, each with its bytes on the disk.

    Behind them those whose names are no rollouts', or that are not there. The places are of their folders too.
    """
    wanted = None if paths is None else {path.absolute() for path in paths}
    places = Places(fs, home, {path.parent for path in wanted or ()})
    chosen = [path for path in places.all if wanted is None or path in wanted]
    chosen += sorted((wanted or set()) - set(chosen))
    return places, {path: disk_bytes(fs, path) for path in chosen}


def disk_bytes(fs: FileSystem, path: Path) -> int:
    """The size of a file; 0 if the system does not tell."""
    try:
        return fs.status(path).size
    except OSError:
        return 0


def one_by_one(files: Mapping[Path, int], progress: Progress | None) -> Iterator[Path]:
    """The files, of so many bytes each; `progress` is called behind each."""
    done, total = 0, sum(files.values())
    for path, size in files.items():
        yield path
        done += size
        if progress is not None:
            progress(done, total)
