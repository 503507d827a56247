"""The one place where records become lines of a log, in order, whoever appends them.

The lock of the writer orders everything that is written. What must be known to write the next line (its number, which
turn is open) is one value, which the writer notes along with the lines: whatever interrupts a write, it is that of the
lines that stand. Nothing is synced under the lock, so that threads that wait for the disk share one sync.

A turn that the log was left with is closed as interrupted before anything else is written: one that a crash has left,
one that a fork begins in the middle of, and one that nobody holds any more, because an interrupt came between its block
and its end (see `turn`).
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

from rollout.dialects.codex import encoder
from rollout.dialects.codex.encoder import Part, turn_aborted
from rollout.dialects.codex.item_events import ItemEvents
from rollout.errors import Closed, Displaced, Poisoned, UsageError
from rollout.files import recovery
from rollout.files.encrypted.lines import LineCipher
from rollout.files.log_end import Ending, LeftOpen
from rollout.files.writer import Writer
from rollout.format.labels import Label
from rollout.session.environment import Ports
from rollout.session.label_scope import in_force

T = TypeVar("T")
_acknowledges_later: contextvars.ContextVar[bool] = contextvars.ContextVar("rollout_acknowledges_later", default=False)


class OpenedTurn(NamedTuple):
    """A turn that has begun and not ended. `holder()` is None as soon as nobody can end it any more."""

    id: str | None
    label: Label
    holder: Callable[[], object]
    last_message: str | None = None
    """The newest one of the assistant."""
    plans: int = 0
    """So many were told of."""


Say: TypeAlias = Callable[[OpenedTurn], tuple[Sequence[Part], OpenedTurn | None]]
"""Gives what is to be written in a turn, and the turn behind that; None if that is its end."""


def _nobody() -> None:
    """Holds a turn that is not of this log's own making."""


class Standing(NamedTuple):
    """What the lines that stand say to who writes the next one: the number of the newest (None: they have none)."""

    ordinal: int | None
    turn: OpenedTurn | None = None
    """The one that has not ended; where nobody holds it, it is to be closed ahead of anything else."""
    shown: int = 0
    """The write that `ItemEvents` has counted in last."""


