"""A recording that answers as the recorded model did.

A *call* is a run of items that a model made (reasoning, messages of the assistant, calls of tools) between two inputs
(other messages, outputs). A report of what the call cost ends it too, as does everything that ends a turn or changes
the history. Calls that were rolled back or compacted away are calls still: they were made.

Each request is answered by the call that was asked the same: the next one to come, else a later one, else an earlier
one (a client that asks again). What a call was asked is the state that stood when it was made (`rollout.reconstruct`),
made sendable (S6). A request that fits no call is a *departure*, told with its first difference. Equal requests in
equal order have equal answers, byte for byte, at every run.
"""

from __future__ import annotations

import dataclasses
import datetime
import itertools
import operator
import os
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rollout.adapters.responses.matching import (
    Asked,
    Difference,
    Ignored,
    describe,
    find_difference,
    make_comparable,
    may_ignore,
)
from rollout.dialects.codex.model_calls import Charged, Chose, Compacted, Ended, Given, Made, fact_of, truncation_of
from rollout.dialects.codex.prompt import PROGRAM_KEYS, make_prompt
from rollout.errors import UsageError
from rollout.files.encrypted.keys import Cipher
from rollout.files.source import AnySource, find
from rollout.items.kinds import COMPACTIONS, Head, Item
from rollout.limits import DEFAULT, Limits
from rollout.session.record import Record, read_records
from rollout.session.state import State, read_state

_COMPARED = ("model", "instructions")
_TRIED_CALLS = 100
"""As many calls are compared that do not look as if they fit: one may, if an output was cut, or come nearest."""
_PREFIXES = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "custom_tool_call": "ctc",
    "local_shell_call": "lsh",
    "web_search_call": "ws",
    "image_generation_call": "ig",
    "compaction": "cmp",
}
_WITH_STATUS = frozenset({"message", "function_call", "local_shell_call", "web_search_call", "image_generation_call"})
_ECHOED: dict[str, Any] = {  # keys of a request that its response repeats, and what they are without it
    "instructions": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "reasoning": {"effort": None, "summary": None},
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_p": 1.0,
    "truncation": "disabled",
    "max_output_tokens": None,
    "store": False,
}
_NO_USAGE = {
    "input_tokens": 0,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": 0,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 0,
}
"""The API has no compaction without one; of a recording without token counts nothing is known."""


@dataclasses.dataclass(frozen=True, slots=True)
class Call:
    """One call of the model. `number` counts from 1 over the whole lineage.

    `is_compaction`: the history in short was asked for, no answer. It begins in `line` of `path` (None: bytes) at byte
    `offset`. `output` holds the items as they were recorded, `usage` what the call cost as the Responses API has it
    (None: not recorded), `model` the newest turn_context's. `summarizes`: the compaction behind it is made of it, so
    the model was asked to sum up. `last_key` is the key of the newest item that the model was asked with; None where
    something changed the history since.
    """

    number: int
    is_compaction: bool
    path: str | None
    line: int
    offset: int
    timestamp: str | None
    model: str | None
    output: tuple[Item, ...]
    last_key: str | None
    usage: dict[str, Any] | None = None
    summarizes: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """What the recorded model answered: `response` as the Responses API spells it. `notes`: what was let pass."""

    call: Call
    response: dict[str, Any]
    notes: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Departure:
    """A request that the recorded model was never asked. `call` comes nearest (None: the end of the recording)."""

    call: Call | None
    message: str
    difference: Difference | None = None


