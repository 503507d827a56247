"""What a session goes through, as values, and the history that must come of it.

A `Step` is what an agent does to its session: it takes a turn, takes turns back, compacts. `Conversation` is the model
of that in memory, small enough to be seen to be right: a program that records the same steps must read that history.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from rollout import SessionLog, Store, is_program_message
from rollout.files.port import FileSystem

HOME = "/home/test"
"""Where `new_store` has its sessions."""
_MORNING = 1774000800  # 2026-03-20T10:00:00Z
Item: TypeAlias = Mapping[str, Any]
"""One item as the model API has it."""


@dataclasses.dataclass(frozen=True, slots=True)
class TakeTurn:
    """A turn: a person's message first, then what the model and the tools make of it."""

    items: tuple[Item, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class RollBack:
    """The newest `num_turns` turns are taken back; all of them where there are no more."""

    num_turns: int


@dataclasses.dataclass(frozen=True, slots=True)
class Compact:
    """`items` take the place of the whole history."""

    items: tuple[Item, ...]


Step: TypeAlias = TakeTurn | RollBack | Compact


@dataclasses.dataclass(frozen=True, slots=True)
class Conversation:
    """What a model sees of the steps so far (rules S1 to S3, for turns that begin with a message of a person).

    `before` is the history as it was before each turn that stands, oldest first: what a rollback restores.
    """

    history: tuple[Item, ...] = ()
    before: tuple[tuple[Item, ...], ...] = ()

    def after(self, *steps: Step) -> Conversation:
        """The conversation when these steps were taken, too."""
        return functools.reduce(Conversation._after, steps, self)

    def _after(self, step: Step) -> Conversation:
        match step:
            case TakeTurn(items):
                return Conversation((*self.history, *items), (*self.before, self.history) if items else self.before)
            case RollBack(num_turns) if num_turns <= len(self.before):
                return Conversation(self.before[-num_turns], self.before[:-num_turns])
            case RollBack():
                return Conversation()
            case Compact(items):
                return Conversation(items, self.before)


def record(log: SessionLog, *steps: Step) -> None:
    """Records the steps in a log of this library.

    Raises:
        UsageError: A turn of the log is open.
        WriteError: They could not be written.
    """
    for step in steps:
        match step:
            case TakeTurn(items):
                with log.turn() as turn:
                    for item in items:
                        turn.append(item)
            case RollBack(num_turns):
                log.rollback(num_turns)
            case Compact(items):
                log.compact(items)


def said(history: Iterable[Item]) -> tuple[Item, ...]:
    """A history without what programs write into it (that a turn was interrupted, say): to compare with the model's."""
    return tuple(item for item in history if not is_program_message(item))


def new_store(fs: FileSystem, ticks: Callable[[], int] | None = None) -> Store:
    """A store on a simulated disk (its home is `HOME`) in which ids and times are the same in each run.

    Args:
        fs: The disk.
        ticks: Gives another number each time, by default 0, 1, 2, …: milliseconds since a morning in 2026. Two stores
            with one home need one of them together, as two threads must not have one id.
    """
    tick = ticks or itertools.count().__next__
    return Store(HOME, fs=fs, clock=lambda: _MORNING + tick() / 1000, randomness=lambda n: tick().to_bytes(n, "big"))
