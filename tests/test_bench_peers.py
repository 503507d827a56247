"""The bench beside other people's programs: what is not installed is left out, what they count is compared."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from bench import peers
from bench.peers import Counted


def test_peers_that_are_not_installed_are_left_out_with_a_notice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("BENCH_CCUSAGE", raising=False)
    monkeypatch.delenv("BENCH_AIS", raising=False)
    assert list(peers.run(quick=True, runs=1, folder=tmp_path)) == []
    assert [line.split()[1] for line in capsys.readouterr().err.splitlines()] == ["ccusage", "ais"]


def test_a_peer_is_asked_over_the_same_home_and_its_tokens_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "peer.py"
    program.write_text(f"print({json.dumps({'totals': {'totalTokens': 7}})!r})")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("BENCH_CCUSAGE", f"{sys.executable} {program}")
    monkeypatch.setattr(peers, "QUICK_ROLLOUTS", 2)
    counted: list[Counted] = []
    rows = list(peers.run(quick=True, runs=1, folder=tmp_path, counted=counted))
    assert [row.case for row in rows] == ["stats of 2, cold", "stats of 2, warm"]
    assert (counted[0].files, counted[0].theirs) == (2, 7)
    assert [check.is_met for check in peers.check([*counted, Counted(2, 5, 5)])] == [False, True]
