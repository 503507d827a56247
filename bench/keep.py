"""Lists of a home of 3,000 rollouts and searches in it, against reading the same files and doing nothing with them.

The baseline reads every file in blocks of 1 MiB, in the same process, by turns with the case: what `cat` to nowhere
costs; where ripgrep is installed, it searches the same files as well. Cold means without an index; the files are in
the cache of the operating system in all cases. A word that nobody said makes a search look at everything.
"""

from __future__ import annotations

import resource
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from bench import homes
from bench.measure import run_program
from bench.read import Check
from bench.write import Row
from rollout import Store
from rollout.home.index.database import NAME

READ: Final = "reading all files"
QUICK_ROLLOUTS: Final = 300
PAGE: Final = 20
COMMON: Final = "parser"
ABSENT: Final = "zugzwang"
PAGE_SECONDS: Final = 0.030
STATS_SECONDS: Final = 0.200
_WARM_RUNS: Final = 20
_ALL: Final = 1_000_000


def run(*, quick: bool, runs: int, folder: Path | None = None) -> Iterator[Row]:
    """Measure everything over a home that is made in `folder` and gone afterwards."""
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        home = Path(temporary)
        count = QUICK_ROLLOUTS if quick else homes.ROLLOUTS
        homes.make(home, count)
        read_all(home)
        baseline_seconds = _median(partial(read_all, home), runs)
        for case, seconds in (*_measure(home, runs), *_measure_search(home, runs)):
            yield Row(f"{case} ({count} rollouts)", seconds, READ, baseline_seconds, None)
        seconds = _median(partial(list_rows, home, PAGE), _WARM_RUNS)
        yield Row(f"list of {PAGE}, warm", seconds, "30 ms", PAGE_SECONDS, 1.0)
        seconds = _median(partial(add_up, home), _WARM_RUNS)
        yield Row(f"stats of {count}, warm", seconds, "200 ms", STATS_SECONDS, 1.0)
        seconds = statistics.median(_user_seconds(home) for _ in range(_WARM_RUNS))
        yield Row(f"rollout stats, {count}, warm", seconds, "200 ms of user time", STATS_SECONDS, 1.0)


def _measure(home: Path, runs: int) -> Iterator[tuple[str, float]]:
    cold = []
    for _ in range(max(1, runs // 2)):
        (home / NAME).unlink(missing_ok=True)
        cold.append(_median(partial(list_rows, home), 1))
    yield "list, cold", statistics.median(cold)
    yield "list, warm", _median(partial(list_rows, home), runs)


def _measure_search(home: Path, runs: int) -> Iterator[tuple[str, float]]:
    for what, query in (("a common word", COMMON), ("a word that nobody said", ABSENT)):
        (home / NAME).unlink(missing_ok=True)
        yield f"search for {what}, cold", _median(partial(search, home, query), 1)
    for what, query in (("a common word", COMMON), ("a word that nobody said", ABSENT)):
        yield f"search for {what}, warm", _median(partial(search, home, query), runs)
        if shutil.which("rg") is not None:
            yield f"rg --count for {what}", _median(partial(_ripgrep, home, query), runs)


def check(rows: Iterable[Row]) -> Iterator[Check]:
    """Every target that `rows` say something about."""
    for row in rows:
        if row.limit is not None:
            yield Check(f"{row.case} / {row.baseline}", row.ratio, row.limit)


def read_all(home: Path) -> int:
    """The baseline: bytes read."""
    total = 0
    for path in home.rglob("*.jsonl"):
        with path.open("rb", buffering=0) as file:
            while block := file.read(1 << 20):
                total += len(block)
    return total


def list_rows(home: Path, limit: int = _ALL) -> int:
    """Rows of a list."""
    return len(Store(home).list(limit=limit))


def add_up(home: Path) -> int:
    """Sessions that were added up."""
    return Store(home).stats().sessions


def _user_seconds(home: Path) -> float:
    """User time of the command as a whole, from the start of Python to its end, its modules compiled."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run_program(["stats", "--json", "--home", str(home)])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime


def search(home: Path, query: str) -> int:
    """Hits on the first page."""
    return len(Store(home).search(query, limit=PAGE))


def _ripgrep(home: Path, word: str) -> int:
    command = ["rg", "--count", "--ignore-case", "--word-regexp", word, str(home / "sessions")]
    return len(subprocess.run(command, check=False, capture_output=True).stdout.splitlines())


def _median(case: Callable[[], int], runs: int) -> float:
    seconds = []
    for _ in range(runs):
        begin = time.perf_counter()
        case()
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds)
