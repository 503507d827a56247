"""The first screen of a replay: a process is started on a terminal, and timed until the screen is drawn.

The case that costs most to read whole: a rollout without a compaction. The last screen is drawn on a key, in the same
process. Python's start and the imports are in the first figure.
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import statistics
import struct
import sys
import tempfile
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bench import rollouts
from bench.rollouts import MB
from bench.write import Row

SIZE_MB, QUICK_SIZE_MB = 600, 10
FIRST_SCREEN_SECONDS: Final = 0.300
LAST_SCREEN_SECONDS: Final = 0.100
_COLUMNS, _ROWS = 120, 40
_DRAWN: Final = b"q quit"  # the last words of a whole screen
_PATIENCE_SECONDS: Final = 60


def run(*, quick: bool, runs: int, folder: Path | None = None) -> Iterator[Row]:
    """Measure on a rollout that is made in `folder` and gone afterwards."""
    size_mb = QUICK_SIZE_MB if quick else SIZE_MB
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        path = Path(temporary, "rollout.jsonl")
        rollouts.make(path, "none", size_mb * MB)
        draw(path)  # what is compiled once is
        drawn = [draw(path) for _ in range(max(runs, 3))]
    first, last = (statistics.median(times) for times in zip(*drawn, strict=True))
    yield Row(f"replay {size_mb} MB, first screen", first, "300 ms", FIRST_SCREEN_SECONDS, 1.0)
    yield Row(f"replay {size_mb} MB, to the last", last, "100 ms", LAST_SCREEN_SECONDS, 1.0)


def draw(path: Path) -> tuple[float, float]:
    """Seconds until the first screen of a replay is there, and from there to the last."""
    begun = time.perf_counter()
    child, terminal = pty.fork()
    if child == 0:
        compiled = {"PYTHONPYCACHEPREFIX": str(path.parent), "PYTHONDONTWRITEBYTECODE": ""}  # as an installed one is
        env = os.environ | compiled | {"TERM": "xterm-256color"}
        os.execve(sys.executable, [sys.executable, "-m", "rollout_cli", "replay", str(path)], env)
    try:
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, _COLUMNS, 0, 0))
        _read_until(terminal, _DRAWN)
        first = time.perf_counter()
        os.write(terminal, b"G")
        _read_until(terminal, b"100 %")
        return first - begun, time.perf_counter() - first
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(terminal)


def _read_until(terminal: int, wanted: bytes) -> None:
    seen, until = b"", time.monotonic() + _PATIENCE_SECONDS
    while wanted not in seen:
        if not select.select([terminal], [], [], max(0.0, until - time.monotonic()))[0]:
            raise TimeoutError(f"{wanted!r} was not drawn")
        seen += os.read(terminal, 65536)
