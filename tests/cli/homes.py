"""Homes for the command line: one of each kind of session, and terminals of any width without a process."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from unittest import mock

from rollout_cli.app import run as run_program

from tests.builders import assistant, call, log, output, rolled_back, session_meta, user
from tests.cli import Ran, thread_id, turn, write_session

PLAIN, DAMAGED, FORK, SUBAGENT, EMPTY = 1, 2, 3, 4, 5
TIME = "2026-03-20T10:00:00.000Z"


def mixed_home(home: Path) -> Path:
    """A session in which a turn was taken back, a damaged one, a fork, a subagent, an empty file."""
    write_session(
        home,
        PLAIN,
        log(session_meta(thread_id(PLAIN), cwd="/home/dev/project", git={"branch": "main"}, source="cli")),
        turn("t1", user("fix the parser"), call(), output(text="parser.py: 3 failures"), assistant("It is fixed.")),
        turn("t2", user("now break the parser"), assistant("no")),
        log(rolled_back(1)),
    )
    write_session(home, DAMAGED, log(session_meta(thread_id(DAMAGED)), b"garbage", user("a second question")))
    forked = session_meta(thread_id(FORK), forked_from_id=thread_id(PLAIN))
    write_session(home, FORK, log(forked), turn("t1", user("in a fork")))
    spawn = {"subagent": {"thread_spawn": {"parent_thread_id": thread_id(PLAIN), "depth": 1}}}
    write_session(home, SUBAGENT, log(session_meta(thread_id(SUBAGENT), source=spawn)), turn("t1", user("as an agent")))
    write_session(home, EMPTY)
    return home


class _Terminal(io.TextIOWrapper):
    """Standard output that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def run_on_terminal(columns: int, *args: str | Path, answer: str = "", term: str = "dumb", colour: bool = False) -> Ran:
    """Run one command line here as if on a terminal of that width and kind; `answer` is what is typed."""
    out, err = (_Terminal(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    typed = _Terminal(io.BytesIO(answer.encode()), encoding="utf-8")
    size = os.terminal_size((columns, 24))
    environment = {"TERM": term, "COLORTERM": "", "NO_COLOR": "1"}
    with (
        mock.patch.multiple(sys, stdout=out, stderr=err, stdin=typed),
        mock.patch("shutil.get_terminal_size", return_value=size),
        mock.patch.dict(os.environ, environment),
    ):
        if colour:
            del os.environ["NO_COLOR"]
        code = run_program([str(arg) for arg in args])
    return Ran(code, _sent(out), _sent(err))


def _sent(stream: io.TextIOWrapper) -> str:
    stream.flush()
    assert isinstance(stream.buffer, io.BytesIO)
    return stream.buffer.getvalue().decode()
