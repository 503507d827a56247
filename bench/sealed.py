"""Reading a sealed rollout, against reading the plain one: what sealing costs a reader.

The cases are those of `read`, on a file that `Store.seal` has made and on the plain file that it has made it from, by
turns in one process.
"""

from __future__ import annotations

import dataclasses
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import rollout
from bench import read, rollouts
from bench.measure import Case, Read, measure
from bench.rollouts import MB

SIZES_MB: Final = (600,)
QUICK_SIZES_MB: Final = (100,)
LIMIT: Final = 3.0
"""A sealed rollout is to be read within so many times of what the plain one takes."""
_CASES: Final = ("reconstruct", "turns", "explain")
_OF_PLAIN: Final = " of plain"


def _on_plain(case: Case) -> Case:
    """`case` on the plain file that lies above the sealed one."""
    return lambda sealed: case(sealed.parent.parent / sealed.with_suffix("").name)


def nothing(path: Path) -> Read:
    """No baseline: each case has its own."""
    return Read(0)


BASELINE: Final[Case] = nothing
CASES: Final[dict[str, Callable[[Path], Read]]] = {
    **{case: read.CASES[case] for case in _CASES},
    **{case + _OF_PLAIN: _on_plain(read.CASES[case]) for case in _CASES},
}


def run(*, quick: bool, runs: int, folder: Path | None = None) -> Iterator[read.Row]:
    """Rows whose baseline is the same case on the plain file; of a rollout without a compaction."""
    for size_mb in QUICK_SIZES_MB if quick else SIZES_MB:
        with tempfile.TemporaryDirectory(dir=folder) as temporary:
            plain = Path(temporary, "none.jsonl")
            rollouts.make(plain, "none", size_mb * MB)
            (plain.parent / "sealed").mkdir()
            sealed = plain.parent / "sealed" / plain.name
            os.link(plain, sealed)
            found = measure(__name__, rollout.Store(temporary).seal(sealed).path, [*CASES], runs=runs)
            for case in _CASES:
                baseline_seconds = found[case + _OF_PLAIN].seconds
                measured = dataclasses.replace(found[case], baseline_seconds=baseline_seconds)
                yield read.Row(f"{case}/plain", "none", "sealed", size_mb * MB, LIMIT, None, measured)