class Recording:
    """The calls of a rollout, to be given again; it holds what the model made, not what it was asked with.

    Safe for use by several threads. A rollout that is being written is taken as it is now.
    `ignored`: what may differ. `is_strict`: another model or other instructions are departures, not notes.
    """

    def __init__(
        self,
        source: AnySource,
        *,
        home: str | os.PathLike[str] | None = None,
        limits: Limits = DEFAULT,
        cipher: Cipher | None = None,
        ignored: Collection[Ignored] = (),
        is_strict: bool = False,
    ) -> None:
        origin = find(source, home, limits, cipher)
        with origin.opened() as lineage:
            first = lineage.opened[0]
            self._origin = dataclasses.replace(origin, size=lineage.end)
            self.thread: str = first.thread or "rollout"
        self.path = origin.path
        self._ignored, self._is_strict = frozenset(ignored), is_strict
        reader = _CallReader(self._ignored)
        with self._origin.opened() as lineage:
            for segment in reversed(list(lineage)):
                for record in read_records([segment], limits):
                    reader.take(record, segment.path)
        self.calls = tuple(reader.calls)
        self._instructions = self._state_before(None).base_instructions
        self._lock, self._next = threading.Lock(), 0

    def answer(self, request: Mapping[str, Any], *, is_compaction: bool = False) -> Answer | Departure:
        """What is answered to the body of a request. UsageError if it is none that could be answered.

        `is_compaction`: it came as a request to compact; one whose input ends with a `compaction_trigger` is one, too.
        """
        given = _input_of(request)
        triggers = bool(given) and given[-1].get("type") == "compaction_trigger"
        asked = self._with_previous(request, given)
        with self._lock:
            found = self._find(is_compaction or triggers, asked)
            if isinstance(found, Departure):
                return found
            notes = list(self._compare_rest(found, request))
            if notes and self._is_strict:
                return Departure(found, f"the request departs from call {found.number} in its {notes[0]}")
            if found.number - 1 != self._next:
                told = f"call {self._next + 1}" if self._next < len(self.calls) else "nothing"
                notes.append(f"out of turn: {told} was to come")
            self._next = found.number
        make = _make_compaction if is_compaction else _make_response
        return Answer(found, make(found, self.thread, request), tuple(notes))

    def retrieve(self, response: str) -> dict[str, Any] | None:
        """A response by its id; None if there is none."""
        call = self._call_of(response)
        return None if call is None else _make_response(call, self.thread, {})

    def _call_of(self, response: object) -> Call | None:
        return next((call for call in self.calls if _response_id(call, self.thread) == response), None)

    def _find(self, is_compaction: bool, asked: Sequence[Asked]) -> Call | Departure:
        near: list[tuple[int, int, Call | None, Difference]] = []
        for call in itertools.chain(self._order(is_compaction, asked), [None]):
            apart, excess = self._find_difference(call, asked)
            if apart is None and call is not None:
                return call
            apart = apart or Difference(len(asked), asked[-1].place + 1 if asked else 0, None, None)
            near.append((apart.index, -abs(excess), call, apart))
        _, _, nearest, apart = max(near, key=lambda each: each[:2])  # the longest way together, then the like length
        return Departure(nearest, _explain(nearest, apart, len(self.calls)), apart)

    def _order(self, is_compaction: bool, asked: Sequence[Asked]) -> Iterator[Call]:
        """In which order calls are tried: the next one, those asked behind the same item, some of the others.

        Those that do not tell behind what they were asked may be any.
        """
        calls = (*self.calls[self._next :], *reversed(self.calls[: self._next]))
        order = [call for call in calls if call.is_compaction == is_compaction]
        yield from order[:1]
        keys = {None, *(entry.key for entry in asked[-2:])}
        fits = [call.last_key in keys for call in order[1:]]
        yield from itertools.compress(order[1:], fits)
        yield from itertools.islice(itertools.compress(order[1:], map(operator.not_, fits)), _TRIED_CALLS)

    def _find_difference(self, call: Call | None, asked: Sequence[Asked]) -> tuple[Difference | None, int]:
        """Where a request parts from what a call (None: the end) was asked, and how many items more it has."""
        state = self._state_before(call)
        recorded = make_comparable(make_prompt(state.history), self._ignored)
        excess = len(asked) - len(recorded)
        if call is not None and call.summarizes and excess == 1 and asked[-1].item.get("role") == "user":
            asked = asked[:-1]  # what the model is told to sum up with is not recorded
        return find_difference(recorded, asked, truncation_of(state.reference_context)), excess

    def _asked_of(self, call: Call | None) -> list[Asked]:
        return make_comparable(make_prompt(self._state_before(call).history), self._ignored)

    def _state_before(self, call: Call | None) -> State:
        """The state in which a call was made; None: that at the end."""
        origin = self._origin
        if call is not None:
            path = None if call.path is None else Path(call.path)
            origin = dataclasses.replace(origin, path=path, size=call.offset)
        return read_state(origin)

    def _with_previous(self, request: Mapping[str, Any], given: Sequence[Item]) -> list[Asked]:
        previous = request.get("previous_response_id")
        asked = make_comparable(given, self._ignored)
        if previous is None:
            return asked
        call = self._call_of(previous)
        if call is None:
            raise UsageError(
                f"no response {previous!r} in this recording", remedy="give the id of a response of this server"
            )
        answered = make_comparable(call.output, self._ignored)
        return [*self._asked_of(call), *answered, *asked]

    def _compare_rest(self, call: Call, request: Mapping[str, Any]) -> Iterator[str]:
        for key, recorded in zip(_COMPARED, (call.model, self._instructions), strict=True):
            given = request.get(key)
            if recorded is not None and given is not None and given != recorded:
                apart = find_difference([Asked(0, {key: recorded})], [Asked(0, {key: given})])
                assert apart is not None
                yield f"{key}: {apart.told}"


def _input_of(request: Mapping[str, Any]) -> list[Item]:
    given = request.get("input")
    if isinstance(given, str):
        return [{"type": "message", "role": "user", "content": given}]
    if given is None and request.get("previous_response_id") is not None:
        return []
    if not isinstance(given, list) or not all(isinstance(item, dict) for item in given):
        raise UsageError("input must be a text or a list of items", remedy="send it as the Responses API has it")
    if request.get("conversation") is not None:
        raise UsageError("a recording holds no conversations", remedy="send the whole input, or previous_response_id")
    return given


