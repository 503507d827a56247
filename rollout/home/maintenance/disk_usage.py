"""`du`: what the bytes of rollouts are for.

Each byte of a file's text has one cause, and the causes add up to the text. A line's bytes, with its end and whatever
stands around its record, go by what the record is and what became of it (`explain`):

    copied_prefix   lines that a fork holds though its source has them (see `files.fork`), whatever they are
    compactions     `compacted` lines: copies of items, and images in them
    images          data: URLs (base64) inside other items and events
    standing, replaced, rolled_back, removed
                    the rest of the items: the model sees them, or a compaction, a rollback, items_removed took them
    events          event_msg lines (token counts too)
    metadata        session_meta, turn_context, world_state, token_usage_record, items that no model sees, unknown kinds
    damaged, blank  what is no record or has no effect; what says nothing

What sealing would give back is an estimate: pieces of the file are really packed, all of a small file, of a large one
16 MiB that are spread evenly.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import zstandard

from rollout import ids
from rollout.dialects.codex.dialect import CODEX
from rollout.errors import RolloutError
from rollout.files import layout as homes
from rollout.files.disk import FileSystem
from rollout.files.encrypted.keys import Keys
from rollout.files.fork import Threads, find_copied
from rollout.files.layout import Bases
from rollout.files.lineage import Opened, open_path
from rollout.files.port import Progress
from rollout.files.sealed.reader import SealedSource
from rollout.files.source import Origin
from rollout.fold import line_status
from rollout.format import lines
from rollout.format.records import Segment
from rollout.items.events import Replaced, Settings, WorldState
from rollout.limits import MIB
from rollout.session.explanation import Explanation
from rollout.session.record import BLANK, Record, read_records

CAUSES = (
    *("standing", "replaced", "rolled_back", "removed", "images"),
    *("copied_prefix", "compactions", "events", "metadata", "damaged", "blank"),
)
_SAMPLES = 16
_LEVEL = 3
_DATA_URL = re.compile(rb'data:[^"\s,;:]{0,128}+(?:;[^"\s,;:]{0,128}+){0,8}?;base64,[A-Za-z0-9+/=_-]*+')


@dataclasses.dataclass(frozen=True, slots=True)
class FileUsage:
    """One file, or a sum of `files`: `causes` (the bytes of text for each of CAUSES) add up to `text_bytes`.

    `disk_bytes` is its size on the disk, of a sealed one that of the packed file; `would_free_bytes` what sealing would
    give back of it (an estimate; 0 for a sealed one). `trouble`: why it could not be read; nothing is known of it then.
    """

    path: Path | None
    text_bytes: int
    disk_bytes: int
    sealed: bool
    causes: Mapping[str, int]
    would_free_bytes: int
    files: int = 1
    trouble: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class DiskUsage:
    """The files, oldest first, and their sum."""

    rows: tuple[FileUsage, ...]

    @property
    def total(self) -> FileUsage:
        """Of all rows; `sealed` if all are."""
        causes = {cause: sum(row.causes[cause] for row in self.rows) for cause in CAUSES}
        text, disk = sum(row.text_bytes for row in self.rows), sum(row.disk_bytes for row in self.rows)
        freed = sum(row.would_free_bytes for row in self.rows)
        return FileUsage(None, text, disk, all(row.sealed for row in self.rows), causes, freed, len(self.rows))


def measure(
    paths: Sequence[Path] | None, home: Path, fs: FileSystem, keys: Keys, progress: Progress | None = None
) -> DiskUsage:
    """The files at `paths`, or all of the home. A path that is not there is a row with its trouble.

    `progress(bytes_done, bytes_total)` counts bytes on the disk and is called behind each file.
    """
    wanted = None if paths is None else {path.absolute() for path in paths}
    there = _rollouts(fs, home, {path.parent for path in wanted or ()})
    chosen = [path for path in there if wanted is None or path in wanted]
    chosen += sorted((wanted or set()) - set(chosen))  # of other names, or not there
    of_thread: dict[str, list[Path]] = {}
    for path in reversed(there):
        if parts := ids.parse_file_name(path.name):
            of_thread.setdefault(parts.thread, []).append(path)
    sizes = [_disk_bytes(fs, path) for path in chosen]
    rows, bases = list[FileUsage](), Bases(home, fs)
    for path, size, done in zip(chosen, sizes, itertools.accumulate(sizes), strict=True):
        rows.append(_measure_file(path, size, bases, home, fs, keys, of_thread))
        if progress is not None:
            progress(done, sum(sizes))
    return DiskUsage(tuple(rows))


def _rollouts(fs: FileSystem, home: Path, folders: set[Path]) -> list[Path]:
    """The files of the home and of some folders, oldest first."""
    found = {entry.path.absolute() for entry in homes.scan(home, fs=fs)}
    for folder in folders:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            found |= {entry.path.absolute() for entry in homes.entries_among(fs.listed(folder), folder)}
    return sorted(found, key=lambda path: (path.name, str(path.parent)))


def _disk_bytes(fs: FileSystem, path: Path) -> int:
    """The size of a file; 0 if the system does not tell."""
    try:
        return fs.status(path).size
    except OSError:
        return 0


def _measure_file(
    path: Path, disk_bytes: int, bases: Bases, home: Path, fs: FileSystem, keys: Keys, of_thread: Threads
) -> FileUsage:
    causes = dict.fromkeys(CAUSES, 0)
    try:
        with contextlib.closing(open_path(path, fs=fs, keys=keys)) as opened:
            for cause, n in _causes(opened, Origin(None, path, home, fs=fs, keys=keys, bases=bases), of_thread):
                causes[cause] += n
            sealed = isinstance(opened.stored, SealedSource)
            text_bytes = opened.source.size
            packed = text_bytes if sealed else _estimate_sealed(opened.stored)
    except (RolloutError, OSError) as error:
        why = error.message if isinstance(error, RolloutError) else str(error.strerror)
        return FileUsage(path, 0, disk_bytes, False, dict.fromkeys(CAUSES, 0), 0, trouble=why)
    would_free = 0 if sealed else max(disk_bytes - packed, 0)
    return FileUsage(path, text_bytes, disk_bytes, sealed, causes, would_free)


def _causes(opened: Opened, origin: Origin, of_thread: Threads) -> Iterator[tuple[str, int]]:
    """Causes with their bytes, in the order of the file."""
    copied = find_copied(opened, origin, of_thread)
    explained = (row for row in Explanation(origin, whole=False) if row.inherited is None)
    row = next(explained, None)
    for record in read_records([Segment(opened.source, opened.source.size)], opened.limits):
        while row is not None and row.offset < record.offset:
            row = next(explained, None)
        if record.offset in copied:
            yield "copied_prefix", len(record.raw)
        elif record.type == BLANK or record.is_damaged or row is None or row.offset > record.offset:
            yield "blank" if record.type == BLANK else "damaged", len(record.raw)
        else:
            cause = _cause(record, row.status)
            images = 0
            if cause not in {"compactions", "metadata", "damaged"}:
                images = sum(url.end() - url.start() for url in _DATA_URL.finditer(record.raw))
            yield "images", images
            yield cause, len(record.raw) - images


def _cause(record: Record, status: str) -> str:
    match status:
        case line_status.VISIBLE:
            return "standing"
        case line_status.EVENT:
            return "events"
        case line_status.DAMAGED:
            return status
    match CODEX.event_of(record.data, record.envelope, False):
        case Replaced():
            return "compactions"
        case Settings() | WorldState():
            return "metadata"
    return status


def _estimate_sealed(source: lines.Source) -> int:
    """About so many bytes the text takes as a sealed file."""
    count = -(-source.size // MIB)
    samples = min(count, _SAMPLES)
    packer = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True)
    text_bytes = packed_bytes = 0
    for i in (k * count // samples for k in range(samples)):
        text = source.read_at(i * MIB, min(MIB, source.size - i * MIB))
        text_bytes += len(text)
        packed_bytes += len(packer.compress(text))
    return packed_bytes * source.size // text_bytes if text_bytes else 0
