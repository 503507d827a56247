"""`python -m bench`: measure everything and print it; `--make SIZE KIND PATH`: only make a rollout.

A missed target is printed, not raised: figures depend on the machine that they are taken on. Exit code 0 either way.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TextIO, TypeVar

from bench import agents, crypto, export, growth, keep, peers, read, replay, rollouts, sealed, write
from bench.measure import run_child

_UNITS = {"K": 1_000, "M": 1_000_000, "G": 1_000_000_000}
_COLUMNS = {
    "case": 18,
    "rollout": 20,
    "size": 8,
    "time": 11,
    "ratio": 9,
    "limit": 7,
    "": 7,
    "bytes read": 15,
    "decoded": 10,
    "peak MB": 9,
}
_GROWTH_COLUMNS = {
    "shape": 34,
    "read": 14,
    "n": 8,
    "MB at 2n": 10,
    "ms at n": 11,
    "ms at 2n": 11,
    "growth": 8,
    "orjson": 8,
}
_WRITE_COLUMNS = {"case": 30, "against": 32, "per s": 10, "us": 12, "us there": 12, "ratio": 8, "limit": 7, "": 8}

R = TypeVar("R")


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0, or 2 for wrong usage."""
    options = _parse(arguments)
    if options.child:
        json.dump(run_child(json.load(sys.stdin)), sys.stdout)
        return 0
    if options.make:
        size, kind, path = options.make
        _make(_size_bytes(size), kind, Path(path), options.one_frame)
        return 0

    reading: list[read.Row] = []
    writing: list[write.Row] = []
    how = {"quick": options.quick, "runs": options.runs, "folder": options.dir}
    if options.part in ("all", "read"):
        rows = itertools.chain(read.run(**how), sealed.run(**how))
        reading = _show(rows, _COLUMNS, _cells, options.json)
    if options.part in ("all", "write"):
        writing = _show(write.run(runs=options.runs, folder=options.dir), _WRITE_COLUMNS, _write_cells, options.json)
    if options.part in ("all", "keep"):
        writing += _show(keep.run(**how), _WRITE_COLUMNS, _write_cells, options.json)
    if options.part in ("all", "crypto"):
        writing += _show(crypto.run(**how), _WRITE_COLUMNS, _write_cells, options.json)
    if options.part in ("all", "agents"):
        writing += _show(agents.run(**how), _WRITE_COLUMNS, _write_cells, options.json)
    if options.part in ("all", "replay"):
        writing += _show(replay.run(**how), _WRITE_COLUMNS, _write_cells, options.json)
    if options.part in ("all", "export"):
        reading += _show(export.run(**how), _COLUMNS, _cells, options.json)
    growths: list[growth.Growth] = []
    if options.part in ("all", "growth"):
        rows_of_growth = growth.run(quick=options.quick, folder=options.dir)
        growths = _show(rows_of_growth, _GROWTH_COLUMNS, _growth_cells, options.json)
    counted: list[peers.Counted] = []
    if options.part in ("all", "peers"):
        writing += _show(peers.run(**how, counted=counted), _WRITE_COLUMNS, _write_cells, options.json)
    checks = [*read.check(reading), *export.check(reading), *write.check(writing), *peers.check(counted)]
    if options.json:
        json.dump(
            {
                "rows": [_values(row) for row in reading],
                "growth": [{**dataclasses.asdict(row), "growth": row.growth} for row in growths],
                "writing": [{**dataclasses.asdict(row), "ratio": row.ratio} for row in writing],
                "targets": [_judged(check) for check in checks],
            },
            sys.stdout,
            indent=1,
        )
        print()
    else:
        _print_checks(checks)
    return 0


def _show(rows: Iterable[R], columns: dict[str, int], cells: Callable[[R], list[str]], silent: bool) -> list[R]:
    """The rows; unless `silent`, each is printed as soon as it is there."""
    widths = tuple(columns.values())
    if not silent:
        print_row(columns, widths)
    found = []
    for row in rows:
        found.append(row)
        if not silent:
            print_row(cells(row), widths)
    return found


