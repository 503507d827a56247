"""Search: what is found, whether it still stands, and that nothing in a query or a file breaks it."""

from __future__ import annotations

import contextlib
import itertools
import os
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rollout
from rollout import SourceError, Store, UsageError
from rollout.dialects.codex.items import text_of
from rollout.home.query import fold, parse
from tests import builders as b
from tests import strategies as logs
from tests.homes import grow, meta_of, path_of, put, put_data, thread_id
from tests.searching import hits, snippets

STATUSES = {"visible", "replaced", "rolled_back", "removed"}
INDEX = "rollout-index.sqlite3"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def store(home: Path) -> Store:
    return Store(home)


# Statuses are those of explain


def expected(path: Path, home: Path, query: str) -> dict[int, tuple[str, str | None, int]]:
    """Status, turn and line of each whole line that a search is to find, by its offset; read from the file itself."""
    explained = {line.offset: line for line in rollout.explain(path, home=home) if line.inherited is None}
    found = {}
    data = path.read_bytes()
    for record in rollout.records(data[: data.rfind(b"\n") + 1]):
        line = explained.get(record.offset)
        text = None if record.is_damaged or not record.data else text_of(record.data, record.envelope)
        if text is None or line is None or line.status not in STATUSES:
            continue
        if parse(query).matches(text[1]):
            found[record.offset] = line.status, line.turn_id, line.line
    return found


def words_of(path: Path) -> list[str]:
    """Some words that the file's texts begin with."""
    texts = (text_of(record.data, record.envelope) for record in rollout.records(path) if record.data)
    words = [word for text in texts if text is not None for word in fold(text[1]).split()[:1] if word.isalnum()]
    return sorted(set(words))[:4]


