"""What a branch says, by turns: its items as they stand, and what the runs have used that each turn belongs to.

A turn is a user message and all that comes behind it up to the next one, counted from 1 over the items as they stand;
what comes ahead of the first is turn 0. Rows of turns, tools and usage have the keys of the SDK's
AdvancedSQLiteSession; times are UTC, as the lines of the log have them.

One reading of the branch, backward as far as its items go, tells all of it, also where in which file each item lies.
Where somebody has rolled the log back, or compacted it as of old, the whole fold tells the items (see
`rollout.session.newest_items`), and nothing is known of their places.

Usage is recorded as a token count that every reader of rollouts understands: the thread's totals, what was counted
last, and what the SDK says of the run. It belongs to the newest user message that stood then, and is gone when that is.
What is recorded last for a turn counts, as the SDK's count of a run goes on when the run does. The totals of a thread
also keep what was spent on turns that were taken back, and a branch goes on from the totals at its fork.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import itertools
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw

from rollout.adapters.agents.opaque import item_of
from rollout.dialects.codex import encoder
from rollout.dialects.codex.dialect import CODEX
from rollout.dialects.codex.encoder import Part
from rollout.dialects.codex.envelope import records_in, time_of
from rollout.errors import RecordError, UsageError
from rollout.files.source import Origin
from rollout.fold.collector import Collector
from rollout.fold.engine import Reconstruction
from rollout.format import records
from rollout.format.records import Segment
from rollout.format.strict_json import decode_value, mend_text
from rollout.items.events import AgentLine, Entry, Event, ItemsRemoved, LineKind, Replaced
from rollout.items.history import entries_of
from rollout.limits import DEFAULT, Limits
from rollout.session.newest_items import entry_of, needs_fold

_NAMED_BY_TYPE = frozenset(
    ("computer_call", "file_search_call", "web_search_call", "code_interpreter_call", "shell_call", "apply_patch_call")
)
_CALLS = _NAMED_BY_TYPE | {
    *("tool_call", "function_call", "custom_tool_call", "tool_search_call", "mcp_call", "mcp_approval_request"),
}
_COUNTS = ("requests", "input_tokens", "output_tokens", "total_tokens")
_DETAILS = ("input_tokens_details", "output_tokens_details")
_TOKENS = ("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_output_tokens", "total_tokens")


class BranchError(UsageError, ValueError):
    """No branch can be made, found or deleted like this. A ValueError too, as the SDK raises."""


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

    def tokens(self) -> dict[str, int]:
        """The same, as a rollout counts tokens."""
        read, written = self.input_tokens_details or {}, self.output_tokens_details or {}
        cached, reasoning = _count(read.get("cached_tokens")), _count(written.get("reasoning_tokens"))
        counts = (self.input_tokens, cached, self.output_tokens, reasoning, self.total_tokens)
        return dict(zip(_TOKENS, counts, strict=True))

    def show(self) -> dict[str, Any]:
        """The counts, and their details."""
        return {name: getattr(self, name) for name in (*_COUNTS, *_DETAILS)}


class Told(NamedTuple):
    """One record of a log, and what it says to the fold; of tokens, the totals of the thread and the usage of a run.

    `place` is that of its line, None if that holds something else too.
    """

    data: bytes
    event: Event | LineKind
    place: Place | None
    totals: Raw | None
    usage: Usage | None


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

    def __init__(self, placed: Sequence[Placed] = (), used: Iterable[tuple[Placed, Usage, Place | None]] = ()) -> None:
        self.placed = placed
        self.starts = [i for i, one in enumerate(placed) if one.is_user]
        """Where each turn begins, turn 1 first."""
        number = {placed[start]: turn for turn, start in enumerate(self.starts, 1)}
        found = {number[user]: (usage, place) for user, usage, place in used if user in number}
        self.used = dict(sorted(found.items()))
        """By turn, with the place of its record; what was recorded last counts."""

    @property
    def items(self) -> list[Any]:
        """All of them."""
        return [one.item for one in self.placed]

    def count_up_to(self, turn: int, *, after: bool) -> int:
        """How many items come ahead of a turn, or with `after` up to its end (0: ahead of the first). BranchError."""
        if type(turn) is not int or not (0 if after else 1) <= turn <= len(self.starts):
            raise BranchError(f"there is no turn {turn}", remedy="see get_conversation_turns()")
        return [*self.starts, len(self.placed)][turn if after else turn - 1]

    def rows(self, *, most: int | None = None) -> list[dict[str, Any]]:
        """One a turn: turn, content (its first `most` characters), full_content, timestamp, can_branch."""
        rows = []
        for turn, start in enumerate(self.starts, 1):
            one = self.placed[start]
            content = one.item.get("content", "")
            text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, default=str)
            if most is not None and len(text) > most:
                text = text[:most] + "..."
            time = None if isinstance(one.entry, Raw) else time_of(one.entry)
            rows.append({"turn": turn, "content": text, "full_content": content, "timestamp": time, "can_branch": True})
        return rows

    def find(self, term: str) -> list[dict[str, Any]]:
        """The rows of the turns whose user message has the term in a text, whatever the case of ASCII letters."""
        found = re.compile(re.escape(mend_text(term)), re.IGNORECASE | re.ASCII).search
        return [row for row in self.rows() if any(map(found, _texts(row["full_content"])))]

    def first_with(self, term: str) -> int:
        """The first of these turns. BranchError if there is none."""
        found = self.find(term)
        if not found:
            raise BranchError(f"no user message has {term!r} in it", remedy="see get_conversation_turns()")
        return int(found[0]["turn"])

    def types_by_turn(self) -> dict[int, list[dict[str, str | None]]]:
        """What each turn consists of: type and tool_name of every item."""
        return {
            turn: [{"type": _type_of(item), "tool_name": _tool_name_of(item)} for item in items]
            for turn, items in self._by_turn()
        }

    def tools(self) -> list[tuple[str, int, int]]:
        """(tool name, calls, turn), by turn. What a search for tools has given counts if its call is not there."""
        rows = []
        for turn, items in self._by_turn():
            calls = [item for item in items if _type_of(item) in _CALLS]
            counts = Counter(name for name in map(_tool_name_of, calls) if name is not None)
            if not any(_type_of(item) == "tool_search_call" for item in calls):
                counts.update("tool_search" for item in items if _type_of(item) == "tool_search_output")
            rows += [(name, count, turn) for name, count in sorted(counts.items())]
        return rows

    def _by_turn(self) -> Iterator[tuple[int, list[Any]]]:
        """Each turn that has items, and these: turn 0 too."""
        bounds = [0, *self.starts, len(self.placed)]
        for turn, (begin, end) in enumerate(itertools.pairwise(bounds)):
            if begin < end:
                yield turn, [one.item for one in self.placed[begin:end]]

    def tell_usage(self, counted: object, totals: Mapping[str, Any]) -> Part | None:
        """The record of what a run (an `agents.usage.Usage`) has used for the newest turn; None if there is none.

        `totals` are those of the thread before.
        """
        if not self.starts:
            return None
        entries = [_counts_of(entry, _COUNTS[1:]) for entry in getattr(counted, "request_usage_entries", None) or ()]
        key = key_of(self.placed[self.starts[-1]].entry)
        usage = Usage(key, **_counts_of(counted, _COUNTS), request_usage_entries=entries)
        before, _ = self.used.get(len(self.starts), (Usage(key), None))
        last, known = usage.tokens(), before.tokens()
        sums = {name: _count(totals.get(name)) + last[name] - known[name] for name in _TOKENS}
        return encoder.tokens_counted(sums, last, msgspec.to_builtins(usage))


def read_conversation(origin: Origin) -> Conversation:
    """Reads a branch. SourceError."""
    found: list[Told] = []
    placed: list[Placed] = []
    is_folded = False
    with origin.opened() as lineage:
        segments, again = itertools.tee(lineage)
        for told in read_backward(segments, origin.limits):
            found.append(told)
            is_folded = is_folded or needs_fold(told.event)
            if isinstance(told.event, Replaced) and not is_folded:
                break
        if is_folded:
            history = Reconstruction(again, Collector(CODEX, limits=origin.limits)).run().history
            placed = [Placed(item_of(entry), entry) for entry in entries_of(history)]
    users = {key_of(one.entry): one for one in placed if one.is_user}  # where no order of things tells whose usage is
    used: list[tuple[Placed, Usage, Place | None]] = []
    for data, event, place, _, usage in reversed(found):
        if usage is not None:
            newest = next((one for one in reversed(placed) if one.is_user), None)
            user = users.get(usage.turn) if is_folded else newest
            used += [(user, usage, place)] if user is not None else []
        elif is_folded:
            continue
        elif isinstance(event, ItemsRemoved):
            del placed[max(0, len(placed) - event.count) :]
        elif isinstance(event, Replaced):
            placed = [Placed(item_of(entry), entry) for entry in CODEX.compaction_of(data).items or ()]
        elif (entry := entry_of(data, event)) is not None:
            placed.append(Placed(item_of(entry), entry, place))
    return Conversation(placed, used)


def read_totals(origin: Origin) -> Mapping[str, Any]:
    """The newest token totals of a thread; nothing, if they were never counted. SourceError."""
    with origin.opened() as lineage:
        found = (told.totals for told in read_backward(lineage, origin.limits))
        return next((decode_value(totals) for totals in found if totals is not None), {})


def read_backward(segments: Iterable[Segment], limits: Limits = DEFAULT) -> Iterator[Told]:
    """The records of a lineage, newest first."""
    for segment in segments:
        for line in records.backward([segment], limits):
            for _, data, record in reversed(records_in(line.data, limits.depth)):
                path = segment.path if len(data) == len(line.data) else None
                place = None if path is None else Place(path, line.offset)
                totals = CODEX.usage_of(data, record)
                usage = None if totals is None else _run_usage(data)
                yield Told(data, CODEX.event_of(data, record, False), place, totals, usage)


class _Run(msgspec.Struct, frozen=True):
    run_usage: Usage | None = None


class _Recorded(msgspec.Struct, frozen=True):
    payload: _Run


def _run_usage(data: bytes) -> Usage | None:
    with contextlib.suppress(msgspec.ValidationError):
        return msgspec.json.decode(data, type=_Recorded).payload.run_usage
    return None


def key_of(entry: Entry) -> str:
    """A name for one item of a branch that outlives a copy of its line: of its time and its JSON."""
    time = None if isinstance(entry, Raw | AgentLine) else time_of(entry)
    stamp = b"" if time is None else msgspec.json.encode(time)
    return hashlib.sha256(stamp + bytes(CODEX.item_of(entry))).hexdigest()[:16]


def add_up(used: Iterable[tuple[Usage, Place | None]]) -> dict[str, int] | None:
    """Of different turns: requests, input_tokens, output_tokens, total_tokens, total_turns; None if there are none.

    What several branches share is the same record, and counts once.
    """
    found = {place or i: usage for i, (usage, place) in enumerate(used)}
    sums = {name: sum(getattr(usage, name) for usage in found.values()) for name in _COUNTS}
    return {**sums, "total_turns": len(found)} if found else None


def _counts_of(counted: object, names: Sequence[str]) -> dict[str, Any]:
    """What the SDK says of these, and their details."""
    counts = {name: _count(getattr(counted, name, 0)) for name in names}
    return counts | {name: _details(getattr(counted, name, None)) for name in _DETAILS}


def _count(value: object) -> int:
    return value if type(value) is int else 0


def _details(details: object) -> dict[str, Any] | None:
    """What is said of them: nulls say nothing, and what is no JSON is left out."""
    found = details if isinstance(details, Mapping) else getattr(details, "__dict__", {})
    told = {name: value for name, value in found.items() if value is not None}
    try:
        encoder.encode(told)
    except RecordError:
        return None
    return told or None


def _type_of(item: object) -> str:
    """user, assistant, or what the item says that it is; else other."""
    if not isinstance(item, dict):
        return "other"
    role = item.get("role")
    return str(role if role in ("user", "assistant") else item.get("type") or "other")


def _tool_name_of(item: object) -> str | None:
    """The tool that an item calls, or speaks of: with its server or namespace, if it has one."""
    if not isinstance(item, dict):
        return None
    kind, name = item.get("type"), item.get("name")
    if kind in ("mcp_call", "mcp_approval_request") and "server_label" in item:
        return ".".join(str(part) for part in (item["server_label"], name) if part) or None
    if isinstance(kind, str) and kind in _NAMED_BY_TYPE:
        return kind
    if kind in ("tool_search_call", "tool_search_output"):
        return "tool_search"
    if name is None:
        return None
    namespace = item.get("namespace")
    is_qualified = bool(name) and isinstance(namespace, str) and namespace not in ("", name)
    return f"{namespace}.{name}" if is_qualified else str(name)


def _texts(content: object) -> list[str]:
    parts = [{"text": content}] if isinstance(content, str) else content if isinstance(content, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, Mapping)]
    return [text for text in texts if isinstance(text, str)]
