"""Interrupts at every point of a call: an exception that is raised where CPython could deliver that of a signal.

CPython runs the handlers of signals in the main thread, between two instructions of Python code: when a function is
entered or goes on behind a yield, when a call has come back, and at jumps backward. `SIGNALS` are these points, in the
code of the library. `LINES` are the beginnings of all its lines, its calls and its returns, which are more than that.
"""

from __future__ import annotations

import collections
import contextlib
import dis
import functools
import json
import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, TypeAlias

import rollout
from rollout import Cipher

LIBRARY = f"{Path(rollout.__file__).parent}/"
TESTING = f"{LIBRARY}testing/"
Trace: TypeAlias = "Callable[[FrameType, str, Any], Any]"
Points: TypeAlias = "Callable[[Callable[[], None]], Trace]"

DELIVERING = {
    "RESUME",
    "CALL",
    "CALL_KW",
    "CALL_FUNCTION_EX",
    "JUMP_BACKWARD",
    "POP_JUMP_BACKWARD_IF_FALSE",
    "POP_JUMP_BACKWARD_IF_TRUE",
    "POP_JUMP_BACKWARD_IF_NONE",
    "POP_JUMP_BACKWARD_IF_NOT_NONE",
}
"""The instructions behind which a signal can be delivered, in 3.11 to 3.13. A call of a function in Python delivers it
when that is entered, not when it has come back; that is asked for all the same."""


@functools.cache
def is_of_library(code: CodeType) -> bool:
    return code.co_filename.startswith(LIBRARY) and not code.co_filename.startswith(TESTING)


@functools.cache
def names_of(code: CodeType) -> dict[int, str]:
    return {instruction.offset: instruction.opname for instruction in dis.get_instructions(code)}


@functools.cache
def handlers_of(code: CodeType) -> dict[int, int | None]:
    """Where each instruction goes on if it raises; None: in the caller."""
    entries = dis.Bytecode(code).exception_entries  # type: ignore[attr-defined]  # since 3.11
    return {at: next((one.target for one in entries if one.start <= at < one.end), None) for at in names_of(code)}


def SIGNALS(reach: Callable[[], None]) -> Trace:  # noqa: N802  # one of the two kinds of points
    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        if not is_of_library(frame.f_code):
            return None
        names, handlers, before = names_of(frame.f_code), handlers_of(frame.f_code), -1

        def within(frame: FrameType, event: str, argument: Any) -> Any:
            nonlocal before
            if event == "exception":
                before = -1  # a call that raises looks for no signals
            if event == "opcode":
                behind, before = before, frame.f_lasti
                # A signal is raised by the instruction behind which it comes, here the next one does that. From 3.12 on
                # one that cannot raise itself (a jump) may stand outside of what handles the exceptions around it.
                if names.get(behind) in DELIVERING and handlers[behind] == handlers[before]:
                    reach()
            return within

        frame.f_trace = within  # 3.13 asks for the instructions of a frame only if it is traced by then
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return within

    sys._getframe().f_trace_opcodes = True  # 3.12 asks for them at the next settrace
    return trace


@functools.cache
def left_out(code: CodeType) -> frozenset[int]:
    """Where a line begins that no signal comes ahead of, and that must not be kept from being carried out.

    These are the leaving of a `with` statement, and a `finally` that begins with one call into C: both follow an
    instruction that looks for no signals. And the NOP that stands for the word `try`: 3.11 leaves it out of the table
    of what handles an exception, as none can come there.
    """
    found, instructions = set(), list(dis.get_instructions(code))
    for at, instruction in enumerate(instructions):
        following = [one.opname for one in instructions[at : at + 3]]
        values = [one.argval for one in instructions[at : at + 3]]
        if following == ["LOAD_CONST"] * 3 and values == [None] * 3:
            found.add(instruction.offset)
        if instruction.opname == "NOP" or any(value in ("_give_back", "discard") for value in values):
            found.add(instruction.offset)
    return frozenset(found)


def LINES(reach: Callable[[], None]) -> Trace:  # noqa: N802  # the other kind
    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        if not is_of_library(frame.f_code):
            return None
        if event != "line" or frame.f_lasti not in left_out(frame.f_code):
            reach()
        return trace

    return trace


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, as it is raised at one of the points."""


def interrupt(points: Points, nth: int, act: Callable[[], object]) -> int:
    """Calls `act` and interrupts it at its n-th point; how many it came to. No other exception comes out of it."""
    count = 0

    def reach() -> None:
        nonlocal count
        count += 1
        if count == nth:
            sys.settrace(None)
            raise Interrupted

    before = sys.gettrace()
    sys.settrace(points(reach))
    try:
        act()
    except Interrupted:
        pass
    finally:
        sys.settrace(before)
    return count


def at_points(points: Points, run: Callable[[Points, int], int], most: int) -> int:
    """Runs with an interrupt at each point, or at `most` of them, evenly spread; how many there are."""
    there = run(points, 0)
    step = max(1, there // most)
    for nth in range(1 + there % step // 2, there + 1, step):
        run(points, nth)
    return there


@contextlib.contextmanager
def within(seconds: float) -> Iterator[Callable[[Callable[[], object]], None]]:
    """Gives what calls a function in another thread, which has to come back."""

    def call(work: Callable[[], object]) -> None:
        failed: list[BaseException] = []

        def run() -> None:
            try:
                work()
            except BaseException as error:  # noqa: BLE001  # raised in the main thread
                failed.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(seconds)
        assert not thread.is_alive(), "another thread hangs"
        if failed:
            raise failed[0]

    yield call


TOLD_AGAIN = ("user_message", "agent_message", "task_complete", "item_completed")
"""Events that repeat what an item says."""


def check_lines(path: Path, cipher: Cipher | None, told: Sequence[str], asked: Sequence[str]) -> int:
    """Nothing is damaged, numbers have no gap, turns have ended, all words that were `told` stand, each in one line.

    So do some of those that were `asked` for, none twice. How many lines there are.
    """
    lines = [json.loads(record.data) for record in rollout.records(path, cipher=cipher)]
    assert rollout.verify(path, cipher=cipher).damage == ()
    ordinals = [line["ordinal"] for line in lines if "ordinal" in line]
    assert ordinals == ([*range(ordinals[0], ordinals[0] + len(lines))] if cipher else [])
    events = [line["payload"] for line in lines if line["type"] == "event_msg"]
    bounds = [(event["type"], event["turn_id"]) for event in events if event["type"].startswith(("task_", "turn_"))]
    if "history_base" in lines[0]["payload"] and bounds[:1] and bounds[0][0] == "turn_aborted":
        del bounds[0]  # of a turn that its source was left with
    assert [kind for kind, _ in bounds[::2]] == ["task_started"] * (len(bounds) // 2)
    assert {kind for kind, _ in bounds[1::2]} <= {"task_complete", "turn_aborted"}
    assert [turn_id for _, turn_id in bounds[::2]] == [turn_id for _, turn_id in bounds[1::2]]
    said = [json.dumps(line["payload"]) for line in lines if line["payload"].get("type") not in TOLD_AGAIN]
    found = collections.Counter(re.findall(r"word-\d+-", "\n".join(said)))
    assert set(told) <= found.keys()
    assert {word for word in asked if found[word] > 1} == set()
    return len(lines)
