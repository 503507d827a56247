"""Rollout files as sources, and the lineage of files that one continues.

A file that is being written while it is read is read as it was when it was opened: its size is taken once.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rollout import ids
from rollout.dialects.codex import envelope
from rollout.dialects.codex.envelope import holds_record as holds_record
from rollout.dialects.codex.names import SESSION_META
from rollout.dialects.codex.session_meta import Base, base_of
from rollout.errors import NotFound, SourceError, TooLarge
from rollout.files import layout as homes
from rollout.files.disk import REAL, FileSystem, ReadFile
from rollout.files.encrypted.keys import NO_KEYS, Keys
from rollout.files.encrypted.reader import AnyText, DecryptingSource, plain_source, text_of
from rollout.files.layout import Bases
from rollout.files.log_end import ordinal_of
from rollout.files.plain import FileSource
from rollout.files.recovery import ends_in_whole_batch, incomplete_batch_start
from rollout.files.sealed.reader import SealedSource, is_sealed, twin
from rollout.format import lines, records, strict_json
from rollout.format.labels import UNLABELLED, Label, label_of
from rollout.format.lines import Damage
from rollout.format.records import Line, Segment
from rollout.limits import DEFAULT, KIB, Limits

_NUL_RUN = re.compile(rb"\0+")
_END_BYTES = 4 * KIB
"""So much of the end of a file is read first: who reads on back from there reads it along."""


@dataclasses.dataclass(frozen=True, slots=True)
class Head:
    """The first session_meta that begins within `limits.head_bytes` of a file: its payload, None if there is none.

    `offset` is where its line begins, `label` is that of the line. `is_first`: no record stands before it. `is_bare`:
    it has no envelope, as they were written in 2025.
    """

    session: dict[str, Any] | None = None
    is_first: bool = False
    is_bare: bool = False
    label: Label = UNLABELLED
    offset: int | None = None


@dataclasses.dataclass
class Opened:
    """One open rollout file, or bytes in memory (`path` None). Close it."""

    path: Path | None
    source: AnyText
    file: ReadFile | None
    limits: Limits = DEFAULT

    @property
    def name(self) -> str | None:
        """Its path as results tell it; None for bytes in memory."""
        return None if self.path is None else str(self.path)

    @property
    def session(self) -> dict[str, Any] | None:
        """The payload of the first session_meta; None if there is none."""
        return self.head.session

    @property
    def stored(self) -> lines.Source:
        """The text as it stands there (unpacked), encrypted if it is."""
        return plain_source(self.source)

    def lines(self) -> Iterator[Line]:
        """Its lines, oldest first. TooLarge."""
        return records.forward([Segment(self.source, self.source.size)], self.limits)

    def close(self) -> None:
        """Lets go of the file."""
        if isinstance(stored := self.stored, SealedSource):
            stored.close()
        if self.file is not None:
            self.file.close()

    @property
    def thread(self) -> str | None:
        """The thread id: of the first line if it is a session_meta, else of the file's name, else of a later one."""
        own = (self.session or {}).get("id")
        if not isinstance(own, str):
            return self._named
        return own if self.head.is_first else self._named or own

    @property
    def named_thread(self) -> str | None:
        """The thread id of the file's name; `thread` if the name tells none."""
        return self._named or self.thread

    @property
    def _named(self) -> str | None:
        named = None if self.path is None else ids.parse_file_name(self.path.name)
        return None if named is None else named.thread

    @functools.cached_property
    def head(self) -> Head:
        """How the file begins: looked for once, unless an earlier look at the file is put in its place."""
        first_bytes = min(self.limits.chunk_bytes, self.limits.first_chunk_bytes)
        source, begin, is_first = self.source, 0, True
        if isinstance(source, DecryptingSource):  # no other line can be it, and this one says something without a key
            source = lines.BytesSource(source.head())
        elif self.file is not None and isinstance(source, FileSource):
            begin = self.file.data_start()  # a hole in a sparse file reads as NUL bytes, which say nothing
        small = dataclasses.replace(self.limits, chunk_bytes=first_bytes)
        for line in records.forward([Segment(source, source.size)], small, start=begin):
            if line.offset > begin + self.limits.head_bytes:
                break
            for piece in envelope.split(line.data, self.limits.depth):
                if piece.envelope is not None and piece.envelope.type == SESSION_META:
                    found = strict_json.decode_value(envelope.payload_of(piece.data))
                    if isinstance(found, dict):
                        is_bare = piece.envelope is envelope.SESSION_META
                        return Head(found, is_first, is_bare, label_of(piece.data), line.offset)
                is_first = False
            is_first = is_first and line.skipped != "oversize"
        return Head()


