"""A look at a rollout file: its digest, and what has to be kept to bring that up to date.

A file that has grown is read from where the memory of it ends; what is appended can take back, replace or damage what
was there, and the digest is the same as that of a file read at once. Bases are read with the file once, and belong to
its memory from then on. Only where a compaction of the old kind stands are users' older texts read again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from rollout.catalog.digest import TOO_LARGE, Digest, base_id, says_of_itself
from rollout.catalog.known import Known
from rollout.core import codec, lines
from rollout.core.gather import Gatherer, unpack
from rollout.core.labels import can_hold_label, label_of
from rollout.core.memory import Memory, Recorder
from rollout.core.metering import Gauge, Meter, MeteringGatherer
from rollout.core.readings import read_gauge
from rollout.core.reconstruct import Answer, Observer, Reconstruction, Segment
from rollout.core.spending import Ledger
from rollout.core.tally import Tally, question_of, tell_items
from rollout.core.turns import Mark, Span
from rollout.errors import NotFound, TooLarge
from rollout.limits import DEFAULT, TURN_TEXT_CHARACTERS, Limits
from rollout.storage.bases import Bases, base_of
from rollout.storage.fs import REAL, FileSystem
from rollout.storage.keyed import has_keys
from rollout.storage.sealed import first_text, is_sealed
from rollout.storage.source import Lineage, Opened, open_bytes, open_path, visible_end

EMPTY, FOREIGN = "empty", "no record of a rollout"
_JOIN_BYTES = 512
_MOST = 1 << 62  # what the encodings of numbers hold

Progress = Callable[[int, int], None]


class Look(msgspec.Struct, frozen=True):
    """One look at a file. `is_new`: nothing of an earlier look was of use."""

    known: Known
    memory: Memory
    is_new: bool
    bytes_read: int
    identity: tuple[int, int]


def look(
    path: Path,
    home: Path | None,
    *,
    before: tuple[Known, Memory] | None = None,
    fs: FileSystem = REAL,
    limits: Limits = DEFAULT,
    progress: Progress | None = None,
    bases: Bases | None = None,
) -> Look:
    """Read a file (and its bases) from where the memory of it ends. SourceError; OSError if the disk fails.

    What was known `before` is of use if the file still goes on from there: the caller has made sure that it is the
    same file, here only the last bytes are compared. A file beyond the limits has a digest that says so.
    """
    if before is not None and before[0].digest.trouble == TOO_LARGE:
        before = None
    try:
        return _look(path, home, before, fs, limits, progress, bases)
    except TooLarge:
        return _look_at_head(path, fs, limits)


def _look(
    path: Path,
    home: Path | None,
    before: tuple[Known, Memory] | None,
    fs: FileSystem,
    limits: Limits,
    progress: Progress | None,
    bases: Bases | None,
) -> Look:
    is_known = before is not None and not has_keys(fs)  # without keys nothing can be known of an encrypted file
    opened = open_path(path, fs=fs, limits=limits, is_known=is_known)
    lineage = None
    try:
        if before is not None and not _goes_on(opened, *before):
            before = None
            opened.close()
            opened = open_path(path, fs=fs, limits=limits)
        end = visible_end(opened.source, limits, 0 if before is None else before[1].end)
        lineage = Lineage(opened, home=home, fs=fs, limits=limits, end=end, bases=bases)
        return _Reader(lineage, before, limits, progress).look()
    finally:
        (opened if lineage is None else lineage).close()


def _look_at_head(path: Path, fs: FileSystem, limits: Limits) -> Look:
    """What is told of a file beyond the limits: what its head says, and that it is one."""
    with contextlib.closing(fs.open_read(path)) as file:
        sealed = is_sealed(file.read_at(0, 4))
        head = first_text(file, limits) if sealed else file.read_at(file.data_start(), limits.head_bytes)
        with contextlib.closing(open_bytes(head, fs=fs, limits=limits)) as opened:
            opened.path = path  # whose name tells the thread where the head does not
            said = says_of_itself(opened.session, opened.thread or "")
        digest = msgspec.structs.replace(said, bytes=file.size(), trouble=TOO_LARGE)
        known, memory = Known(digest, b""), Memory(0, 0, (0,), ("",), None, [])
        return Look(known, memory, is_new=True, bytes_read=len(head), identity=file.identity)


def _goes_on(opened: Opened, known: Known, memory: Memory) -> bool:
    """Whether what is known still holds; the head of the file is then known too."""
    if opened.source.size < memory.end or join_of(opened.source, memory.end) != known.join:
        return False
    if known.meta is None:  # a session_meta that comes late may bring bases along
        return opened.session is None
    opened.assume(known.meta, is_first=known.meta_is_first)
    return True


def join_of(source: lines.Source, end: int) -> bytes:
    """A checksum of the last bytes before `end`."""
    n = min(end, _JOIN_BYTES)
    return hashlib.blake2b(source.read_at(end - n, n), digest_size=8).digest()


class _Tee:
    """Several observers as one, in their order."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = observers

    def see(self, marks: Sequence[Mark], spans: Sequence[Span]) -> None:
        for observer in self._observers:
            observer.see(marks, spans)


