"""Completion: what a shell is given to put into a command line, and what it does with it."""

from __future__ import annotations

import os
import pty
import re
import select
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rollout_cli.completion import Shell, script

from tests.builders import log, session_meta, user
from tests.cli import environment, run, thread_id, turn, write_session
from tests.cli.test_hostile import ALL, FORBIDDEN

FIRST, SECOND = (f"019d000{number}-0000-7000-8000-00000000000a" for number in (1, 2))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two sessions; the newer one has a name."""
    write_session(tmp_path, 1, log(session_meta(FIRST), user("fix the\nparser")))
    write_session(tmp_path, 2, log(session_meta(SECOND), user("q")))
    assert run("name", SECOND, "tests", "--home", tmp_path).code == 0
    monkeypatch.setenv("ROLLOUT_HOME", str(tmp_path))
    return tmp_path


def complete(monkeypatch: pytest.MonkeyPatch, *words: str, shell: str = "zsh") -> list[str]:
    """The candidates for the last word."""
    monkeypatch.setenv("_ROLLOUT_COMPLETE", f"complete_{shell}")
    ran = run(*words)
    monkeypatch.delenv("_ROLLOUT_COMPLETE")
    assert (ran.code, ran.err) == (0, "")
    return ran.out.splitlines()


def values(lines: list[str]) -> list[str]:
    return [line.partition(" ")[0] for line in lines]


def test_commands_are_completed_with_what_they_do(monkeypatch: pytest.MonkeyPatch) -> None:
    found = complete(monkeypatch, "se")
    assert {"search", "seal", "sessions"} <= set(values(found))
    assert all(each.startswith("se") for each in values(found))
    assert all(len(line.split()) > 2 for line in found)
    assert {"ls", "reconstruct", "completion"} <= set(values(complete(monkeypatch, "")))
    assert set(values(complete(monkeypatch))) == set(values(complete(monkeypatch, "")))
    assert complete(monkeypatch, "nothing") == complete(monkeypatch, "nothing", "x") == []


def test_options_and_their_choices_are_completed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert values(complete(monkeypatch, "ls", "--so")) == ["--sort", "--source"]
    assert values(complete(monkeypatch, "ls", "--sort", "")) == ["created", "updated"]
    assert values(complete(monkeypatch, "search", "--kind", "tool_")) == ["tool_call", "tool_output"]
    assert values(complete(monkeypatch, "explain", "x", "--status", "d")) == ["damaged"]
    assert complete(monkeypatch, "ls", "--home", "") == []
    assert values(complete(monkeypatch, "completion", "")) == ["bash", "zsh", "fish"]


def test_ids_are_completed_newest_first_with_name_or_first_message(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    assert complete(monkeypatch, "history", "") == [f"{SECOND} tests", f"{FIRST} fix the parser"]
    assert complete(monkeypatch, "history", "--json", FIRST[:8]) == [f"{FIRST} fix the parser"]
    assert complete(monkeypatch, "history", "te") == [f"tests {SECOND}"]
    assert complete(monkeypatch, "history", FIRST, "") == []
    assert values(complete(monkeypatch, "archive", FIRST, "")) == [SECOND, FIRST]
    assert complete(monkeypatch, "name", FIRST, "") == []
    assert complete(monkeypatch, "search", "") == []


def test_ids_are_those_of_the_home_that_the_line_names(
    monkeypatch: pytest.MonkeyPatch, home: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    empty = str(tmp_path_factory.mktemp("empty"))
    for words, shell in ((["--home", empty], "zsh"), ([f"--home={empty}"], "fish"), (["--home", "=", empty], "bash")):
        assert complete(monkeypatch, "history", *words, "", shell=shell) == []
    assert len(complete(monkeypatch, "history", "--home", str(home), "-n", "3", "")) == 2


def test_nothing_in_a_name_or_a_message_acts_on_the_shell_or_the_terminal(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    hostile = f"{ALL}\n019dffff $(touch x) `touch x` ';\"\\:"
    write_session(tmp_path, 1, log(session_meta(), user(hostile)))
    write_session(tmp_path, 2, log(session_meta(), user("q")))
    names = [f'{{"id":"{SECOND}","thread_name":"{name}","updated_at":"x"}}' for name in ("$(x)", "\\u001b[2J\\n$x")]
    (tmp_path / "session_index.jsonl").write_text("\n".join(names) + "\n")
    for shell in Shell:
        for word in ("", "0", "$"):
            found = complete(monkeypatch, "history", "--home", str(tmp_path), word, shell=shell)
            assert FORBIDDEN.isdisjoint("".join(found))
            assert all(re.fullmatch("[0-9a-f-]{36}", value) for value in values(found))
            assert len(found) == (0 if word == "$" else 2)


@pytest.mark.parametrize("words", [["history", "--home", "/nonexistent", ""], ["history", "--home", "/dev/null", ""]])
def test_a_home_that_is_not_there_completes_nothing(monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    assert complete(monkeypatch, *words) == []


def test_a_shell_that_is_not_known_completes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert complete(monkeypatch, "se", shell="tcsh") == []


def test_the_script_is_printed_for_the_shell_that_is_named_or_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for shell in Shell:
        assert run("completion", shell).out == script(shell)
    monkeypatch.setenv("SHELL", "/usr/bin/fish")
    assert run("completion").out == script("fish")
    monkeypatch.setenv("SHELL", "/bin/sh")
    assert run("completion").code == 2


@pytest.fixture
def shells(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A folder with the function for each shell, and an environment in which it finds the program.

    The program completes, and does nothing else: it tells its arguments, each in brackets.
    """
    folder = tmp_path_factory.mktemp("bin")
    program = folder / "rollout"
    completes = f'exec {shlex.quote(sys.executable)} -m rollout_cli "$@"'
    program.write_text(f'#!/bin/sh\n[ -n "$_ROLLOUT_COMPLETE" ] && {completes}\nprintf "[%s]" "$@"\n')
    program.chmod(0o755)
    for shell in Shell:
        (folder / shell).write_text(script(shell))
    return folder, environment(PATH=f"{folder}:{os.environ['PATH']}", HISTFILE="/dev/null")


def needs(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed here")


@pytest.mark.parametrize(
    ("words", "replies"),
    [
        (["rollout", "hist"], ["history"]),
        (["rollout", "history", FIRST[:8]], [FIRST]),
        (["rollout", "history", ""], [f"{SECOND} tests", f"{FIRST} fix the parser"]),
        (["rollout", "history", "./none"], []),
    ],
    ids=" ".join,
)
def test_bash_gets_what_is_left_to_choose_from(
    words: list[str], replies: list[str], home: Path, shells: tuple[Path, dict[str, str]]
) -> None:
    line = " ".join(map(shlex.quote, words))
    asked = f"COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _rollout_completion rollout"
    done = subprocess.run(
        ["bash", "--norc", "-c", f'source {shells[0]}/bash; {asked}; printf "%s\\n" "${{COMPREPLY[@]}}"'],
        capture_output=True, env=shells[1] | {"ROLLOUT_HOME": str(home)}, timeout=60, check=True,
    )  # fmt: skip
    assert (done.stdout.decode().strip("\n").splitlines(), done.stderr) == (replies, b"")


@pytest.mark.parametrize(
    ("shell", "options", "setup", "line"),
    [
        ("bash", ["--norc", "--noprofile"], "", "diff -1@ab-1"),
        ("zsh", ["-f"], "autoload -U compinit; compinit -C -D;", "turns -1 --at=ab-2"),
    ],
    ids=["bash", "zsh"],
)
def test_a_shell_puts_ids_and_turns_into_the_lines_that_are_being_typed(
    shell: str, options: list[str], setup: str, line: str, turns: list[str], home: Path,
    shells: tuple[Path, dict[str, str]],
) -> None:  # fmt: skip
    needs(shell)
    ours, theirs = pty.openpty()
    typed = [f"{setup} source {shells[0]}/{shell}", f"rollout history {FIRST[:8]}\t", f"rollout {line}\t"]
    wanted = [f"[history][{FIRST}]", "".join(f"[{word}]" for word in line.split())]
    with subprocess.Popen(
        [shell, *options, "-i"], stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
        env=shells[1] | {"ROLLOUT_HOME": str(home), "TERM": "dumb", "PS1": "> "},
    ) as running:  # fmt: skip
        os.close(theirs)
        os.write(ours, "".join(f"{each}\n" for each in typed).encode())
        sent, until = "", time.monotonic() + 60
        while not all(each in sent for each in wanted) and time.monotonic() < until:
            if select.select([ours], [], [], 1)[0]:
                sent += os.read(ours, 65536).decode()
        running.kill()
        os.close(ours)
    assert all(each in sent for each in wanted), sent


def test_fish_gets_values_and_what_they_mean_and_files_where_there_are_none(
    turns: list[str], home: Path, shells: tuple[Path, dict[str, str]]
) -> None:
    needs("fish")
    lines = {
        "rollout turns -1 --at=": ["--at=ab-2\tsecond", "--at=ab-1\tfirst"],
        f"rollout history {home}/session_i": [f"{home}/session_index.jsonl"],
    }
    asked = "; ".join(f"complete -C {shlex.quote(line)}; echo ." for line in lines)
    done = subprocess.run(
        ["fish", "--no-config", "-c", f"source {shells[0]}/fish; {asked}"],
        capture_output=True, env=shells[1] | {"ROLLOUT_HOME": str(home)}, timeout=60, check=True,
    )  # fmt: skip
    told = [each.split("\n") for each in done.stdout.decode().replace("\n.\n", "\n\0").split("\0")]
    assert [[row for row in rows if row] for rows in told[:-1]] == list(lines.values())


@pytest.fixture
def turns(home: Path) -> list[str]:
    """A third session, of two turns; their ids, newest first."""
    write_session(home, 3, log(session_meta()), turn("ab-1", user("first")), turn("ab-2", user("second")))
    return ["ab-2", "ab-1"]


@pytest.mark.parametrize("words", [["history", "-1", "--at"], ["turns", "--at", "x", thread_id(3), "--at"]])
def test_turns_are_completed_newest_first_behind_the_option_for_a_moment(
    monkeypatch: pytest.MonkeyPatch, turns: list[str], words: list[str]
) -> None:
    assert complete(monkeypatch, *words, "") == ["ab-2 second", "ab-1 first"]
    assert complete(monkeypatch, *words, "ab-1") == ["ab-1 first"]
    assert complete(monkeypatch, *words, "c") == complete(monkeypatch, "history", "--at", "") == []


@pytest.mark.parametrize(
    ("shell", "words", "typed"),
    [
        ("zsh", ["-1@"], "-1@"),
        ("zsh", ["-1@ab"], "-1@"),
        ("zsh", ["-2", f"{thread_id(3)}@ab-"], f"{thread_id(3)}@"),
        ("fish", ["-1", "@a"], "@"),
        ("fish", ["-1", "@"], "@"),
        ("bash", ["-1@ab"], "-1@"),  # where its user has told it not to
        ("bash", ["-1@ab-1", "@"], "@"),
        ("bash", ["-1", "@"], "@"),
        ("bash", ["-1", "@", "ab"], "@"),
        ("bash", ["-1", "@", "ab-1", "@", "ab"], "@"),
        ("bash", ["-2", "-1", "@", "ab"], "@"),
    ],
    ids=str,
)
def test_turns_are_completed_behind_an_at_sign_whether_or_not_a_shell_takes_words_apart_there(
    monkeypatch: pytest.MonkeyPatch, turns: list[str], shell: str, words: list[str], typed: str
) -> None:
    assert values(complete(monkeypatch, "diff", *words, shell=shell)) == [typed + each for each in turns]


def test_a_comparison_is_completed_with_sessions_and_options_as_other_commands_are(
    monkeypatch: pytest.MonkeyPatch, turns: list[str]
) -> None:
    assert values(complete(monkeypatch, "diff", "-1@ab-1", "")) == [thread_id(3), SECOND, FIRST]
    assert values(complete(monkeypatch, "diff", "--fu")) == ["--full"]
    assert complete(monkeypatch, "diff", "nothing@") == complete(monkeypatch, "history", "-1@") == []
