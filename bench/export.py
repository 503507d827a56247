"""Exporting a rollout, by the command line's own code, into a file that is gone afterwards.

The baseline of `html` is the time that 20 MB/s would take; of the others nothing is asked. Secrets are looked for in
all of them. Peak memory is that of a process that does nothing else.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from rollout_cli.app import run as run_program

from bench import rollouts
from bench.measure import Case, Read, measure
from bench.read import Check, Row, parse_lines
from bench.rollouts import MB

SIZE_MB: Final = 100
BYTES_PER_S: Final = 20 * MB
PEAK_BYTES: Final = 150 * MB
_NAME: Final = "export to "


def export(form: str, path: Path) -> Read:
    """How many bytes were written."""
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        target = Path(folder, "exported")
        with contextlib.redirect_stderr(io.StringIO()):
            code = run_program(["export", str(path), "--format", form, "--output", str(target)])
        if code != 0:
            raise RuntimeError(f"export ended with {code}")
        return Read(target.stat().st_size)


BASELINE: Final[Case] = parse_lines
CASES: Final[dict[str, Callable[[Path], Read]]] = {
    _NAME + form: partial(export, form) for form in ("html", "md", "json", "jsonl")
}


def run(*, quick: bool, runs: int, folder: Path | None = None) -> Iterator[Row]:
    """Measure each form on one rollout of 100 MB, of which everything is in the history."""
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        path = Path(temporary, "none.jsonl")
        rollouts.make(path, "none", SIZE_MB * MB)
        cases = [_NAME + "html"] if quick else [*CASES]
        for case, measured in measure(__name__, path, cases, runs=runs).items():
            is_page = case == _NAME + "html"
            if is_page:
                measured = dataclasses.replace(measured, baseline_seconds=SIZE_MB * MB / BYTES_PER_S)  # noqa: PLW2901
            yield Row(case, "none", "plain", SIZE_MB * MB, 1.0 if is_page else None, None, measured)


def check(rows: Iterable[Row]) -> Iterator[Check]:
    """The memory that it may take."""
    for row in rows:
        if row.case == _NAME + "html":
            yield Check(f"{row.case}, {SIZE_MB} MB: peak in MB", row.measured.peak_bytes / MB, PEAK_BYTES / MB)
