"""`rollout replay`: printed, as JSON, and key by key."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest
from rich.cells import cell_len
from rollout_cli.replay import steps as replayed
from rollout_cli.replay.player import Player
from rollout_cli.replay.screen import page, render, split_keys, wrapped
from rollout_cli.terminal import Line
from rollout_cli.units import duration, seconds_between

import rollout
from tests import homes
from tests.builders import (
    assistant,
    assistant_item,
    call,
    compacted,
    line,
    log,
    output,
    rolled_back,
    session_meta,
    user,
    user_item,
)
from tests.cli import run, turn, write
from tests.cli.test_hostile import ALL, FORBIDDEN, hostile_log

SIZES = [(80, 24), (140, 40), (30, 8)]
CJK = "漢字かな交じり文のテスト" * 20
EMOJI = "\U0001f469\u200d\U0001f4bb \U0001f44d\U0001f3fd " * 40


def at(seconds: float, kind: str, payload: object) -> bytes:
    """A line of that many seconds after ten."""
    return line(kind, payload, timestamp=f"2026-03-20T10:{int(seconds) // 60:02}:{seconds % 60:06.3f}Z")


@pytest.fixture
def session(tmp_path: Path) -> Path:
    """Two turns, a compaction that is taken back, and a last one."""
    return write(
        tmp_path,
        log(session_meta(cwd="/home/dev/project")),
        turn("t1", user("fix the tests"), call(), output(text="3 failed\n" * 50), assistant("done")),
        turn("t2", compacted([user_item("kept"), assistant_item("summary")])),
        turn("t3", user("and now break them"), assistant("no")),
        log(rolled_back(1)),
        turn("t4", user("third"), assistant("an answer")),
    )


def text_of(rows: list[Line]) -> list[str]:
    return ["".join(span if isinstance(span, str) else span[0] for span in row).rstrip() for row in rows]


def shown(player: Player, columns: int = 80, rows: int = 24) -> list[str]:
    return text_of(page(player, columns, rows))


def press(player: Player, *keys: str) -> Player:
    for key in keys:
        player.press(key)
        while player.is_busy:
            player.work()
    return player


def current(player: Player) -> str:
    (row,) = [row for row in shown(player) if row.startswith(">")]
    return row[11:]


# Printed


def test_a_replay_in_a_pipe_prints_every_step_and_says_what_became_of_it(session: Path) -> None:
    ran = run("replay", session)
    assert (ran.code, ran.err) == (0, "")
    assert [row[:21].rstrip() for row in ran.out.splitlines()] == [
        "           turn",
        "   folded  4 steps, r",
        *["    +0.0s  completed", "    +0.0s  turn", "    +0.0s  compacted", "    +0.0s  completed", "    +0.0s  turn"],
        *["   undone  user", "   undone  assistant", "    +0.0s  completed", "    +0.0s  rollback", "    +0.0s  turn"],
        *["    +0.0s  user", "    +0.0s  assistant", "    +0.0s  completed"],
    ]
    assert run("replay", session, "--no-input").out == ran.out


def test_what_is_folded_can_be_printed_and_whole_texts_too(session: Path) -> None:
    rows = run("replay", session, "--unfold").out.splitlines()
    assert "   folded  user       fix the tests" in rows
    full = run("replay", session, "--unfold", "--full").out
    assert full.count("      3 failed\n") == 50
    assert "context" in run("replay", session, "--all").out
    assert "session" not in run("replay", session).out


def test_replay_json_has_a_step_an_object_with_stable_keys(session: Path) -> None:
    steps = run("replay", session, "--json").json
    assert list(steps[0]) == [
        *["kind", "name", "status", "by_offset", "turn_id", "timestamp", "offset", "end_offset", "inherited"],
        *["reason", "label", "text"],
    ]
    told = {each.offset: each for each in rollout.explain(session)}
    assert all(step["status"] == told[step["offset"]].status for step in steps)
    assert [step["text"] for step in steps if step["status"] == "rolled_back"] == ["and now break them", "no"]
    assert len(run("replay", session, "--json", "--all").json) == len(told)


def test_what_came_after_a_moment_is_not_replayed(session: Path) -> None:
    steps = run("replay", session, "--at", "t2", "--json").json
    assert steps[-1]["turn_id"] == "t2"
    assert [step["text"] for step in steps if step["status"] == "replaced"][:1] == ["fix the tests"]
    with rollout.replay(session, at="t1") as playback:
        player = Player(playback, at_end=True)
        assert current(player).startswith("completed")
        assert "t1" in "".join(shown(player))
        assert "there is no more" in shown(press(player, "n"))[-2]


def test_the_end_of_a_turn_tells_its_duration_and_the_tokens(tmp_path: Path) -> None:
    usage = {"type": "token_count", "info": {"total_token_usage": {"total_tokens": 12345}}}
    path = write(
        tmp_path,
        log(
            at(0, "event_msg", {"type": "task_started", "turn_id": "t"}),
            at(1, "response_item", user_item("q")),
            at(62, "event_msg", usage),
            at(63.5, "event_msg", {"type": "task_complete", "turn_id": "t"}),
        ),
    )
    assert run("replay", path).out.splitlines()[1:] == [
        "    +1.0s  user       q",
        "   +1m02s  completed  after 1m03s, 12,345 tokens in all",
    ]


def test_recorded_time_is_played_so_many_times_as_fast_and_long_pauses_are_cut(tmp_path: Path) -> None:
    path = write(tmp_path, log(*(at(s, "response_item", user_item("q")) for s in (0, 2, 2, 600))))
    waits: list[float] = []
    with rollout.replay(path) as playback:
        steps = list(replayed.paced(playback.steps(), 4.0, waits.append, lambda: None))
        assert len(list(replayed.paced(playback.steps(), None, waits.append, lambda: None))) == len(steps) == 4
    assert waits == [0.5, replayed.LONGEST_WAIT_S]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(None, ""), (0.04, "0.0s"), (9.94, "9.9s"), (59.9, "59s"), (185, "3m05s"), (7800, "2h10m"), (864000, "10d")],
)
def test_a_duration_is_said_in_six_characters(seconds: float | None, said: str) -> None:
    assert duration(seconds) == said


def test_times_that_are_missing_wrong_or_go_backwards_pass_no_time() -> None:
    assert seconds_between(None, "2026-03-20T10:00:00Z") is None
    assert seconds_between("x", "2026-03-20T10:00:00Z") is None
    assert seconds_between("2026-03-20T10:00:00", "2026-03-20T10:00:00Z") == 0  # without a zone it is UTC
    assert seconds_between("2026-03-20T10:00:01Z", "2026-03-20T10:00:00Z") is None


def test_wrong_usage_of_a_replay_is_one_line(session: Path) -> None:
    for args in (["--speed", "0"], ["--speed", "-1"], ["--speed", "nan"], ["--follow"], ["--at", "line:x"]):
        ran = run("replay", session, *args)
        assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)


@pytest.mark.parametrize("flags", [[], ["--full", "--unfold", "--all"], ["--json", "--all"]], ids=" ".join)
def test_a_hostile_session_prints_nothing_that_acts_on_a_terminal(flags: list[str], tmp_path: Path) -> None:
    ran = run("replay", write(tmp_path, hostile_log(ALL)), *flags)
    assert ran.code == 0
    assert FORBIDDEN.isdisjoint(ran.out)


# Key by key


def test_steps_go_on_and_back_and_stop_at_both_ends(session: Path) -> None:
    with rollout.replay(session) as playback:
        player = Player(playback)
        assert current(player).startswith("turn       t1")
        assert "there is no more" in shown(press(player, "p"))[-2]
        assert current(press(player, "n", "down")) == "call       f({})"
        assert current(press(player, "p")) == "user       fix the tests"
        assert current(press(player, "G")).startswith("completed")
        assert "there is no more" in shown(press(player, "n"))[-2]
        assert current(press(player, "g")).startswith("turn       t1")


def test_turns_compactions_rollbacks_and_texts_are_jumped_to(session: Path) -> None:
    with rollout.replay(session) as playback:
        player = Player(playback)
        assert current(press(player, "t")).startswith("turn       t2")
        assert current(press(player, "T")).startswith("turn       t1")
        assert current(press(player, "c")).startswith("compacted  2 items")
        assert current(press(player, "r")) == "rollback   1 turn taken back"
        assert "not found behind this step" in shown(press(player, "r"))[-2]
        assert current(press(player, "C")).startswith("compacted")
        assert current(press(player, "/", *"AN ANSwer", "enter")) == "assistant  an answer"
        assert "not found behind this step" in shown(press(player, "."))[-2]
        assert "not found before this step" in shown(press(player, "?", *"nowhere", "enter"))[-2]
        assert current(press(player, "?", *"fix", "enter")) == "user       fix the tests"


def test_what_is_typed_can_be_mended_and_given_up(session: Path) -> None:
    with rollout.replay(session) as playback:
        player = press(Player(playback), "/", "a", "b", "backspace")
        assert shown(player)[-2] == " search: a_"
        assert player.typed == "a"
        assert press(player, "escape").typed is None
        assert press(player, "/", "backspace").typed is None


def test_each_moment_shows_what_stood_then(session: Path) -> None:
    with rollout.replay(session) as playback:
        player = press(Player(playback), "r", "p", "p")
        assert current(player) == "assistant  no"
        assert not [row for row in shown(player) if "undone" in row]
        assert [row for row in shown(player) if "folded" in row] == ["   folded  what came before: f unfolds it"]
        assert [row[11:] for row in shown(press(player, "r")) if "undone" in row] == [
            "user       and now break them",
            "assistant  no",
        ]
        assert "   folded  user       fix the tests" in shown(press(player, "f"))


def test_what_the_model_saw_is_the_history_of_that_moment(session: Path) -> None:
    with rollout.replay(session) as playback:
        player = press(Player(playback), "r", "m")
        assert [row for row in shown(player) if row][:5] == [
            " what the model saw: all 2 items",
            " user",
            "   kept",
            " assistant",
            "   summary",
        ]
        assert player.sheet is not None
        assert press(player, "q").sheet is None
        assert not player.is_done


def test_more_of_what_the_model_saw_comes_when_its_top_is_passed(tmp_path: Path) -> None:
    path = write(tmp_path, log(*(user(f"q{n}") for n in range(300))))
    with rollout.replay(path) as playback:
        player = press(Player(playback), "G", "m")
        assert shown(player)[0] == " what the model saw: the newest 200 items"
        press(player, "g", "up")
        assert shown(player)[0] == " what the model saw: all 300 items"


def test_a_whole_text_is_scrolled_from_its_first_row_to_its_last(session: Path) -> None:
    with rollout.replay(session) as playback:
        player = press(Player(playback), "n", "n", "n")
        assert "… enter shows all of it" in "".join(shown(player))
        press(player, "enter")
        assert shown(player)[1:3] == [" output", "   3 failed"]
        press(player, "up")
        shown(press(player, *["pagedown"] * 9))
        assert player.sheet is not None
        assert shown(player)[-2] == f" from row {player.sheet.top + 1} of 52"
        assert player.sheet.top == 52 - 21


def test_playing_takes_each_step_when_its_time_has_come(tmp_path: Path) -> None:
    path = write(tmp_path, log(*(at(s, "response_item", user_item(f"q{s}")) for s in (0, 4, 44))))
    with rollout.replay(path) as playback:
        player = Player(playback, speed=4)
        player.tick(100.0)
        assert player.wait_seconds(100.0) == 1.0
        assert "playing x4" in shown(player)[-2]
        player.tick(101.0)
        assert current(player) == "user       q4"
        player.tick(101.0)
        assert player.wait_seconds(101.0) == replayed.LONGEST_WAIT_S
        press(player, "+")
        assert "playing x8" in shown(player)[-2]
        press(player, " ")
        assert player.wait_seconds(101.0) == math.inf
        press(player, " ")
        player.tick(200.0)
        player.tick(205.0)
        player.tick(205.0)
        assert current(player) == "user       q44"
        assert not player.is_playing


def test_following_shows_what_is_written_and_survives_what_is_cut(session: Path) -> None:
    with rollout.replay(session) as playback:
        player = Player(playback, follows=True)
        player.tick(1.0)
        before = session.stat().st_size
        with session.open("ab") as file:
            file.write(log(user("written later")))
        player.tick(1.1)
        player.tick(1.5)
        assert current(player) == "user       written later"
        os.truncate(session, before)
        player.tick(2.0)
        assert current(player).startswith("completed")
        session.unlink()
        player.tick(3.0)
        assert "no such file" in shown(player)[-2]


def test_a_search_goes_on_while_a_file_is_followed(tmp_path: Path) -> None:
    path = write(tmp_path, log(session_meta(), user("the needle"), *[user("hay" * 900)] * 600))
    with rollout.replay(path) as playback:
        player = Player(playback, follows=True)
        for key in ("?", *"needle", "enter"):
            player.press(key)
        player.work()
        assert player.pending is not None
        with path.open("ab") as file:
            file.write(log(user("written meanwhile")))
        player.tick(9.0)
        while player.is_busy:
            player.work()
        assert current(player) == "user       the needle"
        player.tick(18.0)
        assert current(player) == "user       written meanwhile"


@pytest.mark.parametrize("speed", [None, 1.0])
def test_following_goes_on_in_the_file_in_which_the_thread_goes_on_and_says_so(
    tmp_path: Path, speed: float | None
) -> None:
    path = homes.put(tmp_path, 1, user("q1"), user("q2"))
    base = {"thread_id": homes.thread_id(1), "end_byte_offset": path.stat().st_size - len(log(user("q2")))}
    now_s = 0.0
    with rollout.replay(path, home=tmp_path, clock=lambda: now_s) as playback:
        player = Player(playback, follows=True, speed=speed)
        assert current(player) == "user       q2"
        new = homes.put_data(homes.path_of(tmp_path, 1, part=2, at=9), b"")
        now_s = 2.0
        player.tick(2.0)
        assert f"the thread goes on in {new.name}" in shown(player)[-2]
        assert player.scene is None
        new.write_bytes(log(homes.meta_of(1, history_base=base)))
        player.tick(3.0)
        assert current(player) == "user       q1"
        homes.grow(new, user("q3"))
        player.tick(4.0)
        press(player, "G")
        assert current(player) == "user       q3"
        assert "following" in shown(player)[-2]


@pytest.mark.parametrize(("columns", "rows"), SIZES, ids=str)
def test_every_page_fits_its_screen_whatever_it_shows(columns: int, rows: int, tmp_path: Path) -> None:
    texts = [CJK, EMOJI, "\u05e9\u05dc\u05d5\u05dd " * 40, "x" * 5000, "a\tb\n" * 9, ALL, "e\u0301" * 200]
    path = write(tmp_path, *(turn(text[:9], user(text), call(), output(text=text)) for text in texts), hostile_log(ALL))
    with rollout.replay(path) as playback:
        player = Player(playback)
        press(player, "G")
        for _ in range(12):
            for keys in (["p"], ["enter"], ["q"], ["m"], ["q"]):
                press(player, *keys)
                drawn = render(page(player, columns, rows), columns)
                plain = [text.rstrip() for text in text_of(page(player, columns, rows))]
                assert len(drawn) == len(plain) <= rows
                assert FORBIDDEN.isdisjoint("".join(drawn).replace("\x1b", "").replace("\u200d", ""))
                for text in drawn:
                    assert cell_len("".join(part.partition("m")[2] for part in f"m{text}".split("\x1b["))) <= columns


def test_a_text_is_wrapped_to_cells_and_no_word_of_it_is_lost() -> None:
    for text in (CJK, "word " * 50, "x" * 100, "漢 a " * 30):
        lines = wrapped(text, 20)
        assert all(cell_len(each) <= 20 for each in lines)
        assert "".join(lines) == text


def test_keys_are_told_apart_however_they_are_spelled() -> None:
    assert list(split_keys("n\x1b[A\x1b[6~\x1bOF\r\t\x7f\x1b[99~\x00é\x1b")) == [
        *["n", "up", "pagedown", "end", "enter", "tab", "backspace", "é", "escape"],
    ]
