"""A program that was started with its signals ignored, as by nohup, goes on when they come; one that was not, ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.builders import assistant, log, session_meta, user
from tests.cli import REPOSITORY, command, environment, turn, write

SIGNALS = (signal.SIGINT, signal.SIGHUP)
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


@contextmanager
def started(*words: str | Path, ignoring: bool) -> Iterator[subprocess.Popen[str]]:
    """The program, its signals ignored or as they are by default."""

    def choose() -> None:
        for each in SIGNALS:
            signal.signal(each, signal.SIG_IGN if ignoring else signal.SIG_DFL)

    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(command(*words), text=True, env=environment(), preexec_fn=choose, **pipes) as process:  # noqa: PLW1509
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write(tmp_path, log(session_meta()), turn("t1", user("q"), assistant("a")))


def told(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


@pytest.mark.parametrize("number", SIGNALS)
def test_what_follows_a_session_goes_on_behind_a_signal_that_is_ignored(number: signal.Signals, path: Path) -> None:
    words = ("tail", "-f", path, "-n", "1", "--json", "--interval", "0s")
    with started(*words, ignoring=True) as process:
        assert "task_complete" in told(process)
        process.send_signal(number)
        with path.open("ab") as file:
            file.write(log(user("later")))
        assert "later" in told(process)
        assert process.poll() is None
    with started(*words, ignoring=False) as process:
        assert "later" in told(process)
        process.send_signal(number)
        assert process.wait(timeout=30) == (130 if number is signal.SIGINT else -number)


@pytest.mark.parametrize("ignoring", [True, False])
def test_the_server_for_agents_keeps_to_what_it_was_started_with(ignoring: bool, path: Path) -> None:
    ask = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
    with started("mcp", "--home", path.parent, ignoring=ignoring) as process:
        assert process.stdin is not None
        for _ in range(2 if ignoring else 1):
            process.stdin.write(json.dumps(ask) + "\n")
            process.stdin.flush()
            assert json.loads(told(process))["result"]["serverInfo"]["name"] == "rollout"
            process.send_signal(signal.SIGINT)
        process.stdin.close()
        assert process.wait(timeout=30) == (0 if ignoring else -signal.SIGINT)


def test_tests_that_are_run_with_interrupts_ignored_start_programs_that_take_them(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import signal, subprocess, sys\n"
        "from tests.conftest import store\n"
        "def test_an_interrupt_arrives_in_what_is_started_here():\n"
        "    words = [sys.executable, '-c', 'import time; print(1, flush=True); time.sleep(60)']\n"
        "    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:\n"
        "        process.stdout.readline()\n"
        "        process.send_signal(signal.SIGINT)\n"
        "        assert process.wait(timeout=20) != 0\n"
    )
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, str(tmp_path)]
    done = subprocess.run(
        words,
        cwd=REPOSITORY,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )
    assert done.returncode == 0, done.stdout
