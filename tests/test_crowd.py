"""Lists of ten thousand rollouts, and of a home whose files come, go, grow and break under a live index."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rollout import Store
from tests import builders as b
from tests import homes
from tests.homes import grow, path_of, put, put_many
from tests.listings import numbers, only, pages

MANY = 10_000


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("crowd")
    put_many(home, MANY)
    return home


def test_a_list_of_twenty_opens_about_twenty_of_ten_thousand_files_and_none_when_they_are_known(crowd: Path) -> None:
    fs = homes.CountingFileSystem(crowd)
    page = Store(crowd, fs=fs).list(limit=20)
    assert numbers(page) == list(range(MANY - 1, MANY - 21, -1))
    assert page[0].first_message == f"question {MANY - 1}"
    assert 20 <= len(set(fs.opened)) <= 24
    written = [path_of(crowd, n) for n in numbers(page)]
    for path in written:
        os.utime(path, (1.7e9, 1.7e9))  # long ago: their times tell whether they have changed
    Store(crowd).list(limit=20)
    fs.opened.clear()
    assert numbers(Store(crowd, fs=fs).list(limit=20)) == numbers(page)
    assert len(set(fs.opened)) <= 4


def test_paging_through_ten_thousand_finds_each_one_once_and_in_order(crowd: Path) -> None:
    found = [numbers(page) for page in pages(Store(crowd), limit=2500)]
    assert [len(page) for page in found] == [2500] * 4
    assert [n for page in found for n in page] == list(range(MANY - 1, -1, -1))


def test_pages_neither_skip_nor_repeat_while_rollouts_come_and_go(crowd: Path) -> None:
    store, seen, gone = Store(crowd), list[int](), list[int]()
    page = store.list(limit=3000)
    while True:
        seen += numbers(page)
        if page.cursor is None:
            break
        put(crowd, 20_000 + len(seen), b.user("newer"))
        for n in (seen[-1], seen[-1] - 1, seen[-1] - 700):  # the last that was seen, the next one, a later one
            path_of(crowd, n).unlink(missing_ok=True)
            gone.append(n)
        page = store.list(limit=3000, cursor=page.cursor)
    assert len(seen) == len(set(seen))
    assert set(range(MANY)) - set(seen) <= set(gone)
    assert seen == sorted(seen, reverse=True)


# Under a live index


def test_a_file_that_grows_is_told_of_as_it_is(tmp_path: Path) -> None:
    path = put(tmp_path, 1, b.user("q"))
    store = Store(tmp_path)
    assert only(store).messages == 1
    grow(path, b.assistant("a"), b.user("more"))
    assert only(store).messages == 3
    grow(path, b.rolled_back(1))
    assert only(store).messages == 2


def test_files_that_go_are_no_longer_listed_and_others_in_their_place_are(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for n in range(5):
        put(tmp_path, n, b.user(f"first {n}"))
    assert len(store.list()) == 5
    path_of(tmp_path, 2).unlink()
    aside = put(tmp_path, 3, b.user("another")).rename(tmp_path / "aside")
    aside.rename(path_of(tmp_path, 3))
    assert numbers(store.list()) == [4, 3, 1, 0]
    assert store.list()[1].first_message == "another"


def test_a_file_that_breaks_after_it_was_listed_is_listed_with_what_is_wrong(tmp_path: Path) -> None:
    store = Store(tmp_path)
    path = put(tmp_path, 1, b.user("q"), b.user("r"))
    assert only(store).trouble is None
    path.write_bytes(b"\xff" * 50)
    assert only(store).trouble is not None
    path.write_bytes(b"")
    assert only(store).trouble == "empty"
    put(tmp_path, 1, b.user("whole again"))
    assert only(store).first_message == "whole again"
    path.unlink()
    os.mkfifo(path)
    assert not store.list()
