"""Where rollouts lie in a home, and how a reference finds one.

`<home>/sessions/YYYY/MM/DD/rollout-<time>-<thread>[_<part>].jsonl[.zst]`, archived ones flat in
`<home>/archived_sessions/`. Only names are looked at, no file is opened. No symbolic link is followed below the home.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from rollout import ids
from rollout.errors import Ambiguous, NotFound

_NEWEST = re.compile(r"-\d+")
_SHOWN = 4


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """One rollout file of a home, as its name tells of it. `archived`: it lies among the archived ones."""

    path: Path
    thread: ids.ThreadId
    time: str
    part: str | None
    sealed: bool
    archived: bool

    @property
    def order(self) -> tuple[str, str, str]:
        """Sorts by creation."""
        return (self.time, self.part or "", self.thread)


def default_home(environ: Mapping[str, str] | None = None) -> Path:
    """$ROLLOUT_HOME, else $CODEX_HOME, else ~/.codex."""
    env = os.environ if environ is None else environ
    named = env.get("ROLLOUT_HOME") or env.get("CODEX_HOME")
    return Path(named).expanduser() if named else Path.home() / ".codex"


def home_of(path: Path) -> Path | None:
    """The home that a file lies in, by the folders above it; None if it lies in none."""
    for parent in path.absolute().parents:
        if parent.name in ("sessions", "archived_sessions"):
            return parent.parent
    return None


def scan(home: Path) -> Iterator[Entry]:
    """Every rollout file of a home, in no order. Where a plain file and its sealed twin stand, the plain one alone."""
    for top, archived in ((home / "sessions", False), (home / "archived_sessions", True)):
        yield from _scan_tree(top, archived, depth=0 if archived else 3)


def _scan_tree(directory: Path, archived: bool, depth: int) -> Iterator[Entry]:
    try:
        with os.scandir(directory) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return
    names = {entry.name for entry in entries}
    for entry in entries:
        if depth > 0 and entry.is_dir(follow_symlinks=False):
            yield from _scan_tree(Path(entry.path), archived, depth - 1)
            continue
        parts = ids.parse_file_name(entry.name)
        if parts is None or (parts.sealed and entry.name.removesuffix(".zst") in names):
            continue
        if entry.is_file(follow_symlinks=False):
            yield Entry(Path(entry.path), parts.thread, parts.time, parts.part, parts.sealed, archived)


def find_thread(home: Path, thread: str) -> list[Entry]:
    """All files of a thread (a revert adds one), newest first."""
    return sorted((e for e in scan(home) if e.thread == thread), key=lambda e: e.order, reverse=True)


def heads(home: Path, *, archived: bool) -> list[Entry]:
    """The file that each thread goes on in, newest thread first."""
    newest: dict[str, Entry] = {}
    for entry in scan(home):
        if (archived or not entry.archived) and (
            entry.thread not in newest or newest[entry.thread].order < entry.order
        ):
            newest[entry.thread] = entry
    return sorted(newest.values(), key=lambda e: e.order, reverse=True)


def is_position(reference: str) -> bool:
    """Whether a reference counts from the newest: `-1`, `-2`."""
    return _NEWEST.fullmatch(reference) is not None


def resolve(home: Path, reference: str) -> Path:
    """The file that `-N` (the N-th newest thread), a thread id or a unique prefix of one names."""
    if is_position(reference):
        return _nth_newest(home, -int(reference), reference)
    wanted = reference.strip().lower()
    found = [entry for entry in heads(home, archived=True) if wanted and entry.thread.startswith(wanted)]
    exact = [entry for entry in found if entry.thread == wanted]
    if len(exact or found) == 1:
        return (exact or found)[0].path
    if not found:
        raise NotFound(
            f"no rollout {reference!r}: no such file, and no thread id in {home} begins with it",
            remedy="give a path, a thread id, the beginning of one, or -1 for the newest",
        )
    shown = ", ".join(entry.thread for entry in found[:_SHOWN]) + (", …" if len(found) > _SHOWN else "")
    raise Ambiguous(f"{reference!r} is the beginning of {len(found)} thread ids: {shown}", remedy="give more of the id")


def _nth_newest(home: Path, n: int, reference: str) -> Path:
    found = heads(home, archived=False)
    if not found:
        raise NotFound(f"no sessions in {home}", remedy="set ROLLOUT_HOME or give a path")
    if not 1 <= n <= len(found):
        raise NotFound(
            f"{reference} is not there: {home} has {len(found)} session{'s' if len(found) != 1 else ''}",
            remedy=f"give -1 to -{len(found)}",
        )
    return found[n - 1].path
