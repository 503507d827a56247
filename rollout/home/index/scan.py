"""A look at a rollout file: its digest, and what has to be kept to bring that up to date.

A file that has grown is read from where the memory of it ends; what is appended can take back, replace or damage what
was there, and the digest is the same as that of a file read at once. Bases are read with the file once, and belong to
its memory from then on. Only where a compaction of the old kind stands are users' older texts read again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from rollout.errors import TooLarge
from rollout.files.bases import Bases, base_of
from rollout.files.disk import REAL, FileSystem
from rollout.files.encrypted.keys import NO_KEYS, Keys
from rollout.files.lineage import Lineage, Opened, open_bytes, open_path, visible_end
from rollout.files.sealed.reader import first_text, is_sealed
from rollout.fold.checkpoint import Memory, Recorder
from rollout.fold.engine import Floor, Reconstruction
from rollout.fold.events import Mark
from rollout.fold.session_counts import Tally, tell_items
from rollout.fold.token_ledger import Ledger
from rollout.fold.token_meter import Gauge, Meter, MeteringGatherer
from rollout.format import lines
from rollout.home.index.database import Link
from rollout.home.index.entry import Known
from rollout.home.index.entry_summary import TOO_LARGE, Digest, says_of_itself
from rollout.home.index.passes import Files, Labels, Part, Tee
from rollout.home.index.seams import MOST_NUMBER, Prefix, Prefixes
from rollout.limits import DEFAULT, Limits

EMPTY, FOREIGN = "empty", "no record of a rollout"

Progress = Callable[[int, int], None]


class Look(msgspec.Struct, frozen=True):
    """One look at a file. `is_new`: nothing of an earlier look was of use.

    `links`: of the bases that were met, which file each goes on from (path, device, inode).
    """

    known: Known
    memory: Memory
    is_new: bool
    bytes_read: int
    identity: tuple[int, int]
    links: tuple[tuple[str, Link], ...] = ()


def look(
    path: Path,
    home: Path | None,
    *,
    before: tuple[Known, Memory] | None = None,
    fs: FileSystem = REAL,
    keys: Keys = NO_KEYS,
    limits: Limits = DEFAULT,
    progress: Progress | None = None,
    bases: Bases | None = None,
    prefixes: Prefixes | None = None,
) -> Look:
    """Read a file (and of its bases what `prefixes` do not tell) from where the memory of it ends.

    SourceError; OSError if the disk fails.

    What was known `before` is of use if the file still goes on from there: the caller has made sure that it is the
    same file, here only the last bytes are compared. A file beyond the limits has a digest that says so.
    """
    if before is not None and before[0].digest.trouble == TOO_LARGE:
        before = None
    wanted = _Wanted(path, home, fs, keys, limits, progress, bases, Prefixes() if prefixes is None else prefixes)
    try:
        for again in (before, None):
            with contextlib.suppress(_TooShallow):
                return _look(wanted, again, stops=True)
        return _look(wanted, None, stops=False)
    except TooLarge:
        return _look_at_head(path, fs, keys, limits)


class _TooShallow(Exception):
    """What is remembered ends where something is to be taken back beyond."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Wanted:
    """What a look is to be at, and with what."""

    path: Path
    home: Path | None
    fs: FileSystem
    keys: Keys
    limits: Limits
    progress: Progress | None
    bases: Bases | None
    prefixes: Prefixes


def _look(wanted: _Wanted, before: tuple[Known, Memory] | None, *, stops: bool) -> Look:
    """`stops`: bases are read no further than to the next seam."""
    path, fs, keys, limits = wanted.path, wanted.fs, wanted.keys, wanted.limits
    is_known = before is not None and not keys  # without keys nothing can be known of an encrypted file
    opened = open_path(path, fs=fs, keys=keys, limits=limits, is_known=is_known)
    lineage = None
    try:
        if before is not None and not _goes_on(opened, *before):
            before = None
            opened.close()
            opened = open_path(path, fs=fs, keys=keys, limits=limits)
        end = visible_end(opened.source, limits, 0 if before is None else before[1].end)
        lineage = Lineage(opened, home=wanted.home, fs=fs, keys=keys, limits=limits, end=end, bases=wanted.bases)
        return _Reader(lineage, before, wanted, stops=stops).look()
    finally:
        (opened if lineage is None else lineage).close()