class _Labels:
    """The labels of the lines that are read."""

    def __init__(self, session_ids: Sequence[str] = (), tags: Sequence[tuple[str, str]] = ()) -> None:
        self.session_ids, self.tags = set(session_ids), set(tags)

    def watch(self, batch: lines.Batch) -> None:
        if not can_hold_label(b"\n".join(batch.lines)):
            return
        for line in batch.lines:
            if can_hold_label(line):
                pieces = [line] if codec.decode_plain(line) else [piece.data for piece in codec.split(line)]
                for label in map(label_of, pieces):
                    self.tags.update(label.tags.items())
                    if label.session_id is not None:
                        self.session_ids.add(label.session_id)

    def sorted(self) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
        return tuple(sorted(self.session_ids)), tuple(sorted(self.tags))


class _Reader:
    """Brings what is known of one file up to date."""

    def __init__(
        self,
        lineage: Lineage,
        before: tuple[Known, Memory] | None,
        limits: Limits,
        progress: Progress | None,
    ) -> None:
        self._lineage, self._limits, self._progress = lineage, limits, progress
        self._known = None if before is None else before[0]
        self._memory = None if before is None else before[1]
        self._opened = lineage.opened[0]
        self._segments: Iterator[Segment] = iter(lineage)
        self._first = next(self._segments)

    def look(self) -> Look:
        known, end = self._known, self._lineage.end
        labels = _Labels(known.session_ids, known.tags) if known is not None else _Labels()
        whole = lines.last_line_end(self._opened.source, 0 if self._memory is None else self._memory.end, end)
        recorder, tally, gauge = Recorder(), Tally(self._fetch, self._limits.depth), Gauge()
        if whole == end:
            memory = self._remember(whole, [recorder, tally, gauge], recorder, labels)
            lasting, gather = labels, self._gather
            spent = kept = self._ledger
        else:  # a tail, which is not remembered: it may be mended away
            memory = self._remember(whole, [recorder], recorder, labels)
            lasting, labels, kept = labels, _Labels(*labels.sorted()), self._ledger
            _, gather, meter = self._fold(end, memory, [tally, gauge], labels)
            spent = meter.ledger(kept)
        findings = _Findings(tally, gauge, gather, labels.sorted(), lasting.sorted(), spent, kept)
        return Look(
            known=self._know(memory, findings),
            memory=memory,
            is_new=known is None,
            bytes_read=self._lineage.bytes_read,
            identity=(0, 0) if self._opened.file is None else self._opened.file.identity,
        )

    def _remember(self, end: int, observers: Sequence[Observer], recorder: Recorder, labels: _Labels) -> Memory:
        """Read what is not remembered yet, up to a line end."""
        before = self._memory
        answer, gather, meter = self._fold(end, before, observers, labels)
        self._gather = gather
        self._ledger = meter.ledger(None if self._known is None else self._known.ledger)
        threads = before.threads if before is not None else [segment.thread for segment in self._lineage.segments]
        return Memory(
            end=end,
            records=gather.seq,
            line_counts=tuple(count or 0 for count in answer.line_counts),
            threads=tuple(threads),
            usage=None if gather.usage is None else (gather.usage[0], bytes(gather.usage[1])),
            marks=recorder.kept,
        )

    def _fold(
        self, end: int, memory: Memory | None, observers: Sequence[Observer], labels: _Labels
    ) -> tuple[Answer, Gatherer, Meter]:
        meter = Meter()
        gather = MeteringGatherer(meter, self._limits)
        gather.close_world()
        older = self._segments if memory is None else ()
        answer = Reconstruction(
            itertools.chain([dataclasses.replace(self._first, end=end)], older),
            limits=self._limits,
            gatherer=gather,
            observer=_Tee(observers),
            progress=self._progress,
            memory=memory,
            watch=labels.watch,
        ).run()
        return answer, gather, meter

    def _read_at(self, segment: int, begin: int, end: int) -> bytes:
        while len(self._lineage.segments) <= segment:
            if next(self._segments, None) is None:
                raise NotFound("its base went away while it was read", path=self._opened.path)
        return self._lineage.segments[segment].source.read_at(begin, end - begin)

    def _fetch(self, mark: Mark) -> bytes:
        begin = mark.offset if mark.refs is None else unpack(mark.refs[-1])[0]  # a run lies where its lines do
        return self._read_at(mark.segment, begin, mark.offset + mark.size)

    def _know(self, memory: Memory, found: _Findings) -> Known:
        before, opened, lineage = self._known, self._opened, self._lineage
        meta, offset = opened.session, opened.meta_offset
        if before is None:
            damage = [damage for damage in lineage.damage() if damage.kind != "batch"]
            bases = tuple((str(base.path), *base.file.identity) for base in lineage.opened[1:] if base.file is not None)
            wants = base_id(lineage.opened[-1].session) if lineage.missing else None
            of_files = Known(Digest(""), b"", file_damage=len(damage), bases=bases, wants=wants)
        else:
            of_files = before
        first, base = _place(found.tally.first), _place(found.tally.base)
        base_items = self._base_items(found.tally.base)
        gauge = None if found.gauge.place is None else found.gauge.place[:2]
        lasts = meta is not None and (before is not None or (offset is not None and offset < memory.end))
        return msgspec.structs.replace(
            of_files,
            digest=self._digest(found, base_items, of_files.file_damage),
            join=join_of(opened.source, memory.end),
            meta=_kept_meta(meta) if lasts and meta is not None else None,
            meta_is_first=opened.begins_with_meta,
            first=first if _is_within(first, memory) else None,
            base=base if _is_within(base, memory) else None,
            base_items=base_items,
            ledger=found.kept,
            gauge=gauge if _is_within(gauge, memory) else None,
            session_ids=found.lasting[0],
            tags=found.lasting[1],
        )

    def _base_items(self, base: Mark | None) -> bytes | None:
        if base is None:
            return None
        if self._known is not None and self._known.base == _place(base):
            return self._known.base_items
        return tell_items(self._fetch(base))

    def _first_message(self, first: Mark | None) -> str | None:
        if first is None:
            return None
        if self._known is not None and self._known.first == _place(first):
            return self._known.digest.first_message
        return question_of(self._fetch(first), first.kind, TURN_TEXT_CHARACTERS)

    def _context_tokens(self, place: tuple[int, int, int] | None) -> int | None:
        if place is None:
            return None
        if self._known is not None and self._known.gauge == place[:2]:
            return self._known.digest.context_tokens
        reading = read_gauge(self._read_at(*place), self._limits.depth)
        return None if reading is None else reading.context_tokens

    def _digest(self, found: _Findings, base_items: bytes | None, file_damage: int) -> Digest:
        opened, tally, end = self._opened, found.tally, self._lineage.end
        if self._known is None or self._known.meta is None:
            said = says_of_itself(opened.session, opened.thread or "")
            if len(self._lineage.opened) > 1:
                said = msgspec.structs.replace(said, base_thread=self._lineage.opened[1].named_thread)
        else:
            said = self._known.digest
        size = opened.source.size
        return msgspec.structs.replace(
            said,
            first_message=self._first_message(tally.first),
            model=tally.model,
            turns=tally.turns,
            messages=tally.messages(base_items),
            tokens=_total_tokens(found.gather, tally.base),
            damaged=len(tally.damaged) + file_damage + (end < size),
            spent=found.spent.spent,
            context_tokens=self._context_tokens(found.gauge.place),
            session_ids=found.labels[0],
            tags=found.labels[1],
            bytes=size if opened.file is None else opened.file.size(),
            text_bytes=size,
            trouble=None if found.gather.seq else EMPTY if size == 0 else FOREIGN,
        )


