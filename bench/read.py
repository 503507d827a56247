"""The reading cases: what each does, on which rollouts it is measured, what it has to reach.

The baseline is `orjson.loads` on every line of the same file, unpacked on the way where it is sealed: what a program
does that reads a rollout in the plainest way.
"""

from __future__ import annotations

import dataclasses
import io
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Final

import orjson
import zstandard

import rollout
from bench import rollouts
from bench.measure import Case, Measured, Read, measure
from bench.rollouts import MB, Form, Kind

SIZES_MB: Final = (10, 100, 600)
QUICK_SIZES_MB: Final = (10, 100)
SAME_TIME_FACTOR: Final = 1.5
"""What still counts as the same time: two files, two processes, milliseconds."""


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One case on one rollout. `limit` is the greatest ratio allowed, `aim` a smaller one that is wished for."""

    case: str
    kind: Kind
    form: Form
    size_bytes: int
    limit: float | None
    aim: float | None
    measured: Measured


@dataclasses.dataclass(frozen=True, slots=True)
class Check:
    """A target and what came of it."""

    target: str
    value: float
    limit: float

    @property
    def is_met(self) -> bool:
        return self.value < self.limit


def parse_lines(path: Path) -> Read:
    """The baseline."""
    count = 0
    with path.open("rb") as file:
        for line in _unpack(file, path):
            orjson.loads(line)
            count += 1
    return Read(count)


def reconstruct(path: Path) -> Read:
    """The state; items stay undecoded."""
    state = rollout.reconstruct(path)
    return Read(len(state.history), state.bytes_read, state.records_decoded)


def decode_history(path: Path) -> Read:
    """Reconstruct and decode every item of the history."""
    state = rollout.reconstruct(path)
    return Read(_count(state.history), state.bytes_read, state.records_decoded)


def list_turns(path: Path) -> Read:
    """All turns."""
    return Read(len(rollout.turns(path)))


def explain(path: Path) -> Read:
    """Why each line is or is not seen."""
    return Read(_count(rollout.explain(path)))


def read_records(path: Path) -> Read:
    """Every record, forward."""
    return Read(_count(rollout.records(path)))


def verify(path: Path) -> Read:
    """All damage."""
    return Read(rollout.verify(path).lines)


BASELINE: Final[Case] = parse_lines
CASES: Final[dict[str, Case]] = {
    "reconstruct": reconstruct,
    "history": decode_history,
    "turns": list_turns,
    "explain": explain,
    "records": read_records,
    "verify": verify,
}

PLAN: Final[tuple[tuple[Kind, Form, tuple[str, ...]], ...]] = (
    ("near-end", "plain", ("reconstruct", "history", "turns", "explain")),
    ("none", "plain", ("reconstruct", "history", "turns", "explain", "records", "verify")),
    ("many", "plain", ("reconstruct", "turns", "explain")),
    ("near-end", "frames", ("reconstruct",)),
    ("none", "frames", ("reconstruct", "explain")),
    ("near-end", "one-frame", ("reconstruct",)),
)


def run(*, quick: bool, runs: int, folder: Path | None = None) -> Iterator[Row]:
    """Measure everything, smallest first. Rollouts are made in `folder`, one at a time, and are gone afterwards."""
    for size_mb in QUICK_SIZES_MB if quick else SIZES_MB:
        for kind in rollouts.KINDS:
            with tempfile.TemporaryDirectory(dir=folder) as temporary:
                plain = Path(temporary, f"{kind}.jsonl")
                rollouts.make(plain, kind, size_mb * MB)
                for _, form, cases in (entry for entry in PLAN if entry[0] == kind):
                    yield from _measure(plain, kind, form, size_mb * MB, cases=cases, runs=runs)


def _measure(
    plain: Path, kind: Kind, form: Form, size_bytes: int, *, cases: tuple[str, ...], runs: int
) -> Iterator[Row]:
    path = plain
    if form != "plain":
        path = plain.with_suffix(f".{form}.jsonl.zst")
        rollouts.seal(plain, path, form)
    for case, measured in measure(__name__, path, cases, runs=runs).items():
        limit, aim = limit_of(case, kind, form, size_bytes)
        yield Row(case, kind, form, size_bytes, limit, aim, measured)
    if form != "plain":
        path.unlink()


def limit_of(case: str, kind: Kind, form: Form, size_bytes: int) -> tuple[float | None, float | None]:
    """The greatest ratio that is allowed, and the one that is aimed at."""
    if case in ("turns", "explain"):
        return 2.5, None
    if case == "reconstruct" and form == "plain":
        if kind == "none":
            return 1.2, 0.9
        if kind == "near-end" and size_bytes >= 100 * MB:
            return 0.02, None
    return None, None


def check(rows: Iterable[Row]) -> Iterator[Check]:
    """Every target that `rows` say something about."""
    times: dict[int, float] = {}
    for row in rows:
        name = f"{row.case}, {row.kind}, {row.form}, {row.size_bytes // MB} MB"
        if row.limit is not None:
            yield Check(f"{name}: ratio", row.measured.ratio, row.limit)
        if row.aim is not None:
            yield Check(f"{name}: ratio aimed at", row.measured.ratio, row.aim)
        if (row.case, row.kind, row.form) == ("reconstruct", "near-end", "plain"):
            times[row.size_bytes] = row.measured.seconds
    if {100 * MB, 600 * MB} <= times.keys():
        yield Check(
            "reconstruct, near-end: time at 600 MB / at 100 MB", times[600 * MB] / times[100 * MB], SAME_TIME_FACTOR
        )


def _unpack(file: BinaryIO, path: Path) -> Iterable[bytes]:
    if path.suffix != ".zst":
        return file
    reader = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
    return io.BufferedReader(reader, buffer_size=1 << 20)


def _count(items: Iterable[object]) -> int:
    return sum(1 for _ in items)
