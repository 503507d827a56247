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

from rollout.dialects.codex.prompt import unwrap_item
from rollout.files.source import Origin
from rollout.fold.history import Item
from rollout.items.kinds import SESSION_ITEM, Head, is_visible
from rollout.session.record import Record, read_records

COMPACTIONS = frozenset({"compaction", "context_compaction"})
"""Items that hold a history in short, as only the model's provider can read it."""
_MODEL_TYPES = frozenset({"reasoning", "mcp_list_tools", "mcp_approval_request", *COMPACTIONS})
_UNTOLD = frozenset({SESSION_ITEM, "tool_search_output"})
_ENDING_EVENTS = frozenset(
    {
        *("task_started", "turn_started", "task_complete", "turn_complete", "turn_aborted"),
        *("thread_rolled_back", "items_removed", "error"),
    }
)
_CHANGING_EVENTS = frozenset({"thread_rolled_back", "items_removed"})


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
    reader = _Reader(key_of)
    with origin.opened() as lineage:
        segments = list(lineage)
        for segment in reversed(segments):
            reader.path = None if segment.path is None else str(segment.path)
            for record in read_records([segment], origin.limits):
                reader.take(record)
    return tuple(reader.calls)


def is_models(item: Item) -> bool:
    """Whether a model makes such an item; all others are its input."""
    kind = item.get("type")
    if kind == "message":
        return item.get("role") == "assistant"
    if kind == "tool_search_output":
        return item.get("execution") == "server"
    return isinstance(kind, str) and (kind in _MODEL_TYPES or kind.endswith("_call"))


class _Reader:
    """Folds records into calls, oldest first."""

    def __init__(self, key_of: Callable[[Item], str | None]) -> None:
        self.calls: list[Call] = []
        self.path: str | None = None
        self._key_of = key_of
        self._last: Record | None = None
        self._model: str | None = None
        self._is_open = False
        self._totals: Any = None

    def take(self, record: Record) -> None:
        """One more record."""
        if record.type == "response_item" and record.kind is not None:
            self._take_item(record)
        elif record.type == "inter_agent_communication":
            self._is_open, self._last = False, None
        elif record.type == "compacted":
            self._take_compaction(record)
        elif record.type == "turn_context":
            model = _object(record.payload).get("model")
            self._model = model if isinstance(model, str) else self._model
        elif record.type == "token_usage_record":
            self._charge(_object(record.payload).get("usage"))
        elif record.type == "event_msg":
            self._take_event(record)

    def _take_item(self, record: Record) -> None:
        head = record.envelope.payload
        role = head.role if isinstance(head, Head) else record.envelope.role
        item: Item | None = {"type": record.kind, "role": role}  # enough to tell whose it is, but for two kinds
        if record.kind in _UNTOLD:
            item = unwrap_item(_object(record.payload))
        if item is None or not is_visible(str(item.get("type")), item.get("role")):
            return
        if is_models(item):
            self._take_output(record)
        else:
            self._is_open = False
        self._last = record

    def _take_output(self, record: Record) -> None:
        item = unwrap_item(_object(record.payload)) or {}
        if self._is_open:
            last = self.calls[-1]
            self.calls[-1] = dataclasses.replace(last, output=(*last.output, item))
        else:
            self._add(record, Kind.ANSWER, (item,))
            self._is_open = True

    def _take_compaction(self, record: Record) -> None:
        self._is_open = False
        payload = _object(record.payload)
        replacement, message = payload.get("replacement_history"), payload.get("message")
        items = [item for item in replacement if isinstance(item, dict)] if isinstance(replacement, list) else []
        if any(isinstance(kind := item.get("type"), str) and kind in COMPACTIONS for item in items):
            self._add(record, Kind.COMPACTION, tuple(items))
        elif self.calls and isinstance(message, str) and message.endswith(_last_text(self.calls[-1]) or message + "…"):
            self.calls[-1] = dataclasses.replace(self.calls[-1], summarizes=True)
        self._last = None

    def _take_event(self, record: Record) -> None:
        if record.kind in _ENDING_EVENTS:
            self._is_open = False
            self._last = None if record.kind in _CHANGING_EVENTS else self._last
        elif record.kind == "token_count":
            info = _object(_object(record.payload).get("info"))
            totals = info.get("total_token_usage")
            if isinstance(totals, dict) and totals != self._totals:  # they are told again whenever anything happens
                self._totals = totals
                self._charge(info.get("last_token_usage"))

    def _charge(self, usage: object) -> None:
        """The report comes when the whole answer is there: what the model makes next is of another call."""
        if self._is_open and isinstance(usage, dict):
            self.calls[-1] = dataclasses.replace(self.calls[-1], usage=_usage(usage))
        self._is_open = False

    def _add(self, record: Record, kind: Kind, output: tuple[Item, ...]) -> None:
        timestamp = _object(record.value).get("timestamp")
        at = timestamp if isinstance(timestamp, str) else None
        key = None if self._last is None else self._key_of(_object(self._last.payload))
        number = len(self.calls) + 1
        self.calls.append(Call(number, kind, self.path, record.line, record.offset, at, self._model, output, key))


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _last_text(call: Call) -> str | None:
    content = call.output[-1].get("content")
    part = content[-1] if isinstance(content, list) and content else content
    text = part.get("text") if isinstance(part, dict) else part
    return text if isinstance(text, str) else None


def _usage(recorded: dict[str, Any]) -> dict[str, Any]:
    """Token counts in the keys of the Responses API."""

    def number(key: str) -> int:
        value = recorded.get(key)
        return value if isinstance(value, int) else 0

    return {
        "input_tokens": number("input_tokens"),
        "input_tokens_details": {"cached_tokens": number("cached_input_tokens")},
        "output_tokens": number("output_tokens"),
        "output_tokens_details": {"reasoning_tokens": number("reasoning_output_tokens")},
        "total_tokens": number("total_tokens"),
    }