class Recorder:
    """A writer's lines, one record after the other; `label` is the log's. Safe to use from several threads.

    With a `cipher` the log is encrypted; `ending` has a number then. `item_events` are those of a paginated log.
    """

    def __init__(
        self,
        writer: Writer,
        ports: Ports,
        label: Label,
        thread: str = "",
        ending: Ending | None = None,
        cipher: LineCipher | None = None,
        item_events: ItemEvents | None = None,
    ) -> None:
        self.writer, self.ports, self.label, self.thread = writer, ports, label, thread
        self._cipher, self._item_events, self._clock = cipher, item_events, ports.clock
        self.newest_line = b""
        """What was written last, as it is before it is encrypted."""
        if ending is not None:
            left = ending.left_open
            turn = None if left is None else OpenedTurn(left.turn_id, left.label, _nobody)
            with writer.lock:
                writer.note(Standing(ending.ordinal, turn))

    @property
    def standing(self) -> Standing:
        """Under the writer's lock."""
        standing: Standing = self.writer.noted or self._look_up()
        return standing

    def _look_up(self) -> Standing:
        """What stands in a file that others write too, to be looked at again behind each of them."""
        raise NotImplementedError

    @property
    def _open_turn(self) -> OpenedTurn | None:
        turn = self.standing.turn
        return None if turn is None or turn.holder() is None else turn

    def ending(self) -> tuple[int, Ending]:
        """Where the log ends, and how; a turn that is open counts as left open."""
        with self.writer.lock:
            standing, end = self.standing, self.writer.end
        turn = standing.turn
        return end, Ending(None if turn is None else LeftOpen(turn.id, turn.label), standing.ordinal)

    def is_open(self, turn_id: str) -> bool:
        """Whether this is the turn that is open."""
        with self.writer.lock:
            turn = self._open_turn
        return turn is not None and turn.id == turn_id

    def write(
        self, parts: Sequence[Part], *, expected_end: int | None = None, atomic: bool = False, alone: str | None = None
    ) -> int:
        """Appends, in the turn that is open or in none; the offset behind. RecordError, Conflict: nothing was written.

        Has the label of that turn, or that which is in force here (UsageError). `alone` is why no turn may be open: it
        is committed as at the end of one.
        """
        with self.writer.lock:
            if alone is not None:
                self._refuse_open_turn(alone)
            turn = self._open_turn
            label = in_force(self.label) if turn is None else turn.label
            if self._close_left_open(turn, expected_end):
                expected_end = None
            end = self._put(parts, label, self.standing, turn, expected_end=expected_end, atomic=atomic)
        self.acknowledge(ends_turn=alone is not None)
        return end

    def begin(self, turn_id: str, label: Label, parts: Sequence[Part], holder: Callable[[], object]) -> Label:
        """Writes the beginning of a turn, which has `label` inside of that which is in force here; what they make.

        UsageError if a turn is open, or what is said disagrees: nothing was written.
        """
        with self.writer.lock:
            self._refuse_open_turn("a turn cannot begin")
            label = in_force(self.label).around(label)
            self._close_left_open()
            self._put(parts, label, self.standing, OpenedTurn(turn_id, label, holder))
        self.acknowledge()
        return label

    def write_in_turn(
        self, turn_id: str, parts: Sequence[Part] | Say, *, expected_end: int | None = None, atomic: bool = False
    ) -> int:
        """Appends to a turn; the offset behind. Closed if it is not the open one; else as `write`."""
        with self.writer.lock:
            standing = self.standing
            turn = standing.turn
            if turn is None or turn.id != turn_id or turn.holder() is None:
                raise Closed(f"turn {turn_id} is not open", path=self.writer.path, remedy="use it in a with block")
            said, behind = parts(turn) if callable(parts) else (parts, turn)
            end = self._put(said, turn.label, standing, behind, expected_end=expected_end, atomic=atomic)
        self.acknowledge(ends_turn=behind is None)
        return end

    def forget(self, turn_id: str) -> None:
        """Nobody ends a turn any more that could not be ended: it is one that the log was left with."""
        with self.writer.lock:
            standing = self.standing
            if standing.turn is not None and standing.turn.id == turn_id:
                self.writer.note(standing._replace(turn=standing.turn._replace(holder=_nobody)))

    def close_left_open(self) -> None:
        """Closes the turn that the log was left with, as interrupted, and commits as at the end of one."""
        with self.writer.lock:
            was_left = self._close_left_open()
        if was_left:
            self.writer.end_turn()

    def close(self) -> None:
        """Closes its own turn as interrupted, puts all on the disk as the durability says, gives the lock back."""
        try:
            with contextlib.suppress(Poisoned, Closed, Displaced), self.writer.lock:  # which were told
                turn = self.standing.turn
                if turn is not None and turn.holder is not _nobody:
                    self._abort(turn)
        finally:
            self.writer.close()

    def acknowledge(self, *, ends_turn: bool = False) -> None:
        """After every record or run of records: on the disk, if that is asked for. Never under the writer's lock."""
        if ends_turn:
            self.writer.end_turn()
        elif not _acknowledges_later.get():
            self.writer.acknowledge()

    def unacknowledged(self, write: Callable[..., T], *args: Any, **keys: Any) -> T:
        """What `write` returns, in a context of its own, in which no record is acknowledged: who has made it does."""
        _acknowledges_later.set(True)
        return write(*args, **keys)

    def _put(
        self,
        parts: Sequence[Part],
        label: Label,
        standing: Standing,
        turn: OpenedTurn | None,
        *,
        expected_end: int | None = None,
        atomic: bool = False,
    ) -> int:
        """Appends; `turn` is the one that is open behind the lines. Under the lock."""
        now, ordinal, shown = self._clock(), standing.ordinal, standing.shown
        if self._item_events is not None:
            if self._item_events.writes != shown:  # the newest one was interrupted, or refused
                self._item_events.forget_newest()
            told = self._item_events.add_to([part[:2] for part in parts], round(now * 1000))
            parts = [Part(*record) for record in told]
            shown = self._item_events.writes
        lines = encoder.lines(parts, now, ordinal, label.envelope)
        if ordinal is not None:
            ordinal += len(lines)
        if lines:
            self.newest_line = lines[-1]
        if self._cipher is not None:  # with its mark: that is authenticated too
            lines = self._cipher.lines(recovery.mark_batch(lines) if atomic else lines)
        noted = Standing(ordinal, turn, shown)
        return self.writer.append(lines, expected_end=expected_end, atomic=atomic, noted=noted)

    def _close_left_open(self, open_turn: OpenedTurn | None = None, expected_end: int | None = None) -> bool:
        """Whether there was a turn to be closed: any but the one that is open."""
        turn = self.standing.turn
        if turn is None or turn is open_turn:
            return False
        self._abort(turn, expected_end)
        return True

    def _abort(self, turn: OpenedTurn, expected_end: int | None = None) -> None:
        label = turn.label or self.label
        self._put(turn_aborted(turn.id), label, self.standing, None, expected_end=expected_end, atomic=True)

    def _refuse_open_turn(self, what: str) -> None:
        if self._open_turn is not None:
            raise UsageError(f"{what} while a turn is open", path=self.writer.path, remedy="end that turn first")
