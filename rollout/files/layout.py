"""Where rollouts lie in a home, and how a reference finds one, or a file the one that it continues, its *base*.

`<home>/sessions/YYYY/MM/DD/rollout-<time>-<thread>[_<part>].jsonl[.zst]`, archived ones flat in
`<home>/archived_sessions/`. Only names are looked at, no file is opened. No symbolic link is followed below the home.

A reference is tried as a position, an id, the beginning of one and a name, in this order (and then as a path, which
is none of this module's business: see `source`).

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
import itertools
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from rollout import ids
from rollout.dialects.codex.names import ARCHIVE_FOLDER, SESSIONS_FOLDER
from rollout.errors import Ambiguous, NotFound
from rollout.files.disk import REAL, FileSystem
from rollout.files.port import Listed
from rollout.files.thread_names import fold, read_names

_ID_CHARACTERS = 36
_DAYS = (0, -1, 1)
"""A folder is named by the day in its writer's own time zone."""
Likely = Callable[[str], Iterable[Path]]
"""Where the file with an id may lie. It may lie elsewhere."""
_NEWEST = re.compile(r"-[0-9]+")
_POSITION_CHARACTERS = 10  # of more sessions than there are
_SHOWN = 4
_REFERENCE_CHARACTERS = 80
Odd = Callable[[Path, str], None]
"""Is told of what looks like a rollout and is passed over: the path, and what is odd about it."""
TWIN, MISNAMED = "the plain file beside it counts", "its name is not that of a rollout"
"""Two of the things that are odd."""


class RolloutFile(NamedTuple):
    """One rollout file of a home, as its name tells of it. `archived`: it lies among the archived ones.

    Its path is made when it is asked for: names are looked at by the thousand, files are opened one by one.
    """

    folder: Path
    name: str
    parts: ids.NameParts
    archived: bool

    @property
    def path(self) -> Path:
        """Where it lies."""
        return self.folder / self.name

    @property
    def file(self) -> str:
        """Its path, as a text: quicker made."""
        return f"{self.folder}{os.sep}{self.name}"

    @property
    def thread(self) -> ids.ThreadId:
        """The id of its thread."""
        return self.parts.thread

    @property
    def time(self) -> str:
        """The time in its name."""
        return self.parts.time

    @property
    def named_time(self) -> str:
        """The time in its name as an ISO text, as if it were UTC."""
        day, _, clock = self.time.partition("T")
        return f"{day}T{clock.replace('-', ':')}.000Z"

    @property
    def sealed(self) -> bool:
        """Whether it is packed."""
        return self.parts.sealed

    @property
    def order(self) -> tuple[str, str, str]:
        """Sorts by creation."""
        time, thread, part, _ = self.parts
        return (time, part or "", thread)

    @property
    def precedence(self) -> tuple[tuple[str, str, str], bool, bool, bool, str]:
        """The file with the highest one counts: the newest.

        Of copies one that is not archived, then one in the folder of its day, then one that is plain.
        """
        is_in_place = list(self.folder.parts[-3:]) == self.time.partition("T")[0].split("-")
        return self.order, not self.archived, is_in_place, not self.sealed, self.file


def default_home(environ: Mapping[str, str] | None = None) -> Path:
    """$ROLLOUT_HOME, else $CODEX_HOME, else ~/.codex."""
    env = os.environ if environ is None else environ
    named = env.get("ROLLOUT_HOME") or env.get("CODEX_HOME")
    return Path(named).expanduser() if named else Path.home() / ".codex"


def absolute(home: str | os.PathLike[str] | None) -> Path:
    """The home that is meant (None: the default one) as an absolute path without `..`."""
    path = (default_home() if home is None else Path(home).expanduser()).absolute()
    return path.resolve() if ".." in path.parts else path


def home_of(path: Path) -> Path | None:
    """The home that a file lies in, by the folders above it; None if it lies in none."""
    for parent in path.absolute().parents:
        if parent.name in (SESSIONS_FOLDER, ARCHIVE_FOLDER):
            return parent.parent
    return None


def day_folder(home: Path, day: str) -> Path:
    """Where the rollouts of a day lie, which is told as 2026-03-20 or as the time in a file's name."""
    return home.joinpath(SESSIONS_FOLDER, *day[:10].split("-"))


def usual_places(home: Path, name: str) -> list[Path]:
    """Where a rollout of a home lies that nobody has moved by hand: in the folder of its day, or in the archive."""
    parts = ids.parse_file_name(name)
    return [] if parts is None else [day_folder(home, parts.time) / name, home / ARCHIVE_FOLDER / name]


_LEVELS = 3
"""Year, month, day: so deep lie the folders of `sessions` that are looked into."""


def _not_told(path: Path, what: str) -> None:
    pass


