"""S3 and S4: pull records newest first, stop when the answer is complete.

The unit of reading is the stretch (see `turns`). A stretch that is gathered is folded forward, then *settled*: what
still stands of it is added to the answer, newest first. It waits for that while it is not known whether an undone item
of it belongs to the prefix. Reading stops at the beginning of a stretch once nothing older can change the history, the
previous model or the reference context.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import msgspec
from msgspec import Raw

from rollout.core import codec, lines
from rollout.core import records as r
from rollout.core.gather import Gatherer, decode_all
from rollout.core.history import (
    Entry,
    History,
    agent_item,
    compact_as_of_old,
    plain_items,
    plain_user_message,
    replacement_entries,
    user_texts,
)
from rollout.core.rollback import Claim, Standing
from rollout.core.turns import ITEM_KINDS, Kind, Mark, Span, fold_turns
from rollout.limits import DEFAULT, Limits


@dataclasses.dataclass(frozen=True, slots=True)
class Segment:
    """The first `end` bytes of one file of a lineage; `thread` is the file's own thread id ("" if it has none)."""

    source: lines.Source
    end: int
    thread: str = ""
    path: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class NeverSet:
    """No turn that stands has set a reference context."""


@dataclasses.dataclass(frozen=True, slots=True)
class Cleared:
    """A compaction has taken the reference context away: the next turn gives the whole initial context."""


@dataclasses.dataclass(frozen=True, slots=True)
class Baseline:
    """The settings that the model was last told of: the payload of that turn_context, as it stands."""

    raw: Raw

    @property
    def context(self) -> dict[str, Any]:
        """The payload, decoded anew."""
        found: dict[str, Any] = codec.decode_value(self.raw)
        return found


Reference = NeverSet | Cleared | Baseline


class Observer(Protocol):
    """Sees each settled stretch, newest first: its marks oldest first, its turns oldest first."""

    def see(self, marks: Sequence[Mark], spans: Sequence[Span]) -> None: ...


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """What a log says: the parts of a state that need reading."""

    history: History
    previous_model: str | None
    reference: Reference
    world_state: dict[str, Any] | None
    token_usage: dict[str, Any] | None
    damage: tuple[r.Damage, ...]
    records_decoded: int
    complete: bool
    """The whole lineage was read."""
    line_counts: tuple[int | None, ...]
    """Line ends in each segment, newest segment first; None where it was not read to its beginning."""


