"""`rollout replay` on a terminal: drawn, stepped through with real keys, given back as it was."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

import pytest
from rich.style import Style
from rich.text import Text
from rollout_cli.items import STYLES
from rollout_cli.replay import steps
from rollout_cli.replay.screen import render

from tests.builders import assistant, call, event, line, log, output, rolled_back, session_meta, user, user_item
from tests.cli import turn, write
from tests.cli.screens import on_screen
from tests.cli.test_hostile import ALL, FORBIDDEN, hostile_log

CJK = "漢字かな交じり文のテスト" * 20
EMOJI = "\U0001f469\u200d\U0001f4bb \U0001f44d\U0001f3fd " * 40


@pytest.fixture
def session(tmp_path: Path) -> Path:
    """Two turns, of which the second is taken back, and a third."""
    return write(
        tmp_path,
        log(session_meta(cwd="/home/dev/project")),
        turn("t1", user("fix the tests"), call(), output(text="3 failed\n" * 50), assistant("done")),
        turn("t2", user("and now break them"), assistant("no")),
        log(rolled_back(1)),
        turn("t3", user("third"), assistant("an answer")),
    )


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (140, 40)], ids=str)
def test_a_terminal_is_drawn_stepped_through_and_given_back(columns: int, rows: int, session: Path) -> None:
    with on_screen("replay", session, columns=columns, rows=rows) as screen:
        screen.wait_for("turn       t1", "/home/dev/project", "q quit")
        screen.press("n")
        screen.wait_for(">   +0.0s  user       fix the tests")
        screen.press("r")
        screen.wait_for("rollback   1 turn taken back", "undone  user")
        screen.press("/answer\r")
        screen.wait_for("> ", "assistant  an answer", "visible")
        screen.press("m")
        screen.wait_for("what the model saw: all 6 items")
        screen.press("q\x1b[Hq")
        assert screen.wait_for_end() == 0
    assert {"?1049h", "?25l", "?7l", "?7h", "?25h", "?1049l"} <= screen.sequences


def test_a_terminal_that_is_made_smaller_is_drawn_anew(session: Path) -> None:
    with on_screen("replay", session) as screen:
        screen.wait_for("q quit")
        screen.resize(100, 12)
        screen.wait_for("enter text")
        assert len(screen.rows) == 12
        screen.press("\x03")
        assert screen.wait_for_end() == 0


def test_rows_are_styled_and_cut_as_rich_does_it_and_without_colour_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    styles = {
        *STYLES.values(),
        *steps._STYLES.values(),
        *(style for _, style in steps._STATUSES.values()),
        "bold reverse",
    }
    for style in styles:
        (drawn,), rich = render([(("x", f"{style} bold"),)], 9), Style.parse(f"{style} bold").render("x")
        assert [set(codes.split(";")) for codes in re.findall(r"\x1b\[([0-9;]*)m", drawn)] == [
            set(codes.split(";")) for codes in re.findall(r"\x1b\[([0-9;]*)m", rich)
        ]
    for columns in range(1, 12):
        text = Text("a漢字", no_wrap=True).append("かな b")
        text.truncate(columns, overflow="ellipsis")
        (drawn,) = render([("a漢字", ("かな b", "red"))], columns)
        assert re.sub(r"\x1b\[[0-9;]*m", "", drawn) == text.plain
    monkeypatch.setenv("NO_COLOR", "1")
    assert render([(("x", "bold green"), ("y", "red"))], 9) == ("\x1b[1mx\x1b[0my",)


def test_a_hostile_session_draws_nothing_but_our_own_sequences(tmp_path: Path) -> None:
    path = write(tmp_path, hostile_log(ALL), turn("t", user(CJK), assistant(EMOJI)))
    with on_screen("replay", path) as screen:
        screen.wait_for("q quit")
        screen.press("n" * 12 + "G")
        screen.wait_for("100 %")
        assert FORBIDDEN.isdisjoint(screen.text.replace("\u200d", ""))
        screen.press("q")
        assert screen.wait_for_end() == 0


def test_following_on_a_terminal_shows_a_line_soon_after_it_was_written(session: Path) -> None:
    with on_screen("replay", session, "--follow") as screen:
        screen.wait_for("following")
        with session.open("ab") as file:
            file.write(log(event("error", message="it broke")))
        screen.wait_for("it broke")
        screen.press("q")
        assert screen.wait_for_end() == 0


def test_a_terminated_replay_gives_the_terminal_back(session: Path) -> None:
    with on_screen("replay", session) as screen:
        screen.wait_for("q quit")
        os.kill(screen.child, signal.SIGTERM)
        assert screen.wait_for_end() == 130
    assert "?1049l" in screen.sequences


def test_recorded_time_is_played_on_a_terminal(tmp_path: Path) -> None:
    times = [(n, f"2026-03-20T10:00:{n:02}.000Z") for n in (0, 10, 20)]
    path = write(tmp_path, log(*(line("response_item", user_item(f"q{n}"), timestamp=stamp) for n, stamp in times)))
    begun = time.monotonic()
    with on_screen("replay", path, "--speed", "100") as screen:
        screen.wait_for("q20")
        assert time.monotonic() - begun > 0.2
        screen.press("q")
        assert screen.wait_for_end() == 0
