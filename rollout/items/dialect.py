"""What a dialect is: the functions by which the fold reads the logs of one agent.

A *record* is what a dialect decodes of a line; nobody else looks into it. The lines that are given to these functions
hold a record, unless it is said otherwise.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

from msgspec import Raw

from rollout.format.lines import Piece
from rollout.items.events import Event, EventSink, LineKind
from rollout.items.tokens import TokenNote

Entry: TypeAlias = bytes | Raw
"""An item of a history: the bytes of the line that recorded it, or the item's own JSON."""


class AgentLine(bytes):
    """A line that tells an instruction from another agent: its item is made of it."""

    __slots__ = ()


class Compaction(NamedTuple):
    """What a compaction leaves: the visible `items` (None: the users' texts) and the text that it says itself."""

    items: list[Entry] | None
    summary: str


class Collect(Protocol):
    """Gives a sink lines[i], lines[i - 1], … down to `stop`, the first of which ends (with its line end) at `end`.

    Returns the index and the end of the first line that was not taken, and whether the one taken before it begins a
    block. If it does not, and lines are left, the next one needs a closer look.
    """

    def __call__(
        self, sink: EventSink, lines: Sequence[bytes], i: int, end: int, *, stop: int = -1
    ) -> tuple[int, int, bool]: ...


class CollectItems(Protocol):
    """The same where nothing is to be known but the history: the lines of visible items are added to `items`.

    Stops at a line that is odd, can take something back, replaces the history, or tells what is still asked for.
    """

    def __call__(
        self, sink: EventSink, lines: Sequence[bytes], i: int, end: int, items: list[bytes]
    ) -> tuple[int, int]: ...


@dataclasses.dataclass(frozen=True, slots=True)
class Dialect:
    """One agent's logs."""

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
    collect: Collect
    collect_items: CollectItems
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
