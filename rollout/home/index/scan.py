"""Scan one rollout file for the index: what it says (its entry), going on from the checkpoint of an earlier scan.

A file that grew is read from where its checkpoint ends; what is appended can take back, replace or damage what was
there, and the entry is the same as that of a file read at once. Only where a compaction of the old kind stands are
users' older texts read again.

What a fork goes on from is not read for each fork. A fork that takes nothing back beyond a *seam*, a place where a turn
begins, only adds to what the log says up to there, its *prefix*. Prefixes are remembered by their seams: so of a chain
of forks each file is read once, and of many forks of one file so is that.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from rollout.dialects.codex import envelope
from rollout.dialects.codex.dialect import CODEX
from rollout.dialects.codex.session_meta import base_id, lineage_of
from rollout.dialects.codex.tokens import read_gauge
from rollout.errors import NotFound, TooLarge
from rollout.files.bases import Bases
from rollout.files.disk import REAL, FileSystem
from rollout.files.encrypted.keys import NO_KEYS, Keys
from rollout.files.lineage import Head, Lineage, Opened, open_bytes, open_path, visible_end
from rollout.files.plain import FileSource
from rollout.files.sealed.reader import first_text, is_sealed
from rollout.fold.checkpoint import Kept, Memory, keep
from rollout.fold.collector import Collector
from rollout.fold.engine import Floor, Observer, Reconstruction
from rollout.fold.events import Mark
from rollout.fold.session_counts import Tally, question_of, tell_items
from rollout.fold.tokens import Gauge, Meter, MeteringCollector
from rollout.format import lines, strict_json
from rollout.format.labels import can_hold_label, label_of
from rollout.format.records import Segment
from rollout.home.index.checkpoint import Checkpoint, Prefix
from rollout.home.index.database import Link
from rollout.home.index.entry import EMPTY, FOREIGN, TOO_LARGE, Entry, entry_of_meta
from rollout.limits import DEFAULT, KIB, TURN_TEXT_CHARACTERS, Limits

_MOST_NUMBER = 1 << 62  # what the encodings of numbers hold
_MOST_PREFIXES = 10_000
_STEP_BYTES, _STEPS = 4 * KIB, 256
"""Of a file that others go on from, prefixes are found out so many bytes apart, but not more than so many of them."""
_FIRST_CHUNK_BYTES = 8 * KIB
"""So much is read at first to find out one of them."""
_NOTHING = Memory(0, 0, (0,), ("",), None, [])

Progress = Callable[[int, int], None]
Fact = TypeVar("Fact")


class Seam(NamedTuple):
    """A place in a file: the file's path and identity, and the byte at which a turn begins; see `Floor`."""

    path: str
    device: int
    inode: int
    offset: int


class Scan(msgspec.Struct, frozen=True):
    """What a scan has found. `is_new`: the checkpoint was of no use, and the file was scanned from its beginning.

    `links`: which file each of the bases goes on from that were opened, by their paths.
    """

    entry: Entry
    checkpoint: Checkpoint
    is_new: bool
    links: dict[str, Link]


class _TooShallow(Exception):
    """A checkpoint ends where something is to be taken back beyond."""


def scan(
    path: Path,
    home: Path | None,
    *,
    before: tuple[Entry, Checkpoint] | None = None,
    fs: FileSystem = REAL,
    keys: Keys = NO_KEYS,
    limits: Limits = DEFAULT,
    progress: Progress | None = None,
    bases: Bases | None = None,
    prefixes: dict[Seam, Prefix] | None = None,
) -> Scan:
    """Read a file from where its checkpoint ends, and of its bases what `prefixes` do not tell (it adds to them).

    What was known `before` is of use if the file still goes on from there: the caller has made sure that it is the
    same file, here only the last bytes are compared. A file beyond the limits has an entry that says so.

    Raises:
        SourceError: the file cannot be read.
        OSError: the disk fails.
    """
    if before is not None and before[0].trouble == TOO_LARGE:
        before = None
    prefixes = {} if prefixes is None else prefixes
    try:
        for known, stops in ((before, True), (None, True), (None, False)):
            with contextlib.suppress(_TooShallow), contextlib.ExitStack() as stack:
                opened, goes_on = _open(path, fs, keys, limits, None if known is None else known[1])
                stack.callback(opened.close)
                now = known if goes_on else None
                end = visible_end(opened.source, limits, 0 if now is None else now[1].memory.end)
                lineage = Lineage(opened, home=home, fs=fs, keys=keys, limits=limits, end=end, bases=bases)
                stack.callback(lineage.close)
                return _Log(lineage, now, limits, prefixes, progress, stops=stops).scan()
    except TooLarge:
        return _scan_head(path, fs, keys, limits)
    raise AssertionError("a scan that stops nowhere is never too shallow")