def _look_at_head(path: Path, fs: FileSystem, keys: Keys, limits: Limits) -> Look:
    """What is told of a file beyond the limits: what its head says, and that it is one."""
    with contextlib.closing(fs.open_read(path)) as file:
        sealed = is_sealed(file.read_at(0, 4))
        head = first_text(file, limits) if sealed else file.read_at(file.data_start(), limits.head_bytes)
        with contextlib.closing(open_bytes(head, keys=keys, limits=limits)) as opened:
            opened.path = path  # whose name tells the thread where the head does not
            said = says_of_itself(opened.session, opened.thread or "")
        digest = msgspec.structs.replace(said, bytes=file.size(), trouble=TOO_LARGE)
        known, memory = Known(digest, b""), Memory(0, 0, (0,), ("",), None, [])
        return Look(known, memory, is_new=True, bytes_read=len(head), identity=file.identity)


def _goes_on(opened: Opened, known: Known, memory: Memory) -> bool:
    """Whether what is known still holds; the head of the file is then known too."""
    if opened.source.size < memory.end or lines.checksum_before(opened.source, memory.end) != known.join:
        return False
    if known.meta is None:  # a session_meta that comes late may bring bases along
        return opened.session is None
    opened.assume(known.meta, is_first=known.meta_is_first)
    return True


class _Reader:
    """Brings what is known of one file up to date."""

    def __init__(self, lineage: Lineage, before: tuple[Known, Memory] | None, wanted: _Wanted, *, stops: bool) -> None:
        self._lineage, self._limits, self._progress = lineage, wanted.limits, wanted.progress
        self._known = None if before is None else before[0]
        self._memory = None if before is None else before[1]
        self._opened = lineage.opened[0]
        self._files, self._stops = Files(lineage, wanted.limits, wanted.prefixes), stops

    def look(self) -> Look:
        known, end = self._known, self._lineage.end
        labels = Labels(known.session_ids, known.tags) if known is not None else Labels()
        whole = lines.last_line_end(self._opened.source, 0 if self._memory is None else self._memory.end, end)
        recorder = Recorder()
        lasting = found = self._fold(whole, self._memory, labels, recorder)
        memory = self._remember(whole, lasting, recorder)
        if whole < end:  # a tail, which is not remembered: it may be mended away
            found = self._fold(end, memory, Labels(*labels.sorted()))
        return Look(
            known=self._know(memory, lasting, found),
            memory=memory,
            is_new=known is None,
            bytes_read=self._lineage.bytes_read,
            identity=(0, 0) if self._opened.file is None else self._opened.file.identity,
            links=tuple(_links(self._lineage.opened)),
        )

    def _prefix(self, floor: Floor | None) -> Prefix:
        if self._known is not None and self._known.floor == floor:
            return self._known.prefix
        return self._files.prefix(floor)

    def _fold(self, end: int, memory: Memory | None, labels: Labels, recorder: Recorder | None = None) -> _Found:
        """A pass over the file up to `end` and what is remembered, or over its bases down to a seam."""
        tally, gauge, meter = Tally(self._files.fetch, self._limits.depth), Gauge(), Meter()
        gather = MeteringGatherer(meter, self._limits)
        gather.close_world()
        own = dataclasses.replace(self._lineage.segments[0], end=end)
        fold = Reconstruction(
            itertools.chain([own], self._files.behind(1) if memory is None else ()),
            limits=self._limits,
            gatherer=gather,
            observer=Tee([*([] if recorder is None else [recorder]), tally, gauge]),  # a tally changes marks
            progress=self._progress,
            memory=memory,
            watch=labels.watch,
            is_floor=lambda floor: self._stops and tally.is_apart and self._files.is_floor(floor, (0, end)),
        )
        counts = fold.run().line_counts
        if memory is not None and memory.is_cut and fold.floor is None:
            raise _TooShallow
        first, base_items = self._first_message(tally.first), self._base_items(tally.base)
        part = Part(tally, gauge, gather, first, base_items, self._context_tokens(gauge.place))
        return _Found(part, meter, labels, fold.floor, tuple(count or 0 for count in counts))

    def _remember(self, end: int, found: _Found, recorder: Recorder) -> Memory:
        threads = self._memory.threads if self._memory is not None else [s.thread for s in self._lineage.segments]
        usage, counts = found.part.gather.usage, found.line_counts
        return Memory(
            end=end,
            records=found.part.gather.seq,
            line_counts=counts,
            threads=tuple(threads[: len(counts)]),
            usage=None if usage is None else (usage[0], bytes(usage[1])),
            marks=recorder.kept,
            is_cut=found.floor is not None,
        )

    def _know(self, memory: Memory, lasting: _Found, found: _Found) -> Known:
        """`lasting`: what was found without the tail, if there is one."""
        before, opened, part = self._known, self._opened, found.part
        damage = self._files.damage  # of what was read so far
        prefix = self._prefix(lasting.floor)
        above = prefix if found is lasting else self._prefix(found.floor)
        if before is None:
            of_files = Known(
                Digest(""),
                b"",
                file_damage=damage + prefix.file_damage,
                bases=tuple(_places(self._lineage.opened[1:2])),
                wants=prefix.wants,
            )
        else:
            of_files = before
        kept = lasting.meter.ledger(None if before is None else before.ledger, prefix.ledger)
        spent = kept if found is lasting else found.meter.ledger(kept)
        meta, offset = opened.session, opened.meta_offset
        lasts = meta is not None and (before is not None or (offset is not None and offset < memory.end))
        first, base = _place(part.tally.first), _place(part.tally.base)
        gauge = None if part.gauge.place is None else part.gauge.place[:2]
        labels = lasting.labels.sorted(prefix)
        return msgspec.structs.replace(
            of_files,
            digest=self._digest(found, above, spent, of_files.file_damage),
            join=lines.checksum_before(opened.source, memory.end),
            meta=_kept_meta(meta) if lasts and meta is not None else None,
            meta_is_first=opened.begins_with_meta,
            first=first if _is_within(first, memory) else None,
            base=base if _is_within(base, memory) else None,
            base_items=part.base_items,
            ledger=kept,
            gauge=gauge if _is_within(gauge, memory) else None,
            session_ids=labels[0],
            tags=labels[1],
            floor=lasting.floor,
            prefix=prefix,
        )

    def _base_items(self, base: Mark | None) -> bytes | None:
        if base is None:
            return None
        if self._known is not None and self._known.base == _place(base):
            return self._known.base_items
        return tell_items(self._files.fetch(base))

    def _first_message(self, first: Mark | None) -> str | None:
        if first is None:
            return None
        if self._known is not None and self._known.first == _place(first):
            return self._known.digest.first_message
        return self._files.question(first)

    def _context_tokens(self, place: tuple[int, int, int] | None) -> int | None:
        if place is None:
            return None
        if self._known is not None and self._known.gauge == place[:2]:
            return self._known.digest.context_tokens
        return self._files.context_tokens(place)

    def _digest(self, found: _Found, older: Prefix, spent: Ledger, file_damage: int) -> Digest:
        opened, end = self._opened, self._lineage.end
        if self._known is None or self._known.meta is None:
            said = says_of_itself(opened.session, opened.thread or "")
            if len(self._lineage.opened) > 1:
                said = msgspec.structs.replace(said, base_thread=self._lineage.opened[1].named_thread)
        else:
            said = self._known.digest
        size, now, labels = opened.source.size, found.part.behind(older), found.labels.sorted(older)
        return msgspec.structs.replace(
            said,
            first_message=now.first_message,
            model=now.model,
            turns=now.turns,
            messages=now.messages,
            tokens=now.tokens,
            damaged=len(found.part.tally.damaged) + file_damage + (end < size),
            spent=spent.spent,
            context_tokens=now.context_tokens,
            session_ids=labels[0],
            tags=labels[1],
            bytes=size if opened.file is None else opened.file.size(),
            text_bytes=size,
            trouble=None if found.part.gather.seq else EMPTY if size == 0 else FOREIGN,
        )


