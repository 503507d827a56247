"""Which files continue a file: forks that refer to it, and reverts of its own thread.

A file says so itself, at its beginning (`history_base`); so all of them are looked at: those of the home, and those
beside the file.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path

from rollout import ids
from rollout.errors import SourceError
from rollout.limits import DEFAULT, Limits
from rollout.storage import home as homes
from rollout.storage.fs import REAL, FileSystem
from rollout.storage.source import Lineage, open_path


@dataclasses.dataclass(frozen=True, slots=True)
class Dependent:
    """A file that names a thread as its base's, `end` bytes of it (None: it does not tell).

    `base` is the identity of the file that a reader finds by that, None if it finds none.
    """

    path: Path
    end: int | None
    base: tuple[int, int] | None


def dependents(
    thread: str, home: Path | None, folders: Iterable[Path] = (), *, fs: FileSystem = REAL, limits: Limits = DEFAULT
) -> Iterator[Dependent]:
    """The rollouts of a home and of some folders that name that thread as their base's, by path.

    Those that cannot be read are passed over.
    """
    found = {entry.path.absolute() for entry in homes.scan(home, fs=fs)} if home is not None else set()
    for folder in folders:
        listed = fs.listed(folder.absolute())
        found |= {folder.absolute() / name for name, kind in listed if kind == "file" and ids.parse_file_name(name)}
    for path in sorted(found):
        with contextlib.suppress(OSError, SourceError), contextlib.ExitStack() as closing:
            child = open_path(path, fs=fs, limits=limits)
            lineage = Lineage(child, home=home, fs=fs, limits=limits, end=0)  # its own lines do not count
            closing.callback(lineage.close)
            base = (child.session or {}).get("history_base")
            if not isinstance(base, dict) or base.get("thread_id") != thread:
                continue
            end = base.get("end_byte_offset")
            has_base = len(list(itertools.islice(lineage, 2))) == 2
            file = lineage.opened[1].file if has_base else None
            yield Dependent(path, end if isinstance(end, int) else None, None if file is None else file.identity)