def _open(path: Path, fs: FileSystem, keys: Keys, limits: Limits, known: Checkpoint | None) -> tuple[Opened, bool]:
    """The file, and whether it goes on from what is known; its head is then known too."""
    if known is not None:  # without keys nothing can be known of an encrypted file
        opened = open_path(path, fs=fs, keys=keys, limits=limits, is_known=not keys)
        with contextlib.ExitStack() as stack:
            stack.callback(opened.close)
            end = known.memory.end
            if opened.source.size >= end and lines.checksum_before(opened.source, end) == known.join:
                if known.meta is not None:
                    opened.head = Head(known.meta, known.meta_is_first)
                if known.meta is not None or opened.session is None:  # one that comes late may bring bases along
                    stack.pop_all()
                    return opened, True
    return open_path(path, fs=fs, keys=keys, limits=limits), False


def _scan_head(path: Path, fs: FileSystem, keys: Keys, limits: Limits) -> Scan:
    """What is told of a file beyond the limits: what its head says, and that it is one."""
    with contextlib.closing(fs.open_read(path)) as file:
        sealed = is_sealed(file.read_at(0, 4))
        head = first_text(FileSource(file), limits) if sealed else file.read_at(file.data_start(), limits.head_bytes)
        with contextlib.closing(open_bytes(head, keys=keys, limits=limits)) as opened:
            opened.path = path  # whose name tells the thread where the head does not
            told = entry_of_meta(opened.session, opened.thread or "")
        entry = msgspec.structs.replace(told, size=file.size(), identity=file.identity, trouble=TOO_LARGE)
        return Scan(entry, Checkpoint(_NOTHING), is_new=True, links={})


class _Labels:
    """The labels of the lines that are read."""

    def __init__(self, session_ids: Sequence[str] = (), tags: Sequence[tuple[str, str]] = ()) -> None:
        self.session_ids, self.tags = set(session_ids), set(tags)

    def watch(self, batch: lines.Batch) -> None:
        """Some lines."""
        if not can_hold_label(b"\n".join(batch.lines)):
            return
        for line in filter(can_hold_label, batch.lines):
            pieces = [line] if envelope.decode_plain(line) else [piece.data for piece in envelope.split(line)]
            for label in map(label_of, pieces):
                self.tags.update(label.tags.items())
                if label.session_id is not None:
                    self.session_ids.add(label.session_id)


