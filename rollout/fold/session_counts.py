"""What a list says of a log, counted by the fold: turns, messages, the model, the first question, damaged lines.

`Tally` observes a reconstruction whose collector traces. It holds a few marks; of the log's bytes it asks for those of
the base compaction and the first boundary, and for users' texts only where a compaction of the old kind stands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from msgspec import Raw

from rollout.fold.events import Mark, Run, by_turn, unpack
from rollout.fold.projection import Projection
from rollout.fold.turn_list import turn_stands
from rollout.format.strict_json import decode_value
from rollout.items.dialect import Dialect, Entry
from rollout.items.events import (
    BOUNDARIES,
    Damaged,
    Event,
    ItemsRemoved,
    LineKind,
    Replaced,
    UserAnnounced,
    UserMessage,
)
from rollout.items.kinds import TypeAndRole, texts_of

IMAGE = "[image]"
_SAID = int(LineKind.SAID)


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
        self._count_turns(marks)
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

    def _count_turns(self, marks: Sequence[Mark]) -> None:
        self.turns += sum(span is not None and turn_stands(of_turn) for span, of_turn in by_turn(marks))

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
                self._count_run(mark.refs)
            elif mark.is_item:
                self._count_item(isinstance(mark.event, UserMessage))

    def _count_run(self, refs: Sequence[int]) -> None:
        for ref in refs:
            code = unpack(ref)[1]
            if code <= _SAID:
                self._count_item(code == _SAID)

    def _count_item(self, is_message: bool) -> None:
        if self._removed:
            self._removed -= 1
        else:
            self._messages += is_message


def tell_items(dialect: Dialect, entries: Sequence[Entry]) -> bytes:
    """For each item, in order: 1 if a list counts it as a message, which a user or the assistant says (S5)."""
    return bytes(_is_message(dialect, dialect.item_of(entry)) for entry in entries)


def _is_message(dialect: Dialect, item: Raw) -> bool:
    head = msgspec.json.decode(item, type=TypeAndRole)
    if head.type != "message" or head.role not in ("user", "assistant"):
        return False
    texts = texts_of(item)
    return head.role == "assistant" or texts is None or not dialect.is_contextual("user", texts)


def question_of(dialect: Dialect, line: bytes, event: Event, size_characters: int) -> str:
    """How the text begins with which a user (or another agent) opened a turn; `[image]` if it is images alone."""
    if isinstance(event, UserAnnounced):
        text, has_image = dialect.announced(line)
    else:
        item = dialect.payload_of(line)
        content = decode_value(item).get("content")
        parts = content if isinstance(content, list) else []
        text = "\n".join(texts_of(item) or [])
        has_image = any(isinstance(part, dict) and "image" in str(part.get("type")) for part in parts)
    return text[:size_characters] or (IMAGE if has_image else "")
