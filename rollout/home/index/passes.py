"""Passes over a log for an index: each from some place back to a seam (see `seams`), or to the log's beginning."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

import msgspec

from rollout.dialects.codex import envelope
from rollout.errors import NotFound
from rollout.files.lineage import Lineage
from rollout.fold.collector import Gatherer, unpack
from rollout.fold.engine import Floor, Observer, Reconstruction
from rollout.fold.events import Kind, Mark, Span
from rollout.fold.session_counts import Tally, question_of, tell_items
from rollout.fold.token_meter import Gauge, Meter, MeteringGatherer
from rollout.fold.token_records import read_gauge
from rollout.format import lines, strict_json
from rollout.format.labels import can_hold_label, label_of
from rollout.format.records import Segment
from rollout.home.index.entry_summary import base_id
from rollout.home.index.seams import MOST_NUMBER, NOTHING, Prefix, Prefixes, Seam
from rollout.limits import KIB, TURN_TEXT_CHARACTERS, Limits

_STEP_BYTES, _STEPS = 4 * KIB, 256
"""Of a file that others go on from, prefixes are found out so many bytes apart, but not more than so many of them."""
_FIRST_CHUNK_BYTES = 8 * KIB
"""So much is read at first to find out one of them."""


class Labels:
    """The labels of the lines that are read."""

    def __init__(self, session_ids: Sequence[str] = (), tags: Sequence[tuple[str, str]] = ()) -> None:
        self.session_ids, self.tags = set(session_ids), set(tags)

    def watch(self, batch: lines.Batch) -> None:
        """Some lines."""
        if not can_hold_label(b"\n".join(batch.lines)):
            return
        for line in batch.lines:
            if can_hold_label(line):
                pieces = [line] if envelope.decode_plain(line) else [piece.data for piece in envelope.split(line)]
                for label in map(label_of, pieces):
                    self.tags.update(label.tags.items())
                    if label.session_id is not None:
                        self.session_ids.add(label.session_id)

    def sorted(self, older: Prefix = NOTHING) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
        """Session ids and tags, with those of what is older."""
        return tuple(sorted(self.session_ids.union(older.session_ids))), tuple(sorted(self.tags.union(older.tags)))


class Tee:
    """Several observers as one, in their order."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = observers

    def see(self, marks: Sequence[Mark], spans: Sequence[Span]) -> None:
        """One settled stretch, older than all before."""
        for observer in self._observers:
            observer.see(marks, spans)


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """What a pass over a log has found down to a seam, or to its beginning."""

    tally: Tally
    gauge: Gauge
    gather: Gatherer
    first_message: str | None
    base_items: bytes | None
    context_tokens: int | None

    def behind(self, older: Prefix) -> Prefix:
        """The same behind what is older: turns, messages, model, tokens. Labels, the ledger and damage are not its."""
        tally = self.tally
        is_asked = tally.first is not None and tally.first.kind is not Kind.ANNOUNCED
        is_older = older.is_asked or (older.first_message is not None and not is_asked)
        first = older.first_message if is_older else self.first_message
        has_base = tally.base is not None
        return msgspec.structs.replace(
            older,
            turns=tally.turns + older.turns,
            messages=tally.messages(self.base_items) + (0 if has_base else older.messages),
            first_message=first,
            is_asked=is_asked or older.is_asked,
            model=older.model if tally.model is None else tally.model,
            tokens=None if self.gather.usage is None and has_base else self._tokens(older),
            context_tokens=self.context_tokens if self.gauge.is_found else older.context_tokens,
        )

    def _tokens(self, older: Prefix) -> int | None:
        """S4: of the newest totals, if they are not older than the base."""
        usage, base = self.gather.usage, self.tally.base
        if usage is None:
            return older.tokens
        if base is not None and usage[0] > base.seq:
            return None
        total = strict_json.decode_value(usage[1]).get("total_tokens")
        is_count = isinstance(total, int) and not isinstance(total, bool) and abs(total) < MOST_NUMBER
        return total if is_count else None


