"""What records say, in no agent's words, and what a dialect is: the functions by which the logs of one agent are read.

A dialect makes events of its records, and the fold knows nothing else. A *record* is what it decodes of a line; nobody
else looks into it.

A record is one *event*, or a line of one of the *line kinds*, where nothing but its place in the log counts. What an
event takes out of the history counts backward from where it stands. The bases of a log are no events: `files` finds
them before a line is read.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

import msgspec
from msgspec import Raw

from rollout.format.lines import Piece
from rollout.items.tokens import TokenNote


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
    def run(self, offset: int, size: int) -> Any:
        """The mark of the run of lines that a line goes on with; see `rollout.fold.events.Run`."""
        ...

    def trace(self, offset: int, size: int, kind: int) -> Any: ...
    def take(self, data: bytes, offset: int, record: Any) -> bool: ...


Entry: TypeAlias = bytes | Raw
"""An item of a history: the bytes of the line that recorded it, or the item's own JSON."""


class AgentLine(bytes):
    """A line that tells an instruction from another agent: its item is made of it."""

    __slots__ = ()


class Compaction(NamedTuple):
    """What a compaction leaves: the visible `items` (None: the users' texts) and the text that it says itself."""

    items: list[Entry] | None
    summary: str


@dataclasses.dataclass(frozen=True, slots=True)
class Dialect:
    """One agent's logs. The lines that are given to these functions hold a record, unless it is said otherwise."""

    decode: Callable[[bytes, int], Any]
    """The record of an ordinary line, nested no deeper than that; None for a line that `split` must look at."""
    split: Callable[[bytes, int], Iterator[Piece[Any]]]
    """What an odd line holds, in order; nothing for a blank one."""
    types_of: Callable[[Any], tuple[str, str | None]]
    """The type of a record and that of its payload, if it has one, in the words of the log."""
    event_of: Callable[[bytes, Any, bool], Event | LineKind]
    """What a record says (its bytes, the record); the last argument asks for what people want to know of turns."""
    usage_of: Callable[[bytes, Any], Raw | None]
    """The token totals of a thread, if a record tells them."""
    token_note: Callable[[bytes, Any], TokenNote | None]
    """What the ledger needs to know of a record."""
    collect: Callable[[EventSink, Sequence[bytes], int, int, int], tuple[int, int, bool]]
    """Gives a sink lines[i], lines[i - 1], … down to lines[stop + 1]. The arguments are the sink, the lines, i, where
    lines[i] ends (with its line end), stop. Returns the index and the end of the first line that was not taken, and
    whether the one taken before it begins a block. If it does not, and lines are left, the next needs a closer look."""
    collect_items: Callable[[EventSink, Sequence[bytes], int, int, list[bytes]], tuple[int, int]]
    """The same where nothing is to be known but the history: the lines of visible items are added to the last argument.
    Stops at a line that is odd, can take something back, replaces the history, or tells what is still asked for."""
    payload_of: Callable[[bytes], Raw]
    """The payload of a line."""
    world_of: Callable[[bytes], dict[str, Any]]
    """The state, or the change of it, of a line that is a `WorldState`."""
    item_of: Callable[[Entry], Raw]
    """The item of an entry, without copying."""
    shown_lines: Callable[[bytes, int], list[bytes]]
    """The lines of the visible items among some lines of any kind, oldest first; the second argument is a depth."""
    compaction_of: Callable[[bytes], Compaction]
    """Of a line that is a `Replaced`."""
    user_texts: Callable[[Entry], list[str] | None]
    """What a compaction without items keeps of an entry: a user's texts; None for anything else (S3)."""
    is_contextual: Callable[[str, list[str]], bool]
    """Whether the program wrote a message of that role with these text parts (S5)."""
    is_summary: Callable[[str], bool]
    """Whether a user's text is, by its beginning, what a compaction left of the history before it."""
    announced: Callable[[bytes], tuple[str, bool]]
    """Of a line that is a `UserAnnounced`: the text, and whether images came with it."""
