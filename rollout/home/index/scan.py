"""Scan one rollout file for the index: what it says (its entry), going on from the checkpoint of an earlier scan.

Read backward, a log falls into parts at *seams*: places where a turn begins beyond which nothing newer takes anything
back. What is older than a seam is known by its *summary*, to which a newer part only adds. So reading ends at the first
seam whose summary is known. Of the file itself some are kept in its checkpoint: of one that grew, little more is read
than what was appended and what that takes back. Of the files that it goes on from they are remembered for as long as an
index is open: so of a chain of forks each file is read once, and of many forks of one file so is that.

The entry is the same as that of a file that is read at once.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Raw

from rollout.dialects.codex import envelope
from rollout.dialects.codex.dialect import CODEX
from rollout.dialects.codex.session_meta import base_id, facts_of
from rollout.dialects.codex.tokens import read_gauge
from rollout.errors import TooLarge
from rollout.files.disk import REAL, FileSystem
from rollout.files.encrypted.keys import NO_KEYS, Keys
from rollout.files.layout import Bases
from rollout.files.lineage import Lineage, Opened, open_bytes, open_path, visible_end
from rollout.files.plain import FileSource
from rollout.files.port import Progress
from rollout.files.sealed.reader import first_text, is_sealed
from rollout.fold.engine import Floor, Reconstruction
from rollout.fold.events import Mark
from rollout.fold.session_counts import Gauge, Meter, MeteringCollector, Tally, question_of, tell_items
from rollout.format import lines, strict_json
from rollout.format.labels import Label, can_hold_label, label_of
from rollout.home.index.database import Link
from rollout.home.index.entry import EMPTY, FOREIGN, TOO_LARGE, Entry, Summary
from rollout.limits import DEFAULT, KIB, TURN_TEXT_CHARACTERS, Limits

_MOST_NUMBER = 1 << 62  # what the encodings of numbers hold
_MOST_PREFIXES = 10_000
_STEP_BYTES, _STEPS = 4 * KIB, 256
"""Of a file that others go on from, seams are so many bytes apart, but there are not more than so many of them."""
_FARTHER = 4
"""Each seam of the file itself is so many times as far from its end as the one behind it: there are few of them, and
not much more is read again than what is taken back."""


class Checkpoint(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What is known up to the last line end of a file, to bring its entry up to date without reading all again."""

    end: int = 0
    join: bytes = b""
    """A checksum of the last bytes before the end."""
    seams: tuple[tuple[int, Summary], ...] = ()
    """Offsets of seams, newest first, and what the log says up to there."""


decode_checkpoint = msgspec.msgpack.Decoder(Checkpoint).decode
"""msgspec.DecodeError for bytes that are none, or of another version of this module."""


class Seam(NamedTuple):
    """A seam in a file that others go on from: the file's path and identity, and the byte at which a turn begins."""

    path: str
    device: int
    inode: int
    offset: int


class Scan(msgspec.Struct, frozen=True):
    """What a scan has found. `is_new`: the file does not go on from the checkpoint, if there was one.

    `links`: which file each of the bases goes on from that were opened, by their paths.
    """

    entry: Entry
    checkpoint: Checkpoint
    is_new: bool
    links: dict[str, Link]


def scan(
    path: Path,
    home: Path | None,
    *,
    before: Checkpoint | None = None,
    fs: FileSystem = REAL,
    keys: Keys = NO_KEYS,
    limits: Limits = DEFAULT,
    progress: Progress | None = None,
    bases: Bases | None = None,
    prefixes: dict[Seam, Summary] | None = None,
) -> Scan:
    """Read a file back to what its checkpoint tells, and of its bases what `prefixes` do not tell (it adds to them).

    What was known `before` is of use if the file still goes on from there: the caller has made sure that it is the
    same file, here only the last bytes are compared. A file beyond the limits has an entry that says so.

    Raises:
        SourceError: the file cannot be read.
        OSError: the disk fails.
    """
    try:
        with contextlib.closing(open_path(path, fs=fs, keys=keys, limits=limits)) as opened:
            known = before if before is not None and _goes_on(opened, before) else Checkpoint()
            end = visible_end(opened.source, limits, known.end)
            lineage = Lineage(opened, home=home, fs=fs, keys=keys, limits=limits, end=end, bases=bases)
            with contextlib.closing(lineage):
                return _Log(lineage, known, limits, {} if prefixes is None else prefixes, progress).scan()
    except TooLarge:
        return _scan_head(path, fs, keys, limits)


def _goes_on(opened: Opened, known: Checkpoint) -> bool:
    """Whether a file begins with what is known; a head that comes late may bring bases along."""
    size, end = opened.source.size, known.end
    if not 0 < end <= size or lines.checksum_before(opened.source, end) != known.join:
        return False
    return opened.head.offset is None or opened.head.offset < end


