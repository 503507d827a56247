"""What a home has spent: each token once, over sessions, files, forks and days; from the index, as files grow."""

from __future__ import annotations

from pathlib import Path

import pytest

from rollout import Stats, StatsRow, Store, UsageError
from tests import builders as b
from tests.index_home import Home, append
from tests.metered import LATER, NEW_TURN, OLD_TURN, metered
from tests.test_spending import DAY, NEXT_DAY

SOURCE, FORK = "019d0000-0000-7000-8000-000000000001", "019d0000-0000-7000-8000-000000000002"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def stats(home: Home) -> Stats:
    return Store(home.path).stats()


def rows(found: tuple[StatsRow, ...]) -> list[tuple[str | None, int, int, int, int]]:
    return [(row.key, row.sessions, row.requests, row.spent.total, row.context_tokens) for row in found]


def test_sessions_are_added_up_by_day_model_and_project(home: Home) -> None:
    home.add(1, b.context(None, "m1"), b.user("a"), metered(100, 100), b.context(None, "m2"), metered(130, 30))
    meta = b.session_meta(FORK, cwd="/q")
    home.add(2, b.context(None, "m1"), b.user("a"), metered(50, 40, time=LATER), meta=meta)
    found = stats(home)
    assert (found.sessions, found.files, found.turns, found.requests) == (2, 2, 2, 3)
    assert (found.spent.total, found.context_tokens) == (180 - 10, 70)
    assert rows(found.by_day) == [(DAY, 1, 2, 130, 30), (NEXT_DAY, 1, 1, 40, 40)]
    assert rows(found.by_model) == [("m1", 2, 2, 140, 70), ("m2", 1, 1, 30, 0)]
    assert rows(found.by_project) == [("/p", 1, 2, 130, 30), ("/q", 1, 1, 40, 40)]


def test_what_forks_share_and_what_was_rolled_back_counts_once(home: Home) -> None:
    lines = [b.started(OLD_TURN), b.context(OLD_TURN, "m1"), b.user("a"), metered(100, 100)]
    path = home.add(1, *lines, b.user("b"), metered(300, 200), b.rolled_back(1))
    assert (stats(home).spent.total, stats(home).context_tokens) == (300, 100)
    base = {"thread_id": SOURCE, "end_byte_offset": path.stat().st_size}
    home.add(2, b.user("c"), metered(350, 50), meta=b.session_meta(FORK, forked_from_id=SOURCE, history_base=base))
    copied = "019d0000-0000-7000-8000-000000000003"
    own = [b.started(NEW_TURN), b.context(NEW_TURN, "m1"), b.user("d"), metered(110, 10)]
    home.add(3, b.session_meta(SOURCE), *lines, *own, meta=b.session_meta(copied, forked_from_id=SOURCE))
    found = stats(home)
    assert (found.spent.total, found.context_tokens, found.sessions) == (300 + 50 + 10, 100 + 50 + 10, 3)
    assert Store(home.path).stats(forks=False).spent.total == 300


def test_all_files_of_a_thread_are_one_session(home: Home) -> None:
    path = home.add(1, b.context(None, "m1"), b.user("a"), metered(100, 100))
    base = {"thread_id": SOURCE, "end_byte_offset": path.stat().st_size}
    revert = path.with_name(path.name.replace("10-00-01", "11-00-00").replace(".jsonl", f"_{FORK}.jsonl"))
    revert.write_bytes(b.log(b.session_meta(SOURCE, history_base=base), b.user("b"), metered(150, 60, time=LATER)))
    found = stats(home)
    assert (found.sessions, found.files, found.spent.total, found.context_tokens) == (1, 2, 150, 60)
    assert rows(found.by_day) == [(DAY, 1, 1, 100, 0), (NEXT_DAY, 1, 1, 50, 60)]
    assert rows(found.by_project) == [("/p", 1, 2, 150, 60)]


def test_a_model_and_days_choose_what_was_spent_by_it_and_on_them(home: Home) -> None:
    home.add(1, b.context(None, "m1"), b.user("a"), metered(100), b.context(None, "m2"), metered(130, time=LATER))
    home.add(2, b.context(None, "m2"), b.user("a"))
    store = Store(home.path)
    assert store.stats(model="m1").spent.total == 100
    assert (store.stats(model="m2").sessions, store.stats(model="m2").without_tokens) == (2, 1)
    assert store.stats(since=NEXT_DAY).spent.total == 30
    assert store.stats(until=DAY).spent.total == 100
    assert store.stats(since="2026-03-20T23:00:00Z", until=NEXT_DAY).spent.total == 130
    assert (store.stats(since="2026-04-01").sessions, store.stats(until="2026-03-19").sessions) == (0, 0)


def test_filters_choose_sessions_and_the_archive_counts_unless_it_is_turned_off(home: Home) -> None:
    home.add(1, b.user("a"), metered(100))
    spawn = {"subagent": {"thread_spawn": {"parent_thread_id": SOURCE}}}
    home.add(2, b.user("a"), metered(20), meta=b.session_meta(FORK, cwd="/q", source=spawn))
    home.add(3, b.user("a"), metered(3), folder="archived_sessions")
    store = Store(home.path)
    assert store.stats().spent.total == 123
    assert store.stats(archived=False).spent.total == 120
    assert store.stats(archived=True).spent.total == 3
    assert store.stats(subagents=False).spent.total == 103
    assert store.stats(cwd="/q").spent.total == 20
    with pytest.raises(UsageError):
        store.stats(text="a")


def test_a_file_that_has_grown_is_read_from_where_it_was_and_the_rest_not_at_all(home: Home) -> None:
    path = home.add(1, b.context(None, "m1"), metered(100, 100))
    for n in range(40):
        append(path, b.log(b.started(f"t{n}"), b.user("a" * 9000), b.completed(f"t{n}")))
    home.add(2, b.user("a"), metered(50))
    home.digests()
    append(path, b.log(metered(160, 60)))
    home.fs.opened.clear()
    home.fs.bytes_read = 0
    assert Store(home.path, fs=home.fs).stats().spent.total == 210
    assert home.fs.opened == [path.name]
    assert home.fs.bytes_read < 100_000  # its head, its newest turns, and what tells that the rest is as it was
    home.digests()
    home.fs.opened.clear()
    assert Store(home.path, fs=home.fs).stats().spent.total == 210
    assert home.fs.opened == []


def test_a_session_that_says_nothing_of_tokens_counts_on_the_day_that_it_began(home: Home) -> None:
    home.add(1, b.context(None, "m1"), b.user("a"))
    found = stats(home)
    assert (found.sessions, found.without_tokens) == (1, 1)
    assert rows(found.by_day) == [(DAY, 1, 0, 0, 0)]
    assert rows(found.by_model) == [("m1", 1, 0, 0, 0)]


def test_what_cannot_be_read_is_noted_and_breaks_nothing(home: Home) -> None:
    home.add(1, b.user("a"), metered(100))
    broken = home.path / "sessions/2026/03/20" / f"rollout-2026-03-20T10-00-09-{FORK}.jsonl.zst"
    broken.write_bytes(b"\x28\xb5\x2f\xfd not a frame")
    (home.path / "sessions/2026/03/20/notes.jsonl").write_bytes(b"")
    found = stats(home)
    assert (found.sessions, found.spent.total) == (2, 100)
    assert "notes.jsonl" in {note.path.name for note in found.notes}


def test_an_empty_home_has_spent_nothing(home: Home) -> None:
    found = stats(home)
    assert (found.sessions, found.spent.total, found.by_day, found.by_model) == (0, 0, (), ())
