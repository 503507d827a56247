"""What a list says of a log, counted by the fold: turns, messages, the model, the first question, damaged lines.

`Tally` observes a reconstruction whose gatherer traces. It holds a few marks; of the log's bytes it asks for those of
the base compaction and the first boundary, and for users' texts only where a compaction of the old kind stands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from msgspec import Raw

from rollout.dialects.codex import envelope
from rollout.dialects.codex.contextual import is_contextual
from rollout.fold.collector import SPOKEN, unpack
from rollout.fold.events import ITEM_KINDS, Kind, Mark, Span
from rollout.fold.history import raw_item, replacement_entries
from rollout.fold.projection import Settlement
from rollout.fold.turn_list import turn_stands
from rollout.format import strict_json
from rollout.items.kinds import TypeAndRole, texts_of

IMAGE = "[image]"


class Tally:
    """Adds up the settled stretches of a log. `fetch` gives the bytes of a mark."""

    def __init__(self, fetch: Callable[[Mark], bytes], depth: int) -> None:
        self.turns = 0
        """Those that stand."""
        self.first: Mark | None = None
        """The first boundary of the log that has a text yet, standing or not; else the first announced message."""
        self.damaged: set[int] = set()
        """Damaged lines of the file itself, by the line ends behind them."""
        self._messages = self._removed = 0
        self._settled = Settlement(fetch, wants_history=True, depth=depth)
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
    def is_apart(self) -> bool:
        """Whether what is older only adds its own messages, or none: nothing here takes of them or replaces them."""
        return self.base is not None or not (self._removed or self._settled.has_old_compaction)

    def see(self, marks: Sequence[Mark], spans: Sequence[Span]) -> None:
        """One settled stretch, older than all before."""
        self._count_turns(marks)
        for mark in reversed(marks):
            if mark.kind is Kind.OTHER and mark.key == "damaged" and mark.segment == 0:
                self.damaged.add(mark.newlines)
            elif mark.kind is Kind.BOUNDARY or (
                mark.kind is Kind.ANNOUNCED and (self.first is None or self.first.kind is Kind.ANNOUNCED)
            ):
                self.first = mark
        if self.base is None:
            self._count_messages(marks)
        self._settled.add(marks)

    def messages(self, base_items: bytes | None) -> int:
        """User and assistant messages in the history as it stands (S3), those of the program not counted.

        `base_items`: what `tell_items` says of the base's line, None where there is no base.
        """
        if self._settled.has_old_compaction:
            return sum(is_message(raw_item(entry)) for entry in self._settled.entries())
        older = base_items or b""
        return self._messages + sum(older[: max(0, len(older) - self._removed)])

    def _count_turns(self, marks: Sequence[Mark]) -> None:
        end = len(marks)
        while end > 0:
            span, begin = marks[end - 1].span, end - 1
            while begin > 0 and marks[begin - 1].span is span:
                begin -= 1
            self.turns += span is not None and turn_stands(marks[begin:end])
            end = begin

    def _count_messages(self, marks: Sequence[Mark]) -> None:
        """Down to the base; an items_removed takes the newest items before it, whatever stands between them."""
        for mark in reversed(marks):
            if not mark.stands:
                continue
            if mark.kind is Kind.REMOVED:
                self._removed += mark.number
            elif mark.kind is Kind.COMPACTED and mark.number:
                return
            elif mark.refs is not None:
                self._count_run(mark.refs)
            elif mark.kind in ITEM_KINDS:
                is_users = mark.kind is Kind.BOUNDARY and mark.key is None and not mark.number
                self._count_item(is_users)

    def _count_run(self, refs: Sequence[int]) -> None:
        for ref in refs:
            code = unpack(ref)[1]
            if code <= SPOKEN:
                self._count_item(code == SPOKEN)

    def _count_item(self, is_message: bool) -> None:
        if self._removed:
            self._removed -= 1
        else:
            self._messages += is_message


def tell_items(line: bytes) -> bytes:
    """For each visible item of a compaction's replacement_history, in order: 1 if a list counts it as a message."""
    return bytes(is_message(raw_item(entry)) for entry in replacement_entries(line))


def is_message(item: Raw) -> bool:
    """Whether an item is what a user or the assistant says, and no program wrote it (S5)."""
    head = msgspec.json.decode(item, type=TypeAndRole)
    if head.type != "message" or head.role not in ("user", "assistant"):
        return False
    texts = texts_of(item)
    return head.role == "assistant" or texts is None or not is_contextual("user", texts)


class _Announcement(msgspec.Struct, frozen=True, gc=False):
    message: Raw = Raw(b"null")
    images: Raw = Raw(b"null")
    local_images: Raw = Raw(b"null")


def question_of(line: bytes, kind: Kind, size_characters: int) -> str:
    """How the text begins with which a user (or another agent) opened a turn; `[image]` if it is images alone."""
    item = envelope.payload_of(line)
    if kind is Kind.ANNOUNCED:
        said = msgspec.json.decode(item, type=_Announcement)
        text = strict_json.text_of(said.message) or ""
        has_image = any(bytes(raw).startswith(b"[{") or bytes(raw).startswith(b'["') for raw in _images(said))
    else:
        content = strict_json.decode_value(item).get("content")
        parts = content if isinstance(content, list) else []
        text = "\n".join(texts_of(item) or [])
        has_image = any(isinstance(part, dict) and "image" in str(part.get("type")) for part in parts)
    return text[:size_characters] or (IMAGE if has_image else "")


def _images(said: _Announcement) -> tuple[Raw, Raw]:
    return said.images, said.local_images
