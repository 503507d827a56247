"""Real signals at random times, over all operations: with ROLLOUT_CRASH=1 (`just interrupts`) 20,000, else a few."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import rollout
from rollout import Cipher
from tests.interrupting import check_lines

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the signals of POSIX systems")
ROOT = Path(__file__).parent.parent
RUNS = (
    [(kind, 2_000, seed) for kind, seeds in (("plain", 4), ("encrypted", 4), ("session", 2)) for seed in range(seeds)]
    if "ROLLOUT_CRASH" in os.environ
    else [("plain", 120, 0), ("encrypted", 120, 0), ("session", 60, 0)]
)


def signalled(kind: str, home: Path, signals: int, seed: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.signalled", kind, home, signals, seed]
    done = subprocess.run([*map(str, command)], cwd=ROOT, capture_output=True, timeout=1800, check=False)
    assert done.returncode == 0, done.stderr.decode()
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["others"] == []
    assert sum(found["raised"].values()) >= signals
    return found


@pytest.mark.parametrize(("kind", "signals", "seed"), RUNS)
def test_signals_at_any_time_lose_nothing_and_hang_nobody(kind: str, signals: int, seed: int, tmp_path: Path) -> None:
    home = tmp_path / "home"
    found = signalled(kind, home, signals, seed)
    if kind == "session":
        words = [text for text in found["items"] if text.startswith("word-")]
        assert len(words) == len(set(words)) == len(found["items"])
        assert set(found["told"]) <= set(words) <= set(found["asked"])
        return
    cipher = Cipher.from_file(home.with_suffix(".keys")) if kind == "encrypted" else None
    assert found["beside"] > 0
    for path in home.rglob("rollout-*.jsonl"):
        if path == Path(found["path"]):
            check_lines(path, cipher, found["told"], found["asked"])
        else:
            check_lines(path, cipher, [], [])
    if cipher is not None:
        store, count = rollout.Store(home, cipher=cipher), len(list(rollout.records(found["path"], cipher=cipher)))
        store.decrypt(found["path"])
        store.rekey(found["path"])
        assert len(list(rollout.records(found["path"], cipher=cipher))) == count
