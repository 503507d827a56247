"""Who needs a file: the forks and reverts that name it as their base (see `bases`).

A file says so itself, at its beginning; so all of them are looked at: those of the home, and those of some folders. One
that cannot be read is passed over.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from rollout import ids
from rollout.dialects.codex.session_meta import Base, base_of
from rollout.errors import InUse, SourceError
from rollout.files import layout as homes
from rollout.files.bases import Bases
from rollout.files.disk import REAL, FileSystem
from rollout.files.lineage import Lineage, open_path
from rollout.files.port import Status
from rollout.ids import FileId
from rollout.limits import DEFAULT, Limits

_SHOWN = 3


@dataclasses.dataclass(frozen=True, slots=True)
class User:
    """A file that names another one as its base, `end` bytes of it (None: it does not tell).

    `base` is the identity of the file that a reader finds by that, None if it finds none.
    """

    path: Path
    end: int | None
    base: tuple[int, int] | None

    def needs(self, file: tuple[int, int], first: int) -> bool:
        """Whether it needs bytes of the file of that identity from `first` on; perhaps, if a reader finds no base."""
        return self.end is not None and self.end > first and self.base in {None, file}


def told(users: Sequence[User]) -> str:
    """The names of some of them, for a message."""
    return ", ".join(user.path.name for user in users[:_SHOWN]) + (", …" if len(users) > _SHOWN else "")


def file_ids(files: Iterable[Path]) -> set[FileId]:
    """The ids by which these files can be named as bases."""
    return {parts.file for file in files if (parts := ids.parse_file_name(file.name)) is not None}


class Users:
    """The users of files of a home. What the beginning of a file says is read once, as long as it does not change."""

    def __init__(self, home: Path | None, fs: FileSystem = REAL, limits: Limits = DEFAULT) -> None:
        self._home, self._fs, self._limits = home, fs, limits
        self._known: dict[Path, tuple[Status, Base | None]] = {}

    def of(self, files: Sequence[Path]) -> list[User]:
        """Those that a reader leads to one of the files and that are none of them, by path."""
        wanted = {self._fs.status(file).identity for file in files}
        return [user for user in self.naming(files) if user.base in wanted]

    def naming(self, files: Sequence[Path]) -> list[User]:
        """Those that name the id of one of the files (which need not be there) and are none of them, by path.

        They are looked for in the home and beside the files.
        """
        named, own = file_ids(files), {file.absolute() for file in files}
        entries = [] if self._home is None else list(homes.scan(self._home, fs=self._fs))
        found = {entry.path.absolute() for entry in entries}
        for folder in {file.parent for file in own}:
            with contextlib.suppress(OSError):
                found |= {entry.path for entry in homes.entries_among(self._fs.listed(folder), folder)}
        bases = Bases(self._home, self._fs, entries)
        return [user for path in sorted(found - own) for user in self._look(path, named, bases)]

    def refuse(self, path: Path) -> None:
        """InUse if files go on from the one at `path` by reference: its bytes are to move."""
        identity = self._fs.status(path).identity
        if used := [user for user in self.naming([path]) if user.needs(identity, 0)]:
            raise InUse(
                f"bytes that would move are referred to by {told(used)}", path=path, remedy="detach those first"
            )

    def _look(self, path: Path, named: set[FileId], bases: Bases) -> Iterator[User]:
        """The file at `path`, if it names one of the ids."""
        with contextlib.suppress(OSError, SourceError):
            status = self._fs.status(path)
            known = self._known.get(path)
            if known is None or known[0] != status:
                with contextlib.closing(open_path(path, fs=self._fs, limits=self._limits)) as opened:
                    known = self._known[path] = (status, base_of(opened.session))
            base = known[1]
            if base is not None and base.id in named:
                yield User(path, base.end, self._found(path, bases))

    def _found(self, path: Path, bases: Bases) -> tuple[int, int] | None:
        """The identity of the base of the file at `path`, as a reader finds it."""
        child = open_path(path, fs=self._fs, limits=self._limits)
        with contextlib.closing(Lineage(child, home=None, fs=self._fs, limits=self._limits, end=0, bases=bases)) as way:
            found = len(list(itertools.islice(way, 2))) == 2
            file = way.opened[1].file if found else None
            return None if file is None else file.identity
