"""Where the file of a thread is while others may seal it, move it, delete it, or go on in another one.

Only looks, and takes no lock. Whether the file is there is looked up every time; the home is looked through for a newer
file of the thread no more often than once a second.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeAlias

from rollout import ids
from rollout.files import layout as homes
from rollout.files.disk import FileSystem
from rollout.files.layout import RolloutFile
from rollout.files.sealed.reader import twin

Whereto: TypeAlias = Literal["sealed", "unsealed", "moved", "continued", "deleted"]
_SCAN_S = 1.0


@dataclasses.dataclass(frozen=True, slots=True)
class Notice:
    """What `happened` to a file, in words: `what`. `path` is where it is now, or where the thread goes on."""

    happened: Whereto
    path: Path
    what: str


class Whereabouts:
    """Goes after the file at `path`; `home` is that of its bases. Forks are other threads, and no affair of this."""

    def __init__(self, path: Path, home: Path | None, fs: FileSystem, clock: Callable[[], float]) -> None:
        self.path, self._home, self._fs, self._clock = path, home, fs, clock
        self._scanned_s = clock()

    def look(self) -> Notice | None:
        """What has happened since the last look; None if it is where it was."""
        if not self._is_there(self.path):
            return self._found(self._lost())
        if self._clock() - self._scanned_s < _SCAN_S:
            return None
        self._scanned_s = self._clock()
        files = self._files()
        now, newest = self._entry_of(files), next(iter(files), None)
        if now is None or newest is None or newest.order <= now.order:
            return None
        return self._found(Notice("continued", newest.path, f"the thread goes on in {newest.path.name}"))

    def _found(self, notice: Notice) -> Notice:
        self.path = notice.path
        return notice

    def _lost(self) -> Notice:
        """The file is not where it was."""
        other = twin(self.path)
        if other is not None and self._is_there(other):
            return Notice("sealed" if other.suffix == ".zst" else "unsealed", other, f"it is {other.name} now")
        moved = self._entry_of(self._files())
        if moved is not None:
            return Notice("moved", moved.path, f"it is in {moved.path.parent} now")
        return Notice("deleted", self.path, "the file is gone")

    def _files(self) -> list[RolloutFile]:
        """The files of the thread, newest first, if this one lies in the home."""
        parts = ids.parse_file_name(self.path.name)
        is_inside = self._home is not None and homes.home_of(self.path) == self._home.absolute()
        if parts is None or self._home is None or not is_inside:
            return []
        return homes.find_thread(self._home, parts.thread, fs=self._fs)

    def _entry_of(self, files: list[RolloutFile]) -> RolloutFile | None:
        """The file of that name, sealed or not, wherever in the home."""
        plain = self.path.name.removesuffix(".zst")
        return next((entry for entry in files if entry.path.name.removesuffix(".zst") == plain), None)

    def _is_there(self, path: Path) -> bool:
        try:
            self._fs.status(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            return True  # as far as is known: whoever opens it says what is wrong
        return True
