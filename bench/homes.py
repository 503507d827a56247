"""A home to measure lists and searches in: thousands of rollouts of the sizes that real users have.

Most are small, most bytes lie in few: sizes go from 5 KB to 2 MB, 100 KB on average. One in four of the larger ones
was compacted, one turn in fifty was taken back. The same number of rollouts gives the same bytes.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path
from typing import Final

from bench.rollouts import Scribe

ROLLOUTS: Final = 3_000
_SMALLEST_BYTES: Final = 5_000
_GREATEST_FACTOR: Final = 400
_SKEW: Final = 3.6
_COMPACTED_FROM_BYTES: Final = 200_000
_DAYS: Final = 300
_START: Final = 1_750_000_000
_META: Final = (
    b'{"timestamp":"%b","type":"session_meta","payload":{"id":"%b","timestamp":"%b","cwd":"/home/dev/%b",'
    b'"originator":"codex_cli_rs","cli_version":"0.117.0","source":"%b","model_provider":"openai",'
    b'"base_instructions":{"text":"You are a coding agent."},"git":{"branch":"%b"}}}\n'
)
_ROLLED_BACK: Final = b'{"timestamp":"%b","type":"event_msg","payload":{"type":"thread_rolled_back","num_turns":1}}\n'


def make(home: Path, rollouts: int = ROLLOUTS, seed: int = 1) -> int:
    """Write a home; how many bytes its rollouts have. They look as if they had been written an hour ago."""
    rng, scribe = random.Random(seed), Scribe(seed)
    total, hour_ago = 0, time.time() - 3600
    for n in range(rollouts):
        second = _START + n * (_DAYS * 86_400 // rollouts)
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        thread = f"{second:08x}-{n & 0xFFFF:04x}-7000-8000-{n:012d}"
        folder = home / "sessions" / time.strftime("%Y/%m/%d", time.gmtime(second))
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"rollout-{stamp.replace(':', '-')}-{thread}.jsonl"
        data = _log(rng, scribe, f"{stamp}.000Z".encode(), thread.encode())
        path.write_bytes(data)
        os.utime(path, (hour_ago, hour_ago))
        total += len(data)
    return total


def _log(rng: random.Random, scribe: Scribe, stamp: bytes, thread: bytes) -> bytes:
    size = _SMALLEST_BYTES * _GREATEST_FACTOR ** (rng.random() ** _SKEW)
    where, branch = rng.choice((b"api", b"web", b"tools")), rng.choice((b"main", b"fix/parser"))
    data = bytearray(_META % (stamp, thread, stamp, where, rng.choice((b"cli", b"vscode", b"exec")), branch))
    compacts = size > _COMPACTED_FROM_BYTES and rng.random() < 0.25
    while len(data) < size:
        if compacts and len(data) > size / 2:
            data += scribe.compaction()
            compacts = False
            continue
        for line in scribe.turn().splitlines(keepends=True):
            data += line
            if len(data) >= size:  # the end of a small rollout is in the middle of its first turn
                break
        if rng.random() < 0.02:
            data += _ROLLED_BACK % stamp
    return bytes(data)
