"""What a branch says, by turns: its items as they stand, and what the runs have used that each turn belongs to.

A turn is a user message and all that comes behind it up to the next one, counted from 1 over the items as they stand;
what comes ahead of the first is turn 0. One reading of the branch, backward as far as its items go, tells all of it,
also where in which file each item lies. Where somebody has rolled the log back, or compacted it as of old, the whole
fold tells the items (see `rollout.session.newest_items`), and nothing is known of their places.

Usage belongs to the newest user message that stood when it was recorded, and is gone when that is.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec
from msgspec import Raw

from rollout.adapters.agents.opaque import item_of
from rollout.dialects.codex import envelope as codec
from rollout.dialects.codex.dialect import CODEX
from rollout.files.lineage import Lineage
from rollout.files.source import Origin
from rollout.fold.collector import Collector
from rollout.fold.engine import Reconstruction
from rollout.format import records
from rollout.items import events
from rollout.items.dialect import AgentLine, Entry
from rollout.items.kinds import Head
from rollout.limits import DEFAULT, Limits
from rollout.session.newest_items import entry_of, needs_fold

Items: TypeAlias = list[Any]


class Place(NamedTuple):
    """A line: the file that it lies in, and where it begins there."""

    path: str
    offset: int


class Usage(msgspec.Struct, frozen=True):
    """What one run has used, as the SDK counts it; `turn` is the key of its user message (see `key_of`)."""

    turn: str
    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    input_tokens_details: dict[str, Any] | None = None
    output_tokens_details: dict[str, Any] | None = None
    request_usage_entries: list[dict[str, Any]] = []


class Added(NamedTuple):
    """A visible item. `place` is None if its line is not its own."""

    entry: Entry
    place: Place | None


class Removed(NamedTuple):
    """The newest `items` were taken out, so many."""

    items: int


class Replaced(NamedTuple):
    """These are all items that there were then."""

    entries: Sequence[Entry]


class Refolded:
    """A rollback, or a compaction of the old kind: only the whole fold tells the items."""


class Used(NamedTuple):
    """Tokens were counted: those of a run (None: of something else), and of the thread."""

    usage: Usage | None
    totals: dict[str, Any] | None
    place: Place | None


Change: TypeAlias = Added | Removed | Replaced | Refolded | Used


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """An item, and the beginning of its line if that is known and its own."""

    item: Any
    entry: Entry
    place: Place | None = None

    @property
    def is_user(self) -> bool:
        """Whether it opens a turn."""
        return isinstance(self.item, dict) and self.item.get("role") == "user"


class Conversation:
    """The items of a branch as they stand, oldest first, and the usage of its turns."""

    def __init__(self, placed: Sequence[Placed], used: Iterable[tuple[Placed, Used]]) -> None:
        self.placed = placed
        self.starts = [i for i, one in enumerate(placed) if one.is_user]
        """Where each turn begins, turn 1 first."""
        number = {placed[start]: turn for turn, start in enumerate(self.starts, 1)}
        found = {number[user]: one for user, one in used if user in number}
        self.used = dict(sorted(found.items()))
        """By turn; what was recorded last counts."""

    @property
    def items(self) -> Items:
        """All of them."""
        return [one.item for one in self.placed]

    def start_of(self, turn: int) -> int | None:
        """How many items come ahead of a turn; None if there is no such turn."""
        return self.starts[turn - 1] if type(turn) is int and 1 <= turn <= len(self.starts) else None

    def end_of(self, turn: int) -> int | None:
        """How many items there were when a turn ended (0: before the first); None if there is no such turn."""
        if type(turn) is not int or not 0 <= turn <= len(self.starts):
            return None
        return self.starts[turn] if turn < len(self.starts) else len(self.placed)

    def by_turn(self) -> Iterator[tuple[int, Items]]:
        """Each turn that has items, and these: turn 0 too."""
        bounds = [0, *self.starts, len(self.placed)]
        for turn in range(len(bounds) - 1):
            if bounds[turn] < bounds[turn + 1]:
                yield turn, [one.item for one in self.placed[bounds[turn] : bounds[turn + 1]]]


def read_conversation(origin: Origin) -> Conversation:
    """Reads a branch. SourceError."""
    found: list[Change] = []
    is_refolded = False
    with origin.opened() as lineage:
        for change in changes(lineage, origin.limits):
            found.append(change)
            is_refolded = is_refolded or isinstance(change, Refolded)
            if isinstance(change, Replaced) and not is_refolded:
                break
    if not is_refolded:
        return _folded(found)
    with origin.opened() as lineage:
        history = Reconstruction(lineage, Collector(CODEX, limits=origin.limits)).run().history
    return _matched([Placed(item_of(entry), entry) for entry in history.entries], found)


def _folded(newest_first: Sequence[Change]) -> Conversation:
    placed: list[Placed] = []
    used: list[tuple[Placed, Used]] = []
    for change in reversed(newest_first):
        if isinstance(change, Added):
            placed.append(Placed(item_of(change.entry), *change))
        elif isinstance(change, Removed):
            del placed[max(0, len(placed) - change.items) :]
        elif isinstance(change, Replaced):
            placed = [Placed(item_of(entry), entry) for entry in change.entries]
        elif isinstance(change, Used):
            users = (one for one in reversed(placed) if one.is_user)
            user = None if change.usage is None else next(users, None)
            if user is not None:
                used.append((user, change))
    return Conversation(placed, used)


def _matched(placed: Sequence[Placed], newest_first: Sequence[Change]) -> Conversation:
    """Usage finds its user message by key where the order of things does not tell it."""
    by_key = {key_of(one.entry): one for one in placed if one.is_user}
    used = []
    for change in reversed(newest_first):
        if isinstance(change, Used) and change.usage is not None and change.usage.turn in by_key:
            used.append((by_key[change.usage.turn], change))
    return Conversation(placed, used)


class Current(NamedTuple):
    """The newest user message that stands, by its key; what its run has used so far; and the thread's totals."""

    turn: str | None
    usage: Usage | None
    totals: dict[str, Any]


