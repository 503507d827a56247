"""Names of threads: `<home>/session_index.jsonl`, to which other programs append as well.

A line is {"id", "thread_name", "updated_at"}; the last one for an id wins, and an empty name takes the name away. What
is no such line is passed over: torn and damaged ones, NUL bytes, lines of other kinds; of two lines that are glued
together the whole one counts. A name is written as one line in one write, behind a line end if somebody left a torn
one, and is on the disk when `write` returns. Writers of this library wait for each other (a lock on the file itself);
other programs need not, as nothing is ever cut off or replaced.

A line of this library may say `gives_way`: its name counts only while no other thread has it without that, and of
several such the newest. So a thread can be given a name that nobody else loses by it, and no file is read for that.
"""

from __future__ import annotations

import contextlib
import dataclasses
import unicodedata
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from rollout import ids
from rollout.dialects.codex.names import THREAD_NAMES_FILE, ThreadName
from rollout.errors import SourceError, UsageError, WriteError
from rollout.files.disk import REAL, AppendFile, FileSystem, ReadFile
from rollout.files.plain import FileSource
from rollout.files.port import Status
from rollout.files.staging import while_held
from rollout.format import records
from rollout.format.records import Segment
from rollout.limits import DEFAULT, KIB, NAME_CHARACTERS

WAIT_S = 5.0
"""How long a name waits for another one to be written."""
_LIMITS = dataclasses.replace(DEFAULT, line_bytes=64 * KIB)
_START = b'{"id":'  # no JSON string can hold it
_BIDI = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


_decode = msgspec.json.Decoder(ThreadName).decode


@dataclasses.dataclass(frozen=True, slots=True)
class NamesRead:
    """What a file of names says: thread ids to names, as they stand there (trimmed), any text.

    `trouble`: why a file that is there cannot be read. `lost_lines`: how many lines hold something and name nothing:
    torn, damaged, of another kind.
    """

    names: Mapping[str, str] = dataclasses.field(default_factory=dict)
    lost_lines: int = 0
    trouble: str | None = None


_known: weakref.WeakKeyDictionary[FileSystem, dict[Path, tuple[Status, NamesRead]]] = weakref.WeakKeyDictionary()


def looks_like_path(text: str) -> bool:
    """Whether a word on a command line, or a text given as a reference, is a path by its look.

    It holds a separator, begins with `.` or `~`, or ends as a rollout's file does. Any other word is an id or a name
    before it is a path (see `source.locate`), so no thread is given a name that looks like a path.
    """
    return "/" in text or "\\" in text or text.startswith((".", "~")) or text.lower().endswith((".jsonl", ".jsonl.zst"))


def check_name(name: str) -> str:
    """The name as it is kept: trimmed, in normal form C. UsageError if it is none, or could be read as something else.

    What `resolve` takes for a path, a position or the beginning of a thread id would never be found as a name.
    """
    if not isinstance(name, str):
        raise UsageError(f"a name is text, not {type(name).__name__}")
    kept = unicodedata.normalize("NFC", name).strip()
    if not 1 <= len(kept) <= NAME_CHARACTERS:
        remedy = f"give 1 to {NAME_CHARACTERS} characters"
        raise UsageError(f"a name of {len(kept)} characters", remedy=remedy)
    if any(c in _BIDI or unicodedata.category(c) in {"Cc", "Cs", "Zl", "Zp"} for c in kept):
        raise UsageError("a name with a control character or a line end", remedy="leave it out")
    for is_taken, what in (
        (kept.startswith("-"), "a position or an option"),
        (looks_like_path(kept), "a path"),
        (ids.begins_thread_id(kept.lower()), "the beginning of a thread id"),
    ):
        if is_taken:
            raise UsageError(f"{kept!r} could be taken for {what}", remedy="give another name")
    return kept


def fold(name: str) -> str:
    """What two names have in common that differ in case and form only."""
    return unicodedata.normalize("NFC", name.strip()).casefold()


def read_names(home: Path, fs: FileSystem = REAL) -> Mapping[str, str]:
    """Thread ids to names, as they stand in the file (trimmed): any text. Empty if it cannot be read."""
    return Names(home, fs).read().names