def open_path(path: Path, *, fs: FileSystem = REAL, keys: Keys = NO_KEYS, limits: Limits = DEFAULT) -> Opened:
    """A plain or sealed rollout file; its twin where it is not there, as it may have been sealed or unsealed just now.

    SourceError (NotFound, NotARollout) if it cannot be opened.
    """
    file, path = _open_either(path, fs)
    try:
        sealed = is_sealed(file.read_at(0, 4))
        stored = FileSource(file)
        if not sealed:  # the end first: one that is mended behind this cannot be taken for what follows the beginning
            stored.read_at(max(0, stored.size - _END_BYTES), _END_BYTES)
        source = SealedSource(stored, limits, path) if sealed else stored
        start = 0 if sealed else file.data_start()
        text = text_of(source, keys, limits, path, start)
        return Opened(path, text, file, limits)
    except BaseException:
        file.close()
        raise


def _open_either(path: Path, fs: FileSystem) -> tuple[ReadFile, Path]:
    for name in (path, twin(path)):
        if name is not None:
            with contextlib.suppress(NotFound):
                return fs.open_read(name), name
    return fs.open_read(path), path  # may be here again: its twin has just gone


def open_bytes(data: bytes | bytearray | memoryview, *, keys: Keys = NO_KEYS, limits: Limits = DEFAULT) -> Opened:
    """A rollout in memory, plain or sealed."""
    source = lines.BytesSource(data)
    stored = SealedSource(source, limits) if is_sealed(bytes(source.data[:4])) else source
    return Opened(None, text_of(stored, keys, limits), None, limits)


def visible_end(source: lines.Source, limits: Limits = DEFAULT, start: int = 0) -> int:
    """Where a file ends for a reader: before an incomplete batch at its end (see `recovery`).

    `start` is the beginning of a line before which no such batch lies.
    """
    if ends_in_whole_batch(source, source.size, start, limits):
        return source.size
    found = incomplete_batch_start(_newest_first(source, limits, start), holds_record)
    return source.size if found is None else found


def _newest_first(source: lines.Source, limits: Limits, start: int) -> Iterator[tuple[int, bytes]]:
    blank, most = 0, limits.spare_odd_lines
    for line in records.backward([Segment(source, source.size)], limits, start=start):
        if line.skipped == "oversize":
            return  # no batch is as long as this
        offset, data, is_gap = line.offset, line.data, line.skipped == "gap"
        if is_gap or (offset and source.read_at(offset - 1, 1) == b"\0"):  # a piece behind a gap is no line of its own
            offset, data = offset - (not is_gap), b"\0" + data
        if most is not None and (not data or b"\0" in data or data.isspace()):
            blank += 1 + len(_NUL_RUN.findall(data))
            if blank > most:
                raise TooLarge("ends in too many lines that are blank or hold NUL bytes")
        if data and (line.ends or is_gap or holds_record(data)):
            yield offset, data


