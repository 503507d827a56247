"""The one place where records become lines of an open log, in order.

`lock` orders everything that is written. What must be known to write the next line (its number, which turn is open) is
one value, which the writer notes along with the lines: whatever interrupts a write, it is that of the lines that stand.
Nothing is synced under the lock, so that threads that wait for the disk share one sync.

A turn that the log was left with is closed as interrupted before anything else is written: one that a crash has left,
one that a fork begins in the middle of, and one that nobody holds any more, because an interrupt came between its block
and its end (see `turn`).
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, TypeVar

from rollout.dialects.codex import encoder
from rollout.dialects.codex.encoder import Part
from rollout.dialects.codex.item_events import ItemEvents
from rollout.errors import UsageError
from rollout.files import recovery
from rollout.files.encrypted.lines import LineCipher
from rollout.files.log_end import Ending, LeftOpen
from rollout.files.port import Durability
from rollout.files.writer import Writer
from rollout.format.labels import UNLABELLED, Label
from rollout.session.environment import Ports
from rollout.session.label_scope import in_force

T = TypeVar("T")
_acknowledges_later: contextvars.ContextVar[bool] = contextvars.ContextVar("rollout_acknowledges_later", default=False)

ABORTED_TEXT = (
    "<turn_aborted>\nThe previous turn was interrupted before it was finished. Commands that were running may still be "
    "running in the background; those that were aborted may have been carried out in part.\n</turn_aborted>"
)


class OpenedTurn(NamedTuple):
    """A turn that has begun and not ended. `holder()` is None as soon as nobody can end it any more."""

    id: str
    label: Label
    holder: Callable[[], object]
    last_message: str | None = None
    """The newest one of the assistant."""
    plans: int = 0
    """So many were told of."""


class Standing(NamedTuple):
    """What the lines that stand say to who writes the next one: the number of the newest (None: they have none)."""

    ordinal: int | None
    left_open: LeftOpen | None
    turn: OpenedTurn | None = None
    """Of this log's own making; then nothing is left open."""
    shown: int = 0
    """The write that `ItemEvents` has counted in last."""


