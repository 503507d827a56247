"""The writing cases: appends against a raw loop of the same bytes, commits of many at once, and the making of a fork.

Lines are 400 bytes. The raw loop is `os.write` of such a line to a file that is open for appending, with an
`os.fdatasync` behind it where each record is to be on the disk. Everything is measured at `turn.append`, in one
process, by turns with what it is compared to; medians count. Where the directory is in memory a sync costs nothing,
so the figures for commits say nothing there.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

import rollout
from bench.read import Check
from bench.rollouts import MB, make
from rollout import Durability, SessionLog, Store, TurnContext
from rollout.dialects.codex.encoder import AnyItem
from rollout.session.turn import OpenTurn

LINE_BYTES: Final = 400
COMMITS: Final = 100
"""By each of those that commit at once."""
ITEMS_A_TURN: Final = 10
TASKS: Final = 16
SHARED_FACTOR: Final = 5.0
"""So many times the records a second of one."""
FORKED_MB: Final = 100
_CONTEXT: Final = TurnContext(model="m", cwd="/p")
_APPENDS: Final = (  # so many at once, so many times a run (what a disk takes drifts), the target
    (Durability.NONE, 2_000, 10, 6.0),
    (Durability.TURN, 50, 10, None),
    (Durability.RECORD, 25, 20, 1.3),
)
_BASELINES: Final = {
    Durability.NONE: "raw write",
    Durability.TURN: f"raw write, fdatasync after {ITEMS_A_TURN}",
    Durability.RECORD: "raw write + fdatasync",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """Seconds for one record (or fork), beside those of what it is compared to. `limit`: the target for the ratio."""

    case: str
    seconds: float
    baseline: str
    baseline_seconds: float
    limit: float | None

    @property
    def ratio(self) -> float:
        return self.seconds / self.baseline_seconds


def run(*, runs: int, folder: Path | None = None) -> Iterator[Row]:
    """Measure everything, in a directory of its own below `folder`."""
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        home = Path(temporary)
        yield from _measure_appends(home, runs)
        yield from _measure_commits(home, runs)
        yield _measure_fork(home, runs)


def check(rows: Iterable[Row]) -> Iterator[Check]:
    """Every target."""
    for row in rows:
        if row.limit is not None:
            yield Check(f"{row.case}: time / {row.baseline}", row.ratio, row.limit)


def item_for_line(log: SessionLog) -> bytes:
    """An item whose line in this log is of LINE_BYTES."""
    with log.turn(_CONTEXT) as turn:
        begin = log.end
        end = turn.append(_item(0))
    return _item(LINE_BYTES - (end - begin))


def _item(text_bytes: int) -> bytes:
    item = {"type": "function_call_output", "call_id": "call_8d2f1c40a97b", "output": "x" * text_bytes}
    return msgspec.json.encode(item)


def _measure_appends(home: Path, runs: int) -> Iterator[Row]:
    """In each durability an item as a mapping and as bytes, against the raw loop with as many syncs."""
    for durability, times, rounds, limit in _APPENDS:
        with _log(home, durability) as log:
            given = item_for_line(log)
            mapping = msgspec.json.decode(given)
            with contextlib.nullcontext() if durability is Durability.TURN else log.turn(_CONTEXT) as turn:
                work = partial(_take_turns, log) if turn is None else partial(_repeat, turn)
                raw, *others = _by_turns(
                    runs * rounds,
                    partial(_write_raw, home, times, durability),
                    partial(work, mapping, times),
                    partial(work, given, times),
                )
        for kind, seconds in zip(("mapping", "bytes"), others, strict=True):
            yield Row(f"append {kind}, {durability.name}", seconds / times, _BASELINES[durability], raw / times, limit)


def _measure_commits(home: Path, runs: int) -> Iterator[Row]:
    """Records on the disk by 16 threads and by 16 tasks, each waiting for its own, against those of one."""
    with _log(home, Durability.RECORD) as log:
        item = item_for_line(log)
        with log.turn(_CONTEXT) as turn:
            one, many = _by_turns(
                runs,
                partial(_repeat, turn, item, COMMITS),
                partial(_in_threads, partial(_repeat, turn, item, COMMITS)),
            )
        yield _shared("threads", one, many)
        one, many = _by_turns(
            runs, lambda: asyncio.run(_in_tasks(log, item, 1)), lambda: asyncio.run(_in_tasks(log, item, TASKS))
        )
        yield _shared("tasks", one, many)


def _shared(kind: str, one: float, many: float) -> Row:
    return Row(
        f"{TASKS} {kind} at once, RECORD",
        many / (COMMITS * TASKS),
        f"one of the {kind}",
        one / COMMITS,
        1 / SHARED_FACTOR,
    )


def _measure_fork(home: Path, runs: int) -> Row:
    """A fork that refers to a log of 100 MB, from its end; against 5 ms."""
    with _log(home, Durability.TURN) as log:
        path = log.path
    make(path, "near-end", FORKED_MB * MB)
    log = rollout.open_log(path, home=home)
    seconds = []
    with log:
        for _ in range(runs * 10):
            begin = time.perf_counter()
            child = log.fork()
            seconds.append(time.perf_counter() - begin)
            child.close()
    return Row(f"fork of {FORKED_MB} MB by reference", statistics.median(seconds), "5 ms", 0.005, 1.0)


def _log(home: Path, durability: Durability) -> SessionLog:
    return Store(home).create(cwd="/p", model_provider="bench", durability=durability)


def _by_turns(runs: int, *cases: Callable[[], None]) -> list[float]:
    """The median seconds of each."""
    seconds: list[list[float]] = [[] for _ in cases]
    for _ in range(runs):
        for case, of_case in zip(cases, seconds, strict=True):
            begin = time.perf_counter()
            case()
            of_case.append(time.perf_counter() - begin)
    return [statistics.median(of_case) for of_case in seconds]


def _take_turns(log: SessionLog, item: AnyItem, times: int) -> None:
    for _ in range(times // ITEMS_A_TURN):
        with log.turn(_CONTEXT) as turn:
            _repeat(turn, item, ITEMS_A_TURN)


def _repeat(turn: OpenTurn, item: AnyItem, times: int) -> None:
    append = turn.append
    for _ in range(times):
        append(item)


def _write_raw(home: Path, times: int, durability: Durability) -> None:
    line = b"x" * (LINE_BYTES - 1) + b"\n"
    fd = os.open(home / "raw", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    every = {Durability.NONE: times + 1, Durability.TURN: ITEMS_A_TURN, Durability.RECORD: 1}[durability]
    for n in range(1, times + 1):
        os.write(fd, line)
        if n % every == 0:
            os.fdatasync(fd)
    os.close(fd)


def _in_threads(work: Callable[[], None]) -> None:
    threads = [threading.Thread(target=work) for _ in range(TASKS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


async def _in_tasks(log: SessionLog, item: bytes, tasks: int) -> None:
    async with log.turn(_CONTEXT) as turn:

        async def append() -> None:
            for _ in range(COMMITS):
                await turn.append(item)

        await asyncio.gather(*(append() for _ in range(tasks)))
