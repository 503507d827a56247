"""Encrypted logs against plain ones of the same records: what reading and appending cost, by turns in one process.

The figures are ratios of medians: reading a log of some 15 MB backward and whole, and appending records without syncs
(what a sync costs, both pay). An encrypted log is half as large again, and each line is opened on the way.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

import rollout
from bench.write import Row
from rollout import Cipher, Durability, Store

PLAIN: Final = "the same of a plain log"
TURNS, QUICK_TURNS = 6_000, 600
APPENDS: Final = 2_000
_KEY: Final = b"k" * 32


def run(*, quick: bool, runs: int, folder: Path | None = None) -> Iterator[Row]:
    """Measure everything over logs that are made in `folder` and gone afterwards."""
    cipher = Cipher({"bench": _KEY}, "bench")
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        paths = [make(Path(temporary) / name, keys, QUICK_TURNS if quick else TURNS) for name, keys in _homes(cipher)]
        cases: tuple[tuple[str, Callable[[Path, Cipher | None], object]], ...] = (
            ("reconstruct, encrypted", lambda path, keys: rollout.reconstruct(path, cipher=keys)),
            ("turns, encrypted", lambda path, keys: rollout.turns(path, cipher=keys)),
            ("append, encrypted", append),
        )
        for case, work in cases:
            plain, secret = [], []
            for _ in range(max(1, runs)):
                plain.append(_seconds(partial(work, paths[0], None)))
                secret.append(_seconds(partial(work, paths[1], cipher)))
            yield Row(case, statistics.median(secret), PLAIN, statistics.median(plain), None)


def _homes(cipher: Cipher) -> tuple[tuple[str, Cipher | None], ...]:
    return ("plain", None), ("secret", cipher)


ANSWER = {"type": "output_text", "text": "a" * 1500}


def make(home: Path, cipher: Cipher | None, turns: int) -> Path:
    """A log of so many turns of two messages each."""
    with Store(home, cipher=cipher).create(cwd="/p", model_provider="bench", durability=Durability.NONE) as log:
        for i in range(turns):
            with log.turn({"model": "m"}) as turn:
                turn.user(f"question {i} " + "q" * 300)
                turn.append({"type": "message", "role": "assistant", "content": [ANSWER]})
    return log.path


def append(path: Path, cipher: Cipher | None) -> int:
    """So many records at the end of a log."""
    with rollout.open_log(path, durability=Durability.NONE, cipher=cipher) as log:
        for i in range(APPENDS):
            log.event("note", n=i, text="x" * 500)
    return APPENDS


def _seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin
