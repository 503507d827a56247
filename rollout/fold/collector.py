"""Records to marks, newest first: what the fold of a stretch needs, and no more of the bytes than that.

Nothing is held of an item that cannot be in the history: `debt` counts the boundaries that rollback markers still take
back (never too few), and in the `shadow` of a compaction that no marker reaches, all older items of the stretch are
replaced. An undone item may yet be of the prefix (S2), so where it lies is kept, not its bytes.
"""

from __future__ import annotations

import contextlib
from array import array
from typing import Generic, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType

from rollout.dialects.codex import records as r
from rollout.dialects.codex.contextual import is_contextual
from rollout.dialects.codex.items import fault_in
from rollout.dialects.codex.plans import plan_of
from rollout.fold.events import Kind, Mark
from rollout.fold.line_types import Names
from rollout.format.labels import label_of
from rollout.format.strict_json import text_of
from rollout.items.kinds import is_visible, texts_of
from rollout.limits import DEFAULT, TURN_TEXT_CHARACTERS, Limits

P = TypeVar("P")


class _Line(msgspec.Struct, Generic[P], frozen=True, gc=False):
    payload: P


class _State(msgspec.Struct, frozen=True, gc=False):
    full: bool
    state: Raw


class _Usage(msgspec.Struct, frozen=True, gc=False):
    record: r.TokenUsage | None = msgspec.field(default=None, name="latest_token_usage_record")


_lifecycle = msgspec.json.Decoder(_Line[r.Lifecycle])
_context = msgspec.json.Decoder(_Line[r.TurnContext])
_compacted = msgspec.json.Decoder(_Line[r.Compacted])
_count = msgspec.json.Decoder(_Line[r.Count])
_world = msgspec.json.Decoder(_Line[_State])
_token_count = msgspec.json.Decoder(_Line[r.TokenCount])
_token_usage = msgspec.json.Decoder(_Line[r.TokenUsage])
_compacted_usage = msgspec.json.Decoder(_Line[_Usage])
_agent = msgspec.json.Decoder(_Line[r.Agent])
_stamp = msgspec.json.Decoder(r.Stamp)
_payload = msgspec.json.Decoder(_Line[Raw])

ITEM, SPOKEN, EVENT, METADATA, MUTE, METERED, METERED_EVENT = range(7)
"""What a traced line is: a visible item, one that an assistant says, an event, anything else that no model sees, a
session_meta, which shows nothing of its turn, and the two kinds that tell how much of its window the model had used."""
PLAN = "plan"
"""The key of the mark of a plan; its text is the plan's."""
_MOST = 1 << 62  # more turns or items than any log holds


def unpack(ref: int) -> tuple[int, int]:
    """Offset and code of one traced line."""
    return ref >> 3, ref & 7


class Malformed(Exception):
    """A record that is readable but lacks what its kind needs: it has no effect."""