class Recorder:
    """A writer's lines, one record after the other; `label` is the log's. Safe to use from several threads.

    With a `cipher` the log is encrypted; `ending` has a number then.
    """

    def __init__(
        self,
        writer: Writer,
        ports: Ports,
        thread: str,
        durability: Durability,
        ending: Ending,
        label: Label = UNLABELLED,
        cipher: LineCipher | None = None,
    ) -> None:
        self.label, self._cipher = label, cipher
        self.writer, self.ports, self.thread = writer, ports, thread
        self._syncs_records = durability is Durability.RECORD
        self._clock = ports.clock
        with writer.lock:
            writer.note(Standing(ending.ordinal, ending.left_open))
        self.item_events: ItemEvents | None = None
        """Of a paginated log."""
        # The writer itself would sync under our lock: records are synced by `acknowledge` alone.
        writer.durability = Durability.TURN if self._syncs_records else durability

    @property
    def lock(self) -> AbstractContextManager[bool]:
        """The writer's, which can be taken again by the thread that has it. Only in a `with`."""
        return self.writer.lock

    @property
    def standing(self) -> Standing:
        """Under `lock`."""
        standing: Standing = self.writer.noted
        turn = standing.turn
        if turn is not None and turn.holder() is None:
            return standing._replace(left_open=LeftOpen(turn.id, turn.label), turn=None)
        return standing

    def write(self, parts: Sequence[Part], *, expected_end: int | None = None, atomic: bool = False) -> int:
        """Appends; the offset behind. RecordError, Conflict: nothing was written. Under `lock`, then `acknowledge`."""
        label = self.label_here()
        if self._close_left_open(expected_end):
            expected_end = None
        standing = self.standing
        return self.put(parts, label, standing, standing.turn, expected_end=expected_end, atomic=atomic)

    def begin(self, parts: Sequence[Part], turn: OpenedTurn) -> None:
        """Writes the beginning of a turn; no other one may be open. As `write`."""
        self._close_left_open(None)
        self.put(parts, turn.label, self.standing, turn)

    def put(
        self,
        parts: Sequence[Part],
        label: Label,
        standing: Standing,
        turn: OpenedTurn | None,
        *,
        expected_end: int | None = None,
        atomic: bool = False,
    ) -> int:
        """Appends where nothing is left open; `turn` is the one that is open behind the lines. As `write`."""
        now, ordinal, keys = self._clock(), standing.ordinal, label.envelope
        shown = standing.shown
        if self.item_events is not None:
            if self.item_events.writes != shown:  # the newest one was interrupted, or refused
                self.item_events.forget_newest()
            parts = [Part(*record) for record in self.item_events.add_to(parts, round(now * 1000))]
            shown = self.item_events.writes
        if ordinal is None:
            lines = [encoder.line(part, now, None, keys) for part in parts]
        else:
            lines = [encoder.line(part, now, ordinal + n, keys) for n, part in enumerate(parts, 1)]
            ordinal += len(parts)
        if self._cipher is not None:  # with its mark: that is authenticated too
            lines = self._cipher.lines(recovery.mark_batch(lines) if atomic else lines)
        is_same = turn is standing.turn and standing.left_open is None and shown == standing.shown
        if ordinal is not None or not is_same:
            standing = Standing(ordinal, None, turn, shown)
        return self.writer.append(lines, expected_end=expected_end, atomic=atomic, noted=standing)

    def _close_left_open(self, expected_end: int | None) -> bool:
        """Whether there was a turn to be closed."""
        standing = self.standing
        left = standing.left_open
        if left is not None:
            label = left.label or self.label
            self.put(abort(left.turn_id), label, standing, None, expected_end=expected_end, atomic=True)
        return left is not None

    def close_left_open(self) -> None:
        """Closes the turn that the log was left with, as interrupted; not on the disk yet."""
        with self.lock:
            self._close_left_open(None)

    def abort_open_turn(self) -> None:
        """Closes the open turn as interrupted; not on the disk yet."""
        with self.lock:
            turn = self.standing.turn
            if turn is not None:
                self.put(abort(turn.id), turn.label, self.standing, None, atomic=True)
            elif self.writer.noted.turn is not None:
                self._close_left_open(None)

    def forget_turn(self, turn_id: str) -> None:
        """Nobody ends a turn any more that could not be ended: it is one that the log was left with."""
        with self.lock:
            standing = self.standing
            if standing.turn is not None and standing.turn.id == turn_id:
                left_open = LeftOpen(turn_id, standing.turn.label)
                self.writer.note(standing._replace(left_open=left_open, turn=None))

    def label_here(self) -> Label:
        """The label of what is written from here: that of the turn that is open. Under `lock`. UsageError."""
        turn = self.standing.turn
        return in_force(self.label) if turn is None else turn.label

    def acknowledge(self) -> None:
        """After every record or run of records, without `lock`: on the disk, if that is asked for."""
        if self._syncs_records and not _acknowledges_later.get():
            self.writer.commit()

    def write_unacknowledged(self, write: Callable[..., T], *args: Any, **keys: Any) -> T:
        """What `write` returns, in a context of its own, in which no record is acknowledged: who has made it does."""
        _acknowledges_later.set(True)
        return write(*args, **keys)

    def write_alone(self, parts: Sequence[Part], what: str, *, expected_end: int | None = None) -> int:
        """Writes, all or nothing, what may not stand in the middle of a turn, and commits as at the end of one."""
        with self.lock:
            self.refuse_open_turn(what)
            end = self.write(parts, expected_end=expected_end, atomic=True)
        self.writer.end_turn()
        return end

    def refuse_open_turn(self, what: str) -> None:
        """UsageError if a turn is open. Under `lock`."""
        if self.standing.turn is not None:
            raise UsageError(f"{what} while a turn is open", path=self.writer.path, remedy="end that turn first")


def abort(turn_id: str | None, reason: str = "interrupted") -> list[Part]:
    """What ends a turn that is not completed: for the model (if it was interrupted), and for the reader."""
    named = {} if turn_id is None else {"turn_id": turn_id}
    content = [{"type": "input_text", "text": ABORTED_TEXT}]
    told = encoder.encode({"type": "message", "role": "user", "content": content})
    ended = encoder.event("turn_aborted", {**named, "reason": reason})
    return [Part("response_item", told), ended] if reason == "interrupted" else [ended]
