"""The model calls of a recording: what a model answered, and where.

A *call* is a run of items that a model made (reasoning, messages of the assistant, calls of tools) between two inputs
(other messages, outputs). A report of what the call cost ends it too, as does everything that ends a turn or changes
the history. Calls that were rolled back or compacted away are calls still: they were made. What a call was asked with
is the state that stood at its `offset`.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from typing import Any

from rollout.dialects.codex.model_calls import Charged, Chose, Compacted, Ended, Given, Made, fact_of
from rollout.files.source import Origin
from rollout.items.kinds import Head, Item
from rollout.session.record import Record, read_records


class Kind(enum.StrEnum):
    """What was asked for: an answer, or the history in short."""

    ANSWER = "answer"
    COMPACTION = "compaction"


@dataclasses.dataclass(frozen=True, slots=True)
class Call:
    """One call of the model. `number` counts from 1 over the whole lineage.

    It begins in `line` of `path` (None: bytes) at byte `offset`. `output` holds the items as they were recorded,
    `usage` what the call cost as the Responses API has it (None: not recorded), `model` the newest turn_context's.
    `summarizes`: the compaction behind it is made of it, so the model was asked to sum up. `last_key` is the key of the
    newest item that the model was asked with; None where something changed the history since.
    """

    number: int
    kind: Kind
    path: str | None
    line: int
    offset: int
    timestamp: str | None
    model: str | None
    output: tuple[Item, ...]
    last_key: str | None
    usage: dict[str, Any] | None = None
    summarizes: bool = False


def read_calls(origin: Origin, key_of: Callable[[Item], str | None]) -> tuple[Call, ...]:
    """All calls of a log and its bases, oldest first; `key_of` gives their keys. Reads everything."""
    reader = _CallReader(key_of)
    with origin.opened() as lineage:
        for segment in reversed(list(lineage)):
            path = None if segment.path is None else str(segment.path)
            for record in read_records([segment], origin.limits):
                reader.take(record, path)
    return tuple(reader.calls)


class _CallReader:
    """Folds the records of a log and its bases into calls, oldest first."""

    def __init__(self, key_of: Callable[[Item], str | None]) -> None:
        self.calls: list[Call] = []
        self._key_of = key_of
        self._last: Record | None = None  # the newest item that the model is asked with
        self._model: str | None = None
        self._is_open = False
        self._totals: dict[str, Any] | None = None

    def take(self, record: Record, path: str | None) -> None:
        """One more record, of the file at `path`."""
        head = record.envelope.payload
        role = head.role if isinstance(head, Head) else record.envelope.role
        match fact_of(record.type, record.kind, role, lambda: record.payload):
            case Made(item) if self._is_open:
                self._change(output=(*self.calls[-1].output, item))
                self._last = record
            case Made(item):
                self._add(record, path, Kind.ANSWER, (item,))
                self._is_open, self._last = True, record
            case Given(is_item):
                self._is_open, self._last = False, record if is_item else None
            case Compacted(items, summary):
                if items:
                    self._add(record, path, Kind.COMPACTION, items)
                elif summary is not None and self.calls and (text := _last_text(self.calls[-1])):
                    self._change(summarizes=self.calls[-1].summarizes or summary.endswith(text))
                self._is_open, self._last = False, None
            case Ended(changes_history):
                self._is_open, self._last = False, None if changes_history else self._last
            case Charged(usage, totals) if totals is None or totals != self._totals:
                # what was told before is told again whenever anything happens; a new report comes when the whole
                # answer is there: what the model makes next is of another call
                self._totals = self._totals if totals is None else totals
                if self._is_open and usage is not None:
                    self._change(usage=usage)
                self._is_open = False
            case Chose(model):
                self._model = model

    def _change(self, **fields: Any) -> None:
        self.calls[-1] = dataclasses.replace(self.calls[-1], **fields)

    def _add(self, record: Record, path: str | None, kind: Kind, output: tuple[Item, ...]) -> None:
        value = record.value
        timestamp = value.get("timestamp") if isinstance(value, dict) else None
        asked = None if self._last is None else self._last.payload
        key = self._key_of(asked) if isinstance(asked, dict) else None
        at = timestamp if isinstance(timestamp, str) else None
        number = len(self.calls) + 1
        self.calls.append(Call(number, kind, path, record.line, record.offset, at, self._model, output, key))


def _last_text(call: Call) -> str | None:
    content = call.output[-1].get("content")
    part = content[-1] if isinstance(content, list) and content else content
    text = part.get("text") if isinstance(part, dict) else part
    return text if isinstance(text, str) else None
