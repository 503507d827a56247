"""What goes wrong is one line on standard error that says what and what to do, and an exit code."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

import rollout
from tests.builders import log, session_meta, user
from tests.cli import Ran, command, environment, launch, run, turn, write, write_session

COMMANDS = ["reconstruct", "history", "turns", "explain", "verify"]
every_command = pytest.mark.parametrize("name", COMMANDS)


def assert_one_line(ran: Ran, code: int) -> None:
    assert ran.code == code, ran
    assert ran.out == ""
    assert ran.err.count("\n") == 1, ran.err
    assert ran.err.startswith("rollout: ")
    what, _, remedy = ran.err.partition("; ")
    assert len(what) > len("rollout: ")
    assert len(remedy) > 5, ran.err


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home of three sessions."""
    for number in (1, 2, 3):
        write_session(tmp_path, number, log(session_meta()), turn("t", user(f"question {number}")))
    return tmp_path


@every_command
def test_no_such_file_is_unreadable(name: str, tmp_path: Path) -> None:
    ran = run(name, tmp_path / "none.jsonl")
    assert_one_line(ran, 3)
    assert "none.jsonl" in ran.err


@every_command
def test_a_directory_is_unreadable(name: str, tmp_path: Path) -> None:
    assert_one_line(run(name, tmp_path), 3)


@every_command
def test_a_fifo_is_unreadable_and_does_not_hang(name: str, tmp_path: Path) -> None:
    fifo = tmp_path / "rollout.jsonl"
    os.mkfifo(fifo)
    assert_one_line(launch(name, fifo), 3)


def test_a_socket_and_a_device_are_unreadable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("rollout.jsonl")
        assert_one_line(run("reconstruct", "./rollout.jsonl"), 3)
    assert_one_line(run("reconstruct", "/dev/zero"), 3)


def test_a_file_without_permission_is_unreadable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, log(session_meta()))
    real_open = os.open

    def refuse(name: str | Path, *args: int, **more: int) -> int:
        if Path(name) == path:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return real_open(name, *args, **more)

    monkeypatch.setattr(os, "open", refuse)
    ran = run("reconstruct", path)
    assert_one_line(ran, 3)
    assert "ermission" in ran.err


@every_command
def test_a_file_of_another_kind_is_unreadable(name: str, tmp_path: Path) -> None:
    picture = tmp_path / "picture.png"
    picture.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40)
    assert_one_line(run(name, picture), 3)


def test_a_home_without_sessions_is_unreadable(tmp_path: Path) -> None:
    assert_one_line(run("reconstruct", "-1", "--home", tmp_path), 3)
    assert_one_line(run("reconstruct", "-1", "--home", tmp_path / "none"), 3)
    assert_one_line(run("reconstruct", "019d0001", "--home", tmp_path), 3)


def test_an_ambiguous_prefix_is_unreadable_and_a_unique_one_is_read(home: Path) -> None:
    assert_one_line(run("reconstruct", "019d", "--home", home), 3)
    assert run("reconstruct", "019d0002", "--home", home).code == 0
    assert "question 2" in run("history", "019d0002-0000-7000-8000-00000000000a", "--home", home).out


def test_a_position_beyond_the_oldest_is_unreadable(home: Path) -> None:
    assert_one_line(run("reconstruct", "-9", "--home", home), 3)


def test_a_position_works_before_and_behind_every_option(home: Path) -> None:
    for args in (
        ["-1", "--home", home, "-n", "1", "--json"],
        ["--home", home, "--json", "-1", "-n", "1"],
        ["-n", "1", "--json", "-1", f"--home={home}"],
        ["--json", "-n", "1", "--home", home, "--", "-1"],
        ["-n1", "-1", "--json", "--home", home],
    ):
        ran = run("history", *args)
        assert ran.code == 0, ran.err
        assert ran.json[0]["content"][0]["text"] == "question 3"
    assert "question 2" in run("reconstruct", "-2", "--home", home).out
    assert "question 1" in launch("reconstruct", "-3", env={"ROLLOUT_HOME": str(home)}).out


def test_a_negative_value_of_an_option_is_no_position(home: Path) -> None:
    ran = run("history", "-1", "-n", "-1", "--home", home)
    assert_one_line(ran, 2)
    assert "-n" in ran.err


@pytest.mark.parametrize(
    "args",
    [
        [],
        ["nonsense"],
        ["--nonsense"],
        ["reconstruct"],
        ["reconstruct", "a", "b"],
        ["reconstruct", "-1", "-2"],
        ["reconstruct", "x", "--jsno"],
        ["reconstruct", "-x"],
        ["reconstruct", "x", "--home"],
        ["history", "x", "-n", "many"],
        ["explain", "x", "--line", "0"],
        ["explain", "x", "--status", "nonsense"],
        ["ls", "--limit", "0"],
        ["ls", "x"],
        ["ls", "--sort", "size"],
        ["search"],
        ["search", "x", "--kind", "nonsense"],
        ["archive"],
        ["rm", "--yes"],
        ["completion", "tcsh"],
    ],
    ids=lambda args: " ".join(args) or "nothing",
)
def test_wrong_usage_exits_with_two_and_names_the_help(args: list[str]) -> None:
    ran = run(*args)
    assert_one_line(ran, 2)
    assert "--help" in ran.err
    assert "Value error" not in ran.err


