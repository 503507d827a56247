"""S3 and S4: what still stands, added up newest first.

`Projection` is given the folded blocks of a log, newest first, and knows at any time how much of the answer is
found: the base and what came after it, the model, the reference context, the world. It holds marks, and fetches bytes
that were not held (`fetch(mark)`) when the answer is made.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from msgspec import Raw

from rollout.fold.events import Mark, Run, Span, by_turn
from rollout.format.strict_json import decode_value
from rollout.items.events import (
    BOUNDARIES,
    ITEMS,
    AgentLine,
    AgentMessage,
    Dialect,
    Entry,
    ItemsRemoved,
    Replaced,
    Settings,
    UserMessage,
    WorldState,
)
from rollout.items.kinds import plain_user_message
from rollout.items.truncation import cut_texts
from rollout.limits import BYTES_PER_TOKEN, LEGACY_COMPACTION_USER_TOKENS


@dataclasses.dataclass(frozen=True, slots=True)
class ContextNeverSet:
    """No turn that stands has set a reference context."""


@dataclasses.dataclass(frozen=True, slots=True)
class ContextCleared:
    """A compaction has taken the reference context away: the next turn gives the whole initial context."""


@dataclasses.dataclass(frozen=True, slots=True)
class ContextBaseline:
    """The settings that the model was last told of: the payload of that turn_context, as it stands."""

    raw: Raw

    @property
    def context(self) -> dict[str, Any]:
        """The payload, decoded anew."""
        found: dict[str, Any] = decode_value(self.raw)
        return found


Reference = ContextNeverSet | ContextCleared | ContextBaseline


class _Kept(NamedTuple):
    """A user's texts that a compaction has kept, as a message."""

    entry: Entry
    tokens: int
    is_cut: bool = False


class Folded:
    """S3: a history while it is folded forward, oldest record first. None stands for an item that a user did not say.

    A compaction of the old kind leaves the users' texts up to a limit, newest first, and a summary, which the next one
    takes for a user's text again. What one has kept is not looked at again by the next: only its oldest texts can be
    too many then, and they are taken off from that side. So a log with many of them costs no more than its lines.
    """

    def __init__(self, user_texts: Callable[[Entry], list[str] | None]) -> None:
        self._user_texts = user_texts
        self._kept: deque[_Kept] = deque()  # by the newest compaction of the old kind
        self._kept_tokens = 0
        self._since: list[Entry | None] = []  # what came behind it

    def __iter__(self) -> Iterator[Entry]:
        yield from (kept.entry for kept in self._kept)
        yield from (entry for entry in self._since if entry is not None)

    def add(self, entries: Iterable[Entry | None]) -> None:
        """Items that come behind all others."""
        self._since += entries

    def remove(self, count: int) -> None:
        """Take the newest `count` items out."""
        from_since = min(count, len(self._since))
        del self._since[len(self._since) - from_since :]
        for _ in range(min(count - from_since, len(self._kept))):
            self._kept_tokens -= self._kept.pop().tokens

    def replace(self, entries: Iterable[Entry]) -> None:
        """Other items stand in the place of all."""
        self._kept.clear()
        self._kept_tokens = 0
        self._since = list(entries)

    def compact(self, summary: str) -> None:
        """A compaction without items of its own: the users' texts that fit, and what it says itself."""
        left = LEGACY_COMPACTION_USER_TOKENS
        chosen: list[_Kept] = []
        for entry in reversed(self._since):
            if left <= 0:
                break
            found = self._judge(entry, left)
            if found is not None:
                chosen.append(found[0])
                left -= found[1]
        self._fit_kept(left)
        self._kept.extend(reversed(chosen))
        self._kept_tokens += sum(kept.tokens for kept in chosen)
        self._since = [plain_user_message([summary])]

    def _fit_kept(self, left: int) -> None:
        """Take off what does not fit into so many tokens, from the oldest on; the last that is too long is cut."""
        kept = self._kept
        if kept and kept[0].is_cut:  # which can make of it a message that counts as another, or as none
            self._replace_oldest(self._judge(kept[0].entry, None))
        while kept and self._kept_tokens - kept[0].tokens >= left:
            self._kept_tokens -= kept.popleft().tokens
        if kept and self._kept_tokens > left:
            self._replace_oldest(self._judge(kept[0].entry, left - (self._kept_tokens - kept[0].tokens)))

    def _replace_oldest(self, judged: tuple[_Kept, int] | None) -> None:
        self._kept_tokens -= self._kept.popleft().tokens
        if judged is not None:
            self._kept.appendleft(judged[0])
            self._kept_tokens += judged[0].tokens

    def _judge(self, entry: Entry | None, left: int | None) -> tuple[_Kept, int] | None:
        """What a compaction keeps of an entry if so many tokens are left, and how many it takes; None for nothing."""
        texts = None if entry is None else self._user_texts(entry)
        if texts is None:
            return None
        tokens = _tokens_of(texts)
        if left is None or tokens <= left:
            return _Kept(plain_user_message(texts), tokens), tokens
        cut = cut_texts(texts, left * BYTES_PER_TOKEN, "tokens")
        return _Kept(plain_user_message(cut), _tokens_of(cut), is_cut=True), tokens