@dataclasses.dataclass(frozen=True, slots=True)
class _Pass:
    """What a pass over a part of a log has found; `floor` is the seam where it has stopped, None: the log's beginning.

    `first`, `base` and `gauge` are as in `Checkpoint`; `damage` counts what is wrong with the files that it has opened.
    """

    tally: Tally
    gather: Collector
    meter: Meter
    labels: _Labels
    first: tuple[int, int, str] | None
    base: tuple[int, int, bytes] | None
    gauge: tuple[int, int, int | None] | None
    is_measured: bool
    floor: Floor | None
    line_counts: tuple[int, ...]
    damage: int

    def behind(self, older: Prefix) -> Prefix:
        """What the log says up to the end of this part, if that is what it says up to its beginning."""
        tally = self.tally
        is_asked = tally.is_asked
        if older.is_asked or (older.first_message is not None and not is_asked):
            first = older.first_message
        else:
            first = None if self.first is None else self.first[2]
        newest = None if self.gauge is None else self.gauge[2]
        return Prefix(
            turns=tally.turns + older.turns,
            messages=tally.messages(None if self.base is None else self.base[2])
            + (older.messages if self.base is None else 0),
            first_message=first,
            is_asked=is_asked or older.is_asked,
            model=older.model if tally.model is None else tally.model,
            tokens=self._tokens(older),
            context_tokens=newest if self.is_measured else older.context_tokens,
            session_ids=tuple(sorted(self.labels.session_ids.union(older.session_ids))),
            tags=tuple(sorted(self.labels.tags.union(older.tags))),
            ledger=self.meter.base(older.ledger),
            file_damage=self.damage + older.file_damage,
            wants=older.wants,
        )

    def _tokens(self, older: Prefix) -> int | None:
        """S4: of the newest totals, if they are not older than the base."""
        usage, base = self.gather.usage, self.tally.base
        if usage is None:
            return older.tokens if base is None else None
        if base is not None and usage[0] > base.seq:
            return None
        total = strict_json.decode_value(usage[1]).get("total_tokens")
        is_count = isinstance(total, int) and not isinstance(total, bool) and abs(total) < _MOST_NUMBER
        return total if is_count else None


