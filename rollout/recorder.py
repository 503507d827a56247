"""The one place where records become lines of an open log, in order.

`lock` orders everything that is written; under it stands who has the open turn. Nothing is synced under it, so that
threads that wait for the disk share one sync. A turn that the log was left with (by a crash, or by a fork in the middle
of it) is closed as interrupted before anything else is written.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence

from rollout import encoding, labelling
from rollout.core.item_events import ItemEvents
from rollout.core.labels import UNLABELLED, Label
from rollout.encoding import Part
from rollout.errors import UsageError
from rollout.ports import Ports
from rollout.storage import recovery
from rollout.storage.cipher import Cipher
from rollout.storage.durability import Durability
from rollout.storage.encrypted import encrypt_line
from rollout.storage.ending import Ending
from rollout.storage.writer import Writer

ABORTED_TEXT = (
    "<turn_aborted>\nThe previous turn was interrupted before it was finished. Commands that were running may still be "
    "running in the background; those that were aborted may have been carried out in part.\n</turn_aborted>"
)


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
        cipher: Cipher | None = None,
    ) -> None:
        self.label, self._cipher = label, cipher
        self.lock = threading.RLock()
        self.writer, self.ports, self.thread = writer, ports, thread
        self._syncs_records = durability is Durability.RECORD
        self._clock = ports.clock
        self._of_thread = threading.local()
        self.open_turn: object | None = None
        self.left_open = ending.left_open
        self.ordinal = ending.ordinal
        self.item_events: ItemEvents | None = None
        """Of a paginated log."""
        # The writer itself would sync under our lock: records are synced by `acknowledge` alone.
        writer.durability = Durability.TURN if self._syncs_records else durability

    def write(
        self, parts: Sequence[Part], label: Label, *, expected_end: int | None = None, atomic: bool = False
    ) -> int:
        """Appends; the offset behind. RecordError, Conflict: nothing was written. Under `lock`, then `acknowledge`."""
        if self.left_open is not None:
            turn, self.left_open = self.left_open, None
            try:
                self.write(abort(turn.turn_id), turn.label or self.label, expected_end=expected_end, atomic=True)
            except BaseException:
                self.left_open = turn
                raise
            expected_end = None
        now, ordinal, keys = self._clock(), self.ordinal, label.envelope
        if self.item_events is not None:
            parts = [Part(*record) for record in self.item_events.add_to(parts, round(now * 1000))]
        if ordinal is None:
            lines = [encoding.line(part, now, None, keys) for part in parts]
        else:
            lines = [encoding.line(part, now, ordinal + n, keys) for n, part in enumerate(parts, 1)]
        if self._cipher is not None:  # with its mark: that is authenticated too
            marked = recovery.mark_batch(lines) if atomic else lines
            lines = [encrypt_line(line, self._cipher, self.thread, now=now) for line in marked]
        end = self.writer.append(lines, expected_end=expected_end, atomic=atomic)
        if ordinal is not None:
            self.ordinal = ordinal + len(parts)
        return end

    def label_here(self, given: Label = UNLABELLED) -> Label:
        """The label of a record that is `given` one, if it is written from here, not by a turn. UsageError."""
        return labelling.in_force(self.label, self.open_turn).around(given)

    def acknowledge(self) -> None:
        """After every record or run of records, without `lock`: on the disk, if that is asked for."""
        if self._syncs_records and not getattr(self._of_thread, "acknowledges_later", False):
            self.writer.commit()

    @contextlib.contextmanager
    def acknowledging_later(self) -> Iterator[Callable[..., int]]:
        """In the block nothing that this thread writes is acknowledged but by a call of what the block is given.

        That commits once for all if it has to (or if `commits`), and tells how many bytes are on the disk.
        """

        def acknowledge(*, commits: bool) -> int:
            return self.writer.commit() if commits or self._syncs_records else self.writer.durable_end

        self._of_thread.acknowledges_later = True
        try:
            yield acknowledge
        finally:
            self._of_thread.acknowledges_later = False

    def write_alone(self, parts: Sequence[Part], what: str, *, expected_end: int | None = None) -> int:
        """Writes, all or nothing, what may not stand in the middle of a turn, and commits as at the end of one."""
        with self.lock:
            self.refuse_open_turn(what)
            end = self.write(parts, self.label_here(), expected_end=expected_end, atomic=True)
        self.writer.end_turn()
        return end

    def refuse_open_turn(self, what: str) -> None:
        """UsageError if a turn is open. Under `lock`."""
        if self.open_turn is not None:
            raise UsageError(f"{what} while a turn is open", path=self.writer.path, remedy="end that turn first")


def abort(turn_id: str | None, reason: str = "interrupted") -> list[Part]:
    """What ends a turn that is not completed: for the model (if it was interrupted), and for the reader."""
    named = {} if turn_id is None else {"turn_id": turn_id}
    content = [{"type": "input_text", "text": ABORTED_TEXT}]
    told = encoding.encode({"type": "message", "role": "user", "content": content})
    ended = encoding.event("turn_aborted", {**named, "reason": reason})
    return [Part("response_item", told), ended] if reason == "interrupted" else [ended]