def _tokens_of(texts: list[str]) -> int:
    return -(-sum(len(text.encode()) for text in texts) // BYTES_PER_TOKEN)


class _Reduced(NamedTuple):
    """So many items of which a compaction without items of its own keeps a user's text, or nothing."""

    items: int
    text: Raw | None = None


class Projection:
    """The answer so far. `fetch` gives the bytes of a mark."""

    def __init__(self, dialect: Dialect, fetch: Callable[[Mark], bytes], *, wants_history: bool, depth: int) -> None:
        self._dialect, self._fetch, self._wants_history, self._depth = dialect, fetch, wants_history, depth
        self.base: Mark | None = None
        """The newest standing compaction with items of its own."""
        self.has_old_compaction = False
        """One without them stands, newer than the base."""
        self.model: str | None = None
        self.summaries: set[str] = set()
        """What compactions of the history left as its summary, once `entries` has made it."""
        self.world_open = True
        """Older records may be part of the world state."""
        self._reference: Mark | ContextCleared | None = None
        self._world: list[tuple[Mark, WorldState]] = []
        self._ops: list[Mark | _Reduced] = []  # what makes the history, newest first

    @property
    def knows_settings(self) -> bool:
        """Nothing older changes the previous model or the reference context."""
        return self.model is not None and self._reference is not None

    @property
    def is_complete(self) -> bool:
        """Nothing older changes the history, the previous model or the reference context."""
        return self.base is not None and (self.knows_settings or (self.model is not None and self.has_old_compaction))

    def add(self, marks: Sequence[Mark]) -> None:
        """One folded block, older than all before; its marks oldest first."""
        standing = [mark for mark in marks if mark.undone_by is None]
        if self.world_open:
            self._add_world(standing)
        if not self.knows_settings:
            for span, of_turn in by_turn(standing):
                self._add_turn(span, of_turn)
        if self._wants_history and self.base is None:
            self._add_history(standing)

    def skimmed(self, seq: int, segment: int) -> list[bytes]:
        """The lines (newest first) of a run of items that is not part of any block; more can be appended."""
        top = self._ops[-1] if self._ops else None
        if not isinstance(top, Run) or top.lines is None:
            top = Run(ITEMS, seq, segment, 0, 0, 0, lines=[])
            self._ops.append(top)
        assert top.lines is not None
        return top.lines

    def _add_history(self, standing: Sequence[Mark]) -> None:
        for mark in reversed(standing):
            event = mark.event
            if isinstance(event, Replaced):
                self._ops.append(mark)
                if event.has_items:
                    self.base = mark
                    return
                self.has_old_compaction = True
            elif mark.is_item:
                self._ops.append(self._reduced(mark) if self.has_old_compaction else mark)
            elif isinstance(event, ItemsRemoved):
                self._ops.append(mark)

    def _reduced(self, mark: Mark) -> _Reduced:
        """All that a compaction without items keeps of a mark are a user's texts: the bytes of all else can go."""
        if not isinstance(mark.event, UserMessage):
            return _Reduced(mark.count if isinstance(mark, Run) else 1)
        texts = self._dialect.user_texts(mark.data or self._fetch(mark))
        return _Reduced(1, None if texts is None else plain_user_message(texts))

    def _add_turn(self, span: Span | None, standing: Sequence[Mark]) -> None:
        is_user_turn, first, last, is_cleared = False, None, None, False
        for mark in standing:
            event = mark.event
            if isinstance(event, BOUNDARIES) or mark.is_in_turn:
                is_user_turn = True
            elif isinstance(event, Settings) and span is not None and span.fits(event.turn_id):
                first, last, is_cleared = first or event, mark, False
            elif isinstance(event, Replaced):
                is_cleared = True
        if self.model is None and is_user_turn and first is not None:
            self.model = first.model
        if self._reference is None:
            self._reference = ContextCleared() if is_cleared else last if is_user_turn else None

    def _add_world(self, standing: Sequence[Mark]) -> None:
        for mark in reversed(standing):
            if isinstance(mark.event, WorldState):
                self._world.append((mark, mark.event))
            if isinstance(mark.event, Replaced) or (isinstance(mark.event, WorldState) and mark.event.is_full):
                self.world_open = False
                return

    def reference(self) -> Reference:
        """S4, from what was added."""
        if self.has_old_compaction:
            return ContextCleared()
        if isinstance(self._reference, Mark):
            return ContextBaseline(self._dialect.payload_of(self._fetch(self._reference)).copy())
        return ContextNeverSet() if self._reference is None else self._reference

    def world_state(self) -> dict[str, Any] | None:
        """S4, from what was added."""
        if not self._world or not self._world[-1][1].is_full:
            return None
        state: dict[str, Any] = {}
        for mark, world in reversed(self._world):
            change = self._dialect.world_of(mark.data or self._fetch(mark))
            state = change if world.is_full else merge_patch(state, change)
        return state

    def entries(self) -> list[Entry]:
        """The history (S3), from what was added."""
        folded = Folded(self._dialect.user_texts)
        for op in reversed(self._ops):
            if isinstance(op, _Reduced):
                folded.add([op.text] * op.items)
            elif isinstance(op.event, ItemsRemoved):
                folded.remove(op.event.count)
            elif isinstance(op.event, Replaced):
                items, summary = self._dialect.compaction_of(op.data or self._fetch(op))
                self.summaries.add(summary)
                if items is None:
                    folded.compact(summary)
                else:
                    folded.replace(items)
            else:
                folded.add(self._entries_of(op))
        return list(folded)

    def _entries_of(self, mark: Mark) -> Sequence[Entry]:
        if isinstance(mark, Run):
            if mark.lines is not None:
                return mark.lines[::-1]
            return self._dialect.shown_lines(self._fetch(mark), self._depth)
        data = mark.data or self._fetch(mark)
        return [AgentLine(data) if isinstance(mark.event, AgentMessage) and mark.event.is_made else data]


def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7396. The nesting is bounded by that of a line."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged
