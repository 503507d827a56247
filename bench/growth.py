"""How time grows where the input doubles, on the shapes that are hard on a reader (`tests/shapes.py`).

Each shape is made with n and with 2n repetitions. The time of a read is the processor's in the shortest of some runs;
beside it stands that of `orjson.loads` on every line of the same bytes. The tests count steps of the same reads; here
what a step costs shows too, a copy of all that was there before, say.
"""

from __future__ import annotations

import dataclasses
import gc
import os
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import orjson

import rollout
from rollout.store import Store
from tests import shapes

N: Final = 2_000
_HOMES: Final = 200
_RUNS: Final = 3
_ALL: Final = 100_000
_LONG_AGO: Final = 1_700_000_000
READS: Final[dict[str, Callable[[Path], object]]] = {
    "reconstruct": rollout.reconstruct,
    "turns": rollout.turns,
    "explain": lambda path: deque(rollout.explain(path), maxlen=0),
    "verify": rollout.verify,
}


@dataclasses.dataclass(frozen=True, slots=True)
class Growth:
    """What a read of a shape takes at `n` and at `2 * n`; `baseline_seconds` is of orjson at 2n, None of a home."""

    shape: str
    read: str
    n: int
    size_bytes: int
    seconds: float
    doubled_seconds: float
    baseline_seconds: float | None

    @property
    def growth(self) -> float:
        """2 where the time follows the size."""
        return self.doubled_seconds / self.seconds


def run(*, quick: bool, folder: Path | None = None) -> Iterator[Growth]:
    """Each shape in each way; with `quick` a tenth of it."""
    n = N // 10 if quick else N
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        once, twice = Path(temporary, "once.jsonl"), Path(temporary, "twice.jsonl")
        for name, shape in shapes.LOGS.items():
            once.write_bytes(shape(n))
            twice.write_bytes(shape(2 * n))
            baseline = _shortest(_parse, twice)
            for read, work in READS.items():
                first, second = _shortest(work, once), _shortest(work, twice)
                yield Growth(name, read, n, twice.stat().st_size, first, second, baseline)
        for name, make in shapes.HOMES.items():
            yield from _of_home(name, make, _HOMES // 10 if quick else _HOMES, Path(temporary, name))


def _of_home(name: str, make: Callable[[Path, int], None], n: int, folder: Path) -> Iterator[Growth]:
    """The first list of a home, and the second, for which the index is there."""
    times = []
    for count in (n, 2 * n):
        make(folder / str(count), count)
        for path in (folder / str(count)).rglob("*.jsonl"):
            os.utime(path, (_LONG_AGO, _LONG_AGO))  # the index need not ask whether it has just changed
        times.append([_time(_list, folder / str(count)) for _ in range(2)])
    size = sum(path.stat().st_size for path in (folder / str(2 * n)).rglob("*.jsonl"))
    for k, read in enumerate(("first list", "list")):
        yield Growth(name, read, n, size, times[0][k], times[1][k], None)


def _list(home: Path) -> object:
    return Store(home).list(limit=_ALL, forks=True)


def _parse(path: Path) -> None:
    for line in path.read_bytes().split(b"\n"):
        try:
            orjson.loads(line)
        except orjson.JSONDecodeError:
            continue


def _shortest(work: Callable[[Path], object], path: Path) -> float:
    return min(_time(work, path) for _ in range(_RUNS))


def _time(work: Callable[[Path], object], path: Path) -> float:
    gc.collect()
    start = time.process_time()
    work(path)
    return time.process_time() - start
