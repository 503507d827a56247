"""A state machine for Hypothesis that drives a recorder: turns, rollbacks, compactions, kills and crashes in any order.

    class MyAgent(RecorderMachine):
        def start(self, disk): ...
        def take_turn(self, items): ...
        def history(self): ...

    TestMyAgent = MyAgent.TestCase
    TestMyAgent.settings = settings(max_examples=100, stateful_step_count=30)

Needs Hypothesis: `pip install 'rollout[testing]'`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

try:
    from hypothesis import strategies as st
    from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("needs Hypothesis; run pip install 'rollout[testing]'", name=error.name) from error

from rollout import SessionLog
from rollout.testing import strategies
from rollout.testing.crashes import crash_state
from rollout.testing.disk import SimulatedDisk
from rollout.testing.sessions import (
    HOME,
    Compact,
    Conversation,
    Item,
    RollBack,
    Step,
    TakeTurn,
    new_store,
    record,
    said,
)

CRASH_WITHIN_OPS = 16
"""A crash comes so many operations of the disk before now at the most."""


class RecorderMachine(RuleBasedStateMachine):
    """Takes steps of a session, kills the program, crashes the machine; the program must read what it has recorded.

    What is asked of it: a step that has returned is there after the process was killed, and after the machine has
    crashed. Of a step that a crash has cut short, a turn may be there up to any of its items, everything else wholly
    or not at all. Messages that programs write by themselves (`rollout.is_program_message`) are not compared.

    As it stands it drives a log of this library. Derive from it and say how your program does it: `start`, `take_turn`
    and `history`; `roll_back` and `compact` too, or else set `steps` to `strategies.turns()`.

    Attributes:
        steps: The strategy for a step.
        disk: What the program runs on now.
        ticks: Gives another number each time, the same ones in each run: for `new_store`.
    """

    steps: st.SearchStrategy[Step] = strategies.steps()

    def __init__(self) -> None:
        super().__init__()
        self.disk = SimulatedDisk({HOME: None})
        self.ticks: Callable[[], int] = itertools.count().__next__
        self._now = [Conversation()]  # several, where a crash has left what could be more than one
        self._done: list[tuple[int, Step]] = []  # since the disk began: how many operations it had when a step returned
        self._start = self._now

    # the program

    def start(self, disk: SimulatedDisk) -> None:
        """Starts the program: for the first time, or again on what a killed process or a crash has left on the disk."""
        store = new_store(disk, self.ticks)
        logs = [path for path in disk.tree() if path.endswith(".jsonl")]
        self.log: SessionLog = store.open(Path(logs[0])) if logs else store.create(cwd="/work", model_provider="test")

    def take_turn(self, items: Sequence[Item]) -> None:
        """Records a turn, the person's message first; it is safe when this returns."""
        record(self.log, TakeTurn(tuple(items)))

    def roll_back(self, num_turns: int) -> None:
        """Takes back the newest `num_turns` turns, or all if there are fewer; this is safe when it returns."""
        record(self.log, RollBack(num_turns))

    def compact(self, items: Sequence[Item]) -> None:
        """Puts `items` in the place of the history; this is safe when it returns."""
        record(self.log, Compact(tuple(items)))

    def history(self) -> Iterable[Item]:
        """What the program takes for the history of its session."""
        return self.log.resume_state().history

    # what happens to it

    @initialize()
    def begin(self) -> None:
        """The program is started on an empty disk."""
        self.start(self.disk)

    @rule(data=st.data())
    def work(self, data: st.DataObject) -> None:
        """Some steps are recorded; each is read back."""
        for step in data.draw(st.lists(self.steps, min_size=1, max_size=4), label="steps"):
            match step:
                case TakeTurn(items):
                    self.take_turn(items)
                case RollBack(num_turns):
                    self.roll_back(num_turns)
                case Compact(items):
                    self.compact(items)
            self._now = [conversation.after(step) for conversation in self._now]
            self._done.append((len(self.disk.ops), step))
            self.what_is_read_is_what_was_recorded()

    @rule()
    def kill(self) -> None:
        """The process dies, and the program is started again."""
        self.disk.kill()
        self.start(self.disk)

    @rule(data=st.data())
    def crash(self, data: st.DataObject) -> None:
        """The machine crashes, now or in the midst of what was done last, and the program is started again."""
        ops = len(self.disk.ops)
        at = ops - data.draw(st.integers(0, min(ops, CRASH_WITHIN_OPS)), label="operations lost")
        tree = crash_state(self.disk, at, lambda n: data.draw(st.integers(0, n - 1)))
        safe = [step for end, step in self._done if end <= at]
        self._now = [conversation.after(*safe) for conversation in self._start]
        for _, step in self._done[len(safe) : len(safe) + 1]:
            self._now += [conversation.after(part) for conversation in self._now for part in _parts(step)]
        self.disk = SimulatedDisk(tree)
        self.start(self.disk)
        self.what_is_read_is_what_was_recorded()
        self._start, self._done = self._now, []

    @invariant()
    def what_is_read_is_what_was_recorded(self) -> None:
        """The history that the program gives is that of the steps."""
        found = said(self.history())
        fitting = [conversation for conversation in self._now if conversation.history == found]
        expected = [conversation.history for conversation in self._now]
        assert fitting, f"the program reads {found!r}; recorded was {' or '.join(map(repr, expected))}"
        self._now = [each for n, each in enumerate(fitting) if each not in fitting[:n]]


def _parts(step: Step) -> list[Step]:
    """What may be there of a step that a crash has cut short, if anything is."""
    return [TakeTurn(step.items[:n]) for n in range(1, len(step.items) + 1)] if isinstance(step, TakeTurn) else [step]
