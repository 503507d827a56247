"""Where rollouts lie in a home, and how a reference finds one.

`<home>/sessions/YYYY/MM/DD/rollout-<time>-<thread>[_<part>].jsonl[.zst]`, archived ones flat in
`<home>/archived_sessions/`. Only names are looked at, no file is opened. No symbolic link is followed below the home.

A reference is tried as a position, an id, the beginning of one and a name, in this order (and then as a path, which
is none of this module's business: see `origin`).
"""

from __future__ import annotations

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
        return _nth_newest(home, n, reference, fs)
    wanted = reference.strip().lower()
    found = heads(home, archived=True, fs=fs)
    begun = [entry for entry in found if wanted and entry.thread.startswith(wanted)]
    exact = [entry for entry in begun if entry.thread == wanted]
    if len(exact or begun) == 1:
        return (exact or begun)[0].path
    names = read_names(home, fs)
    named = _named(found, names, reference)
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


def _named(found: Sequence[RolloutFile], names: Mapping[str, str], name: str) -> list[RolloutFile]:
    exact = [entry for entry in found if names.get(entry.thread) == name.strip()]
    folded = fold(name)
    return exact or [entry for entry in found if folded and fold(names.get(entry.thread, "")) == folded]


def _told(entries: Sequence[RolloutFile], names: Mapping[str, str]) -> str:
    told = [f"{e.thread} ({_shown(names[e.thread])})" if e.thread in names else e.thread for e in entries[:_SHOWN]]
    return ", ".join(told) + (", …" if len(entries) > _SHOWN else "")


def _shown(text: str) -> str:
    """A text in quotes, on one line, not too long."""
    return repr(text if len(text) <= _REFERENCE_CHARACTERS else f"{text[:_REFERENCE_CHARACTERS]}…")


def _nth_newest(home: Path, n: int, reference: str, fs: FileSystem) -> Path:
    found = heads(home, archived=False, fs=fs)
    if not found:
        raise NotFound("holds no sessions", path=home, remedy="set ROLLOUT_HOME or give a path")
    if not 1 <= n <= len(found):
        count = f"{len(found)} session{'s' if len(found) != 1 else ''}"
        what = f"{reference[:_REFERENCE_CHARACTERS]} is not there: the home has {count}"
        raise NotFound(what, path=home, remedy=f"give -1 to -{len(found)}")
    return found[n - 1].path
