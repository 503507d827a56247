"""What a list says of a log, counted by the fold: turns, messages, the model, the first question, damaged lines.

`Tally` observes a reconstruction whose collector traces. It holds a few marks; of the log's bytes it asks for those of
the base compaction and the first boundary, and for users' texts only where a compaction of the old kind stands.

`Meter` is shown what tells of tokens. A line that tells how much of its window the model had used is traced with a code
of its own, so that `Gauge` finds it again without reading the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from rollout.errors import TooLarge
from rollout.fold.collector import Collector
from rollout.fold.events import Mark, Run, by_turn, unpack
from rollout.fold.projection import Projection
from rollout.fold.tokens import Ledger, Running
from rollout.fold.turn_list import turn_stands
from rollout.format.strict_json import decode_value
from rollout.items.events import (
    BOUNDARIES,
    Blank,
    Damaged,
    Dialect,
    Entry,
    Event,
    ItemsRemoved,
    LineKind,
    Replaced,
    UserAnnounced,
    UserMessage,
)
from rollout.items.kinds import TypeAndRole, texts_of
from rollout.items.tokens import TokenNote
from rollout.limits import DEFAULT, Limits

IMAGE = "[image]"
_SAID = int(LineKind.SAID)
_METERED = {LineKind.EVENT: LineKind.METERED_EVENT, LineKind.METADATA: LineKind.METERED}


class Tally:
    """Adds up the settled blocks of a log. `fetch` gives the bytes of a mark."""

    def __init__(self, dialect: Dialect, fetch: Callable[[Mark], bytes], depth: int) -> None:
        self._dialect = dialect
        self.turns = 0
        """Those that stand."""
        self.first: Mark | None = None
        """The first boundary of the log that has a text yet, standing or not; else the first announced message."""
        self.damaged: set[int] = set()
        """Damaged lines of the file itself, by the line ends behind them."""
        self._messages = self._removed = 0
        self._settled = Projection(dialect, fetch, wants_history=True, depth=depth)
        self._settled.world_open = False

    @property
    def model(self) -> str | None:
        """S4: previous_model."""
        return self._settled.model

    @property
    def base(self) -> Mark | None:
        """The newest standing compaction with a replacement_history."""
        return self._settled.base

    @property
    def is_asked(self) -> bool:
        """Whether the first is a boundary."""
        return self.first is not None and isinstance(self.first.event, BOUNDARIES)

    @property
    def is_apart(self) -> bool:
        """Whether what is older only adds its own messages, or none: nothing here takes of them or replaces them."""
        return self.base is not None or not (self._removed or self._settled.has_old_compaction)

    def see(self, marks: Sequence[Mark]) -> None:
        """One settled block, older than all before."""
        self.turns += sum(span is not None and turn_stands(of_turn) for span, of_turn in by_turn(marks))
        for mark in reversed(marks):
            if isinstance(mark.event, Damaged) and mark.segment == 0:
                self.damaged.add(mark.newlines)
            elif isinstance(mark.event, BOUNDARIES) or (isinstance(mark.event, UserAnnounced) and not self.is_asked):
                self.first = mark
        if self.base is None:
            self._count_messages(marks)
        self._settled.add(marks)

    def messages(self, base_items: bytes | None) -> int:
        """User and assistant messages in the history as it stands (S3), those of the program not counted.

        `base_items`: what `tell_items` says of the base's line, None where there is no base.
        """
        if self._settled.has_old_compaction:
            return sum(tell_items(self._dialect, self._settled.entries()))
        older = base_items or b""
        return self._messages + sum(older[: max(0, len(older) - self._removed)])

    def _count_messages(self, marks: Sequence[Mark]) -> None:
        """Down to the base; an items_removed takes the newest items before it, whatever stands between them."""
        for mark in reversed(marks):
            if not mark.stands:
                continue
            if isinstance(mark.event, ItemsRemoved):
                self._removed += mark.event.count
            elif isinstance(mark.event, Replaced) and mark.event.has_items:
                return
            elif isinstance(mark, Run) and mark.refs is not None:
                items = [code == _SAID for _, code in map(unpack, mark.refs) if code <= _SAID]
                self._messages += sum(items[self._removed :])
                self._removed = max(0, self._removed - len(items))
            elif mark.is_item and self._removed:
                self._removed -= 1
            elif isinstance(mark.event, UserMessage):
                self._messages += 1


def tell_items(dialect: Dialect, entries: Sequence[Entry]) -> bytes:
    """For each item, in order: 1 if a list counts it as a message, which a user or the assistant says (S5)."""
    return bytes(_is_message(dialect, dialect.item_of(entry)) for entry in entries)


def _is_message(dialect: Dialect, item: Raw) -> bool:
    head = msgspec.json.decode(item, type=TypeAndRole)
    if head.type != "message" or head.role not in ("user", "assistant"):
        return False
    return head.role == "assistant" or not dialect.is_contextual("user", texts_of(item))


def question_of(dialect: Dialect, line: bytes, event: Event, size_characters: int) -> str:
    """How the text begins with which a user (or another agent) opened a turn; `[image]` if it is images alone."""
    if isinstance(event, UserAnnounced):
        text, has_image = dialect.announced(line)
    else:
        item = dialect.payload_of(line)
        content = decode_value(item).get("content")
        parts = content if isinstance(content, list) else []
        text = "\n".join(texts_of(item))
        has_image = any(isinstance(part, dict) and "image" in str(part.get("type")) for part in parts)
    return text[:size_characters] or (IMAGE if has_image else "")


class Meter:
    """Is shown the records of a lineage, newest first, and keeps what a ledger needs of them."""

    def __init__(self) -> None:
        self._notes: list[TokenNote] = []  # of the file itself, newest first
        self._base = Ledger()

    def wants(self, segment: int) -> bool:
        """Whether records of a segment still say something."""
        return not segment or self._base.running.counted is None or self._base.model is None

    def see(self, note: TokenNote, segment: int) -> None:
        """What one record says, older than all before."""
        if segment == 0:
            self._notes.append(note)
        elif note.reading is not None and note.reading.totals is not None and self._base.running.counted is None:
            self._base = msgspec.structs.replace(self._base, running=Running(note.reading.totals))
        elif note.model is not None and self._base.model is None:
            self._base = msgspec.structs.replace(self._base, model=note.model)

    def ledger(self, older: Ledger = Ledger()) -> Ledger:  # noqa: B008 - it cannot be changed
        """What is known after all that was seen; `older`: of what is older than that."""
        running = older.running if self._base.running.counted is None else self._base.running
        begun = msgspec.structs.replace(older, running=running, model=self._base.model or older.model)
        return begun.after(reversed(self._notes))


class MeteringCollector(Collector):
    """See `Collector`: it holds no items. `limits.spare_odd_lines` says how many lines without a record it takes."""

    def __init__(self, dialect: Dialect, meter: Meter, limits: Limits = DEFAULT, *, wants_turns: bool = False) -> None:
        super().__init__(dialect, wants_items=False, wants_turns=wants_turns, traces=True, limits=limits)
        self.meter, self._odd = meter, 0

    def note_odd(self, event: Damaged | Blank, offset: int, size: int) -> None:
        """Damaged bytes or a blank line. TooLarge."""
        self._odd += 1
        if self.limits.spare_odd_lines is not None and self._odd > self.limits.spare_odd_lines + self.seq:
            raise TooLarge("holds too many lines that are blank or damaged")
        super().note_odd(event, offset, size)

    def take(self, data: bytes, offset: int, record: Any) -> bool:
        """One record, older than all before; True if it begins a block."""
        begins = super().take(data, offset, record)
        self.wants_usage = True  # the older ones matter, too
        note = self.dialect.token_note(data, record) if self.meter.wants(self.segment) else None
        if note is not None:
            self.meter.see(note, self.segment)
            top = self.marks[-1] if self.marks else None
            is_measure = note.reading is not None and note.reading.context_tokens is not None
            if is_measure and isinstance(top, Run) and top.refs and unpack(top.refs[-1])[0] == offset:
                kind = LineKind(unpack(top.refs[-1])[1])
                top.refs[-1] = offset << 3 | _METERED.get(kind, kind)
        return begins


class Gauge:
    """Observes a reconstruction with such a collector."""

    def __init__(self) -> None:
        self.place: tuple[int, int, int] | None = None
        """Segment, offset and end of the newest standing line that tells how much of its window the model had used.

        None if a compaction stands behind it: nothing has been measured since.
        """
        self.is_found = False
        """What is older does not matter any more."""

    def see(self, marks: Sequence[Mark]) -> None:
        """One settled block, older than all before."""
        for mark in reversed(marks):
            if self.is_found:
                return
            if mark.stands and isinstance(mark.event, Replaced):
                self.is_found = True
            elif mark.stands and isinstance(mark, Run) and mark.refs is not None:
                self._look_into(mark, mark.refs)

    def _look_into(self, mark: Mark, refs: Sequence[int]) -> None:
        end = mark.offset + mark.size
        for ref in refs:
            offset, code = unpack(ref)
            if code >= LineKind.METERED:
                self.place, self.is_found = (mark.segment, offset, end), True
                return
            end = offset