def _explain(call: Call | None, apart: Difference, calls: int) -> str:
    """The departure in a sentence."""
    where = f"the end, after call {calls}" if call is None else f"call {call.number} in line {call.line}"
    place = f"input[{apart.place}]"
    if apart.recorded is not None and apart.asked is not None:
        told = f"{place} ({describe(apart.asked)}) differs in {apart.where or 'its value'}, {apart.told}"
    elif apart.recorded is not None:
        told = f"{place} is missing: recorded is {describe(apart.recorded)}"
    elif apart.asked is not None:
        told = f"{place} ({describe(apart.asked)}) is more than " + (
            "what is recorded" if call is None else "what the model was asked with"
        )
    else:
        told = "the recording has no answer to this"
    if (let_pass := may_ignore(apart.recorded) or may_ignore(apart.asked)) is not None and call is not None:
        told += f"; ignore {let_pass} to let that pass"
    return f"the request departs from {where}: {told}"


class _CallReader:
    """Folds the records of a log and its bases into calls, oldest first."""

    def __init__(self, ignored: Collection[Ignored]) -> None:
        self.calls: list[Call] = []
        self._ignored = ignored
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
                self._add(record, path, False, (item,))
                self._is_open, self._last = True, record
            case Given(is_item):
                self._is_open, self._last = False, record if is_item else None
            case Compacted(items, summary):
                if items:
                    self._add(record, path, True, items)
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

    def _add(self, record: Record, path: str | None, is_compaction: bool, output: tuple[Item, ...]) -> None:
        asked = None if self._last is None else self._last.payload
        key = next((one.key for one in make_comparable([asked], self._ignored)), None)
        place, number = (path, record.line, record.offset), len(self.calls) + 1
        self.calls.append(Call(number, is_compaction, *place, record.timestamp, self._model, output, key))


def _last_text(call: Call) -> str | None:
    content = call.output[-1].get("content")
    part = content[-1] if isinstance(content, list) and content else content
    text = part.get("text") if isinstance(part, dict) else part
    return text if isinstance(text, str) else None


def _response_id(call: Call, thread: str) -> str:
    """The id of the response of a call: the same at every run."""
    return f"resp_{thread.replace('-', '')}_{call.number}"


def _make_response(call: Call, thread: str, request: Mapping[str, Any]) -> dict[str, Any]:
    """The response to a request, complete."""
    return {
        "id": _response_id(call, thread),
        "object": "response",
        "created_at": _seconds(call.timestamp),
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "model": call.model or request.get("model") or "recorded",
        "output": _make_output(call, thread),
        "usage": call.usage,
        **{key: without if request.get(key) is None else request[key] for key, without in _ECHOED.items()},
    }


def _make_compaction(call: Call, thread: str, request: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to a request to compact: the whole history in short."""
    return {
        "id": _response_id(call, thread),
        "object": "response.compaction",
        "created_at": _seconds(call.timestamp),
        "output": [_strip(item) for item in call.output],
        "usage": call.usage or _NO_USAGE,
    }


def _make_output(call: Call, thread: str) -> list[Item]:
    output = []
    for index, recorded in enumerate(call.output):
        kind = str(recorded.get("type"))
        if call.is_compaction and kind not in COMPACTIONS:
            continue  # a stream gives the short form alone; the client keeps the messages itself
        item = _strip(recorded)
        if not isinstance(item.get("id"), str):
            made = f"{_PREFIXES.get(kind, 'item')}_{thread.replace('-', '')}_{call.number}_{index}"
            item = {"type": kind, "id": made, **item}
        if kind in _WITH_STATUS:
            item.setdefault("status", "completed")
        if kind == "message":
            item["content"] = _make_content(item.get("content"))
        elif kind == "reasoning":
            item["summary"] = _objects(item.get("summary"))
            if "content" in item:
                item["content"] = _objects(item["content"])
        output.append(item)
    return output


def _make_content(content: object) -> list[dict[str, Any]]:
    parts = _objects(content if isinstance(content, list) else [{"type": "output_text", "text": content or ""}])
    return [{"annotations": [], "logprobs": [], **part} if "text" in part else part for part in parts]


def _objects(value: object) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _strip(item: Item) -> Item:
    return {key: value for key, value in item.items() if key not in PROGRAM_KEYS and value is not None}


def _seconds(timestamp: str | None) -> int:
    """Since 1970; 0 where there is no time."""
    try:
        at = datetime.datetime.fromisoformat(timestamp or "")
        return int((at if at.tzinfo else at.replace(tzinfo=datetime.UTC)).timestamp())
    except (ValueError, OverflowError):
        return 0