class _Log:
    """The files of a log, opened as they are asked for: number 0 is its own, the others are what it goes on from.

    `stops`: passes go no further than to the next seam.
    """

    def __init__(
        self,
        lineage: Lineage,
        before: tuple[Entry, Checkpoint] | None,
        limits: Limits,
        prefixes: dict[Seam, Prefix],
        progress: Progress | None,
        *,
        stops: bool,
    ) -> None:
        self._lineage, self._limits, self._prefixes, self._progress = lineage, limits, prefixes, progress
        self._entry = None if before is None else before[0]
        self._known = None if before is None else before[1]
        self._stops = stops
        self._more = iter(lineage)
        next(self._more)

    def scan(self) -> Scan:
        """The entry of the file, and the checkpoint from which it can be brought up to date."""
        known, opened, end = self._known, self._lineage.opened[0], self._lineage.end
        before = None if known is None else known.memory
        labels = _Labels() if known is None else _Labels(known.session_ids, known.tags)
        whole = lines.last_line_end(opened.source, 0 if before is None else before.end, end)
        marks: list[Kept] = []
        lasting = found = self._fold(0, whole, labels, before, lambda block: marks.extend(map(keep, reversed(block))))
        memory = self._remember(whole, lasting, marks, before)
        if whole < end:  # a tail, which is not remembered: it may be mended away
            found = self._fold(0, end, _Labels([*labels.session_ids], [*labels.tags]), memory)
        damage = self._damage  # of what was read so far
        prefix = self._prefix(lasting.floor)
        above = prefix if found is lasting else self._prefix(found.floor)
        kept = lasting.meter.ledger(None if known is None else known.ledger, prefix.ledger)
        spent = kept if found is lasting else found.meter.ledger(kept)
        is_kept = known is not None or (opened.head.offset is not None and opened.head.offset < whole)
        told = lasting.behind(prefix)
        checkpoint = Checkpoint(
            memory=memory,
            join=lines.checksum_before(opened.source, whole),
            meta=None if opened.session is None or not is_kept else lineage_of(opened.session),
            meta_is_first=opened.head.is_first,
            first=_within(found.first, whole),
            base=_within(found.base, whole),
            gauge=_within(found.gauge, whole),
            session_ids=told.session_ids,
            tags=told.tags,
            ledger=kept,
            file_damage=damage + prefix.file_damage if known is None else known.file_damage,
            floor=lasting.floor,
            prefix=prefix,
        )
        now = told if found is lasting else found.behind(above)
        entry = msgspec.structs.replace(
            self._head(prefix),
            first_message=now.first_message,
            model=now.model,
            turns=now.turns,
            messages=now.messages,
            tokens=now.tokens,
            damaged=len(found.tally.damaged) + checkpoint.file_damage + (end < opened.source.size),
            spent=spent.spent,
            context_tokens=now.context_tokens,
            session_ids=now.session_ids,
            tags=now.tags,
            text_bytes=opened.source.size,
            trouble=None if found.gather.seq else EMPTY if opened.source.size == 0 else FOREIGN,
            size=opened.source.size if opened.file is None else opened.file.size(),
            identity=(0, 0) if opened.file is None else opened.file.identity,
        )
        below = [(str(o.path), *o.file.identity) for o in self._lineage.opened[1:] if o.file is not None]
        links = {user[0]: Link(*base) for user, base in itertools.pairwise(below)}
        return Scan(entry, checkpoint, is_new=known is None, links=links)

    def _head(self, prefix: Prefix) -> Entry:
        """What the head of the file says, and what it goes on from."""
        opened = self._lineage.opened
        if self._known is not None and self._known.meta is not None and self._entry is not None:
            return self._entry
        told = entry_of_meta(opened[0].session, opened[0].thread or "")
        if self._entry is not None:
            return msgspec.structs.replace(told, bases=self._entry.bases, wants=self._entry.wants)
        if len(opened) > 1:
            base = opened[1]
            file = () if base.file is None else ((str(base.path), *base.file.identity),)
            told = msgspec.structs.replace(told, base_thread=base.named_thread, bases=file)
        return msgspec.structs.replace(told, wants=prefix.wants)

    def _remember(self, end: int, found: _Pass, marks: list[Kept], before: Memory | None) -> Memory:
        threads = [segment.thread for segment in self._lineage.segments] if before is None else before.threads
        usage, counts = found.gather.usage, found.line_counts
        return Memory(
            end=end,
            records=found.gather.seq,
            line_counts=counts,
            threads=tuple(threads[: len(counts)]),
            usage=None if usage is None else (usage[0], bytes(usage[1])),
            marks=marks,
            is_cut=found.floor is not None,
        )

    def _fold(
        self, number: int, end: int, labels: _Labels, memory: Memory | None = None, *observers: Observer
    ) -> _Pass:
        """A pass over the log up to a place in one of its files (behind what is remembered), back to a seam."""
        limits, shift, damage = self._limits, max(0, number - 1), self._damage
        tally, gauge, meter = Tally(CODEX, lambda mark: self._fetch(mark, shift), limits.depth), Gauge(), Meter()
        segments = [dataclasses.replace(self._segment(number), end=end)]
        if number:  # what is spent and damaged in a base is not the fork's: a file of its own stands ahead of it
            segments.insert(0, Segment(lines.BytesSource(b""), 0))
            small = min(limits.first_chunk_bytes, _FIRST_CHUNK_BYTES)
            limits = dataclasses.replace(limits, first_chunk_bytes=small)
        gather = MeteringCollector(CODEX, meter, limits)
        gather.wants_world = False
        fold = Reconstruction(
            itertools.chain(segments, self._behind(number + 1) if memory is None else ()),
            gather,
            observers=(*observers, tally.see, gauge.see),
            progress=self._progress if number == 0 else None,
            memory=memory,
            watch=labels.watch,
            is_floor=lambda at: self._stops and tally.is_apart and self._is_floor(_shifted(at, shift), (number, end)),
        )
        counts = fold.run().line_counts
        if memory is not None and memory.is_cut and fold.floor is None:
            raise _TooShallow
        known = self._known if number == 0 and self._known is not None else Checkpoint(_NOTHING)
        first, base, place = tally.first, tally.base, gauge.place
        return _Pass(
            tally,
            gather,
            meter,
            labels,
            None if first is None else self._fact(known.first, first, shift, lambda line: _begin(line, first)),
            None if base is None else self._fact(known.base, base, shift, _tell_base),
            None if place is None else self._gauge(known.gauge, place, shift),
            gauge.is_found,
            None if fold.floor is None else _shifted(fold.floor, shift),
            tuple(count or 0 for count in counts),
            self._damage - damage,
        )

    def _fact(
        self, known: tuple[int, int, Fact] | None, mark: Mark, shift: int, read: Callable[[bytes], Fact]
    ) -> tuple[int, int, Fact]:
        """What the line of a mark says, unless that is `known`; with its place."""
        place = mark.segment + shift, mark.offset
        return known if known is not None and known[:2] == place else (*place, read(self._fetch(mark, shift)))

    def _gauge(
        self, known: tuple[int, int, int | None] | None, place: tuple[int, int, int], shift: int
    ) -> tuple[int, int, int | None]:
        """How much the line at a place (segment, offset, end) says was taken of the model's window."""
        number, offset, end = place[0] + shift, *place[1:]
        if known is not None and known[:2] == (number, offset):
            return known
        reading = read_gauge(self._read_at(number, offset, end), self._limits.depth)
        return number, offset, None if reading is None else reading.context_tokens

    def _prefix(self, floor: Floor | None) -> Prefix:
        """What the log says up to a floor; None: to its beginning."""
        if self._known is not None and self._known.floor == floor:
            return self._known.prefix
        parts: list[tuple[Seam, _Pass]] = []
        while floor is not None and (seam := self._seam(floor)) not in self._prefixes:
            found = self._fold(*floor, _Labels())
            parts.append((seam, found))
            floor = found.floor
        if floor is not None:
            prefix = self._prefixes[self._seam(floor)]
        else:
            prefix = Prefix(wants=base_id(self._lineage.opened[-1].session) if self._lineage.missing else None)
        for seam, found in reversed(parts):
            prefix = self._prefixes[seam] = found.behind(prefix)
            if len(self._prefixes) > _MOST_PREFIXES:
                del self._prefixes[next(iter(self._prefixes))]
        return prefix

    def _is_floor(self, floor: Floor, since: tuple[int, int]) -> bool:
        """Whether a pass from `since` on is to stop there: in another file, after a while, or where all is known."""
        number, offset = floor
        if number == 0:
            return False
        if number != since[0] or self._seam(floor) in self._prefixes:
            return True
        return since[1] - offset >= max(_STEP_BYTES, self._lineage.segments[number].source.size // _STEPS)

    def _seam(self, floor: Floor) -> Seam:
        self._segment(floor.segment)
        opened = self._lineage.opened[floor.segment]
        identity = (0, 0) if opened.file is None else opened.file.identity
        return Seam(str(opened.path), *identity, floor.offset)

    def _behind(self, number: int) -> Iterator[Segment]:
        """The files from that number on."""
        while True:
            while len(self._lineage.segments) <= number:
                if next(self._more, None) is None:
                    return
            yield self._lineage.segments[number]
            number += 1

    def _segment(self, number: int) -> Segment:
        """One of the files. NotFound."""
        segment = next(self._behind(number), None)
        if segment is None:
            raise NotFound("its base went away while it was read", path=self._lineage.opened[0].path)
        return segment

    def _read_at(self, number: int, begin: int, end: int) -> bytes:
        return self._segment(number).source.read_at(begin, end - begin)

    def _fetch(self, mark: Mark, shift: int) -> bytes:
        """The bytes of a mark whose segments count from file `shift` on."""
        return self._read_at(mark.segment + shift, mark.begin, mark.offset + mark.size)

    @property
    def _damage(self) -> int:
        """How much is wrong with the files that were opened, as files."""
        return sum(damage.kind != "batch" for damage in self._lineage.damage())


def _shifted(floor: Floor, by: int) -> Floor:
    return floor._replace(segment=floor.segment + by)


def _tell_base(line: bytes) -> bytes:
    return tell_items(CODEX, CODEX.compaction_of(line).items or [])


def _begin(line: bytes, first: Mark) -> str:
    return question_of(CODEX, line, first.event, TURN_TEXT_CHARACTERS)


def _within(fact: tuple[int, int, Fact] | None, end: int) -> tuple[int, int, Fact] | None:
    """What lies in a base or ahead of the end of the memory."""
    return fact if fact is not None and (fact[0] > 0 or fact[1] < end) else None
