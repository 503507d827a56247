"""Forks: the points of a log that one can leave it at, copies that stand alone, who needs a file, where two logs part.

A point is the end of a line of a file. What is behind it does not exist for a fork: it reads the file up to there, and
the bases of that file. A fork by reference names the point (`history_base`); a copy holds the lines of the lineage.
Who needs a file says so itself, at its beginning; so all files are looked at: those of the home, and those of some
folders. One that cannot be read is passed over.

Logs that refer to the same file have in common what both take of it. A fork that copied its source has its lines behind
its own session_meta: there line is compared with line, from the oldest on, as far as they are the same. The times at
their fronts do not count, which Codex renews as it copies, nor do the marks of batches, which a copy is written
without. Session_metas are passed over on both sides: a source that has since become a fork by reference has its own at
another place than the copy has.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw

from rollout import ids
from rollout.dialects.codex import envelope as codec
from rollout.dialects.codex.names import SESSION_META
from rollout.dialects.codex.session_meta import Base, base_of, facts_of, told_base
from rollout.errors import InUse, NotFound, RecordError, SourceError, UsageError, WriteError
from rollout.files import layout as homes
from rollout.files import recovery
from rollout.files.disk import REAL, FileSystem
from rollout.files.encrypted.lines import LineCipher
from rollout.files.layout import Bases
from rollout.files.lineage import Lineage, Opened, holds_record, open_path
from rollout.files.port import Status
from rollout.files.source import Origin
from rollout.format import lines, records, strict_json
from rollout.format.records import Line, Segment
from rollout.ids import FileId
from rollout.limits import DEFAULT, Limits

BLOCK_BYTES = DEFAULT.chunk_bytes
_MARK_SIGN = b',"batch":['
_SHOWN = 3
_TIME = re.compile(rb'\{"timestamp":"[^"\\]*"')
Threads = Mapping[str, Sequence[Path]]
"""The files of each thread, newest first."""
_raw_keys = msgspec.json.Decoder(dict[str, Raw])


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    """The first `offset` bytes (text bytes of a sealed one) of a file. `ends_line`: the last of them is a line end."""

    path: Path
    offset: int
    ends_line: bool = True


def newest_point(path: Path, fs: FileSystem) -> Point:
    """Behind the last line of a file that a reader can see, whoever may be writing it."""
    with contextlib.closing(open_path(path, fs=fs)) as opened:
        plan = recovery.inspect(opened.stored, opened.source.size, holds_record)
        return Point(opened.path or path, plan.cut, ends_line=not plan.newline)


def base_at(point: Point, next_ordinal: int | None) -> dict[str, Any]:
    """`history_base` for a fork that goes on from `point`. UsageError if a reader could not find the file by it."""
    if not point.ends_line:
        raise UsageError("its last line has no end", path=point.path, remedy="open it for append, which gives it one")
    return told_base(_file_id(point.path), point.offset, next_ordinal)


def check_found(point: Point, fork: Path, home: Path | None, fs: FileSystem) -> None:
    """UsageError unless a reader of a file at `fork`, made by `base_at`, finds the file that the point is in.

    NotFound if it lies where a reader would look, and was not there when this looked: somebody is moving it.
    """
    for path in Bases(home, fs).candidates(_file_id(point.path), fork):
        with contextlib.suppress(NotFound), contextlib.closing(open_path(path, fs=fs)) as found:
            if _is_same(point.path, path, found, fs):
                return
            if found.source.size >= point.offset:
                remedy = f"fork it with copy=True, or move {path} away if that is the same session"
                raise UsageError(f"another file with its id counts for a fork: {path}", path=point.path, remedy=remedy)
    folder = point.path.absolute().parent
    if folder == fork.absolute().parent or (home is not None and homes.holds(home.absolute(), folder, fs=fs)):
        raise NotFound("is no longer there", path=point.path, remedy="look for it by its id")
    raise UsageError("no reader of a fork finds it where it lies", path=point.path, remedy="fork it with copy=True")


def _file_id(path: Path) -> ids.FileId:
    name = ids.parse_file_name(path.name)
    if name is None:
        raise UsageError("its name does not tell a thread id", path=path, remedy="fork it with copy=True")
    return name.file


def _is_same(path: Path, other: Path, found: Opened, fs: FileSystem) -> bool:
    """Whether both are paths of the file that was found: it may have been sealed, or be reached in another way."""
    if str(path.absolute()).removesuffix(".zst") == str(other).removesuffix(".zst"):
        return True
    with contextlib.closing(open_path(path, fs=fs)) as here:
        return _are_one(here, found)


@dataclasses.dataclass(frozen=True, slots=True)
class Meta:
    """The first session_meta of a file: the keys of the line and of its payload, as they stand, and where it ends."""

    line: dict[str, Raw]
    payload: dict[str, Raw]
    end: int


def meta_of(opened: Opened) -> Meta | None:
    """None if there is none at the beginning of the file."""
    source = opened.source
    for line in records.forward([Segment(source, min(source.size, DEFAULT.head_bytes))]):
        for _, data, envelope in codec.records_in(line.data):
            if envelope.type == SESSION_META:
                with contextlib.suppress(msgspec.ValidationError):
                    keys, payload = (_raw_keys.decode(found) for found in (data, codec.payload_of(data)))
                    return Meta(keys, payload, line.end)
    return None


def whole(lineage: Lineage) -> list[Segment]:
    """The segments of a lineage, newest first; NotFound if a base is missing."""
    segments = list(lineage)
    if lineage.missing:
        raise NotFound(lineage.missing[0].reason, path=lineage.opened[0].path, remedy="bring the base back first")
    return segments


def copied(
    head: bytes, segments: Sequence[Segment], skip: int = 0, cipher: LineCipher | None = None
) -> Iterator[bytes]:
    """The line `head`, then blocks of the lines of the segments (newest first) in their order; a `cipher` encrypts.

    Of the newest one the lines up to byte `skip` are left out. WriteError for a line that cannot be encrypted.
    """
    yield head if cipher is None else cipher.head(head)
    count = 1
    for segment in reversed(segments):
        start = skip if segment is segments[0] else 0
        for text in lines.stretches(segment.source, start, segment.end, BLOCK_BYTES):
            block = _unmarked(text if text.endswith(b"\n") else text + b"\n")
            if cipher is None:
                yield block
                continue
            try:
                made = cipher.lines(block.split(b"\n"), count)
            except RecordError as error:
                remedy = "repair it first, or fork it without copy=True"
                raise WriteError(f"cannot be encrypted: {error.message}", path=segment.path, remedy=remedy) from error
            yield b"".join(made)
            count += len(made)


def _unmarked(block: bytes) -> bytes:
    if _MARK_SIGN not in block:
        return block
    return b"".join(recovery.unmark(line + b"\n") for line in block[:-1].split(b"\n"))


@dataclasses.dataclass(frozen=True, slots=True)
class User:
    """A file that names another one as its base, `end` bytes of it (None: it does not tell).

    `base` is the identity of the file that a reader finds by that, None if it finds none.
    """

    path: Path
    end: int | None
    base: tuple[int, int] | None

    def needs(self, file: tuple[int, int], first: int) -> bool:
        """Whether it needs bytes of the file of that identity from `first` on; perhaps, if a reader finds no base."""
        return self.end is not None and self.end > first and self.base in {None, file}


def told(users: Sequence[User]) -> str:
    """The names of some of them, for a message."""
    return ", ".join(user.path.name for user in users[:_SHOWN]) + (", …" if len(users) > _SHOWN else "")


class Users:
    """The users of files of a home. What the beginning of a file says is read once, as long as it does not change."""

    def __init__(self, home: Path | None, fs: FileSystem = REAL, limits: Limits = DEFAULT) -> None:
        self._home, self._fs, self._limits = home, fs, limits
        self._known: dict[Path, tuple[Status, Base | None]] = {}

    def of(self, files: Sequence[Path]) -> list[User]:
        """Those that a reader leads to one of the files and that are none of them, by path."""
        wanted = {self._fs.status(file).identity for file in files}
        return [user for user in self.naming(files) if user.base in wanted]

    def naming(self, files: Sequence[Path]) -> list[User]:
        """Those that name the id of one of the files (which need not be there) and are none of them, by path.

        They are looked for in the home and beside the files.
        """
        named = {parts.file for file in files if (parts := ids.parse_file_name(file.name)) is not None}
        own = {file.absolute() for file in files}
        entries = [] if self._home is None else list(homes.scan(self._home, fs=self._fs))
        found = {entry.path.absolute() for entry in entries}
        for folder in {file.parent for file in own}:
            with contextlib.suppress(OSError):
                found |= {entry.path for entry in homes.entries_among(self._fs.listed(folder), folder)}
        bases = Bases(self._home, self._fs, entries)
        return [user for path in sorted(found - own) for user in self._look(path, named, bases)]

    def refuse(self, path: Path) -> None:
        """InUse if files go on from the one at `path` by reference: its bytes are to move."""
        identity = self._fs.status(path).identity
        if used := [user for user in self.naming([path]) if user.needs(identity, 0)]:
            what = f"bytes that would move are referred to by {told(used)}"
            raise InUse(what, path=path, remedy="detach those first")

    def _look(self, path: Path, named: set[FileId], bases: Bases) -> Iterator[User]:
        """The file at `path`, if it names one of the ids."""
        with contextlib.suppress(OSError, SourceError):
            status, known = self._fs.status(path), self._known.get(path)
            if known is None or known[0] != status:
                with contextlib.closing(open_path(path, fs=self._fs, limits=self._limits)) as opened:
                    known = self._known[path] = (status, base_of(opened.session))
            base = known[1]
            if base is not None and base.id in named:
                with Origin(None, path, None, self._limits, size=0, fs=self._fs, bases=bases).opened() as lineage:
                    segments = list(itertools.islice(lineage, 2))
                    file = lineage.opened[1].file if len(segments) > 1 else None
                    yield User(path, base.end, None if file is None else file.identity)


@dataclasses.dataclass(frozen=True, slots=True)
class Parting:
    """Where the newest line that two logs share ends: in which segment of either (0 is the newest), at which byte."""

    before: tuple[int, int]
    after: tuple[int, int]


def parting_of(before: Lineage, after: Lineage, limits: Limits) -> Parting | None:
    """None if they share no line. Reads no more than the heads of their files, or of copies what is the same."""
    old, new = list(before), list(after)
    for i, segment in enumerate(old):
        for j, other in enumerate(new):
            if _are_one(before.opened[i], after.opened[j]):
                end = min(segment.end, other.end)
                return Parting((i, end), (j, end)) if end > 0 else None
    their_ids, our_ids = (_first_ids(segments, limits) for segments in (old, new))
    return None if their_ids.isdisjoint(our_ids) else _parting_of_copies(old, new, limits)


def is_all(segments: Sequence[Segment], place: tuple[int, int]) -> bool:
    """Whether nothing but session_metas of forks stands behind a place of a lineage."""
    number, end = place
    return end == segments[number].end and next(_lines(segments[:number], DEFAULT), None) is None


def find_copied(child: Opened, origin: Origin, of_thread: Threads) -> range:
    """The bytes of a fork that are copies: from behind its own session_meta on; none if it is no fork that copies.

    None either if its source is not there. `origin` says where bases are looked up, and in which file system.
    SourceError if the child cannot be read.
    """
    meta, facts = meta_of(child), facts_of(child.session)
    if meta is None or facts.base is not None:
        return range(0)
    own = None if child.path is None else child.path.absolute()
    for path in of_thread.get(facts.forked_from or "", ()):
        if path == own:
            continue
        with (
            contextlib.suppress(SourceError),
            dataclasses.replace(origin, path=path, size=None).opened() as lineage,
        ):
            source, copies = list(lineage), [Segment(child.source, child.source.size)]
            found = None if lineage.missing else _parting_of_copies(source, copies, origin.limits)
            if found is not None:
                return range(meta.end, found.after[1])
    return range(0)


def _are_one(one: Opened, other: Opened) -> bool:
    if one.file is not None and other.file is not None:
        return one.file.identity == other.file.identity
    if one.file is not None or other.file is not None or one.source.size != other.source.size:
        return False
    return one.source.read_at(0, one.source.size) == other.source.read_at(0, other.source.size)


def _parting_of_copies(old: Sequence[Segment], new: Sequence[Segment], limits: Limits) -> Parting | None:
    found = None
    for line, copy in zip(_lines(old, limits), _lines(new, limits), strict=False):
        if line.data != copy.data and _without_time(line.data) != _without_time(copy.data):
            break
        found = Parting((line.segment, line.end), (copy.segment, copy.end))
    return found


def _lines(segments: Sequence[Segment], limits: Limits) -> Iterator[Line]:
    """The lines that hold any record but a session_meta, oldest first."""
    for line in records.forward(segments, limits):
        if any(envelope.type != SESSION_META for _, _, envelope in codec.records_in(line.data, limits.depth)):
            yield line


def _first_ids(segments: Sequence[Segment], limits: Limits) -> set[str]:
    """The ids of the session_metas at the beginning of a lineage."""
    found: set[str] = set()
    for line in records.forward(segments, limits):
        for _, data, envelope in codec.records_in(line.data, limits.depth):
            if envelope.type != SESSION_META:
                return found
            meta = strict_json.decode_value(codec.payload_of(data))
            if isinstance(meta, dict) and isinstance(meta.get("id"), str):
                found.add(meta["id"])
    return found


def _without_time(line: bytes) -> bytes:
    """A line that stands alone, but for the time at its front."""
    time = _TIME.match(line)
    return recovery.unmark(line[0 if time is None else time.end() :] + b"\n")
