"""Lists of a home's rollouts: ten thousand of them, filtered, in pages, while files come, go, grow and break."""

from __future__ import annotations

import datetime
import json
import os
from pathlib import Path
from typing import Any

import pytest

from rollout import SessionRow, Store, UsageError
from rollout.files.disk import RealFileSystem
from tests import builders as b
from tests import homes
from tests.homes import path_of, put, put_data, thread_id
from tests.listings import all_rows, numbers, only, pages

# What a row tells


def test_a_row_tells_what_its_file_says_and_what_its_thread_is_called(tmp_path: Path) -> None:
    usage = b.token_count(77)
    path = put(
        tmp_path,
        5,
        b.started("t1"),
        b.context("t1", model="gpt"),
        b.user("fix it"),
        b.assistant("done"),
        usage,
        b.completed("t1"),
        cwd="/w/a",
        git={"branch": "main"},
        model_provider="p",
        originator="o",
        source="exec",
    )
    os.utime(path, (1.75e9, 1.75e9))
    named = {"id": thread_id(5), "thread_name": "The parser", "updated_at": homes.iso_of(0)}
    (tmp_path / "session_index.jsonl").write_bytes(b.log(b.dump(named)))
    row = only(Store(tmp_path))
    assert row == SessionRow(
        id=thread_id(5),
        path=path,
        name="The parser",
        first_message="fix it",
        cwd="/w/a",
        git_branch="main",
        model_provider="p",
        model="gpt",
        source="exec",
        originator="o",
        created=homes.iso_of(5),
        updated="2025-06-15T15:06:40.000Z",
        turns=1,
        messages=2,
        tokens=77,
        bytes=path.stat().st_size,
        archived=False,
        sealed=False,
        forked_from=None,
        parent=None,
        damaged=0,
        session_ids=(),
        trouble=None,
        files=1,
    )


def test_a_thread_has_one_row_of_the_file_that_it_goes_on_in(tmp_path: Path) -> None:
    base = put(tmp_path, 1, b.user("first"), b.assistant("a"))
    end = base.stat().st_size
    meta = homes.meta_of(1, history_base={"thread_id": thread_id(1), "end_byte_offset": end})
    newer = put_data(path_of(tmp_path, 1, part=2, at=9), b.log(meta, b.user("second")))
    row = only(Store(tmp_path))
    assert (row.path, row.files, row.first_message, row.messages) == (newer, 2, "first", 3)
    assert row.bytes == end + newer.stat().st_size
    assert row.forked_from is None


@pytest.mark.parametrize(
    "meta",
    [
        {"cwd": 7, "git": "main", "model_provider": ["p"], "originator": None, "source": 5, "timestamp": {}},
        {"cwd": "/\x1b]0;owned\x07\u202e", "git": {"branch": 3}, "source": {"subagent": 1}, "forked_from_id": []},
        {"id": 4, "timestamp": "yesterday", "history_base": "x", "source": {}, "forked_from_id": {"a": 1}},
        {"timestamp": "0001-01-01T00:00:00+23:59", "history_base": {"thread_id": 5}, "source": [], "git": None},
    ],
)
def test_facts_of_any_shape_make_a_row(tmp_path: Path, meta: dict[str, Any]) -> None:
    put(tmp_path, 1, b.user("q\x1b[2J\u202e"), **meta)
    row = only(Store(tmp_path))
    assert row.id == thread_id(1)
    assert row.first_message == "q\x1b[2J\u202e"
    json.dumps(row.created)
    for sort in ("created", "updated"):
        assert len(all_rows(Store(tmp_path), sort=sort, since="2000-01-01", subagents=True, forks=True)) == 1


# Order


def test_sorted_by_updated_what_was_written_last_comes_first_and_ties_are_broken_by_the_id(tmp_path: Path) -> None:
    for n, seconds in enumerate((30, 10, 20, 20, 40)):
        os.utime(put(tmp_path, n, b.user("q")), (1.7e9 + seconds, 1.7e9 + seconds))
    found = [numbers(page) for page in pages(Store(tmp_path), sort="updated", limit=2)]
    assert found == [[4, 0], [3, 2], [1]]


def test_rollouts_of_one_second_come_in_the_order_of_their_ids(tmp_path: Path) -> None:
    for n in (3, 1, 2):
        put_data(path_of(tmp_path, n, at=7), b.log(homes.meta_of(n), b.user("q")))
    assert [numbers(page) for page in pages(Store(tmp_path), limit=1)] == [[3], [2], [1]]