@dataclasses.dataclass(frozen=True, slots=True)
class _Found:
    """What a pass over a file has found; `floor` is the seam at which it has stopped, None for the log's beginning."""

    part: Part
    meter: Meter
    labels: Labels
    floor: Floor | None
    line_counts: tuple[int, ...]


def _places(opened: Iterable[Opened]) -> Iterator[tuple[str, int, int]]:
    """Path, device and inode of files."""
    return ((str(each.path), *each.file.identity) for each in opened if each.file is not None)


def _links(opened: Sequence[Opened]) -> Iterator[tuple[str, Link]]:
    """Which file each of the bases that were opened goes on from."""
    return ((user[0], Link(*base)) for user, base in itertools.pairwise(_places(opened[1:])))


def _kept_meta(meta: dict[str, Any]) -> dict[str, Any]:
    """What a lineage needs of a session_meta."""
    kept: dict[str, Any] = {"id": meta["id"]} if isinstance(meta.get("id"), str) else {}
    base = base_of(meta)
    if base is not None and base.id is not None and max(base.end or 0, abs(base.ordinal or 0)) < MOST_NUMBER:
        numbers = {"end_byte_offset": base.end, "end_ordinal_exclusive": base.ordinal}
        kept["history_base"] = {"thread_id": base.id, **numbers}
    return kept


def _place(mark: Mark | None) -> tuple[int, int] | None:
    return None if mark is None else (mark.segment, mark.offset)


def _is_within(place: tuple[int, int] | None, memory: Memory) -> bool:
    return place is not None and (place[0] > 0 or place[1] < memory.end)
