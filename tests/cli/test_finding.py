"""ls, tree and search: what they show, at any width and as JSON, and what they say on standard error."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from rollout_cli.homes import walk
from rollout_cli.views.sessions import tree_json, tree_rows

from rollout import SessionTree, Store
from tests.builders import assistant, compacted, log, session_meta, user, user_item
from tests.cli import Ran, file_of, run, thread_id, turn, write_session
from tests.cli.homes import DAMAGED, EMPTY, FORK, PLAIN, SUBAGENT, mixed_home, run_on_terminal

ROW_KEYS = [
    *["id", "path", "name", "first_message", "cwd", "git_branch", "model_provider", "model", "source", "originator"],
    *["created", "updated", "turns", "messages", "tokens", "bytes", "archived", "sealed", "forked_from", "parent"],
    *["damaged", "session_ids", "trouble", "files"],
]
HIT_KEYS = [
    *["id", "name", "path", "turn_id", "kind", "line", "offset", "timestamp", "snippet", "matches", "status"],
    "session_id",
]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return mixed_home(tmp_path)


def ids(ran: Ran) -> list[int]:
    """The numbers of the sessions that are listed."""
    assert ran.code == 0, ran.err
    return [int(row["id"][7]) for row in ran.json["rows"]]


def test_ls_lists_the_newest_first_and_says_what_it_left_out(home: Path) -> None:
    ran = run("ls", "--home", home)
    assert ran.code == 0
    heading, *rows = ran.out.splitlines()
    assert heading.split()[:5] == ["id", "created", "turns", "msgs", "size"]
    assert [row.split()[0] for row in rows] == [thread_id(number) for number in (EMPTY, DAMAGED, PLAIN)]
    assert rows[2].endswith("/home/dev/project  main    fix the parser")
    assert "damaged" in rows[1]
    assert rows[0].endswith("empty")
    assert ran.err.splitlines() == [
        "rollout: 1 subagent left out; --subagents shows them",
        "rollout: 1 fork left out; --forks shows them",
    ]


def test_ls_json_has_the_keys_that_scripts_rely_on_in_their_order(home: Path) -> None:
    ran = run("ls", "--home", home, "--json")
    assert (ran.code, ran.err) == (0, "")
    assert list(ran.json) == ["rows", "cursor", "left_out", "notes"]
    assert ran.json["left_out"] == {"subagents": 1, "forks": 1}
    assert (ran.json["cursor"], ran.json["notes"]) == (None, [])
    assert [list(row) for row in ran.json["rows"]] == [ROW_KEYS] * 3
    row = ran.json["rows"][2]
    assert (row["id"], row["path"]) == (thread_id(PLAIN), str(file_of(home, PLAIN)))
    assert (row["first_message"], row["turns"], row["messages"]) == ("fix the parser", 1, 2)
    assert (row["cwd"], row["git_branch"], row["model"], row["source"]) == ("/home/dev/project", "main", "gpt-5", "cli")
    assert (row["bytes"], row["damaged"], row["trouble"]) == (file_of(home, PLAIN).stat().st_size, 0, None)
    assert ran.json["rows"][0]["trouble"] == "empty"


def test_ls_shows_subagents_forks_and_the_archive_when_asked(home: Path) -> None:
    every = [EMPTY, SUBAGENT, FORK, DAMAGED, PLAIN]
    assert ids(run("ls", "--home", home, "--json", "--subagents", "--forks")) == every
    marked = run("ls", "--home", home, "--subagents", "--forks").out.splitlines()
    assert "subagent" in marked[2]
    assert "fork" in marked[3]
    assert run("archive", thread_id(DAMAGED), "--home", home).code == 0
    assert ids(run("ls", "--home", home, "--json")) == [EMPTY, PLAIN]
    assert ids(run("ls", "--home", home, "--json", "--archived")) == [DAMAGED]
    assert ids(run("ls", "--home", home, "--json", "--with-archived")) == [EMPTY, DAMAGED, PLAIN]
    assert "damaged, archived" in run("ls", "--home", home, "--archived").out.replace(
        "archived, damaged", "damaged, archived"
    )


def test_ls_goes_on_with_the_cursor_and_all_shows_every_page(home: Path) -> None:
    first = run("ls", "--home", home, "--limit", "1", "--json")
    assert ids(first) == [EMPTY]
    second = run("ls", "--home", home, "--limit", "1", "--json", "--cursor", first.json["cursor"])
    assert ids(second) == [DAMAGED]
    hint = run("ls", "--home", home, "--limit", "1").err
    assert f"there is more; --all shows it, --cursor {first.json['cursor']} goes on" in hint
    assert ids(run("ls", "--home", home, "--limit", "1", "--all", "--json")) == [EMPTY, DAMAGED, PLAIN]
    assert run("ls", "--home", home, "--cursor", "nonsense").code == 2


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (["--cwd", "/home/dev"], [PLAIN]),
        (["--provider", "m", "--model", "gpt-5"], [PLAIN]),
        (["--source", "cli"], [PLAIN]),
        (["--damaged"], [EMPTY, DAMAGED]),
        (["--undamaged"], [PLAIN]),
        (["--text", "parser"], [PLAIN]),
        (["--text", "nothing at all"], []),
        (["--since", "2026-03-21T00:00Z", "--until", "2026-03-22T12:00Z"], []),
        (["--name", "x"], []),
        (["--session-id", "s1"], []),
        (["--tag", "a=b"], []),
    ],
    ids=lambda value: " ".join(map(str, value)),
)
def test_every_filter_of_ls_reaches_the_list(filters: list[str], expected: list[int], home: Path) -> None:
    assert ids(run("ls", "--home", home, "--json", *filters)) == expected


def test_ls_sorts_by_the_time_of_writing_and_shows_it(home: Path) -> None:
    os.utime(file_of(home, DAMAGED), (2**33, 2**33))
    ran = run("ls", "--home", home, "--sort", "updated")
    assert ran.out.splitlines()[0].split()[1] == "updated"
    assert ids(run("ls", "--home", home, "--sort", "updated", "--json"))[0] == DAMAGED


@pytest.mark.parametrize("columns", [80, 100, 120, 150, 200])
def test_the_table_fits_the_terminal_and_its_ids_are_references(columns: int, home: Path) -> None:
    ran = run_on_terminal(columns, "ls", "--home", home, "--forks", "--subagents")
    assert ran.code == 0
    rows = ran.out.splitlines()
    assert max(map(len, rows)) <= columns
    assert ("cwd" in rows[0].split()) == (columns >= 110)
    assert ("branch" in rows[0].split()) == (columns >= 150)
    assert "fix the parser" in rows[-1]
    for row, number in zip(rows[1:], (EMPTY, SUBAGENT, FORK, DAMAGED, PLAIN), strict=True):
        shown = row.split()[0]
        assert shown == (thread_id(number) if columns >= 160 else thread_id(number)[:8])
        assert run("seal", shown, "--home", home, "--dry-run", "--json").json[0]["id"] == thread_id(number)


def test_ids_of_one_minute_are_shown_as_far_as_they_differ(tmp_path: Path) -> None:
    name = "sessions/2026/03/21/rollout-2026-03-21T10-00-00-{}.jsonl"
    for thread in (near := ["019d0001-0000-7000-8000-00000000000a", "019d0001-0001-7000-8000-00000000000a"]):
        path = tmp_path / name.format(thread)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(log(session_meta(thread), user("q")))
    shown = [row.split()[0] for row in run_on_terminal(100, "ls", "--home", tmp_path).out.splitlines()[1:]]
    assert sorted(shown) == sorted(thread[:13] for thread in near)


def test_an_empty_home_lists_nothing_and_says_so(tmp_path: Path) -> None:
    for command in (["ls"], ["tree"]):
        ran = run(*command, "--home", tmp_path)
        assert (ran.code, ran.out, ran.err) == (0, "", f"rollout: no sessions in {tmp_path}\n")
    assert run("ls", "--home", tmp_path, "--name", "x").err == f"rollout: no sessions in {tmp_path} fit\n"
    assert run("search", "x", "--home", tmp_path).err == "rollout: nothing found\n"
    assert run("tree", "--home", tmp_path, "--json").json == []
    assert run("ls", "--home", tmp_path, "--json").json["rows"] == []


def test_a_home_that_is_not_there_is_unreadable_if_it_was_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for command in (["ls"], ["tree"], ["search", "x"], ["du"], ["sessions"], ["index"], ["read", "-1"]):
        ran = run(*command, "--home", tmp_path / "none")
        assert (ran.code, ran.out, ran.err.count("\n")) == (3, "", 1)
    monkeypatch.setenv("ROLLOUT_HOME", str(tmp_path / "none"))
    assert run("ls").code == 0
    assert not (tmp_path / "none").exists()


def test_what_is_no_rollout_in_a_home_is_told_on_standard_error(home: Path) -> None:
    (home / "sessions" / "2026" / "03" / "21" / "rollout-strange.jsonl").write_text("x")
    ran = run("ls", "--home", home)
    assert "rollout-strange.jsonl: " in ran.err
    (note,) = run("ls", "--home", home, "--json").json["notes"]
    assert list(note) == ["path", "what"]


def test_tree_shows_what_comes_from_what(home: Path) -> None:
    rows = run("tree", "--home", home).out.splitlines()
    shown = [row.replace("2026-03-20 10:00  ", "") for row in rows]
    assert [row[:4] for row in shown] == ["019d", "019d", "019d", "├── ", "└── "]
    assert shown[3].startswith(f"├── {thread_id(FORK)}  ")
    assert "fork  in a fork" in shown[3]
    assert "subagent  as an agent" in shown[4]
    nodes = run("tree", "--home", home, "--json").json
    assert [list(node) for node in nodes] == [["depth", "of", "relation", "note", "row"]] * 5
    assert list(nodes[0]["row"]) == ROW_KEYS
    assert [(node["depth"], node["of"], node["relation"]) for node in nodes[2:]] == [
        (0, None, "root"),
        (1, thread_id(PLAIN), "fork"),
        (1, thread_id(PLAIN), "subagent"),
    ]


def test_the_lines_of_a_tree_go_on_past_the_children_of_a_node(tmp_path: Path) -> None:
    for number, above in ((1, None), (2, 1), (3, 2), (4, 1), (5, 4), (6, None)):
        forked = {} if above is None else {"forked_from_id": thread_id(above)}
        write_session(tmp_path, number, log(session_meta(thread_id(number), **forked), user("q")))
    rows = run("tree", "--home", tmp_path).out.splitlines()
    assert [row[: row.index("019d")] + row[row.index("019d") + 7] for row in rows] == [
        *["6", "1", "├── 2", "│   └── 3", "└── 4", "    └── 5"]
    ]


def test_a_tree_of_any_depth_is_shown(home: Path) -> None:
    row = Store(home).list().rows[0]
    node = SessionTree(row, "fork", ())
    for _ in range(3000):
        node = SessionTree(row, "fork", (node,))
    nodes = list(walk([node]))
    assert [depth for depth, _, _ in nodes] == list(range(3001))
    assert len(list(tree_rows(Store(home), nodes, None))) == 3001
    assert len(json.loads(b"".join(tree_json(nodes)))) == 3001


def test_search_groups_hits_by_session_and_says_what_became_of_them(home: Path) -> None:
    assert run("name", thread_id(PLAIN), "parsing", "--home", home).code == 0
    ran = run("search", "parser", "--home", home)
    assert (ran.code, ran.err) == (0, "")
    heading, *hits = ran.out.splitlines()
    assert heading.startswith(f"{thread_id(PLAIN)}  2026-03-20 ")
    assert heading.endswith("parsing")
    assert [" ".join(row.split()) for row in hits] == [
        "line 11 user rolled back now break the parser",
        "line 6 tool_output visible parser.py: 3 failures",
        "line 4 user visible fix the parser",
    ]


def test_search_json_has_the_keys_that_scripts_rely_on_in_their_order(home: Path) -> None:
    found = run("search", "break parser", "--home", home, "--json").json
    assert list(found) == ["hits", "cursor", "notes"]
    (hit,) = found["hits"]
    assert list(hit) == HIT_KEYS
    assert (hit["id"], hit["turn_id"], hit["kind"], hit["status"]) == (thread_id(PLAIN), "t2", "user", "rolled_back")
    assert [hit["snippet"][start:end] for start, end in hit["matches"]] == ["break", "parser"]
    assert file_of(home, PLAIN).read_bytes()[hit["offset"] :].startswith(user("now break the parser"))


def test_search_can_be_limited_to_kinds_and_to_what_stands(home: Path) -> None:
    def found(*args: str) -> list[str]:
        return [hit["snippet"] for hit in run("search", "parser", "--home", home, "--json", *args).json["hits"]]

    assert found("--kind", "tool_output") == ["parser.py: 3 failures"]
    assert len(found("--kind", "user", "--kind", "assistant")) == 2
    assert len(found("--standing")) == 2
    page = run("search", "parser", "--home", home, "--json", "--limit", "1").json
    assert found("--limit", "2", "--cursor", page["cursor"]) == ["parser.py: 3 failures", "fix the parser"]
    assert "a higher --limit shows it" in run("search", "parser", "--home", home, "--limit", "1").err


def test_search_tells_of_what_was_compacted_away(tmp_path: Path) -> None:
    write_session(
        tmp_path,
        1,
        log(session_meta()),
        turn("t", user("the needle"), assistant("ok")),
        log(compacted([user_item("s")])),
    )
    assert "user         replaced     the needle" in run("search", "needle", "--home", tmp_path).out


def test_search_looks_into_forks_and_subagents_unless_told_not_to(home: Path) -> None:
    for words, switch in (("fork", "--no-forks"), ("agent", "--no-subagents")):
        assert len(run("search", words, "--home", home, "--json").json["hits"]) == 1
        assert run("search", words, "--home", home, "--json", switch).json["hits"] == []


@pytest.mark.parametrize("columns", [80, 120])
def test_a_hit_far_into_a_text_is_seen_on_a_narrow_terminal(columns: int, tmp_path: Path) -> None:
    write_session(tmp_path, 1, log(session_meta(), user("word " * 300 + "needle " + "word " * 300)))
    ran = run_on_terminal(columns, "search", "needle", "--home", tmp_path)
    assert max(map(len, ran.out.splitlines())) <= columns
    assert "needle" in ran.out


@pytest.mark.parametrize("query", ["", "...", "x" * 100_000])
def test_a_query_of_nothing_is_wrong_usage(query: str, home: Path) -> None:
    ran = run("search", query, "--home", home)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
