"""Where the rollouts of a session's branches are, without a look through the home.

The ledger tells where each was made. That is only where to look first: a file may have been archived, brought back or
sealed since, which leaves it in a place that its name tells. Only where it is in none of them, as a move by hand leaves
it, is the home looked through. The cost of finding one does not depend on how many there are in the home.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from rollout import ids
from rollout.adapters.agents.ledger import Branch, Ledger
from rollout.files import layout as homes
from rollout.files.disk import FileSystem
from rollout.files.sealed.seal import standing


class Places:
    """Of one session. Takes no lock, so that any thread may ask."""

    def __init__(self, home: Path, fs: FileSystem, ledger: Ledger) -> None:
        self._home, self._fs, self._ledger = home, fs, ledger
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
        for branch in self._ledger.branches.values():
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