class Reconstruction:
    """Folds a lineage, newest segment first. `run` once."""

    def __init__(
        self,
        segments: Iterable[Segment],
        *,
        limits: Limits = DEFAULT,
        gatherer: Gatherer | None = None,
        observer: Observer | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self._segments, self._limits, self._progress = segments, limits, progress
        self._gather = gatherer or Gatherer(limits=limits)
        self._observer = observer
        self._wants_history = self._gather.wants_items
        self._read: list[Segment] = []
        self._line_counts: list[int | None] = []
        self._damage: list[tuple[r.Damage, int, int]] = []  # with segment and newlines
        self._claims: list[Claim] = []
        self._waiting: list[tuple[list[Mark], list[Span]]] = []
        self._undecided = False  # whether an undone item of those is of the prefix
        self._ops: list[Mark] = []  # what makes the history, newest first
        self._base: Mark | None = None
        self._has_old_compaction = False  # of the old kind, standing, newer than the base
        self._model: str | None = None
        self._reference: Mark | Cleared | None = None
        self._world: list[Mark] = []
        self._world_open = True
        self._skims = False  # nothing but the history is still asked for, and nothing is claimed back

    def run(self) -> Answer:
        """Read as far back as the answer needs (to the beginning, if an observer wants to see all)."""
        complete = True
        for segment in self._segments:
            self._gather.segment, self._gather.newlines = len(self._read), 0
            self._read.append(segment)
            self._line_counts.append(None)
            if self._read_segment(segment):
                complete = False
                break
            self._line_counts[-1] = self._gather.newlines
        if complete:
            self._close_stretch()
            self._settle(at_beginning=True)
        return self._answer(complete)

    def _read_segment(self, segment: Segment) -> bool:
        """Take a segment's records; True once the answer is complete."""
        done = 0
        for block in lines.backward(segment.source, segment.end, self._limits):
            if isinstance(block, lines.Batch):
                if self._take_batch(block):
                    return True
                done += block.end - block.offset
            else:
                done += block.n
                if isinstance(block, lines.Oversize):
                    reason = f"a line of {block.n} bytes is longer than the limit of {self._limits.line_bytes}"
                    self._note_damage("oversize", block.offset, block.n, reason)
                    self._gather.newlines += 1
            if self._progress is not None:
                self._progress(done, segment.end)
        return False

    def _take_batch(self, batch: lines.Batch) -> bool:
        gather, depth = self._gather, self._limits.depth
        found, end = batch.lines, batch.end
        if tail := found[-1]:  # no line end behind it: the tail, or a piece before a gap
            end -= len(tail)
            envelope = codec.decode_plain(tail, depth)
            if envelope is None:
                begins = self._take_odd(tail, end, is_last=True)
            else:
                begins = gather.take(tail, end, envelope)
            if begins and self._close_stretch():
                return True
        i, stop = len(found) - 2, -1
        envelopes: list[r.Envelope] | None = None
        while i >= 0:
            if self._skims and not gather.marks:
                if envelopes is None:
                    envelopes = decode_all(found[:-1])
                if envelopes:
                    i, end = gather.skim(found, envelopes, i, end, self._skimmed())
                stop = i - 1
            i, end = gather.take_lines(found, i, end, stop=max(stop, -1))
            stop = -1
            begins, gather.begins = gather.begins, False
            if i >= 0 and not begins:
                gather.newlines += 1
                end -= len(found[i]) + 1
                begins = self._take_odd(found[i], end, is_last=False)
                i -= 1
            if begins and self._close_stretch():
                return True
        return False

    def _skimmed(self) -> list[bytes]:
        """The run of the history's items to which skimming adds, newest first."""
        if not self._ops or self._ops[-1].kind is not Kind.ITEMS or self._ops[-1].lines is None:
            mark = Mark(Kind.ITEMS, self._gather.seq, self._gather.segment, 0, 0, 0)
            mark.lines = []
            self._ops.append(mark)
        items = self._ops[-1].lines
        assert items is not None
        return items

    def _take_odd(self, data: bytes, offset: int, is_last: bool) -> bool:
        pieces = list(codec.split(data, self._limits.depth))
        begins = False
        for piece in reversed(pieces):
            if begins:  # a stretch begins inside this line: what stands before it is of the older one
                self._close_stretch()
                begins = False
            if piece.envelope is not None:
                begins = self._gather.take(piece.data, offset + piece.offset, piece.envelope)
            else:
                torn = is_last and piece.kind == "json"
                reason = "torn: the last line has no end and is no record" if torn else piece.reason
                self._note_damage("torn" if torn else piece.kind, offset + piece.offset, len(piece.data), reason)
        if not pieces and self._gather.traces:
            self._gather.note_blank(offset, len(data))
        return begins

    def _note_damage(self, kind: str, offset: int, size: int, reason: str) -> None:
        segment = self._gather.segment
        damage = r.Damage(None, offset, reason, kind, self._read[segment].path)
        self._damage.append((damage, segment, self._gather.newlines))
        if self._gather.traces:
            self._gather.note_damage(offset, size, reason)

    def _close_stretch(self) -> bool:
        """Fold what was gathered; True if the answer is complete."""
        marks = self._gather.take_stretch()
        spans = fold_turns(marks)
        standing = Standing(marks)
        self._claims = standing.fold(self._claims)
        self._gather.debt = sum(claim.count for claim in self._claims)
        if standing.first_boundary is not None:
            for waiting, _ in self._waiting:
                _decide_prefix(waiting, belongs=False)
        self._waiting.append((marks, spans))
        self._undecided = self._undecided and standing.first_boundary is None
        self._undecided = self._undecided or (standing.may_be_prefix and _is_undecided(marks))
        if not self._undecided:
            self._settle(at_beginning=False)
        known = self._observer is None and self._model is not None and self._reference is not None
        settled = known and not self._waiting and not self._claims
        self._skims = settled and self._base is None and not self._has_old_compaction and self._wants_history
        return self._is_complete()

    def _is_complete(self) -> bool:
        return (
            self._observer is None
            and self._base is not None
            and not self._waiting
            and self._model is not None
            and (self._reference is not None or self._has_old_compaction)
        )

    def _settle(self, *, at_beginning: bool) -> None:
        for marks, spans in self._waiting:
            _decide_prefix(marks, belongs=at_beginning)
            if self._world_open:
                self._settle_world(marks)
            if self._model is None or self._reference is None:
                self._settle_metadata(marks)
            if self._wants_history:
                self._settle_history(marks)
            if self._observer is not None:
                self._observer.see(marks, spans)
        self._waiting = []

    def _settle_history(self, marks: Sequence[Mark]) -> None:
        for mark in reversed(marks):
            if self._base is not None:
                return
            if not mark.stands:
                continue
            if mark.kind is Kind.COMPACTED:
                if mark.number:
                    self._base = mark
                    self._gather.wants_items = False
                else:
                    self._has_old_compaction = True
                self._ops.append(mark)
            elif mark.kind in ITEM_KINDS or mark.kind is Kind.REMOVED:
                if self._has_old_compaction:
                    self._keep_texts_only(mark)
                self._ops.append(mark)

    def _keep_texts_only(self, mark: Mark) -> None:
        """An old compaction keeps the users' texts alone: the bytes of everything else can go."""
        mark.lines = None
        if mark.kind is Kind.BOUNDARY and mark.key != "agent":
            texts = user_texts(mark.data or self._fetch(mark, mark.offset, mark.size))
            mark.data = None if texts is None else bytes(plain_user_message(texts))
            mark.key = "texts"
        else:
            mark.data, mark.key = None, "dropped"

    def _settle_metadata(self, marks: Sequence[Mark]) -> None:
        end = len(marks)
        while end > 0 and (self._model is None or self._reference is None):
            span = marks[end - 1].span
            begin = end
            while begin > 0 and marks[begin - 1].span is span:
                begin -= 1
            self._settle_turn(span, [mark for mark in marks[begin:end] if mark.stands])
            end = begin

    def _settle_turn(self, span: Span | None, standing: Sequence[Mark]) -> None:
        is_user_turn = any(
            mark.kind is Kind.BOUNDARY or (mark.kind is Kind.ANNOUNCED and mark.announces) for mark in standing
        )
        contexts = [i for i, m in enumerate(standing) if m.kind is Kind.CONTEXT and span is not None and span.fits(m.key)]
        compacted = max((i for i, m in enumerate(standing) if m.kind is Kind.COMPACTED), default=-1)
        if self._model is None and is_user_turn and contexts:
            self._model = standing[contexts[0]].text
        if self._reference is None:
            if compacted > (contexts[-1] if contexts else -1):
                self._reference = Cleared()
            elif is_user_turn and contexts:
                self._reference = standing[contexts[-1]]

    def _settle_world(self, marks: Sequence[Mark]) -> None:
        for mark in reversed(marks):
            if not self._world_open:
                return
            if mark.stands and mark.kind is Kind.WORLD:
                self._world.append(mark)
                self._world_open = not mark.number
            elif mark.stands and mark.kind is Kind.COMPACTED:
                self._world_open = False
            if not self._world_open:
                self._gather.close_world()

    def _answer(self, complete: bool) -> Answer:
        usage = self._gather.usage
        if usage is not None and self._base is not None and usage[0] > self._base.seq:
            usage = None
        return Answer(
            history=History(self._history()),
            previous_model=self._model,
            reference=self._resolve_reference(),
            world_state=self._world_state(),
            token_usage=None if usage is None else codec.decode_value(usage[1]),
            damage=tuple(self._place(*found) for found in reversed(self._damage)),
            records_decoded=self._gather.seq,
            complete=complete,
            line_counts=tuple(self._line_counts),
        )

    def _place(self, damage: r.Damage, segment: int, newlines: int) -> r.Damage:
        count = self._line_counts[segment]
        return damage if count is None else dataclasses.replace(damage, line=count - newlines + 1)

    def _resolve_reference(self) -> Reference:
        if self._has_old_compaction:
            return Cleared()
        mark = self._reference
        if isinstance(mark, Mark):
            return Baseline(codec.payload_of(self._fetch(mark, mark.offset, mark.size)).copy())
        return NeverSet() if mark is None else mark

    def _world_state(self) -> dict[str, Any] | None:
        if not self._world or not self._world[-1].number:
            return None
        state: dict[str, Any] = {}
        for mark in reversed(self._world):
            data = mark.data or self._fetch(mark, mark.offset, mark.size)
            change = codec.decode_value(codec.payload_of(data))["state"]
            state = change if mark.number else merge_patch(state, change)
        return state

    def _history(self) -> list[Entry]:
        entries: list[Entry | None] = []
        for mark in reversed(self._ops):
            if mark.kind is Kind.COMPACTED:
                data = mark.data or self._fetch(mark, mark.offset, mark.size)
                if mark.number:
                    entries = list(replacement_entries(data))
                else:
                    entries = compact_as_of_old(entries, data)
            elif mark.kind is Kind.REMOVED:
                del entries[max(0, len(entries) - mark.number) :]
            else:
                entries += self._entries_of(mark)
        return [entry for entry in entries if entry is not None]

    def _entries_of(self, mark: Mark) -> Sequence[Entry | None]:
        if mark.lines is not None:
            return mark.lines[::-1]
        if mark.key == "dropped":
            return [None] * max(1, mark.number)
        if mark.kind is Kind.ITEMS:
            return plain_items(self._fetch(mark, mark.offset, mark.size), self._limits.depth)
        if mark.key == "texts":
            return [None if mark.data is None else Raw(mark.data)]
        data = mark.data or self._fetch(mark, mark.offset, mark.size)
        return [agent_item(data) if mark.key == "agent" else data]

    def _fetch(self, mark: Mark, offset: int, size: int) -> bytes:
        return self._read[mark.segment].source.read_at(offset, size)


def _is_undecided(marks: Sequence[Mark]) -> bool:
    """Whether it matters yet whether an undone item of these is of the prefix: not if a base stands after it."""
    for mark in reversed(marks):
        if mark.prefix:
            return True
        if mark.kind is Kind.COMPACTED and mark.number and mark.stands:
            return False
    return False


def _decide_prefix(marks: Sequence[Mark], *, belongs: bool) -> None:
    for mark in marks:
        if mark.prefix:
            mark.prefix = False
            if belongs:
                mark.undone_by = None


def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7396. The nesting is bounded by that of a line."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged
