"""One session on a page: who and where, what was done turn by turn, what it took.

It is put together from what the readers say: the state, the turns, what became of each line. Whatever is counted was
done, rolled back or not; `undone` tells how much of it no longer stands. Reads the whole log, its bases too.
"""

from __future__ import annotations

import collections
import dataclasses
from pathlib import Path
from typing import Any

from rollout.dialects.codex.dialect import CODEX
from rollout.dialects.codex.tokens import read_gauge
from rollout.files.encrypted.keys import Cipher
from rollout.files.port import Progress
from rollout.files.source import AnySource, Origin, find
from rollout.files.thread_names import read_names
from rollout.fold.session_counts import Gauge, Meter, MeteringCollector
from rollout.fold.tokens import Running, TokenSpend, seconds_between
from rollout.fold.turn_list import Turn
from rollout.items.events import LineKind, Replaced, TurnsRemoved
from rollout.items.texts import CALLS, OUTPUTS, has_failed, name_of
from rollout.items.tokens import TokenNote, Tokens
from rollout.limits import DEFAULT, Limits
from rollout.session.explanation import Explained, Explanation
from rollout.session.record import Record
from rollout.session.state import At, State, origin_at, origin_of, read_state
from rollout.session.transcript import speaker


@dataclasses.dataclass(frozen=True, slots=True)
class TurnSummary:
    """What one turn did. `duration_s` is None where it has no end or its times make no sense.

    `spent` are the tokens of its requests, `context_tokens` what the last one took of the model's window.
    """

    turn: Turn
    duration_s: float | None
    calls: int
    failures: int
    spent: Tokens
    context_tokens: int | None


@dataclasses.dataclass(frozen=True, slots=True)
class ToolUse:
    """How often a tool was called, and how often its output told of a failure; `undone` calls were rolled back."""

    name: str
    calls: int
    failures: int
    undone: int


@dataclasses.dataclass(frozen=True, slots=True)
class Milestone:
    """A point of a session: the record in `line` of `path`, written at `time`; `inherited`: in a base.

    `text` is the model of a change of it. `number` is how many items a compaction put in place (None: one of the old
    kind, a text), how many turns a rollback took back. `stands`: it was not itself rolled back.
    """

    line: int
    offset: int
    path: str | None
    inherited: str | None
    turn_id: str | None
    time: str | None
    text: str | None
    number: int | None
    stands: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Summary:
    """What `rollout show` shows; `state` and `turns` are those of `rollout.reconstruct` and `rollout.turns`.

    `spent` is what the session itself was charged, `by_day` the same by day (UTC) and model: not what a fork holds of
    its source. `context_tokens` is what the conversation took of `window_tokens` when that was last measured; None
    where a compaction came since. `damaged_lines` is what `verify` counts.
    """

    state: State
    name: str | None
    turns: tuple[TurnSummary, ...]
    models: tuple[Milestone, ...]
    tools: tuple[ToolUse, ...]
    compactions: tuple[Milestone, ...]
    rollbacks: tuple[Milestone, ...]
    damaged_lines: int
    spent: Tokens
    by_day: tuple[TokenSpend, ...]
    context_tokens: int | None
    window_tokens: int | None
    ended: str | None
    """When the last record was written."""
    last_user: dict[str, Any] | None
    """The newest of the user's messages in the history, as an item; `last_assistant` likewise."""
    last_assistant: dict[str, Any] | None


def summarize(
    source: AnySource,
    *,
    at: At | None = None,
    home: str | Path | None = None,
    limits: Limits = DEFAULT,
    cipher: Cipher | None = None,
    progress: Progress | None = None,
) -> Summary:
    """One session on a page. Reads the log twice, its bases too.

    Args:
        source: As in `reconstruct`, and so are `at`, `home`, `limits`, `cipher` and `progress`.

    Raises:
        SourceError: There is nothing to read: NotFound, Ambiguous, NotARollout, NoKey, WrongKey.
        UsageError: `at` is no moment that a log can have.
    """
    origin = origin_at(find(source, home, limits, cipher), at, progress)
    state = read_state(origin)
    origin, meter, gauge = origin_of(state), Meter(), Gauge()
    gatherer = MeteringCollector(CODEX, meter, origin.limits, wants_turns=True)
    explanation = Explanation(origin, progress, with_turns=True, gatherer=gatherer, observers=[gauge.see])
    reader, ledger = _Reader(), meter.ledger()
    for found, record in explanation.records():
        reader.see(found, record)
    names = {} if origin.home is None or origin.path is None else read_names(origin.home, origin.fs)
    return Summary(
        state=state,
        name=names.get(state.thread_id or ""),
        turns=tuple(reader.summary_of(i, turn) for i, turn in enumerate(explanation.turns)),
        models=tuple(reader.models),
        tools=tuple(sorted(map(reader.use_of, reader.tools), key=lambda use: (-use.calls, use.name))),
        compactions=tuple(reader.compactions),
        rollbacks=tuple(reader.rollbacks),
        damaged_lines=len(reader.damaged_lines) + len(explanation.damage),
        spent=sum((row.tokens for row in ledger.spent), Tokens()),
        by_day=ledger.spent,
        context_tokens=_context_tokens(origin, gauge),
        window_tokens=reader.window_tokens,
        ended=reader.ended,
        last_user=_last(state, "user"),
        last_assistant=_last(state, "assistant"),
    )


