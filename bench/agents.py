"""Sessions of the OpenAI Agents SDK: `RolloutSession` against those that the SDK keeps in SQLite, in one run.

Every session holds the same items on the same disk. A call is timed from its `await` to its result, by turns with the
same call of one other session, so that what the disk and the machine take at the moment weighs on both, and nothing
that a third one has left behind on either. The rows are those of the session against which ours does worst, by medians
and by minima; where the two forms of a figure are noisy, the minima tell more. What is called cold is a new object's
first call, its making counted in: in a process that has made others before, and in a fresh process (without imports).

A third row tells what the disk takes of a durable call: a raw append of as many bytes and its fdatasync, in a thread.
That is more than half of it, and more than SQLite pays, which writes over blocks that its log has already: a file that
grows costs the file system an entry in its own journal.
"""

from __future__ import annotations

import asyncio
import gc
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Final

from bench.write import Row

SIZES: Final = (1_000, 10_000, 100_000)
NEWEST: Final = 50
_BATCH: Final = 1_000
_LINE_BYTES: Final = 420
_MARKER_BYTES: Final = 110
_SLOW_S: Final = 0.005
"""Of a call that takes longer there are fewer runs."""
OURS: Final = "RolloutSession"
RAW: Final = "raw append, fdatasync"
Call = Callable[[Any], Awaitable[Any]]


def run(*, quick: bool, runs: int, folder: Path | None = None) -> Iterator[Row]:
    """Measure everything, in a directory of its own below `folder`."""
    for size in SIZES[:2] if quick else SIZES:
        with tempfile.TemporaryDirectory(dir=folder) as temporary:
            yield from asyncio.run(_measure(Path(temporary), size, runs))


def item(n: int) -> dict[str, Any]:
    """A user's message or an answer, by turns."""
    if n % 2:
        return {"role": "user", "content": f"message {n} " + "x" * 200}
    content = [{"type": "output_text", "text": f"answer {n} " + "y" * 200, "annotations": [], "logprobs": []}]
    return {"id": f"msg_{n}", "type": "message", "role": "assistant", "status": "completed", "content": content}


def openers_in(folder: Path) -> dict[str, Callable[[], Any]]:
    """What makes one of each kind, by name: the same session each time."""
    from agents import SQLiteSession  # noqa: PLC0415  # the SDK takes a second to be imported
    from agents.extensions.memory import AdvancedSQLiteSession, AsyncSQLiteSession  # noqa: PLC0415

    from rollout.adapters.agents import RolloutSession  # noqa: PLC0415

    return {
        OURS: lambda: RolloutSession("bench", folder / "home"),
        "SQLiteSession": lambda: SQLiteSession("bench", folder / "plain.db"),
        "AsyncSQLiteSession": lambda: AsyncSQLiteSession("bench", folder / "async.db"),
        "AdvancedSQLiteSession": lambda: AdvancedSQLiteSession(
            session_id="bench", db_path=folder / "advanced.db", create_tables=True
        ),
    }


async def _close(session: Any) -> None:
    closing = session.close()
    if closing is not None:
        await closing


async def _get_cold(open_: Callable[[], Any]) -> None:
    session = open_()
    await session.get_items(NEWEST)
    await _close(session)


async def _add_cold(open_: Callable[[], Any]) -> None:
    session = open_()
    await session.add_items([item(1)])
    await _close(session)


def time_first_get(folder: Path, name: str) -> None:
    """In a process of its own: prints the seconds of the first call."""
    open_ = openers_in(folder)[name]

    async def get() -> float:
        begin = time.perf_counter()
        await open_().get_items(NEWEST)
        return time.perf_counter() - begin

    print(asyncio.run(get()))


def _in_fresh_processes(folder: Path, times: int) -> list[tuple[float, str, float]]:
    """The medians of ours and of SQLiteSession."""
    found: dict[str, list[float]] = {OURS: [], "SQLiteSession": []}
    for _ in range(times):
        for name, seconds in found.items():
            program = f"from bench import agents; agents.time_first_get(agents.Path({str(folder)!r}), {name!r})"
            command = [sys.executable, "-c", program]
            seconds.append(float(subprocess.run(command, capture_output=True, check=True, text=True).stdout))
    ours, theirs = found.values()
    return [(statistics.median(ours), "SQLiteSession", statistics.median(theirs))]