# Filters


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("mixed")
    labelled = b.line("response_item", b.user_item("labelled"), session_id="s1", tags={"k": "v", "l": "w"})
    put(home, 1, b.user("plain talk"), cwd="/work/a", model_provider="openai", source="cli")
    put(
        home,
        2,
        b.context(model="m2"),
        b.user("about parsers"),
        cwd="/work/a/deep",
        model_provider="mock",
        source="exec",
    )
    put(home, 3, labelled, cwd="/work/abc")
    put(home, 4, b.user("broken"), b"%% garbage", cwd="/else")
    put(home, 5, b.user("old"), archived=True)
    put(home, 6, b.user("child"), source={"subagent": {"thread_spawn": {"parent_thread_id": thread_id(1), "depth": 1}}})
    put(home, 7, b.user("fork"), forked_from_id=thread_id(2))
    names = [{"id": thread_id(n), "thread_name": name} for n, name in ((1, "Straße"), (2, "The PARSER"))]
    (home / "session_index.jsonl").write_bytes(b.log(*map(b.dump, names)))
    for n in range(1, 8):
        path = path_of(home, n, archived=n == 5)
        os.utime(path, (1.7e9 + n * 86400, 1.7e9 + n * 86400))
    return home


DAY = datetime.date(2026, 3, 20)


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, [4, 3, 2, 1]),
        ({"cwd": "/work/a"}, [2, 1]),
        ({"cwd": "/work/a/"}, [2, 1]),
        ({"cwd": "/work"}, [3, 2, 1]),
        ({"cwd": "/"}, [4, 3, 2, 1]),
        ({"cwd": "/wor"}, []),
        ({"cwd": Path("/work/x/../abc")}, [3]),
        ({"model_provider": "openai"}, [1]),
        ({"model": "m2"}, [2]),
        ({"source": "exec"}, [2]),
        ({"name": "parser"}, [2]),
        ({"name": "STRASSE"}, [1]),
        ({"name": ""}, [2, 1]),
        ({"session_id": "s1"}, [3]),
        ({"session_id": "s2"}, []),
        ({"tags": {"k": "v", "l": "w"}}, [3]),
        ({"tags": {"k": "v", "l": "x"}}, []),
        ({"tags": {}}, [4, 3, 2, 1]),
        ({"damaged": True}, [4]),
        ({"damaged": False}, [3, 2, 1]),
        ({"archived": True}, [5]),
        ({"archived": None}, [5, 4, 3, 2, 1]),
        ({"subagents": True}, [6, 4, 3, 2, 1]),
        ({"forks": True}, [7, 4, 3, 2, 1]),
        ({"text": "PARSER*"}, [2]),
        ({"text": '"plain talk"'}, [1]),
        ({"text": "talk plain", "cwd": "/work/a"}, [1]),
        ({"text": "nowhere"}, []),
        ({"since": DAY, "until": DAY}, [4, 3, 2, 1]),
        ({"since": "2026-03-20T00:00:03Z"}, [4, 3]),
        ({"until": "2026-03-20T00:00:03Z"}, [2, 1]),
        ({"since": "2026-03-20T01:00:03+01:00", "until": "2026-03-20T00:00:04"}, [3]),
        ({"since": datetime.datetime(2026, 3, 20, 0, 0, 4, tzinfo=datetime.UTC)}, [4]),
        ({"until": "2026-03-19"}, []),
        ({"sort": "updated", "since": "2023-11-17", "until": "2023-11-17"}, [3]),
    ],
)
def test_each_filter_leaves_what_it_asks_for(mixed: Path, filters: dict[str, Any], expected: list[int]) -> None:
    store = Store(mixed)
    assert numbers(store.list(**filters)) == expected
    assert [n for page in pages(store, limit=1, **filters) for n in numbers(page)] == expected


def test_subagents_and_forks_that_fit_are_counted_where_they_are_left_out(mixed: Path) -> None:
    store = Store(mixed)
    assert store.list().left_out == {"subagents": 1, "forks": 1}
    assert store.list(subagents=True).left_out == {"subagents": 0, "forks": 1}
    assert store.list(cwd="/work").left_out == {"subagents": 0, "forks": 0}
    told = [page.left_out for page in pages(store, limit=1)]
    assert [sum(left.values()) for left in told] == [2, 0, 0, 0]


