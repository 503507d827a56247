"""The examples keep their word: they run as programs, die by SIGKILL where they say so, and go on from there."""

from __future__ import annotations

import asyncio
import importlib.util
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import rollout

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"


def run(name: str, home: Path, step: str) -> list[str]:
    """What an example prints, in a process of its own; the step `start` is killed by SIGKILL."""
    command = [sys.executable, "-B", str(EXAMPLES / name), str(home), step]
    done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == (-signal.SIGKILL if step == "start" else 0), done.stderr
    assert not done.stderr
    return done.stdout.splitlines()


def shown(example: ModuleType, items: Iterable[Any]) -> list[str]:
    """The words that the example itself has for them, line by line of a history."""
    words: list[str] = list(map(example.shown, items))
    return words


def loaded(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name.removesuffix('.py')}", EXAMPLES / name)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)  # its dataclasses look for it there
    spec.loader.exec_module(module)
    return module


TEA = [
    "user: write tea.txt",
    'call: write_file {"name": "tea.txt", "text": "all about tea.txt"}',
    "output: wrote tea.txt",
    "assistant: tea.txt is there",
]
CUPS = 'call: write_file {"name": "cups.txt", "text": "all about cups.txt"}'


def test_a_runner_of_ones_own_is_killed_in_a_tool_and_goes_on_from_the_call_that_never_ended(tmp_path: Path) -> None:
    example, store = loaded("own_runner.py"), rollout.Store(tmp_path)
    run("own_runner.py", tmp_path, "start")
    died = rollout.reconstruct(store.resolve("tea"))
    assert shown(example, died.history) == [*TEA, "user: write cups.txt", CUPS]
    assert shown(example, died.for_prompt())[-1] == "output: aborted"
    assert (tmp_path / "files" / "cups.txt").exists()

    run("own_runner.py", tmp_path, "resume")
    state = rollout.reconstruct(store.resolve("tea"))
    *before, told, again, output, answer = shown(example, state.history)
    assert before == [*TEA, "user: write cups.txt", CUPS]
    assert told.startswith("user: <turn_aborted>")
    assert [again, output, answer] == [CUPS, "output: wrote cups.txt", "assistant: cups.txt is there"]
    assert [turn.status for turn in state.turns] == ["completed", "interrupted", "completed"]
    assert not state.damage


def test_the_log_of_a_runner_of_ones_own_is_forked_and_rolled_back(tmp_path: Path) -> None:
    example, store = loaded("own_runner.py"), rollout.Store(tmp_path)
    run("own_runner.py", tmp_path, "start")
    for step in ("resume", "fork", "rollback"):
        assert run("own_runner.py", tmp_path, step) == []
    milk = [line.replace("tea", "milk") for line in TEA]
    assert shown(example, rollout.reconstruct(store.resolve("tea")).history) == TEA
    assert shown(example, rollout.reconstruct(store.resolve("tea-with-milk")).history) == [*TEA, *milk]
    printed = run("own_runner.py", tmp_path, "history")
    assert [line.strip() for line in printed] == [
        "tea: the model sees",
        *TEA,
        "because of all lines 2 are metadata, 11 are event, 4 are visible, 8 are rolled_back",
        "tea-with-milk: the model sees",
        *TEA,
        *milk,
        "because of all lines 4 are metadata, 8 are event, 8 are visible",
    ]


def copied(source: str, target: str) -> list[str]:
    """All that a task of the agent leaves."""
    return [
        f"user: copy {source} to {target}",
        f'call: read_file {{"name": "{source}"}}',
        "output: milk, tea",
        f'call: write_file {{"name": "{target}", "text": "milk, tea"}}',
        f"output: wrote {target}",
        f"assistant: copied {source} to {target}",
    ]


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home in which the agent died (importing the SDK takes seconds, so once for all tests)."""
    home = tmp_path_factory.mktemp("agent")
    run("agent_with_tools.py", home, "start")
    return home


def test_an_agent_of_the_sdk_is_killed_in_a_tool_and_another_process_ends_its_run(killed: Path, tmp_path: Path) -> None:
    example, home = loaded("agent_with_tools.py"), tmp_path / "moved"
    shutil.copytree(killed, home)
    first, second = copied("notes.txt", "a.txt"), copied("a.txt", "b.txt")
    (path,) = home.rglob("rollout-*.jsonl")
    assert shown(example, rollout.reconstruct(path).history) == [*first, *second[:3]]  # not the call that died
    assert (home / "files" / "b.txt").read_text() == "milk, tea"  # but what it did

    assert run("agent_with_tools.py", home, "resume") == [*first, *second[:3], second[-1].partition(": ")[2]]
    assert shown(example, rollout.reconstruct(path).history) == [*first, *second]
    assert not rollout.verify(path).damage


def test_the_session_of_an_agent_is_branched_and_rolled_back(
    killed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    example, home = loaded("agent_with_tools.py"), tmp_path / "moved"
    shutil.copytree(killed, home)

    def step(name: str) -> list[str]:
        asyncio.run(example.STEPS[name](home))
        return [line.strip() for line in capsys.readouterr().out.splitlines()]

    step("resume")
    first = copied("notes.txt", "a.txt")
    assert step("branch") == ["copied notes.txt to c.txt"]
    assert step("rollback") == first
    assert step("history") == [
        "main: the model sees",
        *first,
        "as of all lines 1 are metadata, 6 are visible, 6 are rolled_back, 1 are event",
        "other: the model sees",
        *first,
        *copied("notes.txt", "c.txt"),
        "as of all lines 2 are metadata, 12 are visible",
        "at the end of turn 1 of other: assistant: copied notes.txt to a.txt",
    ]