def folders(home: Path, odd: Odd = _not_told, *, fs: FileSystem = REAL) -> Iterator[tuple[Path, bool, list[Listed]]]:
    """The folders of a home that rollouts can lie in, whether of archived ones, and what is in each; in no order."""
    waiting = [(home / ARCHIVE_FOLDER, True, 0), (home / SESSIONS_FOLDER, False, _LEVELS)]
    while waiting:
        folder, archived, depth = waiting.pop()
        try:
            found = fs.listed(folder)
        except FileNotFoundError:
            continue
        except OSError as error:
            odd(folder, f"cannot be looked into: {error.strerror}")
            continue
        if depth > 0:
            waiting += [(folder / name, archived, depth - 1) for name, kind in reversed(found) if kind == "directory"]
            found = [listed for listed in found if listed.kind != "directory"]
        yield folder, archived, found


def scan(home: Path, odd: Odd = _not_told, *, fs: FileSystem = REAL, twins: bool = False) -> Iterator[RolloutFile]:
    """Every rollout file of a home, in no order. Where a plain file and its sealed twin stand, the plain one alone.

    With `twins` both. `odd` is told of what looks like one and is passed over: the path, and what is odd about it.
    """
    for folder, archived, found in folders(home, odd, fs=fs):
        yield from entries_among(found, folder, odd, archived=archived, twins=twins)


def holds(home: Path, folder: Path, *, fs: FileSystem = REAL) -> bool:
    """Whether `scan` comes to a folder: the archive, or one below `sessions`."""
    if folder == home / ARCHIVE_FOLDER:
        return True
    above = home / SESSIONS_FOLDER
    is_below = folder.is_relative_to(above) and len(folder.relative_to(above).parts) <= _LEVELS
    return is_below and is_looked_into(home, folder, fs=fs)


def is_looked_into(home: Path, folder: Path, *, fs: FileSystem = REAL) -> bool:
    """Whether `scan` comes to a folder below `sessions`: it is there, and no link leads to it."""
    above = home / SESSIONS_FOLDER
    for name in folder.relative_to(above).parts:
        try:
            if Listed(name, "directory") not in fs.listed(above):
                return False
        except OSError:
            return False
        above /= name
    return True


def entries_among(
    found: Iterable[Listed], folder: Path, odd: Odd = _not_told, *, archived: bool = False, twins: bool = False
) -> Iterator[RolloutFile]:
    """The rollout files among what is listed of a folder. As `scan`."""
    found = list(found)
    names = {listed.name for listed in found}
    for name, kind in found:
        parts = ids.parse_file_name(name)
        if parts is None:
            if kind == "link":
                odd(folder / name, "is a symbolic link: not followed")
            elif name.endswith((".jsonl", ".jsonl.zst")) and not name.startswith("."):
                odd(folder / name, MISNAMED)
        elif kind != "file":
            odd(folder / name, "is no regular file")
        elif parts.sealed and not twins and name.removesuffix(".zst") in names:
            odd(folder / name, TWIN)
        else:
            yield RolloutFile(folder, name, parts, archived)


def find_thread(home: Path, thread: str, *, fs: FileSystem = REAL, twins: bool = False) -> list[RolloutFile]:
    """All files of a thread (a revert adds one), newest first; a sealed twin behind the plain file."""
    found = (e for e in scan(home, fs=fs, twins=twins) if e.thread == thread)
    return sorted(found, key=lambda e: e.precedence, reverse=True)


def heads(home: Path, *, archived: bool, fs: FileSystem = REAL) -> list[RolloutFile]:
    """The file that each thread goes on in, newest thread first."""
    newest: dict[str, RolloutFile] = {}
    for entry in scan(home, fs=fs):
        if (archived or not entry.archived) and (
            entry.thread not in newest or newest[entry.thread].precedence < entry.precedence
        ):
            newest[entry.thread] = entry
    return sorted(newest.values(), key=lambda e: e.order, reverse=True)


def position(reference: str) -> int | None:
    """1 for `-1` (the newest), 2 for `-2`, …; None for a reference that is no position.

    Only ASCII digits make one: `int` takes those of every script, which nobody types who means the newest session.
    """
    return int(reference[1:_POSITION_CHARACTERS]) if _NEWEST.fullmatch(reference) else None