def _scan_head(path: Path, fs: FileSystem, keys: Keys, limits: Limits) -> Scan:
    """What is told of a file beyond the limits: what its head says, and that it is one."""
    with contextlib.closing(fs.open_read(path)) as file:
        sealed = is_sealed(file.read_at(0, 4))
        head = first_text(FileSource(file), limits) if sealed else file.read_at(file.data_start(), limits.head_bytes)
        with contextlib.closing(open_bytes(head, keys=keys, limits=limits)) as opened:
            opened.path = path  # whose name tells the thread where the head does not
            facts = facts_of(opened.session)._asdict()
            thread = opened.thread or ""
        entry = Entry(thread=thread, **facts, size=file.size(), identity=file.identity, trouble=TOO_LARGE)
        return Scan(entry, Checkpoint(), is_new=True, links={})


class _Part:
    """What stands between two seams, or behind the newest one (`above` is None): filled by a fold, newest first."""

    def __init__(self, above: Floor | None, lineage: Lineage, limits: Limits) -> None:
        self.above, self._lineage, self._depth = above, lineage, limits.depth
        self.tally, self.gauge, self.meter = Tally(CODEX, self._fetch, limits.depth), Gauge(), Meter()
        self.usage: tuple[int, Raw] | None = None
        """The newest token totals, and the number of their record."""
        self.session_ids: set[str] = set()
        self.tags: set[tuple[str, str]] = set()
        self.file_damage = 0

    def take_labels(self, labels: Iterable[Label]) -> None:
        """Those of some of its lines."""
        for label in labels:
            self.tags.update(label.tags.items())
            if label.session_id is not None:
                self.session_ids.add(label.session_id)

    def added_to(self, older: Summary) -> Summary:
        """What the log says up to the end of this part, if that is what it says up to its beginning."""
        tally, base = self.tally, self.tally.base
        first, is_asked = older.first_message, older.is_asked or tally.is_asked
        if tally.first is not None and not older.is_asked and (first is None or tally.is_asked):
            first = question_of(CODEX, self._fetch(tally.first), tally.first.event, TURN_TEXT_CHARACTERS)
        if base is None:
            messages = tally.messages(None) + older.messages
        else:
            messages = tally.messages(tell_items(CODEX, CODEX.compaction_of(self._fetch(base)).items or []))
        return msgspec.structs.replace(
            older,
            turns=tally.turns + older.turns,
            messages=messages,
            first_message=first,
            is_asked=is_asked,
            model=older.model if tally.model is None else tally.model,
            tokens=self._tokens(older),
            context_tokens=self._context_tokens() if self.gauge.is_found else older.context_tokens,
            session_ids=tuple(sorted(self.session_ids.union(older.session_ids))),
            tags=tuple(sorted(self.tags.union(older.tags))),
            damaged=older.damaged + len(tally.damaged) + self.file_damage,
            ledger=self.meter.ledger(older.ledger),
        )

    def _context_tokens(self) -> int | None:
        """What the line says that the gauge has found."""
        if self.gauge.place is None:
            return None
        segment, begin, end = self.gauge.place
        reading = read_gauge(self._lineage.segments[segment].source.read_at(begin, end - begin), self._depth)
        return None if reading is None else reading.context_tokens

    def _fetch(self, mark: Mark) -> bytes:
        source = self._lineage.segments[mark.segment].source
        return source.read_at(mark.begin, mark.offset + mark.size - mark.begin)

    def _tokens(self, older: Summary) -> int | None:
        """S4: of the newest totals, if they are not older than the base."""
        base = self.tally.base
        if self.usage is None:
            return older.tokens if base is None else None
        if base is not None and self.usage[0] > base.seq:
            return None
        total = strict_json.decode_value(self.usage[1]).get("total_tokens")
        is_count = isinstance(total, int) and not isinstance(total, bool) and abs(total) < _MOST_NUMBER
        return total if is_count else None


