"""Where the file lies that a rollout continues, its base (see `dialects.codex.session_meta`).

A base is named by its file's id, the last UUID of the file's name: of a thread's first file that is the thread's id, of
a revert's file its own second one. Case, folder and `.zst` do not matter. Who reads a base, makes one or looks for
those who need one asks here.

Two files should never have the same id. Where they do, a reader takes the first of them that is long enough, in this
order: those beside the file that continues it, unless that is archived; those in the folder of the day on which the
id was made, as UUIDs of version 7 tell, or of the day before or behind; any other of the home; archived ones. Among
those of one place it is the one with the highest `RolloutFile.precedence`. In this order most bases are found in the
first or the second folder that is listed, and the home is not looked through.
"""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from rollout import ids
from rollout.dialects.codex.names import ARCHIVE_FOLDER
from rollout.files import layout
from rollout.files.disk import REAL, FileSystem
from rollout.files.layout import RolloutFile
from rollout.files.port import Listed
from rollout.ids import FileId

_ID_CHARACTERS = 36
_DAYS = (0, -1, 1)
"""A folder is named by the day in its writer's own time zone."""


Likely = Callable[[str], Iterable[Path]]
"""Where the file with an id may lie. It may lie elsewhere."""


class Bases:
    """The files of a home by their ids, as far as one operation asks for them. A folder is listed once, when needed.

    `found`: all files of the home, where they were listed already. `likely` tells where the file with an id may lie:
    that is looked at first, and no folder is listed for one that is there.
    """

    def __init__(
        self,
        home: Path | None,
        fs: FileSystem = REAL,
        found: Iterable[RolloutFile] | None = None,
        likely: Likely | None = None,
    ) -> None:
        self._likely = likely
        self._home = None if home is None else home.absolute()
        self._fs = fs
        self._folders: dict[Path, Mapping[str, list[Listed]]] = {}
        self._all: Mapping[str, list[RolloutFile]] | None = None if found is None else _by_id(found)
        self.is_fresh = found is None
        """Whether nothing was listed yet."""

    def forget(self) -> None:
        """Files have moved: all is listed anew."""
        self._folders.clear()
        self._all = None
        self.is_fresh = True

    def candidates(self, id: FileId, user: Path | None) -> Iterator[Path]:
        """The files with that id as the file at `user` (None: no file) would find them, that which counts first."""
        seen = set()
        for path in () if self._likely is None else self._likely(id):
            if (path := path.absolute()) not in seen:
                seen.add(path)
                yield path
        for entries in self._places(id, None if user is None else user.absolute().parent):
            for entry in sorted(entries, key=lambda entry: entry.precedence, reverse=True):
                if (path := entry.path.absolute()) not in seen:
                    seen.add(path)
                    yield path

    def all_of(self, id: FileId) -> list[Path]:
        """All files of the home with that id, that which counts in it first."""
        return list(self.candidates(id, None))

    def doubled(self) -> list[FileId]:
        """The ids that several files of the home have."""
        return [FileId(id) for id, entries in self._everywhere().items() if len(entries) > 1]

    def _places(self, id: FileId, beside: Path | None) -> Iterator[Iterable[RolloutFile]]:
        home = self._home
        if beside is not None and (home is None or beside != home / ARCHIVE_FOLDER):
            yield self._in(beside, id)
        if home is None:
            return
        for day in _days_around(id):
            folder = home / "sessions" / f"{day:%Y}" / f"{day:%m}" / f"{day:%d}"
            if self._all is not None:
                yield [entry for entry in self._all.get(id, ()) if entry.folder.absolute() == folder]
            else:
                if folder not in self._folders and not layout.is_looked_into(home, folder, fs=self._fs):
                    self._folders[folder] = {}
                yield self._in(folder, id)
        others = self._everywhere().get(id, ())
        yield [entry for entry in others if not entry.archived]
        yield others

    def _in(self, folder: Path, id: FileId) -> Iterable[RolloutFile]:
        """Those of one folder, of which no other name is parsed."""
        if folder not in self._folders:
            self.is_fresh = False
            by_end: dict[str, list[Listed]] = {}
            with contextlib.suppress(OSError):
                for listed in self._fs.listed(folder):
                    by_end.setdefault(listed.name.partition(".")[0][-_ID_CHARACTERS:].lower(), []).append(listed)
            self._folders[folder] = by_end
        return layout.entries_among(self._folders[folder].get(id, ()), folder)

    def _everywhere(self) -> Mapping[str, list[RolloutFile]]:
        if self._all is None:
            self.is_fresh = False
            self._all = _by_id(() if self._home is None else layout.scan(self._home, fs=self._fs))
        return self._all


def _by_id(found: Iterable[RolloutFile]) -> dict[str, list[RolloutFile]]:
    entries: dict[str, list[RolloutFile]] = {}
    for entry in found:
        entries.setdefault(entry.parts.file, []).append(entry)
    return entries


def _days_around(id: FileId) -> Iterator[datetime.date]:
    if (day := ids.day_of(id)) is None:
        return
    for days in _DAYS:
        with contextlib.suppress(OverflowError):
            yield day + datetime.timedelta(days=days)