class Files:
    """The files of a log, opened as they are asked for: number 0 is its own, the others are what it goes on from."""

    def __init__(self, lineage: Lineage, limits: Limits, prefixes: Prefixes) -> None:
        self._lineage, self._limits, self._prefixes = lineage, limits, prefixes
        self._more = iter(lineage)
        next(self._more)

    def segment(self, number: int) -> Segment | None:
        """One of the files, None if there are not so many."""
        while len(self._lineage.segments) <= number:
            if next(self._more, None) is None:
                return None
        return self._lineage.segments[number]

    def behind(self, number: int) -> Iterator[Segment]:
        """The files from that number on."""
        while (segment := self.segment(number)) is not None:
            yield segment
            number += 1

    def read_at(self, number: int, begin: int, end: int) -> bytes:
        """Some bytes of one of the files. NotFound."""
        segment = self.segment(number)
        if segment is None:
            raise NotFound("its base went away while it was read", path=self._lineage.opened[0].path)
        return segment.source.read_at(begin, end - begin)

    def fetch(self, mark: Mark, shift: int = 0) -> bytes:
        """The bytes of a mark whose segments count from file `shift` on."""
        begin = mark.offset if mark.refs is None else unpack(mark.refs[-1])[0]  # a run lies where its lines do
        return self.read_at(mark.segment + shift, begin, mark.offset + mark.size)

    @property
    def damage(self) -> int:
        """How much is wrong with the files that were opened, as files."""
        return sum(damage.kind != "batch" for damage in self._lineage.damage())

    def prefix(self, floor: Floor | None) -> Prefix:
        """What the log says up to a floor; None: to its beginning."""
        parts: list[tuple[Seam, _Found]] = []
        while floor is not None and (seam := self._seam(floor)) not in self._prefixes:
            found = self._read(floor)
            parts.append((seam, found))
            floor = found.floor
        if floor is not None:
            prefix = self._prefixes[self._seam(floor)]
        else:
            wants = base_id(self._lineage.opened[-1].session) if self._lineage.missing else None
            prefix = Prefix(wants=wants)
        for seam, found in reversed(parts):
            labels = found.labels.sorted(prefix)
            prefix = msgspec.structs.replace(
                found.part.behind(prefix),
                ledger=found.meter.base(prefix.ledger),
                session_ids=labels[0],
                tags=labels[1],
                file_damage=prefix.file_damage + found.damage,
            )
            self._prefixes[seam] = prefix
        return prefix

    def is_floor(self, floor: Floor, since: tuple[int, int]) -> bool:
        """Whether a pass from `since` on is to stop there: in another file, after a while, or where all is known."""
        number, offset = floor
        if number == 0:
            return False
        if number != since[0] or self._seam(floor) in self._prefixes:
            return True
        return since[1] - offset >= max(_STEP_BYTES, self._lineage.segments[number].source.size // _STEPS)

    def _seam(self, floor: Floor) -> Seam:
        if self.segment(floor.segment) is None:
            raise NotFound("its base went away while it was read", path=self._lineage.opened[0].path)
        opened = self._lineage.opened[floor.segment]
        identity = (0, 0) if opened.file is None else opened.file.identity
        return Seam(str(opened.path), *identity, floor.offset)

    def _read(self, floor: Floor) -> _Found:
        """A pass over the log up to a floor, down to the next."""
        number, offset = floor
        before, labels, meter, gauge = self.damage, Labels(), Meter(), Gauge()
        tally = Tally(lambda mark: self.fetch(mark, number - 1), self._limits.depth)
        gather = MeteringGatherer(meter, self._limits)
        gather.close_world()
        segments = self.behind(number)
        first = dataclasses.replace(next(segments), end=offset)
        small = min(self._limits.first_chunk_bytes, _FIRST_CHUNK_BYTES)
        fold = Reconstruction(
            # a file of its own ahead of it: what is spent and damaged in a base is not the fork's
            itertools.chain([Segment(lines.BytesSource(b""), 0), first], segments),
            limits=dataclasses.replace(self._limits, first_chunk_bytes=small),
            gatherer=gather,
            observer=Tee([tally, gauge]),
            watch=labels.watch,
            is_floor=lambda at: tally.is_apart and self.is_floor(_shifted(at, number - 1), (number, offset)),
        )
        fold.run()
        place = None if gauge.place is None else (gauge.place[0] + number - 1, *gauge.place[1:])
        part = Part(
            tally,
            gauge,
            gather,
            None if tally.first is None else self.question(tally.first, number - 1),
            None if tally.base is None else tell_items(self.fetch(tally.base, number - 1)),
            None if place is None else self.context_tokens(place),
        )
        below = None if fold.floor is None else _shifted(fold.floor, number - 1)
        return _Found(part, meter, labels, self.damage - before, below)

    def question(self, first: Mark, shift: int = 0) -> str:
        """How the first user's text begins."""
        return question_of(self.fetch(first, shift), first.kind, TURN_TEXT_CHARACTERS)

    def context_tokens(self, place: tuple[int, int, int]) -> int | None:
        """What the line at a place (number of the file, offset, end) says was taken of the model's window."""
        reading = read_gauge(self.read_at(*place), self._limits.depth)
        return None if reading is None else reading.context_tokens


@dataclasses.dataclass(frozen=True, slots=True)
class _Found:
    """What a pass over a part of a log has found; `floor` is where it has stopped, None at the beginning."""

    part: Part
    meter: Meter
    labels: Labels
    damage: int
    floor: Floor | None


def _shifted(floor: Floor, by: int) -> Floor:
    return floor._replace(segment=floor.segment + by)