def _context_tokens(origin: Origin, gauge: Gauge) -> int | None:
    """What was taken of the model's window, by the newest measure that still holds."""
    if gauge.place is None:
        return None
    segment, begin, end = gauge.place
    with origin.opened() as lineage:
        line = list(lineage)[segment].source.read_at(begin, end - begin)
    reading = read_gauge(line, origin.limits.depth)
    return None if reading is None else reading.context_tokens


def _last(state: State, who: str) -> dict[str, Any] | None:
    said = (i for i in range(len(state.history) - 1, -1, -1) if speaker(state.history, i) == who)
    return next((state.history[i] for i in said), None)


class _Reader:
    """Goes over the records of a lineage, oldest first, each with what became of it."""

    def __init__(self) -> None:
        self.models: list[Milestone] = []
        self.compactions: list[Milestone] = []
        self.rollbacks: list[Milestone] = []
        self.damaged_lines: set[int] = set()
        self.window_tokens: int | None = None
        self.ended: str | None = None
        self.tools, self._tool_failures, self._undone = (collections.Counter[str]() for _ in range(3))
        self._calls, self._failures = collections.Counter[int | None](), collections.Counter[int | None]()
        self._spent = collections.defaultdict[int | None, Tokens](Tokens)
        self._context_tokens: dict[int | None, int] = {}
        self._waiting: dict[str, tuple[str, int | None]] = {}  # the tool and the turn of a call without an output
        self._running = Running()

    def summary_of(self, number: int, turn: Turn) -> TurnSummary:
        """What was read of a turn."""
        seconds, tokens = seconds_between(turn.started, turn.ended), self._context_tokens.get(number)
        return TurnSummary(turn, seconds, self._calls[number], self._failures[number], self._spent[number], tokens)

    def use_of(self, tool: str) -> ToolUse:
        """What was read of a tool."""
        return ToolUse(tool, self.tools[tool], self._tool_failures[tool], self._undone[tool])

    def see(self, found: Explained, record: Record | None) -> None:
        """One more line."""
        if record is None and found.inherited is None and found.status == "damaged":
            self.damaged_lines.add(found.line)
        if record is None or found.status == "damaged":
            return
        self.ended = record.timestamp
        event = CODEX.event_of(record.data, record.envelope, False)
        note = CODEX.token_note(record.data, record.envelope)
        if note is not None:
            self._see_note(note, record, found)
        elif event is LineKind.ITEM and (record.kind in CALLS or record.kind in OUTPUTS):
            self._see_tool(record.payload, found)
        elif isinstance(event, Replaced):
            items = CODEX.compaction_of(record.data).items
            self.compactions.append(_milestone(record, found, number=None if items is None else len(items)))
        elif isinstance(event, TurnsRemoved):
            self.rollbacks.append(_milestone(record, found, number=event.count))

    def _see_note(self, note: TokenNote, record: Record, found: Explained) -> None:
        if note.model is not None and (not self.models or self.models[-1].text != note.model):
            self.models.append(_milestone(record, found, text=note.model))
        if note.reading is None:
            return
        self.window_tokens = note.reading.window or self.window_tokens
        if note.reading.totals is not None:
            added, self._running = self._running.after(note.reading)
            self._spent[found.turn] += added
        if note.reading.context_tokens is not None:
            self._context_tokens[found.turn] = note.reading.context_tokens

    def _see_tool(self, item: dict[str, Any], found: Explained) -> None:
        call_id, turn = item.get("call_id"), found.turn
        if item["type"] in CALLS:
            name = name_of(item)
            self.tools[name] += 1
            self._undone[name] += found.status == "rolled_back"
            self._calls[turn] += 1
            if isinstance(call_id, str):
                self._waiting[call_id] = name, turn
        elif isinstance(call_id, str) and call_id in self._waiting:
            name, turn = self._waiting.pop(call_id)
        else:
            return
        if has_failed(item):
            self._tool_failures[name] += 1
            self._failures[turn] += 1


def _milestone(record: Record, found: Explained, *, text: str | None = None, number: int | None = None) -> Milestone:
    return Milestone(
        line=found.line,
        offset=found.offset,
        path=found.path,
        inherited=found.inherited,
        turn_id=found.turn_id,
        time=record.timestamp,
        text=text,
        number=number,
        stands=found.status != "rolled_back",
    )