class Names:
    """The names of a home's threads. The file is read when they are asked for, and again only after it changed."""

    def __init__(self, home: Path, fs: FileSystem = REAL) -> None:
        self.path = home / THREAD_NAMES_FILE
        self._fs = fs

    def read(self) -> NamesRead:
        """What the file says."""
        try:
            status, known = self._fs.status(self.path), _known.setdefault(self._fs, {})
            if self.path not in known or known[self.path][0] != status:
                with contextlib.closing(self._fs.open_read(self.path)) as file:
                    known[self.path] = status, _read(file)  # what came behind that status is looked at next time
            return known[self.path][1]
        except (FileNotFoundError, NotADirectoryError):
            return NamesRead()
        except OSError as error:
            return NamesRead(trouble=f"cannot be read: {error.strerror}")
        except SourceError as error:
            return NamesRead(trouble=error.message)

    def write(self, thread: str, name: str | None, updated_at: str, *, is_there: Callable[[str], bool]) -> str | None:
        """Names a thread, or takes its name away (None); the name as it is kept.

        UsageError for a name that can be none (`check_name`) or that another thread has that `is_there`; WriteError.
        """
        kept = None if name is None else check_name(name)

        def check(file: AppendFile) -> None:
            for other, its in _read(file).names.items() if kept is not None else ():
                if other != thread and its == kept and is_there(other):
                    raise UsageError(f"{kept!r} is the name of thread {other}", remedy="give another name")

        self._add(ThreadName(thread, kept or "", updated_at), check)
        return kept

    def note(self, thread: str, name: str, updated_at: str) -> None:
        """Names a thread as long as no other one has that name. Costs the same however many names there are.

        Is not waited for: a crash of the machine may take the name away again. UsageError for a name that can be none,
        or that is not as it would be kept (`check_name`); WriteError.
        """
        if check_name(name) != name:
            raise UsageError("a name that would be kept as another one", remedy="trim it, in normal form C")
        self._add(ThreadName(thread, name, updated_at, gives_way=True))

    def _add(self, name: ThreadName, check: Callable[[AppendFile], None] | None = None) -> None:
        """A line, behind a line end if somebody has left a torn one; on the disk, if there was something to check."""

        def append(file: AppendFile) -> None:
            if check is not None:
                check(file)
            size = file.size()
            is_torn = size > 0 and file.read_at(size - 1, 1) != b"\n"
            file.append(b"\n" * is_torn + msgspec.json.encode(name) + b"\n")
            if check is not None:
                file.sync()
                self._fs.sync_dir(self.path.parent)  # who made the file may have died before

        try:
            while_held(self._fs, self.path, WAIT_S, append)
        except OSError as error:
            raise WriteError(f"cannot be written: {error.strerror}", path=self.path) from error


def _read(file: ReadFile) -> NamesRead:
    given: dict[str, ThreadName] = {}
    lost, source = 0, FileSource(file)
    for line in records.forward([Segment(source, source.size)], _LIMITS):
        entries = _entries(line.data)
        lost += not entries and (line.skipped == "oversize" or bool(line.data.strip(b"\0 \t\r\n")))
        for entry in entries:
            given.pop(entry.id.lower(), None)  # the newest line is the last one
            given[entry.id.lower()] = entry
    return NamesRead(_names_of(given), lost)


def _names_of(given: Mapping[str, ThreadName]) -> dict[str, str]:
    """The names that count of the newest line of each thread, oldest first."""
    found = {thread: name for thread, line in given.items() if (name := line.thread_name.strip())}
    modest = [thread for thread in found if given[thread].gives_way is True]
    taken = {name for thread, name in found.items() if given[thread].gives_way is not True}
    for thread in reversed(modest):
        if found[thread] in taken:
            del found[thread]
        else:
            taken.add(found[thread])
    return found


def _entries(line: bytes) -> list[ThreadName]:
    """What a line says, oldest first; pieces that say nothing are left out."""
    found = list[ThreadName | None]()
    for piece in line.split(b"\0"):
        whole = _entry(piece)
        glued = [] if whole is not None else piece.split(_START)[1:]
        found += [whole, *(_entry(_START + part) for part in glued)]
    return [entry for entry in found if entry is not None]


def _entry(piece: bytes) -> ThreadName | None:
    try:
        entry = _decode(piece.removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return entry if ids.is_thread_id(entry.id.lower()) else None
