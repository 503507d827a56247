"""Earlier sessions, for an agent that is in one itself: which there are, and what was said in them.

The *current* session is the one that the reader is in; it is neither listed nor counted nor read. It is named by its
thread id, the beginning of it, its name or the path of its file. None stands for $ROLLOUT_CURRENT_SESSION, else
$CODEX_THREAD_ID (which Codex sets for the commands that it runs); "" says that there is none. One that has no file yet
leaves nothing out.

Listed are the sessions of the home, newest first as they were created, forks too; not the archived ones and not those
of subagents. `-1`, `-2`, … count the *other* sessions in the order of that list. Those that are not listed are read by
their ids.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
from pathlib import Path
from typing import TypeAlias

from rollout import ids
from rollout.errors import NotFound, SourceError, UsageError
from rollout.files import layout as homes
from rollout.files.disk import FileSystem, RealFileSystem
from rollout.files.encrypted.keys import NO_KEYS, Keys, keys_given
from rollout.files.lineage import open_path
from rollout.files.sealed.reader import twin
from rollout.files.source import Origin, locate
from rollout.files.thread_names import looks_like_path, read_names
from rollout.fold.transcript import LEAST_BUDGET_BYTES, fit_messages
from rollout.home.filters import Selection
from rollout.home.index.index import Index, with_index
from rollout.home.listing import check_limit, find, list_rows
from rollout.home.row import SessionRow
from rollout.home.search import Hit, search
from rollout.home.threads import Inventory
from rollout.limits import DEFAULT_BUDGET_BYTES, DEFAULT_SESSIONS
from rollout.session.state import read_state

Reference: TypeAlias = "str | os.PathLike[str] | int"
Current: TypeAlias = "str | os.PathLike[str] | None"

MOST_SESSIONS = 100
CURRENT_VARIABLES = ("ROLLOUT_CURRENT_SESSION", "CODEX_THREAD_ID")


@dataclasses.dataclass(frozen=True, slots=True)
class Transcript:
    """What was said in a session, as far as it fits the budget.

    `text` shows its newest `messages`, oldest first, and says in its first line how many older ones were `left_out`.
    `cut`: the only message shown is not whole, and its last line says so. `session` is None for a file outside of the
    home.
    """

    text: str
    session: SessionRow | None
    path: Path
    messages: int
    left_out: int
    cut: bool

    @property
    def bytes(self) -> int:
        """The size of the text in UTF-8; never more than the budget."""
        return len(self.text.encode())


class Sessions:
    """The sessions of a home, seen from the current one. UsageError, Ambiguous if `current` names none or several."""

    def __init__(self, home: Path, fs: FileSystem, current: Current = None, keys: Keys = NO_KEYS) -> None:
        self.home, self._fs, self._keys = home, fs, keys
        self.own = own_threads(home, current, fs)
        """The thread ids by which the current session is known; empty if there is none."""

    def list(self, limit: int = DEFAULT_SESSIONS, session_id: str | None = None) -> tuple[SessionRow, ...]:
        """See `list_sessions`."""
        if not (is_count(limit) and 1 <= limit <= MOST_SESSIONS):
            raise UsageError(f"a limit of {limit!r:.80} sessions", remedy=f"give 1 to {MOST_SESSIONS}")
        return self._others(limit, Selection(session_id=session_id, forks=True))

    def read(self, ref: Reference, budget_bytes: int = DEFAULT_BUDGET_BYTES) -> Transcript:
        """See `read_session`."""
        if not (is_count(budget_bytes) and budget_bytes >= LEAST_BUDGET_BYTES):
            raise UsageError(f"a budget of {budget_bytes!r:.80} bytes", remedy=f"give {LEAST_BUDGET_BYTES} or more")
        path = self.find(ref)
        state = read_state(Origin(None, path, self.home, fs=self._fs, keys=self._keys))
        fitted = fit_messages(state.history, budget_bytes)
        return Transcript(fitted.text, self._row(path), path, fitted.shown, fitted.left_out, fitted.cut)

    def find(self, ref: Reference, *, only_inside: bool = False) -> Path:
        """The file of another session; UsageError if it is one of the current session.

        `only_inside`: of this home, whatever path is given (see `_find_inside`).
        """
        text = str(ref) if isinstance(ref, int) else os.fspath(ref).strip()
        if isinstance(ref, bool) or (isinstance(ref, int) and ref >= 0) or not text.strip("-0") or "\0" in text:
            raise UsageError(f"{text!r:.80} names no session", remedy="give an id, or -1 for the newest other session")
        if (n := homes.position(text)) is not None:
            return self._nth_other(n)
        path = None
        if text.lower() not in self.own:
            wanted = text if isinstance(ref, str) else ref
            path = self._find_inside(text) if only_inside else locate(wanted, self.home, fs=self._fs)
        if path is None or self.own & _threads_of(path, self._fs):
            remedy = "give another one, or -1 for the newest other session"
            raise UsageError("that is the session that you are in", remedy=remedy)
        return path

    def _find_inside(self, text: str) -> Path:
        """What a reference names among the rollouts of the home, by their names alone.

        A path is compared with theirs, as texts. The answer to any other path is the same, whether a file lies there or
        not: nothing outside of the home is looked at.
        """
        if looks_like_path(text):
            path = Path(text)
            with contextlib.suppress(RuntimeError):  # the home of nobody
                path = path.expanduser()
            wanted = Path(os.path.normpath(path.absolute()))
            roots = {self.home, self.home.resolve()}
            within = {self.home / wanted.relative_to(root) for root in roots if wanted.is_relative_to(root)}
            within |= {other for path in within if (other := twin(path)) is not None}
            found = [entry.path for entry in homes.scan(self.home, fs=self._fs) if entry.path in within]
            if found:
                return found[0]
            if text not in read_names(self.home, self._fs).values():
                raise UsageError("that path is no session here", remedy="give an id that list_sessions shows")
        return homes.resolve(self.home, text, fs=self._fs)

    def search(self, query: str, limit: int = DEFAULT_SESSIONS, session_id: str | None = None) -> tuple[Hit, ...]:
        """The first hits in the other sessions, those of subagents too, newest session first. UsageError."""
        check_limit(limit)
        found: list[Hit] = []
        selection, cursor = Selection(session_id=session_id, subagents=True, forks=True), None
        while True:
            hits = with_index(
                self.home,
                self._fs,
                functools.partial(search, query=query, selection=selection, limit=limit, cursor=cursor),
                self._keys,
            )
            found += [hit for hit in hits if hit.id.lower() not in self.own]
            cursor = hits.cursor
            if cursor is None or len(found) >= limit:
                return tuple(found[:limit])

    def _others(self, limit: int, selection: Selection) -> tuple[SessionRow, ...]:
        most = limit + 1  # one may be the current one
        found = with_index(self.home, self._fs, lambda index: list_rows(index, selection, limit=most), self._keys)
        return tuple(row for row in found if row.id.lower() not in self.own)[:limit]

    def _nth_other(self, n: int) -> Path:
        found = self._others(n, Selection(forks=True))
        if len(found) == n:
            return found[-1].path
        there = f"{len(found)} other session{'s' if len(found) != 1 else ''}"
        remedy = f"give -1 to -{len(found)}" if found else "there is nothing to read"
        raise NotFound(f"-{n} is not there: the home has {there}", path=self.home, remedy=remedy)

    def _row(self, path: Path) -> SessionRow | None:
        """The row of the thread that a file of the home is of."""
        named, selection = ids.parse_file_name(path.name), Selection(archived=None, subagents=True, forks=True)
        inventory = Inventory(self.home, self._fs)
        for key, thread in inventory.threads(selection):
            if named and thread.id == named.thread and any(file.path == path.absolute() for file in thread.files):
                with Index.open(self.home, self._fs, keys=self._keys) as index:
                    found = find(inventory, index, selection, key, thread)
                    return None if found is None else found.row
        return None


def list_sessions(
    limit: int = DEFAULT_SESSIONS,
    *,
    current: Current = None,
    session_id: str | None = None,
    home: str | os.PathLike[str] | None = None,
) -> tuple[SessionRow, ...]:
    """The newest sessions but for the current one, which does not count. UsageError unless `limit` is 1 to 100.

    With a `session_id`, those alone in which a record has it.
    """
    return sessions_of(home, current).list(limit, session_id)


def read_session(
    ref: Reference,
    *,
    budget_bytes: int = DEFAULT_BUDGET_BYTES,
    current: Current = None,
    home: str | os.PathLike[str] | None = None,
) -> Transcript:
    """The newest messages of another session that fit `budget_bytes` of UTF-8 (see `fold.transcript`).

    `ref` is an id, the beginning of one, a name, a path, or -1 for the newest other session. UsageError for the current
    one and for a budget under 100 bytes; NotFound, Ambiguous, NotARollout.
    """
    return sessions_of(home, current).read(ref, budget_bytes)


def is_count(value: object) -> bool:
    """Whether a caller has given a whole number, whatever the type says."""
    return isinstance(value, int) and not isinstance(value, bool)


def sessions_of(home: str | os.PathLike[str] | None, current: Current) -> Sessions:
    """The sessions of a home (by default the one that the environment names), seen from the current one."""
    place = homes.absolute(home)
    return Sessions(place, RealFileSystem(place), current, keys_given(None))


def own_threads(home: Path, current: Current, fs: FileSystem) -> frozenset[str]:
    """The thread ids by which the current session is known; empty if there is none. UsageError, Ambiguous."""
    if current is None:
        current = next((told for name in CURRENT_VARIABLES if (told := os.environ.get(name))), "")
    text = os.fspath(current).strip()
    if not text:
        return frozenset()
    if homes.position(text) is not None:
        raise UsageError(f"{text} cannot be the current session: it counts the others", remedy="give its id")
    try:
        return _threads_of(locate(text, home, fs=fs), fs)
    except NotFound:
        named = ids.parse_file_name(Path(text).name)
        return frozenset({text.lower() if named is None else named.thread})


def _threads_of(path: Path, fs: FileSystem) -> frozenset[str]:
    """The thread that a file is of, by its name and by what it says."""
    named = ids.parse_file_name(path.name)
    said = None
    with contextlib.suppress(SourceError), contextlib.closing(open_path(path, fs=fs)) as opened:
        said = opened.thread
    return frozenset(thread.lower() for thread in (said, named and named.thread) if thread)