@dataclasses.dataclass(frozen=True, slots=True)
class _Findings:
    """What the passes over a file found. `lasting`: the labels without those of its tail, `kept`: what was spent."""

    tally: Tally
    gauge: Gauge
    gather: Gatherer
    labels: tuple[tuple[str, ...], tuple[tuple[str, str], ...]]
    lasting: tuple[tuple[str, ...], tuple[tuple[str, str], ...]]
    spent: Ledger
    kept: Ledger


def _kept_meta(meta: dict[str, Any]) -> dict[str, Any]:
    """What a lineage needs of a session_meta."""
    kept: dict[str, Any] = {"id": meta["id"]} if isinstance(meta.get("id"), str) else {}
    base = base_of(meta)
    if base is not None and base.id is not None and max(base.end or 0, abs(base.ordinal or 0)) < _MOST:
        numbers = {"end_byte_offset": base.end, "end_ordinal_exclusive": base.ordinal}
        kept["history_base"] = {"thread_id": base.id, **numbers}
    return kept


def _place(mark: Mark | None) -> tuple[int, int] | None:
    return None if mark is None else (mark.segment, mark.offset)


def _is_within(place: tuple[int, int] | None, memory: Memory) -> bool:
    return place is not None and (place[0] > 0 or place[1] < memory.end)


def _total_tokens(gather: Gatherer, base: Mark | None) -> int | None:
    """S4: of the newest totals, if they are not older than the base."""
    if gather.usage is None or (base is not None and gather.usage[0] > base.seq):
        return None
    total = codec.decode_value(gather.usage[1]).get("total_tokens")
    return total if isinstance(total, int) and not isinstance(total, bool) and abs(total) < _MOST else None