class Lineage:
    """The files that a rollout continues, opened as they are needed, newest first. Close it.

    Bases are looked up in `bases`, else in `home`, else in the home that the first file lies in.
    """

    def __init__(
        self,
        first: Opened,
        *,
        home: Path | None,
        fs: FileSystem = REAL,
        keys: Keys = NO_KEYS,
        limits: Limits = DEFAULT,
        end: int | None = None,
        bases: Bases | None = None,
    ) -> None:
        self.opened = [first]
        self.end = visible_end(first.stored, limits) if end is None else min(end, first.source.size)
        """How many bytes of the first file count: all, but for an incomplete batch at its end."""
        self._hides_batch = end is None and self.end < first.source.size
        self.segments: list[Segment] = []
        """Those that were met so far, newest first."""
        self.missing: list[Damage] = []
        """Bases that were not found, and so are not read."""
        self.inexact: list[Damage] = []
        """Bases that do not end as it is said, and are read."""
        if bases is None:
            bases = Bases(home or (None if first.path is None else homes.home_of(first.path)), fs)
        self.bases = bases
        """Where bases are looked up."""
        self._fs, self._keys, self._limits = fs, keys, limits
        self._met = set() if first.file is None else {first.file.identity}  # a file is no base of itself

    @property
    def bytes_read(self) -> int:
        """Bytes read of all files so far."""
        return sum(opened.source.bytes_read for opened in self.opened)

    def close(self) -> None:
        """Lets go of all files."""
        for opened in self.opened:
            opened.close()

    def damage(self) -> list[Damage]:
        """What is wrong with the files themselves: sealed frames, bases that are missing or end elsewhere."""
        found = [
            Damage(None, offset, reason, "sealed" if isinstance(source, SealedSource) else "encrypted", opened.name)
            for opened in self.opened
            for source in dict.fromkeys((opened.stored, opened.source))
            if isinstance(source, SealedSource | DecryptingSource)
            for offset, reason in source.damage
        ]
        if self._hides_batch:
            reason = "a batch of lines that a crash has cut short: none of them is visible"
            found.append(Damage(None, self.end, reason, "batch", self.opened[0].name))
        return self.missing + self.inexact + found

    def __iter__(self) -> Iterator[Segment]:
        opened, end = self.opened[0], self.end
        for _ in range(self._limits.lineage_depth):
            self.segments.append(Segment(opened.source, end, opened.thread or "", opened.name))
            yield self.segments[-1]
            base = base_of(opened.session)
            found = None if base is None else self._find_base(opened, base)
            if base is None or found is None:
                return
            opened, end = found, self._end_in(found, base, opened)
        self.missing.append(Damage(None, 0, f"more than {self._limits.lineage_depth} bases", "base"))

    def _find_base(self, child: Opened, base: Base) -> Opened | None:
        """The file that a file continues: the first one with that id that is so long. None, and why, if none is."""
        was_fresh, has_moved, why = self.bases.is_fresh, False, "is missing"
        for path in () if base.id is None or base.end is None else self.bases.candidates(base.id, child.path):
            try:
                opened = open_path(path, fs=self._fs, keys=self._keys, limits=self._limits)
            except SourceError as error:
                has_moved = has_moved or isinstance(error, NotFound)
                continue
            if opened.file is not None and opened.file.identity in self._met:
                why = "leads back to itself"
            elif base.end is not None and base.end > opened.source.size:
                why = f"is too short, {opened.source.size} bytes"
            else:
                self.opened.append(opened)
                self._met |= {opened.file.identity} if opened.file is not None else set()
                return opened
            opened.close()
        if has_moved and not was_fresh:  # one has gone since it was listed
            self.bases.forget()
            return self._find_base(child, base)
        told = f"{base.told!s:.80}, up to byte {base.told_end!s:.20}"
        self._report(self.missing, child, f"the base that this file continues {why}: {told}", "base")
        return None

    def _end_in(self, opened: Opened, base: Base, child: Opened) -> int:
        """Where the base ends: where it is said, or at the end of the line before; what does not fit is reported."""
        said = end = base.end or 0
        stored = opened.stored
        if end and stored.read_at(end - 1, 1) != b"\n":
            start = lines.last_line_end(stored, 0, end)
            is_whole = end - start <= self._limits.line_bytes and holds_record(stored.read_at(start, end - start))
            end = end if is_whole else start
            name = "" if opened.path is None else f" of {opened.path.name}"
            reason = f"its base is said to end at byte {said}{name}, where no line ends: it is read up to byte {end}"
            self._report(self.inexact, child, reason, "base_end")
        if base.ordinal is not None and end:
            newest = next(records.backward([Segment(stored, end)], self._limits), None)
            held = [] if newest is None else envelope.records_in(newest.data, self._limits.depth)
            last = ordinal_of(held[-1][1]) if held else None
            if last is not None and last != base.ordinal - 1:
                reason = f"its base is said to end before ordinal {base.ordinal!s:.20}, but ends with {last!s:.20}"
                self._report(self.inexact, child, f"{reason}: it is read all the same", "base_end")
        return end

    def _report(self, to: list[Damage], child: Opened, reason: str, kind: str) -> None:
        to.append(Damage(1, 0, reason, kind, child.name))