class Raw:
    """The least that a durable append can be."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    async def add_items(self, items: list[Any]) -> None:
        """Appends about as many bytes as these items take."""
        await self._append(b"x" * _LINE_BYTES * len(items))

    async def pop_item(self) -> None:
        """Appends about as many as an `items_removed` takes."""
        await self._append(b"x" * _MARKER_BYTES)

    async def _append(self, data: bytes) -> None:
        def append() -> None:
            os.write(self._fd, data)
            os.fdatasync(self._fd)

        await asyncio.to_thread(append)

    def close(self) -> None:
        """Lets go of the file."""
        os.close(self._fd)


def _calls(size: int) -> dict[str, tuple[Call, int]]:
    """By case: the call, and how often it is made a run."""
    one, ten = [item(1)], [item(n) for n in range(10)]
    calls: dict[str, tuple[Call, int]] = {
        f"get {NEWEST} of {size:,}": (lambda session: session.get_items(NEWEST), 40),
    }
    if size > min(SIZES):
        calls[f"get all of {size:,}"] = (lambda session: session.get_items(), 40)
    if size == max(SIZES):
        calls["add 1, durable"] = (lambda session: session.add_items(one), 40)
        calls["add 10, durable"] = (lambda session: session.add_items(ten), 40)
    return {**calls, f"pop at {size:,}": (lambda session: session.pop_item(), 20)}


async def _measure(folder: Path, size: int, runs: int) -> list[Row]:
    openers = openers_in(folder)
    sessions = {name: open_() for name, open_ in openers.items()}
    raw = Raw(folder / "raw")
    try:
        for begin in range(0, size, _BATCH):
            items = [item(n) for n in range(begin, begin + _BATCH)]
            for session in sessions.values():
                await session.add_items(items)
        for session in sessions.values():
            await session.add_items([item(n) for n in range(10)])  # as a run adds them
        rows = await _time_cold(folder, openers, size, runs) if size == max(SIZES) else []
        for case, (call, times) in _calls(size).items():
            writes = not case.startswith("get")
            rows += await _time(case, call, {**sessions, RAW: raw} if writes else sessions, times * runs)
        return rows
    finally:
        raw.close()
        for session in sessions.values():
            await _close(session)


async def _time_cold(folder: Path, openers: dict[str, Any], size: int, runs: int) -> list[Row]:
    """Of the first call of a new object, and of a fresh process."""
    rows = await _time(f"cold {NEWEST} of {size:,}", _get_cold, openers, 20 * runs)
    for ours, name, theirs in _in_fresh_processes(folder, 2 * runs):
        rows.append(Row(f"first {NEWEST} of {size:,}, median", ours, name, theirs, None))
    return [*rows, *await _time("cold add 1, durable", _add_cold, openers, 20 * runs)]


async def _time(case: str, call: Call, sessions: dict[str, Any], times: int) -> list[Row]:
    """Two rows against the fastest, of the medians and of the minima; one against the raw append, if it is there."""
    medians, minima, raw = [], [], []
    for name, session in sessions.items():
        if name != OURS:
            ours, theirs = await _by_turns(call, sessions[OURS], session, times)
            median = statistics.median(ours), name, statistics.median(theirs)
            if name == RAW:
                raw = [median]
            else:
                medians.append(median)
                minima.append((min(ours), name, min(theirs)))
    found = [("median", _worst(medians)), ("min", _worst(minima)), *(("median", row) for row in raw)]
    return [Row(f"{case}, {what}", ours, name, theirs, None) for what, (ours, name, theirs) in found]


def _worst(found: list[tuple[float, str, float]]) -> tuple[float, str, float]:
    return max(found, key=lambda row: row[0] / row[2])


async def _by_turns(call: Call, ours: Any, theirs: Any, times: int) -> tuple[list[float], list[float]]:
    """The seconds of each call."""
    for session in (ours, theirs):
        await call(session)  # what is only done once, such as opening a file
    warm = [await _seconds(call, session) for session in (ours, theirs)]
    gc.collect()
    found: tuple[list[float], list[float]] = [], []
    for n in range(times):
        for seconds, session, first in zip(found, (ours, theirs), warm, strict=True):
            if first <= _SLOW_S or n % 8 == 0:
                seconds.append(await _seconds(call, session))
    return found


async def _seconds(call: Call, session: Any) -> float:
    begin = time.perf_counter()
    await call(session)
    return time.perf_counter() - begin