@pytest.mark.parametrize(
    "wrong",
    [
        {"limit": 0},
        {"limit": -1},
        {"limit": True},
        {"sort": "size"},
        {"since": "tomorrow"},
        {"until": 5},
        {"session_id": "a b"},
        {"session_id": "a\n"},
        {"tags": {"k": 1}},
        {"text": ""},
        {"text": '"'},
        {"cursor": ""},
        {"cursor": "é"},
        {"cursor": "x" * 5000},
        {"cursor": "W10"},
        {"cursor": "////"},
        {"cursor": 7},
    ],
)
def test_what_can_never_be_right_is_refused(mixed: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Store(mixed).list(**wrong)


def test_a_cursor_belongs_to_its_order(mixed: Path) -> None:
    store = Store(mixed)
    cursor = store.list(limit=1).cursor
    assert cursor is not None
    assert cursor.isascii()
    assert len(cursor) < 160
    with pytest.raises(UsageError, match="cursor"):
        store.list(sort="updated", cursor=cursor)
    with pytest.raises(UsageError, match="cursor"):
        store.search("old", cursor=cursor)


# What is odd is listed or noted


def test_files_that_cannot_be_understood_are_rows_with_their_trouble(tmp_path: Path) -> None:
    put(tmp_path, 1, b.user("good"))
    put_data(path_of(tmp_path, 2), b"")
    put_data(path_of(tmp_path, 3), bytes(range(256)) * 20)
    put_data(path_of(tmp_path, 4), b'{"hello": "world"}\n[1, 2]\n')
    put_data(path_of(tmp_path, 5).with_suffix(".jsonl.zst"), b"\x28\xb5\x2f\xfdnothing of the kind")
    put_data(path_of(tmp_path, 6), b"\0" * 4096)
    rows = {row.id: row for row in Store(tmp_path).list()}
    assert len(rows) == 6
    assert rows[thread_id(1)].trouble is None
    assert rows[thread_id(2)].trouble == "empty"
    assert all(rows[thread_id(n)].trouble for n in (3, 4, 5, 6))
    assert {row.id for row in Store(tmp_path).list(damaged=True)} >= {thread_id(n) for n in (2, 3, 4, 5)}


def test_a_file_that_may_not_be_read_is_a_row_with_its_trouble(tmp_path: Path) -> None:
    class Forbidding(RealFileSystem):
        def open_read(self, path: Any) -> Any:
            if path_of(tmp_path, 2) == Path(path):
                from rollout.errors import SourceError  # noqa: PLC0415 - only here

                raise SourceError("may not be read", path=path)
            return super().open_read(path)

    put(tmp_path, 1, b.user("good"))
    put(tmp_path, 2, b.user("secret"))
    rows = {row.id: row for row in Store(tmp_path, fs=Forbidding(tmp_path)).list()}
    assert rows[thread_id(1)].trouble is None
    assert "may not be read" in (rows[thread_id(2)].trouble or "")


def test_what_is_no_rollout_file_is_noted_and_never_opened(tmp_path: Path) -> None:
    put(tmp_path, 1, b.user("good"))
    folder = path_of(tmp_path, 1).parent
    outside = put_data(tmp_path.parent / f"{tmp_path.name}-outside" / "secret.jsonl", b.log(b.user("secret")))
    os.mkfifo(path_of(tmp_path, 2))
    path_of(tmp_path, 3).symlink_to(outside)
    (folder / "linked").symlink_to(outside.parent)
    put_data(folder / "notes.jsonl", b"{}")
    put_data(folder / "rollout-\udcff\x1b[2J.jsonl", b"{}")
    path_of(tmp_path, 4).mkdir()
    page = Store(tmp_path).list()
    assert numbers(page) == [1]
    assert {note.path.name for note in page.notes} == {
        *(path_of(tmp_path, n).name for n in (2, 3, 4)),
        *("linked", "notes.jsonl", "rollout-\udcff\x1b[2J.jsonl"),
    }
    assert all(note.what for note in page.notes)
    assert not Store(tmp_path).search("secret")


def test_a_home_that_is_not_there_or_empty_has_an_empty_list(tmp_path: Path) -> None:
    for home in (tmp_path / "nowhere", tmp_path):
        page = Store(home).list()
        assert not page
        assert page.cursor is None
        assert not page.notes
    assert not (tmp_path / "nowhere").exists()


def test_any_bytes_in_the_index_of_names_leave_the_list_whole(tmp_path: Path) -> None:
    put(tmp_path, 1, b.user("q"))
    index = [
        b'{"id":"%b","thread_name":7}' % thread_id(1).encode(),
        b"\xff",
        b"[",
        b'{"id":1}',
        b'{"thread_name":"\\ud800"}',
    ]
    (tmp_path / "session_index.jsonl").write_bytes(b.log(*index) + b'{"id":"')
    assert only(Store(tmp_path)).name is None


def test_where_there_can_be_no_index_the_list_is_the_same(mixed: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    for path in mixed.rglob("*.jsonl"):
        copy = put_data(bare / path.relative_to(mixed), path.read_bytes())
        os.utime(copy, ns=(0, path.stat().st_mtime_ns))
    (bare / "rollout-index.sqlite3").mkdir()
    for filters in ({}, {"text": "parsers"}, {"archived": None, "forks": True, "subagents": True}):
        with_index, without = Store(mixed).list(**filters), Store(bare).list(**filters)
        assert [(row.id, row.first_message, row.name, row.updated) for row in with_index] == [
            (row.id, row.first_message, row.name, row.updated) for row in without
        ]
        assert with_index.left_out == without.left_out
