"""Other people's programs over the same files, as whole processes, where they are installed.

`ccusage codex daily` adds up the tokens of a home as `rollout stats` does; `ais json` (ai-code-sessions) writes a
session as pages of HTML as `rollout export` does, and looks for no secrets. Each is looked for on PATH, or is the
command in $BENCH_CCUSAGE and $BENCH_AIS; one that is not there is left out with a notice. The numbers of tokens that
both print have to be the same over a home without forks, compactions that ask a model, or crashes (see README).
"""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from bench import homes, rollouts
from bench.keep import QUICK_ROLLOUTS
from bench.measure import run_program
from bench.read import Check
from bench.rollouts import MB
from bench.write import Row
from rollout.home.index.database import NAME

SIZE_MB: Final = 100
QUICK_MB: Final = 10
_PEER_RUNS: Final = 3
"""At most: a peer may take a minute a run."""
_TOKENS: Final = "tokens that ccusage counts otherwise, of"


@dataclasses.dataclass(frozen=True, slots=True)
class Peer:
    """Somebody else's program: its command, and how it is asked."""

    name: str
    package: str
    asked: tuple[str, ...]

    @property
    def command(self) -> list[str] | None:
        """How to start it; None (and a notice) if it is not installed."""
        own = os.environ.get(f"BENCH_{self.name.upper()}") or shutil.which(self.name)
        if own is None:
            print(f"bench: {self.name} is not on PATH, left out ({self.package})", file=sys.stderr)
            return None
        return [*shlex.split(own), *self.asked]


CCUSAGE: Final = Peer("ccusage", "npm install ccusage", ("codex", "daily", "--json", "--offline"))
AIS: Final = Peer("ais", "pip install ai-code-sessions", ("json",))


@dataclasses.dataclass(frozen=True, slots=True)
class Counted:
    """What the two said of one home: tokens in all."""

    files: int
    ours: int
    theirs: int


def run(*, quick: bool, runs: int, folder: Path | None = None, counted: list[Counted] | None = None) -> Iterator[Row]:
    """Measure against the peers that are there; what they and we have counted is added to `counted`."""
    times = min(runs, _PEER_RUNS)
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        if (command := CCUSAGE.command) is not None:
            yield from _add_up(Path(temporary, "home"), command, times, quick, [] if counted is None else counted)
        if (command := AIS.command) is not None:
            yield from _write_pages(Path(temporary), command, times, QUICK_MB if quick else SIZE_MB)


def check(counted: Iterable[Counted]) -> Iterator[Check]:
    """Both have counted the same."""
    for each in counted:
        yield Check(f"{_TOKENS} {each.ours:,} in {each.files:,} rollouts", abs(each.ours - each.theirs), 1)


def _add_up(home: Path, command: list[str], times: int, quick: bool, counted: list[Counted]) -> Iterator[Row]:
    files = QUICK_ROLLOUTS if quick else homes.ROLLOUTS
    homes.make(home, files)
    ours = partial(run_program, ["stats", "--json", "--home", str(home)])
    theirs = partial(run_program, (), command, CODEX_HOME=str(home))
    counted.append(Counted(files, _ours(ours()), _theirs(theirs())))
    peer_seconds = _median(theirs, times)

    def start_anew() -> None:
        (home / NAME).unlink()
        ours()

    for case, act in (("cold", start_anew), ("warm", ours)):
        yield Row(f"stats of {files}, {case}", _median(act, times), "ccusage codex daily", peer_seconds, None)


def _write_pages(folder: Path, command: list[str], times: int, size_mb: int) -> Iterator[Row]:
    source, target = folder / "none.jsonl", folder / "exported"
    rollouts.make(source, "none", size_mb * MB)
    ours = partial(run_program, ["export", str(source), "--force", "--output", f"{target}.html"])
    theirs = partial(run_program, [str(source), "--output", str(target)], command)
    seconds, peer_seconds = _median(ours, times), _median(theirs, times)
    yield Row(f"export of {size_mb} MB to html", seconds, "ais json", peer_seconds, None)


def _ours(said: str) -> int:
    total: int = json.loads(said)["spent"]["total_tokens"]
    return total


def _theirs(said: str) -> int:
    told: dict[str, Any] = json.loads(said)
    return int(told["totals"]["totalTokens"])


def _median(act: Callable[[], object], times: int) -> float:
    seconds = []
    for _ in range(times):
        begin = time.perf_counter()
        act()
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds)
