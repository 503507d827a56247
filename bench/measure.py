"""Time as a ratio, and memory of a process of its own.

A case is a function from a path to what it read; a baseline is one too. Both run in one fresh child process, by turns,
over a file that is in the cache of the operating system: the ratio of their medians holds on any machine.
Peak memory is that of another child that runs the case once and nothing else.
"""

from __future__ import annotations

import dataclasses
import gc
import importlib
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
_QUICK_SECONDS = 0.2
"""A case that takes less than this is run again within its turn, up to `_QUICK_RUNS` times: its noise is larger."""
_QUICK_RUNS = 9


@dataclasses.dataclass(frozen=True, slots=True)
class Read:
    """What a case read: bytes and decoded records (None: the case does not say), and how many `results` came of it."""

    results: int
    bytes_read: int | None = None
    records_decoded: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Measured:
    """Medians in seconds, peak in bytes. `baseline_seconds` comes from the same run."""

    seconds: float
    baseline_seconds: float
    peak_bytes: int
    read: Read

    @property
    def ratio(self) -> float:
        return self.seconds / self.baseline_seconds


Case = Callable[[Path], Read]


def measure(module: str, path: Path, cases: Sequence[str], *, runs: int) -> dict[str, Measured]:
    """Measure `cases`, keys of `module.CASES`, over the file at `path` against `module.BASELINE`."""
    timed = _child({"module": module, "path": str(path), "cases": list(cases), "runs": runs})
    result = {}
    for case in cases:
        peak = _child({"module": module, "path": str(path), "cases": [case], "runs": 0})
        result[case] = Measured(
            seconds=statistics.median(timed["seconds"][case]),
            baseline_seconds=statistics.median(timed["baseline"]),
            peak_bytes=peak["peak_bytes"],
            read=Read(**timed["read"][case]),
        )
    return result


def run_program(arguments: Sequence[str], command: Sequence[str] = (), **more: str) -> str:
    """What a program prints (ours, unless its `command` is given), run as it is installed: its modules kept compiled.

    `more` are variables of its environment.
    """
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"} | more
    if not command:
        paths = (str(ROOT), str(ROOT / "cli"), environment.get("PYTHONPATH", ""))
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    started = [*(command or (sys.executable, "-m", "rollout_cli")), *arguments]
    return subprocess.run(started, env=environment, capture_output=True, text=True, check=True).stdout


def peak_bytes() -> int:
    """Most memory that this process has held since it began to run this program.

    On Linux `ru_maxrss` remembers the process that started this one, even across exec; VmHWM does not.
    """
    status = Path("/proc/self/status")
    if status.exists():
        return next(
            int(line.split()[1]) * 1024 for line in status.read_text().splitlines() if line.startswith("VmHWM:")
        )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def run_child(task: dict[str, Any]) -> dict[str, Any]:
    """In the child: time the cases by turns with the baseline, or (0 runs) run one case for its memory alone."""
    module = importlib.import_module(task["module"])
    path, cases = Path(task["path"]), task["cases"]
    if task["runs"] == 0:
        for case in cases:
            module.CASES[case](path)
        return {"peak_bytes": peak_bytes()}
    with path.open("rb", buffering=0) as file:  # warm
        while file.read(1 << 20):
            pass
    baseline: list[float] = []
    seconds: dict[str, list[float]] = {case: [] for case in cases}
    read: dict[str, Any] = {}
    for _ in range(task["runs"]):
        baseline.append(_time(module.BASELINE, path)[0])
        for case in cases:
            took, what = _time(module.CASES[case], path)
            seconds[case].append(took)
            read[case] = dataclasses.asdict(what)
            for _ in range(_QUICK_RUNS if took < _QUICK_SECONDS / _QUICK_RUNS else 0):
                seconds[case].append(_time(module.CASES[case], path)[0])
    return {"baseline": baseline, "seconds": seconds, "read": read}


def _time(case: Case, path: Path) -> tuple[float, Read]:
    gc.collect()
    start = time.perf_counter()
    read = case(path)
    return time.perf_counter() - start, read


def _child(task: dict[str, Any]) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "bench", "--child"],
        input=json.dumps(task),
        stdout=subprocess.PIPE,
        cwd=ROOT,
        text=True,
        check=True,
    )
    result: dict[str, Any] = json.loads(done.stdout)
    return result