@settings(max_examples=60)
@given(st.one_of(logs.well_formed_logs(4), logs.any_logs(15), logs.damaged_logs(12)), st.data())
def test_what_a_search_says_of_a_line_is_what_explain_says(data: bytes, drawn: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        home, store = Path(folder), Store(folder)
        cuts = sorted(drawn.draw(st.lists(st.integers(0, len(data)), max_size=2)))
        path = path_of(home, 1)
        for end in (*cuts, len(data)):
            put_data(path, data[:end])
            os.utime(path, (1.7e9 + end, 1.7e9 + end))
            for query in words_of(path):
                found = {hit.offset: (hit.status, hit.turn_id, hit.line) for hit in hits(store, query)}
                wanted = expected(path, home, query)
                assert found == wanted


def test_a_hit_tells_whether_it_stands_was_rolled_back_or_compacted_away(home: Path, store: Store) -> None:
    lines = [
        *(b.started("t1"), b.user("needle one"), b.completed("t1")),
        *(b.started("t2"), b.user("needle two"), b.completed("t2"), b.rolled_back(1)),
        *(b.started("t3"), b.user("needle three"), b.assistant("needle four"), b.completed("t3")),
    ]
    path = put(home, 1, *lines)
    assert [(hit.status, hit.turn_id) for hit in hits(store, "needle")] == [
        ("visible", "t3"),
        ("visible", "t3"),
        ("rolled_back", "t2"),
        ("visible", "t1"),
    ]
    grow(path, b.compacted([b.user_item("needle summary")]), b.started("t4"), b.user("needle five"), b.items_removed(1))
    told = [(hit.status, hit.snippet) for hit in hits(store, "needle")]
    assert told == [
        ("removed", "needle five"),
        ("replaced", "needle four"),
        ("replaced", "needle three"),
        ("rolled_back", "needle two"),
        ("replaced", "needle one"),
    ]
    assert snippets(hits(store, "needle", standing=False)) == snippets(hits(store, "needle"))
    assert not hits(store, "needle", standing=True)


def test_what_a_revert_goes_back_over_is_rolled_back(home: Path, store: Store) -> None:
    kept = [meta_of(1), b.user("needle kept")]
    base = put_data(path_of(home, 1), b.log(*kept, b.user("needle lost")))
    end = len(b.log(*kept))
    meta = meta_of(1, history_base={"thread_id": thread_id(1), "end_byte_offset": end})
    newer = put_data(path_of(home, 1, part=2, at=9), b.log(meta, b.user("needle new")))
    assert [(hit.path, hit.status, hit.snippet) for hit in hits(store, "needle")] == [
        (newer, "visible", "needle new"),
        (base, "rolled_back", "needle lost"),
        (base, "visible", "needle kept"),
    ]


def test_what_a_fork_has_from_its_base_is_found_once_in_the_base(home: Path, store: Store) -> None:
    base = put(home, 1, b.user("needle"))
    meta = meta_of(
        2, forked_from_id=thread_id(1), history_base={"thread_id": thread_id(1), "end_byte_offset": base.stat().st_size}
    )
    put_data(path_of(home, 2), b.log(meta, b.user("haystack"), b.rolled_back(2)))
    assert [(hit.id, hit.status) for hit in hits(store, "needle")] == [(thread_id(1), "visible")]
    assert [(hit.id, hit.status) for hit in hits(store, "haystack")] == [(thread_id(2), "rolled_back")]


# What is found


def test_hits_come_newest_session_first_and_in_a_session_newest_first(home: Path, store: Store) -> None:
    for n in (2, 3, 1):
        put(home, n, b.user(f"needle {n} a"), b.assistant(f"needle {n} b"))
    wanted = [f"needle {n} {part}" for n in (3, 2, 1) for part in "ba"]
    assert snippets(hits(store, "needle")) == wanted
    for limit in (1, 2, 4, 6, 7):
        page = store.search("needle", limit=limit)
        assert snippets(page) == wanted[:limit]
        assert (page.cursor is None) == (limit >= 6)


def test_pages_of_hits_neither_skip_nor_repeat_while_sessions_come_grow_and_go(home: Path, store: Store) -> None:
    paths = [put(home, n, b.user(f"needle {n} a"), b.user(f"needle {n} b")) for n in range(6)]
    first = store.search("needle", limit=3)
    assert snippets(first) == ["needle 5 b", "needle 5 a", "needle 4 b"]
    put(home, 9, b.user("needle 9"))
    grow(paths[4], b.user("needle 4 c"))
    paths[5].unlink()
    paths[2].unlink()
    rest = store.search("needle", limit=100, cursor=first.cursor)
    assert snippets(rest) == [
        f"needle {n} {part}" for n, part in ((4, "a"), (3, "b"), (3, "a"), (1, "b"), (1, "a"), (0, "b"), (0, "a"))
    ]
    paths[4].unlink()
    assert snippets(store.search("needle", limit=2, cursor=first.cursor)) == ["needle 3 b", "needle 3 a"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"query": ""},
        {"query": " \t"},
        {"query": "—"},
        {"query": "a " * 101},
        {"query": "a" * 10_001},
        {"query": "a", "limit": 0},
        {"query": "a", "cursor": "x"},
        {"query": "a", "kinds": ["tool"]},
        {"query": "a", "kinds": []},
        {"query": "a", "kinds": "user"},
        {"query": "a", "session_id": "?"},
    ],
)
def test_a_search_that_can_never_be_right_is_refused(store: Store, wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        store.search(**wrong)


def test_a_hit_tells_where_it_stands_and_of_which_session_it_is(home: Path, store: Store) -> None:
    first, second = b.user("other"), b.line("response_item", b.user_item("needle"), session_id="s1", tags={"k": "v"})
    path = put(home, 1, first, second)
    (home / "session_index.jsonl").write_bytes(b.log(b.dump({"id": thread_id(1), "thread_name": "Named"})))
    (hit,) = hits(store, "needle")
    assert (hit.id, hit.name, hit.path, hit.line, hit.session_id) == (thread_id(1), "Named", path, 3, "s1")
    assert path.read_bytes()[hit.offset :] == second + b"\n"
    assert hit.timestamp == b.TIME
    assert not hits(store, "other", session_id="s1")
    assert len(hits(store, "needle", session_id="s1", tags={"k": "v"})) == 1
    assert not hits(store, "needle", tags={"k": "w"})


def test_filters_of_a_list_choose_the_threads_that_are_searched(home: Path, store: Store) -> None:
    put(home, 1, b.user("needle"), cwd="/a")
    put(home, 2, b.user("needle"), cwd="/b", forked_from_id=thread_id(1))
    put(home, 3, b.user("needle"), archived=True)

    def ids(**filters: Any) -> list[int]:
        return [int(hit.id[-2:], 16) for hit in hits(store, "needle", **filters)]

    assert ids() == [2, 1]
    assert ids(cwd="/a") == [1]
    assert ids(forks=False) == [1]
    assert ids(archived=None) == [3, 2, 1]
    assert ids(archived=True) == [3]


# With an index that lives, breaks, or cannot be


def test_only_what_was_appended_is_read_again_and_only_whole_lines(home: Path, store: Store) -> None:
    path, line = put(home, 1, b.user("needle 1")), b""
    for n in range(2, 6):
        assert len(hits(store, "needle")) == n - 1
        line = b.user(f"needle {n}")
        with path.open("ab") as file:
            file.write(line)
        assert len(hits(store, "needle")) == n - 1
        with path.open("ab") as file:
            file.write(b"\n")
    with contextlib.closing(sqlite3.connect(home / INDEX)) as db, db:
        before = path.stat().st_size - len(line) - 1
        assert db.execute("SELECT count(*), max(taken) FROM texts_taken").fetchone() == (1, before)
    assert [hit.line for hit in hits(store, "needle")] == [6, 5, 4, 3, 2]


def test_a_file_in_the_place_of_another_is_searched_anew(home: Path, store: Store) -> None:
    put(home, 1, b.user("old needle"), b.user("old needle too"))
    assert len(hits(store, "old")) == 2
    path_of(home, 1).unlink()
    put(home, 1, b.user("new needle"))
    assert snippets(hits(store, "needle")) == ["new needle"]
    path_of(home, 1).unlink()
    assert not hits(store, "needle")


def test_a_file_that_breaks_or_goes_between_index_and_look_is_no_error(home: Path, store: Store) -> None:
    path = put(home, 1, b.user("needle"))
    assert len(hits(store, "needle")) == 1
    for data in (b"", b"\xff" * 300, b"{}" * 5, bytes(2000), b.log(b.user("needle"))[:-9]):
        path.write_bytes(data)
        assert not hits(store, "needle")
    path.unlink()
    os.mkfifo(path)
    assert not hits(store, "needle")


@pytest.mark.parametrize("break_it", ["garbage", "middle", "empty", "directory", "gone"])
def test_a_broken_index_is_made_anew(home: Path, break_it: str) -> None:
    for n in range(9):
        put(home, n, b.user(f"needle {n} " + " ".join(f"text{k}" for k in range(500 * n, 500 * n + 500))))
    wanted = snippets(hits(Store(home), "needle"))
    path = home / INDEX
    data = path.read_bytes()
    path.unlink()
    match break_it:
        case "garbage":
            path.write_bytes(os.urandom(len(data)))
        case "middle":
            path.write_bytes(data[:4096] + b"\xa5" * (len(data) - 8192) + data[-4096:])
        case "empty":
            path.write_bytes(b"")
        case "directory":
            path.mkdir()
    for _ in range(2):
        assert snippets(hits(Store(home), "needle")) == wanted
    assert len(wanted) == 9


def test_with_and_without_an_index_the_same_is_found(tmp_path: Path) -> None:
    homes = [tmp_path / "a", tmp_path / "b"]
    for home, n in itertools.product(homes, range(12)):
        put(home, n, b.user(f"needle {n}"), b.assistant("hay"), *([b.rolled_back(1)] if n % 3 == 0 else []))
    (homes[1] / INDEX).mkdir()
    for query in ("needle", "hay", '"needle 7"', "nee*"):
        told = [[(hit.id, hit.line, hit.status, hit.matches) for hit in hits(Store(home), query)] for home in homes]
        assert told[0] == told[1]
        assert told[0]


def test_a_database_without_full_text_search_is_a_clear_error(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(home, 1, b.user("needle"))
    monkeypatch.setattr(
        "rollout.home.index.fulltext._SCHEMA", "CREATE VIRTUAL TABLE texts USING fts5_of_another_name(text)"
    )
    with pytest.raises(SourceError, match="FTS5"):
        Store(home).search("needle")
    assert len(Store(home).list()) == 1


def test_what_is_gone_from_the_home_goes_from_the_index(
    home: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rollout.home.index.fulltext._FEW_FILES", 3)
    for n in range(8):
        put(home, n, b.user("needle"))
    assert len(hits(store, "needle")) == 8
    for n in range(6):
        path_of(home, n).unlink()
    store.refresh_index()
    assert len(hits(store, "needle")) == 2
    with contextlib.closing(sqlite3.connect(home / INDEX)) as db, db:
        assert db.execute("SELECT count(*) FROM documents").fetchone() == (2,)
        assert db.execute("SELECT count(*) FROM texts WHERE texts MATCH 'needle'").fetchone() == (2,)


def test_several_processes_that_search_a_new_home_at_once_find_the_same(home: Path) -> None:
    for n in range(60):
        put(home, n, *(b.user(f"needle {n} {k}") for k in range(5)))
    code = "import sys, rollout; print(len(rollout.Store(sys.argv[1]).search('needle', limit=1000)))"
    children = [
        subprocess.Popen([sys.executable, "-c", code, str(home)], stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    assert [child.communicate(timeout=120)[0].strip() for child in children] == ["300"] * 3
    found = Store(home).search("needle", limit=1000)
    assert len({(hit.path, hit.offset) for hit in found}) == len(found) == 300


def test_files_that_another_takes_while_a_search_is_on_its_way_are_found(home: Path, store: Store) -> None:
    for n in range(40):
        put(home, n, b.user(f"needle {n}"))
    others = [0]

    def let_another_go_first(done: int, total: int) -> None:
        for n in range(others[0], min(others[0] + 9, 40)):
            grow(path_of(home, n), b.user("needle again"))
        others[0] += 9
        assert len(Store(home).search("needle", limit=1000)) >= total

    found = store.search("needle", limit=1000, progress=let_another_go_first)
    assert {hit.id for hit in found} == {thread_id(n) for n in range(40)}


def test_a_search_that_is_interrupted_keeps_what_it_has_taken(home: Path, store: Store) -> None:
    for n in range(60):
        os.utime(put(home, n, b.user(f"needle {n}")), (1.7e9, 1.7e9))

    def stop(done: int, total: int) -> None:
        assert 0 < done <= total == 60
        if done >= 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.search("nothing", progress=stop)
    with contextlib.closing(sqlite3.connect(home / INDEX)) as db, db:
        assert 20 <= db.execute("SELECT count(*) FROM texts_taken").fetchone()[0] < 60
    assert len(hits(store, "needle")) == 60
