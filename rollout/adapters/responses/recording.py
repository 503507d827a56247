"""A recording that answers as the recorded model did.

Each request is answered by the call that was asked the same: the next one to come, else a later one, else an earlier
one (a client that asks again). What a call was asked is the state that stood when it was made (`rollout.reconstruct`),
made sendable (S6). A request that fits no call is a *departure*, told with its first difference. Equal requests in
equal order have equal answers, byte for byte, at every run.
"""

from __future__ import annotations

import dataclasses
import os
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rollout.adapters.responses.calls import Call, Kind, read_calls
from rollout.adapters.responses.events import make_compaction, make_response, response_id
from rollout.adapters.responses.matching import (
    Asked,
    Difference,
    Ignored,
    describe,
    find_difference,
    make_comparable,
    may_ignore,
)
from rollout.dialects.codex.model_calls import truncation_of
from rollout.dialects.codex.prompt import make_prompt
from rollout.errors import UsageError
from rollout.files.encrypted.keys import Cipher
from rollout.files.source import AnySource, find
from rollout.items.kinds import Item
from rollout.limits import DEFAULT, Limits
from rollout.session.state import State, read_state

_COMPARED = ("model", "instructions")
_TRIED_CALLS = 100
"""As many calls are compared that do not look as if they fit: one may, if an output was cut, or come nearest."""


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
        self.calls = read_calls(self._origin, lambda item: _last_key(make_comparable([item], self._ignored)))
        self._instructions = self._state_before(None).base_instructions
        self._lock, self._next = threading.Lock(), 0
        self._keys: dict[int, str | None] = {call.number: call.last_key for call in self.calls}

    def answer(self, request: Mapping[str, Any], *, is_compaction: bool = False) -> Answer | Departure:
        """What is answered to the body of a request. UsageError if it is none that could be answered.

        `is_compaction`: it came as a request to compact; one whose input ends with a `compaction_trigger` is one, too.
        """
        given = _input_of(request)
        triggers = bool(given) and given[-1].get("type") == "compaction_trigger"
        kind = Kind.COMPACTION if is_compaction or triggers else Kind.ANSWER
        asked = self._with_previous(request, given)
        with self._lock:
            found = self._find(kind, asked)
            if isinstance(found, Departure):
                return found
            notes = list(self._compare_rest(found, request))
            if notes and self._is_strict:
                return Departure(found, f"the request departs from call {found.number} in its {notes[0]}")
            if found.number - 1 != self._next:
                notes.append(f"out of turn: {self._told_next()} was to come")
            self._next = found.number
        if is_compaction:
            return Answer(found, make_compaction(found, self.thread), tuple(notes))
        return Answer(found, make_response(found, self.thread, request), tuple(notes))

    def retrieve(self, response: str) -> dict[str, Any] | None:
        """A response by its id; None if there is none."""
        call = next((call for call in self.calls if response_id(call, self.thread) == response), None)
        return None if call is None else make_response(call, self.thread, {})

    def _find(self, kind: Kind, asked: Sequence[Asked]) -> Call | Departure:
        near: list[tuple[int, int, Call | None, Difference]] = []
        for call in self._order(kind, asked):
            apart, excess = self._find_difference(call, asked)
            if apart is None:
                return call
            near.append((apart.index, -abs(excess), call, apart))
        apart, excess = self._find_difference(None, asked)
        end = apart or Difference(len(asked), asked[-1].place + 1 if asked else 0, None, None)
        near.append((end.index, -abs(excess), None, end))
        _, _, nearest, apart = max(near, key=lambda each: each[:2])  # the longest way together, then the like length
        return Departure(nearest, _explain(nearest, apart, len(self.calls)), apart)

    def _order(self, kind: Kind, asked: Sequence[Asked]) -> Iterator[Call]:
        """In which order calls are tried: the next one, those asked behind the same item, some of the others."""
        order = [call for call in (*self.calls[self._next :], *reversed(self.calls[: self._next])) if call.kind is kind]
        yield from order[:1]
        keys: set[str | None] = {entry.key for entry in asked[-2:]} or {None}
        fits = [self._key_of(call) in keys for call in order]
        yield from (call for call, fit in zip(order[1:], fits[1:], strict=True) if fit)
        yield from [call for call, fit in zip(order[1:], fits[1:], strict=True) if not fit][:_TRIED_CALLS]

    def _find_difference(self, call: Call | None, asked: Sequence[Asked]) -> tuple[Difference | None, int]:
        """Where a request parts from what a call (None: the end) was asked, and how many items more it has."""
        state = self._state_before(call)
        recorded = make_comparable(make_prompt(state.history), self._ignored)
        excess = len(asked) - len(recorded)
        if call is not None and call.summarizes and excess == 1 and asked[-1].item.get("role") == "user":
            asked = asked[:-1]  # what the model is told to sum up with is not recorded
        return find_difference(recorded, asked, truncation_of(state.reference_context)), excess

    def _told_next(self) -> str:
        return f"call {self._next + 1}" if self._next < len(self.calls) else "nothing"

    def _asked_of(self, call: Call | None) -> list[Asked]:
        return make_comparable(make_prompt(self._state_before(call).history), self._ignored)

    def _key_of(self, call: Call) -> str | None:
        if self._keys[call.number] is None:
            self._keys[call.number] = _last_key(self._asked_of(call))
        return self._keys[call.number]

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
        call = next((call for call in self.calls if response_id(call, self.thread) == previous), None)
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


def _last_key(asked: Sequence[Asked]) -> str | None:
    return asked[-1].key if asked else None


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
