"""Which rollouts make a session: one a branch, and which of them is current.

`<home>/agent_sessions/<escaped session id>.jsonl` is an append-only log of its own. The newest line of a branch
counts; what a crash has torn is passed over. Names of files are an injective escaping of any text, also where capital
letters or `..` mean nothing.

Where a rollout was made is only where to look first: it may have been archived, brought back or sealed since, which
leaves it in a place that its name tells. Only where it is in none of them, as a move by hand leaves it, is the home
looked through. The cost of finding one does not depend on how many there are in the home.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from rollout import ids
from rollout.errors import Displaced, NotFound, Poisoned
from rollout.files import layout as homes
from rollout.files.directories import make_dirs, mark_synced
from rollout.files.port import Status, explained
from rollout.files.sealed.seal import standing
from rollout.files.shared_writer import SharedWriter
from rollout.session.environment import Ports

T = TypeVar("T")
MAIN = "main"
_PLAIN = re.compile(rb"[^a-z0-9-]")
_MOST_CHARACTERS = 200


def escape(session_id: str) -> str:
    """A file name for any text: a-z, 0-9 and - stay, any other byte of its UTF-8 is _ and two hex digits.

    One that would be too long ends in the SHA-256 of the whole instead.
    """
    data = session_id.encode("utf-8", "surrogatepass")
    name = _PLAIN.sub(lambda found: b"_%02x" % found[0][0], data).decode("ascii")
    if len(name) > _MOST_CHARACTERS:
        name = f"{name[: _MOST_CHARACTERS - 66]}__{hashlib.sha256(data).hexdigest()}"
    return f"s-{name}"  # never empty, never a name that a system keeps for itself


class Branch(msgspec.Struct, frozen=True):
    """One branch: `thread` is the thread id of its rollout, `path` where that lies in the home."""

    branch: str
    thread: str
    path: str
    created: str
    parent: str | None = None
    turn: int | None = None
    """The turn of the parent that it was taken before or after (`after`); None: behind everything."""
    after: bool = False
    deleted: bool = False


class Current(msgspec.Struct, frozen=True):
    """Which branch is the current one from here on. A new branch is that too; if it is deleted, the main one is."""

    current: str


class Cleared(msgspec.Struct, frozen=True):
    """The session was cleared: of its branches only the main one is left, and is current."""

    cleared: str
    """When."""


class Ledger:
    """The branches of one session, as the file says now. Safe to use from several processes.

    A thread at a time, but for `carry_out`, in which the others wait, and for finding files. SourceError, WriteError.
    """

    def __init__(self, ports: Ports, home: Path, session_id: str, lock_timeout_s: float) -> None:
        self._fs, self._home, self._lock_timeout_s = ports.fs, home, lock_timeout_s
        self.path = home / "agent_sessions" / f"{escape(session_id)}.jsonl"
        self.branches: dict[str, Branch] = {}
        """All that ever were, deleted ones too: a name is never used twice. Replaced, never changed."""
        self.current = MAIN
        self.clears = 0
        """So often the session was cleared while it had branches."""
        self.is_settled = True
        """Nothing was seen that a crash of others could take back."""
        self._seen: Status | None = None
        self._writer: SharedWriter | None = None
        self._is_new = False  # made by this object, and nothing is noted yet
        self._moved: dict[str, Path] = {}  # by thread id: where the home was looked through

    def find(self, branch: Branch) -> Path:
        """Where the rollout of a branch is now, sealed or not. NotFound."""
        for place in self._usual(branch):
            path = standing(self._fs, place)
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                self._fs.status(path)
                return path
        found = self._moved[branch.thread] = homes.resolve(self._home, branch.thread, fs=self._fs)
        return found

    def likely(self, thread: str) -> Iterator[Path]:
        """Where the rollout with that id may be, if it is one of the session's: for a branch that goes on from it."""
        for branch in self.branches.values():
            if branch.thread == thread:
                yield from self._usual(branch)

    def _usual(self, branch: Branch) -> Iterator[Path]:
        path = self._home / branch.path
        name = ids.parse_file_name(path.name)
        if name is not None and name.thread == branch.thread:
            yield path
            yield from homes.usual_places(self._home, path.name)
        if branch.thread in self._moved:
            yield self._moved[branch.thread]

    def refresh(self) -> None:
        """Reads the file again if it has changed."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError, NotFound):
            status = self._fs.status(self.path)
            if status != self._seen:
                with contextlib.closing(self._fs.open_read(self.path)) as file:
                    self._take(file.read_at(0, file.size()))  # what came behind that status is looked at next time
                self._seen, self.is_settled = status, False

    def _take(self, data: bytes) -> None:
        branches: dict[str, Branch] = {}
        current, clears = MAIN, 0
        for line in data.split(b"\n"):
            entry = _entry_of(line)
            if isinstance(entry, Branch):
                if entry.branch not in branches:
                    current = entry.branch
                elif entry.deleted and entry.branch == current:
                    current = MAIN
                branches[entry.branch] = entry
            elif isinstance(entry, Current):
                current = entry.current
            elif entry is not None:
                for name in branches.keys() - {MAIN}:
                    branches[name] = msgspec.structs.replace(branches[name], deleted=True)
                current = MAIN
                clears += 1
        self.branches, self.current, self.clears = branches, current, clears

    def carry_out(self, work: Callable[[], T]) -> T:
        """What `work` returns, called while nobody else changes the ledger, which is up to date. Locked, WriteError.

        Then all that it says is on the disk, also what others may not have put there.
        """

        def change() -> T:
            self.refresh()
            found = work()
            if not self.is_settled:
                self._commit()
            return found

        try:
            return self._shared().carry_out(change, self._lock_timeout_s)
        except (Poisoned, Displaced):
            self._writer = None  # opened again, which mends its end, by the next one
            raise

    def note(self, entry: Branch | Current | Cleared) -> None:
        """Writes, durably. In `carry_out` only."""
        assert self._writer is not None
        self._writer.append([msgspec.json.encode(entry) + b"\n"])
        self.refresh()
        self._commit()
        if self._is_new:
            mark_synced(self._fs, self.path.parent)
            self._is_new = False

    def _commit(self) -> None:
        assert self._writer is not None
        self._writer.commit()
        self.is_settled = True

    def close(self) -> None:
        """Lets go of the file."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _shared(self) -> SharedWriter:
        """The ledger's file, made if it is not there; its name is on the disk when the first note is."""
        if self._writer is None:
            with explained(self.path, "written"):
                make_dirs(self._fs, self.path.parent, root=self._home)
                with contextlib.suppress(FileExistsError):
                    self._fs.open_append(self.path, create=True).close()
                    self._is_new = True
            self._writer = SharedWriter(
                self._fs, self.path, holds_record=lambda line: _entry_of(line) is not None, root=self._home
            )
        return self._writer


def _entry_of(line: bytes) -> Branch | Current | Cleared | None:
    """What a line of the ledger says; None for a torn or damaged one."""
    kinds: tuple[type[Branch | Current | Cleared], ...] = (Branch, Current, Cleared)
    for kind in kinds:
        with contextlib.suppress(msgspec.DecodeError, ValueError, RecursionError):
            return msgspec.json.decode(line, type=kind)
    return None
