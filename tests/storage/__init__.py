"""Builders for the tests of the storage layer: tiny lines, and the slow way to read them."""

from __future__ import annotations

import itertools
import json

import msgspec

from rollout.files.port import Holder
from rollout.files.recovery import incomplete_batch_start

ME = Holder(7, "here", "now")


def line(n: int, pad: str = "é") -> bytes:
    """A line that carries a number."""
    return json.dumps({"n": n, "pad": pad}, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def holds_record(data: bytes) -> bool:
    """Whether a reader finds a record in bytes without a newline."""
    return bool(_records(data))


def read(data: bytes) -> list[int]:
    """The numbers that a reader sees in a file."""
    ends = itertools.accumulate(len(found) + 1 for found in data.split(b"\n"))
    lines = [(end - len(found) - 1, found) for end, found in zip(ends, data.split(b"\n"), strict=True)]
    if not holds_record(lines[-1][1]):
        lines.pop()
    hidden_from = incomplete_batch_start(reversed(lines), holds_record)
    if hidden_from is not None:
        return read(data[:hidden_from])
    return [n for _, found in lines for n in _records(found)]


def _records(data: bytes) -> list[int]:
    found = []
    for piece in data.split(b"\0"):
        try:
            value = msgspec.json.decode(piece)
        except msgspec.DecodeError:
            continue
        if isinstance(value, dict):
            found.append(value["n"])
    return found