class _Log:
    """One reading of a log: of its own file, which is number 0, and of those that it goes on from."""

    def __init__(
        self,
        lineage: Lineage,
        known: Checkpoint,
        limits: Limits,
        prefixes: dict[Seam, Summary],
        progress: Progress | None,
    ) -> None:
        self._lineage, self._known, self._prefixes, self._progress = lineage, known, prefixes, progress
        if known.seams:  # at first no more is read than to the newest of them
            behind = max(1, lineage.end - known.seams[0][0])
            limits = dataclasses.replace(limits, first_chunk_bytes=min(behind, limits.first_chunk_bytes))
        self._parts = [_Part(None, lineage, limits)]
        self._below: Summary | None = None
        """What is known of all that is older than the last part."""
        self._gather = MeteringCollector(CODEX, self._parts[0].meter, limits)
        self._gather.wants_world = False
        self._labels: list[tuple[int, Label]] = []  # of the lines that were read last, with their offsets
        self._file_damage = 0

    def scan(self) -> Scan:
        """The entry of the file, and the checkpoint from which it can be brought up to date."""
        Reconstruction(
            self._lineage,
            self._gather,
            observers=[self._see],
            progress=self._tell,
            watch=self._watch,
            is_enough=lambda floor: floor is not None and self._ends_at(floor),
        ).run()
        if self._below is None:
            self._end_part(0)
            self._below = Summary(wants=base_id(self._lineage.opened[-1].session) if self._lineage.missing else None)
        opened, end = self._lineage.opened[0], self._lineage.end
        now, seams = self._add_up(self._below)
        whole = lines.last_line_end(opened.source, self._known.end, end)
        told = {**msgspec.structs.asdict(now), **facts_of(opened.session)._asdict()}
        told["damaged"] += end < opened.source.size
        entry = Entry(
            **told,
            thread=opened.thread or "",
            text_bytes=opened.source.size,
            trouble=None if self._gather.seq else EMPTY if opened.source.size == 0 else FOREIGN,
            size=opened.source.size if opened.file is None else opened.file.size(),
            identity=(0, 0) if opened.file is None else opened.file.identity,
        )
        below = [(str(o.path), *o.file.identity) for o in self._lineage.opened[1:] if o.file is not None]
        links = {user[0]: Link(*base) for user, base in itertools.pairwise(below)}
        checkpoint = Checkpoint(whole, lines.checksum_before(opened.source, whole), seams)
        return Scan(entry, checkpoint, is_new=not self._known.end, links=links)

    def _add_up(self, summary: Summary) -> tuple[Summary, tuple[tuple[int, Summary], ...]]:
        """What the log says up to its end, and up to seams of its own file; `summary`: up to where reading ended."""
        bases, base_thread = summary.bases, summary.base_thread
        if len(self._lineage.opened) > 1:
            base = self._lineage.opened[1]
            bases = () if base.file is None else ((str(base.path), *base.file.identity),)
            base_thread = base.named_thread
        seams: list[tuple[int, Summary]] = []
        for part in reversed(self._parts):
            summary = part.added_to(summary)
            if part.above is not None and part.above.segment:
                self._prefixes[self._seam(part.above)] = summary
                if len(self._prefixes) > _MOST_PREFIXES:
                    del self._prefixes[next(iter(self._prefixes))]
                continue
            summary = msgspec.structs.replace(summary, bases=bases, base_thread=base_thread)
            if part.above is not None:
                seams.append((part.above.offset, summary))
        oldest = seams[0][0] if seams else self._lineage.end
        kept: list[tuple[int, Summary]] = []
        for offset, told in [*reversed(seams), *(seam for seam in self._known.seams if seam[0] < oldest)]:
            if not kept or self._is_farther(offset, kept[-1][0]):
                kept.append((offset, told))
        return summary, tuple(kept)

    def _ends_at(self, floor: Floor) -> bool:
        """Ends the part at a floor that is to be a seam; whether all that is older is known."""
        number, offset = floor
        known = dict(self._known.seams).get(offset) if number == 0 else self._prefixes.get(self._seam(floor))
        source = self._lineage.segments[number].source
        if (
            not self._parts[-1].tally.is_apart
            or not (known or self._is_seam(floor))
            or (offset and source.read_at(offset - 1, 1) != b"\n")
        ):
            return False
        self._end_part(offset)
        self._below = known
        if known is None:
            self._parts.append(_Part(floor, self._lineage, self._gather.limits))
            self._gather.meter = self._parts[-1].meter
        return known is not None

    def _end_part(self, offset: int) -> None:
        part, damage = self._parts[-1], sum(damage.kind != "batch" for damage in self._lineage.damage())
        part.usage, self._gather.usage = self._gather.usage, None
        part.file_damage, self._file_damage = damage - self._file_damage, damage
        part.take_labels(label for at, label in self._labels if at >= offset)
        self._labels = [(at, label) for at, label in self._labels if at < offset]

    def _is_seam(self, floor: Floor) -> bool:
        """Whether one is kept: the newest of each file, and further ones some way from each other."""
        number, offset = floor
        newer = self._parts[-1].above or Floor(0, self._lineage.end)
        if number != newer.segment:
            return True
        if number == 0:
            return self._is_farther(offset, newer.offset)
        return newer.offset - offset >= max(_STEP_BYTES, self._lineage.segments[number].source.size // _STEPS)

    def _is_farther(self, offset: int, newer: int) -> bool:
        return self._lineage.end - offset >= _FARTHER * (self._lineage.end - newer)

    def _seam(self, floor: Floor) -> Seam:
        opened = self._lineage.opened[floor.segment]
        identity = (0, 0) if opened.file is None else opened.file.identity
        return Seam(str(opened.path), *identity, floor.offset)

    def _see(self, marks: Sequence[Mark]) -> None:
        self._parts[-1].tally.see(marks)
        self._parts[-1].gauge.see(marks)

    def _watch(self, batch: lines.Batch) -> None:
        """Lines that are about to be folded; of those before all were."""
        self._parts[-1].take_labels(label for _, label in self._labels)
        self._labels, offset = [], batch.offset
        if can_hold_label(b"\n".join(batch.lines)):
            for line in batch.lines:
                if can_hold_label(line):
                    found = envelope.records_in(line)
                    self._labels += [(offset + at, label_of(record)) for at, record, _ in found]
                offset += len(line) + 1

    def _tell(self, done: int, total: int) -> None:
        if self._progress is not None and self._gather.segment == 0:
            self._progress(done, total)
