"""Logs on a simulated disk, each with a witness of what must come back of it, also after a crash.

A `Trial` is a home on a disk; it makes, opens and forks logs. A `Witness` does to its log what it is asked, tells its
live model the same record by record, and notes what was acknowledged. After a crash it knows from the number of whole
lines that are left at which moment the log stands, and that it may not be one before the last acknowledgement.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rollout.dialects.codex.encoder import ABORTED_TEXT
from rollout.files.port import Durability
from rollout.session.log import SessionLog
from rollout.session.turn import OpenTurn
from rollout.store import Store
from rollout.testing.crashes import Tree
from rollout.testing.disk import SimulatedDisk
from tests.live_model import Item, Live, Seen, see

HOME = "/simulated"
START: Tree = {HOME: None}
MORNING = 1774000800  # 2026-03-20T10:00:00Z
_ABORTED = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": ABORTED_TEXT}]}
Step = Callable[[Live], None]
Ack = Callable[[Any], None]


@dataclasses.dataclass(frozen=True, slots=True)
class Moment:
    """The session when its file had so many `lines`; the turns that began and ended since the moment before."""

    live: Live
    lines: int
    began: str | None = None
    ended: str | None = None


def message(role: str, *texts: str) -> dict[str, Any]:
    """An item."""
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text} for text in texts]}


def count_lines(data: bytes) -> int:
    """Whole lines, with or without the newline of the last one; without those of a batch that a crash has cut short.

    They may be there again: what opening the log has cut off and written instead can be lost by a later crash.
    """
    *lines, tail = data.split(b"\n")
    if _decoded(tail) is not None:
        lines.append(tail)
    return len(lines) - cut_batch(lines)


def cut_batch(lines: Sequence[bytes]) -> int:
    """How many lines at the end are those of a batch that a crash has cut short."""
    newest = next(filter(None, map(_decoded, reversed(lines))), {})
    k, n = newest.get("batch", [0, 0])
    return k if k < n else 0


def _decoded(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line.strip(b"\0"))
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


class Trial:
    """A home on a disk. `ack` is called with (number of the witness, number of the moment) for all that is safe.

    Time begins in the morning and goes on by a millisecond each time it is asked for, `since` so many.
    """

    def __init__(self, disk: SimulatedDisk, ack: Ack = lambda _: None, *, since: int = 0) -> None:
        self.disk, self.ack = disk, ack
        self.make_witness: type[Witness] = Witness
        self.witnesses: list[Witness] = []
        self._ticks = itertools.count(since)
        self.store = self.new_store()

    def new_store(self) -> Store:
        """What another process would have."""
        return Store(HOME, fs=self.disk, clock=self._clock, randomness=self._randomness)

    def _clock(self) -> float:
        return MORNING + next(self._ticks) / 1000

    def _randomness(self, n: int) -> bytes:
        return hashlib.sha256(b"%d" % next(self._ticks)).digest()[:n]

    def create(self, durability: Durability = Durability.TURN) -> Witness:
        """A new thread."""
        log = self.store.create(cwd="/p", model_provider="m", durability=durability)
        live = Live()
        live.meta()
        return self.watch(log, Moment(live, 1), is_durable=durability is not Durability.NONE)

    def watch(
        self, log: SessionLog, born: Moment, before: Mapping[tuple[str, bool], Live] | None = None, *, is_durable: bool
    ) -> Witness:
        """A witness for a log that was just made."""
        witness = self.make_witness(self, len(self.witnesses), log, born, before or {})
        self.witnesses.append(witness)
        if is_durable:
            witness.acknowledge()
        return witness

    def kill(self) -> None:
        """The process dies; what the operating system was told is there."""
        self.disk.kill()
        for witness in self.witnesses:
            witness.lose_log()

    def after(self, disk: SimulatedDisk, acked: Mapping[int, int], ack: Ack = lambda _: None) -> Trial:
        """A trial that goes on with what a crash has left: each witness at the moment at which its log stands.

        AssertionError if anything acknowledged is missing, or anything else than what was written is there.
        """
        trial = type(self)(disk, ack, since=next(self._ticks) + 1000)
        tree = disk.tree()
        for witness in self.witnesses:
            data = tree.get(str(witness.path))
            found = witness.find(data, acked.get(witness.number, -1))
            if data is not None and found is not None:
                trial.witnesses.append(witness.at(trial, len(trial.witnesses), found))
        return trial


class Witness:
    """One log; `turn` is None while none is open, `moments` are all that the file went through."""

    def __init__(
        self, trial: Trial, number: int, log: SessionLog, born: Moment, before: Mapping[tuple[str, bool], Live]
    ) -> None:
        self.trial, self.number, self.log = trial, number, log
        self.path, self.id, self.durability = log.path, log.id, log.durability
        self.turn: OpenTurn | None = None
        self.is_open = True
        self.moments = [born]
        self.before = dict(before)  # where turns began (False) and ended (True) in the logs that this one goes on from

    def __repr__(self) -> str:
        return f"log {self.number}"

    @property
    def live(self) -> Live:
        """The session as it is now."""
        return self.moments[-1].live

    # what is written

    def begin(self, context: Mapping[str, Any] | None = None) -> None:
        """A turn."""
        self._close_left_open()
        self.turn = self.log.turn(context)
        turn_id = self.turn.id
        self.turn.__enter__()
        self._did([lambda live: live.start(turn_id)], began=turn_id)
        if context is not None:
            self._did([lambda live: live.context({"turn_id": turn_id, **context})])
        self._acknowledge_records()

    def user(self, text: str) -> None:
        """A user's message."""
        self._turn.user(text)
        self._did([lambda live: live.item(message("user", text)), Live.event])
        self._acknowledge_records()

    def append(self, item: Item) -> None:
        """An item in the turn."""
        self._turn.append(item)
        self._did(_steps_of(item))
        self._acknowledge_records()

    def append_all(self, items: Sequence[Item]) -> None:
        """A batch."""
        self._turn.append_all(items)
        self._did([step for item in items for step in _steps_of(item)], atomic=True)
        self._acknowledge_records()

    def compact_in_turn(self, items: Sequence[Item], context: Mapping[str, Any] | None) -> None:
        """A compaction in mid-turn."""
        turn_id = self._turn.id
        self._turn.compact(items, context=context)
        steps: list[Step] = [lambda live: live.compacted(items)]
        if context is not None:
            steps.append(lambda live: live.context({"turn_id": turn_id, **context}))
        self._did([*steps, Live.event], atomic=True)
        self._acknowledge_records()

    def end(self) -> None:
        """task_complete."""
        self._turn.__exit__(None, None, None)
        self._did([lambda live: live.end("completed")], ended=self._turn.id)
        self._ended()

    def fail(self, error: BaseException) -> None:
        """An exception ends the turn."""
        self._turn.__exit__(type(error), error, None)
        self._aborted()
        self._ended()

    def abort(self, reason: str) -> None:
        """The turn is ended as asked."""
        self._turn.abort(reason)
        self._turn.__exit__(None, None, None)
        if reason == "interrupted":
            self._aborted()
        else:
            self._did([lambda live: live.end("interrupted")], ended=self._turn.id)
        self._ended()

    def record(self, item: Item) -> None:
        """An item that is written past the turn, or outside of any."""
        self._close_left_open()
        self.log.record("response_item", item)
        self._did([lambda live: live.item(item)])
        self._acknowledge_records()

    def event(self, type: str, **keys: Any) -> None:
        """An event, in a turn or not: items_removed and token_count mean something."""
        self._close_left_open()
        self.log.event(type, keys)
        steps: dict[str, Step] = {
            "items_removed": lambda live: live.items_removed(keys["num_items"]),
            "token_count": lambda live: live.usage(keys["info"]["total_token_usage"]),
        }
        self._did([steps.get(type, Live.event)])
        self._acknowledge_records()

    def world(self, full: bool, state: Mapping[str, Any]) -> None:
        """A snapshot of the world, or a patch to it."""
        self._close_left_open()
        self.log.record("world_state", {"full": full, "state": state})
        self._did([lambda live: live.world(full, state)])
        self._acknowledge_records()

    def compact(self, items: Sequence[Item]) -> None:
        """A compaction by hand."""
        self._close_left_open()
        self.log.compact(items)
        written = (self.trial.disk.tree()[str(self.path)] or b"").split(b"\n")[-5]
        turn_id = str(json.loads(written)["payload"]["turn_id"])
        begin: list[Step] = [lambda live: live.start(turn_id), lambda live: live.compacted(items)]
        steps: list[Step] = [*begin, Live.event, lambda live: live.end("completed")]
        self._did(steps, atomic=True, began=turn_id, ended=turn_id)
        self._ended()

    def rollback(self, num_turns: int) -> None:
        """A rollback, outside of turns."""
        self._close_left_open()
        self.log.rollback(num_turns)
        self._did([lambda live: live.rolled_back(num_turns)])
        self._ended()

    def commit(self) -> None:
        """All that was written is safe."""
        self.log.commit()
        assert self.log.durable_end == self.log.end
        self.acknowledge()

    def close(self) -> None:
        """The log is closed, its turn as interrupted."""
        self.log.close()
        if self.turn is not None:
            self._aborted()
        self._ended()
        self.lose_log()

    def lose_log(self) -> None:
        """The log is open no longer."""
        self.turn, self.is_open = None, False

    def reopen(self) -> None:
        """Opened for append; a turn that was left open is closed."""
        self.log = self.trial.store.open(self.path, durability=self.durability)
        self.is_open = True
        self._close_left_open()
        if self.durability is not Durability.NONE:
            self.acknowledge()

    def fork(self, at: Moment | None = None, *, copy: bool = False, source: SessionLog | None = None) -> Witness:
        """A fork of what was there at `at` (a moment of this file), or of all."""
        moment = at or self.moments[-1]
        lines = (self.trial.disk.tree()[str(self.path)] or b"").split(b"\n")
        offset = None if at is None else sum(len(line) + 1 for line in lines[: at.lines])
        return self._watch_fork((source or self.log).fork(offset, copy=copy), moment.live, copy)

    def fork_at_turn(self, turn_id: str, *, before: bool, copy: bool) -> Witness:
        """A fork of what was there when a turn began or ended."""
        live = self._turns()[turn_id, not before]
        return self._watch_fork(self.log.fork(turn_id, before=before, copy=copy), live, copy)

    @property
    def turns(self) -> list[str]:
        """The ids of turns that have begun and ended."""
        known = self._turns()
        return sorted({turn_id for turn_id, _ in known if (turn_id, False) in known and (turn_id, True) in known})

    # what must come back

    def check(self) -> None:
        """What a reader and (if it is open) the writer see is what the live model says."""
        self.compare(see(self.trial.store.open(self.path, "read").resume_state()), "a reader")
        if self.is_open:
            self.compare(see(self.log.resume_state()), "the writer")

    def compare(self, seen: Seen, who: str) -> None:
        """AssertionError if it is not what the live model says."""
        expected = self.live.seen()
        if seen != expected:
            wrong = {key: (seen[key], expected[key]) for key in expected if seen[key] != expected[key]}
            raise AssertionError(f"{self.path}: what {who} sees, and what was written: {wrong!r}")

    def find(self, data: bytes | None, acked: int) -> Moment | None:
        """The moment at which a crash has left the file (made as a whole); None if it is not there, and need not be."""
        lines = 0 if data is None else count_lines(data)
        there = [i for i, moment in enumerate(self.moments) if moment.lines <= lines]
        assert acked <= max(there, default=-1), f"{self.path} has lost what was acknowledged"
        born = self.moments[0].lines
        assert there or data is None, f"{self.path} has its name, and {lines} of the {born} lines it was made with"
        return self.moments[there[-1]] if there else None

    def at(self, trial: Trial, number: int, moment: Moment) -> Witness:
        """This witness in another trial, its log closed, at one of its moments."""
        other = type(self)(trial, number, self.log, self.moments[0], self.before)
        other.moments = self.moments[: self.moments.index(moment) + 1]
        other.lose_log()
        return other

    def acknowledge(self) -> None:
        """All that was written is said to be on the disk."""
        self.trial.ack((self.number, len(self.moments) - 1))

    # what they have in common

    @property
    def _turn(self) -> OpenTurn:
        assert self.turn is not None
        return self.turn

    def _did(
        self, steps: Sequence[Step], *, atomic: bool = False, began: str | None = None, ended: str | None = None
    ) -> None:
        """Each step is a record; those of an atomic one are there together or not at all."""
        live, lines = self.live, self.moments[-1].lines
        for n, step in enumerate(steps, 1):
            live = live.copy()
            step(live)
            if not atomic or n == len(steps):
                self.moments.append(Moment(live, lines + n, began, ended))

    def _aborted(self) -> None:
        turn_id = self.live.open_turn
        self._did([lambda live: live.item(_ABORTED), lambda live: live.end("interrupted")], atomic=True, ended=turn_id)

    def _close_left_open(self) -> None:
        if self.turn is None and self.live.open_turn is not None:
            self._aborted()

    def _acknowledge_records(self) -> None:
        if self.durability is Durability.RECORD:
            self.acknowledge()

    def _ended(self) -> None:
        self.turn = None
        if self.durability is not Durability.NONE:
            self.acknowledge()

    def _turns(self) -> dict[tuple[str, bool], Live]:
        found = dict(self.before)
        for older, moment in itertools.pairwise(self.moments):
            if moment.began is not None:
                found[moment.began, False] = older.live
            if moment.ended is not None:
                found[moment.ended, True] = moment.live
        return found

    def _watch_fork(self, log: SessionLog, live: Live, copy: bool) -> Witness:
        lines = 1
        if copy:
            lines = count_lines(self.trial.disk.tree()[str(log.path)] or b"")
        else:
            live = live.copy()
            live.meta()
        is_durable = copy and log.durability is not Durability.NONE
        before = {
            (turn_id, is_end): found
            for (turn_id, is_end), found in self._turns().items()
            if turn_id in live.turn_ids and not (is_end and turn_id == live.open_turn)
        }
        return self.trial.watch(log, Moment(live, lines), before, is_durable=is_durable)


def assistant(text: str, *plans: str) -> dict[str, Any]:
    """An assistant's message with plans in it."""
    blocks = [f"<proposed_plan>\n{plan}\n</proposed_plan>\n" for plan in plans]
    return message("assistant", "".join([f"{text}\n", *blocks]))


def _steps_of(item: Item) -> list[Step]:
    """An assistant's message has events ahead of it: one for its text, one for each plan."""
    events: list[Step] = []
    if item["type"] == "message" and item["role"] == "assistant":
        plans = str(item["content"][0]["text"]).count("<proposed_plan>\n")
        events = [Live.event] * (1 + plans)
    return [*events, lambda live: live.item(item)]
