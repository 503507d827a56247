"""What a reference names: a path, bytes, a thread id, a position; and how it is opened, again and again.

A state that was read can be asked for more later (its turns, say): that reads the same bytes again, up to where the
file ended the first time.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

from rollout import ids
from rollout.errors import Ambiguous, NotARollout, NotFound, UsageError
from rollout.files import layout as homes
from rollout.files.disk import REAL, FileSystem
from rollout.files.encrypted.keys import NO_KEYS, Cipher, Keys, keys_given
from rollout.files.layout import Bases, Likely
from rollout.files.lineage import Lineage, Opened, open_bytes, open_path
from rollout.files.sealed.reader import twin
from rollout.files.thread_names import looks_like_path, read_names
from rollout.limits import DEFAULT, Limits

_PATH_CHARACTERS = 4096  # no longer path is shown
_LEAST_KEYS = frozenset({"id", "timestamp"})
_BARE_KEYS = _LEAST_KEYS | {"instructions", "git"}
"""Those of a session_meta of 2025: the first two and at least one more."""
_OLDEST = -(10**9)  # further back than any home goes
AnySource: TypeAlias = str | os.PathLike[str] | bytes | bytearray | memoryview | int
"""A path, bytes-like data, a thread id, the beginning or name of one, or -1, -2, … for the newest of the home."""


@dataclasses.dataclass(frozen=True, slots=True)
class Origin:
    """A rollout that can be opened: `data`, or the file at `path`, of which the first `size` text bytes count.

    A file that stands `at` another place for now is read as if it stood at `path`. `likely` tells where bases may lie
    (see `Bases`); `bases` is where they are looked up, if somebody who opens many files has looked up others there.
    """

    data: bytes | bytearray | memoryview | None
    path: Path | None
    home: Path | None
    limits: Limits = DEFAULT
    size: int | None = None
    fs: FileSystem = REAL
    keys: Keys = NO_KEYS
    likely: Likely | None = None
    bases: Bases | None = dataclasses.field(default=None, repr=False, compare=False)
    at: Path | None = None

    @contextlib.contextmanager
    def opened(self) -> Iterator[Lineage]:
        """The lineage, its newest file open; all files are closed behind it. SourceError."""
        if self.path is None:
            first = open_bytes(self.data or b"", keys=self.keys, limits=self.limits)
        else:
            first = open_path(self.at or self.path, fs=self.fs, keys=self.keys, limits=self.limits)
            first.path = first.path if self.at is None else self.path
        bases = self.bases
        if bases is None and self.likely is not None:
            bases = Bases(self.home, self.fs, likely=self.likely)
        lineage = Lineage(
            first, home=self.home, fs=self.fs, keys=self.keys, limits=self.limits, end=self.size, bases=bases
        )
        try:
            yield lineage
        finally:
            lineage.close()


def find(
    source: AnySource,
    home: str | os.PathLike[str] | None = None,
    limits: Limits = DEFAULT,
    cipher: Cipher | None = None,
) -> Origin:
    """What `source` names. NotFound, Ambiguous, UsageError; the file itself is not opened yet."""
    base, keys = None if home is None else Path(home).expanduser(), keys_given(cipher)
    if isinstance(source, bytes | bytearray | memoryview):
        return Origin(source, None, base, limits, fs=REAL, keys=keys)
    path = locate(source, base)
    return Origin(None, path, base or homes.home_of(path) or homes.default_home(), limits, fs=REAL, keys=keys)


def locate(source: str | os.PathLike[str] | int, home: Path | None = None, *, fs: FileSystem = REAL) -> Path:
    """The path that a reference names: this is the one rule for the words of a command line and for every `ref`.

    A position (-1 is the newest thread), else a thread's id or the beginning of one, else a thread's name, else a path:
    where a thread and a file share a word, it is the thread, and `./word` is the file. What looks like a path
    (`looks_like_path`) is one, or, if nothing lies there, exactly the name that another program gave to a thread. A
    `Path` is a path always. Of a file whose sealed or plain twin alone is there, it is that. The answer, as a text,
    names the same file when it is given as a reference again.

    NotFound, Ambiguous, UsageError.
    """
    if isinstance(source, bool) or not isinstance(source, str | os.PathLike | int):
        raise UsageError(f"not a rollout: {type(source).__name__}", remedy="give a path, bytes, a thread id or -1")
    if isinstance(source, int):
        if source >= 0:
            raise UsageError(f"{source} names no rollout", remedy="give -1 for the newest, or an id as text")
        return homes.resolve(home or homes.default_home(), str(max(source, _OLDEST)), fs=fs)
    text = os.fsdecode(source)
    if not text or "\0" in text:
        raise UsageError("an empty path, or one with a NUL", remedy="give a path, a thread id or -1")
    if isinstance(source, os.PathLike):
        return _or_its_twin(Path(text))
    base = home or homes.default_home()
    if looks_like_path(text):
        path = _or_its_twin(_expanded(text))
        if os.path.lexists(path):
            return path
        if text not in read_names(base, fs).values():
            remedy = "check the path, or give a thread id or -1"
            raise NotFound("no such file", path=text[:_PATH_CHARACTERS], remedy=remedy)
    has_file = homes.position(text) is None and os.path.lexists(text)
    try:
        return homes.resolve(base, text, fs=fs)
    except NotFound:
        if has_file:
            return Path(text).absolute()
        raise
    except Ambiguous as error:
        if has_file:
            error.remedy = f"{error.remedy}, or {os.curdir}{os.sep}{text} for the file"
        raise


def locate_to_change(source: str | os.PathLike[str] | int, home: Path | None = None, *, fs: FileSystem = REAL) -> Path:
    """As `locate`, for what is going to be changed or deleted: NotARollout for a file that is no rollout.

    It is one if its name says so (`rollout-<time>-<id>.jsonl`, or sealed), whatever it holds; or if its first record is
    a session_meta, with an envelope or as 2025 wrote it. A link is none: what it leads to is to be named itself.
    """
    path = locate(source, home, fs=fs)
    if os.path.islink(path):
        target = os.path.realpath(path)
        raise NotARollout("is a symbolic link, not a rollout", path=path, remedy=f"give what it leads to: {target}")
    is_named = ids.parse_file_name(path.name) is not None
    if is_named and path.is_file():
        return path
    with contextlib.closing(open_path(path, fs=fs)) as opened:  # refuses what is no file
        if not is_named and not (opened.head.is_first and _tells_of_a_session(opened)):
            raise NotARollout(
                "is no rollout, so it is left alone: neither its name nor its first line (a session_meta) says so",
                path=path,
                remedy="check the path, or give a thread id, a name or -1",
            )
    return path


def _tells_of_a_session(opened: Opened) -> bool:
    """Whether its session_meta has what is always in one. Without an envelope it could be any program's log line."""
    meta = opened.session or {}
    own = meta.get("id")
    if not isinstance(own, str):
        return False
    return not opened.head.is_bare or (ids.is_thread_id(own.lower()) and _LEAST_KEYS < meta.keys() <= _BARE_KEYS)


def _or_its_twin(path: Path) -> Path:
    if not looks_like_path(str(path)):  # `./notes` is `notes` as a Path: its text could be taken for a name
        path = path.absolute()
    other = twin(path)
    return path if other is None or os.path.lexists(path) or not os.path.lexists(other) else other


def _expanded(text: str) -> Path:
    """A path as the shell means it, though it came here past any shell."""
    try:
        return Path(text) if os.path.lexists(text) else Path(text).expanduser()
    except RuntimeError:  # the home of nobody
        return Path(text)
