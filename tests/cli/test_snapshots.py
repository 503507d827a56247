"""Every view at several widths, in colour and in a pipe, as it stands in `fixtures/views`; none is wider than asked.

The home that is shown, the clock, the time zone and the user's home are the same everywhere, see `specimens`.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from rich.cells import cell_len
from rollout_cli.replay.player import Player
from rollout_cli.replay.screen import FRAME_ROWS, page, render

import rollout
from tests.cli import run
from tests.cli.homes import run_on_terminal
from tests.cli.snapshots import FOLDER, compare
from tests.cli.specimens import FORK, MAIN, NOW, TURNS, a_home

WIDTHS, ROWS = (40, 80, 140), 19
COLOUR_COLUMNS = 80
SEALED_BYTES = 1000
FILE = f"sessions/2026/03/21/rollout-2026-03-21T10-00-00-{MAIN}.jsonl"
FORK_FILE = f"sessions/2026/03/22/rollout-2026-03-22T10-00-00-{FORK}.jsonl"
VIEWS = {
    "ls": ["ls", "ls --forks --subagents --with-archived"],
    "tree": ["tree"],
    "search": ["search parser", "search nowhere"],
    "stats": ["stats", "stats --limit 1 --model gpt-5.4"],
    "doctor": ["doctor"],
    "du": ["du"],
    "sessions": ["sessions", f"read {MAIN}"],
    "show": [f"show {FILE}", f"show {FORK_FILE}"],
    "reconstruct": [f"reconstruct {FILE}", f"reconstruct {FILE} --at line:1"],
    "history": [f"history {MAIN}", f"history {MAIN} --at line:26 -n 4", f"history {MAIN} --at line:26 -n 1 --full"],
    "turns": [f"turns {MAIN} --all"],
    "explain": [f"explain {MAIN}", f"explain {MAIN} --line 8"],
    "verify": [f"verify {FILE}"],
    "repair": [f"repair {FILE}"],
    "tail": [f"tail {MAIN} -n 24"],
    "replay": [f"replay {MAIN} --no-input", f"replay {MAIN} --no-input --unfold --all --at {TURNS[0][:12]}"],
    "diff": [f"diff {FILE}@line:18 {FILE} --why", f"diff {FORK_FILE} {FILE}@line:20"],
}
PAGES = {"the first screen": "", "a rollback": "r", "all lines": "aG", "what the model saw": "Gm", "the keys": "h"}
_CODE = re.compile("\x1b\\[[0-9;]*m")


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The specimens, at a known time in a known place, indexed."""
    home = tmp_path_factory.mktemp("home").resolve()
    changes = {"TZ": "EET-2", "HOME": "/home/dev", "ROLLOUT_HOME": str(a_home(home))}
    with (
        contextlib.ExitStack() as restored,
        mock.patch.dict(os.environ, changes),
        contextlib.chdir(home),
        mock.patch("rollout_cli.units.time.time", return_value=NOW.timestamp()),
        mock.patch("rollout.home.maintenance.disk_usage._estimate_sealed", return_value=SEALED_BYTES),
    ):
        os.environ.pop("ROLLOUT_KEYS_FILE", None)
        restored.callback(time.tzset)
        time.tzset()
        assert run("index").code == 0
        yield home


def plain(text: str) -> str:
    return _CODE.sub("", text)


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_is_as_it_was_when_somebody_last_looked_at_it(name: str, home: Path) -> None:
    told = []
    for command in VIEWS[name]:
        words = command.split()
        told.append(f"$ rollout {command}\n")
        for columns in WIDTHS:
            ran = run_on_terminal(columns, *words)
            assert max(map(cell_len, ran.out.splitlines()), default=0) <= columns
            assert not set(home.parts[-2:]) & set(re.split(r"[/\s]+", ran.out)), "its length would tell"
            told.append(f"-- {columns} columns\n{ran.out}")
        in_colour = run_on_terminal(COLOUR_COLUMNS, *words, term="xterm-256color", colour=True)
        assert plain(in_colour.out) == run_on_terminal(COLOUR_COLUMNS, *words).out
        ran = run(*words)
        assert "\x1b" not in ran.out
        told += [f"-- {COLOUR_COLUMNS} columns, in colour\n{in_colour.out}", f"-- in a pipe: exit code {ran.code}\n"]
        told += [ran.out, *(f"standard error: {line}\n" for line in ran.err.splitlines()), "\n"]
    compare(name, "".join(told).replace("\x1b", "␛").replace(str(home), "/home/dev/.codex"))


def test_the_screens_of_a_replay_are_as_they_were() -> None:
    told = []
    with mock.patch.dict(os.environ, {"TERM": "xterm-256color", "COLORTERM": ""}):
        os.environ.pop("NO_COLOR", None)
        for title, keys in PAGES.items():
            for columns in WIDTHS:
                rows = drawn(keys, columns, ROWS)
                assert max(cell_len(plain(row)) for row in rows) <= columns
                told.append(f"-- {title}, {columns} columns\n" + "\n".join(map(plain, rows)) + "\n")
            told.append(f"-- {title}, in colour\n" + "\n".join(drawn(keys, COLOUR_COLUMNS, ROWS)) + "\n\n")
    trimmed = re.sub(r" +$", "", "".join(told), flags=re.MULTILINE)
    compare("replay_screens", trimmed.replace("\x1b", "␛"))


def drawn(keys: str, columns: int, rows: int) -> tuple[str, ...]:
    """What a replay of the first session draws once these keys were pressed."""
    with rollout.replay(MAIN) as playback:
        player = Player(playback)
        player.fit(rows - FRAME_ROWS)
        for key in keys:
            player.press(key)
            while player.is_busy:
                player.work()
        return render(page(player, columns, rows), columns)


def test_every_file_of_views_is_that_of_a_view() -> None:
    assert {path.stem for path in FOLDER.glob("*.txt")} == {*VIEWS, "replay_screens"}
