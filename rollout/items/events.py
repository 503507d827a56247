"""What records say, in no agent's words: a dialect makes events of its records, and the fold knows nothing else.

A record is one *event*, or a line of one of the *line kinds*, where nothing but its place in the log counts. What an
event takes out of the history counts backward from where it stands. The bases of a log are no events: `files` finds
them before a line is read.
"""

from __future__ import annotations

import enum
from array import array
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

import msgspec


class LineKind(enum.IntEnum):
    """A line that needs no event of its own. `METERED` and `METERED_EVENT` also tell how full the model's window is."""

    ITEM = 0
    """A visible item: a call, its result, reasoning, what is kept byte for byte."""
    SAID = 1
    """A visible message of the model."""
    EVENT = 2
    """For people or programs; no model sees it."""
    METADATA = 3
    SESSION = 4
    """Describes the session, and shows nothing of the turn that it lies in."""
    METERED = 5
    METERED_EVENT = 6


class TurnStarted(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=0):
    """A turn begins (S1). `time` is as it was recorded."""

    turn_id: str | None
    time: str | None = None


class TurnEnded(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=1):
    """The open turn is completed."""

    time: str | None = None


class TurnAborted(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=2):
    """The open turn was interrupted, if it has this id or either is not known."""

    turn_id: str | None
    time: str | None = None


class UserMessage(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=3):
    """A message of a person: a user boundary (S1). `text` is how it begins, where that is asked for."""

    text: str | None = None


class AgentMessage(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=4):
    """An instruction from another agent: a user boundary, too. `is_made`: its item is made of the record."""

    is_made: bool


class ProgramMessage(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=5):
    """A message that the program wrote itself (S5)."""


class Items(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=6):
    """A run of lines, at least one of which is a visible item of no event of its own."""


class Unseen(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=7):
    """A run of lines that no model sees."""


class UserAnnounced(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=8):
    """Tells people what a user said; the message itself is an event of its own."""


class Settings(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=9):
    """The settings that a turn ran with (S4)."""

    model: str
    turn_id: str | None


class WorldState(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=10):
    """A snapshot of the world, or (not `is_full`) a change of the last one."""

    is_full: bool


class Replaced(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=11):
    """A compaction: the history is replaced by items, or (not `has_items`) by the users' texts and a summary (S3)."""

    has_items: bool


class ItemsRemoved(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=12):
    """The newest `count` items are taken out of the history (S3)."""

    count: int


class TurnsRemoved(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=13):
    """A rollback: the newest `count` user boundaries are taken back, and what followed them (S2)."""

    count: int


class PlanProposed(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=14):
    """The model proposed a plan."""

    text: str


class Malformed(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=15):
    """A record that lacks what its kind needs: it has no effect."""

    reason: str


class Damaged(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=16):
    """Bytes that are no record."""

    reason: str


class Blank(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=17):
    """A blank line."""


Event: TypeAlias = (
    TurnStarted
    | TurnEnded
    | TurnAborted
    | UserMessage
    | AgentMessage
    | ProgramMessage
    | Items
    | Unseen
    | UserAnnounced
    | Settings
    | WorldState
    | Replaced
    | ItemsRemoved
    | TurnsRemoved
    | PlanProposed
    | Malformed
    | Damaged
    | Blank
)
BOUNDARIES = (UserMessage, AgentMessage)
ITEM_EVENTS = (*BOUNDARIES, ProgramMessage, Items)
"""What the model sees, as long as it stands."""
NO_RECORDS = (Damaged, Blank)
ITEMS, UNSEEN = Items(), Unseen()


class LineRun(Protocol):
    """Neighbouring lines without events of their own, as a sink collects them; see `rollout.fold.events.Run`."""

    event: Event
    offset: int
    size: int
    count: int
    lines: list[bytes] | None
    refs: array[int] | None


class EventSink(Protocol):
    """What a dialect's loops over lines give the records to, newest first."""

    depth: int
    newlines: int
    traces: bool
    """Every line is wanted, not only those that have an event."""
    wants_turns: bool
    wants_usage: bool
    wants_world: bool

    @property
    def noting(self) -> tuple[Callable[[int], None], Callable[[str], Any]] | None:
        """Where the types of lines are noted: what notes a number, and the numbers of the records of a type."""
        ...

    @property
    def marks(self) -> Sequence[object]: ...
    def count(self, n: int) -> None: ...
    def run(self, offset: int, size: int) -> LineRun: ...
    def trace(self, offset: int, size: int, kind: int) -> LineRun: ...
    def take(self, data: bytes, offset: int, record: Any) -> bool: ...