def test_a_command_that_is_misspelled_is_told_the_one_that_is_meant() -> None:
    assert run("histori").err == "rollout: no such command 'histori' (did you mean 'history'?); see rollout --help\n"


def test_the_zeroth_rollout_is_wrong_usage(home: Path) -> None:
    assert_one_line(run("reconstruct", "-0", "--home", home), 2)


def test_an_empty_name_is_refused_with_one_line(home: Path) -> None:
    ran = run("reconstruct", "", "--home", home)
    assert ran.code in {2, 3}
    assert_one_line(ran, ran.code)


def test_help_and_version_are_fine_and_go_to_standard_output() -> None:
    for args in (["--help"], ["-h"], ["history", "--help"], ["--version"], ["-V"]):
        ran = launch(*args)
        assert (ran.code, ran.err) == (0, "")
        assert ran.out


def test_an_error_in_the_program_is_one_line_without_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object, **more: object) -> None:
        raise ZeroDivisionError("first\nsecond\x1b[2J")

    path = write(tmp_path, log(session_meta()))
    monkeypatch.setattr(rollout, "reconstruct", fail)
    ran = run("reconstruct", path)
    assert_one_line(ran, 3)
    assert "ZeroDivisionError: first\\x0asecond\\x1b[2J" in ran.err
    monkeypatch.setenv("ROLLOUT_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        run("reconstruct", path)


@pytest.mark.parametrize("failure", [OSError(errno.EIO, "Input/output error", "/x"), MemoryError()])
def test_what_the_machine_refuses_is_one_line(
    failure: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object, **more: object) -> None:
        raise failure

    monkeypatch.setattr(rollout, "verify", fail)
    assert_one_line(run("verify", write(tmp_path, log(session_meta()))), 3)


def test_an_interrupt_is_one_line_and_exits_with_130(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*args: object, **more: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(rollout, "reconstruct", interrupt)
    ran = run("reconstruct", write(tmp_path, log(session_meta())))
    assert_one_line(ran, 130)


def test_an_interrupt_from_the_keyboard_while_reading_exits_with_130(tmp_path: Path) -> None:
    path = write(tmp_path, log(session_meta(), *[user("q" * 1000)] * 50_000))
    with subprocess.Popen(
        command("explain", path), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
    ) as running:
        assert running.stdout is not None
        running.stdout.read(1)
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert err.decode() == "rollout: interrupted; nothing was changed\n"


@pytest.mark.parametrize("more", [[], ["--json"]], ids=["text", "json"])
@every_command
def test_a_reader_that_goes_away_ends_the_program_quietly(name: str, more: list[str], tmp_path: Path) -> None:
    path = write(tmp_path, log(session_meta(), *[user("q" * 1000)] * 500))
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as closed:
        done = subprocess.run(
            command(name, path, *more),
            stdout=closed,
            stderr=subprocess.PIPE,
            env=environment(),
            timeout=60,
            check=False,
        )
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize("words", [["ls"], ["ls", "--json"], ["tree"], ["search", "question"]], ids=" ".join)
def test_a_reader_of_a_list_that_goes_away_ends_the_program_quietly(words: list[str], home: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as closed:
        done = subprocess.run(
            command(*words, "--home", home), stdout=closed, stderr=subprocess.PIPE, env=environment(), timeout=60,
            check=False,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (141, b"")


def test_help_to_a_reader_that_has_gone_ends_quietly_too() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as closed:
        done = subprocess.run(
            command("--help"), stdout=closed, stderr=subprocess.PIPE, env=environment(), timeout=60, check=False
        )
    assert (done.returncode, done.stderr) == (141, b"")


def test_closed_or_full_standard_output_is_one_line(tmp_path: Path) -> None:
    path = write(tmp_path, log(session_meta()))
    words = " ".join(f"'{word}'" for word in command("reconstruct", path))
    for redirection in (">&-", ">/dev/full"):
        done = subprocess.run(
            ["sh", "-c", f"{words} {redirection}"], capture_output=True, env=environment(), timeout=60, check=False
        )
        assert_one_line(Ran(done.returncode, done.stdout.decode(), done.stderr.decode()), 3)


def test_closed_standard_error_does_not_change_the_exit_code(tmp_path: Path) -> None:
    words = " ".join(f"'{word}'" for word in command("reconstruct", tmp_path / "none"))
    done = subprocess.run(
        ["sh", "-c", f"{words} 2>&-"], capture_output=True, env=environment(), timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (3, b"")


def test_a_locale_that_cannot_show_a_text_gets_escapes(tmp_path: Path) -> None:
    path = write(tmp_path, log(session_meta(), user("日本 é")))
    ran = launch("history", path, env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert (ran.code, ran.err) == (0, "")
    assert "\\u65e5\\u672c \\xe9" in ran.out


def test_a_long_read_that_is_cut_short_ends_soon(tmp_path: Path) -> None:
    path = write(tmp_path, log(session_meta(), *[user("q" * 1000)] * 20_000))
    begun = time.monotonic()
    with subprocess.Popen(
        command("explain", path), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
    ) as running:
        assert running.stdout is not None
        running.stdout.readline()
        running.stdout.close()
        assert running.stderr is not None
        assert running.stderr.read() == b""
        assert running.wait(timeout=60) == 141
    assert time.monotonic() - begun < 60