class Gatherer:
    """Takes the records of a lineage, newest first, and makes marks of them.

    `wants_items`, `wants_turns` and `traces` say what is to be held: items' bytes (for a history), what people want to
    know of turns, and every line (for explain).
    """

    def __init__(
        self,
        *,
        wants_items: bool = True,
        wants_turns: bool = False,
        traces: bool = False,
        limits: Limits = DEFAULT,
    ) -> None:
        self.marks: list[Mark] = []
        """Of the stretch that is being gathered, newest first."""
        self.seq = self.segment = self.newlines = self.debt = self._closed_at = 0
        self.shadow = False
        self.wants_items, self.wants_turns, self.traces = wants_items, wants_turns, traces
        self.names: Names | None = None
        """Where it is noted what each line calls itself, when every line is traced."""
        self._wants_world = True
        self.usage: tuple[int, Raw] | None = None
        """The newest token totals and their `seq`."""
        self.depth = limits.depth
        self._traced = False
        self._mute = (0, 0)
        """The newest mark's `seq`, and how many records older than it show nothing of their turn (a session_meta)."""
        self.events = {*_LIFECYCLE, "token_count", "thread_rolled_back", "items_removed"}
        if wants_turns:
            self.events.add("item_completed")
        """The events that may leave a mark or tell of tokens."""
        self.loud_events: set[str | None] = {"token_count", "thread_rolled_back", "items_removed", None}
        """Those that matter where only the history is asked for."""
        self.quiet = {"turn_context", "session_meta"}
        """The other records that do not matter there."""

    def take_stretch(self) -> list[Mark]:
        """The marks of the stretch, oldest first; an older one begins."""
        marks = self.marks[::-1]
        self.marks, self.shadow, self._closed_at = [], False, self.seq
        return marks

    def take(self, data: bytes, offset: int, envelope: r.Envelope) -> bool:
        """One record, older than all before; True if it begins a stretch (task_started)."""
        self.seq += 1
        kind, payload = envelope.type, envelope.payload
        before, self._traced = len(self.marks), False
        if self.names is not None:
            self.names.note(envelope)
        try:
            if payload is UNSET:
                self._take_item(data, offset, str(kind), envelope.role, bare=True)
            elif kind in {"response_item", "event_msg"}:
                if payload is None or payload.type is None:
                    raise Malformed("it needs an object with a type")
                if kind == "event_msg":
                    self._take_event(data, offset, payload.type)
                else:
                    self._take_item(data, offset, payload.type, payload.role, bare=False)
            elif kind in _KINDS:
                _KINDS[kind](self, data, offset)
            elif kind == "session_meta":
                if payload is None:
                    raise Malformed("it needs an object")
                self._count_mute()
        except (Malformed, msgspec.ValidationError, RecursionError) as why:
            self._count_mute()
            if self.traces:
                self._note(offset, len(data), "malformed", f"malformed {kind}: {why}")
            return False
        if len(self.marks) != before:
            return self.marks[-1].kind is Kind.STARTED
        if self.traces and not self._traced:
            self.trace(offset, len(data), _CODES.get(kind or "", METADATA))
        return False

    def close_world(self) -> None:
        """Nothing older is part of the world state."""
        self._wants_world = False
        self.quiet.add("world_state")

    def check(self, data: bytes, envelope: r.Envelope) -> str | None:
        """Why a record is malformed, None if it is not. For looking at records one by one: keeps nothing."""
        self.take(data, 0, envelope)
        last = self.marks[-1] if self.marks else None
        self.marks.clear()
        self.usage, self.debt = None, 0
        return last.text if last is not None and last.key == "malformed" else None

    def note_damage(self, offset: int, size: int, reason: str) -> None:
        """Damaged bytes, when every line is traced."""
        if self.names is not None:
            self.names.note_nothing()
        self._note(offset, size, "damaged", reason)

    def note_blank(self, offset: int, size: int) -> None:
        """A blank line, when every line is traced."""
        if self.names is not None:
            self.names.note_nothing()
        self._note(offset, size, "blank", None)

    def _note(self, offset: int, size: int, key: str, text: str | None) -> None:
        mark = self._mark(Kind.OTHER, offset, size)
        mark.key, mark.text = key, text

    def count(self, n: int) -> None:
        """So many lines, each a record, were passed over or belong to a run that is known."""
        self.seq += n
        self.newlines += n

    def trace(self, offset: int, size: int, code: int) -> Mark:
        """One more line of a run of lines that nothing comes between; see `unpack`. An item is yet to be counted."""
        top = self.marks[-1] if self.marks else None
        if (
            top is None
            or top.refs is None
            or top.segment != self.segment
            or top.newlines + len(top.refs) != self.newlines
            or (self.wants_turns and top.refs[-1] >> 3 != offset + size + 1)  # odd bytes between them: see `turn_list`
        ):
            top = self._mark(Kind.OTHER, offset, size)
            top.refs = array("Q")
        assert top.refs is not None
        top.refs.append(offset << 3 | code)
        self._traced = True
        return top

    def recall(self, mark: Mark) -> None:
        """A mark that is remembered, older than all before; its lines go on with the run of those before it."""
        top = self.marks[-1] if self.marks else None
        if (
            top is None
            or top.refs is None
            or mark.refs is None
            or top.segment != mark.segment
            or top.newlines + len(top.refs) != mark.newlines
        ):
            self.marks.append(mark)
            return
        top.refs.extend(mark.refs)
        top.number += mark.number
        top.kind = min(top.kind, mark.kind)  # items among other lines are ITEMS

    def _mark(self, kind: Kind, offset: int, size: int) -> Mark:
        mark = Mark(kind, self.seq, self.segment, offset, size, self.newlines)
        self.marks.append(mark)
        return mark

    def _holds(self) -> bool:
        return self.wants_items and not self.shadow and self.debt == 0

    def _take_item(self, data: bytes, offset: int, type: str, role: str | None, *, bare: bool) -> None:
        if not is_visible(type, role):
            return
        item = data if bare else _payload.decode(data).payload
        why = fault_in(data, type, item)
        if why is not None:
            raise Malformed(why)
        if type == "message" and role in {"user", "developer"}:
            texts = texts_of(item) or []
            if is_contextual(role, texts):
                mark = self._mark(Kind.CONTEXTUAL, offset, len(data))
                mark.data = data if self._holds() else None
                return
            if role == "user":
                self._take_boundary(data, offset)
                if self.wants_turns and texts:
                    self.marks[-1].text = "\n".join(texts)[:TURN_TEXT_CHARACTERS]
                return
        elif type == "agent_message":
            self._take_boundary(data, offset)
            self.marks[-1].number = 1
            return
        self._take_plain(data, offset, SPOKEN if role == "assistant" and type == "message" else ITEM)

    def _take_boundary(self, data: bytes, offset: int, key: str | None = None) -> None:
        mark = self._mark(Kind.BOUNDARY, offset, len(data))
        mark.key = key
        if self.wants_turns:
            mark.label = label_of(data)
        if self._holds():
            mark.data = data
        if self.debt > 0:
            self.debt -= 1

    def _take_plain(self, data: bytes, offset: int, code: int) -> None:
        if self.traces:
            top = self.trace(offset, len(data), code)
            top.kind = Kind.ITEMS
            top.number += 1
            return
        run = self.run(offset, len(data))
        run.number += 1
        run.size += run.offset - offset
        run.offset = offset
        if run.lines is not None:
            run.lines.append(data)

    def run(self, offset: int, size: int) -> Mark:
        """The mark of the run of plain items that goes on with an item at `offset`."""
        top = self.marks[-1] if self.marks else None
        if top is not None and top.kind is Kind.ITEMS and top.segment == self.segment:
            return top
        run = self._mark(Kind.ITEMS, offset, size)
        if self._holds():
            run.lines = []
        return run

    def _take_event(self, data: bytes, offset: int, type: str) -> None:
        kind = _LIFECYCLE.get(type)
        if kind is not None:
            mark = self._mark(kind, offset, len(data))
            if kind is Kind.STARTED or kind is Kind.ABORTED:
                with contextlib.suppress(msgspec.ValidationError):
                    mark.key = text_of(_lifecycle.decode(data).payload.turn_id)
            if self.wants_turns and kind is not Kind.ANNOUNCED:
                mark.text, mark.label = text_of(_stamp.decode(data).timestamp), label_of(data)
        elif type == "token_count":
            if self.usage is None:
                with contextlib.suppress(msgspec.ValidationError):
                    info = _token_count.decode(data).payload.info
                    if info is not None:
                        self._take_usage(info.total_token_usage)
        elif type == "item_completed":
            plan = plan_of(data)
            if plan is not None:
                mark = self._mark(Kind.OTHER, offset, len(data))
                mark.key, mark.text = PLAN, plan
        elif type == "thread_rolled_back":
            number = _count.decode(data).payload.num_turns
            self._take_count(Kind.ROLLED_BACK, offset, data, number, "num_turns")
        elif type == "items_removed":
            number = _count.decode(data).payload.num_items
            self._take_count(Kind.REMOVED, offset, data, number, "num_items")

    def _take_count(self, kind: Kind, offset: int, data: bytes, number: int | None, name: str) -> None:
        if number is None or number < 0:
            raise Malformed(f"{name} must be an unsigned integer")
        newer = self._newest()
        mute = self._mute[1] if self._mute[0] == newer else 0
        mark = self._mark(kind, offset, len(data))
        mark.number = min(number, _MOST)
        mark.followed = not self.traces and newer < self.seq - 1 - mute
        if kind is Kind.ROLLED_BACK:
            self.debt += mark.number

    def _newest(self) -> int:
        return self.marks[-1].seq if self.marks else self._closed_at

    def _count_mute(self) -> None:
        newest, (since, count) = self._newest(), self._mute
        self._mute = newest, count + 1 if since == newest else 1

    def _take_usage(self, totals: Raw | UnsetType) -> None:
        if totals is not UNSET and bytes(memoryview(totals)[:1]) == b"{":
            self.usage = (self.seq, totals.copy())
            self.events.discard("token_count")
            self.loud_events.discard("token_count")
            self.quiet.add("token_usage_record")

    def _take_context(self, data: bytes, offset: int) -> None:
        context = _context.decode(data).payload
        mark = self._mark(Kind.CONTEXT, offset, len(data))
        mark.text, mark.key = context.model, text_of(context.turn_id)

    def _take_compacted(self, data: bytes, offset: int) -> None:
        compacted = _compacted.decode(data).payload
        has_replacement = compacted.replacement_history is not None
        if not has_replacement and text_of(compacted.message) is None:
            raise Malformed("a compacted needs a replacement_history or a message")
        mark = self._mark(Kind.COMPACTED, offset, len(data))
        mark.number = int(has_replacement)
        if self._holds():
            mark.data = data
        if self.usage is None:
            with contextlib.suppress(msgspec.ValidationError):
                usage = _compacted_usage.decode(data).payload.record
                if usage is not None:
                    self._take_usage(usage.thread_token_usage)
        self.shadow = self.shadow or (has_replacement and self.debt == 0)

    def _take_world(self, data: bytes, offset: int) -> None:
        world = _world.decode(data).payload
        if bytes(memoryview(world.state)[:1]) != b"{":
            raise Malformed("a world_state needs an object as its state")
        mark = self._mark(Kind.WORLD, offset, len(data))
        mark.number = int(world.full)
        if self._wants_world and not self.shadow:
            mark.data = data

    def _take_token_usage(self, data: bytes, offset: int) -> None:
        if self.usage is None:
            with contextlib.suppress(msgspec.ValidationError):
                self._take_usage(_token_usage.decode(data).payload.thread_token_usage)

    def _take_agent(self, data: bytes, offset: int) -> None:
        _agent.decode(data)
        self._take_boundary(data, offset, key="agent")


_LIFECYCLE = {
    "task_started": Kind.STARTED,
    "turn_started": Kind.STARTED,
    "task_complete": Kind.ENDED,
    "turn_complete": Kind.ENDED,
    "turn_aborted": Kind.ABORTED,
    "user_message": Kind.ANNOUNCED,
}
_KINDS = {
    "turn_context": Gatherer._take_context,
    "compacted": Gatherer._take_compacted,
    "world_state": Gatherer._take_world,
    "token_usage_record": Gatherer._take_token_usage,
    "inter_agent_communication": Gatherer._take_agent,
}
_CODES = {"event_msg": EVENT, "session_meta": MUTE}
