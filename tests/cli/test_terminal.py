"""A terminal gets colour, lines that fit, and a bar for long work; a pipe gets none of it."""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import pty
import struct
import subprocess
import sys
import tempfile
import termios
from pathlib import Path

import pytest
from rollout_cli import terminal
from rollout_cli.terminal import Block, Output

from tests.builders import assistant, log, session_meta, user
from tests.cli import command, environment, run, turn, write
from tests.cli.homes import run_on_terminal as run_on_terminal_here


def launch_on_terminal(*args: str | Path, columns: int = 100, stdout: int | None = None, **env: str) -> bytes:
    """Run one command line on a terminal of its own; all that the terminal was sent."""
    return run_on_terminal(command(*args), columns, stdout, {"TERM": "xterm-256color"} | env)


def run_on_terminal(words: list[str], columns: int, stdout: int | None, env: dict[str, str]) -> bytes:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    variables = {name: value for name, value in environment(**env).items() if name not in {"COLUMNS", "LINES"}}
    out = theirs if stdout is None else stdout
    with subprocess.Popen(words, stdin=theirs, stdout=out, stderr=theirs, env=variables) as running:
        os.close(theirs)
        sent = b""
        with contextlib.suppress(OSError):  # Linux: the other end was closed
            while chunk := os.read(ours, 65536):
                sent += chunk
        running.wait(timeout=60)
    os.close(ours)
    return sent


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write(
        tmp_path,
        log(session_meta()),
        turn("t", user("word " * 200 + "\x1b]0;title\x07\u202e"), assistant("[red]日本[/red] " * 50)),
    )


def rows(sent: bytes) -> list[str]:
    return sent.decode().replace("\r\n", "\n").splitlines()


def test_a_terminal_gets_colour_unless_no_color_is_set(path: Path) -> None:
    assert b"\x1b[1" in launch_on_terminal("history", path)
    assert b"\x1b[3" not in launch_on_terminal("history", path, NO_COLOR="1")
    assert b"\x1b" not in launch_on_terminal("history", path, NO_COLOR="1", TERM="dumb")


@pytest.mark.parametrize("name", ["reconstruct", "history", "turns", "explain", "verify"])
@pytest.mark.parametrize(("columns", "widest"), [(100, 100), (40, 40), (10, 20), (500, 200)])
def test_a_line_fits_the_terminal_between_20_and_200_columns(name: str, columns: int, widest: int, path: Path) -> None:
    sent = rows(launch_on_terminal(name, path, columns=columns, TERM="dumb"))
    assert sent
    assert max(map(len, sent)) <= widest
    if name == "history":
        assert max(map(len, sent)) > widest - 3


def test_data_on_a_terminal_stays_escaped(path: Path) -> None:
    short, sent = (launch_on_terminal("history", path, *more, TERM="dumb", columns=200) for more in ([], ["--full"]))
    for acting in (b"\x1b", b"\x07", "\u202e".encode()):
        assert acting not in short + sent
    assert b"\\x1b]0;title\\x07\\u202e" in sent.replace(b"\r\n      ", b"")
    assert "[red]日本[/red]".encode() in sent


@pytest.mark.parametrize("name", ["reconstruct", "verify"])
def test_a_report_goes_on_below_where_the_terminal_ends(name: str, tmp_path: Path) -> None:
    path = write(tmp_path, log(session_meta(), b"garbage"))
    on_terminal = b"".join(launch_on_terminal(name, path, columns=80, TERM="dumb").split())
    assert on_terminal.decode() == "".join(run(name, path).out.split())


def test_full_texts_are_wrapped_and_every_line_of_them_indented(path: Path) -> None:
    sent = rows(launch_on_terminal("history", path, "--full", columns=80, TERM="dumb"))
    texts = [row for row in sent if row.startswith("      ")]
    assert len(texts) > 10
    assert len(sent) - len(texts) == 2
    assert max(map(len, sent)) <= 80


def test_json_on_a_terminal_is_neither_cut_nor_coloured(path: Path) -> None:
    sent = launch_on_terminal("history", path, "--json")
    assert b"\x1b" not in sent
    assert b"word " * 200 in sent


@pytest.mark.parametrize("name", ["reconstruct", "history", "turns", "explain", "verify"])
def test_long_work_draws_a_bar_on_a_terminal_and_nothing_of_it_in_the_output(name: str, path: Path) -> None:
    program = "import sys; from rollout_cli import app, terminal; terminal.LONG_WORK_BYTES = 1; app.run(sys.argv[1:])"
    with tempfile.TemporaryFile() as out:
        words = [sys.executable, "-c", program, name, str(path)]
        assert b"\x1b[" in run_on_terminal(words, 100, out.fileno(), {"TERM": "xterm"})
        out.seek(0)
        printed = out.read()
    assert printed
    assert b"\x1b" not in printed


@pytest.mark.parametrize("words", [["ls"], ["tree"], ["search", "word"], ["du"], ["index"], ["seal", "-1"]])
def test_work_on_a_home_draws_a_bar_on_a_terminal_once_it_is_long(
    words: list[str], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = path.parent / "home"
    write(home, path.read_bytes(), name=f"sessions/2026/03/20/{path.name}")
    assert "━" not in run_on_terminal_here(100, *words, "--home", home, term="xterm").err
    assert run("unseal", "-1", "--home", home).code == 0
    monkeypatch.setattr(terminal, "LONG_WORK_BYTES", 1)
    monkeypatch.setattr(terminal, "LONG_WORK_S", 0)
    assert run_on_terminal_here(100, *words, "--home", home, term="dumb").err == ""
    assert run("unseal", "-1", "--home", home).code == 0
    ran = run_on_terminal_here(100, *words, "--home", home, term="xterm")
    assert ran.code == 0
    assert "━" in ran.err
    assert "━" not in ran.out


def test_short_work_draws_no_bar(path: Path) -> None:
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123 -- a descriptor is wanted
        assert launch_on_terminal("verify", path, stdout=nowhere.fileno()) == b""


def test_a_pipe_gets_no_bar_however_long_the_work(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "LONG_WORK_BYTES", 1)
    for name in ("reconstruct", "history", "turns", "explain", "verify"):
        assert run(name, path).err == ""


def test_a_pipe_gets_neither_colour_nor_cut_lines(path: Path) -> None:
    out = run("history", path).out
    assert "\x1b" not in out
    assert max(map(len, out.splitlines())) > 500


def test_output_prints_lines_and_blocks_and_strips_their_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    monkeypatch.setattr(sys, "stdout", written)
    Output().print([("a ", ("b\n", "red"), "  "), Block("c\n\nd\te", indent_columns=2)])
    written.flush()
    written.seek(0)
    assert written.read() == "a b\\x0a\n  c\n\n  d   e\n"