def read_current(origin: Origin) -> Current:
    """Reads backward until these are known. SourceError."""
    totals: dict[str, Any] | None = None
    found: dict[str, Usage] = {}
    user, removed, is_known, is_refolded = None, 0, False, False
    with origin.opened() as lineage:
        for change in changes(lineage, origin.limits):
            if isinstance(change, Used):
                totals = change.totals if totals is None else totals
                if change.usage is not None and not is_known:
                    found.setdefault(change.usage.turn, change.usage)
            elif isinstance(change, Refolded):
                is_refolded = is_refolded or not is_known
                is_known = True
            elif not is_known:
                user, removed = _newest_user(change, removed)
                is_known = user is not None or isinstance(change, Replaced)
            if is_known and totals is not None:
                break
    if is_refolded:
        conversation = read_conversation(origin)
        user = conversation.placed[conversation.starts[-1]].entry if conversation.starts else None
        found = {one.usage.turn: one.usage for one in conversation.used.values() if one.usage is not None}
    turn = None if user is None else key_of(user)
    return Current(turn, None if turn is None else found.get(turn), totals or {})


def _newest_user(change: Added | Removed | Replaced, removed: int) -> tuple[Entry | None, int]:
    """The newest user message of a change that stands, and how many older items were taken out."""
    if isinstance(change, Removed):
        return None, removed + change.items
    entries = [change.entry] if isinstance(change, Added) else change.entries
    standing = entries[: max(0, len(entries) - removed)]
    for entry in reversed(standing):
        if Placed(item_of(entry), entry).is_user:
            return entry, 0
    return None, removed - len(entries) + len(standing)


def key_of(entry: Entry) -> str:
    """A name for one item of a branch that outlives a copy of its line: of its time and its JSON."""
    stamp = b"" if isinstance(entry, Raw | AgentLine) else bytes(msgspec.json.decode(entry, type=_Stamped).timestamp)
    return hashlib.sha256(stamp + bytes(CODEX.item_of(entry))).hexdigest()[:16]


def stamp_of(entry: Entry) -> str | None:
    """The time of an item, as its line has it; None if it has no line of its own."""
    if isinstance(entry, Raw | AgentLine):
        return None
    return codec.time_of(entry)


class _Stamped(msgspec.Struct, frozen=True):
    timestamp: Raw = Raw(b"")


class _Info(msgspec.Struct, frozen=True):
    total_token_usage: dict[str, Any] | None = None


class _Payload(msgspec.Struct, frozen=True):
    run_usage: Usage | None = None
    info: _Info | None = None


class _Recorded(msgspec.Struct, frozen=True):
    payload: _Payload


def changes(lineage: Lineage, limits: Limits = DEFAULT) -> Iterator[Change]:
    """What has made the items of a lineage, newest first; what is older than the first `Replaced` has no effect.

    An item has a place if its line holds nothing else.
    """
    for line in records.backward(lineage, limits):
        for _, data, envelope in reversed(codec.records_in(line.data, limits.depth)):
            path = lineage.segments[line.segment].path if len(data) == len(line.data) else None
            change = _change(data, envelope, None if path is None else Place(path, line.offset))
            if change is not None:
                yield change


def _change(data: bytes, envelope: codec.Envelope, place: Place | None) -> Change | None:
    event = CODEX.event_of(data, envelope, False)
    if needs_fold(event):
        return Refolded()
    if isinstance(event, events.Replaced):
        return Replaced(CODEX.compaction_of(data).items or [])
    if isinstance(event, events.ItemsRemoved):
        return Removed(event.count)
    entry = entry_of(data, event)
    if entry is not None:
        return Added(entry, place)
    if isinstance(envelope.payload, Head) and (envelope.type, envelope.payload.type) == ("event_msg", "token_count"):
        with contextlib.suppress(msgspec.ValidationError):  # malformed: it has no effect
            counted = msgspec.json.decode(data, type=_Recorded).payload
            return Used(counted.run_usage, None if counted.info is None else counted.info.total_token_usage, place)
    return None
