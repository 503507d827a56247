"""Time travel on the command line: `--at` wherever a state is shown, and `diff` of two moments or sessions."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from rich.cells import cell_len

from tests.builders import (
    assistant,
    call,
    compacted,
    context,
    developer,
    item,
    log,
    rolled_back,
    session_meta,
    token_count,
    user,
    user_item,
    world_state,
)
from tests.cli import run, turn, write, write_session
from tests.cli.homes import run_on_terminal
from tests.cli.test_hostile import ALL, FORBIDDEN, hostile_log
from tests.metered import metered
from tests.sessions import a_log, a_store, take_turn

WIDE = "漢字と絵文字 👩‍💻 עברית"


@pytest.fixture
def session(tmp_path: Path) -> Path:
    """A turn, one that compacted and was taken back with it, another."""
    return write(
        tmp_path,
        log(session_meta()),
        turn("first-1", user("q1"), assistant("a1"), token_count(1000), world_state({"shell": "bash"})),
        turn("second-2", user("q2"), compacted([user_item("summary")]), assistant("a2")),
        log(rolled_back(1)),
        turn("third-3", user(f"q3 {WIDE}"), assistant("a3"), token_count(2500), world_state({"shell": "zsh"})),
    )


def listed(*args: str | Path) -> list[str]:
    ran = run("history", *args, "--json")
    assert ran.code == 0, ran.err
    return [item["content"][0]["text"] for item in ran.json]


def test_reconstruct_says_that_it_read_from_the_base_of_a_fork_too(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    with a_log(store) as made, made.fork() as child:
        take_turn(child, "in a fork")
    ran = run("reconstruct", child.path, "--home", store.home)
    (read,) = (row for row in ran.out.splitlines() if row.startswith("read "))
    assert re.search(r" of [0-9.]+ \w+ and its base, ", read)


def test_explain_names_a_base_by_the_end_of_its_id_where_there_is_little_room(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    with a_log(store) as made:
        take_turn(made, "q")
        with made.fork() as child:
            take_turn(child, "f")
    words = ("explain", child.path, "--home", store.home)
    assert f"visible, inherited from {made.id}\n" in run(*words).out
    assert f"visible, inherited from …{made.id[-8:]}\n" in run_on_terminal(100, *words).out


@pytest.mark.parametrize(
    ("point", "texts"),
    [
        ("first-1", ["q1", "a1"]),
        ("sec", ["summary", "a2"]),
        ("…ond-2", ["summary", "a2"]),
        ("line:4", ["q1"]),
        ("line:15", ["q1", "a1"]),
        ("line:14", ["summary", "a2"]),
    ],
)
def test_history_is_listed_as_it_was_then(session: Path, point: str, texts: list[str]) -> None:
    assert listed(session, "--at", point) == texts
    end = len(b"".join(session.read_bytes().splitlines(keepends=True)[:4]))
    assert listed(session, f"--at=offset:{end}") == ["q1"]


def test_the_state_and_the_turns_are_shown_as_they_were_then(session: Path) -> None:
    document = run("reconstruct", session, "--at", "first-1", "--json").json
    assert (document["token_usage"], document["world_state"]) == ({"total_tokens": 1000}, {"shell": "bash"})
    assert "history     2 items" in run("reconstruct", session, "--at", "first-1").out
    told = run("turns", session, "--at", "second-2", "--json").json
    assert [(each["id"], each["stands"]) for each in told] == [("first-1", True), ("second-2", True)]
    assert len(run("turns", session, "--json").json) == 2
    assert run("turns", session, "--at", "line:1", "--json").json == []


def test_lines_of_ordinals_are_gone_back_to_in_the_base_too(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(log(*(b'{"ordinal":%d,' % n + line[1:] for n, line in enumerate([session_meta(), user("q")], 7))))
    assert listed(path, "--at", "ordinal:7") == []
    assert listed(path, "--at", "ordinal:8") == ["q"]


@pytest.mark.parametrize("at", ["t1", "t2", "line:4", "line:14", "ordinal:7"])
def test_show_at_a_moment_is_show_of_a_file_that_ends_there(tmp_path: Path, at: str) -> None:
    failed = item("function_call_output", call_id="c1", output="Exit code: 1")
    data = log(session_meta()) + turn("t1", user("a"), call(), failed, metered(100, 100))
    data += turn("t2", context(None, "m2"), user("b"), compacted([]), metered(200, 50)) + log(rolled_back(2))
    lines = [b'{"ordinal":%d,%b\n' % (n, line[1:]) for n, line in enumerate(data.splitlines())]
    path = write(tmp_path, *lines)
    count = {"t1": 8, "t2": 15, "line:4": 4, "line:14": 14, "ordinal:7": 8}[at]
    shown, document = run("show", path, "--at", at), run("show", path, "--at", at, "--json")
    assert (shown.code, shown.err, document.code) == (0, "", 0)
    path.write_bytes(b"".join(lines[:count]))
    assert shown.out == run("show", path).out
    assert document.out == run("show", path, "--json").out


def test_lines_are_explained_as_they_were_then(session: Path) -> None:
    told = run("explain", session, "--at", "second-2", "--json").json
    assert [each["status"] for each in told if each["kind"] == "message"] == [
        "replaced",
        "replaced",
        "replaced",
        "visible",
    ]
    assert len(told) == 14
    assert "there is no line 15" in run("explain", session, "--at", "line:14", "--line", "15").err


@pytest.mark.parametrize(
    ("point", "code", "words"),
    [
        ("none", 3, "there is no turn none; `rollout turns --all` lists all that there are"),
        ("line:99", 3, "there is no line 99; give a number from 1 to"),
        ("line:0", 3, "there is no line 0; give a number from 1 on"),
        ("ordinal:3", 3, "no line has ordinal 3; give a turn id, a line or a byte offset"),
        ("offset:3", 2, "no line ends there (at byte 3); give the offset behind a line end: "),
        ("line:x", 2, "'line:x' is no point of a session; give a turn id, or a number: ordinal:12, line:40, offset:"),
        ("offset:-1", 2, "'offset:-1' is no point of a session"),
        ("", 2, "'' is no point of a session"),
    ],
)
def test_a_moment_that_is_not_there_is_one_line_that_says_what_to_try(
    session: Path, point: str, code: int, words: str
) -> None:
    for ran in (
        run("history", session, "--at", point),
        run("turns", session, "--at", point),
        run("show", session, "--at", point),
        run("explain", session, "--at", point),
        run("diff", f"{session}@{point}", session),
    ):
        assert (ran.code, ran.out) == (code, "")
        assert words in ran.err
        assert ran.err.count("\n") == 1


def test_diff_tells_what_both_share_what_changed_and_which_items_came_and_went(session: Path) -> None:
    ran = run("diff", f"{session}@second-2", "@third-3")
    assert (ran.code, ran.err) == (0, "")
    end = len(session.read_bytes())
    facts = [(row[:12].strip(), row[12:]) for row in ran.out.splitlines()]
    assert facts[0][0] == "A"
    assert facts[0][1].endswith(f"2 items  {session}")
    assert f"byte {end}, 4 items" in facts[1][1]
    assert facts[2][1].endswith("B goes on from A")
    assert facts[2][1].startswith("up to line 14 (byte ")
    assert dict(facts[3:6]) == {
        "context": "cleared by a compaction → set",
        "world": "shell: (none) → zsh",
        "tokens": "total: (none) → 2,500 (+2,500)",
    }
    assert facts[6] == ("items", "0 kept, 2 gone, 4 added")
    assert [row.split(None, 3) for row in ran.out.splitlines()[7:]] == [
        ["-", "1", "user", "summary"],
        ["-", "2", "assistant", "a2"],
        ["+", "1", "user", "q1"],
        ["+", "2", "assistant", "a1"],
        ["+", "3", "user", f"q3 {WIDE}"],
        ["+", "4", "assistant", "a3"],
    ]


def test_diff_shows_how_many_items_were_kept_in_between_and_with_full_whole_texts(session: Path) -> None:
    ran = run("diff", f"{session}@line:15", session, "--full")
    assert "= 2 kept (1 to 2 of A)" in ran.out
    assert ran.out.splitlines()[-2:] == ["+     4  assistant", "      a3"]
    same = run("diff", session, session)
    assert "B is the same moment" in same.out
    assert "4 kept, 0 gone, 0 added" in same.out


def test_diff_json_has_the_keys_that_scripts_rely_on_in_their_order(session: Path) -> None:
    document = run("diff", f"{session}@first-1", session, "--json").json
    assert list(document) == [
        *("before", "after", "relation", "shared", "settings", "context", "world", "tokens", "kept", "items")
    ]
    assert list(document["before"]) == ["thread_id", "path", "end", "items", "previous_model"]
    assert list(document["shared"]) == ["thread_id", "path", "line", "end"]
    assert (document["relation"], document["kept"]) == ("later", 2)
    assert document["world"] == [{"key": "shell", "before": "bash", "after": "zsh"}]
    assert document["tokens"] == [{"key": "total_tokens", "before": 1000, "after": 2500}]
    assert [(each["change"], each["before"], each["after"]) for each in document["items"]] == [
        ("added", None, 2),
        ("added", None, 3),
    ]
    assert document["items"][1]["item"]["content"][0]["text"] == "a3"
    assert run("diff", session, session, "--json").json["items"] == []


def test_diff_says_why_an_item_went_if_it_is_asked(session: Path) -> None:
    ran = run("diff", f"{session}@line:10", f"{session}@second-2", "--why")
    assert [row for row in ran.out.splitlines() if row.startswith("- ")] == [
        "-     1  user       (replaced by line 12) q1",
        "-     2  assistant  (replaced by line 12) a1",
    ]
    gone = run("diff", f"{session}@second-2", session, "--why", "--json").json["items"][:2]
    assert [each["why"] for each in gone] == [
        None,
        {"status": "rolled_back", "line": 13, "by": 15, "by_offset": gone[1]["why"]["by_offset"]},
    ]
    quiet = run("diff", f"{session}@second-2", session, "--json").json["items"]
    assert [each["why"] for each in quiet] == [None] * 6


def test_diff_of_a_fork_and_its_source_names_the_line_where_they_part(tmp_path: Path) -> None:
    with a_log(a_store(tmp_path)) as source:
        take_turn(source, "q1")
        with source.fork() as child:
            end = source.end
            take_turn(source, "there")
            take_turn(child, "here")
    ran = run("diff", source.id, child.id, "--home", tmp_path)
    shared = next(row for row in ran.out.splitlines() if row.startswith("shared"))
    assert f"(byte {end}) of {source.id}: from there each goes its own way" in shared
    assert "2 kept, 2 gone, 2 added" in ran.out
    other = write_session(tmp_path, 1, log(session_meta("x"), user("q1")))
    assert "nothing: no line of one is in the other" in run("diff", source.id, other, "--home", tmp_path).out


def test_sessions_are_named_by_position_by_name_and_by_paths_with_an_at_sign(tmp_path: Path) -> None:
    for number in (1, 2):
        write_session(tmp_path, number, log(session_meta()), turn("t1", user(f"q{number}")), turn("t2", user("more")))
    home = ("--home", str(tmp_path), "--json")

    def ends(*args: str) -> list[int]:
        ran = run("diff", *args, *home)
        assert ran.code == 0, ran.err
        return [ran.json[side]["items"] for side in ("before", "after")]

    assert ends("-1@t1", "-2") == [1, 2]
    assert ends("-1", "@t1") == [2, 1]
    assert ends("-1@t1", "@line:1") == [1, 0]
    assert run("name", "-2", "me@t1", "--home", tmp_path).code == 0
    assert ends("me@t1", "me@t1@t1") == [2, 1]
    odd = tmp_path / "x@t1"
    odd.write_bytes(log(session_meta(), user("q")))
    assert ends(str(odd), f"{odd}@line:1") == [1, 0]
    missing = run("diff", "me@nothing@t1", "-1", *home)
    assert (missing.code, missing.err.count("\n")) == (3, 1)


@pytest.mark.parametrize("columns", [40, 80, 120, 200])
def test_no_line_of_a_comparison_is_wider_than_the_terminal(session: Path, columns: int) -> None:
    ran = run_on_terminal(columns, "diff", f"{session}@line:1", session)
    assert ran.code == 0
    assert max(map(cell_len, ran.out.splitlines())) <= columns


def test_nothing_in_a_comparison_acts_on_the_terminal(tmp_path: Path) -> None:
    hostile = write(tmp_path, hostile_log(ALL))
    other = write(
        tmp_path, log(session_meta(base_instructions={"text": ALL}), developer("x"), world_state({ALL: ALL})), name="x"
    )
    for args in ((hostile, other), (other, hostile), (hostile, f"@{ALL[1:]}")):
        for more in ((), ("--full",), ("--json",)):
            ran = run("diff", *map(str, args), *more)
            assert FORBIDDEN.isdisjoint(ran.out + ran.err)
            if ran.code == 0 and more == ("--json",):
                json.loads(ran.out)