def resolve(home: Path, reference: str, *, fs: FileSystem = REAL) -> Path:
    """The file that `-N` (the N-th newest thread that is not archived), a thread id, a unique prefix or a name names.

    A name is taken as it is written, else in any case if one thread alone has it so. NotFound, Ambiguous.
    """
    if (n := position(reference)) is not None:
        newest = heads(home, archived=False, fs=fs)
        if 1 <= n <= len(newest):
            return newest[n - 1].path
        if not newest:
            raise NotFound("holds no sessions", path=home, remedy="set ROLLOUT_HOME or give a path")
        count = f"{len(newest)} session{'s' if len(newest) != 1 else ''}"
        what = f"{reference[:_REFERENCE_CHARACTERS]} is not there: the home has {count}"
        raise NotFound(what, path=home, remedy=f"give -1 to -{len(newest)}")
    wanted = reference.strip().lower()
    found = heads(home, archived=True, fs=fs)
    begun = [entry for entry in found if wanted and entry.thread.startswith(wanted)]
    exact = [entry for entry in begun if entry.thread == wanted]
    if len(exact or begun) == 1:
        return (exact or begun)[0].path
    names, folded = read_names(home, fs), fold(reference)
    exactly = [entry for entry in found if names.get(entry.thread) == reference.strip()]
    named = exactly or [entry for entry in found if folded and fold(names.get(entry.thread, "")) == folded]
    if len(named) == 1:
        return named[0].path
    if named or begun:
        what = "the name of {} threads" if named else "the beginning of {} thread ids"
        remedy = "give the id" if named else "give more of the id"
        told = f"{what.format(len(named or begun))}: {_told(named or begun, names)}"
        raise Ambiguous(f"{_shown(reference)} is {told}", remedy=remedy)
    remedy = "give a thread id, the beginning of one, a name, -1 for the newest, or a path"
    raise NotFound(
        f"no rollout {_shown(reference)}: no thread here has that name or an id that begins so",
        path=home,
        remedy=f"{remedy}; a moment in it is given apart, as --at or `at`" if "@" in reference else remedy,
    )


def _told(entries: Sequence[RolloutFile], names: Mapping[str, str]) -> str:
    told = [f"{e.thread} ({_shown(names[e.thread])})" if e.thread in names else e.thread for e in entries[:_SHOWN]]
    return ", ".join(told) + (", …" if len(entries) > _SHOWN else "")


def _shown(text: str) -> str:
    """A text in quotes, on one line, not too long."""
    return repr(text if len(text) <= _REFERENCE_CHARACTERS else f"{text[:_REFERENCE_CHARACTERS]}…")


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

    def candidates(self, id: ids.FileId, user: Path | None) -> Iterator[Path]:
        """The files with that id as the file at `user` (None: no file) would find them, that which counts first."""
        likely = () if self._likely is None else self._likely(id)
        places = self._places(id, None if user is None else user.absolute().parent)
        found = (sorted(entries, key=lambda entry: entry.precedence, reverse=True) for entries in places)
        listed = (entry.path for entry in itertools.chain.from_iterable(found))
        seen = set()
        for path in itertools.chain(likely, listed):
            if (path := path.absolute()) not in seen:
                seen.add(path)
                yield path

    def all_of(self, id: ids.FileId) -> list[Path]:
        """All files of the home with that id, that which counts in it first."""
        return list(self.candidates(id, None))

    def doubled(self) -> list[ids.FileId]:
        """The ids that several files of the home have."""
        return [ids.FileId(id) for id, entries in self._everywhere().items() if len(entries) > 1]

    def _places(self, id: ids.FileId, beside: Path | None) -> Iterator[Iterable[RolloutFile]]:
        home = self._home
        if beside is not None and (home is None or beside != home / ARCHIVE_FOLDER):
            yield self._in(beside, id)
        if home is None:
            return
        for folder in _day_folders(home, id):
            if self._all is not None:
                yield [entry for entry in self._all.get(id, ()) if entry.folder.absolute() == folder]
            else:
                if folder not in self._folders and not is_looked_into(home, folder, fs=self._fs):
                    self._folders[folder] = {}
                yield self._in(folder, id)
        others = self._everywhere().get(id, ())
        yield [entry for entry in others if not entry.archived]
        yield others

    def _in(self, folder: Path, id: ids.FileId) -> Iterable[RolloutFile]:
        """Those of one folder, of which no other name is parsed."""
        if folder not in self._folders:
            self.is_fresh = False
            by_end: dict[str, list[Listed]] = {}
            with contextlib.suppress(OSError):
                for listed in self._fs.listed(folder):
                    by_end.setdefault(listed.name.partition(".")[0][-_ID_CHARACTERS:].lower(), []).append(listed)
            self._folders[folder] = by_end
        return entries_among(self._folders[folder].get(id, ()), folder)

    def _everywhere(self) -> Mapping[str, list[RolloutFile]]:
        if self._all is None:
            self.is_fresh = False
            self._all = _by_id(() if self._home is None else scan(self._home, fs=self._fs))
        return self._all


def _by_id(found: Iterable[RolloutFile]) -> dict[str, list[RolloutFile]]:
    entries: dict[str, list[RolloutFile]] = {}
    for entry in found:
        entries.setdefault(entry.parts.file, []).append(entry)
    return entries


def _day_folders(home: Path, id: ids.FileId) -> Iterator[Path]:
    if (day := ids.day_of(id)) is None:
        return
    for days in _DAYS:
        with contextlib.suppress(OverflowError):
            yield day_folder(home, (day + datetime.timedelta(days=days)).isoformat())
