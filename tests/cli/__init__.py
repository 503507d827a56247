"""How the command line is tested: logs in files, and two ways to run one command on them.

`run` calls the program in this process with its own standard streams; `launch` starts it as a process, with pipes.
"""

from __future__ import annotations

import dataclasses
import io
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

from rollout_cli.app import run as run_program

from tests.builders import THREAD, completed, context, log, started

REPOSITORY = Path(__file__).parents[2]
NAME = f"rollout-2026-03-20T10-00-00-{THREAD}.jsonl"


def file_of(home: Path, number: int) -> Path:
    """The file of session `number`, plain or sealed, archived or not."""
    (found,) = home.rglob(f"rollout-*{thread_id(number)}.jsonl*")
    return found


@dataclasses.dataclass(frozen=True, slots=True)
class Ran:
    """What one command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def run(*args: str | Path) -> Ran:
    """Run one command line here, standard output and error being pipes."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    with mock.patch.multiple(sys, stdout=out, stderr=err):
        code = run_program([str(arg) for arg in args])
    return Ran(code, _written(out), _written(err))


def _written(stream: io.TextIOWrapper) -> str:
    stream.flush()
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode()


def environment(**changes: str) -> dict[str, str]:
    """The environment of a started program: finds the packages of this repository, and no sessions."""
    paths = [str(REPOSITORY), str(REPOSITORY / "cli")]
    inherited = {k: v for k, v in os.environ.items() if k not in {"NO_COLOR", "FORCE_COLOR", "ROLLOUT_TRACEBACK"}}
    return inherited | {"PYTHONPATH": os.pathsep.join(paths), "ROLLOUT_HOME": "/nonexistent"} | changes


def command(*args: str | Path) -> list[str]:
    """The words that start the program."""
    return [sys.executable, "-m", "rollout_cli", *map(str, args)]


def launch(*args: str | Path, env: Mapping[str, str] | None = None) -> Ran:
    """Run one command line as a process of its own; 60 seconds are a hang."""
    done = subprocess.run(command(*args), capture_output=True, env=environment(**(env or {})), timeout=60, check=False)
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


def turn(name: str, *lines: bytes) -> bytes:
    """A whole turn, as `log` text: started, its context, the lines, completed."""
    return log(started(name), context(name, "gpt-5"), *lines, completed(name))


def write(folder: Path, *logs: bytes, name: str = NAME) -> Path:
    """The logs, one behind the other, as a file in `folder`."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(logs))
    return path


def thread_id(number: int) -> str:
    """The thread id of session `number`."""
    return f"019d000{number}-0000-7000-8000-00000000000a"


def write_session(home: Path, number: int, *logs: bytes) -> str:
    """The logs as session `number` (1 to 9, a higher one is newer) of a home; its thread id."""
    thread = thread_id(number)
    write(home, *logs, name=f"sessions/2026/03/2{number}/rollout-2026-03-2{number}T10-00-00-{thread}.jsonl")
    return thread