def print_row(cells: Iterable[str], widths: Iterable[int], file: TextIO | None = None) -> None:
    """One line of the table, at once, so that a long run can be watched. The first two columns are texts."""
    line = "".join(
        cell.ljust(width) if at < 2 else cell.rjust(width)
        for at, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    print(line.rstrip(), file=file, flush=True)


def _verdict(ratio: float, limit: float | None) -> str:
    return "" if limit is None else "ok" if ratio < limit else "MISSED"


def _write_cells(row: write.Row) -> list[str]:
    return [
        row.case,
        row.baseline,
        f"{1 / row.seconds:,.0f}",
        f"{row.seconds * 1e6:,.1f}",
        f"{row.baseline_seconds * 1e6:,.1f}",
        f"{row.ratio:.3f}",
        "" if row.limit is None else f"{row.limit:g}",
        _verdict(row.ratio, row.limit),
    ]


def _growth_cells(row: growth.Growth) -> list[str]:
    return [
        row.shape,
        row.read,
        f"{row.n:,}",
        f"{row.size_bytes / 1e6:.1f}",
        f"{row.seconds * 1000:,.1f}",
        f"{row.doubled_seconds * 1000:,.1f}",
        f"{row.growth:.2f}",
        "" if row.baseline_seconds is None else f"{row.doubled_seconds / row.baseline_seconds:.1f}",
    ]


def _cells(row: read.Row) -> list[str]:
    measured = row.measured
    return [
        row.case,
        f"{row.kind} {row.form}",
        f"{row.size_bytes // 1_000_000} MB",
        f"{measured.seconds * 1000:.2f} ms",
        f"{measured.ratio:.4f}",
        "" if row.limit is None else f"{row.limit:g}",
        _verdict(measured.ratio, row.limit),
        "" if measured.read.bytes_read is None else f"{measured.read.bytes_read:,}",
        "" if measured.read.records_decoded is None else f"{measured.read.records_decoded:,}",
        f"{measured.peak_bytes / 1_000_000:.0f}",
    ]


def _values(row: read.Row) -> dict[str, Any]:
    measured = row.measured
    return {
        "case": row.case,
        "kind": row.kind,
        "form": row.form,
        "size_bytes": row.size_bytes,
        "seconds": measured.seconds,
        "baseline_seconds": measured.baseline_seconds,
        "ratio": measured.ratio,
        "limit": row.limit,
        "aim": row.aim,
        "results": measured.read.results,
        "bytes_read": measured.read.bytes_read,
        "records_decoded": measured.read.records_decoded,
        "peak_bytes": measured.peak_bytes,
    }


def _judged(check: read.Check) -> dict[str, Any]:
    return {"target": check.target, "value": check.value, "limit": check.limit, "met": check.is_met}


def _print_checks(checks: Sequence[read.Check]) -> None:
    print("\ntargets")
    for check in checks:
        print(f"  {'ok' if check.is_met else 'MISSED':8}{check.target:58}{check.value:9.4f}  < {check.limit:g}")


def _make(size_bytes: int, kind: rollouts.Kind, path: Path, one_frame: bool) -> None:
    """A path that ends in .zst is sealed."""
    if path.suffix != ".zst":
        rollouts.make(path, kind, size_bytes)
        return
    plain = path.with_suffix(".making")
    try:
        rollouts.make(plain, kind, size_bytes)
        rollouts.seal(plain, path, "one-frame" if one_frame else "frames")
    finally:
        plain.unlink(missing_ok=True)


def _size_bytes(text: str) -> int:
    number, unit = text.upper().removesuffix("B"), 1
    if number[-1:] in _UNITS:
        number, unit = number[:-1], _UNITS[number[-1]]
    return round(float(number) * unit)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Ratios against the plainest way to do it.")
    parts = ("all", "read", "write", "keep", "crypto", "agents", "replay", "export", "growth", "peers")
    parser.add_argument("part", nargs="?", choices=parts, default="all", help="what to measure")
    parser.add_argument("--quick", action="store_true", help="10 and 100 MB only")
    parser.add_argument("--runs", type=int, default=5, help="runs of which the median counts (default 5)")
    parser.add_argument("--json", action="store_true", help="everything as JSON")
    parser.add_argument("--dir", type=Path, help="where rollouts are made and removed again (2 GB; default: temporary)")
    parser.add_argument(
        "--make", nargs=3, metavar=("SIZE", "KIND", "PATH"), help=f"100M, one of {', '.join(rollouts.KINDS)}"
    )
    parser.add_argument("--one-frame", action="store_true", help="with --make PATH.zst: one frame, not one a MiB")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.make:
        try:
            _size_bytes(options.make[0])
        except ValueError:
            parser.error(f"not a size: {options.make[0]!r}; say 10M, 100M or 600M")
        if options.make[1] not in rollouts.KINDS:
            parser.error(f"not a kind: {options.make[1]!r}; one of {', '.join(rollouts.KINDS)}")
    return options


if __name__ == "__main__":
    sys.exit(main())
