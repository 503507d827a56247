"""`show` and `stats`: a session on a page and what many have spent, as text at several widths and as JSON."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from rich.cells import cell_len
from rollout_cli.units import short_number
from rollout_cli.views.totals import chart

from tests import builders as b
from tests.cli import run, thread_id, turn, write, write_session
from tests.cli.homes import mixed_home, run_on_terminal
from tests.metered import LATER, metered

WIDE = "\u4f60\u597d\uff0c\u4e16\u754c \U0001f44b\U0001f3fd \u05e9\u05dc\u05d5\u05dd"
SHOW_KEYS = [
    *("thread_id", "name", "path", "session", "ended", "model", "models", "items", "tools", "compactions"),
    *("rollbacks", "damaged_lines", "spent", "spent_by_day", "context_tokens", "window_tokens", "token_usage"),
    *("turns", "last_user", "last_assistant"),
]
STATS_KEYS = [
    *("sessions", "files", "turns", "bytes", "requests", "spent", "context_tokens", "without_tokens"),
    *("by_day", "by_model", "by_project", "notes"),
]


@pytest.fixture
def session(tmp_path: Path) -> Path:
    """A turn with a call that failed, one that was taken back, a compaction, one more turn."""
    failed = b.item("function_call_output", call_id="c1", output="Exit code: 1\nno")
    return write(
        tmp_path,
        b.log(b.session_meta(cli_version="0.169.0")),
        turn("t1", b.user("fix the tests"), b.call(), failed, b.assistant("done"), metered(100, 100)),
        turn("t2", b.user("no, break them"), b.assistant("no"), metered(300, 200)),
        b.log(b.rolled_back(1)),
        turn(
            "t3",
            b.compacted([b.user_item("so far")]),
            b.user(WIDE),
            b.assistant("an answer\nof two lines"),
            metered(350, 50),
        ),
        b"garbage\n",
    )


def facts(text: str) -> dict[str, str]:
    return {row[:12].strip(): row[12:] for row in text.splitlines()[:20] if not row.startswith(" ")}


def test_show_tells_who_where_and_what_it_took(session: Path) -> None:
    ran = run("show", session)
    assert (ran.code, ran.err) == (0, "")
    told = facts(ran.out)
    assert told["session"] == b.THREAD
    assert told["file"] == str(session)
    assert told["where"] == "/p  0.169.0"
    assert told["model"] == "gpt-5 (line 3)"
    assert told["turns"] == "2 stand, 1 undone; 3 items"
    assert told["tokens"] == "350 spent"
    assert told["context"] == "50 tokens of 1,000 (5%)"
    assert told["tools"] == "f: 1 call, 1 failed"
    assert told["rollbacks"] == "line 16: 1 turn"
    assert told["compactions"] == "line 19: to 1 item"
    assert told["damage"] == "1 line; rollout verify lists all damage"


def test_show_lists_the_turns_with_what_each_did_and_the_last_exchange(session: Path) -> None:
    rows = run("show", session).out.splitlines()
    first = next(i for i, row in enumerate(rows) if row.startswith(" turn"))
    assert [row.split()[:6] for row in rows[first + 1 : first + 4]] == [
        ["1", "completed", "0.0s", "1", "1", "100"],
        ["-", "undone", "0.0s", "200", "no,", "break"],
        ["2", "completed", "0.0s", "50", *WIDE.split()[:2]],
    ]
    said = ["", "last user message", f"  {WIDE}", "", "last assistant message", "  an answer", "  of two lines"]
    assert rows[first + 4 :] == said


def test_show_draws_how_the_context_grew_by_turn(session: Path) -> None:
    growth = facts(run("show", session).out)["growth"]
    assert growth == "\u2584\u2588\u2582  context by turn, at most 200"


@pytest.mark.parametrize("columns", [80, 120, 200])
@pytest.mark.parametrize("command", ["show", "stats"])
def test_no_line_is_wider_than_the_terminal(session: Path, tmp_path: Path, command: str, columns: int) -> None:
    long = b.log(b.session_meta(thread_id(1), cwd="/very/long" * 40))
    home = tmp_path / "home"
    write_session(home, 1, long, turn("t1", b.user(WIDE * 20), b.assistant(WIDE * 20), metered(9, 9)))
    args: list[str | Path] = ["show", session] if command == "show" else ["stats", "--home", home]
    for each in (args, ["show", "-1", "--home", home]):
        ran = run_on_terminal(columns, *each)
        assert ran.code == 0
        assert max(map(_columns, ran.out.splitlines())) <= columns


def _columns(text: str) -> int:
    return cell_len(re.sub("\x1b\\[[0-9;]*m", "", text))


def test_show_json_has_the_keys_that_scripts_rely_on_in_their_order(session: Path) -> None:
    ran = run("show", session, "--json")
    assert (ran.code, ran.err) == (0, "")
    found = ran.json
    assert list(found) == SHOW_KEYS
    assert (found["damaged_lines"], found["items"], found["context_tokens"]) == (1, 3, 50)
    assert [(each["stands"], each["calls"], each["spent"]["total_tokens"]) for each in found["turns"]] == [
        *[(True, 1, 100), (False, 0, 200), (True, 0, 50)],
    ]
    assert found["tools"] == [{"name": "f", "calls": 1, "failures": 1, "undone": 0}]
    assert found["compactions"][0]["items"] == found["rollbacks"][0]["turns"] == 1
    assert found["last_user"] == b.user_item(WIDE)


def test_show_shows_the_newest_turns_and_all_of_them_when_asked(tmp_path: Path) -> None:
    path = write(tmp_path, *(turn(f"t{n}", b.user(f"question {n}")) for n in range(30)))
    newest, everything = run("show", path).out, run("show", path, "--all").out
    assert "10 older ones: --all shows them" in newest
    assert "question 9\n" not in newest
    assert re.search(r"^ +30 .*question 29$", newest, re.MULTILINE)
    assert all(f"question {n}\n" in everything for n in range(30))


def test_show_of_an_empty_log_says_what_there_is_not(tmp_path: Path) -> None:
    told = facts(run("show", write(tmp_path, b.log(b.session_meta()))).out)
    assert (told["model"], told["turns"], told["tokens"]) == ("(none yet)", "0 stand; 0 items", "(not recorded)")


def test_show_of_a_fork_says_that_what_its_base_spent_is_not_counted(tmp_path: Path) -> None:
    source = write_session(tmp_path, 1, b.log(b.session_meta(thread_id(1)), b.user("a"), metered(100, 100)))
    size = next(tmp_path.rglob(f"*{source}.jsonl")).stat().st_size
    base = {"thread_id": source, "end_byte_offset": size}
    write_session(tmp_path, 2, b.log(b.session_meta(thread_id(2), history_base=base), b.user("b"), metered(130, 30)))
    told = facts(run("show", "-1", "--home", tmp_path).out)
    assert told["tokens"] == "30 spent here, its base's not counted"
    assert told["turns"] == "2 stand; 2 items"


def test_show_refuses_what_is_no_rollout_with_what_to_try(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("notes\n")
    ran = run("show", path)
    assert (ran.code, ran.out) == (3, "")
    assert "check the path" in ran.err


def test_stats_tells_what_was_spent_and_what_is_in_context(tmp_path: Path) -> None:
    write_session(tmp_path, 1, b.log(b.session_meta(thread_id(1))), turn("t1", b.user("a"), metered(1500, 1500)))
    write_session(
        tmp_path, 2, b.log(b.session_meta(thread_id(2))), turn("t1", b.user("a"), metered(40, 40, time=LATER))
    )
    write_session(tmp_path, 3, b.log(b.session_meta(thread_id(3))), turn("t1", b.user("a")))
    ran = run("stats", "--home", tmp_path)
    assert (ran.code, ran.err) == (0, "")
    told = facts(ran.out)
    assert told["sessions"].startswith("3, 3 turns")
    assert "            1 without token counts" in ran.out.splitlines()
    assert told["spent"] == "1,540 tokens in 2 requests"
    assert told["in context"] == "1,540 tokens now"
    rows = [row.split() for row in ran.out.splitlines()]
    assert ["1.5", "k", "1.5", "k", "2", "3", "gpt-5"] in rows
    assert ["40", "40", "1", "1", "2026-03-22"] in rows
    assert "and 1 more: --limit shows them" in run("stats", "--home", tmp_path, "--limit", "1").out


def test_stats_json_has_the_keys_that_scripts_rely_on_in_their_order(tmp_path: Path) -> None:
    ran = run("stats", "--home", mixed_home(tmp_path), "--json")
    assert (ran.code, ran.err) == (0, "")
    assert list(ran.json) == STATS_KEYS
    assert ran.json["sessions"] == ran.json["without_tokens"] == 5
    assert [list(row) for row in ran.json["by_project"]] == [
        [key, "sessions", "requests", "spent", "context_tokens"] for key in ["project"] * len(ran.json["by_project"])
    ]


def test_stats_of_nothing_says_so(tmp_path: Path) -> None:
    ran = run("stats", "--home", tmp_path)
    assert ran.code == 0
    assert ran.err == f"rollout: no sessions in {tmp_path} fit, or there are none\n"


def test_a_chart_has_a_bar_a_value_and_fits_where_there_are_more() -> None:
    assert chart([1, None, 0, 8, 4]) == "\u2581  \u2588\u2584"
    assert chart([]) == chart([None, 0]) == ""
    assert len(chart(range(1000), 72)) <= 60
    assert chart([0] * 99 + [5], 22) == " " * 9 + "\u2588"


def test_counts_are_written_as_people_write_them() -> None:
    assert [short_number(each) for each in (0, 999, 1500, 2_000_000, 3 * 10**9)] == [
        "",
        "999",
        "1.5 k",
        "2.0 M",
        "3.0 G",
    ]
