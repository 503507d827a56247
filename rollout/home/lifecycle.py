"""What is done to whole threads of a home: archived, brought back, deleted; and forks that are made to stand alone.

A thread is all of its files: the reverts that go on from an older one, and the sealed twin of a plain one. Everything
is done under the writers' locks of all of them. A file outside of the home, or of a foreign name, is by itself.

*Archiving* renames, oldest file first (bringing back: newest first), so that at any moment the newest of the files that
are not archived is the one that the thread goes on in. A new name is on the disk before the old directory is synced.

*Deleting* first takes every file aside (`.<name>.deleted`, oldest first), so that a fork that is made meanwhile finds
nothing to refer to; looks once more whether one has just been made, and puts all back then; and removes what is aside,
newest first. A crash leaves files aside. The next of these operations takes them back where something needs them:
another file of the thread, or a fork. Else it completes the deletion. What a crash has left of encrypting or decrypting
goes then too: it may be the plain text of an encrypted file. Nothing that is at work is disturbed by that: it
holds the locks.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from pathlib import Path

from rollout import ids
from rollout.dialects.codex import encoder
from rollout.dialects.codex.names import ARCHIVE_FOLDER
from rollout.dialects.codex.session_meta import without_base
from rollout.errors import InUse, NotFound, RolloutError, UsageError, WriteError
from rollout.files import fork as forks
from rollout.files import layout
from rollout.files.directories import make_dirs
from rollout.files.disk import FileSystem
from rollout.files.encrypted.keys import NO_KEYS, Keys
from rollout.files.encrypted.lines import LineCipher
from rollout.files.encrypted.reader import cipher_for
from rollout.files.fork import User, Users, told
from rollout.files.port import explained
from rollout.files.sealed import seal
from rollout.files.source import Origin
from rollout.files.staging import ASIDE, HALF_MADE, hidden, parse_hidden, replace
from rollout.files.thread_names import Names
from rollout.files.writer import holder


@dataclasses.dataclass(frozen=True, slots=True)
class Keeper:
    """Keeps a home, through `fs`. `now` gives the time as lines have it: names and the notes of locks tell it."""

    home: Path
    fs: FileSystem
    now: Callable[[], str]
    keys: Keys = NO_KEYS
    users: Users = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "users", Users(self.home, self.fs))

    def files_of(self, path: Path) -> list[Path]:
        """All files of the thread that the one at `path` is of, oldest first; it alone if it lies outside. NotFound."""
        name = ids.parse_file_name(path.name)
        try:
            identity = self.fs.status(path).identity
        except (FileNotFoundError, NotADirectoryError) as error:
            raise NotFound("there is no such file", path=path, remedy="check the path") from error
        found = [] if name is None else layout.find_thread(self.home, name.thread, fs=self.fs, twins=True)[::-1]
        paths = [entry.path for entry in found]
        if path.absolute() in paths or any(self.fs.status(other).identity == identity for other in paths):
            return paths
        return [path]

    def forks_of(self, path: Path) -> list[Path]:
        """The files that go on directly from one of the thread of the file at `path` and are no others of it."""
        return [user.path for user in self.users.of(self.files_of(path))]

    def detach_users(self, files: Sequence[Path]) -> None:
        """Makes what goes on from one of the files, and is none of them, stand alone. As `detach`."""
        for user in self.users.of(files):
            self._detach(user.path)

    def rename(self, path: Path, name: str | None) -> str | None:
        """Names the thread of a file of the home, or takes its name away (None); the name as it is kept (trimmed).

        UsageError for a name that could be taken for something else, or that another thread of the home has.
        """
        self._check_inside(path, self.files_of(path))
        parts = ids.parse_file_name(path.name)
        assert parts is not None  # it is one of the home
        return Names(self.home, self.fs).write(
            parts.thread,
            name,
            self.now(),
            is_there=lambda thread: bool(layout.find_thread(self.home, thread, fs=self.fs)),
        )

    def archive(self, path: Path) -> Path:
        """Moves the thread to the archive; the new path of the file that it goes on in. Once more does nothing.

        WriteError: the archive has a file of that name, or the disk fails (what was moved stays there; once more moves
        the rest). Locked, UsageError (outside of the home).
        """
        return self._move(path, lambda file: self.home / ARCHIVE_FOLDER / file.name, "archived", is_reversed=False)

    def unarchive(self, path: Path) -> Path:
        """Moves the thread back to the day that its files' names tell. As `archive`."""
        return self._move(path, self._place_of, "brought back", is_reversed=True)

    def _place_of(self, file: Path) -> Path:
        parts = ids.parse_file_name(file.name)
        assert parts is not None
        return layout.day_folder(self.home, parts.time) / file.name

    def _move(self, path: Path, place: Callable[[Path], Path], what: str, *, is_reversed: bool) -> Path:
        self.tidy()
        files = self.files_of(path)
        self._check_inside(path, files)
        archive = self.home / ARCHIVE_FOLDER
        moves = [(file, place(file)) for file in files if (file.parent == archive) is is_reversed]
        with self._locked(files, what):
            for file, target in moves:
                if self._is_there(target):
                    remedy = "compare the two, and move one of them away"
                    raise WriteError(f"cannot be {what}: {target} is there already", path=file, remedy=remedy)
            targets = dict.fromkeys(place(file).parent for file in files)
            made = (make_dirs(self.fs, target, root=self.home) for target in targets)
            for directory in dict.fromkeys(directory for directories in made for directory in directories):
                self.fs.sync_dir(directory)  # also of a move that a process did not live to sync
            for file, target in reversed(moves) if is_reversed else moves:
                self.fs.rename(file, target)
                self.fs.sync_dir(target.parent)
            self._sync_dirs(file for file, _ in moves)
        return place(files[-1])

    def delete(self, path: Path, *, detach_forks: bool) -> list[Path]:
        """Removes all files of a thread; what they were. InUse if forks refer to one, unless these are detached first.

        Locked, WriteError: nothing is gone, or else what is left of it is hidden, and goes with the next operation.
        """
        self.tidy()
        files = self.files_of(path)
        with self._locked(files, "deleted"):
            if detach_forks:
                self.detach_users(files)
            named = {user.path for user in self.users.naming(files)}
            _refuse_if_used(path, self.users.of(files))
            asides = self._set_aside(files, named)
            for aside in reversed(asides):
                self.fs.unlink(aside)
            self._sync_dirs(files)
        return files

    def _set_aside(self, files: Sequence[Path], named: Set[Path]) -> list[Path]:
        """Their new names; all as it was if that fails, or if others than `named` name one of them by now."""
        done: list[tuple[Path, Path]] = []
        try:
            for file in files:
                aside = hidden(file, ASIDE)
                self.fs.rename(file, aside)
                done.append((file, aside))
            if len(files) > 1:
                self._sync_dirs(files)  # no older file is gone for ever while a newer one may come back
            _refuse_if_used(files[-1], [user for user in self.users.naming(files) if user.path not in named])
        except BaseException:
            for file, aside in reversed(done):
                self.fs.rename(aside, file)
            raise
        return [aside for _, aside in done]

    def detach(self, path: Path) -> Path:
        """Makes a fork stand alone: its file then holds the lines of its bases, and its time stays. Its path.

        A sealed one is unsealed first. What goes on from it is detached first, as places in it move. NotFound if a base
        is missing; Locked, InUse (a fork has just been made of it), WriteError: it is as it was.
        """
        self.tidy()
        return self._detach(path)

    def _detach(self, path: Path) -> Path:
        self.detach_users([path])
        path = seal.unseal(self.fs, path, held_by=holder(self.now()))
        with self._locked([path], "detached"):
            end = forks.newest_point(path, self.fs).offset
            with Origin(None, path, self.home, size=end, fs=self.fs, keys=self.keys).opened() as lineage:
                meta = forks.meta_of(lineage.opened[0])
                line = None if meta is None else without_base(meta.line, meta.payload)
                if meta is None or line is None:
                    return path
                head = encoder.encode(line) + b"\n"
                segments = forks.whole(lineage)
                keys = cipher_for(opened.source for opened in lineage.opened)
                cipher = None if keys is None else LineCipher(keys, lineage.opened[0].thread or "")
                replace(
                    self.fs,
                    path,
                    forks.copied(head, segments, meta.end, cipher),
                    mtime_ns=self.fs.status(path).mtime_ns,
                    check=lambda _: _refuse_if_used(path, self.users.of([path])),
                )
        return path

    def tidy(self) -> None:
        """Completes or takes back what a crash has cut short, but for what somebody is at work on.

        What cannot be changed stays as it is: it is hidden, and in nobody's way.
        """
        asides: dict[str, list[Path]] = {}
        for folder, _, found in layout.folders(self.home, fs=self.fs):
            for name, kind in found:
                inner, ending = (parse_hidden(name) if kind == "file" else None) or ("", "")
                parts = ids.parse_file_name(inner)
                if parts is not None and ending == ASIDE:
                    asides.setdefault(parts.thread, []).append(folder / name)
                elif parts is not None and ending == HALF_MADE:
                    with contextlib.suppress(RolloutError), self._locked([folder / name], "removed"):
                        self.fs.unlink(folder / name)
        for thread, files in asides.items():
            with contextlib.suppress(RolloutError), self._locked(files, "taken back"):
                self._settle(thread, files)

    def _settle(self, thread: str, hidden: Sequence[Path]) -> None:
        by_creation = sorted(hidden, key=lambda aside: aside.name)
        files = [aside.with_name(aside.name[1:].removesuffix(ASIDE)) for aside in by_creation]
        if layout.find_thread(self.home, thread, fs=self.fs) or self.users.naming(files):
            for aside, file in zip(by_creation, files, strict=True):
                if not self._is_there(file):
                    self.fs.rename(aside, file)
        else:
            for aside in reversed(by_creation):
                self.fs.unlink(aside)
        self._sync_dirs(files)

    def _check_inside(self, path: Path, files: Sequence[Path]) -> None:
        if ids.parse_file_name(path.name) is None or layout.home_of(files[-1]) != self.home:
            raise UsageError(f"is no rollout of the home {self.home}", path=path, remedy="give an id, or another home")

    def _is_there(self, path: Path) -> bool:
        try:
            return any(listed.name == path.name for listed in self.fs.listed(path.parent))
        except (FileNotFoundError, NotADirectoryError):
            return False

    def _sync_dirs(self, files: Iterable[Path]) -> None:
        for directory in dict.fromkeys(file.parent for file in files):
            self.fs.sync_dir(directory)

    @contextlib.contextmanager
    def _locked(self, files: Sequence[Path], what: str) -> Iterator[None]:
        """Under the writers' locks. What the system refuses, here or inside, is a WriteError."""
        with explained(files[-1], what), contextlib.ExitStack() as held:
            for path in files:
                file = self.fs.open_append(path)
                held.callback(file.close)
                file.lock(holder(self.now()))
            yield


def _refuse_if_used(path: Path, used: Sequence[User]) -> None:
    if used:
        remedy = "detach them first, or delete with detach_forks=True"
        raise InUse(f"forks refer to it: {told(used)}", path=path, remedy=remedy)
